//! A source whose first and last bytes are kept in memory, and that is read ahead.
use std::fmt;
use std::io::{self, IoSliceMut};
use std::ops::Range;

use super::runs::{Runs, read_some};
use crate::read_at::{ReadAt, read_full_at};

/// A source, copies of its first bytes (`head`) and last bytes (`tail`), and bytes that were read
/// ahead.
pub(crate) struct WithEnds<S> {
    source: S,
    runs: Runs,
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Offset of the tail in the source.
    tail_at: u64,
    /// Size of the source, in bytes; `u64::MAX` if its ends weren't read.
    size: u64,
}

impl<S: fmt::Debug> fmt::Debug for WithEnds<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl<S> WithEnds<S> {
    pub(crate) fn get_ref(&self) -> &S {
        &self.source
    }

    pub(crate) fn into_inner(self) -> S {
        self.source
    }

    /// Wraps a source without reading its ends.
    pub(crate) fn none(source: S) -> Self {
        WithEnds {
            source,
            runs: Runs::default(),
            head: Vec::new(),
            tail: Vec::new(),
            tail_at: 0,
            size: u64::MAX,
        }
    }
}

impl<S: ReadAt> WithEnds<S> {
    /// Reads both ends of a source of `size` bytes. If the ends touch or overlap, the whole source
    /// is read as one range.
    pub(crate) fn read(source: S, size: u64, head: usize, tail: usize) -> Self {
        if source.as_slice().is_some() {
            return WithEnds::none(source);
        }
        let (head, tail) = (head as u64, tail as u64);
        let (head, tail_at) = if size <= head.saturating_add(tail) {
            (size, size)
        } else {
            (head, size - tail)
        };
        let ends = [0..head, tail_at..size];
        let ends: Vec<_> = ends.into_iter().filter(|end| !end.is_empty()).collect();
        source.prefetch(&ends);
        WithEnds {
            head: read_range(&source, 0..head),
            tail: read_range(&source, tail_at..size),
            tail_at,
            size,
            source,
            runs: Runs::default(),
        }
    }
}

/// Returns the bytes of a range inside the source, or an empty vector if they can't be read.
fn read_range<S: ReadAt>(source: &S, range: Range<u64>) -> Vec<u8> {
    if range.is_empty() {
        return Vec::new();
    }
    let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
    let got = read_full_at(source, range.start, &mut bytes).unwrap_or(0);
    bytes.truncate(got);
    bytes
}

impl<S> WithEnds<S> {
    /// Returns the bytes in memory that start at `offset`, or an empty slice if there are none.
    fn at_hand(&self, offset: u64) -> &[u8] {
        let from = |bytes: &'_ [u8], begin: u64| -> Option<usize> {
            let at = usize::try_from(offset.checked_sub(begin)?).ok()?;
            (at < bytes.len()).then_some(at)
        };
        match (from(&self.head, 0), from(&self.tail, self.tail_at)) {
            (Some(at), _) => &self.head[at..],
            (None, Some(at)) => &self.tail[at..],
            (None, None) => &[],
        }
    }
}

impl<S: ReadAt> WithEnds<S> {
    /// Returns the maximum number of bytes to request from the source at `offset`. Bytes that are
    /// in memory or after the end of the source aren't requested.
    fn most(&self, offset: u64) -> usize {
        let end = match (self.head.is_empty(), self.tail.is_empty()) {
            (true, true) => return usize::MAX,
            // If the end wasn't read, the source's size isn't known.
            _ if offset >= self.tail_at + self.tail.len() as u64 => return usize::MAX,
            _ => self.tail_at,
        };
        usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX)
    }

    /// Reads from the source, and reads ahead unless the source is in memory, or reads ahead itself
    /// because reads are announced to it.
    fn request(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.source.as_slice().is_some() || self.source.is_prefetched() {
            return read_some(&self.source, offset, bufs);
        }
        let most = self.most(offset);
        self.runs.read_at(&self.source, offset, most, bufs)
    }
}

impl<S: ReadAt> ReadAt for WithEnds<S> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if offset >= self.size {
            return Ok(0);
        }
        let at_hand = self.at_hand(offset);
        if at_hand.is_empty() {
            let most = self.most(offset).min(buf.len());
            return self.request(offset, &mut [IoSliceMut::new(&mut buf[..most])]);
        }
        let n = at_hand.len().min(buf.len());
        buf[..n].copy_from_slice(&at_hand[..n]);
        Ok(n)
    }

    fn size(&self) -> io::Result<u64> {
        self.source.size()
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let wanted = bufs.iter().map(|buf| buf.len()).sum::<usize>();
        let is_elsewhere = self.at_hand(offset).is_empty() && wanted <= self.most(offset);
        if is_elsewhere && offset < self.size {
            return self.request(offset, bufs);
        }
        match bufs.iter_mut().find(|buf| !buf.is_empty()) {
            Some(buf) => self.read_at(offset, buf),
            None => Ok(0),
        }
    }

    fn is_vectored(&self) -> bool {
        self.source.is_vectored()
    }

    fn as_slice(&self) -> Option<&[u8]> {
        self.source.as_slice()
    }

    /// Announces to the source those parts of `ranges` that aren't in memory.
    fn prefetch(&self, ranges: &[Range<u64>]) {
        let head = self.head.len() as u64;
        let tail = if self.tail.is_empty() {
            u64::MAX
        } else {
            self.tail_at
        };
        let ranges = ranges.iter();
        let ranges = ranges.map(|range| range.start.max(head)..range.end.min(tail));
        let ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
        if !ranges.is_empty() {
            self.source.prefetch(&ranges);
        }
    }

    fn is_prefetched(&self) -> bool {
        self.source.is_prefetched()
    }
}
