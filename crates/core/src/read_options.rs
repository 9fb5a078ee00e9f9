//! How a message is read, whatever it is stored in.

use std::num::NonZeroUsize;

use prost_reflect::{MessageDescriptor, ReflectMessage};

use crate::container::Limits;
use crate::io::threads;
use crate::progress::Progress;

/// How a message is read, be it in chunks or in one piece: what is known about it, what is accepted,
/// and how it is done. Views, comparisons, edits, trees and verifications take these;
/// [`MergeOptions`](crate::merge::MergeOptions) say besides how a merge is written.
///
/// Files in chunks with our marker need no type. For others it decides what the bytes alone can't:
/// whether a value is bytes or a number written as text, how a map's integer keys are encoded,
/// whether a message is a group, which fields share a oneof.
///
/// Each field is read by its name and set by the method of the same name.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The message's type.
    pub descriptor: Option<MessageDescriptor>,
    /// Whether the plain reading is taken where the type would decide.
    pub assume_plain: bool,
    /// What is accepted of the file.
    pub limits: Limits,
    /// How many threads read; as many as there are cores if `None`.
    pub threads: Option<NonZeroUsize>,
    /// Who is told how far it is.
    pub progress: Progress,
}

impl ReadOptions {
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        ReadOptions {
            descriptor: None,
            assume_plain: false,
            limits: Limits::new(),
            threads: None,
            progress: Progress::none(),
        }
    }

    /// Reads a message of the type `M`.
    #[must_use]
    pub fn for_message<M: ReflectMessage + Default>() -> Self {
        ReadOptions::new().descriptor(M::default().descriptor())
    }

    /// The type of the message (not known).
    #[must_use]
    pub fn descriptor(mut self, descriptor: impl Into<Option<MessageDescriptor>>) -> Self {
        self.descriptor = descriptor.into();
        self
    }

    /// Whether the plain reading is taken where the type would decide (no): a BYTES chunk is a
    /// bytes or string value, a MESSAGE chunk no group, integer keys are plain varints, and
    /// slices append.
    #[must_use]
    pub const fn assume_plain(mut self, assume_plain: bool) -> Self {
        self.assume_plain = assume_plain;
        self
    }

    /// How many threads copy chunks to where they belong (as many as there are cores). The result
    /// is the same.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<NonZeroUsize>>) -> Self {
        self.threads = threads.into();
        self.limits.threads = self.threads;
        self
    }

    /// Who is told how far it is, and who may stop it (nobody).
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    pub(crate) fn thread_count(&self) -> NonZeroUsize {
        threads::count(self.threads)
    }

    /// What is accepted of the file ([`Limits::new`]).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self.limits.threads = self.limits.threads.or(self.threads);
        self
    }
}

// prost-reflect's own `Debug` of a descriptor doesn't come to an end for a type that contains
// itself.
impl std::fmt::Debug for ReadOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let descriptor = self.descriptor.as_ref().map(MessageDescriptor::full_name);
        f.debug_struct("ReadOptions")
            .field("descriptor", &descriptor)
            .field("assume_plain", &self.assume_plain)
            .field("limits", &self.limits)
            .field("threads", &self.threads)
            .field("progress", &self.progress)
            .finish()
    }
}
