//! HighwayHash-64 with the format's key.
use highway::{HighwayHash, HighwayHasher, Key};

// "Riegeli/" and "records\n", little endian, twice.
const KEY: Key = Key([
    u64::from_le_bytes(*b"Riegeli/"),
    u64::from_le_bytes(*b"records\n"),
    u64::from_le_bytes(*b"Riegeli/"),
    u64::from_le_bytes(*b"records\n"),
]);

pub(crate) fn hash(bytes: &[u8]) -> u64 {
    HighwayHasher::new(KEY).hash64(bytes)
}

/// What is hashed at once where other work on the same bytes takes turns with it: little enough for a core to begin with the
/// other work while it still waits for results of the hash, and a multiple of [`PACKET`].
const TURN: usize = 512;
/// What the hash takes in one step.
const PACKET: usize = 32;

/// The hash of bytes that come in pieces.
#[derive(Clone)]
pub(crate) struct Hasher {
    inner: HighwayHasher,
    /// Bytes that wait for the rest of a packet.
    waiting: usize,
}

impl Hasher {
    pub(crate) fn new() -> Self {
        Hasher {
            inner: HighwayHasher::new(KEY),
            waiting: 0,
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.inner.append(bytes);
        self.waiting = (self.waiting + bytes.len()) % PACKET;
    }

    /// As [`update`](Self::update), and gives the bytes, in pieces, to `other`, which is to copy them or the like.
    ///
    /// Every step of the hash waits for the one before, so the other work costs next to nothing in between.
    pub(crate) fn update_along(&mut self, bytes: &[u8], mut other: impl FnMut(&[u8])) {
        // Packets that don't begin with a piece are put together in a buffer: only the first piece pays for that.
        let first = bytes.len().min(TURN - self.waiting);
        let (first, rest) = bytes.split_at(first);
        for part in std::iter::once(first).chain(rest.chunks(TURN)) {
            self.update(part);
            other(part);
        }
    }

    pub(crate) fn finish(self) -> u64 {
        self.inner.finalize64()
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_and_work_along_with_them_do_not_change_a_hash() {
        let bytes: Vec<u8> = (0..5000u32)
            .map(|index| (index * 7).to_le_bytes()[0])
            .collect();
        for cuts in [
            &[][..],
            &[1],
            &[31, 32],
            &[0, 7, 7, 600],
            &[511, 512, 513, 1600],
        ] {
            let mut hasher = Hasher::new();
            let mut copy = Vec::new();
            let mut begin = 0;
            for &end in cuts.iter().chain([&bytes.len()]) {
                hasher.update_along(&bytes[begin..end], |part| copy.extend_from_slice(part));
                begin = end;
            }
            assert_eq!(hasher.finish(), hash(&bytes), "{cuts:?}");
            assert!(copy == bytes, "{cuts:?}");
        }
    }
}
