//! Buffers that are reused from one chunk to the next.

/// Number of buffers kept: one for a chunk's stored data, and one for the decoded data.
const BUFFERS: usize = 2;
/// Maximum stored and decoded size of a chunk that is read together with the previous chunk, in
/// bytes. When chunks are read in pairs, a third buffer is kept if all buffers have at most this
/// size.
pub(crate) const SMALL_CHUNK: u64 = 2 << 20;
/// Maximum size of a buffer that is reused for any smaller request, in bytes.
const SMALL: u64 = 64 << 10;

/// Unused buffers, which are kept for the next chunk.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    buffers: Vec<Vec<u8>>,
    ends: Vec<u64>,
    /// True if chunks are read two at a time.
    by_two: bool,
    /// True if all requests are for buffers of about the same size.
    alike: bool,
    /// Number of bytes in the most recent request.
    wanted: u64,
}

impl Memory {
    /// Returns a buffer that has room for `wanted` bytes, but not for far more. Its content is
    /// unspecified. If no kept buffer fits, returns an empty vector without memory, which the
    /// caller grows. A buffer that is too small isn't grown, since growing would copy its content,
    /// and would hold the old and the new memory for a while.
    pub(crate) fn take(&mut self, wanted: u64) -> Vec<u8> {
        self.wanted = wanted;
        // A far larger buffer is kept for the decoded data of the next chunk.
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
            // The new buffer will replace this smaller buffer.
            self.buffers.swap_remove(index);
        }
        Vec::new()
    }

    /// Keeps a buffer, replacing a smaller buffer if necessary.
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

    /// Stops keeping buffers that are far larger than the last request. This is for a reader with
    /// threads: it only reads the stored data of chunks, so it would never use such a buffer.
    pub(crate) fn expect_alike(&mut self) {
        self.alike = true;
    }

    /// Allows a third buffer to be kept, for a chunk that is read together with the previous chunk.
    pub(crate) fn expect_two(&mut self) {
        self.by_two = true;
    }

    /// Returns an empty vector for the ends of a chunk's records. The vector reuses the memory of
    /// an earlier vector, if there is one.
    pub(crate) fn take_ends(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ends)
    }

    pub(crate) fn give_ends(&mut self, mut ends: Vec<u64>) {
        if ends.capacity() > self.ends.capacity() {
            ends.clear();
            self.ends = ends;
        }
    }

    /// Drops the buffers that have room for more than `most` bytes.
    pub(crate) fn shrink(&mut self, most: u64) {
        self.buffers
            .retain(|buffer| buffer.capacity() as u64 <= most);
        if self.ends.capacity() as u64 > most / 8 {
            self.ends = Vec::new();
        }
    }
}

/// Returns the maximum capacity of a buffer that may be reused for `wanted` bytes.
fn most_room(wanted: u64) -> u64 {
    wanted.saturating_mul(2).max(SMALL)
}
