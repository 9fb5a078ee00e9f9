//! Limits on untrusted input.

use crate::{Error, ErrorKind, Result};

/// Default maximum depth of paths, and of nested messages that are compared or measured: 100
/// levels, which is also protobuf's default.
pub const DEFAULT_MAX_MESSAGE_DEPTH: usize = 100;

/// Default maximum nesting of `ChunkedMessage`s: 48 levels. Each of them uses two of the 100 levels
/// that the trailer's parser allows.
pub const DEFAULT_MAX_NESTING: usize = 48;

/// Default maximum size of a trailer, in bytes: 64 MiB, enough for a million chunks.
pub const DEFAULT_MAX_TRAILER_SIZE: u64 = 64 << 20;

/// Default maximum memory for a parsed trailer and the structures built from it, in bytes: 512 MiB.
/// Each chunk needs one or two KiB, depending on the length of its path.
pub const DEFAULT_MAX_TRAILER_MEMORY: u64 = 512 << 20;

/// Size up to which the default limits allow every merged message, in bytes: 8 GiB. Larger messages
/// are limited by their stored size: see [`LARGEST_EXPANSION`].
pub const DEFAULT_LEAST_MAX_MERGED_SIZE: u64 = 8 << 30;

/// Maximum ratio of a message's size to its stored size: 4096. It applies to messages larger than
/// [`DEFAULT_LEAST_MAX_MERGED_SIZE`]. Compressed weights expand by a small factor; only runs of
/// zeros expand by more than this.
pub const LARGEST_EXPANSION: u64 = 4096;

/// Default maximum total size of the decoded record chunks that are cached, in bytes: 64 MiB, many
/// times the size of the record chunks that writers make.
pub const DEFAULT_MAX_CACHED_SIZE: u64 = 64 << 20;

/// Default maximum number of times that a trailer may itself be split: 8. A large trailer is split
/// into chunks, which another trailer describes, and so on; each of these trailers is many times
/// smaller than the previous one.
pub const DEFAULT_MAX_TRAILER_LEVELS: u32 = 8;

/// Default maximum number of files that contain chunks of a message, in addition to the main file:
/// 4096. Only a few files are open at a time.
pub const DEFAULT_MAX_FILES: usize = 4096;

/// Maximum value of [`SplitOptions::depth_limit`](crate::split::SplitOptions::depth_limit): 200
/// levels, for which a thread's stack of 2 MiB is large enough.
pub const LARGEST_DEPTH_LIMIT: u32 = 200;

/// Limits on untrusted input.
///
/// ```
/// use proto_splitter_core::merge::{DEFAULT_MAX_MESSAGE_DEPTH, Limits, ReadOptions};
///
/// const LIMITS: Limits = Limits::new().max_message_size(4 << 30); // 4 GiB
/// let options = ReadOptions::new().limits(LIMITS);
/// assert_eq!(options.get_limits().get_max_message_depth(), DEFAULT_MAX_MESSAGE_DEPTH);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    pub(crate) max_message_depth: usize,
    pub(crate) max_nesting: usize,
    pub(crate) max_trailer_size: u64,
    pub(crate) max_trailer_memory: u64,
    pub(crate) max_trailer_levels: u32,
    pub(crate) max_files: usize,
    pub(crate) allow_outside: bool,
    pub(crate) max_cached_size: u64,
    pub(crate) max_message_size: u64,
    pub(crate) max_merged_size: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits::new()
    }
}

impl Limits {
    /// Creates the default limits.
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
        }
    }

    crate::options! {
        /// Sets the maximum depth of a path, in messages. Default: [`DEFAULT_MAX_MESSAGE_DEPTH`].
        /// The nesting of messages that are compared or measured is limited to the same depth, but
        /// to no more than [`LARGEST_DEPTH_LIMIT`] levels.
        const max_message_depth, get_max_message_depth: usize;

        /// Sets the maximum nesting of `ChunkedMessage`s. Default: [`DEFAULT_MAX_NESTING`].
        const max_nesting, get_max_nesting: usize;

        /// Sets the maximum size of a trailer, in bytes. Default: [`DEFAULT_MAX_TRAILER_SIZE`].
        const max_trailer_size, get_max_trailer_size: u64;

        /// Sets the maximum memory for a trailer and the structures built from it, in bytes, as
        /// estimated before the trailer is parsed. Default: [`DEFAULT_MAX_TRAILER_MEMORY`].
        const max_trailer_memory, get_max_trailer_memory: u64;

        /// Sets the maximum number of times that a trailer may itself be split into chunks.
        /// Default: [`DEFAULT_MAX_TRAILER_LEVELS`].
        const max_trailer_levels, get_max_trailer_levels: u32;

        /// Sets the maximum number of files that contain chunks of a message, in addition to the
        /// main file. Default: [`DEFAULT_MAX_FILES`].
        const max_files, get_max_files: usize;

        /// Sets whether files with chunks may be outside of the main file's folder. Default: no.
        const allow_outside, get_allow_outside: bool;

        /// Sets the maximum total size, in bytes, of the decoded record chunks that are cached so
        /// that other records can be read from them. The most recently used record chunk is always
        /// kept. Default: [`DEFAULT_MAX_CACHED_SIZE`].
        const max_cached_size, get_max_cached_size: u64;

        /// Sets the maximum size of a message merged into memory, in bytes. Default: the largest
        /// possible allocation.
        const max_message_size, get_max_message_size: u64;

        /// Sets the maximum size of the merged message, in bytes, regardless of its destination.
        /// Default (`None`): [`DEFAULT_LEAST_MAX_MERGED_SIZE`], or [`LARGEST_EXPANSION`] times the
        /// size of the message's files if that is more. The limit protects against small files
        /// whose trailer uses one record as a thousand chunks.
        into max_merged_size, get_max_merged_size: Option<u64>;
    }

    /// Fails if a merged message of `merged` bytes exceeds the limit for files of `stored` bytes in
    /// total.
    pub(crate) fn check_merged_size(&self, merged: u64, stored: u64) -> Result<()> {
        let most = self.max_merged_size.unwrap_or_else(|| {
            let expanded = stored.saturating_mul(LARGEST_EXPANSION);
            expanded.max(DEFAULT_LEAST_MAX_MERGED_SIZE)
        });
        if merged <= most {
            return Ok(());
        }
        let message = format!(
            "the merged message would have {merged} bytes, from {stored} stored bytes: more than the {most} that `max-merged-size` allows"
        );
        Err(Error::new(ErrorKind::LimitExceeded, message).refusing_size())
    }

    /// Returns the maximum nesting of messages for functions that recurse into each nested message.
    pub(crate) fn walked_depth(&self) -> u32 {
        u32::try_from(self.max_message_depth)
            .map_or(LARGEST_DEPTH_LIMIT, |depth| depth.min(LARGEST_DEPTH_LIMIT))
    }
}
