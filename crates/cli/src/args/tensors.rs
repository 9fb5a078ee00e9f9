//! The command line of `protosplit tensors`.

use std::path::PathBuf;

use clap::Args;

use super::output_file::OutputFileArgs;
use super::reading::ReadingArgs;

pub(super) const HELP: &str = "\
Lists the tensors of a file by name, with element types, shapes, sizes and locations. No
element is read.

FILE is anything with tensors: a model as one message or in chunks, the folder or the files
of a model, a checkpoint. A TensorFlow constant is named after its node: NODE, or
FUNCTION/NODE in a function.

Examples:
  protosplit tensors model/
  protosplit tensors graph.pb --message tensorflow.GraphDef
  protosplit tensors model/ --json | jq '.tensors[] | select(.bytes > 1e6) | .name'
  protosplit get model/ --tensor dense/kernel --format npy -o kernel.npy
      One of them.
  protosplit export model/ -o model.safetensors
      All of them.";

#[derive(Args, Debug)]
pub(crate) struct TensorsArgs {
    /// A file or folder with tensors, or the common prefix of several files; - for standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) output_file: OutputFileArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
}
