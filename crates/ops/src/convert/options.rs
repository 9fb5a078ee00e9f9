//! Options for [`convert`](super::convert).

use proto_splitter_core::split::SplitOptions;

/// Name that selects the default form of an input's format.
pub(super) const USUAL: &str = "auto";

/// Options for [`convert`](super::convert): the form of the output, its settings, and the options
/// for writing chunks.
///
/// ```
/// use proto_splitter_core::split::SplitOptions;
/// use proto_splitter_ops::ConversionOptions;
///
/// let options = ConversionOptions::new()
///     .to("external")
///     .setting("min-size", "4KiB")
///     .split(SplitOptions::new().force(true));
/// assert_eq!(options.get_to(), "external");
/// assert!(options.get_split().get_force());
/// ```
#[derive(Clone, Debug)]
pub struct ConversionOptions {
    to: String,
    settings: Vec<(String, String)>,
    max_file_size: Option<u64>,
    split: SplitOptions,
}

impl Default for ConversionOptions {
    fn default() -> Self {
        ConversionOptions {
            to: USUAL.to_owned(),
            settings: Vec::new(),
            max_file_size: None,
            split: SplitOptions::new(),
        }
    }
}

impl ConversionOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        ConversionOptions::default()
    }

    /// Sets the name of the form to write. Default: `auto`, which writes chunks if the output's
    /// name ends in `.cpb`, and otherwise uses the default form of the input's format.
    #[must_use]
    pub fn to(mut self, form: impl Into<String>) -> Self {
        self.to = form.into();
        self
    }

    /// Adds a setting for the form. Sizes may have units, such as `4KiB`. A setting that only
    /// affects how inputs are opened is ignored. Default: none.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    proto_splitter_core::options! {
        /// Sets the maximum size of each file, in bytes, for forms with external data files.
        /// Default: `None`, unlimited.
        const max_file_size, get_max_file_size: Option<u64>;

        /// Sets the options for writing chunks. For a form without chunks, the only options used
        /// are [`force`](SplitOptions::force), [`threads`](SplitOptions::threads) and
        /// [`progress`](SplitOptions::progress). Default: [`SplitOptions::new`].
        ref split, get_split: SplitOptions;
    }

    /// Returns the name of the form to write.
    pub fn get_to(&self) -> &str {
        &self.to
    }

    /// Returns the settings for the form, in the order given.
    pub fn get_settings(&self) -> &[(String, String)] {
        &self.settings
    }
}
