//! The public type for Merkle roots.

use std::fmt;
use std::str::FromStr;

use super::hashing::{HASH_LEN, Hash, Hashing, hash_of, hex};
use super::trailer_leaf::trailer_leaf;
use crate::proto::chunk_metadata::MerkleTree;
use crate::{Error, ErrorKind, Result};

/// The Merkle root of a message in chunks: a hash of everything that a merge depends on.
///
/// With a root from a trusted source, you can check that a file still has the bytes from which the
/// root was computed, even if others can write to the file. You can also check any chunk without
/// reading the others. Checksums only detect accidents, since they are in the file that they
/// describe.
///
/// The text form is 64 hexadecimal digits.
///
/// All hashes are SHA-256, with the prefixes and the tree shape from RFC 9162 (and from RFC 6962
/// before it). Transparency logs use SHA-256, as does the format of signatures that OpenSSF Model
/// Signing writes, and processors have instructions for SHA-256. A root can be recomputed with a
/// few lines of code in any language. With `||` for concatenation:
///
/// ```text
/// leaf(bytes)        = SHA-256(0x00 || bytes)
/// node(left, right)  = SHA-256(0x01 || left || right)
///
/// root               = node(node(leaf(trailer), leaf(metadata)), chunks)
///
/// trailer            the serialized trailer, in one piece, without
///                      ChunkMetadata.files (1007) and ChunkMetadata.merkle_tree (1010),
///                      and without ChunkInfo.offset (3) and ChunkInfo.file (1001) in each
///                      ChunkMetadata.chunks (2), whose length is replaced by that of the
///                      remaining bytes, as a varint of minimal size
/// metadata           the serialized metadata of the record file, `riegeli.RecordsMetadata`;
///                      empty if the file has no metadata
/// chunks             the root of the tree of RFC 9162, section 2.1.1, whose leaf number i is
///                      leaf(the bytes of chunk i, uncompressed)
/// ```
///
/// The omitted fields of the trailer contain only the places of records, and hashes that the root
/// covers anyway. So a message in several files has the same root as in one file, and compressing
/// the chunks differently doesn't change the root. Everything else affects the root: the chunks'
/// bytes, number and order, their types and paths, and the message's type and schema.
///
/// The trailer doesn't store the root itself. It stores the roots of two subtrees, `chunks` and
/// `leaf(metadata)`, in `ChunkMetadata.merkle_tree`. The root follows from these two and the
/// trailer. The other nodes of the chunks' tree are in a separate record before the trailer: the
/// leaves in order, then each level above them, without the root. The record is uncompressed, alone
/// in its record chunk, and not a chunk of the message. A node without a sibling is repeated
/// unchanged on the next level. So the place of every node is known, and checking one of `n` chunks
/// reads at most log2(n) nodes, rounded up.
///
/// ```
/// use prost_reflect::prost_types::FileDescriptorProto;
/// use proto_splitter_core::container::{ChunkedFile, MerkleRoot};
/// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
///
/// let message = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
/// let folder = tempfile::tempdir()?;
/// let options = SplitOptions::new().max_chunk_size(1000).merkle_root(true);
/// let written = SizeSplitter.write_with(&message, folder.path().join("file"), &options)?;
/// let root: MerkleRoot = written.merkle_root.ok_or("there is one")?.to_string().parse()?;
///
/// let file = ChunkedFile::open(&written.path)?;
/// file.require_root(&root)?;
/// // From here on, chunks with other bytes can't be read.
/// assert_eq!(file.get(&"1".parse()?)?.len(), 5000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MerkleRoot([u8; HASH_LEN]);

impl MerkleRoot {
    /// Creates a root from its bytes.
    pub const fn from_bytes(bytes: [u8; HASH_LEN]) -> MerkleRoot {
        MerkleRoot(bytes)
    }

    /// Returns the bytes of the root.
    pub const fn as_bytes(&self) -> &[u8; HASH_LEN] {
        &self.0
    }

    /// Computes the root of a file. `trailer` is the file's serialized trailer, in one piece;
    /// `tree` is the `MerkleTree` in this trailer.
    pub(crate) fn of(trailer: &[u8], tree: &MerkleTree) -> Result<MerkleRoot> {
        let hashing = Hashing::new()?;
        let (chunks, metadata) = subtrees(tree)?;
        let front = hashing.node(&trailer_leaf(hashing, trailer)?, &metadata);
        Ok(MerkleRoot(hashing.node(&front, &chunks)))
    }
}

/// Returns the two hashes that a trailer stores: the root of the chunks' tree, and the leaf for the
/// record file's metadata.
pub(crate) fn subtrees(tree: &MerkleTree) -> Result<(Hash, Hash)> {
    let chunks = hash_of(&tree.chunks, "the Merkle tree's chunks")?;
    let metadata = hash_of(&tree.metadata, "the Merkle tree's metadata")?;
    Ok((chunks, metadata))
}

impl fmt::Display for MerkleRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&hex(&self.0))
    }
}

impl fmt::Debug for MerkleRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MerkleRoot({self})")
    }
}

impl FromStr for MerkleRoot {
    type Err = Error;

    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the text isn't 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self> {
        let parsed = || {
            let mut root = [0; HASH_LEN];
            let mut digits = text.chars().map(|digit| digit.to_digit(16));
            for byte in &mut root {
                let (high, low) = (digits.next()??, digits.next()??);
                *byte = u8::try_from(high << 4 | low).ok()?;
            }
            digits.next().is_none().then_some(MerkleRoot(root))
        };
        parsed().ok_or_else(|| {
            let expected = 2 * HASH_LEN;
            let message = format!("a Merkle root is {expected} hexadecimal digits, not {text:?}");
            Error::new(ErrorKind::InvalidConfig, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_read_as_it_is_shown() {
        let root = MerkleRoot(std::array::from_fn(|at| u8::try_from(at * 8 + 1).unwrap()));
        let text = root.to_string();
        assert!(text.starts_with("01091119") && text.len() == 64, "{text}");
        assert_eq!(text.parse::<MerkleRoot>().unwrap(), root);
        assert_eq!(text.to_uppercase().parse::<MerkleRoot>().unwrap(), root);
        for wrong in [
            "",
            "01",
            &text[1..],
            &format!("{text}0"),
            &text.replace('1', "g"),
        ] {
            let error = wrong.parse::<MerkleRoot>().unwrap_err().to_string();
            assert!(error.contains("64 hexadecimal digits"), "{error}");
        }
    }
}
