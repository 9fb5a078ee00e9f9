//! The command line of `protosplit info`.

use std::path::PathBuf;

use clap::Args;

use super::output_file::OutputFileArgs;
use super::reading::ShardArgs;
use super::schema::SchemaArgs;

pub(super) const HELP: &str = "\
Summarizes a file. For a model: inputs and outputs, opsets, producer and largest tensors; for
a SavedModel its signatures; for a SameDiff model its variables, operations and training
settings. For a .cpb file also the chunks: kind, size, size in the file, compression,
position and path. Reads the headers of chunks and the structure of a model, not the elements
of its tensors.

FILE can be a file of any format, a .cpb file, the prefix of one, or the folder of a model.

Examples:
  protosplit info graph.cpb
  protosplit info model.onnx
      Inputs, outputs, opsets, and the largest tensors.
  protosplit info small/ --json | jq '.chunks | max_by(.size).path'
      The path of the largest chunk.";

#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// A file or folder of any format, or the prefix of a .cpb file; - for standard input
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
