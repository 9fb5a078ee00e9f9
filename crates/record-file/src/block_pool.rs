//! A pool of memory blocks: blocks that one step of encoding frees are reused by the next step.
use std::collections::VecDeque;

/// Size of the largest blocks, in bytes. The sizes of blocks are the powers of two from
/// [`SMALLEST`] to this size.
pub(crate) const LARGEST: usize = 64 << 10;
pub(crate) const SMALLEST: usize = 256;
const SIZES: usize = (LARGEST / SMALLEST).ilog2() as usize + 1;

/// A pool of unused memory blocks.
#[derive(Debug, Default)]
pub(crate) struct BlockPool {
    /// Unused blocks, in one list for each size. The list of the smallest blocks is first.
    free: [Vec<Vec<u8>>; SIZES],
}

impl BlockPool {
    /// Returns a block of `wanted` bytes, rounded down to one of the pool's sizes, or of
    /// [`SMALLEST`] bytes if `wanted` is less. The content of the block is unspecified.
    pub(crate) fn take(&mut self, wanted: usize) -> Vec<u8> {
        let wanted = wanted.clamp(SMALLEST, LARGEST);
        let class = (wanted / SMALLEST).ilog2();
        let free = self.free.get_mut(class as usize);
        free.and_then(Vec::pop)
            .unwrap_or_else(|| vec![0; SMALLEST << class])
    }

    /// Keeps a block for reuse, or drops it if its size isn't one of the pool's sizes.
    pub(crate) fn give(&mut self, block: Vec<u8>) {
        let len = block.len();
        if (SMALLEST..=LARGEST).contains(&len) && len.is_power_of_two() {
            let class = (len / SMALLEST).ilog2();
            if let Some(free) = self.free.get_mut(class as usize) {
                free.push(block);
            }
        }
    }

    /// Drops blocks until at most `most` bytes are held.
    pub(crate) fn shrink(&mut self, most: u64) {
        let mut left = usize::try_from(most).unwrap_or(usize::MAX);
        for (class, free) in self.free.iter_mut().enumerate().rev() {
            let size = SMALLEST << class;
            free.truncate(left / size);
            left -= free.len() * size;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.iter().all(Vec::is_empty)
    }
}

/// A range of bytes within a block.
#[derive(Debug)]
pub(crate) struct Piece {
    block: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Piece {
    /// Returns the range from `begin` to the end of the block.
    pub(crate) fn from(block: Vec<u8>, begin: usize) -> Self {
        let end = block.len();
        Piece { block, begin, end }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.block[self.begin..self.end]
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.begin
    }

    pub(crate) fn into_block(self) -> Vec<u8> {
        self.block
    }
}

/// Minimum size of a piece that [`PieceQueue::add`] moves rather than copies, in bytes.
const SMALL: usize = 4 << 10;

/// A queue of bytes, stored in pieces. Bytes are added at the end and removed from the front.
#[derive(Debug, Default)]
pub(crate) struct PieceQueue {
    pieces: VecDeque<Piece>,
    len: u64,
}

impl PieceQueue {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(Piece::as_slice)
    }

    pub(crate) fn push(&mut self, piece: Piece) {
        self.len += piece.len() as u64;
        self.pieces.push_back(piece);
    }

    /// Adds a piece. A small piece is copied, since many small pieces take longer to hash and
    /// write.
    pub(crate) fn add(&mut self, piece: Piece, blocks: &mut BlockPool) {
        if piece.len() < SMALL {
            self.append(piece.as_slice(), blocks);
            blocks.give(piece.into_block());
        } else {
            self.push(piece);
        }
    }

    /// Returns at least `least` bytes to fill: the unfilled part of the last block, or a new block.
    /// `least` must not exceed the size of a block.
    #[inline]
    pub(crate) fn room(&mut self, least: usize, blocks: &mut BlockPool) -> &mut [u8] {
        let there = |piece: &Piece| piece.block.len() - piece.end >= least.max(1);
        if !self.pieces.back().is_some_and(there) {
            let block = blocks.take(LARGEST);
            self.pieces.push_back(Piece {
                block,
                begin: 0,
                end: 0,
            });
        }
        match self.pieces.back_mut() {
            Some(last) => &mut last.block[last.end..],
            None => &mut [],
        }
    }

    /// Adds the first `len` bytes of the [`room`](Self::room), which the caller has filled, to the
    /// queue.
    #[inline]
    pub(crate) fn filled(&mut self, len: usize) {
        if let Some(last) = self.pieces.back_mut() {
            last.end += len;
            self.len += len as u64;
        }
    }

    #[inline]
    pub(crate) fn append(&mut self, mut bytes: &[u8], blocks: &mut BlockPool) {
        while !bytes.is_empty() {
            let room = self.room(1, blocks);
            let (now, later) = bytes.split_at(room.len().min(bytes.len()));
            room[..now.len()].copy_from_slice(now);
            self.filled(now.len());
            bytes = later;
        }
    }

    /// Removes and returns the next `len` bytes, or all bytes if fewer are left. They are borrowed
    /// from their piece, or copied into `joined` if they span several pieces. Emptied blocks return
    /// to the pool.
    #[inline]
    pub(crate) fn take<'a>(
        &'a mut self,
        len: usize,
        joined: &'a mut Vec<u8>,
        blocks: &mut BlockPool,
    ) -> &'a [u8] {
        if self.pieces.front().is_none_or(|first| first.len() < len) {
            self.join(len, joined, blocks);
            return joined;
        }
        match self.pieces.front_mut() {
            Some(first) => {
                first.begin += len;
                self.len -= len as u64;
                &first.block[first.begin - len..first.begin]
            }
            None => &[],
        }
    }

    #[cold]
    fn join(&mut self, len: usize, joined: &mut Vec<u8>, blocks: &mut BlockPool) {
        joined.clear();
        while joined.len() < len {
            let Some(first) = self.pieces.front_mut() else {
                return;
            };
            let some = first.len().min(len - joined.len());
            joined.extend_from_slice(&first.block[first.begin..first.begin + some]);
            first.begin += some;
            self.len -= some as u64;
            if first.len() == 0 {
                self.pop_front(blocks);
            }
        }
    }

    fn pop_front(&mut self, blocks: &mut BlockPool) {
        if let Some(first) = self.pieces.pop_front() {
            blocks.give(first.into_block());
        }
    }

    pub(crate) fn pop_back(&mut self) -> Option<Piece> {
        let last = self.pieces.pop_back()?;
        self.len -= last.len() as u64;
        Some(last)
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Piece> {
        self.len = 0;
        self.pieces.drain(..)
    }

    /// Removes all bytes, and returns the blocks to the pool.
    pub(crate) fn clear(&mut self, blocks: &mut BlockPool) {
        self.drain()
            .for_each(|piece| blocks.give(piece.into_block()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appended(parts: &[&[u8]], blocks: &mut BlockPool) -> PieceQueue {
        let mut pieces = PieceQueue::default();
        parts.iter().for_each(|part| pieces.append(part, blocks));
        pieces
    }

    #[test]
    fn what_was_appended_is_taken_with_any_lengths_and_gives_up_its_blocks() {
        let bytes: Vec<u8> = (0..1_000_000u32).map(|at| at.to_le_bytes()[0]).collect();
        for len in [1, 160, 65_535, 65_536, 65_537, 1_000_000] {
            let blocks = &mut BlockPool::default();
            let mut pieces = appended(&bytes.chunks(777).collect::<Vec<_>>(), blocks);
            assert_eq!(pieces.len(), 1_000_000);
            let mut joined = Vec::new();
            for expected in bytes.chunks(len) {
                assert!(pieces.take(expected.len(), &mut joined, blocks) == expected);
            }
            assert_eq!(pieces.len(), 0);
            pieces.clear(blocks);
            assert_eq!(
                blocks.free.each_ref().map(Vec::len),
                [0, 0, 0, 0, 0, 0, 0, 0, 16]
            );
        }
    }

    #[test]
    fn more_than_there_is_is_taken_as_far_as_it_goes() {
        let blocks = &mut BlockPool::default();
        let mut pieces = appended(&[b"some", b"thing"], blocks);
        assert_eq!(pieces.take(4, &mut Vec::new(), blocks), b"some");
        assert_eq!(pieces.take(100, &mut Vec::new(), blocks), b"thing");
        assert_eq!(pieces.take(0, &mut Vec::new(), blocks), b"");
    }

    #[test]
    fn blocks_are_used_again_by_their_size_and_kept_up_to_a_bound() {
        let mut blocks = BlockPool::default();
        let sizes = [1, 256, 511, 512, 65_535, 65_536, 1 << 30];
        let got = sizes.map(|wanted| blocks.take(wanted).len());
        assert_eq!(got, [256, 256, 256, 512, 32_768, 65_536, 65_536]);
        for size in [0, 255, 256, 300, 65_536, 65_536, 131_072] {
            blocks.give(vec![7; size]);
        }
        assert_eq!(blocks.take(300), [7; 256]);
        assert_eq!(blocks.take(300), [0; 256]);
        blocks.shrink(100_000);
        assert_eq!(blocks.take(65_536)[0], 7);
        assert_eq!(blocks.take(65_536)[0], 0);
    }
}
