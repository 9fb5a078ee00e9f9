//! Computing the crc32c of bytes that are read in pieces, in any order and by any number of
//! threads.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::combine;

/// Maximum number of disjoint pieces that a [`CrcOfPieces`] remembers, since each takes memory.
/// Only random access produces more pieces.
const MOST_PIECES: usize = 4096;

/// The crc32c of bytes that are read in pieces, in any order. It is computed while the bytes are
/// read for another purpose, so that they are read only once. Adjacent pieces merge into one.
///
/// ```
/// use proto_splitter_core::checksum::CrcOfPieces;
///
/// let sum = CrcOfPieces::new(9);
/// assert_eq!(sum.add(4, b"split"), None);
/// assert_eq!(sum.add(0, b"pro-"), Some(crc32c::crc32c(b"pro-split")));
/// ```
#[derive(Debug)]
pub struct CrcOfPieces {
    len: u64,
    /// Pieces already read, keyed by the position of their first byte. No two overlap or touch.
    pieces: Mutex<BTreeMap<u64, Piece>>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    end: u64,
    crc32c: u32,
}

impl CrcOfPieces {
    /// Creates a checksum of `len` bytes that are still to be read.
    #[must_use]
    pub fn new(len: u64) -> Self {
        CrcOfPieces {
            len,
            pieces: Mutex::default(),
        }
    }

    /// Adds bytes that were read at the offset `at`. Returns `None` as long as bytes are missing.
    /// Once no bytes are missing, returns the crc32c of all bytes and starts over, so that bytes
    /// that are read again are verified again.
    pub fn add(&self, at: u64, bytes: &[u8]) -> Option<u32> {
        if bytes.is_empty() {
            return None;
        }
        let (mut start, mut end) = (at, at.saturating_add(bytes.len() as u64));
        let mut crc32c = crc32c::crc32c(bytes);
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        // If a piece is read again, only the second read counts.
        let again: Vec<u64> = pieces
            .range(start..end)
            .filter(|(_, piece)| piece.end <= end)
            .map(|(start, _)| *start)
            .collect();
        for start in again {
            pieces.remove(&start);
        }
        // Any other piece overlaps with one end of these bytes.
        if let Some((_, before)) = pieces.range(..=start).next_back() {
            start = start.max(before.end);
        }
        if start >= end {
            return None;
        }
        if let Some((after, _)) = pieces.range(start..end).next() {
            end = *after;
        }
        if (end - start) < bytes.len() as u64 {
            let place = |offset: u64| usize::try_from(offset - at).ok();
            crc32c = crc32c::crc32c(bytes.get(place(start)?..place(end)?)?);
        }
        self.join(&mut pieces, start, Piece { end, crc32c })
    }

    /// Adds a range of bytes, given their crc32c, like [`add`](Self::add). Earlier pieces that
    /// overlap with the range are dropped, so their bytes outside the range count as unread again.
    ///
    /// ```
    /// use proto_splitter_core::checksum::CrcOfPieces;
    ///
    /// let sum = CrcOfPieces::new(9);
    /// assert_eq!(sum.add_summed(4..9, crc32c::crc32c(b"split")), None);
    /// assert_eq!(sum.add(0, b"pro-"), Some(crc32c::crc32c(b"pro-split")));
    /// ```
    pub fn add_summed(&self, range: Range<u64>, crc32c: u32) -> Option<u32> {
        if range.is_empty() {
            return None;
        }
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let before_end = pieces.range(..range.end).rev();
        let shared = before_end.take_while(|(_, piece)| piece.end > range.start);
        let shared: Vec<u64> = shared.map(|(start, _)| *start).collect();
        for start in shared {
            pieces.remove(&start);
        }
        let piece = Piece {
            end: range.end,
            crc32c,
        };
        self.join(&mut pieces, range.start, piece)
    }

    /// Adds a piece that overlaps with no other piece. Returns the crc32c of all bytes if none is
    /// missing any more, otherwise `None`.
    fn join(
        &self,
        pieces: &mut BTreeMap<u64, Piece>,
        mut start: u64,
        mut piece: Piece,
    ) -> Option<u32> {
        if let Some((&first, before)) = pieces.range(..start).next_back()
            && before.end == start
        {
            piece.crc32c = combine(before.crc32c, piece.crc32c, piece.end - start);
            pieces.remove(&first);
            start = first;
        }
        if let Some(after) = pieces.remove(&piece.end) {
            piece.crc32c = combine(piece.crc32c, after.crc32c, after.end - piece.end);
            piece.end = after.end;
        }
        if (start, piece.end) == (0, self.len) {
            return Some(piece.crc32c);
        }
        if pieces.len() < MOST_PIECES {
            pieces.insert(start, piece);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEN: usize = 100;

    fn bytes() -> Vec<u8> {
        (0..100u8).map(|at| at.wrapping_mul(37) ^ 5).collect()
    }

    /// Reads these ranges in order. For each, returns the crc32c of all bytes if the range was the
    /// last that was missing.
    fn read(sum: &CrcOfPieces, ranges: &[Range<usize>]) -> Vec<Option<u32>> {
        let bytes = bytes();
        let add = |range: &Range<usize>| sum.add(range.start as u64, &bytes[range.clone()]);
        ranges.iter().map(add).collect()
    }

    #[test]
    fn the_read_of_the_last_missing_bytes_gives_the_crc_of_all() {
        let whole = Some(crc32c::crc32c(&bytes()));
        for ranges in [
            &[0..50, 50..100][..],
            &[0..1, 1..99, 99..100],
            &[50..100, 0..50],
            &[0..10, 20..30, 40..100, 30..40, 10..20],
            // A range overlaps earlier ranges at its start, at its end, or at both ends, is inside
            // another range, or encloses others.
            &[0..60, 40..100],
            &[40..100, 0..60],
            &[0..40, 60..100, 30..70],
            &[0..60, 10..20, 55..100],
            &[10..20, 30..40, 0..100],
            &[10..20, 15..45, 40..45, 5..12, 0..6, 44..100],
        ] {
            let sum = CrcOfPieces::new(LEN as u64);
            // Reads everything twice, to check that `sum` starts over after the last missing bytes.
            for _ in 0..2 {
                let found = read(&sum, ranges);
                let (last, before) = found.split_last().unwrap();
                assert_eq!(*last, whole, "{ranges:?}");
                assert!(before.iter().all(Option::is_none), "{ranges:?}");
            }
        }
    }

    #[test]
    fn bytes_that_were_read_twice_count_as_they_were_the_second_time() {
        let (good, mut bad) = (bytes(), bytes());
        bad[30] ^= 4;
        let sum = CrcOfPieces::new(LEN as u64);
        assert_eq!(sum.add(20, &good[20..40]), None);
        assert_eq!(sum.add(0, &bad[..90]), None);
        assert_eq!(sum.add(90, &good[90..]), Some(crc32c::crc32c(&bad)));
    }

    #[test]
    fn a_piece_given_by_its_crc_replaces_those_that_share_bytes_with_it() {
        let (bytes, whole) = (bytes(), Some(crc32c::crc32c(&bytes())));
        let sum = CrcOfPieces::new(LEN as u64);
        let known = |range: Range<usize>| {
            let crc32c = crc32c::crc32c(&bytes[range.clone()]);
            sum.add_summed(range.start as u64..range.end as u64, crc32c)
        };
        assert_eq!(sum.add(0, &bytes[..30]), None);
        assert_eq!(known(30..60), None);
        assert_eq!(known(60..100), whole);
        assert_eq!(sum.add(0, &bytes[..50]), None);
        assert_eq!((known(40..70), known(70..100)), (None, None));
        assert_eq!(sum.add(0, &bytes[..40]), whole);
        assert_eq!((known(0..40), known(10..20)), (None, None));
        assert_eq!((known(20..100), known(0..10)), (None, whole));
    }

    #[test]
    fn pieces_at_random_places_take_bounded_memory() {
        let sum = CrcOfPieces::new(u64::MAX);
        for at in 0..3 * MOST_PIECES as u64 {
            assert_eq!(sum.add(at * 2, &[1]), None);
        }
        assert_eq!(sum.pieces.lock().unwrap().len(), MOST_PIECES);
    }

    proptest! {
        #[test]
        fn whatever_was_read_before_all_bytes_in_order_make_the_crc(
            before in prop::collection::vec((0..LEN, 0..LEN), 0..12),
            step in 1..LEN,
        ) {
            let sum = CrcOfPieces::new(LEN as u64);
            let before: Vec<_> = before.iter().map(|&(a, b)| a.min(b)..a.max(b)).collect();
            let order: Vec<_> = (0..LEN).step_by(step).map(|at| at..LEN.min(at + step)).collect();
            let found = [read(&sum, &before), read(&sum, &order)].concat();
            let whole = crc32c::crc32c(&bytes());
            prop_assert!(found.iter().flatten().all(|crc| *crc == whole));
            prop_assert!(found.iter().flatten().count() >= 1);
        }
    }
}
