//! What a merge may take and how it is done.

use std::num::NonZeroUsize;

use prost_reflect::{MessageDescriptor, ReflectMessage};

use crate::progress::Progress;
use crate::split::LARGEST_DEPTH_LIMIT;
use crate::threads;

/// How many messages deep a path may lead, or messages nest that are compared or measured:
/// protobuf's own default.
pub const DEFAULT_MAX_MESSAGE_DEPTH: usize = 100;

/// How deep `ChunkedMessage`s may nest. Each level takes two of the hundred that the trailer's own
/// parser allows.
pub const DEFAULT_MAX_NESTING: usize = 48;

/// How large a trailer may be: 256 MiB, enough for millions of chunks.
pub const DEFAULT_MAX_TRAILER_SIZE: u64 = 256 << 20;

/// How many messages a trailer may consist of: 8,388,608. They are about a dozen for each chunk, so
/// it is enough for 700,000 chunks; in memory each takes some hundred bytes.
pub const DEFAULT_MAX_TRAILER_MESSAGES: u64 = 1 << 23;

/// How large a record chunk that several chunks share may be to be decoded once and kept: 64 MiB,
/// many times what writers make.
pub const DEFAULT_MAX_CACHED_SIZE: u64 = 64 << 20;

/// How often a trailer may itself be chunked. Each time it gets many times smaller.
pub const DEFAULT_MAX_TRAILER_LEVELS: u32 = 8;

/// How many other files chunks may be in. All are open at once.
pub const DEFAULT_MAX_FILES: usize = 4096;

/// What a merge accepts of a file that nobody vouches for.
///
/// ```
/// use proto_splitter_core::merge::{DEFAULT_MAX_MESSAGE_DEPTH, Limits, MergeOptions};
///
/// const LIMITS: Limits = Limits::new().max_message_size(4 << 30); // 4 GiB
/// let options = MergeOptions::new().limits(LIMITS);
/// assert_eq!(options.get_limits().get_max_message_depth(), DEFAULT_MAX_MESSAGE_DEPTH);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub(crate) max_message_depth: usize,
    pub(crate) max_nesting: usize,
    pub(crate) max_trailer_size: u64,
    pub(crate) max_trailer_messages: u64,
    pub(crate) max_trailer_levels: u32,
    pub(crate) max_files: usize,
    pub(crate) allow_outside: bool,
    pub(crate) max_cached_size: u64,
    pub(crate) max_message_size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits::new()
    }
}

impl Limits {
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        Limits {
            max_message_depth: DEFAULT_MAX_MESSAGE_DEPTH,
            max_nesting: DEFAULT_MAX_NESTING,
            max_trailer_size: DEFAULT_MAX_TRAILER_SIZE,
            max_trailer_messages: DEFAULT_MAX_TRAILER_MESSAGES,
            max_trailer_levels: DEFAULT_MAX_TRAILER_LEVELS,
            max_files: DEFAULT_MAX_FILES,
            allow_outside: false,
            max_cached_size: DEFAULT_MAX_CACHED_SIZE,
            max_message_size: isize::MAX.unsigned_abs() as u64,
        }
    }

    /// How many messages deep a path may lead ([`DEFAULT_MAX_MESSAGE_DEPTH`]). Messages that are
    /// compared or measured are walked as deep, but for more than [`LARGEST_DEPTH_LIMIT`]
    /// levels.
    #[must_use]
    pub const fn max_message_depth(mut self, messages: usize) -> Self {
        self.max_message_depth = messages;
        self
    }

    /// How deep `ChunkedMessage`s may nest ([`DEFAULT_MAX_NESTING`]).
    #[must_use]
    pub const fn max_nesting(mut self, levels: usize) -> Self {
        self.max_nesting = levels;
        self
    }

    /// How large a trailer may be, in bytes ([`DEFAULT_MAX_TRAILER_SIZE`]).
    #[must_use]
    pub const fn max_trailer_size(mut self, bytes: u64) -> Self {
        self.max_trailer_size = bytes;
        self
    }

    /// How many messages a trailer may consist of ([`DEFAULT_MAX_TRAILER_MESSAGES`]).
    #[must_use]
    pub const fn max_trailer_messages(mut self, messages: u64) -> Self {
        self.max_trailer_messages = messages;
        self
    }

    /// How often a trailer may itself be chunked ([`DEFAULT_MAX_TRAILER_LEVELS`]).
    #[must_use]
    pub const fn max_trailer_levels(mut self, levels: u32) -> Self {
        self.max_trailer_levels = levels;
        self
    }

    /// How many other files chunks may be in ([`DEFAULT_MAX_FILES`]).
    #[must_use]
    pub const fn max_files(mut self, files: usize) -> Self {
        self.max_files = files;
        self
    }

    /// Whether those files may lie outside of the folder of the file that names them (no).
    #[must_use]
    pub const fn allow_outside(mut self, allow: bool) -> Self {
        self.allow_outside = allow;
        self
    }

    /// How large a record chunk may be, decoded, in bytes, to be kept for the next of the records
    /// that share it ([`DEFAULT_MAX_CACHED_SIZE`]).
    #[must_use]
    pub const fn max_cached_size(mut self, bytes: u64) -> Self {
        self.max_cached_size = bytes;
        self
    }

    /// How large a message may be that is merged into memory, in bytes (as large as memory can
    /// be).
    #[must_use]
    pub const fn max_message_size(mut self, bytes: u64) -> Self {
        self.max_message_size = bytes;
        self
    }

    /// How many messages deep a path may lead.
    pub const fn get_max_message_depth(&self) -> usize {
        self.max_message_depth
    }

    /// How many messages deep one may walk that calls itself for each.
    pub(crate) fn walked_depth(&self) -> u32 {
        u32::try_from(self.max_message_depth)
            .map_or(LARGEST_DEPTH_LIMIT, |depth| depth.min(LARGEST_DEPTH_LIMIT))
    }
}

/// What is known about a message that is merged, and what is taken for granted.
///
/// Files with our marker need none of it. For others the type decides what the bytes alone can't:
/// whether a value is bytes or a number written as text, how a map's integer keys are encoded,
/// whether a message is a group, which fields share a oneof.
#[derive(Clone, Default)]
pub struct MergeOptions {
    pub(crate) descriptor: Option<MessageDescriptor>,
    pub(crate) assume_plain: bool,
    pub(crate) limits: Limits,
    threads: Option<NonZeroUsize>,
    pub(crate) progress: Progress,
    pub(crate) force: bool,
}

impl MergeOptions {
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        MergeOptions {
            descriptor: None,
            assume_plain: false,
            limits: Limits::new(),
            threads: None,
            progress: Progress::none(),
            force: false,
        }
    }

    /// Merges a message of the type `M`.
    #[must_use]
    pub fn for_message<M: ReflectMessage + Default>() -> Self {
        MergeOptions::new().descriptor(M::default().descriptor())
    }

    /// Merges a message of this type (not known).
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
        self
    }

    /// Who is told how far it is, and who may stop it (nobody).
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Whether a file that is in the way of a merge is replaced (no).
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    pub(crate) fn thread_count(&self) -> NonZeroUsize {
        threads::count(self.threads)
    }

    /// What is accepted of the file ([`Limits::new`]).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The message's type.
    pub const fn get_descriptor(&self) -> Option<&MessageDescriptor> {
        self.descriptor.as_ref()
    }

    /// What is accepted of the file.
    pub const fn get_limits(&self) -> &Limits {
        &self.limits
    }
}

// prost-reflect's own `Debug` of a descriptor doesn't come to an end for a type that contains
// itself.
impl std::fmt::Debug for MergeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let descriptor = self.descriptor.as_ref().map(MessageDescriptor::full_name);
        f.debug_struct("MergeOptions")
            .field("descriptor", &descriptor)
            .field("assume_plain", &self.assume_plain)
            .field("limits", &self.limits)
            .field("threads", &self.threads)
            .field("progress", &self.progress)
            .field("force", &self.force)
            .finish()
    }
}
