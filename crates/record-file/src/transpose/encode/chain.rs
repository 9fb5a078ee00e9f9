//! The events in the records of a chunk, in order.
use super::pairs::Pairs;
use super::state::index;
use crate::block_pool::{BlockPool, PieceQueue};

/// A step from one event to the previous event, and the step's frequency.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) count: u64,
}

/// The events of a chunk, as steps from one event to another.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    pub(super) first: Option<u32>,
    pub(super) last: Option<u32>,
    pub(super) steps: Vec<Step>,
    numbers: Pairs,
    pub(super) path: Path,
}

impl Chain {
    /// Removes all events, and prepares for the events of new records with `size` bytes in total.
    pub(crate) fn clear(&mut self, size: usize, blocks: &mut BlockPool) {
        self.first = None;
        self.last = None;
        self.steps.clear();
        // A field takes up about eight bytes of a record.
        self.numbers.clear(size / 8);
        self.path.clear(blocks);
    }

    /// Adds events, and replaces each event in the slice with the number of its step.
    pub(crate) fn add(&mut self, mut events: &mut [u32], blocks: &mut BlockPool) {
        let mut last = match self.last {
            Some(last) => last,
            None => {
                let Some((&mut first, rest)) = events.split_first_mut() else {
                    return;
                };
                self.first = Some(first);
                events = rest;
                first
            }
        };
        for event in &mut *events {
            // Decoding visits the events backwards.
            let (from, to) = (*event, last);
            last = from;
            let fresh = index(self.steps.len());
            let number = self.numbers.number(from, to, fresh);
            if number == fresh {
                self.steps.push(Step { from, to, count: 0 });
            }
            self.steps[number as usize].count += 1;
            *event = number;
        }
        self.last = Some(last);
        self.path.extend(events, self.steps.len(), blocks);
    }
}

/// The numbers of the steps in a chain. A number is stored in one, two or four bytes, depending on
/// the largest number so far. Since there is about one step per field, the numbers take no more
/// memory than the tags of the fields.
#[derive(Debug, Default)]
pub(crate) struct Path {
    bytes: PieceQueue,
    pairs: PieceQueue,
    words: PieceQueue,
}

impl Path {
    fn clear(&mut self, blocks: &mut BlockPool) {
        for pieces in [&mut self.bytes, &mut self.pairs, &mut self.words] {
            pieces.clear(blocks);
        }
    }

    /// Returns the number of steps.
    pub(super) fn len(&self) -> usize {
        let len = self.bytes.len() + self.pairs.len() / 2 + self.words.len() / 4;
        usize::try_from(len).unwrap_or(usize::MAX)
    }

    /// Adds numbers below `bound`. From one call to the next, `bound` must not decrease.
    fn extend(&mut self, numbers: &[u32], bound: usize, blocks: &mut BlockPool) {
        match bound {
            0..=0x100 => extend(&mut self.bytes, numbers, blocks, |number| {
                let [byte, ..] = number.to_le_bytes();
                [byte]
            }),
            0x101..=0x1_0000 => extend(&mut self.pairs, numbers, blocks, |number| {
                let [low, high, ..] = number.to_le_bytes();
                [low, high]
            }),
            _ => extend(&mut self.words, numbers, blocks, u32::to_le_bytes),
        }
    }

    /// Passes the numbers to `some`, in batches and from last to first, and frees their memory.
    pub(super) fn take_back(
        &mut self,
        blocks: &mut BlockPool,
        mut some: impl FnMut(&[u32], &mut BlockPool),
    ) {
        let mut numbers = Vec::new();
        take_back(
            &mut self.words,
            &mut numbers,
            blocks,
            &mut some,
            u32::from_le_bytes,
        );
        take_back(&mut self.pairs, &mut numbers, blocks, &mut some, |pair| {
            u16::from_le_bytes(pair).into()
        });
        take_back(
            &mut self.bytes,
            &mut numbers,
            blocks,
            &mut some,
            |[byte]| byte.into(),
        );
    }
}

/// Maximum number of steps in a batch: few enough to stay in the fastest cache.
pub(super) const AT_ONCE: usize = 2048;

fn extend<const N: usize>(
    pieces: &mut PieceQueue,
    mut numbers: &[u32],
    blocks: &mut BlockPool,
    shorten: impl Fn(u32) -> [u8; N],
) {
    while !numbers.is_empty() {
        let (room, _) = pieces.room(N, blocks).as_chunks_mut();
        let (now, later) = numbers.split_at(room.len().min(numbers.len()));
        for (to, &number) in room.iter_mut().zip(now) {
            *to = shorten(number);
        }
        pieces.filled(now.len() * N);
        numbers = later;
    }
}

fn take_back<const N: usize>(
    pieces: &mut PieceQueue,
    numbers: &mut Vec<u32>,
    blocks: &mut BlockPool,
    some: &mut impl FnMut(&[u32], &mut BlockPool),
    widen: impl Fn([u8; N]) -> u32,
) {
    while let Some(piece) = pieces.pop_back() {
        let (stored, _) = piece.as_slice().as_chunks();
        for stored in stored.rchunks(AT_ONCE) {
            numbers.clear();
            numbers.extend(stored.iter().rev().map(|&number| widen(number)));
            some(numbers, blocks);
        }
        blocks.give(piece.into_block());
    }
}
