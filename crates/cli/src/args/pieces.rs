//! The command line of `protosplit pieces`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueParser;

use super::reading::ReadingArgs;
use super::values::largest_value;

pub(super) const HELP: &str = "\
Writes a message with a long repeated field, as a trace, as several messages of its
type, to files 00001.pb, 00002.pb and so on in a new folder: each has some of the
elements, one after the other. They are plain messages, which any protobuf tool
opens; only their sizes are looked at, so a message of any size takes little memory.

With --with-rest each has the message's other fields, too.

The field may lie below, as planes[0].lines[1].events: each piece then has that one
plane with that one line, and with --with-rest what else is in these two, and in the
message itself, but neither other planes nor other lines.

Examples:
  protosplit pieces trace.pb --field packet --max-size 512MiB -o parts/ \\
      --message perf.Trace --proto perf/trace.proto
  protosplit pieces trace.pb --field 2 --count 1000000 -o parts/
      A million elements for each; without a schema, fields are told by number.";

#[derive(Args, Debug)]
pub(crate) struct PiecesArgs {
    /// A .cpb or .pb file, its prefix, or the folder of a SavedModel; - for standard input
    pub(crate) file: PathBuf,
    /// The repeated field whose elements are shared out, or the path to one below
    #[arg(long)]
    pub(crate) field: String,
    /// The most bytes of a piece
    #[arg(long, value_name = "SIZE", required_unless_present = "count", value_parser = ValueParser::new(largest_value))]
    pub(crate) max_size: Option<u64>,
    /// The most elements of a piece
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Give each piece the message's other fields, too
    #[arg(long)]
    pub(crate) with_rest: bool,
    /// The folder to write, a new one
    #[arg(short, long)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
