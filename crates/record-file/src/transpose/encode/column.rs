//! Columns, each of which contains the values of one field path.
use crate::block_pool::{BlockPool, LARGEST, Piece, SMALLEST};
use crate::varint;

/// The kind of a column. All columns in a bucket have the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Group {
    #[default]
    Varint,
    Fixed32,
    Fixed64,
    Bytes,
    Other,
}

/// The values of a field, in reverse order. Blocks are filled one after another, each from its end.
#[derive(Debug, Default)]
pub(super) struct Column {
    pub(super) node: u32,
    pub(super) group: Group,
    /// The block that is being filled.
    block: Vec<u8>,
    start: usize,
    /// The full blocks, in the order in which they were filled.
    full: Vec<Vec<u8>>,
    /// Number of bytes in the full blocks.
    behind: usize,
}

/// Number of bytes copied for a value that has at most this size. The copy includes bytes before
/// the value, which the next value overwrites.
const SMALL: usize = 16;
/// Number of bytes copied for a value that is larger than [`SMALL`] and has at most this size.
const MEDIUM: usize = 64;
/// Ratio of a column's size to the usual size of the column's next block. Since the block is
/// smaller than the column, little memory stays empty.
const GROWTH: usize = 4;

impl Column {
    pub(super) fn reset(&mut self, node: u32, group: Group) {
        *self = Column {
            node,
            group,
            full: std::mem::take(&mut self.full),
            ..Column::default()
        };
        self.full.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.behind + self.block.len() - self.start
    }

    /// Prepends `from[at..at + len]`.
    #[inline]
    pub(super) fn push(&mut self, from: &[u8], at: usize, len: usize, blocks: &mut BlockPool) {
        let end = at + len;
        let start = self.start;
        if len <= SMALL && end >= SMALL && start >= SMALL {
            self.block[start - SMALL..start].copy_from_slice(&from[end - SMALL..end]);
        } else if len <= MEDIUM && end >= MEDIUM && start >= MEDIUM {
            self.block[start - MEDIUM..start].copy_from_slice(&from[end - MEDIUM..end]);
        } else if len <= start {
            self.block[start - len..start].copy_from_slice(&from[at..end]);
        } else {
            return self.push_across(&from[at..end], blocks);
        }
        self.start -= len;
    }

    /// Prepends the varint `from[at..at + len]`, without its continuation bits.
    #[inline]
    pub(super) fn push_varint(
        &mut self,
        from: &[u8],
        at: usize,
        len: usize,
        blocks: &mut BlockPool,
    ) {
        let end = at + len;
        let start = self.start;
        let word = end.checked_sub(8).and_then(|begin| from.get(begin..end));
        match word.and_then(<[u8]>::first_chunk) {
            Some(&word) if len <= 8 && start >= 8 => {
                let word = u64::from_le_bytes(word) & 0x7f7f_7f7f_7f7f_7f7f;
                self.block[start - 8..start].copy_from_slice(&word.to_le_bytes());
                self.start -= len;
            }
            _ => self.push_any_varint(&from[at..end], blocks),
        }
    }

    #[inline(never)]
    fn push_any_varint(&mut self, varint: &[u8], blocks: &mut BlockPool) {
        let mut bits = [0; varint::MAX_LEN];
        for (to, &byte) in bits.iter_mut().zip(varint) {
            *to = byte & 0x7f;
        }
        self.push(&bits, 0, varint.len(), blocks);
    }

    /// Prepends `bytes`, filling the current block to the last byte.
    #[cold]
    fn push_across(&mut self, mut bytes: &[u8], blocks: &mut BlockPool) {
        while !bytes.is_empty() {
            if self.start == 0 {
                self.next_block(bytes.len(), blocks);
            }
            let (front, back) = bytes.split_at(bytes.len().saturating_sub(self.start));
            let begin = self.start - back.len();
            self.block[begin..self.start].copy_from_slice(back);
            self.start = begin;
            bytes = front;
        }
    }

    /// Begins a new block, since the current block is full and `more` bytes remain to be stored.
    /// The new block's size depends only on the values, since a compressor's output may depend on
    /// block sizes.
    fn next_block(&mut self, more: usize, blocks: &mut BlockPool) {
        let wanted = more.max(self.len() / GROWTH);
        let block = blocks.take(wanted.clamp(SMALLEST, LARGEST));
        self.start = block.len();
        let full = std::mem::replace(&mut self.block, block);
        self.behind += full.len();
        if !full.is_empty() {
            self.full.push(full);
        }
    }

    /// Removes and returns the content, in forward order.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Piece> {
        let first = Piece::from(std::mem::take(&mut self.block), self.start);
        self.start = 0;
        self.behind = 0;
        let full = self.full.drain(..).rev();
        let all = std::iter::once(first).chain(full.map(|block| Piece::from(block, 0)));
        all.filter(|piece| piece.len() > 0)
    }
}
