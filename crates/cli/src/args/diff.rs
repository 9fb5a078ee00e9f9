//! The command line of `protosplit diff`.

use std::path::PathBuf;

use clap::Args;

use super::output_file::OutputFileArgs;
use super::reading::ReadingArgs;

pub(super) const HELP: &str = "\
Compares two messages, and lists their first differences. Each can be a file or folder of any
supported format, or the prefix of a .cpb file, and one of them - for standard input. Neither
is held in memory.

Messages are equal if a program that reads them can't tell them apart: the order of
different fields doesn't matter, nor that of map entries, nor the packing of numbers.
Floats are compared by their bits. Without a type, fields are compared by number in their
encoded form.

Elements of a list are matched by name if all have one: a node inserted at the front is one
difference. Elements without names are matched by content. Paths refer to the first message,
or to the second for values that only it has.

Exit status 1 if they differ.

Examples:
  protosplit diff old/ new/
  protosplit diff graph.pb graph.cpb --message tensorflow.GraphDef
  git show HEAD:graph.pb | protosplit diff - graph.pb --message tensorflow.GraphDef
  protosplit diff old.cpb new.cpb --limit 100 --json | jq -r '.differences[].path'";

#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// File or folder of any supported format, or the prefix of a .cpb file; - for standard input
    pub(crate) first: PathBuf,
    /// The other message: a file, prefix, folder or -
    pub(crate) second: PathBuf,
    /// Largest number of differences to list
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) output_file: OutputFileArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
