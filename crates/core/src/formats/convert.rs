//! Converting an input to another form.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::progress::Progress;
use crate::{Error, ErrorKind, Result};

/// A form that a format can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvertTarget {
    /// Name of the form in options: one lower-case word, such as `external`.
    pub name: &'static str,
    /// Name of the form for use in a sentence, without an article, such as `ONNX model with its
    /// tensors beside it`.
    pub title: &'static str,
}

/// A format-specific setting for conversions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvertSetting {
    /// Name of the setting in [`ConvertOptions::setting`], such as `alignment`.
    pub name: &'static str,
    /// Description for use in a sentence, without an article.
    pub title: &'static str,
    /// True if the setting's value is a size in bytes.
    pub is_size: bool,
    /// Names of the forms that the setting applies to.
    pub forms: &'static [&'static str],
}

/// Options for a conversion.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    pub(crate) force: bool,
    pub(crate) threads: Option<NonZeroUsize>,
    pub(crate) progress: Progress,
    pub(crate) settings: BTreeMap<String, String>,
}

impl ConvertOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        ConvertOptions::default()
    }

    crate::options! {
        /// Sets whether to overwrite existing output. Default: false.
        const force, get_force: bool;

        /// Sets the number of threads. Default: `None`, the number of cores.
        into threads, get_threads: Option<NonZeroUsize>;

        /// Sets progress reporting and cancellation. Default: none.
        ref progress, get_progress: Progress;
    }

    /// Fails if a setting was set whose name isn't in `known`.
    ///
    /// ```
    /// use proto_splitter_core::formats::ConvertOptions;
    ///
    /// let options = ConvertOptions::new().setting("alignment", "4096");
    /// assert!(options.check_settings(&["alignment", "shards"]).is_ok());
    /// assert!(options.check_settings(&[]).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] with the name of the first unknown setting.
    pub fn check_settings(&self, known: &[&str]) -> Result<()> {
        let mut names = self.settings.keys();
        let Some(name) = names.find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let message = format!("there is no setting {name:?} for this form");
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }

    /// Sets the value of a format-specific setting. Default: no settings.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// Returns the format-specific settings, by name.
    pub const fn get_settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }
}

/// A report on the files that a conversion wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted {
    /// The written files, the main file first.
    pub files: Vec<PathBuf>,
    /// Total size of the files, in bytes.
    pub bytes: u64,
    /// Notes for the user, one line each.
    pub notes: Vec<String>,
}

impl Converted {
    /// Creates a report on these files, with this total size in bytes.
    pub fn new(files: Vec<PathBuf>, bytes: u64) -> Converted {
        Converted {
            files,
            bytes,
            notes: Vec::new(),
        }
    }

    /// Adds a note for the user.
    #[must_use]
    pub fn note(mut self, line: impl Into<String>) -> Self {
        self.notes.push(line.into());
        self
    }
}
