//! Options for requests to stores, and for reading and writing objects.

use std::io;
use std::time::Duration;

/// Time for which a request that fails is tried again: 3 minutes.
pub const DEFAULT_RETRY_TIMEOUT: Duration = Duration::from_secs(180);

/// The variable of the environment that sets this time, in seconds.
pub const RETRY_TIMEOUT_VARIABLE: &str = "PROTO_SPLITTER_RETRY_TIMEOUT";

/// The bytes fetched at an object's front when it is opened: 64 KiB.
pub const DEFAULT_HEAD_SIZE: u64 = 64 << 10;

/// The bytes fetched at an object's end when it is opened: 256 KiB.
pub const DEFAULT_TAIL_SIZE: u64 = 256 << 10;

/// How much a request fetches at most: 8 MiB.
pub const DEFAULT_REQUEST_SIZE: u64 = 8 << 20;

/// How far apart two ranges may be that one request fetches: 1 MiB.
pub const DEFAULT_COALESCE: u64 = 1 << 20;

/// How many requests run at once: 12.
pub const DEFAULT_AT_ONCE: usize = 12;

/// The part of an object that is held in memory: 160 MiB.
pub const DEFAULT_CACHE_SIZE: u64 = 160 << 20;

/// How large the parts of an upload are at the least: 8 MiB.
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
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        StoreOptions {
            retry_timeout: DEFAULT_RETRY_TIMEOUT,
        }
    }

    /// The defaults, as far as the environment doesn't say otherwise by
    /// [`RETRY_TIMEOUT_VARIABLE`].
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the variable is no number of seconds.
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

    /// Time for which a request that fails is tried again ([`DEFAULT_RETRY_TIMEOUT`]), at most a
    /// day. A store that says it is asked too much, by the status 429 or 503, is asked again for ten
    /// thirds of it.
    ///
    /// A store that accepts a connection and says nothing is given up on after a sixth of the time,
    /// at most 30 seconds, and asked again. Requests that fail for 10 seconds are told of by a
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

    /// Time for which a store is asked again that is asked too much.
    pub(crate) fn throttle_timeout(&self) -> Duration {
        self.retry_timeout * 10 / 3
    }

    /// Time without a byte after which a connection is given up.
    pub(crate) fn idle_timeout(&self) -> Duration {
        let time = (self.retry_timeout / 6).min(Duration::from_secs(30));
        time.max(Duration::from_millis(10))
    }

    /// Time after which requests that fail are told of.
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
    /// The defaults, which the setters name in parentheses.
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

    /// Sets how much is fetched at both ends when the object is opened
    /// ([`DEFAULT_HEAD_SIZE`], [`DEFAULT_TAIL_SIZE`]); at least a byte of each.
    #[must_use]
    pub const fn ends(mut self, head: u64, tail: u64) -> Self {
        self.head_size = if head == 0 { 1 } else { head };
        self.tail_size = if tail == 0 { 1 } else { tail };
        self
    }

    /// Sets how much a request fetches at most ([`DEFAULT_REQUEST_SIZE`]); at least 1 KiB.
    #[must_use]
    pub const fn request_size(mut self, bytes: u64) -> Self {
        self.request_size = if bytes < 1024 { 1024 } else { bytes };
        self
    }

    /// Sets how far apart two ranges may be that one request fetches ([`DEFAULT_COALESCE`]). Ranges that
    /// are shorter than the gap between them are fetched apart.
    #[must_use]
    pub const fn coalesce(mut self, bytes: u64) -> Self {
        self.coalesce = bytes;
        self
    }

    /// Sets how many requests run at once ([`DEFAULT_AT_ONCE`]); at least one.
    #[must_use]
    pub const fn at_once(mut self, requests: usize) -> Self {
        self.at_once = if requests == 0 { 1 } else { requests };
        self
    }

    /// Sets how much of the object is held in memory, what is being fetched included
    /// ([`DEFAULT_CACHE_SIZE`]). What a read waits for is held in any case.
    #[must_use]
    pub const fn cache_size(mut self, bytes: u64) -> Self {
        self.cache_size = bytes;
        self
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
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        ObjectWriteOptions {
            part_size: DEFAULT_PART_SIZE,
            at_once: DEFAULT_AT_ONCE,
            force: false,
            expected_size: 0,
        }
    }

    /// Sets how large the parts of an upload are ([`DEFAULT_PART_SIZE`]); at least 5 MiB, which stores
    /// ask for. What is smaller is written by one request.
    #[must_use]
    pub const fn part_size(mut self, bytes: u64) -> Self {
        self.part_size = if bytes < SMALLEST_PART {
            SMALLEST_PART
        } else {
            bytes
        };
        self
    }

    /// Sets how many parts are uploaded at once ([`DEFAULT_AT_ONCE`]); at least one. That many parts are
    /// held in memory, and the one that is being filled.
    #[must_use]
    pub const fn at_once(mut self, parts: usize) -> Self {
        self.at_once = if parts == 0 { 1 } else { parts };
        self
    }

    /// Sets whether an object that is there is replaced (no).
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// About how many bytes will be written (not known): parts are larger where there would be too
    /// many.
    #[must_use]
    pub const fn expected_size(mut self, bytes: u64) -> Self {
        self.expected_size = bytes;
        self
    }

    /// Bytes of a part.
    pub(crate) fn part_len(&self) -> u64 {
        let needed = self.expected_size.div_ceil(MOST_PARTS);
        let rounded = needed.div_ceil(MEBIBYTE).saturating_mul(MEBIBYTE);
        self.part_size.max(rounded).min(LARGEST_PART)
    }
}

const MEBIBYTE: u64 = 1 << 20;
/// What S3 takes at the least, but for the last.
const SMALLEST_PART: u64 = 5 << 20;
/// More than is sensible to hold in memory.
const LARGEST_PART: u64 = 1 << 30;
/// S3 takes 10,000. What is expected may be a little less than what comes.
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
