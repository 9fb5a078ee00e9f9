//! Reading an object by position.

mod fetch;
mod pieces;

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use record_file::ReadAt;

use crate::failure::Failure;
use crate::location::ObjectLocation;
use crate::options::ObjectReadOptions;
use crate::runtime;
use fetch::FetchedEnds;
use pieces::{Found, Pieces};

/// Minimum number of bytes to fetch for a read that wasn't prefetched, since even a request for a
/// few bytes takes some time.
const LEAST_FETCHED: u64 = 64 << 10;

/// Number of bytes up to which latency dominates the time of a request: 128 KiB.
const SMALL: u64 = 128 << 10;

/// Number of small requests that may run in place of one large request.
const SMALL_AT_ONCE: usize = 16;

/// A reader that reads an object by position, like a file.
///
/// Opening an object fetches bytes from the object's start and from its end at the same time.
/// Prefetched ranges (see [`ReadAt::prefetch`]) are fetched in the order in which they were
/// announced. One request fetches several ranges if they are close to each other; a long range is
/// fetched by several requests. The options limit the number of simultaneous requests and the size
/// of the cache. Bytes that are cached or pending are not requested again.
///
/// All requests after the object is open specify the `ETag` of the opened version, so reading fails
/// if the object was replaced. A failed request is retried with growing pauses, for the time that
/// the store's [`StoreOptions`](crate::StoreOptions) specify.
pub struct ObjectReader {
    shared: Arc<Shared>,
}

struct Shared {
    location: ObjectLocation,
    name: String,
    options: ObjectReadOptions,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    opened: Option<Result<Object, Failure>>,
    pieces: Pieces,
    /// Ranges that were requested while the object was being opened, to be prefetched afterwards.
    told: Vec<Range<u64>>,
    /// Number of running requests.
    running: usize,
    /// End of the last range that was fetched for a read without a prefetch, and the number of
    /// bytes that were fetched ahead for this read.
    sequence: (u64, u64),
    traffic: Traffic,
}

/// The opened version of the object.
#[derive(Clone, Debug)]
struct Object {
    size: u64,
    e_tag: Option<String>,
}

/// Statistics on the requests to a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Number of requests, without retries.
    pub requests: u64,
    /// Number of bytes received from the store.
    pub bytes: u64,
}

impl fmt::Debug for ObjectReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectReader")
            .field("location", &self.shared.name)
            .field("traffic", &self.traffic())
            .finish_non_exhaustive()
    }
}

impl ObjectReader {
    /// Opens an object. This takes about as long as one request.
    ///
    /// # Errors
    ///
    /// [`NotFound`](io::ErrorKind::NotFound) if the object doesn't exist, and any error from the
    /// store.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_splitter_object_store::{ObjectLocation, ObjectReader, ObjectReadOptions};
    ///
    /// let nothing = ObjectLocation::parse("memory:///nothing")?;
    /// let error = ObjectReader::open(&nothing, &ObjectReadOptions::new()).unwrap_err();
    /// assert_eq!(error.to_string(), "memory:///nothing: no such object");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn open(
        location: &ObjectLocation,
        options: &ObjectReadOptions,
    ) -> io::Result<ObjectReader> {
        let reader = ObjectReader::begin(location, options)?;
        reader.size()?;
        Ok(reader)
    }

    /// Begins to open an object, and returns immediately, so that several objects can be opened at
    /// once. If opening fails, the first call that needs the object returns the error.
    ///
    /// # Errors
    ///
    /// [`Other`](io::ErrorKind::Other) if no request can be started.
    pub fn begin(
        location: &ObjectLocation,
        options: &ObjectReadOptions,
    ) -> io::Result<ObjectReader> {
        let shared = Arc::new(Shared {
            name: location.to_string(),
            location: location.clone(),
            options: options.clone(),
            state: Mutex::new(State {
                opened: None,
                pieces: Pieces::new(options.cache_size),
                told: Vec::new(),
                running: 0,
                sequence: (0, 0),
                traffic: Traffic::default(),
            }),
            changed: Condvar::new(),
        });
        let opening = Arc::clone(&shared);
        runtime::handle()?.spawn(async move {
            let ends = fetch::caught(&opening, fetch::ends(&opening)).await;
            opening.opened(ends);
        });
        Ok(ObjectReader { shared })
    }

    /// Returns the `ETag`, if any, of the object version that is being read. Waits until the object
    /// is open.
    ///
    /// # Errors
    ///
    /// Any error from opening the object.
    pub fn version(&self) -> io::Result<Option<String>> {
        let (state, _) = self.shared.object(self.shared.lock())?;
        Ok(match &state.opened {
            Some(Ok(object)) => object.e_tag.clone(),
            _ => None,
        })
    }

    /// Returns statistics on all requests that this reader has made.
    pub fn traffic(&self) -> Traffic {
        self.shared.lock().traffic
    }

    /// Returns the location of the object that is being read.
    pub fn location(&self) -> &ObjectLocation {
        &self.shared.location
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the result of opening the object, and wakes all waiting readers.
    fn opened(self: &Arc<Self>, ends: Result<FetchedEnds, Failure>) {
        let mut state = self.lock();
        state.opened = Some(ends.map(|ends| {
            for (begin, bytes) in ends.bytes {
                state.pieces.insert(begin, bytes);
            }
            ends.object
        }));
        let told = std::mem::take(&mut state.told);
        if let Some(Ok(object)) = &state.opened {
            let size = object.size;
            self.queue(&mut state, &told, size);
            self.pump(&mut state);
        }
        self.changed.notify_all();
    }

    /// Waits until the object is open. Returns the locked state and the object's size.
    fn object<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> Result<(MutexGuard<'a, State>, u64), Failure> {
        loop {
            match &state.opened {
                Some(Ok(object)) => {
                    let size = object.size;
                    return Ok((state, size));
                }
                Some(Err(failure)) => return Err(failure.clone()),
                None => state = self.wait(state),
            }
        }
    }

    fn queue(&self, state: &mut State, ranges: &[Range<u64>], size: u64) {
        let inside = ranges.iter().map(|range| range.start..range.end.min(size));
        let inside: Vec<_> = inside.collect();
        let options = &self.options;
        state
            .pieces
            .queue(&inside, options.coalesce, options.request_size);
    }

    /// Starts as many of the queued requests as the limits allow.
    fn pump(self: &Arc<Self>, state: &mut State) {
        let at_once = self.options.at_once;
        loop {
            let running = state.running;
            let fits = |len| {
                let most = if len <= SMALL {
                    at_once.saturating_mul(SMALL_AT_ONCE)
                } else {
                    at_once
                };
                running < most
            };
            let Some(range) = state.pieces.take_next(fits) else {
                return;
            };
            self.start(state, range);
        }
    }

    /// Starts a request for a range that is already counted as pending.
    fn start(self: &Arc<Self>, state: &mut State, range: Range<u64>) {
        let handle = match runtime::handle() {
            Ok(handle) => handle,
            Err(error) => {
                let failure = Failure::new(error.kind(), error.to_string());
                state.pieces.arrived(range.start, Err(failure));
                return;
            }
        };
        state.running += 1;
        let shared = Arc::clone(self);
        handle.spawn(async move {
            let begin = range.start;
            let fetched = fetch::caught(&shared, fetch::range(&shared, range)).await;
            let mut state = shared.lock();
            state.running -= 1;
            state.pieces.arrived(begin, fetched);
            shared.pump(&mut state);
            shared.changed.notify_all();
        });
    }

    fn counted(&self, requests: u64, bytes: u64) {
        let traffic = &mut self.lock().traffic;
        traffic.requests += requests;
        traffic.bytes += bytes;
    }

    /// Returns the end of the range to fetch for a read at `offset` that wasn't prefetched. If the
    /// read continues the previous read, the number of bytes fetched ahead is doubled, up to four
    /// times the maximum size of a request.
    fn reach(&self, state: &mut State, offset: u64, end: u64, size: u64) -> u64 {
        let (last, ahead) = state.sequence;
        let most = self.options.request_size.saturating_mul(4);
        let ahead = if last == offset && offset > 0 {
            ahead.saturating_mul(2).min(most)
        } else {
            LEAST_FETCHED
        };
        let reach = end.max(offset.saturating_add(ahead)).min(size);
        state.sequence = (reach, ahead);
        reach
    }
}

impl ReadAt for ObjectReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let shared = &self.shared;
        let (mut state, size) = shared.object(shared.lock())?;
        let end = size.min(offset.saturating_add(buf.len() as u64));
        if offset >= end {
            return Ok(0);
        }
        loop {
            match state.pieces.read(offset, end - offset) {
                Found::Bytes(bytes) => {
                    shared.pump(&mut state);
                    drop(state);
                    let n = bytes.len().min(buf.len());
                    buf[..n].copy_from_slice(&bytes[..n]);
                    return Ok(n);
                }
                Found::Pending => state = shared.wait(state),
                Found::Failed(failure) => return Err(failure.into()),
                Found::Nothing => {
                    let reach = shared.reach(&mut state, offset, end, size);
                    let request = shared.options.request_size;
                    if let Some(now) = state.pieces.take_now(offset..reach, request) {
                        shared.start(&mut state, now);
                    }
                    shared.pump(&mut state);
                }
            }
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.shared.object(self.shared.lock())?.1)
    }

    fn prefetch(&self, ranges: &[Range<u64>]) {
        let mut state = self.shared.lock();
        match &state.opened {
            None => state.told.extend_from_slice(ranges),
            Some(Ok(object)) => {
                let size = object.size;
                self.shared.queue(&mut state, ranges, size);
                self.shared.pump(&mut state);
            }
            Some(Err(_)) => {}
        }
    }

    fn is_prefetched(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_panics_is_an_error_for_those_who_wait_for_it() {
        let location = ObjectLocation::parse("memory:///panics").unwrap();
        let reader = ObjectReader::begin(&location, &ObjectReadOptions::new()).unwrap();
        let request = async { panic!("out of order") };
        let result = runtime::wait(fetch::caught::<()>(&reader.shared, request)).unwrap();
        let error = result.unwrap_err().message;
        assert_eq!(error, "memory:///panics: a request ended unexpectedly");
    }
}
