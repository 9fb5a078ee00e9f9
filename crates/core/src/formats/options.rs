//! Options for opening an input.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use prost_reflect::{DescriptorPool, MessageDescriptor};

use crate::merge::{Limits, ReadOptions};
use crate::progress::Progress;

/// Options for opening an input, and for reading it afterwards.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Type of the message, which takes precedence over the input's.
    pub descriptor: Option<MessageDescriptor>,
    /// Schemas in which to look up the type of an input in chunks first.
    pub schemas: Option<DescriptorPool>,
    /// The file that accompanies the input, if it isn't where its format looks for it: the program
    /// of a parameter file.
    pub companion: Option<PathBuf>,
    /// Limits on the input.
    pub limits: Limits,
    /// Number of threads for reading; `None` for the number of cores.
    pub threads: Option<NonZeroUsize>,
    /// Progress reporting and cancellation.
    pub progress: Progress,
    /// True if files that the input refers to may be missing, for callers that inspect a message
    /// without needing their content. See [`Opened::outside_files`](super::Opened::outside_files).
    pub allow_missing_files: bool,
    /// True to merge without the message's type, with the plainest interpretation.
    pub assume_plain: bool,
    /// Format-specific settings by name, as in
    /// [`Format::open_settings`](super::Format::open_settings).
    pub settings: BTreeMap<String, String>,
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
            .finish_non_exhaustive()
    }
}

impl OpenOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        OpenOptions::default()
    }

    /// Sets the type of the message. Default: as the input or its format declares.
    #[must_use]
    pub fn descriptor(mut self, descriptor: impl Into<Option<MessageDescriptor>>) -> Self {
        self.descriptor = descriptor.into();
        self
    }

    /// Sets schemas in which to look up the type of an input in chunks first. Default: none.
    #[must_use]
    pub fn schemas(mut self, schemas: impl Into<Option<DescriptorPool>>) -> Self {
        self.schemas = schemas.into();
        self
    }

    /// Sets the file that accompanies the input. Default: found by its format. A format without
    /// such files refuses one.
    #[must_use]
    pub fn companion(mut self, companion: impl Into<Option<PathBuf>>) -> Self {
        self.companion = companion.into();
        self
    }

    /// Sets the limits on the input. Default: [`Limits::new`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the number of threads for reading. Default: the number of cores.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<NonZeroUsize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Sets progress reporting and cancellation. Default: none.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Sets whether files that the input refers to may be missing. Default: no, which makes opening
    /// fail.
    #[must_use]
    pub const fn allow_missing_files(mut self, allow: bool) -> Self {
        self.allow_missing_files = allow;
        self
    }

    /// Sets whether to merge without the message's type where the type would matter, like
    /// [`ReadOptions::assume_plain`]. Default: no.
    #[must_use]
    pub const fn assume_plain(mut self, assume: bool) -> Self {
        self.assume_plain = assume;
        self
    }

    /// Sets format-specific settings. Default: none. Formats ignore unknown names.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
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
