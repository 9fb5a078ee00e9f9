//! The chunks of a store, checked against a Merkle root before their bytes are passed on.

use std::io::{self, Cursor, Read, Seek, SeekFrom};

use record_file::ReadAt;

use super::record_store::RecordStore;
use super::required_root::RequiredRoot;
use crate::Result;
use crate::container::{Hash, Hashing, MerkleRoot};
use crate::progress::Meter;

/// Maximum size of a chunk that is held in memory while it is checked: 64 MiB. A larger chunk is
/// held in a temporary file.
const MOST_HELD: u64 = 64 << 20;

/// Number of bytes to read at once: 256 KiB.
const PIECE: usize = 256 << 10;

/// Returns the next bytes of a stream; `None` at its end.
fn next<'a>(stream: &mut dyn Read, piece: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
    let read = stream.read(piece)?;
    Ok((read > 0).then_some(&piece[..read]))
}

impl<S: ReadAt> RecordStore<S> {
    /// Requires that the message has this Merkle root. Fails if the trailer doesn't lead to the
    /// root. From then on, every chunk is checked against the root before its first byte is
    /// returned.
    pub(crate) fn require_root(&self, root: &MerkleRoot) -> Result<()> {
        let required = RequiredRoot::of(&self.trailer, root)?;
        // If a root was required before, it is equal to this one, since the trailer leads to both.
        self.root.get_or_init(|| required);
        Ok(())
    }

    /// Returns the Merkle root that chunks are checked against; `None` if none is required.
    pub(crate) fn required_root(&self) -> Option<&RequiredRoot> {
        self.root.get()
    }

    /// Reads a chunk, and fails if it doesn't match the Merkle root.
    pub(in crate::merge) fn check_chunk(&self, root: &RequiredRoot, chunk: usize) -> Result<()> {
        let mut leaf = root.leaf();
        io::copy(&mut self.unproven(chunk)?, &mut leaf)?;
        root.check(&self.file, chunk, leaf.finish())
    }

    /// Reads a chunk, and returns its hash as a leaf of the Merkle tree.
    pub(in crate::merge) fn leaf(
        &self,
        hashing: Hashing,
        chunk: usize,
        meter: &Meter,
    ) -> Result<Hash> {
        let mut leaf = hashing.leaf();
        io::copy(&mut meter.read(self.unproven(chunk)?), &mut leaf)?;
        Ok(leaf.finish())
    }

    /// Fails if a Merkle root is required and the chunk, whose content is `bytes`, doesn't match
    /// it.
    pub(super) fn prove(&self, chunk: usize, bytes: &[u8]) -> Result<()> {
        match self.required_root() {
            Some(root) => root.check(&self.file, chunk, root.hashing().leaf_of(bytes)),
            None => Ok(()),
        }
    }

    /// Checks a whole chunk against the Merkle root, then returns a stream of its bytes.
    pub(super) fn proven(&self, root: &RequiredRoot, chunk: usize) -> Result<Box<dyn Read + '_>> {
        let mut stream = self.unproven(chunk)?;
        let mut leaf = root.leaf();
        let size = self
            .trailer
            .metadata()
            .chunks
            .get(chunk)
            .map_or(0, |info| info.size);
        let mut piece = vec![0; PIECE];
        if size <= MOST_HELD {
            let mut held = Vec::new();
            while let Some(piece) = next(&mut stream, &mut piece)? {
                leaf.update(piece);
                held.extend_from_slice(piece);
            }
            root.check(&self.file, chunk, leaf.finish())?;
            return Ok(Box::new(Cursor::new(held)));
        }
        let folder = std::env::temp_dir();
        let failed = |error: io::Error| crate::Error::from(error).in_file(&folder);
        let mut spilled = tempfile::tempfile().map_err(failed)?;
        while let Some(piece) = next(&mut stream, &mut piece)? {
            leaf.update(piece);
            io::Write::write_all(&mut spilled, piece).map_err(failed)?;
        }
        root.check(&self.file, chunk, leaf.finish())?;
        spilled.seek(SeekFrom::Start(0)).map_err(failed)?;
        Ok(Box::new(spilled))
    }
}
