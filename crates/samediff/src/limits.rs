//! What a reader puts up with.

/// The default of [`Limits::max_entries`]: 10 million.
pub const DEFAULT_MAX_ENTRIES: u64 = 10_000_000;

/// The default of [`Limits::max_text_size`]: 256 MiB.
pub const DEFAULT_MAX_TEXT_SIZE: u64 = 256 << 20;

/// The default of [`Limits::max_graph_size`]: 512 MiB.
pub const DEFAULT_MAX_GRAPH_SIZE: u64 = 512 << 20;

/// What a reader holds in memory at the most, since a file is not trusted.
///
/// ```
/// use proto_splitter_samediff::{Limits, Model, ModelOptions};
///
/// let limits = Limits::new().max_entries(100_000);
/// let options = ModelOptions::new().limits(limits);
/// assert!(Model::open_with("missing.zip", &options).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    max_entries: u64,
    max_text_size: u64,
    max_graph_size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits::new()
    }
}

impl Limits {
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        Limits {
            max_entries: DEFAULT_MAX_ENTRIES,
            max_text_size: DEFAULT_MAX_TEXT_SIZE,
            max_graph_size: DEFAULT_MAX_GRAPH_SIZE,
        }
    }

    /// The most entries that an archive may have ([`DEFAULT_MAX_ENTRIES`]).
    #[must_use]
    pub const fn max_entries(mut self, entries: u64) -> Self {
        self.max_entries = entries;
        self
    }

    /// The most bytes that a text file may have ([`DEFAULT_MAX_TEXT_SIZE`]).
    #[must_use]
    pub const fn max_text_size(mut self, bytes: u64) -> Self {
        self.max_text_size = bytes;
        self
    }

    /// The most bytes that a graph without its arrays may have ([`DEFAULT_MAX_GRAPH_SIZE`]).
    #[must_use]
    pub const fn max_graph_size(mut self, bytes: u64) -> Self {
        self.max_graph_size = bytes;
        self
    }

    pub(crate) const fn get_max_entries(&self) -> u64 {
        self.max_entries
    }

    pub(crate) const fn get_max_text_size(&self) -> u64 {
        self.max_text_size
    }

    pub(crate) const fn get_max_graph_size(&self) -> u64 {
        self.max_graph_size
    }
}
