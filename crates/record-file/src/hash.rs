//! HighwayHash-64 with the key of the file format.
use highway::{HighwayHash, HighwayHasher, Key};

// The key is "Riegeli/" and "records\n" in little-endian order, twice.
const KEY: Key = Key([
    u64::from_le_bytes(*b"Riegeli/"),
    u64::from_le_bytes(*b"records\n"),
    u64::from_le_bytes(*b"Riegeli/"),
    u64::from_le_bytes(*b"records\n"),
]);

pub(crate) fn hash(bytes: &[u8]) -> u64 {
    HighwayHasher::new(KEY).hash64(bytes)
}

/// Number of bytes to hash before other work, such as copying, is done on the same bytes: few
/// enough for a core to begin the other work while the hash is still being computed. A multiple of
/// [`PACKET`].
const TURN: usize = 512;
/// Number of bytes the hash consumes in one step.
const PACKET: usize = 32;

/// A hash of bytes that arrive in pieces.
#[derive(Clone)]
pub(crate) struct Hasher {
    inner: HighwayHasher,
    /// Number of bytes of an incomplete packet, which are hashed once the packet is complete.
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

    /// Hashes bytes like [`update`](Self::update), and passes them in pieces to `other`, which
    /// copies them or does similar work.
    ///
    /// Every step of the hash waits for the previous step, so the other work in the meantime is
    /// almost free.
    pub(crate) fn update_along(&mut self, bytes: &[u8], mut other: impl FnMut(&[u8])) {
        // An incomplete packet is assembled in a buffer. This happens only at the start of the
        // first piece, which is shortened so that the next piece begins with a new packet.
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

/// Number of bytes that each of two hashes processes per turn: few enough for a core to work on
/// both hashes at once.
const TURN_OF_TWO: usize = 256;
/// Size of a word, in bytes. The pieces that observers receive end at a word boundary, except the
/// last piece, since observers may read whole words.
const WORD: usize = 8;

/// Bytes to be hashed alternately with the bytes of another `InStep`, and the observer of the
/// bytes.
pub(crate) struct InStep<'a, F> {
    hasher: &'a mut Hasher,
    unhashed: &'a [u8],
    see: F,
    unseen: &'a [u8],
}

impl<'a, F: FnMut(&[u8])> InStep<'a, F> {
    pub(crate) fn new(hasher: &'a mut Hasher, bytes: &'a [u8], see: F) -> Self {
        InStep {
            hasher,
            unhashed: bytes,
            see,
            unseen: bytes,
        }
    }

    /// Hashes one more piece, and passes one more piece to the observer. Returns true if more bytes
    /// remain to be hashed or observed. Each piece has at most `turn` bytes. Except for the last
    /// pieces, a hashed piece ends at the end of a packet, and an observed piece at the end of a
    /// word.
    fn go_on(&mut self, turn: usize) -> bool {
        let piece = take(&mut self.unhashed, turn - self.hasher.waiting);
        self.hasher.update(piece);
        let beyond_word = WORD - self.unseen.as_ptr().align_offset(WORD);
        (self.see)(take(&mut self.unseen, turn - beyond_word % WORD));
        !self.unhashed.is_empty() || !self.unseen.is_empty()
    }
}

/// Hashes one slice, or two slices alternately.
///
/// Every step of a hash waits for the previous step. If two hashes take turns, each is computed in
/// the waiting time of the other, so both take little longer than one. The same is true of a hash
/// and another kind of checksum.
pub(crate) fn hash_in_step<F: FnMut(&[u8])>(both: &mut [Option<InStep<'_, F>>; 2]) {
    let turn = match both {
        [Some(_), Some(_)] => TURN_OF_TWO,
        _ => TURN,
    };
    let mut any = true;
    while std::mem::take(&mut any) {
        for one in both.iter_mut().flatten() {
            any |= one.go_on(turn);
        }
    }
}

/// Removes and returns at most `most` bytes from the front of `bytes`.
pub(crate) fn take<'a>(bytes: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (front, rest) = bytes.split_at(most.min(bytes.len()));
    *bytes = rest;
    front
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

    #[test]
    fn hashes_in_step_are_those_of_each_alone_and_all_bytes_are_seen_in_order() {
        let bytes: Vec<u8> = (0..10_000u32)
            .map(|at| ((at * 7) ^ (at >> 8)).to_le_bytes()[0])
            .collect();
        for lens in [
            [None, None],
            [Some(0), Some(700)],
            [None, Some(TURN)],
            [Some(10_000), Some(1)],
            [Some(TURN + 1), Some(TURN - 1)],
        ] {
            let mut hashers = [Hasher::new(), Hasher::new()];
            let mut seen = [Vec::new(), Vec::new()];
            {
                let mut places = hashers.iter_mut().zip(&mut seen);
                hash_in_step(&mut lens.map(|len| {
                    let (hasher, seen) = places.next()?;
                    let see = |piece: &[u8]| seen.extend_from_slice(piece);
                    Some(InStep::new(hasher, &bytes[..len?], see))
                }));
            }
            for ((hasher, seen), len) in hashers.into_iter().zip(seen).zip(lens) {
                let bytes = &bytes[..len.unwrap_or(0)];
                assert_eq!(hasher.finish(), hash(bytes), "{len:?}");
                assert_eq!(seen, bytes, "{len:?}");
            }
        }
    }
}
