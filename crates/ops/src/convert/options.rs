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

    /// Sets the maximum size of each file, in bytes, for forms with external data files. Default:
    /// unlimited.
    #[must_use]
    pub const fn max_file_size(mut self, bytes: Option<u64>) -> Self {
        self.max_file_size = bytes;
        self
    }

    /// Sets the options for writing chunks. For a form without chunks, the only options used are
    /// [`force`](SplitOptions::force), [`threads`](SplitOptions::threads) and
    /// [`progress`](SplitOptions::progress). Default: [`SplitOptions::new`].
    #[must_use]
    pub fn split(mut self, options: SplitOptions) -> Self {
        self.split = options;
        self
    }

    /// Returns the name of the form to write.
    pub fn get_to(&self) -> &str {
        &self.to
    }

    /// Returns the settings for the form, in the order given.
    pub fn get_settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// Returns the maximum size of each file, in bytes; `None` if unlimited.
    pub const fn get_max_file_size(&self) -> Option<u64> {
        self.max_file_size
    }

    /// Returns the options for writing chunks.
    pub const fn get_split(&self) -> &SplitOptions {
        &self.split
    }
}
