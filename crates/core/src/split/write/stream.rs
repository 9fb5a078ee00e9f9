//! Executing a plan to a sequential sink: a pipe, or a connection.
//!
//! The hash of a record precedes the record, so a chunk must be read completely before its first
//! byte is written. Threads prepare chunks ahead of the thread that writes. Compressed chunks are
//! kept until they are written, small ones in memory and others in a temporary file. Small
//! uncompressed chunks are kept in memory; large ones are only hashed, and are read again when they
//! are written.

use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use record_file::{Compression, CompressionKind, EncodedRecord, RecordPosition, RecordWriter};
use tempfile::SpooledTempFile;

use super::chunk_reader::{ChunkReader, Span, tell};
use super::merkle::{root_of, write_tree};
use super::one_by_one::write_one_by_one;
use super::parallel::{AHEAD, SPILL_ABOVE};
use super::probe::decide;
use super::records::front;
use super::sink::{ChunkSink, Chunks, Record, Taken, write_chunks};
use super::trailer::write_trailer;
use super::written::WrittenChunk;
use crate::container::{Hash, MerkleRoot, describe_type};
use crate::io::Ahead;
use crate::io::threads;
use crate::progress::{Meter, Progress};
use crate::split::options::SplitOptions;
use crate::split::plan::split_plan::{PlannedChunk, SplitPlan};
use crate::split::read::source::Source;
use crate::{Error, ErrorKind, Result};

/// Maximum total size, before compression, of the chunks to prepare ahead, in bytes: 512 MiB, which
/// is also the space needed for temporary files. A single chunk may be larger.
const MOST_AHEAD: u64 = 512 << 20;

/// Maximum size of an uncompressed chunk to keep in memory until it is written, in bytes: 512 KiB.
/// With very many threads, the maximum is lower.
const LARGEST_KEPT: u64 = 512 << 10;

/// A report on a message that was written to a stream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WrittenStream {
    /// True if the stream is a chunked file, false if it is the message itself.
    pub is_split: bool,
    /// True if a merge reproduces the exact bytes of the source, and not just an equal message.
    pub byte_exact: bool,
    /// The chunks in index order; empty if the stream isn't a chunked file.
    pub chunks: Vec<WrittenChunk>,
    /// Size of the message, in bytes.
    pub source_size: u64,
    /// Number of bytes written.
    pub output_size: u64,
    /// The Merkle root; `None` unless the options request one and the stream is a chunked file.
    pub merkle_root: Option<MerkleRoot>,
}

/// Fails if the options require more than one file.
pub(in crate::split) fn check(options: &SplitOptions) -> Result<()> {
    match options.max_file_size {
        Some(_) => Err(Error::new(
            ErrorKind::InvalidConfig,
            "a stream is one file: there can be no maximum file size",
        )),
        None => Ok(()),
    }
}

/// Writes a plan to a stream: as a chunked file, or as the unchanged message if nothing was cut.
pub(in crate::split) fn write(
    plan: &SplitPlan,
    source: &Source,
    sink: &mut dyn Write,
    options: &SplitOptions,
) -> Result<WrittenStream> {
    let (chunks, output_size, merkle_root) = if plan.is_split() {
        write_records(plan, source, sink, options)?
    } else {
        let meter = options.progress.meter(source.size());
        tell(plan, source, &[0]);
        let mut chunk = ChunkReader::new(&plan.chunks[0], source).metered(&meter);
        let copied = io::copy(&mut chunk, sink)?;
        source.check_unchanged()?;
        (Vec::new(), copied, None)
    };
    sink.flush()?;
    Ok(WrittenStream {
        is_split: plan.is_split(),
        byte_exact: plan.byte_exact,
        chunks,
        source_size: source.size(),
        output_size,
        merkle_root,
    })
}

fn write_records(
    plan: &SplitPlan,
    source: &Source,
    sink: &mut dyn Write,
    options: &SplitOptions,
) -> Result<(Vec<WrittenChunk>, u64, Option<MerkleRoot>)> {
    let progress = &options.progress;
    let described = describe_type(&plan.descriptor, options.embed_schema);
    let mut sink = CancellableWriter { sink, progress };
    let mut writer = RecordWriter::new(&mut sink as &mut dyn Write, front(&described, options))?;
    let mut ledger = write_chunks(plan, source, options, &mut StreamSink(&mut writer))?;
    // Checked before writing the trailer, since no reader accepts a stream without it.
    source.check_unchanged()?;
    let mut trailer = ledger.trailer()?;
    if let Some(leaves) = ledger.leaves() {
        trailer.merkle_tree = Some(write_tree(&mut writer, &leaves, &described.serialize())?);
    }
    let root = root_of(&trailer)?;
    write_trailer(&mut writer, trailer, options)?;
    let size = writer.position().numeric();
    writer.finish()?;
    Ok((ledger.describe(), size, root))
}

/// A stream to which chunks are written one after the other, while later chunks are prepared.
struct StreamSink<'a, 'w>(&'a mut RecordWriter<&'w mut dyn Write>);

impl ChunkSink for StreamSink<'_, '_> {
    fn take(&mut self, chunks: Chunks<'_>) -> Result<Taken> {
        if chunks.one_by_one {
            return write_one_by_one(chunks, self.0);
        }
        let Chunks { plan, indices, .. } = chunks;
        let most = NonZeroUsize::new(indices.len());
        let threads = most.map_or(chunks.threads, |most| chunks.threads.min(most));
        let ahead = Ahead {
            count: NonZeroUsize::MIN.saturating_add(AHEAD * threads.get()),
            size: MOST_AHEAD,
        };
        let preparing = ChunkEncoder {
            chunks,
            spill_above: SPILL_ABOVE / ahead.count,
        };
        let sizes = indices.iter().map(|&index| plan.chunks[index].size);
        let mut taken = Taken::default();
        let prepare = |at: usize, abandoned: &AtomicBool| preparing.prepare(indices[at], abandoned);
        threads::in_order(threads, sizes, ahead, prepare, |mut ready| {
            taken.spans.append(&mut ready.spans);
            taken.records.push(Record {
                file: 0,
                crc32c: ready.crc32c,
                leaf: ready.leaf,
                stored_size: ready.record.data_size(),
                compression: ready.compression,
                position: preparing.write(ready, self.0)?,
            });
            Ok(())
        })?;
        Ok(taken)
    }
}

/// An encoder that prepares chunks for writing, on any thread.
struct ChunkEncoder<'a> {
    chunks: Chunks<'a>,
    spill_above: usize,
}

/// A chunk that is ready to write.
struct PreparedChunk {
    index: usize,
    record: EncodedRecord,
    /// The data of the record; `None` for a large uncompressed chunk, which is read again from the
    /// source.
    kept: Option<SpooledTempFile>,
    compression: CompressionKind,
    crc32c: u32,
    leaf: Option<Hash>,
    spans: Vec<Span>,
}

impl<'a> ChunkEncoder<'a> {
    fn prepare(&self, index: usize, abandoned: &AtomicBool) -> Result<PreparedChunk> {
        let Chunks { plan, source, .. } = self.chunks;
        let chunk = &plan.chunks[index];
        let compression = decide(self.chunks.compression, chunk, source)?;
        // Maximum number of bytes to keep in memory; `None` if the chunk is read again from the
        // source.
        let kept = match compression {
            Compression::None if chunk.size > LARGEST_KEPT.min(self.spill_above as u64) => None,
            Compression::None => Some(usize::MAX),
            _ => Some(self.spill_above),
        };
        let mut reader = self.reader(index, chunk).hashed(self.chunks.hashing);
        if kept.is_some() {
            // The bytes of chunks that are read again count as done when they are written.
            reader = reader.metered(self.chunks.meter);
        }
        let mut wanted = AwaitedChunk {
            reader: &mut reader,
            meter: self.chunks.meter,
            abandoned,
        };
        let compressing =
            || tracing::trace_span!("compress", chunk = index, bytes = chunk.size).entered();
        let _span = (compression != Compression::None).then(compressing);
        let mut kept = kept.map(|most| SpoolFile(tempfile::spooled_tempfile(most)));
        let out: &mut dyn Write = match &mut kept {
            Some(file) => file,
            None => &mut io::sink(),
        };
        let record = EncodedRecord::encode(&mut wanted, chunk.size, compression, out)?;
        Ok(PreparedChunk {
            index,
            record,
            kept: kept.map(|file| file.0),
            compression: compression.kind(),
            crc32c: reader.crc32c(),
            leaf: reader.leaf(),
            spans: reader.spans,
        })
    }

    fn write(
        &self,
        ready: PreparedChunk,
        writer: &mut RecordWriter<&mut dyn Write>,
    ) -> Result<RecordPosition> {
        let chunk = &self.chunks.plan.chunks[ready.index];
        let _span =
            tracing::trace_span!("write", chunk = ready.index, bytes = chunk.size).entered();
        if let Some(mut data) = ready.kept {
            data.seek(SeekFrom::Start(0))?;
            return Ok(writer.write_encoded_record(&ready.record, &mut data)?);
        }
        let mut reader = self.reader(ready.index, chunk).metered(self.chunks.meter);
        let written = writer.write_plain_record(&ready.record, &mut reader);
        written.map_err(|error| match error.kind() {
            record_file::ErrorKind::ChecksumMismatch => Error::new(
                ErrorKind::SourceChanged,
                "the source's bytes have changed since they were read before",
            )
            .in_chunk(ready.index),
            _ => error.into(),
        })
    }

    fn reader(&self, index: usize, chunk: &'a PlannedChunk) -> ChunkReader<'a> {
        let span = tracing::trace_span!("read", chunk = index, bytes = chunk.size);
        ChunkReader::new(chunk, self.chunks.source).timed(span)
    }
}

/// A reader of a chunk. Reading fails once the operation is cancelled or has failed elsewhere.
struct AwaitedChunk<'a, 'b> {
    reader: &'a mut ChunkReader<'b>,
    meter: &'a Meter,
    abandoned: &'a AtomicBool,
}

impl Read for AwaitedChunk<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.meter.check()?;
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(io::Error::other("nobody waits for it"));
        }
        self.reader.read(buf)
    }
}

/// A wrapper of a sink. Writing to the wrapper fails once the operation is cancelled, so that even
/// an operation with a slow sink can be cancelled.
struct CancellableWriter<'a> {
    sink: &'a mut dyn Write,
    progress: &'a Progress,
}

impl Write for CancellableWriter<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.progress.check()?;
        self.sink.write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.progress.check()?;
        self.sink.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// A buffer in memory that becomes a temporary file when it is large. If writing fails, the error
/// contains the path of the folder for temporary files.
struct SpoolFile(SpooledTempFile);

impl Write for SpoolFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf).map_err(|error| {
            let folder = std::env::temp_dir();
            let message = format!("a temporary file in {}: {error}", folder.display());
            io::Error::new(error.kind(), message)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
