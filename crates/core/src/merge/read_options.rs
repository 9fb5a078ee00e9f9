//! Options for reading a message, in chunks or in one piece.

use std::num::NonZeroUsize;

use prost_reflect::{MessageDescriptor, ReflectMessage};

use crate::container::Limits;
use crate::io::threads;
use crate::progress::Progress;

/// Options for reading a message, in chunks or in one piece: its type, the limits, and resources.
/// Views, comparisons, edits, size trees and verifications accept these options;
/// [`MergeOptions`](crate::merge::MergeOptions) add options for writing a merged message.
///
/// Chunked files that mark each cut with a placeholder need no type. For other messages, the type
/// determines properties that the bytes alone don't show: whether a value is bytes or a number
/// written as text, how a map's integer keys are encoded, whether a message is a group, and which
/// fields share a oneof.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ReadOptions {
    pub(crate) descriptor: Option<MessageDescriptor>,
    pub(crate) assume_plain: bool,
    pub(crate) limits: Limits,
    pub(crate) threads: Option<NonZeroUsize>,
    pub(crate) progress: Progress,
}

impl ReadOptions {
    /// Creates the default options.
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

    /// Creates options for a message of type `M`.
    #[must_use]
    pub fn for_message<M: ReflectMessage + Default>() -> Self {
        ReadOptions::new().descriptor(M::default().descriptor())
    }

    crate::options! {
        /// Sets the type of the message. Default: unknown.
        optional descriptor, get_descriptor: MessageDescriptor;

        /// Sets whether a merge chooses the plain interpretation if it needs the message's type,
        /// but the type is unknown. Default: no. In the plain interpretation, a BYTES chunk is a
        /// bytes or string value, a MESSAGE chunk is not a group, integer keys are plain varints,
        /// and slices are appended.
        const assume_plain, get_assume_plain: bool;

        /// Sets the number of threads that copy chunks to their places in the merged message.
        /// Default: `None`, the number of cores. The merged message doesn't depend on this number.
        into threads, get_threads: Option<NonZeroUsize>;

        /// Sets progress reporting and cancellation. Default: none.
        ref progress, get_progress: Progress;

        /// Sets the limits that the file must not exceed. Default: [`Limits::new`].
        ref limits, get_limits: Limits;
    }

    pub(crate) fn thread_count(&self) -> NonZeroUsize {
        threads::count(self.threads)
    }
}

// prost-reflect's `Debug` of a descriptor recurses endlessly for a type that contains itself.
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
