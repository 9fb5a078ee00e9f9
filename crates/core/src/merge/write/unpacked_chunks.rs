//! Chunks that are unpacked to a temporary file, since reading them again and again costs more.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use crate::Result;
use crate::merge::read::chunk_store::{ChunkStore, shorter};

/// Number of bytes to copy at a time to the file of unpacked chunks: 256 KiB.
const COPY_LEN: usize = 256 << 10;

/// The chunks of which more bytes than their size would have been read again.
#[derive(Default)]
pub(super) struct UnpackedChunks {
    file: Option<File>,
    len: u64,
    /// Offset of each chunk in the temporary file.
    at: HashMap<usize, u64>,
    /// Number of bytes of each opened chunk that were read again, by the chunk's index.
    again: HashMap<usize, u64>,
    /// True if no temporary file can be written, so that chunks are read again instead.
    impossible: bool,
}

impl UnpackedChunks {
    /// Returns the temporary file, and the offset of a chunk in it, for a chunk that is to be read
    /// from its beginning; `None` if the chunk's stream should be opened. `skipped` is the number
    /// of bytes that would be read before the bytes that are wanted.
    pub(super) fn instead_of_opening<S: ChunkStore + ?Sized>(
        &mut self,
        store: &S,
        chunk: usize,
        skipped: u64,
    ) -> Result<Option<(&File, u64)>> {
        if !self.at.contains_key(&chunk) && self.is_worth_unpacking(store, chunk, skipped) {
            self.unpack(store, chunk)?;
        }
        Ok(self.file.as_ref().zip(self.at.get(&chunk).copied()))
    }

    /// Adds `skipped` to the bytes of a chunk that were read again, unless the chunk was never
    /// opened before. Returns true if these bytes exceed the chunk's size.
    fn is_worth_unpacking<S: ChunkStore + ?Sized>(
        &mut self,
        store: &S,
        chunk: usize,
        skipped: u64,
    ) -> bool {
        let Some(again) = self.again.get_mut(&chunk) else {
            self.again.insert(chunk, 0);
            return false;
        };
        *again = again.saturating_add(skipped);
        *again > store.size(chunk) && !self.impossible
    }

    fn unpack<S: ChunkStore + ?Sized>(&mut self, store: &S, chunk: usize) -> Result<()> {
        let _span = tracing::trace_span!("unpack", chunk, bytes = store.size(chunk)).entered();
        if self.file.is_none() {
            self.file = tempfile::tempfile().ok();
        }
        if let Some(file) = &mut self.file
            && file.seek(SeekFrom::Start(self.len)).is_err()
        {
            self.file = None;
        }
        let mut stream = store.stream(chunk)?;
        let mut buffer = vec![0; COPY_LEN];
        let mut end = self.len;
        loop {
            let read = stream.read(&mut buffer)?;
            let Some(file) = self.file.as_mut().filter(|_| read > 0) else {
                break;
            };
            if file.write_all(&buffer[..read]).is_err() {
                self.file = None;
                break;
            }
            end += read as u64;
        }
        if self.file.is_none() {
            self.at.clear();
            self.impossible = true;
            return Ok(());
        }
        if end - self.len < store.size(chunk) {
            return Err(shorter());
        }
        self.at.insert(chunk, self.len);
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
impl UnpackedChunks {
    pub(super) fn len(&self) -> u64 {
        self.len
    }
}
