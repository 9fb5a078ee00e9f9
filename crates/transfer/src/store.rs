//! Where a receiver keeps the chunks that came.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use prost::Message;
use proto_splitter_core::Result;
use proto_splitter_core::proto::ChunkMetadata;
use record_file::{Compression, RecordWriter, WriterOptions};

/// Most bytes that are taken for a chunk before they came: 1 MiB.
const MOST_AHEAD: u64 = 1 << 20;

/// The chunks that came whole, in the order of their indices.
#[derive(Debug)]
pub(crate) enum Store {
    Memory(Vec<Bytes>),
    File(Spool),
}

impl Store {
    /// Adds a chunk of `size` bytes, which `content` has.
    pub(crate) fn add(&mut self, size: u64, content: &mut dyn Read) -> Result<()> {
        match self {
            Store::Memory(chunks) => {
                // Whatever is claimed, memory is taken as the bytes come.
                let ahead = usize::try_from(size.min(MOST_AHEAD)).unwrap_or_default();
                let mut chunk = Vec::with_capacity(ahead);
                content.read_to_end(&mut chunk)?;
                chunks.push(chunk.into());
                Ok(())
            }
            Store::File(spool) => spool.add(size, content),
        }
    }

    /// Adds a chunk that came in one piece.
    pub(crate) fn add_whole(&mut self, chunk: Bytes) -> Result<()> {
        match self {
            Store::Memory(chunks) => {
                // Decoded frames share their memory: a small chunk doesn't hold a whole frame.
                let chunk = if chunk.len() < 4096 {
                    Bytes::from(BytesMut::from(&chunk[..]))
                } else {
                    chunk
                };
                chunks.push(chunk);
                Ok(())
            }
            Store::File(spool) => spool.add(chunk.len() as u64, &mut &chunk[..]),
        }
    }

    /// Forgets all chunks.
    pub(crate) fn clear(&mut self) -> Result<()> {
        match self {
            Store::Memory(chunks) => {
                chunks.clear();
                Ok(())
            }
            Store::File(spool) => spool.clear(),
        }
    }
}

/// A `.cpb` file without a name that grows chunk by chunk.
#[derive(Debug)]
pub(crate) struct Spool {
    file: Arc<File>,
    /// Where the next record begins; 0 before the first.
    end: u64,
    offsets: Vec<u64>,
}

impl Spool {
    /// Creates a file without a name in a folder, or in that for temporary files.
    pub(crate) fn create(folder: Option<&Path>) -> io::Result<Spool> {
        let file = match folder {
            Some(folder) => tempfile::tempfile_in(folder)?,
            None => tempfile::tempfile()?,
        };
        Ok(Spool {
            file: Arc::new(file),
            end: 0,
            offsets: Vec::new(),
        })
    }

    fn add(&mut self, size: u64, content: &mut dyn Read) -> Result<()> {
        let mut writer = self.writer()?;
        let position = writer.write_record_from(content, size, Compression::None)?;
        writer.flush()?;
        self.end = writer.position().numeric();
        self.offsets.push(position.numeric());
        Ok(())
    }

    /// A writer at the end of the last whole record: what a chunk left that broke off is written over.
    fn writer(&self) -> Result<RecordWriter<&File>> {
        let mut file = &*self.file;
        file.set_len(self.end)?;
        file.seek(SeekFrom::Start(self.end))?;
        let writer = match self.end {
            0 => {
                let options = WriterOptions::new().compression(Compression::None);
                RecordWriter::new(file, options)?
            }
            end => RecordWriter::starting_at(file, end)?,
        };
        Ok(writer)
    }

    fn clear(&mut self) -> Result<()> {
        self.file.set_len(0)?;
        (self.end, self.offsets) = (0, Vec::new());
        Ok(())
    }

    /// Writes the trailer, and returns the file.
    pub(crate) fn finish(self, mut trailer: ChunkMetadata) -> Result<Arc<File>> {
        for (info, offset) in trailer.chunks.iter_mut().zip(&self.offsets) {
            (info.offset, info.file) = (*offset, 0);
        }
        let mut writer = self.writer()?;
        writer.write_record_alone(&trailer.encode_to_vec(), Compression::None)?;
        writer.finish()?;
        Ok(self.file)
    }
}
