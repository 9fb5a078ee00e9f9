//! Options for requests to stores, and for reading and writing objects.

use std::io;
use std::time::Duration;

/// Default time for which a failed request is retried: 3 minutes.
pub const DEFAULT_RETRY_TIMEOUT: Duration = Duration::from_secs(180);

/// Environment variable that sets the time for which a failed request is retried, in seconds.
pub const RETRY_TIMEOUT_VARIABLE: &str = "PROTO_SPLITTER_RETRY_TIMEOUT";

/// Default number of bytes to fetch from the start of an object when it is opened: 64 KiB.
pub const DEFAULT_HEAD_SIZE: u64 = 64 << 10;

/// Default number of bytes to fetch from the end of an object when it is opened: 256 KiB.
pub const DEFAULT_TAIL_SIZE: u64 = 256 << 10;

/// Default maximum number of bytes that one request fetches: 8 MiB.
pub const DEFAULT_REQUEST_SIZE: u64 = 8 << 20;

/// Default maximum gap between two ranges that one request fetches, in bytes: 1 MiB.
pub const DEFAULT_COALESCE: u64 = 1 << 20;

/// Default maximum number of simultaneous requests: 12.
pub const DEFAULT_AT_ONCE: usize = 12;

/// Default size of the cache for an object, in bytes: 160 MiB.
pub const DEFAULT_CACHE_SIZE: u64 = 160 << 20;

/// Default minimum size of the parts of an upload, in bytes: 8 MiB.
pub const DEFAULT_PART_SIZE: u64 = 8 << 20;

/// Options for requests to a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreOptions {
    pub(crate) retry_timeout: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions::new()
    }
}

impl StoreOptions {
    /// Returns the default options. Each setter documents the default of its option.
    #[must_use]
    pub const fn new() -> Self {
        StoreOptions {
            retry_timeout: DEFAULT_RETRY_TIMEOUT,
        }
    }

    /// Returns the default options. If [`RETRY_TIMEOUT_VARIABLE`] is set in the environment, the
    /// retry timeout is the variable's value.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the variable's value is not a number of
    /// seconds.
    pub fn from_env() -> io::Result<Self> {
        match std::env::var(RETRY_TIMEOUT_VARIABLE) {
            Ok(text) => StoreOptions::of_seconds(&text),
            Err(_) => Ok(StoreOptions::new()),
        }
    }

    fn of_seconds(text: &str) -> io::Result<Self> {
        let seconds = text.parse().ok();
        let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        match time {
            Some(time) => Ok(StoreOptions::new().retry_timeout(time)),
            None => {
                let message = format!("{RETRY_TIMEOUT_VARIABLE}: not a number of seconds: {text}");
                Err(io::Error::new(io::ErrorKind::InvalidInput, message))
            }
        }
    }

    /// Sets the time for which a failed request is retried, at most one day. Default:
    /// [`DEFAULT_RETRY_TIMEOUT`]. A request that the store throttles, with status 429 or 503, is
    /// retried for ten thirds of this time.
    ///
    /// A connection that receives no data for a sixth of this time, or for 30 seconds if that is
    /// less, is closed, and its request is retried. Requests that fail for 10 seconds cause a
    /// warning.
    #[must_use]
    pub const fn retry_timeout(mut self, time: Duration) -> Self {
        self.retry_timeout = if time.as_secs() > 86_400 {
            Duration::from_secs(86_400)
        } else {
            time
        };
        self
    }

    /// Returns the time for which a failed request is retried.
    pub const fn get_retry_timeout(&self) -> Duration {
        self.retry_timeout
    }

    /// Returns the time for which a throttled request is retried.
    pub(crate) fn throttle_timeout(&self) -> Duration {
        self.retry_timeout * 10 / 3
    }

    /// Returns the time after which a connection that receives no data is closed.
    pub(crate) fn idle_timeout(&self) -> Duration {
        let time = (self.retry_timeout / 6).min(Duration::from_secs(30));
        time.max(Duration::from_millis(10))
    }

    /// Returns the time for which requests must fail before they cause a warning.
    pub(crate) fn notice_after(&self) -> Duration {
        (self.retry_timeout / 18).min(Duration::from_secs(10))
    }
}

/// Options for reading an object.
#[derive(Clone, Debug)]
pub struct ObjectReadOptions {
    pub(crate) head_size: u64,
    pub(crate) tail_size: u64,
    pub(crate) request_size: u64,
    pub(crate) coalesce: u64,
    pub(crate) at_once: usize,
    pub(crate) cache_size: u64,
}

impl Default for ObjectReadOptions {
    fn default() -> Self {
        ObjectReadOptions::new()
    }
}

impl ObjectReadOptions {
    /// Returns the default options. Each setter documents the default of its option.
    #[must_use]
    pub const fn new() -> Self {
        ObjectReadOptions {
            head_size: DEFAULT_HEAD_SIZE,
            tail_size: DEFAULT_TAIL_SIZE,
            request_size: DEFAULT_REQUEST_SIZE,
            coalesce: DEFAULT_COALESCE,
            at_once: DEFAULT_AT_ONCE,
            cache_size: DEFAULT_CACHE_SIZE,
        }
    }

    /// Sets the numbers of bytes to fetch from the start and from the end of the object when it is
    /// opened, each at least one. Default: [`DEFAULT_HEAD_SIZE`] and [`DEFAULT_TAIL_SIZE`].
    #[must_use]
    pub const fn ends(mut self, head: u64, tail: u64) -> Self {
        self.head_size = if head == 0 { 1 } else { head };
        self.tail_size = if tail == 0 { 1 } else { tail };
        self
    }

    /// Sets the maximum number of bytes that one request fetches, at least 1 KiB. Default:
    /// [`DEFAULT_REQUEST_SIZE`].
    #[must_use]
    pub const fn request_size(mut self, bytes: u64) -> Self {
        self.request_size = if bytes < 1024 { 1024 } else { bytes };
        self
    }

    proto_splitter_core::options! {
        /// Sets the maximum gap between two ranges that one request fetches, in bytes. Default:
        /// [`DEFAULT_COALESCE`]. If both ranges are shorter than the gap, they are fetched
        /// separately.
        const coalesce, get_coalesce: u64;

        /// Sets the size of the cache, including the bytes of pending requests, in bytes. Default:
        /// [`DEFAULT_CACHE_SIZE`]. Bytes that a read is waiting for are cached even if the cache is
        /// full.
        const cache_size, get_cache_size: u64;
    }

    /// Sets the maximum number of simultaneous requests, at least one. Default:
    /// [`DEFAULT_AT_ONCE`].
    #[must_use]
    pub const fn at_once(mut self, requests: usize) -> Self {
        self.at_once = if requests == 0 { 1 } else { requests };
        self
    }

    /// Returns the maximum number of bytes that one request fetches.
    pub const fn get_request_size(&self) -> u64 {
        self.request_size
    }

    /// Returns the maximum number of simultaneous requests.
    pub const fn get_at_once(&self) -> usize {
        self.at_once
    }
}

/// Options for writing an object.
#[derive(Clone, Debug)]
pub struct ObjectWriteOptions {
    pub(crate) part_size: u64,
    pub(crate) at_once: usize,
    pub(crate) force: bool,
    pub(crate) expected_size: u64,
}

impl Default for ObjectWriteOptions {
    fn default() -> Self {
        ObjectWriteOptions::new()
    }
}

impl ObjectWriteOptions {
    /// Returns the default options. Each setter documents the default of its option.
    #[must_use]
    pub const fn new() -> Self {
        ObjectWriteOptions {
            part_size: DEFAULT_PART_SIZE,
            at_once: DEFAULT_AT_ONCE,
            force: false,
            expected_size: 0,
        }
    }

    /// Sets the minimum size of the parts of an upload, in bytes. Default: [`DEFAULT_PART_SIZE`]. A
    /// size below 5 MiB is increased to 5 MiB, the minimum that stores accept. An object that fits
    /// into one part is written by a single request.
    #[must_use]
    pub const fn part_size(mut self, bytes: u64) -> Self {
        self.part_size = if bytes < SMALLEST_PART {
            SMALLEST_PART
        } else {
            bytes
        };
        self
    }

    /// Sets the maximum number of parts to upload at once, at least one. Default:
    /// [`DEFAULT_AT_ONCE`]. All of these parts, and the part that is being filled, are in memory.
    #[must_use]
    pub const fn at_once(mut self, parts: usize) -> Self {
        self.at_once = if parts == 0 { 1 } else { parts };
        self
    }

    proto_splitter_core::options! {
        /// Sets whether an existing object is replaced. Default: false.
        const force, get_force: bool;

        /// Sets the approximate size of the object, in bytes. Parts are made larger if the object
        /// would otherwise have too many of them. Default: 0, for an unknown size.
        const expected_size, get_expected_size: u64;
    }

    /// Returns the minimum size of the parts of an upload, in bytes.
    pub const fn get_part_size(&self) -> u64 {
        self.part_size
    }

    /// Returns the maximum number of parts to upload at once.
    pub const fn get_at_once(&self) -> usize {
        self.at_once
    }

    /// Returns the size of each part except the last, in bytes. This is the minimum part size that
    /// was set or, if an object of the expected size would then have too many parts, a larger size.
    pub(crate) fn part_len(&self) -> u64 {
        let needed = self.expected_size.div_ceil(MOST_PARTS);
        let rounded = needed.div_ceil(MEBIBYTE).saturating_mul(MEBIBYTE);
        self.part_size.max(rounded).min(LARGEST_PART)
    }
}

const MEBIBYTE: u64 = 1 << 20;
/// Minimum size that S3 requires for each part except the last, in bytes: 5 MiB.
const SMALLEST_PART: u64 = 5 << 20;
/// Maximum size of a part, in bytes: 1 GiB. A larger part would need too much memory.
const LARGEST_PART: u64 = 1 << 30;
/// Maximum number of parts of an object of the expected size. S3 allows 10,000; the margin is for
/// objects that become somewhat larger than expected.
const MOST_PARTS: u64 = 9_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_for_which_requests_are_tried_again_is_three_minutes_unless_it_is_set() {
        let options = StoreOptions::new();
        let seconds = |time: Duration| time.as_secs();
        assert_eq!(seconds(options.retry_timeout), 180);
        assert_eq!(seconds(options.throttle_timeout()), 600);
        assert_eq!(seconds(options.idle_timeout()), 30);
        assert_eq!(seconds(options.notice_after()), 10);
        let longer = StoreOptions::of_seconds("3600").unwrap();
        assert_eq!(seconds(longer.idle_timeout()), 30);
        assert_eq!(seconds(longer.notice_after()), 10);
        assert!(StoreOptions::of_seconds("0.5").is_ok());
        for wrong in ["", "3m", "-1", "nan", "1e300"] {
            let error = StoreOptions::of_seconds(wrong).unwrap_err().to_string();
            assert!(error.starts_with(RETRY_TIMEOUT_VARIABLE), "{error}");
        }
    }

    #[test]
    fn parts_are_as_large_as_a_large_object_needs() {
        let of = |size| ObjectWriteOptions::new().expected_size(size).part_len();
        assert_eq!(of(0), 8 << 20);
        assert_eq!(of(70 << 30), 8 << 20);
        assert_eq!(of(1 << 40), 117 << 20);
        assert!((1u64 << 40).div_ceil(of(1 << 40)) <= 10_000);
        assert_eq!(of(u64::MAX), 1 << 30);
    }
}
