//! The command line of `protosplit ls`.

use std::path::PathBuf;

use clap::Args;

use super::output_file::OutputFileArgs;
use super::reading::ShardArgs;
use super::schema::SchemaArgs;

pub(super) const HELP: &str = "\
Prints one line for each chunk: index, kind, size, size in the file and the ratio of the two,
compression, position, crc32c and path. Reads headers only.

FILE can be a .cpb file, the prefix of one, or the folder of a SavedModel. A .pb file is one
message in one piece.

Examples:
  protosplit ls graph.cpb
  protosplit ls small/ --json | jq -r '.chunks[] | select(.compression == \"none\").path'
      The uncompressed chunks.";

#[derive(Args, Debug)]
pub(crate) struct LsArgs {
    /// File or folder of any supported format, or the prefix of a .cpb file; - for standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) schema: SchemaArgs,
    #[command(flatten)]
    pub(crate) shards: ShardArgs,
    #[command(flatten)]
    pub(crate) output_file: OutputFileArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
