//! The command line of `protosplit layout`.

use std::path::PathBuf;

use clap::Args;

use super::output_file::OutputFileArgs;
use super::reading::ShardArgs;

pub(super) const HELP: &str = "\
Explains every byte of a .cpb file, or of any other Riegeli/records file: region by region,
then in total. Data is the stored records; everything else is overhead: the header of each
chunk (40 bytes), the header of each block of 64 KiB (24 bytes), padding, file metadata and
the trailer. If the chunks are in several files, each is shown.

Examples:
  protosplit layout graph.cpb
  protosplit layout graph.cpb --blocks
      Every header, and the data between them.
  protosplit layout small/ --json | jq .overhead_bytes";

#[derive(Args, Debug)]
pub(crate) struct LayoutArgs {
    /// A .cpb, .pb or Riegeli/records file, the prefix of one, or the folder of a SavedModel; -
    /// for standard input
    pub(crate) file: PathBuf,
    /// Show the contents of each region: block headers, the chunk header, data and padding
    #[arg(long)]
    pub(crate) blocks: bool,
    #[command(flatten)]
    pub(crate) shards: ShardArgs,
    #[command(flatten)]
    pub(crate) output_file: OutputFileArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
