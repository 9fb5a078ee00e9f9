//! Checking chunks against a Merkle root when they are read.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use record_file::{ReadAt, RecordFile, plain_record_position};

use super::file_source::FileSource;
use crate::container::{
    HASH_LEN, Hash, Hashing, KnownNodes, LeafHasher, Levels, MerkleRoot, Node, Trailer, hex,
    subtrees,
};
use crate::{Error, ErrorKind, Result};

/// A Merkle root that a file must have, and the nodes of its Merkle tree that are known so far.
#[derive(Debug)]
pub(crate) struct RequiredRoot {
    hashing: Hashing,
    levels: Levels,
    nodes_offset: u64,
    /// Root of the subtree of all chunks.
    chunks: Hash,
    metadata: Hash,
    known: Mutex<KnownNodes>,
}

impl RequiredRoot {
    /// Creates a required root for a file. Fails if the file's trailer doesn't lead to the Merkle
    /// root.
    pub(in crate::merge) fn of(trailer: &Trailer, root: &MerkleRoot) -> Result<Self> {
        trailer.check_root(root)?;
        let metadata = trailer.metadata();
        let Some(tree) = &metadata.merkle_tree else {
            let message = "it has no Merkle root";
            return Err(Error::new(ErrorKind::ChecksumMismatch, message));
        };
        let levels = Levels::of(metadata.chunks.len());
        let (chunks, metadata) = subtrees(tree)?;
        Ok(RequiredRoot {
            hashing: Hashing::new()?,
            levels,
            nodes_offset: tree.nodes_offset,
            chunks,
            metadata,
            known: Mutex::new(KnownNodes::new(levels, chunks)),
        })
    }

    pub(in crate::merge) fn hashing(&self) -> Hashing {
        self.hashing
    }

    /// Returns the root of the subtree of all chunks.
    pub(in crate::merge) fn chunks(&self) -> Hash {
        self.chunks
    }

    /// Reads all nodes of the Merkle tree that the file stores, and returns their hashes
    /// concatenated.
    pub(in crate::merge) fn stored_nodes<S: ReadAt>(
        &self,
        file: &RecordFile<FileSource<S>>,
    ) -> Result<Vec<u8>> {
        let (begin, len) = (self.nodes_offset, self.levels.stored_len());
        let size = file.size();
        if len > size {
            let message = format!(
                "the nodes of the Merkle tree have {len} bytes, but the file has only {size}"
            );
            return Err(Error::new(ErrorKind::InvalidTrailer, message));
        }
        let mut nodes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        file.read_plain_part(begin, len, 0, &mut nodes)
            .map_err(nodes_failed)?;
        Ok(nodes)
    }

    /// Returns a hasher for the bytes of a chunk.
    pub(in crate::merge) fn leaf(&self) -> LeafHasher {
        self.hashing.leaf()
    }

    fn known(&self) -> MutexGuard<'_, KnownNodes> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if this hash of a chunk doesn't lead to the Merkle root. For each level of the tree,
    /// reads at most one node from the file that contains the trailer.
    pub(in crate::merge) fn check<S: ReadAt>(
        &self,
        file: &RecordFile<FileSource<S>>,
        chunk: usize,
        hash: Hash,
    ) -> Result<()> {
        let leaf = chunk as u64;
        let needed = self.known().needed(leaf);
        let stored = self.read_nodes(file, &needed);
        stored
            .and_then(|stored| self.known().check(self.hashing, leaf, hash, &stored))
            .map_err(|error| error.in_chunk(chunk))
    }

    fn read_nodes<S: ReadAt>(
        &self,
        file: &RecordFile<FileSource<S>>,
        needed: &[Node],
    ) -> Result<HashMap<Node, Hash>> {
        let (begin, len) = (self.nodes_offset, self.levels.stored_len());
        let places = needed
            .iter()
            .map(|(level, index)| self.levels.place(*level, *index));
        if file.get_ref().is_prefetched() {
            let mut ranges = Vec::with_capacity(needed.len());
            for place in places.clone() {
                let (start, _) =
                    plain_record_position(begin, len, place.start).map_err(nodes_failed)?;
                let (last, _) =
                    plain_record_position(begin, len, place.end - 1).map_err(nodes_failed)?;
                ranges.push(start..last.saturating_add(1).min(file.size()));
            }
            ranges.retain(|range| range.start < range.end);
            file.prefetch(&ranges);
        }
        let mut nodes = HashMap::with_capacity(needed.len());
        for (node, place) in needed.iter().zip(places) {
            let mut hash = [0; HASH_LEN];
            file.read_plain_part(begin, len, place.start, &mut hash)
                .map_err(nodes_failed)?;
            nodes.insert(*node, hash);
        }
        Ok(nodes)
    }

    /// Fails if the file's metadata doesn't match the Merkle root.
    pub(crate) fn check_metadata(&self, metadata: &[u8]) -> Result<()> {
        let found = self.hashing.leaf_of(metadata);
        if found == self.metadata {
            return Ok(());
        }
        let [found, expected] = [found, self.metadata].map(|hash| hex(&hash));
        let message = format!(
            "the hash of the file's metadata is {found}, where the Merkle root says {expected}"
        );
        Err(Error::new(ErrorKind::ChecksumMismatch, message))
    }
}

#[cold]
fn nodes_failed(error: record_file::Error) -> Error {
    Error::from(error).context("the nodes of the Merkle tree")
}
