//! The command line of `protosplit info`.

use std::path::PathBuf;

use clap::Args;

use super::printed::PrintedArgs;
use super::reading::PartsArgs;
use super::schema::SchemaArgs;

pub(super) const HELP: &str = "\
Says what a file is. Of a model: its inputs and outputs, opsets, producer and largest tensors;
of a SavedModel its signatures; of a SameDiff model its variables and operations, and how it is
trained. Of a .cpb file the chunks, too: kind, size, size in the file, compression, position
and path. Reads headers only.

FILE can be a file of any format, a .cpb file, the prefix of one, or the folder of a model.

Examples:
  protosplit info graph.cpb
  protosplit info model.onnx
      Inputs, outputs, opsets, and the largest tensors.
  protosplit info small/ --json | jq '.chunks | max_by(.size).path'
      The largest chunk's place in the message.";

#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// A file or folder of any format, or the prefix of a .cpb file; - for standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) schema: SchemaArgs,
    #[command(flatten)]
    pub(crate) parts: PartsArgs,
    #[command(flatten)]
    pub(crate) printed: PrintedArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
