//! The storage of a receiver for the chunks of a message.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use prost::Message;
use proto_splitter_core::Result;
use proto_splitter_core::proto::ChunkMetadata;
use record_file::{Compression, RecordInPieces, RecordWriter, WriterOptions};

use crate::arriving::{Arriving, Shared};

/// Maximum number of bytes that are allocated in advance for a chunk, in addition to the total size
/// of the complete chunks: 1 MiB.
const MOST_AHEAD: u64 = 1 << 20;

/// Minimum size, in bytes, of a chunk from a single frame that shares the frame's memory. A smaller
/// chunk is copied.
const SMALL: usize = 4096;

/// The kind of storage for chunks. The storage itself is created when a transfer starts.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Memory,
    /// An unnamed file in this folder; `None` means the system's folder for temporary files.
    File(Option<PathBuf>),
}

/// The complete chunks of a message, in order, and the received part of the current chunk.
#[derive(Debug)]
pub(crate) enum Store {
    Memory {
        chunks: Vec<Bytes>,
        partial: Vec<u8>,
        /// Total number of bytes in `chunks`.
        whole: u64,
    },
    File(Box<Spool>),
}

impl Store {
    pub(crate) fn memory() -> Store {
        Store::Memory {
            chunks: Vec::new(),
            partial: Vec::new(),
            whole: 0,
        }
    }

    /// Adds a whole chunk.
    pub(crate) fn add_whole(&mut self, chunk: Bytes) -> Result<()> {
        match self {
            Store::Memory { chunks, whole, .. } => {
                *whole += chunk.len() as u64;
                // A chunk from a single frame shares the frame's memory. A small chunk is copied,
                // since it would otherwise keep the memory of the whole frame allocated.
                let chunk = if chunk.len() < SMALL {
                    Bytes::from(BytesMut::from(&chunk[..]))
                } else {
                    chunk
                };
                chunks.push(chunk);
                Ok(())
            }
            Store::File(spool) => spool.add_whole(&chunk),
        }
    }

    /// Starts a chunk that will have `size` bytes.
    pub(crate) fn begin(&mut self, size: u64) -> Result<()> {
        match self {
            Store::Memory { partial, whole, .. } => {
                // The sender may announce any size. Therefore, the memory allocated in advance is
                // limited to the number of bytes that have arrived, plus 1 MiB. Usually, this is
                // enough for each chunk after the first ones, so that the chunk isn't copied as it
                // grows.
                let most = whole.saturating_add(MOST_AHEAD);
                let ahead = usize::try_from(size.min(most)).unwrap_or_default();
                *partial = Vec::with_capacity(ahead);
                Ok(())
            }
            Store::File(spool) => spool.begin(size),
        }
    }

    /// Adds the next bytes of the current chunk. `left` is the number of bytes of the chunk that are
    /// still missing, including those in `piece`.
    pub(crate) fn push(&mut self, piece: &[u8], left: u64) -> Result<()> {
        match self {
            Store::Memory { partial, .. } => {
                if partial.capacity() - partial.len() < piece.len() {
                    // Doubles the size of the buffer, but not beyond the size of the chunk.
                    let left = usize::try_from(left).unwrap_or(usize::MAX);
                    let more = partial.len().max(piece.len()).min(left);
                    partial.reserve_exact(more);
                }
                partial.extend_from_slice(piece);
                Ok(())
            }
            Store::File(spool) => spool.push(piece),
        }
    }

    /// Ends the current chunk, which is complete.
    pub(crate) fn finish_chunk(&mut self) -> Result<()> {
        match self {
            Store::Memory {
                chunks,
                partial,
                whole,
            } => {
                *whole += partial.len() as u64;
                chunks.push(std::mem::take(partial).into());
                Ok(())
            }
            Store::File(spool) => spool.finish_chunk(),
        }
    }

    /// Discards the current chunk, which is incomplete.
    pub(crate) fn drop_partial(&mut self) {
        match self {
            Store::Memory { partial, .. } => *partial = Vec::new(),
            Store::File(spool) => spool.record = None,
        }
    }
}

/// An unnamed file in the `.cpb` format, which grows with each chunk that arrives.
#[derive(Debug)]
pub(crate) struct Spool {
    file: Arc<File>,
    /// Offset of the first record in the file.
    start: u64,
    /// Offset at which the next record starts, after the last complete record.
    end: u64,
    offsets: Vec<u64>,
    record: Option<RecordInPieces<Arc<File>>>,
    shared: Arc<Shared>,
}

impl Spool {
    /// Creates an unnamed file in a folder; `None` means the system's folder for temporary files.
    pub(crate) fn create(folder: Option<&Path>) -> Result<Spool> {
        let file = match folder {
            Some(folder) => tempfile::tempfile_in(folder)?,
            None => tempfile::tempfile()?,
        };
        let file = Arc::new(file);
        let options = WriterOptions::new().compression(Compression::None);
        let mut writer = RecordWriter::new(Arc::clone(&file), options)?;
        writer.flush()?;
        let start = writer.position().numeric();
        Ok(Spool {
            file,
            start,
            end: start,
            offsets: Vec::new(),
            record: None,
            shared: Arc::new(Shared::new(start)),
        })
    }

    /// Adds a whole chunk to the file.
    pub(crate) fn add_whole(&mut self, chunk: &[u8]) -> Result<()> {
        self.begin(chunk.len() as u64)?;
        self.push(chunk)?;
        self.finish_chunk()
    }

    fn begin(&mut self, size: u64) -> Result<()> {
        let writer = self.writer()?;
        self.record = Some(writer.begin_record(size)?);
        Ok(())
    }

    fn push(&mut self, piece: &[u8]) -> Result<()> {
        if let Some(record) = &mut self.record {
            record.push(piece)?;
        }
        Ok(())
    }

    fn finish_chunk(&mut self) -> Result<()> {
        if let Some(record) = self.record.take() {
            let (mut writer, position) = record.finish()?;
            writer.flush()?;
            self.end = writer.position().numeric();
            self.offsets.push(position.numeric());
            self.shared.arrived(self.end);
        }
        Ok(())
    }

    /// Returns a writer that starts after the last complete record. Removes the bytes of an
    /// incomplete chunk.
    fn writer(&self) -> Result<RecordWriter<Arc<File>>> {
        self.file.set_len(self.end)?;
        let mut file = Arc::clone(&self.file);
        file.seek(SeekFrom::Start(self.end))?;
        Ok(RecordWriter::starting_at(file, self.end)?)
    }

    /// Tells waiting readers whether the transfer broke off. If it did, their reads fail.
    pub(crate) fn tell(&self, broken: bool) {
        self.shared.set_broken(broken);
    }

    /// Returns a view of the file, and a copy of `trailer` with the positions that the chunks will
    /// have in the file. A read from the view waits until the bytes have arrived.
    pub(crate) fn arriving(
        &self,
        mut trailer: ChunkMetadata,
    ) -> Result<(Arc<Arriving>, ChunkMetadata)> {
        let mut end = self.start;
        for info in &mut trailer.chunks {
            (info.offset, info.file) = (end, 0);
            end = record_file::plain_record_end(end, info.size)?;
        }
        let file = Arc::clone(&self.file);
        let arriving = Arriving::new(file, end, Arc::clone(&self.shared));
        Ok((Arc::new(arriving), trailer))
    }

    /// Writes the trailer after the last chunk, and returns the complete file.
    pub(crate) fn finish(&self, mut trailer: ChunkMetadata) -> io::Result<Arc<File>> {
        for (info, offset) in trailer.chunks.iter_mut().zip(&self.offsets) {
            (info.offset, info.file) = (*offset, 0);
        }
        let mut writer = self.writer().map_err(io::Error::other)?;
        writer.write_record_alone(&trailer.encode_to_vec(), Compression::None)?;
        writer.finish()?;
        Ok(Arc::clone(&self.file))
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.shared.set_broken(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn room(store: &Store) -> usize {
        match store {
            Store::Memory { partial, .. } => partial.capacity(),
            Store::File(_) => 0,
        }
    }

    #[test]
    fn memory_is_allocated_for_at_most_as_many_bytes_as_came_and_a_mebibyte() {
        let mut store = Store::memory();
        store.begin(1 << 40).unwrap();
        assert_eq!(room(&store), MIB);
        store.drop_partial();
        store.begin(2 << 20).unwrap();
        store.push(&vec![1; MIB], 2 << 20).unwrap();
        store.push(&vec![2; MIB], 1 << 20).unwrap();
        store.finish_chunk().unwrap();

        // Enough bytes have arrived before to allocate the whole chunk at once.
        store.begin(3 << 20).unwrap();
        assert_eq!(room(&store), 3 * MIB);
        store.drop_partial();
        store.add_whole(vec![3; MIB].into()).unwrap();
        store.begin(1 << 40).unwrap();
        assert_eq!(room(&store), 4 * MIB);
    }
}
