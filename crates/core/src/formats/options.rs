//! Options for opening an input.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use prost_reflect::{DescriptorPool, MessageDescriptor};

use crate::container::MerkleRoot;
use crate::merge::{Limits, ReadOptions};
use crate::progress::Progress;

/// Options for opening an input, and for reading it afterwards.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    pub(crate) descriptor: Option<MessageDescriptor>,
    pub(crate) schemas: Option<DescriptorPool>,
    pub(crate) companion: Option<PathBuf>,
    pub(crate) limits: Limits,
    pub(crate) threads: Option<NonZeroUsize>,
    pub(crate) progress: Progress,
    pub(crate) allow_missing_files: bool,
    pub(crate) assume_plain: bool,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) root: Option<MerkleRoot>,
}

// Implemented manually: a descriptor's `Debug` recurses endlessly for a type that contains itself.
impl std::fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let descriptor = self.descriptor.as_ref().map(MessageDescriptor::full_name);
        f.debug_struct("OpenOptions")
            .field("descriptor", &descriptor)
            .field("companion", &self.companion)
            .field("limits", &self.limits)
            .field("threads", &self.threads)
            .field("progress", &self.progress)
            .field("allow_missing_files", &self.allow_missing_files)
            .field("assume_plain", &self.assume_plain)
            .field("settings", &self.settings)
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl OpenOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        OpenOptions::default()
    }

    /// Sets the file that accompanies the input. Default: the format finds the file. Opening fails
    /// if the file is set, but inputs of the format have no such file.
    #[must_use]
    pub fn companion(mut self, companion: impl Into<Option<PathBuf>>) -> Self {
        self.companion = companion.into();
        self
    }

    crate::options! {
        /// Sets the type of the message. Default: the type that the input or its format declares.
        optional descriptor, get_descriptor: MessageDescriptor;

        /// Sets schemas that are searched for the input's type before embedded and built-in
        /// schemas. Default: none.
        optional schemas, get_schemas: DescriptorPool;

        /// Sets the limits on the input. Default: [`Limits::new`].
        ref limits, get_limits: Limits;

        /// Sets the number of threads for reading. Default: `None`, the number of cores.
        into threads, get_threads: Option<NonZeroUsize>;

        /// Sets progress reporting and cancellation. Default: none.
        ref progress, get_progress: Progress;

        /// Sets whether files that the input refers to may be missing. Default: no, so that opening
        /// fails if one is missing.
        const allow_missing_files, get_allow_missing_files: bool;

        /// Sets whether a message whose type is needed but unknown is read with the plain
        /// interpretation that [`ReadOptions::assume_plain`] describes. Default: false.
        const assume_plain, get_assume_plain: bool;

        /// Sets the Merkle root that the input must have. Everything that is read from the input is
        /// first checked against the root: see
        /// [`ChunkedFile::require_root`](crate::ChunkedFile::require_root). Default: none. Only
        /// messages in chunks have roots; other inputs are refused.
        optional root, get_root: MerkleRoot;
    }

    /// Sets the value of a format-specific setting. Default: no settings. Formats ignore unknown
    /// names.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// Returns the file that accompanies the input; `None` if the format finds the file.
    pub fn get_companion(&self) -> Option<&Path> {
        self.companion.as_deref()
    }

    /// Returns the format-specific settings, by name.
    pub const fn get_settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// Returns the equivalent options for reading a message of this type.
    pub(super) fn reading(&self, descriptor: Option<MessageDescriptor>) -> ReadOptions {
        ReadOptions::new()
            .descriptor(descriptor)
            .limits(self.limits.clone())
            .threads(self.threads)
            .assume_plain(self.assume_plain)
            .progress(self.progress.clone())
    }
}
