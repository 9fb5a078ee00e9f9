//! Memory that goes from one chunk to the next.

/// The number of buffers kept: of a chunk's stored data, and of what it is decompressed to.
const BUFFERS: usize = 2;
/// The most bytes of a chunk, stored or decoded, that is read along with the one before: where that
/// is done, a third buffer is kept if none is larger.
pub(crate) const SMALL_CHUNK: u64 = 2 << 20;
/// Buffers up to here are as good as ones of the right size.
const SMALL: u64 = 64 << 10;

/// Buffers that are not in use.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    buffers: Vec<Vec<u8>>,
    ends: Vec<u64>,
    /// True if chunks are read two at a time.
    by_two: bool,
    /// True if all that is asked for is about as large.
    alike: bool,
    /// The number of bytes asked for last.
    wanted: u64,
}

impl Memory {
    /// A buffer with room for `wanted` bytes, though not for far more, and whatever happens to be
    /// in it; or an empty one without memory, to be given some: growing one that is too small
    /// would copy what is in it, and hold both meanwhile.
    pub(crate) fn take(&mut self, wanted: u64) -> Vec<u8> {
        self.wanted = wanted;
        // What is far larger is for what the next chunk decodes to.
        let most = most_room(wanted);
        let rooms = || self.buffers.iter().map(|buffer| buffer.capacity() as u64);
        let fitting = rooms()
            .enumerate()
            .filter(|(_, room)| (wanted..=most).contains(room));
        if let Some((index, _)) = fitting.min_by_key(|&(_, room)| room) {
            return self.buffers.swap_remove(index);
        }
        let smaller = rooms().enumerate().filter(|&(_, room)| room < wanted);
        if let Some((index, _)) = smaller.max_by_key(|&(_, room)| room) {
            // The new one takes its place.
            self.buffers.swap_remove(index);
        }
        Vec::new()
    }

    /// Keeps a buffer, if need be in place of a smaller one.
    pub(crate) fn give(&mut self, buffer: Vec<u8>) {
        if self.alike && buffer.capacity() as u64 > most_room(self.wanted) {
            return;
        }
        let small = |buffer: &Vec<u8>| buffer.capacity() as u64 <= SMALL_CHUNK;
        let third = self.by_two && small(&buffer) && self.buffers.iter().all(small);
        let most = BUFFERS + usize::from(third);
        if self.buffers.len() < most {
            self.buffers.push(buffer);
            return;
        }
        let smallest = self.buffers.iter_mut().min_by_key(|other| other.capacity());
        if let Some(smallest) = smallest
            && smallest.capacity() < buffer.capacity()
        {
            *smallest = buffer;
        }
    }

    /// Keeps nothing that is far larger than what was asked for last: where others decode, it would
    /// never be taken.
    pub(crate) fn expect_alike(&mut self) {
        self.alike = true;
    }

    /// Has room for a chunk that is read along with the one before.
    pub(crate) fn expect_two(&mut self) {
        self.by_two = true;
    }

    /// An empty list for the ends of records.
    pub(crate) fn take_ends(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ends)
    }

    pub(crate) fn give_ends(&mut self, mut ends: Vec<u64>) {
        if ends.capacity() > self.ends.capacity() {
            ends.clear();
            self.ends = ends;
        }
    }

    /// Lets go of what is larger than `most` bytes.
    pub(crate) fn shrink(&mut self, most: u64) {
        self.buffers
            .retain(|buffer| buffer.capacity() as u64 <= most);
        if self.ends.capacity() as u64 > most / 8 {
            self.ends = Vec::new();
        }
    }
}

/// Returns how large a buffer may be that is taken for this many bytes.
fn most_room(wanted: u64) -> u64 {
    wanted.saturating_mul(2).max(SMALL)
}
