//! The command line of `protosplit ls`.

use std::path::PathBuf;

use clap::Args;

pub(super) const HELP: &str = "\
One line for each chunk: its index, kind, size, size in the file and what of it that
is, compression, position, crc32c and path. Reads headers only.

FILE can be a .cpb file, the prefix of one, or the folder of a SavedModel. A .pb is
one message in one piece.

Examples:
  protosplit ls graph.cpb
  protosplit ls small/ --json | jq -r '.chunks[] | select(.compression == \"none\").path'
      The chunks that are stored as they are.";

#[derive(Args, Debug)]
pub(crate) struct LsArgs {
    /// A .cpb or .pb file, its prefix, or the folder of a SavedModel
    pub(crate) file: PathBuf,
    /// The message's type, where the file doesn't say it
    #[arg(long, value_name = "TYPE")]
    pub(crate) message: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
