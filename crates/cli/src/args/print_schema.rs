//! The command line of `protosplit schema`.

use std::path::PathBuf;

use clap::Args;

use super::reading::ReadingArgs;

pub(super) const HELP: &str = "\
Prints the definition of a message's type as .proto text, with all files that it imports. The
type is that recorded in the file, implied by its name, or given by --message. The text
compiles to the same types again. Comments are lost: a definition doesn't contain them.

Examples:
  protosplit schema small/
  protosplit schema graph.pb --message tensorflow.GraphDef -o protos/
      A folder of .proto files, at their import paths, for protoc -I protos.";

#[derive(Args, Debug)]
pub(crate) struct PrintSchemaArgs {
    /// File or folder of any supported format, or the prefix of a .cpb file; - for standard input
    pub(crate) file: PathBuf,
    /// A new folder for the .proto files, instead of standard output
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Print one JSON object, with the text of each file
    #[arg(long, conflicts_with = "output")]
    pub(crate) json: bool,
}
