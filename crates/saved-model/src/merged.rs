//! A chunked message, merged, that can be read anywhere without being merged first.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use prost_reflect::MessageDescriptor;
use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::merge::{ChunkStore, MergeOptions, MergePlan, SegmentSource};
use proto_splitter_core::{Error, Result};
use record_file::{Chunk, ChunkKind, CompressionKind, ReadAt};

/// How much of all chunks that can't be read at random is held in memory; the rest goes to a
/// temporary file.
const MAX_HELD: u64 = 64 << 20;

/// The bytes that a chunked file merges to, by position.
///
/// Chunks that are stored as they are are read where they are, which no checksum covers; others are
/// decompressed, and checked, when they are first read from.
pub(crate) struct MergedMessage<S> {
    file: ChunkedFile<S>,
    plan: MergePlan,
    chunks: Vec<OnceLock<Access>>,
    unpacked: Mutex<Unpacked>,
}

/// Where a chunk's bytes are to be had.
enum Access {
    /// In the record file: its record chunk, and where the record begins in that.
    Stored(Chunk, u64),
    Held(Bytes),
    /// In the temporary file, from here on.
    Spilled(u64),
}

#[derive(Default)]
struct Unpacked {
    held: u64,
    spill: Option<File>,
    spilled: u64,
}

impl<S: ReadAt> MergedMessage<S> {
    /// The message that `file` merges to, which is of this type.
    pub(crate) fn new(file: ChunkedFile<S>, descriptor: MessageDescriptor) -> Result<Self> {
        let plan = file.plan(&MergeOptions::new().descriptor(descriptor))?;
        let chunks = (0..file.len()).map(|_| OnceLock::new()).collect();
        Ok(MergedMessage {
            file,
            plan,
            chunks,
            unpacked: Mutex::default(),
        })
    }

    /// Bytes of the message.
    pub(crate) fn len(&self) -> u64 {
        self.plan.total_len()
    }

    /// The chunks.
    pub(crate) fn file(&self) -> &ChunkedFile<S> {
        &self.file
    }

    fn read_chunk(&self, chunk: usize, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self.access(chunk)? {
            Access::Stored(stored, start) => {
                let (position, left) = position_in(stored.begin().0, start + offset);
                let n = buf.len().min(left);
                let source = self.file.record_file().get_ref();
                source.read_exact_at(position, &mut buf[..n])?;
                Ok(n)
            }
            Access::Held(bytes) => {
                let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                let rest = bytes.get(offset..).unwrap_or_default();
                let n = buf.len().min(rest.len());
                buf[..n].copy_from_slice(&rest[..n]);
                Ok(n)
            }
            Access::Spilled(start) => {
                let unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
                match &unpacked.spill {
                    Some(spill) => Ok(spill.read_at(start + offset, buf)?),
                    None => Ok(0),
                }
            }
        }
    }

    fn access(&self, chunk: usize) -> Result<&Access> {
        let Some(slot) = self.chunks.get(chunk) else {
            let message = "there is no such chunk";
            let kind = proto_splitter_core::ErrorKind::InvalidTrailer;
            return Err(Error::new(kind, message).in_chunk(chunk as u64));
        };
        if let Some(access) = slot.get() {
            return Ok(access);
        }
        let access = self
            .open(chunk)
            .map_err(|error| error.in_chunk(chunk as u64))?;
        // Another thread may have been first; then what it found is as good.
        Ok(slot.get_or_init(|| access))
    }

    fn open(&self, chunk: usize) -> Result<Access> {
        if let Some(position) = self.file.position(chunk) {
            let records = self.file.record_file();
            let stored = records.stored(position)?;
            let header = stored.chunk.header;
            let plain = stored.compression == CompressionKind::None
                && header.kind == ChunkKind::Simple
                && header.num_records == 1;
            // The record's bytes are the last of its chunk's data.
            let front = header.data_size.checked_sub(header.decoded_data_size);
            if let (true, Some(front)) = (plain, front) {
                return Ok(Access::Stored(stored.chunk, HEADER_LEN + front));
            }
        }
        let size = self.file.size(chunk);
        let mut stream = self.file.stream(chunk)?;
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if unpacked.held.saturating_add(size) <= MAX_HELD {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes)?;
            unpacked.held += bytes.len() as u64;
            return Ok(Access::Held(bytes.into()));
        }
        let start = unpacked.spilled;
        let spill = match &mut unpacked.spill {
            Some(spill) => spill,
            none => none.insert(tempfile::tempfile()?),
        };
        let written = io::copy(&mut stream, spill)?;
        spill.flush()?;
        unpacked.spilled += written;
        Ok(Access::Spilled(start))
    }
}

const HEADER_LEN: u64 = 40;
const BLOCK: u64 = 1 << 16;
const BLOCK_HEADER: u64 = 24;

/// Where in the file byte `offset` of the chunk that begins at `begin` is, header included, and how
/// many follow it in its block. Block headers lie between the bytes of a chunk, and before those of
/// one that begins with a block.
fn position_in(begin: u64, offset: u64) -> (u64, usize) {
    let usable = BLOCK - BLOCK_HEADER;
    let within = (begin % BLOCK).max(BLOCK_HEADER) - BLOCK_HEADER + offset;
    let block = begin - begin % BLOCK + within / usable * BLOCK;
    let left = usable - within % usable;
    (
        block + BLOCK_HEADER + within % usable,
        usize::try_from(left).unwrap_or(usize::MAX),
    )
}

impl<S: ReadAt> ReadAt for MergedMessage<S> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() || offset >= self.len() {
            return Ok(0);
        }
        let segments = self.plan.segments();
        let at = segments.partition_point(|segment| segment.offset <= offset) - 1;
        let segment = &segments[at];
        let skip = offset - segment.offset;
        let left = usize::try_from(segment.len() - skip).unwrap_or(usize::MAX);
        let n = buf.len().min(left);
        match &segment.source {
            SegmentSource::Literal(range) => {
                let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                let literal = self.plan.literal(range.clone());
                let bytes = literal.get(skip..).unwrap_or_default();
                let n = n.min(bytes.len());
                buf[..n].copy_from_slice(&bytes[..n]);
                Ok(n)
            }
            SegmentSource::Chunk { chunk, range } => {
                Ok(self.read_chunk(*chunk, range.start + skip, &mut buf[..n])?)
            }
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len())
    }
}
