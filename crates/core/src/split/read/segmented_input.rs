//! A message in memory, in one or several pieces that are shared with the code that created it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use record_file::ReadAt;

/// Bytes in memory, in one or several pieces.
#[derive(Clone)]
pub(in crate::split) struct SegmentedInput {
    /// Pieces with their start offsets in the message. The last piece is empty and marks the end.
    pieces: Arc<[(u64, Bytes)]>,
}

impl SegmentedInput {
    pub(in crate::split) fn new(pieces: Vec<Bytes>) -> Self {
        let mut start = 0;
        let ended = pieces.into_iter().chain([Bytes::new()]);
        let placed = ended.map(|piece| {
            let at = start;
            start += piece.len() as u64;
            (at, piece)
        });
        SegmentedInput {
            pieces: placed.collect(),
        }
    }

    pub(in crate::split) fn len(&self) -> u64 {
        self.pieces.last().map_or(0, |(start, _)| *start)
    }

    /// Returns the piece that contains the byte at `offset`, and the byte's offset in the piece;
    /// `None` after the end.
    fn at(&self, offset: u64) -> Option<(&Bytes, usize)> {
        let after = self.pieces.partition_point(|(start, _)| *start <= offset);
        let (start, piece) = self.pieces.get(after.checked_sub(1)?)?;
        Some((piece, usize::try_from(offset - start).ok()?))
    }

    /// Returns the bytes of `range` without copying; `None` unless they are in one piece.
    pub(in crate::split) fn shared(&self, range: &Range<u64>) -> Option<Bytes> {
        let (piece, start) = self.at(range.start)?;
        let len = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        let end = start.checked_add(len)?;
        (end <= piece.len()).then(|| piece.slice(start..end))
    }
}

impl ReadAt for SegmentedInput {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let Some((piece, skip)) = self.at(offset) else {
            return Ok(0);
        };
        let rest = piece.get(skip..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len())
    }

    fn as_slice(&self) -> Option<&[u8]> {
        match &*self.pieces {
            [(_, end)] => Some(end),
            [(_, all), _] => Some(all),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_read_as_if_they_were_one() {
        let all: Vec<u8> = (0..=99).collect();
        for cuts in [&[][..], &[100], &[40], &[40, 40, 41], &[1, 50, 99]] {
            let mut pieces = Vec::new();
            let mut from = 0;
            for &to in cuts.iter().chain(&[100]) {
                pieces.push(Bytes::copy_from_slice(&all[from..to]));
                from = to;
            }
            let pieces = SegmentedInput::new(pieces);
            assert_eq!(pieces.len(), 100);
            for start in 0..=100usize {
                for end in start..=100 {
                    let mut read = vec![0; end - start];
                    pieces.read_exact_at(start as u64, &mut read).unwrap();
                    assert_eq!(read, all[start..end], "{cuts:?}");
                    let shared = pieces.shared(&(start as u64..end as u64));
                    let within = !cuts.iter().any(|&cut| start < cut && cut < end);
                    assert_eq!(shared.is_some(), within, "{start}..{end} of {cuts:?}");
                    assert!(shared.is_none_or(|shared| shared == all[start..end]));
                }
            }
            assert_eq!(pieces.read_at(100, &mut [0]).unwrap(), 0);
            assert_eq!(pieces.read_at(u64::MAX, &mut [0]).unwrap(), 0);
        }
    }

    #[test]
    fn one_piece_is_a_slice() {
        assert_eq!(SegmentedInput::new(vec![]).as_slice(), Some(&[][..]));
        let piece = Bytes::from_static(b"one");
        let pieces = SegmentedInput::new(vec![piece.clone()]);
        assert_eq!(pieces.as_slice(), Some(&b"one"[..]));
        assert_eq!(pieces.shared(&(0..3)).unwrap().as_ptr(), piece.as_ptr());
        assert!(
            SegmentedInput::new(vec![piece.clone(), piece])
                .as_slice()
                .is_none()
        );
    }
}
