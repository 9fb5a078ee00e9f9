//! Checking a whole file, or one chunk, against a Merkle root.

use record_file::ReadAt;

use super::read::embedded_schema::read_metadata;
use super::read::record_store::RecordStore;
use super::read::required_root::RequiredRoot;
use crate::container::{Hash, Hashing, MerkleRoot, hash_of, hex, nodes_above};
use crate::io::threads;
use crate::merge::read_options::ReadOptions;
use crate::{Error, ErrorKind, Result};

/// Fails if the chunk with this index doesn't match the Merkle root.
pub(crate) fn check_chunk_against_root<S: ReadAt>(
    store: &RecordStore<S>,
    root: &MerkleRoot,
    chunk: usize,
) -> Result<()> {
    store.check_chunk(&RequiredRoot::of(store.trailer(), root)?, chunk)
}

/// Checks the metadata and all chunks against a Merkle root, and returns the problems found.
pub(crate) fn check_against_root<S: ReadAt>(
    store: &RecordStore<S>,
    root: &MerkleRoot,
    options: &ReadOptions,
) -> Result<Vec<Error>> {
    let required = match RequiredRoot::of(store.trailer(), root) {
        Ok(required) => required,
        // This build doesn't include hashing, so nothing can be checked.
        Err(error) if error.kind() == ErrorKind::InvalidConfig => return Err(error),
        Err(error) => return Ok(vec![error]),
    };
    let mut problems = Vec::new();
    let metadata = read_metadata(store.record_file())
        .and_then(|metadata| required.check_metadata(metadata.as_deref().unwrap_or_default()));
    problems.extend(metadata.err());
    let stored = match required.stored_leaves(store) {
        Ok(stored) => Some(stored),
        Err(error) => {
            problems.push(error);
            None
        }
    };
    let leaves = match leaves(store, required.hashing(), options) {
        Ok(leaves) => leaves,
        Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
        Err(error) => {
            problems.push(error);
            return Ok(problems);
        }
    };
    let mut sound = Vec::with_capacity(leaves.len());
    for (chunk, leaf) in leaves.into_iter().enumerate() {
        match (leaf, stored.as_ref().and_then(|stored| stored.get(chunk))) {
            (Ok(leaf), Some(expected)) if leaf != *expected => {
                let [leaf, expected] = [leaf, *expected].map(|hash| hex(&hash));
                let message = format!("its hash is {leaf}, where the Merkle root says {expected}");
                let error = Error::new(ErrorKind::ChecksumMismatch, message);
                problems.push(error.in_chunk(chunk));
            }
            (Ok(leaf), _) => sound.push(leaf),
            (Err(error), _) => problems.push(error.in_chunk(chunk)),
        }
    }
    // If any chunk differs or is unreadable, the problems include it already.
    if sound.len() == store.trailer().metadata().chunks.len() {
        problems.extend(required.check_leaves(sound).err());
    }
    Ok(problems)
}

/// Returns the hashes of all chunks, which are the leaves of a Merkle tree. Also verifies the
/// checksums of all chunks.
///
/// # Errors
///
/// The error for the first damaged chunk; [`ErrorKind::InvalidConfig`] if this build doesn't
/// include hashing.
pub fn chunk_leaves<S: ReadAt>(
    store: &RecordStore<S>,
    options: &ReadOptions,
) -> Result<Vec<[u8; 32]>> {
    let leaves = leaves(store, Hashing::new()?, options)?.into_iter();
    let leaves = leaves.enumerate();
    let leaves = leaves.map(|(chunk, leaf)| leaf.map_err(|error| error.in_chunk(chunk)));
    leaves.collect()
}

/// Returns, for every chunk, the hash or the error from reading the chunk.
fn leaves<S: ReadAt>(
    store: &RecordStore<S>,
    hashing: Hashing,
    options: &ReadOptions,
) -> Result<Vec<Result<Hash>>> {
    store.check_merged_size()?;
    let infos = &store.trailer().metadata().chunks;
    let sizes = infos.iter().map(|info| info.size);
    let meter = options.progress.meter(sizes.fold(0, u64::saturating_add));
    let groups = store.groups();
    let hashed = threads::map(options.thread_count(), groups.len(), |group| {
        let mut hashed = Vec::with_capacity(groups[group].len());
        for &chunk in &groups[group] {
            let leaf = store.leaf(hashing, chunk, &meter);
            if let Err(error) = &leaf
                && error.kind() == ErrorKind::Cancelled
            {
                meter.check()?;
            }
            hashed.push((chunk, leaf));
        }
        Ok(hashed)
    })?;
    let mut hashed: Vec<_> = hashed.into_iter().flatten().collect();
    hashed.sort_by_key(|(chunk, _)| *chunk);
    Ok(hashed.into_iter().map(|(_, leaf)| leaf).collect())
}

impl RequiredRoot {
    /// Returns the hashes of all chunks, as stored in the file. Fails if the stored nodes of the
    /// Merkle tree don't lead to the root.
    fn stored_leaves<S: ReadAt>(&self, store: &RecordStore<S>) -> Result<Vec<Hash>> {
        let chunks = store.trailer().metadata().chunks.len();
        let nodes = self.stored_nodes(store.record_file())?;
        let mut stored = nodes.chunks(size_of::<Hash>());
        let mut take = |count: usize| -> Result<Vec<Hash>> {
            let hashes = stored.by_ref().take(count);
            hashes
                .map(|hash| hash_of(hash, "a node of the Merkle tree"))
                .collect()
        };
        if chunks <= 1 {
            return Ok(vec![self.chunks(); chunks]);
        }
        let leaves = take(chunks)?;
        let mut level = leaves.clone();
        while let Some(above) = nodes_above(self.hashing(), &level) {
            let expected = match above.len() {
                1 => vec![self.chunks()],
                count => take(count)?,
            };
            let differs = |(found, expected): &(&Hash, &Hash)| found != expected;
            if let Some((found, expected)) = above.iter().zip(&expected).find(differs) {
                let [found, expected] = [found, expected].map(hex);
                let message = format!(
                    "the stored nodes of its Merkle tree have the node {expected}, but the nodes below it make {found}"
                );
                return Err(Error::new(ErrorKind::ChecksumMismatch, message));
            }
            level = above;
        }
        Ok(leaves)
    }

    /// Fails if the Merkle root computed from these hashes of all chunks isn't the required one.
    fn check_leaves(&self, mut level: Vec<Hash>) -> Result<()> {
        while let Some(above) = nodes_above(self.hashing(), &level) {
            level = above;
        }
        let expected = self.chunks();
        match level.first() {
            Some(found) if *found == expected => Ok(()),
            found => {
                let [found, expected] = [found.unwrap_or(&[0; 32]), &expected].map(hex);
                let message = format!(
                    "its chunks have the Merkle root {found}, where the trailer has {expected}"
                );
                Err(Error::new(ErrorKind::ChecksumMismatch, message))
            }
        }
    }
}
