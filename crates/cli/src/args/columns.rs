//! Options of tables.

use clap::{Args, ValueEnum};
use proto_splitter_columns::TableOptions;
use proto_splitter_columns::arrow_schema::TimeUnit;

/// Which columns a table has, and how it is made.
#[derive(Args, Clone, Debug)]
pub(crate) struct ColumnsArgs {
    /// Of parquet, arrow and csv the columns: fields of an element, or fields in those, as in
    /// name,args.key; by default all fields that hold one value
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Add columns for what each row is in: its index in every list on the way, and the fields of
    /// the messages around it
    #[arg(long)]
    with_parent: bool,
    /// What times and durations are counted in: only nanoseconds are exact, and they reach from
    /// 1677 to 2262
    #[arg(long, value_name = "UNIT", value_enum, default_value_t = Unit::Ns)]
    time_unit: Unit,
}

/// What time is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Unit {
    S,
    Ms,
    Us,
    Ns,
}

impl ColumnsArgs {
    /// What only a table has, if that was asked for.
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
