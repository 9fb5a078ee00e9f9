//! The command line of `protosplit pieces`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueParser;

use super::reading::ReadingArgs;
use super::values::largest_value;

pub(super) const HELP: &str = "\
Writes a message with a long repeated field, such as a trace, as several messages of the
same type, to files 00001.pb, 00002.pb and so on in a new folder. Each has consecutive
elements of the field. They are plain messages, which any protobuf tool opens; elements
are streamed, so a message of any size takes little memory.

With --with-rest each also has the message's other fields.

The field may be nested, as planes[0].lines[1].events: each piece then has that one plane
with that one line. With --with-rest it also has the other fields of these two and of the
message, but no other planes or lines.

Examples:
  protosplit pieces trace.pb --field packet --max-size 512MiB -o parts/ \\
      --message perf.Trace --proto perf/trace.proto
  protosplit pieces trace.pb --field 2 --count 1000000 -o parts/
      A million elements each; without a schema, name fields by number.";

#[derive(Args, Debug)]
pub(crate) struct PiecesArgs {
    /// File or folder of any supported format, or the prefix of a .cpb file; - for standard input
    pub(crate) file: PathBuf,
    /// The repeated field to divide, or the path to a nested one
    #[arg(long)]
    pub(crate) field: String,
    /// Largest size of a piece
    #[arg(long, value_name = "SIZE", required_unless_present = "count", value_parser = ValueParser::new(largest_value))]
    pub(crate) max_size: Option<u64>,
    /// Largest number of elements in a piece
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Include the message's other fields in each piece
    #[arg(long)]
    pub(crate) with_rest: bool,
    /// The new folder to write
    #[arg(short, long)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
