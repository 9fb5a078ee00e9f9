//! How a table is made.

use std::num::NonZeroUsize;

use arrow_schema::TimeUnit;

/// How a [`Table`](crate::Table) is made of the elements that a query finds.
///
/// ```
/// use proto_splitter_columns::TableOptions;
///
/// let options = TableOptions::new().columns(["name", "args.key"]).with_parent(true);
/// ```
#[derive(Clone, Debug)]
pub struct TableOptions {
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) with_parent: bool,
    pub(crate) time_unit: TimeUnit,
    pub(crate) threads: Option<NonZeroUsize>,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            columns: None,
            with_parent: false,
            time_unit: TimeUnit::Nanosecond,
            threads: None,
        }
    }
}

impl TableOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Self {
        TableOptions::default()
    }

    /// Makes these fields the columns: names, or names of fields in fields as in `args.key`. By
    /// default each field that holds one value has a column.
    #[must_use]
    pub fn columns<T: Into<String>>(mut self, columns: impl IntoIterator<Item = T>) -> Self {
        self.columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Adds which element each row is, and what it is in: for each list that the query goes
    /// through the index or key, and the fields that hold one value of the messages around the row. By
    /// default not.
    #[must_use]
    pub fn with_parent(mut self, with_parent: bool) -> Self {
        self.with_parent = with_parent;
        self
    }

    /// Counts the time of a `google.protobuf.Timestamp` or `Duration` in this unit. By default
    /// nanoseconds, which are exact and reach from 1677 to 2262. What is finer is cut off.
    #[must_use]
    pub fn time_unit(mut self, unit: TimeUnit) -> Self {
        self.time_unit = unit;
        self
    }

    /// Works on this many threads. By default as many as there are cores.
    #[must_use]
    pub fn threads(mut self, threads: Option<NonZeroUsize>) -> Self {
        self.threads = threads;
        self
    }
}
