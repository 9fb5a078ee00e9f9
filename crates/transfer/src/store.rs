//! Where a receiver keeps the chunks that came.

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

/// Most bytes that are taken for a chunk before they came: 1 MiB.
const MOST_AHEAD: u64 = 1 << 20;

/// Chunks smaller than this are copied out of the frame they came in.
const SMALL: usize = 4096;

/// Where chunks are to be kept, once it is known how many bytes they have.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Memory,
    /// In a file without a name in this folder, or in that for temporary files.
    File(Option<PathBuf>),
}

/// The chunks that came whole, in the order of their indices, and the one at hand.
#[derive(Debug)]
pub(crate) enum Store {
    Memory {
        chunks: Vec<Bytes>,
        partial: Vec<u8>,
    },
    File(Box<Spool>),
}

impl Store {
    pub(crate) fn memory() -> Store {
        Store::Memory {
            chunks: Vec::new(),
            partial: Vec::new(),
        }
    }

    /// Adds a chunk that came in one piece.
    pub(crate) fn add_whole(&mut self, chunk: Bytes) -> Result<()> {
        match self {
            Store::Memory { chunks, .. } => {
                // Decoded frames share their memory: a small chunk doesn't hold a whole frame.
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

    /// Begins a chunk of `size` bytes.
    pub(crate) fn begin(&mut self, size: u64) -> Result<()> {
        match self {
            Store::Memory { partial, .. } => {
                // Whatever is claimed, memory is taken as the bytes come.
                let ahead = usize::try_from(size.min(MOST_AHEAD)).unwrap_or_default();
                *partial = Vec::with_capacity(ahead);
                Ok(())
            }
            Store::File(spool) => spool.begin(size),
        }
    }

    /// Adds the next bytes of the chunk at hand, which lacks `left` bytes, these included.
    pub(crate) fn push(&mut self, piece: &[u8], left: u64) -> Result<()> {
        match self {
            Store::Memory { partial, .. } => {
                if partial.capacity() - partial.len() < piece.len() {
                    // Twice what came, and never more than the chunk has.
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

    /// Ends the chunk at hand.
    pub(crate) fn finish_chunk(&mut self) -> Result<()> {
        match self {
            Store::Memory { chunks, partial } => {
                chunks.push(std::mem::take(partial).into());
                Ok(())
            }
            Store::File(spool) => spool.finish_chunk(),
        }
    }

    /// Forgets the chunk at hand.
    pub(crate) fn drop_partial(&mut self) {
        match self {
            Store::Memory { partial, .. } => *partial = Vec::new(),
            Store::File(spool) => spool.record = None,
        }
    }
}

/// A `.cpb` file without a name that grows chunk by chunk.
#[derive(Debug)]
pub(crate) struct Spool {
    file: Arc<File>,
    /// Where the first record begins, and the next.
    start: u64,
    end: u64,
    offsets: Vec<u64>,
    record: Option<RecordInPieces<Arc<File>>>,
    shared: Arc<Shared>,
}

impl Spool {
    /// Creates a file without a name in a folder, or in that for temporary files.
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

    /// Adds a chunk that came in one piece.
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

    /// A writer at the end of the last whole record: what a chunk left that broke off is written over.
    fn writer(&self) -> Result<RecordWriter<Arc<File>>> {
        self.file.set_len(self.end)?;
        let mut file = Arc::clone(&self.file);
        file.seek(SeekFrom::Start(self.end))?;
        Ok(RecordWriter::starting_at(file, self.end)?)
    }

    /// Says to those who wait for a chunk that none comes for now, or that they may wait again.
    pub(crate) fn tell(&self, broken: bool) {
        self.shared.set_broken(broken);
    }

    /// Returns the file as it will be once all chunks of `trailer` came, and `trailer` with their places
    /// in it. Reads wait for what hasn't come.
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

    /// Writes the trailer, and returns the file.
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
