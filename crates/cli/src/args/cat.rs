//! The command line of `protosplit cat`.

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Args, ValueEnum};

#[cfg(feature = "columns")]
use super::columns::ColumnsArgs;
use super::printed::PrintedArgs;
use super::reading::ReadingArgs;
use super::values::{ValueSize, value_size};

pub(super) const HELP: &str = "\
Prints a message, or what is at a path in it: in text format, as `protoc --decode`
does, as JSON, or in binary. Only the chunks on the way there and those below are
read. In binary a part of any size goes through in little memory; text and JSON are
made of the part in memory. The order is the same every time, that of map entries
too, so that two outputs can be compared line by line.

A PATH picks elements as in `get`: node[7], node[-1], node[\"relu\"], node[op=\"Const\"],
node[*], node[2:5]. With the type it is in names. Without it it is in numbers; the text is a guess then, as
`protoc --decode_raw` makes one, and there is no JSON. A file that protosplit wrote says its type; of one that isn't built in the
schema is needed, too.

Examples:
  protosplit cat small/ 'meta_graphs[0].meta_info_def'
  protosplit cat graph.cpb 'node[7]' --format json | jq .op
  protosplit cat trace.pb 'packet[*].name' --format jsonl --message perf.Trace --proto trace.proto
      One line for each, of any number.
  protosplit cat trace.pb 'packet[*]' --format parquet --columns name,args.key -o packets.parquet
      A table with a row for each, for DuckDB, Polars and pandas.
  protosplit cat graph.cpb 'node[\"relu\"]'
  protosplit cat graph.cpb library --format binary | protoc --decode_raw";

#[derive(Args, Debug)]
pub(crate) struct CatArgs {
    /// A .cpb or .pb file, its prefix, or the folder of a SavedModel; - for standard input
    pub(crate) file: PathBuf,
    /// The place in the message, as `info` shows it; by default all of it
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) path: String,
    /// What is printed
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CatFormat::Text)]
    pub(crate) format: CatFormat,
    /// Strings and bytes are shown up to this size each, or whole with `none`; not in binary
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = ValueParser::new(value_size))]
    pub(crate) max_value: ValueSize,
    #[cfg(feature = "columns")]
    #[command(flatten)]
    pub(crate) columns: ColumnsArgs,
    #[command(flatten)]
    pub(crate) printed: PrintedArgs,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
}

/// How a part is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CatFormat {
    /// A message in protobuf's text format, a value by itself
    Text,
    /// As protobuf's JSON has it
    Json,
    /// As JSON on one line, one for each value
    Jsonl,
    /// Its bytes: a message serialized, a string or bytes as they are; raw means this too
    #[value(alias = "raw")]
    Binary,
    /// A table with a row for each value, as a Parquet file
    #[cfg(feature = "columns")]
    Parquet,
    /// The same as an Arrow IPC file, which is Feather
    #[cfg(feature = "columns")]
    Arrow,
    /// The same as text with commas
    #[cfg(feature = "columns")]
    Csv,
}

/// How a table is written.
#[cfg(feature = "columns")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableFormat {
    Parquet,
    Arrow,
    Csv,
}

#[cfg(feature = "columns")]
impl CatFormat {
    /// How a table is written, if one is.
    pub(crate) fn table(self) -> Option<TableFormat> {
        match self {
            CatFormat::Parquet => Some(TableFormat::Parquet),
            CatFormat::Arrow => Some(TableFormat::Arrow),
            CatFormat::Csv => Some(TableFormat::Csv),
            _ => None,
        }
    }
}
