//! How an input is opened.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use prost_reflect::{DescriptorPool, MessageDescriptor};

use crate::merge::{Limits, ReadOptions};
use crate::progress::Progress;

/// How an input is opened, and how it is read from then on.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// The type of the message, if the caller knows better than the input.
    pub descriptor: Option<MessageDescriptor>,
    /// Schemas that the type of an input in chunks is looked up in first.
    pub schemas: Option<DescriptorPool>,
    /// The file that goes with the input, if it isn't where its format looks for it: the program of
    /// a file of parameters.
    pub companion: Option<PathBuf>,
    /// What is accepted of the input.
    pub limits: Limits,
    /// How many threads read; none for as many as there are cores.
    pub threads: Option<NonZeroUsize>,
    /// Who is told how far it is, and who may stop it.
    pub progress: Progress,
    /// Whether files that the input refers to may be missing: for callers that look at a message
    /// and can do without what is in them. See [`Opened::outside_files`](super::Opened::outside_files).
    pub allow_missing_files: bool,
    /// Whether a merge does without the message's type, and takes the plainest reading.
    pub assume_plain: bool,
    /// What only some formats know, by name: those of [`Format::open_settings`](super::Format::open_settings).
    pub settings: BTreeMap<String, String>,
}

// By hand: the `Debug` of a descriptor doesn't end for a type that contains itself.
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
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub fn new() -> Self {
        OpenOptions::default()
    }

    /// The type of the message (what the input or its format says).
    #[must_use]
    pub fn descriptor(mut self, descriptor: impl Into<Option<MessageDescriptor>>) -> Self {
        self.descriptor = descriptor.into();
        self
    }

    /// Schemas that the type of an input in chunks is looked up in first (none).
    #[must_use]
    pub fn schemas(mut self, schemas: impl Into<Option<DescriptorPool>>) -> Self {
        self.schemas = schemas.into();
        self
    }

    /// The file that goes with the input (where its format looks for it). A format whose inputs go
    /// with no other file refuses one.
    #[must_use]
    pub fn companion(mut self, companion: impl Into<Option<PathBuf>>) -> Self {
        self.companion = companion.into();
        self
    }

    /// What is accepted of the input ([`Limits::new`]).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How many threads read (as many as there are cores).
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

    /// Whether files that the input refers to may be missing (no: opening it fails).
    #[must_use]
    pub const fn allow_missing_files(mut self, allow: bool) -> Self {
        self.allow_missing_files = allow;
        self
    }

    /// Sets whether a merge does without the message's type where it would decide, as
    /// [`ReadOptions::assume_plain`] does. Default: no.
    #[must_use]
    pub const fn assume_plain(mut self, assume: bool) -> Self {
        self.assume_plain = assume;
        self
    }

    /// Sets what only some formats know (nothing). Formats pass over what they don't know.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// The same for reading a message of this type.
    pub(super) fn reading(&self, descriptor: Option<MessageDescriptor>) -> ReadOptions {
        ReadOptions::new()
            .descriptor(descriptor)
            .limits(self.limits.clone())
            .threads(self.threads)
            .assume_plain(self.assume_plain)
            .progress(self.progress.clone())
    }
}
