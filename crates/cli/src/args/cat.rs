//! The command line of `protosplit cat`.

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Args, ValueEnum};

#[cfg(feature = "columns")]
use super::columns::ColumnsArgs;
use super::output_file::OutputFileArgs;
use super::reading::ReadingArgs;
use super::values::{ValueSize, value_size};

pub(super) const HELP: &str = "\
Prints a message, or the value at a path in it: in text format, as `protoc --decode`
does, as JSON, or in binary. Only the chunks on the path and below it are read. Binary
output of any size takes little memory; for text and JSON the part is held in memory. The
order is always the same, also of map entries, so that outputs can be compared line by line.

A PATH picks elements as in `get`: node[7], node[-1], node[\"relu\"], node[op=\"Const\"],
node[*], node[2:5], node[op=\"Add\", id>5]. If the type is known, a PATH has field names.
Otherwise it has field numbers; the text is then a guess, as with `protoc --decode_raw`,
and JSON isn't available. Files written by protosplit name their type; a type that isn't built in
also needs its schema.

Examples:
  protosplit cat small/ 'meta_graphs[0].meta_info_def'
  protosplit cat graph.cpb 'node[7]' --format json | jq .op
  protosplit cat trace.pb 'packet[*].name' --format jsonl --message perf.Trace --proto trace.proto
      One line for each element, however many.
  protosplit cat trace.pb 'packet[*]' --format parquet --columns name,args.key -o packets.parquet
      A table with a row for each, for DuckDB, Polars and pandas.
  protosplit cat graph.cpb 'node[*]' --count --by op
      How many there are of each op; --sum adds up numbers.
  protosplit cat graph.cpb 'node[\"relu\"]'
  protosplit cat graph.cpb library --format binary | protoc --decode_raw";

#[derive(Args, Debug)]
pub(crate) struct CatArgs {
    /// File or folder of any supported format, or the prefix of a .cpb file; - for standard input
    pub(crate) file: PathBuf,
    /// Path in the message, as `tree --full-paths` shows it [default: the whole message]
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) path: String,
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CatFormat::Text)]
    pub(crate) format: CatFormat,
    /// Cut strings and bytes longer than this, or `none`; not in binary
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = ValueParser::new(value_size))]
    pub(crate) max_value: ValueSize,
    #[command(flatten)]
    pub(crate) tally: TallyArgs,
    #[cfg(feature = "columns")]
    #[command(flatten)]
    pub(crate) columns: ColumnsArgs,
    #[command(flatten)]
    pub(crate) output_file: OutputFileArgs,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
}

/// Options for counting and adding up values instead of printing them.
#[derive(Args, Clone, Debug)]
pub(crate) struct TallyArgs {
    /// Print the number of values instead of the values
    #[arg(long)]
    pub(crate) count: bool,
    /// Print the sum of the numbers at these paths in the values, such as size,args.bytes; . for
    /// the values themselves
    #[arg(long, value_name = "PATHS", value_delimiter = ',')]
    pub(crate) sum: Vec<String>,
    /// Group counts and sums by the values at these paths, the largest first
    #[arg(long, value_name = "PATHS", value_delimiter = ',')]
    pub(crate) by: Vec<String>,
}

impl TallyArgs {
    pub(crate) fn is_asked(&self) -> bool {
        self.count || !self.sum.is_empty() || !self.by.is_empty()
    }
}

/// An output format of `cat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CatFormat {
    /// A message in protobuf's text format, any other value as plain text
    Text,
    /// Protobuf's JSON
    Json,
    /// Protobuf's JSON, one line for each value
    Jsonl,
    /// The bytes: a message serialized, a string or bytes unchanged; also called raw
    #[value(alias = "raw")]
    Binary,
    /// A table with a row for each value, as a Parquet file
    #[cfg(feature = "columns")]
    Parquet,
    /// The same table as an Arrow IPC (Feather) file
    #[cfg(feature = "columns")]
    Arrow,
    /// The same table as comma-separated text
    #[cfg(feature = "columns")]
    Csv,
}
