//! The two hashes that RFC 9162 defines: that of a leaf, and that of a node with two children.

use crate::{Error, ErrorKind, Result};

/// Size of a hash, in bytes.
pub(crate) const HASH_LEN: usize = 32;

/// A SHA-256 hash.
pub(crate) type Hash = [u8; HASH_LEN];

#[cfg(feature = "merkle")]
mod with_sha2 {
    use sha2::{Digest, Sha256};

    use super::Hash;

    /// Byte that is hashed before the content of a leaf.
    const LEAF: u8 = 0;
    /// Byte that is hashed before the children of a node. It differs from the byte for a leaf, so
    /// that a leaf never has the hash of a node.
    const NODE: u8 = 1;

    /// A proof that this build can compute hashes.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Hashing(());

    impl Hashing {
        pub(super) fn found() -> Option<Hashing> {
            Some(Hashing(()))
        }

        /// Returns a hasher for the content of a leaf.
        pub(crate) fn leaf(self) -> LeafHasher {
            let mut sha256 = Sha256::new();
            sha256.update([LEAF]);
            LeafHasher(sha256)
        }

        /// Returns the hash of a node with these children.
        pub(crate) fn node(self, left: &Hash, right: &Hash) -> Hash {
            let mut sha256 = Sha256::new();
            sha256.update([NODE]);
            sha256.update(left);
            sha256.update(right);
            sha256.finalize().into()
        }
    }

    /// A hasher for the content of a leaf.
    #[derive(Clone, Debug)]
    pub(crate) struct LeafHasher(Sha256);

    impl LeafHasher {
        /// Adds the next bytes of the leaf.
        pub(crate) fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        /// Returns the hash of all bytes.
        pub(crate) fn finish(self) -> Hash {
            self.0.finalize().into()
        }
    }
}

#[cfg(not(feature = "merkle"))]
mod without_sha2 {
    use super::{HASH_LEN, Hash};

    /// A proof that this build can compute hashes. This build can't, so no value of this type
    /// exists.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Hashing(());

    impl Hashing {
        pub(super) fn found() -> Option<Hashing> {
            None
        }

        pub(crate) fn leaf(self) -> LeafHasher {
            LeafHasher(self)
        }

        pub(crate) fn node(self, _: &Hash, _: &Hash) -> Hash {
            [0; HASH_LEN]
        }
    }

    /// A hasher for the content of a leaf. This build can't hash, so no value of this type exists.
    #[derive(Clone, Debug)]
    pub(crate) struct LeafHasher(#[allow(dead_code, reason = "proves that there is none")] Hashing);

    impl LeafHasher {
        pub(crate) fn update(&mut self, _: &[u8]) {}

        pub(crate) fn finish(self) -> Hash {
            [0; HASH_LEN]
        }
    }
}

#[cfg(feature = "merkle")]
pub(crate) use with_sha2::{Hashing, LeafHasher};
#[cfg(not(feature = "merkle"))]
pub(crate) use without_sha2::{Hashing, LeafHasher};

impl Hashing {
    /// Creates a proof that this build can compute hashes. Fails if this build lacks the feature
    /// `merkle`.
    pub(crate) fn new() -> Result<Hashing> {
        Hashing::found().ok_or_else(|| {
            let message = "Merkle roots need the feature `merkle`, which this build lacks";
            Error::new(ErrorKind::InvalidConfig, message)
        })
    }

    /// Returns the hash of a leaf that is in memory.
    pub(crate) fn leaf_of(self, bytes: &[u8]) -> Hash {
        let mut leaf = self.leaf();
        leaf.update(bytes);
        leaf.finish()
    }
}

impl std::io::Write for LeafHasher {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Fails if this build can't compute Merkle roots.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if this build lacks the feature `merkle`.
pub fn check_hashing() -> Result<()> {
    Hashing::new().map(drop)
}

/// Converts the bytes of a trailer's field to a hash. If the bytes have the wrong length, the error
/// describes the field as `what`.
pub(crate) fn hash_of(bytes: &[u8], what: &str) -> Result<Hash> {
    bytes.try_into().map_err(|_| {
        let (found, expected) = (bytes.len(), HASH_LEN);
        let message = format!("the hash of {what} has {found} bytes, where a hash has {expected}");
        Error::new(ErrorKind::InvalidTrailer, message)
    })
}

/// Returns a hash as hexadecimal digits.
pub(crate) fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
