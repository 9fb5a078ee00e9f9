//! Limits on the resources that reading a model may use.

/// Default maximum number of entries in an archive: 10 million. See
/// [`SameDiffLimits::max_entries`].
pub const DEFAULT_MAX_ENTRIES: u64 = 10_000_000;

/// Default maximum size of a text file in an archive: 128 MiB. See
/// [`SameDiffLimits::max_text_size`].
pub const DEFAULT_MAX_TEXT_SIZE: u64 = 128 << 20;

/// Default maximum size of a line in a text file: 1 MiB. See [`SameDiffLimits::max_line_size`].
pub const DEFAULT_MAX_LINE_SIZE: u64 = 1 << 20;

/// Default maximum memory for the parsed lines of a text file: 512 MiB. See
/// [`SameDiffLimits::max_list_memory`].
pub const DEFAULT_MAX_LIST_MEMORY: u64 = 512 << 20;

/// Default maximum size of a decoded graph: 512 MiB. See [`SameDiffLimits::max_graph_size`].
pub const DEFAULT_MAX_GRAPH_SIZE: u64 = 512 << 20;

/// Default maximum total size of temporary files: 16 GiB. See
/// [`SameDiffLimits::max_inflated_size`].
pub const DEFAULT_MAX_INFLATED_SIZE: u64 = 16 << 30;

/// Limits on the memory and disk space that reading an untrusted model file may use.
///
/// ```
/// use proto_splitter_samediff::{SameDiffLimits, Model, ModelOptions};
///
/// let limits = SameDiffLimits::new().max_entries(100_000);
/// let options = ModelOptions::new().limits(limits);
/// assert!(Model::open_with("missing.zip", &options).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SameDiffLimits {
    max_entries: u64,
    max_text_size: u64,
    max_line_size: u64,
    max_list_memory: u64,
    max_graph_size: u64,
    max_inflated_size: u64,
}

impl Default for SameDiffLimits {
    fn default() -> Self {
        SameDiffLimits::new()
    }
}

impl SameDiffLimits {
    /// Returns the defaults; each setter documents its default.
    #[must_use]
    pub const fn new() -> Self {
        SameDiffLimits {
            max_entries: DEFAULT_MAX_ENTRIES,
            max_text_size: DEFAULT_MAX_TEXT_SIZE,
            max_line_size: DEFAULT_MAX_LINE_SIZE,
            max_list_memory: DEFAULT_MAX_LIST_MEMORY,
            max_graph_size: DEFAULT_MAX_GRAPH_SIZE,
            max_inflated_size: DEFAULT_MAX_INFLATED_SIZE,
        }
    }

    proto_splitter_core::options! {
        /// Limits the number of entries in an archive. Default: [`DEFAULT_MAX_ENTRIES`].
        const max_entries, get_max_entries: u64;

        /// Limits the size of a text file, in bytes. Default: [`DEFAULT_MAX_TEXT_SIZE`].
        const max_text_size, get_max_text_size: u64;

        /// Limits the size of a line in a text file, in bytes. Default: [`DEFAULT_MAX_LINE_SIZE`].
        const max_line_size, get_max_line_size: u64;

        /// Limits the memory for the parsed lines of a text file, in bytes. Default:
        /// [`DEFAULT_MAX_LIST_MEMORY`]. A line takes about 50 bytes more than its characters.
        const max_list_memory, get_max_list_memory: u64;

        /// Limits the size of a graph without its arrays, in bytes. Default:
        /// [`DEFAULT_MAX_GRAPH_SIZE`].
        const max_graph_size, get_max_graph_size: u64;

        /// Limits the total size of the temporary files that exist at the same time for deflated
        /// arrays of an archive, in bytes. Default: [`DEFAULT_MAX_INFLATED_SIZE`]. A deflated array
        /// needs a temporary file only if it is read in random order, or if its FlatBuffers table
        /// is after its data.
        const max_inflated_size, get_max_inflated_size: u64;
    }
}
