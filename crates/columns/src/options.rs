//! Options for tables.

use std::num::NonZeroUsize;

use arrow_schema::TimeUnit;

/// Options for a [`Table`](crate::Table) of the elements that a query selects.
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

    /// Sets the columns, which are paths of fields, such as `args.key`. Default: all single-valued
    /// fields.
    #[must_use]
    pub fn columns<T: Into<String>>(mut self, columns: impl IntoIterator<Item = T>) -> Self {
        self.columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    proto_splitter_core::options! {
        /// Sets whether to add columns for the parents of each row: the index or key in each list
        /// or map on the query's path, and the single-valued fields of each enclosing message.
        /// Default: false.
        const with_parent, get_with_parent: bool;

        /// Sets the unit of `google.protobuf.Timestamp` and `Duration` values. Finer fractions are
        /// dropped. Default: nanoseconds, which are exact but limited to the years from 1677 to
        /// 2262.
        const time_unit, get_time_unit: TimeUnit;

        /// Sets the number of threads. Default: `None`, the number of cores.
        into threads, get_threads: Option<NonZeroUsize>;
    }

    /// Returns the paths of the columns; `None` for all single-valued fields.
    pub fn get_columns(&self) -> Option<&[String]> {
        self.columns.as_deref()
    }
}
