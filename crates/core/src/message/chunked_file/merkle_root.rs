//! Checking a chunked file against a Merkle root.

use record_file::ReadAt;

use super::ChunkedFile;
use crate::container::MerkleRoot;
use crate::error::ChunkIndex;
use crate::merge::{ReadOptions, check_against_root, check_chunk_against_root};
use crate::{Error, Result};

impl<S: ReadAt> ChunkedFile<S> {
    /// Requires the file to have this Merkle root. Fails if the file's trailer leads to another
    /// root, or has no hashes. After success, the embedded schema and each chunk that is read
    /// through this handle are checked against the root before any of their bytes are returned. A
    /// check reads at most log2(chunks) hashes of 32 bytes in addition to the chunk.
    ///
    /// A chunk is then read to its end before any of its bytes are returned, even if you request
    /// only a part of it. The checked bytes of large chunks are held in a temporary file.
    ///
    /// Reading through [`record_file`](Self::record_file) isn't checked.
    ///
    /// ```
    /// use proto_splitter_core::container::{ChunkedFile, MerkleRoot};
    /// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
    /// # use prost_reflect::prost_types::FileDescriptorProto;
    ///
    /// # let message = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
    /// # let folder = tempfile::tempdir()?;
    /// let options = SplitOptions::new().max_chunk_size(1000).merkle_root(true);
    /// let written = SizeSplitter.write_with(&message, folder.path().join("file"), &options)?;
    /// let root = written.merkle_root.ok_or("there is one")?;
    ///
    /// let file = ChunkedFile::open(&written.path)?;
    /// file.require_root(&root)?;
    /// assert!(file.require_root(&MerkleRoot::from_bytes([7; 32])).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ChecksumMismatch`](crate::ErrorKind::ChecksumMismatch) if the trailer leads to
    /// another root, or has no hashes;
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind::InvalidConfig) if this build lacks the
    /// feature `merkle`.
    pub fn require_root(&self, root: &MerkleRoot) -> Result<()> {
        self.store.require_root(root)
    }

    /// Returns true if a Merkle root [is required](Self::require_root).
    pub fn requires_root(&self) -> bool {
        self.store.required_root().is_some()
    }

    /// Checks one chunk against a Merkle root. Reads only the chunk and at most log2(chunks) hashes
    /// of 32 bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`require_root`](Self::require_root), and any error from reading the chunk;
    /// [`ErrorKind::ChecksumMismatch`](crate::ErrorKind::ChecksumMismatch) if the chunk doesn't
    /// match the root.
    pub fn verify_chunk_against(
        &self,
        root: &MerkleRoot,
        chunk: impl Into<ChunkIndex>,
    ) -> Result<()> {
        let chunk = chunk.into().to_usize();
        check_chunk_against_root(&self.store, root, chunk).map_err(|error| error.in_chunk(chunk))
    }

    /// Checks the whole file against a Merkle root: computes all hashes from the bytes of every
    /// chunk, of the file's metadata and of the trailer, and compares them with the stored hashes.
    /// Uses several threads. Returns all problems: an empty list if the root was computed from this
    /// file.
    ///
    /// Checks only what the root covers. [`verify`](Self::verify) compares the same hashes, but
    /// without an expected root, and also checks everything else.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled);
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind::InvalidConfig) if this build lacks the
    /// feature `merkle`.
    pub fn verify_against(&self, root: &MerkleRoot, options: &ReadOptions) -> Result<Vec<Error>> {
        check_against_root(&self.store, root, options)
    }
}
