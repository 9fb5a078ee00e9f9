//! Options for tables.

use clap::{Args, ValueEnum};
use proto_splitter_columns::TableOptions;
use proto_splitter_columns::arrow_schema::TimeUnit;

/// The columns of a table, and the unit for times and durations.
#[derive(Args, Clone, Debug)]
pub(crate) struct ColumnsArgs {
    /// Columns of parquet, arrow and csv: fields of an element or nested fields, such as
    /// name,args.key [default: all fields with a single value]
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Add columns for the parents of each row: its index in every list on the path, and the fields
    /// of the enclosing messages
    #[arg(long)]
    with_parent: bool,
    /// Unit of times and durations: only nanoseconds are exact, and they range from 1677 to 2262
    #[arg(long, value_name = "UNIT", value_enum, default_value_t = Unit::Ns)]
    time_unit: Unit,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Unit {
    S,
    Ms,
    Us,
    Ns,
}

impl ColumnsArgs {
    /// Returns the first option that was given and applies only to tables; `None` if there is none.
    pub(crate) fn asked(&self) -> Option<&'static str> {
        [
            ("--columns", self.columns.is_some()),
            ("--with-parent", self.with_parent),
            ("--time-unit", self.time_unit != Unit::Ns),
        ]
        .into_iter()
        .find_map(|(option, is_asked)| is_asked.then_some(option))
    }

    pub(crate) fn options(&self) -> TableOptions {
        let options =
            TableOptions::new()
                .with_parent(self.with_parent)
                .time_unit(match self.time_unit {
                    Unit::S => TimeUnit::Second,
                    Unit::Ms => TimeUnit::Millisecond,
                    Unit::Us => TimeUnit::Microsecond,
                    Unit::Ns => TimeUnit::Nanosecond,
                });
        match &self.columns {
            Some(columns) => options.columns(columns.iter().map(|name| name.trim())),
            None => options,
        }
    }
}
