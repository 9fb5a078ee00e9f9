//! Block headers, and conversions between file positions and numbers of payload bytes.
//!
//! The payload is everything in a file except block headers, which interrupt it every 64 KiB. File
//! positions are converted to *linear* positions and back. A linear position is the number of
//! payload bytes before a file position. In linear positions, chunks are contiguous, so there are
//! no special cases.
use crate::error::{Error, ErrorKind, Result};
use crate::hash::hash;

pub(crate) const BLOCK: u64 = 1 << 16;
/// Size of a chunk's header, in bytes.
pub(crate) const CHUNK_HEADER: u64 = 40;
pub(crate) const BLOCK_HEADER: u64 = 24;
/// Number of bytes in a block after its header.
pub(crate) const PAYLOAD: u64 = BLOCK - BLOCK_HEADER;
pub(crate) const BLOCK_HEADER_LEN: usize = 24;

pub(crate) fn is_boundary(pos: u64) -> bool {
    pos.is_multiple_of(BLOCK)
}

pub(crate) fn block_of(pos: u64) -> u64 {
    pos - pos % BLOCK
}

/// Returns the first block boundary at or after `pos`. Saturates, since a scan for blocks would go
/// backwards if the result wrapped around.
pub(crate) fn next_boundary(pos: u64) -> u64 {
    match pos % BLOCK {
        0 => pos,
        within => pos.saturating_add(BLOCK - within),
    }
}

/// Returns whether a chunk can begin or end at `pos`. A chunk at the start of a block begins before
/// the block's header, so the header itself and the position right after it are excluded.
pub(crate) fn is_chunk_boundary(pos: u64) -> bool {
    !(1..=BLOCK_HEADER).contains(&(pos % BLOCK))
}

/// Returns the first position at or after `pos` where a chunk can begin.
pub(crate) fn round_to_chunk_boundary(pos: u64) -> u64 {
    if is_chunk_boundary(pos) {
        pos
    } else {
        pos.saturating_add(BLOCK_HEADER + 1 - pos % BLOCK)
    }
}

/// Returns the number of payload bytes before `pos` in the file.
fn linear(pos: u64) -> u64 {
    pos / BLOCK * PAYLOAD + (pos % BLOCK).saturating_sub(BLOCK_HEADER)
}

/// Returns the file position of the payload byte that is `offset` payload bytes after the chunk
/// boundary `begin`. Saturates.
pub(crate) fn payload_position(begin: u64, offset: u64) -> u64 {
    let target = linear(begin).saturating_add(offset);
    (target / PAYLOAD)
        .saturating_mul(BLOCK)
        .saturating_add(BLOCK_HEADER + target % PAYLOAD)
}

/// Returns the file position after `len` payload bytes that begin at the chunk boundary `begin`.
/// Saturates.
pub(crate) fn payload_end(begin: u64, len: u64) -> u64 {
    let target = linear(begin).saturating_add(len);
    let blocks = (target / PAYLOAD).saturating_mul(BLOCK);
    match target % PAYLOAD {
        0 => blocks,
        within => blocks.saturating_add(BLOCK_HEADER + within),
    }
}

/// Returns the number of payload bytes between two file positions.
pub(crate) fn payload_between(begin: u64, end: u64) -> u64 {
    linear(end).saturating_sub(linear(begin))
}

/// The header of a block: the distances, in bytes, from the block to both ends of the chunk that
/// contains the header. [`format`](crate::format) has the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) previous_chunk: u64,
    pub(crate) next_chunk: u64,
}

impl BlockHeader {
    /// Returns the header for the block at `block`, inside the chunk from `begin` to `end`.
    pub(crate) fn within(block: u64, begin: u64, end: u64) -> Self {
        BlockHeader {
            previous_chunk: block - begin,
            next_chunk: end - block,
        }
    }

    pub(crate) fn encode(self) -> [u8; BLOCK_HEADER_LEN] {
        let mut out = [0; BLOCK_HEADER_LEN];
        out[8..16].copy_from_slice(&self.previous_chunk.to_le_bytes());
        out[16..].copy_from_slice(&self.next_chunk.to_le_bytes());
        let hash = hash(&out[8..]);
        out[..8].copy_from_slice(&hash.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8; BLOCK_HEADER_LEN], block: u64) -> Result<Self> {
        let [stored, previous_chunk, next_chunk] = words(bytes);
        let computed = hash(&bytes[8..]);
        if stored != computed {
            return Err(Error::hash(block, "block header", stored, computed));
        }
        Ok(BlockHeader {
            previous_chunk,
            next_chunk,
        })
    }

    /// Checks that this header, read at `block`, describes the chunk from `begin` to `end`.
    pub(crate) fn check(self, block: u64, begin: u64, end: u64) -> Result<()> {
        if self == BlockHeader::within(block, begin, end) {
            return Ok(());
        }
        Err(Error::at(
            ErrorKind::Corrupt,
            block,
            format!(
                "block header is for a chunk from {:#x} to {:#x}, not {begin:#x} to {end:#x}",
                i128::from(block) - i128::from(self.previous_chunk),
                u128::from(block) + u128::from(self.next_chunk),
            ),
        ))
    }
}

/// Splits a header into little-endian words of 64 bits.
pub(crate) fn words<const BYTES: usize, const WORDS: usize>(bytes: &[u8; BYTES]) -> [u64; WORDS] {
    let mut out = [0; WORDS];
    for (word, bytes) in out.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    out
}

/// Returns the size of a file of `pos` bytes after padding to a multiple of `padding`; `None` if no
/// padding is needed or the size overflows.
///
/// The padding is a chunk: it has room for at least a chunk header, and ends at a chunk boundary.
pub(crate) fn padded_end(pos: u64, padding: u64) -> Option<u64> {
    if padding <= 1 || pos.is_multiple_of(padding) {
        return None;
    }
    let mut end = pos.checked_add(padding - pos % padding)?;
    // A block header may take up some bytes of the padding, so only payload bytes count.
    while !is_chunk_boundary(end) || payload_between(pos, end) < CHUNK_HEADER {
        end = end.checked_add(padding)?;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes [`payload_end`] byte by byte, as the format's description does.
    fn slow_end(begin: u64, len: u64) -> u64 {
        let mut pos = begin;
        for _ in 0..len {
            if is_boundary(pos) {
                pos += BLOCK_HEADER;
            }
            pos += 1;
        }
        pos
    }

    #[test]
    fn ends_match_stepping() {
        let around = |at: u64| at.saturating_sub(70)..at + 70;
        for begin in around(BLOCK).filter(|&pos| is_chunk_boundary(pos)) {
            for len in (0..70).chain(PAYLOAD - 70..PAYLOAD + 70) {
                let end = slow_end(begin, len);
                assert_eq!(payload_end(begin, len), end, "{begin} {len}");
                assert_eq!(payload_between(begin, end), len);
                assert_eq!(payload_position(begin, len) + 1, slow_end(begin, len + 1));
            }
        }
        assert_eq!(payload_end(0, 40), 64);
        assert_eq!(payload_end(u64::MAX - 100, u64::MAX), u64::MAX);
    }

    #[test]
    fn boundaries() {
        for (pos, rounded) in [
            (0, 0),
            (1, 25),
            (24, 25),
            (25, 25),
            (65536, 65536),
            (65537, 65561),
        ] {
            assert_eq!(round_to_chunk_boundary(pos), rounded);
            assert_eq!(is_chunk_boundary(pos), pos == rounded);
        }
        assert_eq!(next_boundary(u64::MAX), u64::MAX);
        assert_eq!(next_boundary(1), BLOCK);
        assert_eq!(next_boundary(BLOCK), BLOCK);
    }

    #[test]
    fn padding_always_fits_a_chunk_header() {
        for padding in [1, 2, 50, 60, 61, 70, 1000, BLOCK] {
            for pos in (64..200).chain(65400..65536).chain(65561..65700) {
                match padded_end(pos, padding) {
                    None => assert!(pos % padding == 0 || padding == 1),
                    Some(end) => {
                        assert_eq!(end % padding, 0);
                        assert!(is_chunk_boundary(end) && payload_between(pos, end) >= 40);
                    }
                }
            }
        }
        assert_eq!(padded_end(760, 1000), Some(1000));
        assert_eq!(padded_end(970, 1000), Some(2000));
    }

    #[test]
    fn header_round_trip_and_damage() {
        let header = BlockHeader::within(BLOCK, 100, 70000);
        let mut bytes = header.encode();
        assert_eq!(BlockHeader::decode(&bytes, BLOCK).unwrap(), header);
        header.check(BLOCK, 100, 70000).unwrap();
        assert!(header.check(BLOCK, 101, 70000).is_err());
        bytes[9] ^= 1;
        let error = BlockHeader::decode(&bytes, BLOCK).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
        assert_eq!(error.offset(), Some(BLOCK));
    }
}
