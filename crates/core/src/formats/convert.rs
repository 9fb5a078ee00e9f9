//! Writing an input in another form.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::progress::Progress;

/// A form that a format can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvertTarget {
    /// What it is called in options: one lower-case word, as `external`.
    pub name: &'static str,
    /// What it is, in a sentence without an article, as `ONNX model with its tensors beside it`.
    pub title: &'static str,
}

/// A setting of conversions, which only one format knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvertSetting {
    /// Its name in [`ConvertOptions::settings`], as `alignment`.
    pub name: &'static str,
    /// What it says, in a sentence without an article.
    pub title: &'static str,
    /// True if the value is a size in bytes.
    pub is_size: bool,
    /// The names of the forms that it says something of.
    pub forms: &'static [&'static str],
}

/// How an input is converted.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// Whether what is in the way is replaced (no).
    pub force: bool,
    /// How many threads work (as many as there are cores).
    pub threads: Option<NonZeroUsize>,
    /// Who is told how far it is, and who may stop it (nobody).
    pub progress: Progress,
    /// What only some formats know, by name, as `alignment` is `4096` (nothing). A format refuses
    /// names that it doesn't know.
    pub settings: BTreeMap<String, String>,
}

impl ConvertOptions {
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub fn new() -> Self {
        ConvertOptions::default()
    }

    /// Whether what is in the way is replaced (no).
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// How many threads work (as many as there are cores).
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<NonZeroUsize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Who is told how far it is, and who may stop it (nobody).
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Sets what only some formats know (nothing).
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }
}

/// What a conversion wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted {
    /// The files, the main one first.
    pub files: Vec<PathBuf>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// What the user should know, a line each.
    pub notes: Vec<String>,
}

impl Converted {
    /// These files, with this many bytes in all.
    pub fn new(files: Vec<PathBuf>, bytes: u64) -> Converted {
        Converted {
            files,
            bytes,
            notes: Vec::new(),
        }
    }

    /// Adds a line for the user.
    #[must_use]
    pub fn note(mut self, line: impl Into<String>) -> Self {
        self.notes.push(line.into());
        self
    }
}
