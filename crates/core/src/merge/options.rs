//! Options for writing a merged message.

use crate::merge::read_options::ReadOptions;

/// Options for reading a message with a [`Merger`](super::Merger), and for writing it.
///
/// Functions that only read accept [`ReadOptions`], which convert to `MergeOptions` with default
/// options for writing.
///
/// ```
/// use proto_splitter_core::ReadOptions;
/// use proto_splitter_core::merge::{MergeOptions, Merger};
///
/// let reading = ReadOptions::new().assume_plain(true);
/// let options = MergeOptions::new().reading(reading.clone()).force(true);
/// assert!(options.get_reading().get_assume_plain() && options.get_force());
/// let merger = Merger::new().options(&reading);
/// # let _ = merger;
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MergeOptions {
    pub(crate) reading: ReadOptions,
    pub(crate) force: bool,
}

impl MergeOptions {
    /// Creates the default options.
    #[must_use]
    pub const fn new() -> Self {
        MergeOptions {
            reading: ReadOptions::new(),
            force: false,
        }
    }

    crate::options! {
        /// Sets the options for reading the message. Default: [`ReadOptions::new`].
        ref reading, get_reading: ReadOptions;

        /// Sets whether a merge overwrites an existing file. Default: no.
        const force, get_force: bool;
    }
}

impl From<ReadOptions> for MergeOptions {
    fn from(reading: ReadOptions) -> Self {
        MergeOptions::new().reading(reading)
    }
}

impl From<&ReadOptions> for MergeOptions {
    fn from(reading: &ReadOptions) -> Self {
        reading.clone().into()
    }
}

impl From<&MergeOptions> for MergeOptions {
    fn from(options: &MergeOptions) -> Self {
        options.clone()
    }
}
