//! Chunked messages as files.

use std::io;
use std::sync::Mutex;

use prost::Message;
use proto_splitter_core::proto::ChunkMetadata;
use record_file::{Compression, ReadAt, RecordWriter, WriterOptions};

use super::Chunked;

/// The layout of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Each record is alone in a record chunk.
    Alone(Compression),
    /// Each record chunk contains several records, up to this size in bytes.
    Together(u64),
}

pub const ALONE: Layout = Layout::Alone(Compression::None);

/// Returns the bytes of a `.cpb` file. `patch` may change the metadata once the offsets are known.
pub fn cpb_with(
    chunked: &Chunked,
    layout: Layout,
    patch: impl FnOnce(&mut ChunkMetadata),
) -> Vec<u8> {
    let (options, alone) = match layout {
        Layout::Alone(compression) => (WriterOptions::new(), Some(compression)),
        Layout::Together(size) => (WriterOptions::new().chunk_size(size), None),
    };
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    let mut write = |record: &[u8]| {
        match alone {
            Some(compression) => writer.write_record_alone(record, compression).map(|_| ()),
            None => writer.write_record(record),
        }
        .unwrap();
        writer.last_position().unwrap().numeric()
    };
    let mut metadata = chunked.metadata.clone();
    for (chunk, info) in chunked.chunks.iter().zip(&mut metadata.chunks) {
        info.offset = write(chunk);
    }
    patch(&mut metadata);
    write(&metadata.encode_to_vec());
    writer.finish().unwrap()
}

pub fn cpb(chunked: &Chunked) -> Vec<u8> {
    cpb_with(chunked, ALONE, |_| {})
}

/// A source that records the ranges read.
#[derive(Debug)]
pub struct Counted {
    bytes: Vec<u8>,
    reads: Mutex<Vec<(u64, usize)>>,
}

impl Counted {
    pub fn new(bytes: Vec<u8>) -> Self {
        Counted {
            bytes,
            reads: Mutex::default(),
        }
    }

    /// Returns the start and the size of each read since the last call.
    pub fn all(&self) -> Vec<(u64, usize)> {
        std::mem::take(&mut *self.reads.lock().unwrap())
    }

    /// Returns the number of bytes in `range` that were read since the last call, including
    /// repeated reads.
    pub fn take(&self, range: std::ops::Range<u64>) -> u64 {
        let reads = self.all();
        let within = |&(start, len): &(u64, usize)| {
            let end = start + len as u64;
            end.min(range.end).saturating_sub(start.max(range.start))
        };
        reads.iter().map(within).sum()
    }
}

impl ReadAt for Counted {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read_at(offset, buffer)?;
        self.reads.lock().unwrap().push((offset, read));
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }
}
