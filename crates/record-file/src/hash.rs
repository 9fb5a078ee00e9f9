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

/// The hash of bytes that come in pieces.
#[derive(Clone)]
pub(crate) struct Hasher(HighwayHasher);

impl Hasher {
    pub(crate) fn new() -> Self {
        Hasher(HighwayHasher::new(KEY))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.append(bytes);
    }

    pub(crate) fn finish(self) -> u64 {
        self.0.finalize64()
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher")
    }
}
