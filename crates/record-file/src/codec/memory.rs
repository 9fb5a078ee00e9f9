//! Memory that goes from one chunk to the next.

/// How many buffers are kept: of a chunk's stored data, and of what it is decompressed to.
const BUFFERS: usize = 2;

/// Buffers that are not in use.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    buffers: Vec<Vec<u8>>,
    ends: Vec<u64>,
}

impl Memory {
    /// A buffer with room for `wanted` bytes and whatever happens to be in it, or an empty one without memory, to be given
    /// some: growing one that is too small would copy what is in it, and hold both meanwhile.
    pub(crate) fn take(&mut self, wanted: u64) -> Vec<u8> {
        let rooms = || self.buffers.iter().map(Vec::capacity).enumerate();
        let fits = |&(_, room): &(usize, usize)| room as u64 >= wanted;
        if let Some((index, _)) = rooms().filter(fits).min_by_key(|&(_, room)| room) {
            return self.buffers.swap_remove(index);
        }
        // The one that is to be replaced by it is let go.
        if let Some((index, _)) = rooms().max_by_key(|&(_, room)| room) {
            self.buffers.swap_remove(index);
        }
        Vec::new()
    }

    /// Keeps a buffer, unless the ones there are are larger.
    pub(crate) fn give(&mut self, buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS {
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
