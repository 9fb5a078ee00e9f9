//! Limits on untrusted input.

use std::num::NonZeroUsize;

use crate::{Error, ErrorKind, Result};

/// How many messages deep a path may lead, or messages nest that are compared or measured:
/// protobuf's own default.
pub const DEFAULT_MAX_MESSAGE_DEPTH: usize = 100;

/// How deep `ChunkedMessage`s may nest. Each level takes two of the hundred that the trailer's own
/// parser allows.
pub const DEFAULT_MAX_NESTING: usize = 48;

/// How large a trailer may be: 64 MiB, enough for a million chunks.
pub const DEFAULT_MAX_TRAILER_SIZE: u64 = 64 << 20;

/// How much memory a trailer may take once it is read, with what is made of it: 512 MiB. A chunk
/// takes one or two KiB, by how long its path is.
pub const DEFAULT_MAX_TRAILER_MEMORY: u64 = 512 << 20;

/// How large a merged message may be in any case: 8 GiB. Above that it depends on how much is
/// stored, see [`LARGEST_EXPANSION`].
pub const DEFAULT_LEAST_MAX_MERGED_SIZE: u64 = 8 << 30;

/// How many times as large as what is stored a message over [`DEFAULT_LEAST_MAX_MERGED_SIZE`] may
/// be: 4096. Compressed weights come to a few times, and only runs of zeros to more than this.
pub const LARGEST_EXPANSION: u64 = 4096;

/// How large a record chunk that several chunks share may be to be decoded once and kept: 64 MiB,
/// many times what writers make.
pub const DEFAULT_MAX_CACHED_SIZE: u64 = 64 << 20;

/// How often a trailer may itself be chunked. Each time it gets many times smaller.
pub const DEFAULT_MAX_TRAILER_LEVELS: u32 = 8;

/// How many other files chunks may be in: 4,096. A few of them are open at a time.
pub const DEFAULT_MAX_FILES: usize = 4096;

/// The most that [`SplitOptions::depth_limit`](crate::split::SplitOptions::depth_limit) can be: 200, for which a thread's stack of 2 MiB is
/// enough.
pub const LARGEST_DEPTH_LIMIT: u32 = 200;

/// Limits on untrusted input.
///
/// ```
/// use proto_splitter_core::merge::{DEFAULT_MAX_MESSAGE_DEPTH, Limits, ReadOptions};
///
/// const LIMITS: Limits = Limits::new().max_message_size(4 << 30); // 4 GiB
/// let options = ReadOptions::new().limits(LIMITS);
/// assert_eq!(options.limits.max_message_depth, DEFAULT_MAX_MESSAGE_DEPTH);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How many messages deep a path may lead.
    pub max_message_depth: usize,
    /// How deep `ChunkedMessage`s may nest.
    pub max_nesting: usize,
    /// How large a trailer may be, in bytes.
    pub max_trailer_size: u64,
    /// How much memory a trailer may take, in bytes.
    pub max_trailer_memory: u64,
    /// How often a trailer may itself be chunked.
    pub max_trailer_levels: u32,
    /// How many other files chunks may be in.
    pub max_files: usize,
    /// Whether other files may lie outside of the folder.
    pub allow_outside: bool,
    /// How large a shared record chunk may be to be kept, in bytes.
    pub max_cached_size: u64,
    /// How large the message may be, in bytes.
    pub max_message_size: u64,
    /// How large the merged message may be, in bytes.
    pub max_merged_size: Option<u64>,
    pub(crate) threads: Option<NonZeroUsize>,
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
            max_trailer_memory: DEFAULT_MAX_TRAILER_MEMORY,
            max_trailer_levels: DEFAULT_MAX_TRAILER_LEVELS,
            max_files: DEFAULT_MAX_FILES,
            allow_outside: false,
            max_cached_size: DEFAULT_MAX_CACHED_SIZE,
            max_message_size: isize::MAX.unsigned_abs() as u64,
            max_merged_size: None,
            threads: None,
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

    /// How much memory a trailer may take, with what is made of it, in bytes, as it is estimated
    /// before it is read ([`DEFAULT_MAX_TRAILER_MEMORY`]).
    #[must_use]
    pub const fn max_trailer_memory(mut self, bytes: u64) -> Self {
        self.max_trailer_memory = bytes;
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

    /// How large a message may be that a file merges to, in bytes, wherever it goes
    /// ([`DEFAULT_LEAST_MAX_MERGED_SIZE`], or [`LARGEST_EXPANSION`] times what its files have if
    /// that is more). A few bytes can say of a thousand chunks that each is the same record.
    #[must_use]
    pub fn max_merged_size(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.max_merged_size = bytes.into();
        self
    }

    /// How many threads look for a file's chunks when it is opened, where there are very many (as
    /// many as there are cores). [`ReadOptions::threads`](crate::merge::ReadOptions::threads) says it, too.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<NonZeroUsize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Fails if chunks of this many bytes in all are more than is accepted of a file in which this
    /// much is stored.
    pub(crate) fn check_merged_size(&self, merged: u64, stored: u64) -> Result<()> {
        let most = self.max_merged_size.unwrap_or_else(|| {
            let expanded = stored.saturating_mul(LARGEST_EXPANSION);
            expanded.max(DEFAULT_LEAST_MAX_MERGED_SIZE)
        });
        if merged <= most {
            return Ok(());
        }
        let message = format!(
            "the merged message would have {merged} bytes, made of {stored} that are stored: more than the {most} that `max-merged-size` allows"
        );
        Err(Error::new(ErrorKind::LimitExceeded, message))
    }

    /// Depth limit for walks that recurse once per nested message.
    pub(crate) fn walked_depth(&self) -> u32 {
        u32::try_from(self.max_message_depth)
            .map_or(LARGEST_DEPTH_LIMIT, |depth| depth.min(LARGEST_DEPTH_LIMIT))
    }
}
