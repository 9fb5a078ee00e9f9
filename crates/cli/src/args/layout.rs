//! The command line of `protosplit layout`.

use std::path::PathBuf;

use clap::Args;

pub(super) const HELP: &str = "\
Says what every byte of a .cpb file, or of any other Riegeli/records file, is for:
region by region, then in total. Data is what the records take as they are stored;
the rest is overhead: the header of each chunk (40 bytes), the header of each block
of 64 KiB (24 bytes), padding, file metadata and the trailer.

Examples:
  protosplit layout graph.cpb
  protosplit layout small/ --json | jq .overhead_bytes";

#[derive(Args, Debug)]
pub(crate) struct LayoutArgs {
    /// A .cpb, .pb or Riegeli/records file, the prefix of one, or the folder of a SavedModel; - for standard input
    pub(crate) file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
