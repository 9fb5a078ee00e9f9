//! The parts of an object that are cached, pending or queued. This module makes no requests.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use bytes::Bytes;

use crate::failure::Failure;

/// A part of the object that is cached, or for which a request is pending.
#[derive(Debug)]
struct Piece {
    end: u64,
    content: Content,
    /// Number of bytes that were not read yet.
    unread: u64,
    /// True if the last byte of the piece was read. The piece is then probably no longer needed.
    is_passed: bool,
    /// Sequence number of the last read that used the piece. The first read has number 1.
    used: u64,
}

#[derive(Debug)]
enum Content {
    Pending,
    Ready(Bytes),
    Failed(Failure),
}

/// The state of the byte at a position.
pub(super) enum Found {
    /// The byte is cached. The value contains the bytes from this byte to the end of the cached
    /// piece.
    Bytes(Bytes),
    /// A request for the byte is pending.
    Pending,
    /// The request for the byte failed.
    Failed(Failure),
    /// The byte is neither cached nor pending.
    Nothing,
}

/// The cached and pending parts of an object, within a size limit, and the queue of ranges to
/// fetch.
#[derive(Debug)]
pub(super) struct Pieces {
    /// Cached and pending parts by their offset, without overlaps.
    held: BTreeMap<u64, Piece>,
    /// Queued ranges, as a map from offset to end, without overlaps with each other or with `held`.
    queued: BTreeMap<u64, u64>,
    /// Offsets of queued ranges, in the order of the queue. Offsets that are no longer in `queued`
    /// are skipped.
    order: VecDeque<u64>,
    size: u64,
    most: u64,
    reads: u64,
}

impl Pieces {
    /// Creates an empty cache for at most `most` bytes.
    pub(super) fn new(most: u64) -> Self {
        Pieces {
            held: BTreeMap::new(),
            queued: BTreeMap::new(),
            order: VecDeque::new(),
            size: 0,
            most,
            reads: 0,
        }
    }

    /// Returns the state of the byte at `position`. If it is cached, counts at most `want` bytes as
    /// read.
    pub(super) fn read(&mut self, position: u64, want: u64) -> Found {
        self.reads += 1;
        let reads = self.reads;
        let Some((&begin, piece)) = self.held.range_mut(..=position).next_back() else {
            return Found::Nothing;
        };
        if piece.end <= position {
            return Found::Nothing;
        }
        match &piece.content {
            Content::Pending => Found::Pending,
            Content::Failed(failure) => {
                let failure = failure.clone();
                self.remove(begin);
                Found::Failed(failure)
            }
            Content::Ready(bytes) => {
                let at = usize::try_from(position - begin).unwrap_or(usize::MAX);
                let read = want.min(piece.end - position);
                piece.unread = piece.unread.saturating_sub(read);
                piece.is_passed |= position + read == piece.end;
                piece.used = reads;
                Found::Bytes(bytes.slice(at.min(bytes.len())..))
            }
        }
    }

    /// Returns the parts of `range` that are not cached, pending or queued.
    fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let held = self.held.range(..=at).next_back();
            let held = held.map(|(_, piece)| piece.end);
            let queued = self.queued.range(..=at).next_back().map(|(_, &end)| end);
            if let Some(end) = held.into_iter().chain(queued).filter(|&end| end > at).max() {
                at = end;
                continue;
            }
            let next_held = self.held.range(at..).next().map(|(&begin, _)| begin);
            let next_queued = self.queued.range(at..).next().map(|(&begin, _)| begin);
            let next = next_held.into_iter().chain(next_queued).min();
            let end = next.map_or(range.end, |next| next.min(range.end));
            missing.push(at..end);
            at = end;
        }
        missing
    }

    /// Adds the missing parts of these ranges to the end of the queue, as requests of at most
    /// `request` bytes. Ranges that are close to each other are joined.
    pub(super) fn queue(&mut self, ranges: &[Range<u64>], coalesce: u64, request: u64) {
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges.iter().filter(|range| range.start < range.end) {
            match joined.last_mut() {
                Some(last) if is_near(last, range, coalesce) => {
                    last.end = last.end.max(range.end);
                }
                _ => joined.push(range.clone()),
            }
        }
        for range in joined {
            for missing in self.missing(range) {
                for part in cut(missing, request) {
                    self.order.push_back(part.start);
                    self.queued.insert(part.start, part.end);
                }
            }
        }
    }

    /// Removes the first range from the queue, and marks it as pending. Returns `None` if the queue
    /// is empty, if `fits` returns false for the range's length, or if the cache has no room for
    /// the range.
    pub(super) fn take_next(&mut self, fits: impl Fn(u64) -> bool) -> Option<Range<u64>> {
        loop {
            let begin = *self.order.front()?;
            let Some(&end) = self.queued.get(&begin) else {
                self.order.pop_front();
                continue;
            };
            if !fits(end - begin) || !self.make_room(end - begin, false) {
                return None;
            }
            self.order.pop_front();
            self.queued.remove(&begin);
            self.add(begin..end);
            return Some(begin..end);
        }
    }

    /// Returns the range to request for a read that waits for the start of `range`, and marks it as
    /// pending. The returned range is the queued range that contains the start or, if there is
    /// none, the first `request` bytes of the missing part of `range`. The remainder of the missing
    /// part is added to the front of the queue.
    pub(super) fn take_now(&mut self, range: Range<u64>, request: u64) -> Option<Range<u64>> {
        let queued = self.queued.range(..=range.start).next_back();
        let queued = queued.map(|(&begin, &end)| begin..end);
        let now = match queued.filter(|queued| queued.end > range.start) {
            Some(queued) => {
                self.queued.remove(&queued.start);
                queued
            }
            None => {
                let mut parts = self.missing(range).into_iter();
                let mut parts = parts.by_ref().flat_map(|missing| cut(missing, request));
                let now = parts.next()?;
                let rest: Vec<_> = parts.collect();
                for part in rest.into_iter().rev() {
                    self.order.push_front(part.start);
                    self.queued.insert(part.start, part.end);
                }
                now
            }
        };
        // The read must proceed even if the cache is full.
        self.make_room(now.end - now.start, true);
        self.add(now.clone());
        Some(now)
    }

    fn add(&mut self, range: Range<u64>) {
        let len = range.end - range.start;
        self.size += len;
        let piece = Piece {
            end: range.end,
            content: Content::Pending,
            unread: len,
            is_passed: false,
            used: self.reads,
        };
        self.held.insert(range.start, piece);
    }

    /// Stores the result of the request for the pending range at `begin`.
    pub(super) fn arrived(&mut self, begin: u64, result: Result<Bytes, Failure>) {
        if let Some(piece) = self.held.get_mut(&begin) {
            piece.content = match result {
                Ok(bytes) => Content::Ready(bytes),
                Err(failure) => Content::Failed(failure),
            };
        }
    }

    /// Stores bytes that weren't requested through the queue, unless some of them are already
    /// cached.
    pub(super) fn insert(&mut self, begin: u64, bytes: Bytes) {
        let range = begin..begin + bytes.len() as u64;
        if range.start < range.end && self.missing(range.clone()) == [range.clone()] {
            self.add(range);
            self.arrived(begin, Ok(bytes));
        }
    }

    fn remove(&mut self, begin: u64) {
        if let Some(piece) = self.held.remove(&begin) {
            self.size -= piece.end - begin;
        }
    }

    /// Makes room for `len` more bytes by dropping cached parts, and returns true if the bytes then
    /// fit. Drops only parts that are probably no longer needed, unless `is_waited_for` is true,
    /// which means that a read is waiting for the bytes.
    fn make_room(&mut self, len: u64, is_waited_for: bool) -> bool {
        while self.size.saturating_add(len) > self.most {
            let ready = self.held.iter();
            let ready = ready.filter(|(_, piece)| matches!(piece.content, Content::Ready(_)));
            let dropped = ready
                .filter(|(_, piece)| is_waited_for || piece.is_done())
                .min_by_key(|(_, piece)| (!piece.is_done(), piece.used))
                .map(|(&begin, _)| begin);
            match dropped {
                Some(begin) => self.remove(begin),
                None => return false,
            }
        }
        true
    }
}

impl Piece {
    /// Returns true if the piece is probably no longer needed: its end and most of its bytes were
    /// read.
    fn is_done(&self) -> bool {
        self.unread == 0 || self.is_passed && self.unread <= self.content.len() / 4
    }
}

impl Content {
    fn len(&self) -> u64 {
        match self {
            Content::Ready(bytes) => bytes.len() as u64,
            Content::Pending | Content::Failed(_) => 0,
        }
    }
}

/// Returns true if one request should fetch both ranges: they touch, or the gap between them is
/// small compared to their lengths.
fn is_near(last: &Range<u64>, next: &Range<u64>, coalesce: u64) -> bool {
    let len = (last.end - last.start).max(next.end - next.start);
    let gap = next.start.saturating_sub(last.end);
    next.start >= last.start && gap <= coalesce.min(len)
}

fn cut(range: Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let begin = at;
        at = range.end.min(begin.saturating_add(most));
        (begin < at).then_some(begin..at)
    })
}

#[cfg(test)]
#[allow(
    clippy::single_range_in_vec_init,
    reason = "lists of requests, some of them of one"
)]
mod tests {
    use super::*;

    /// Takes all requests from the queue, and returns them in order.
    fn requests(pieces: &mut Pieces) -> Vec<Range<u64>> {
        std::iter::from_fn(|| pieces.take_next(|_| true)).collect()
    }

    fn queued(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut pieces = Pieces::new(1 << 20);
        pieces.queue(ranges, 100, 1000);
        requests(&mut pieces)
    }

    #[test]
    fn close_ranges_are_one_request_and_long_ones_are_several() {
        let far = 0..100_000;
        assert_eq!(queued(&[0..50, 60..90]), [0..90]);
        assert_eq!(queued(&[0..200, 301..500]), [0..200, 301..500]);
        // A gap longer than both ranges isn't worth fetching.
        assert_eq!(queued(&[0..10, 90..99]), [0..10, 90..99]);
        assert_eq!(queued(&[5..2500]), [5..1005, 1005..2005, 2005..2500]);
        assert_eq!(queued(&[700..800, 0..100]), [700..800, 0..100]);
        assert_eq!(queued(std::slice::from_ref(&far)).len(), 100);
    }

    #[test]
    fn nothing_is_requested_twice() {
        let mut pieces = Pieces::new(1 << 20);
        pieces.queue(&[0..500, 2000..2500], 100, 1000);
        assert_eq!(pieces.take_next(|_| true), Some(0..500));
        pieces.queue(&[0..3000], 100, 1000);
        assert_eq!(
            requests(&mut pieces),
            [2000..2500, 500..1500, 1500..2000, 2500..3000]
        );
        pieces.queue(&[0..3000], 100, 1000);
        assert_eq!(requests(&mut pieces), []);
    }

    #[test]
    fn a_read_that_waits_goes_before_what_is_queued() {
        let mut pieces = Pieces::new(10_000);
        pieces.queue(&[0..3000], 100, 1000);
        assert_eq!(pieces.take_now(2100..2200, 1000), Some(2000..3000));
        assert_eq!(pieces.take_now(7000..9500, 1000), Some(7000..8000));
        assert_eq!(
            requests(&mut pieces),
            [8000..9000, 9000..9500, 0..1000, 1000..2000]
        );
    }

    #[test]
    fn what_was_read_makes_room_and_what_was_not_stays() {
        let mut pieces = Pieces::new(2000);
        pieces.queue(&[0..4000], 100, 1000);
        assert_eq!(requests(&mut pieces), [0..1000, 1000..2000]);
        for begin in [0, 1000] {
            pieces.arrived(begin, Ok(Bytes::from(vec![7; 1000])));
        }
        assert_eq!(requests(&mut pieces), []);
        assert!(matches!(pieces.read(0, 1000), Found::Bytes(bytes) if bytes.len() == 1000));
        assert_eq!(requests(&mut pieces), [2000..3000]);
        assert!(matches!(pieces.read(0, 1), Found::Nothing));
        assert!(matches!(pieces.read(1500, 1), Found::Bytes(bytes) if bytes.len() == 500));
        assert!(matches!(pieces.read(2500, 1), Found::Pending));
    }

    #[test]
    fn a_failure_is_said_once_and_then_tried_again() {
        let mut pieces = Pieces::new(2000);
        assert_eq!(pieces.take_now(0..10, 1000), Some(0..10));
        pieces.arrived(0, Err(Failure::new(std::io::ErrorKind::Other, "cut")));
        assert!(matches!(pieces.read(0, 1), Found::Failed(_)));
        assert_eq!(pieces.take_now(0..10, 1000), Some(0..10));
    }
}
