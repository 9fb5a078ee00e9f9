//! Sinks, which are destinations of chunks; a function that passes a plan's chunks to a sink; and a
//! ledger of the resulting records.
//!
//! The sinks are a file ([`ChunkFile`](super::chunk_file::ChunkFile)), a main file and other files
//! next to it ([`ChunkFiles`](super::multi_file::ChunkFiles)), a stream, and memory.

use std::num::NonZeroUsize;

use record_file::{CompressionKind, RecordPosition};

use super::chunk_reader::{Span, source_crc32c, tell};
use super::dedup::duplicates;
use super::written::WrittenChunk;
use crate::Result;
use crate::container::{Hash, Hashing};
use crate::error::ChunkIndex;
use crate::io::threads;
use crate::progress::Meter;
use crate::proto::{ChunkInfo, ChunkMetadata};
use crate::split::compression::ChunkCompression;
use crate::split::options::SplitOptions;
use crate::split::plan::metadata::{WrittenInfo, chunk_info, metadata};
use crate::split::plan::split_plan::SplitPlan;
use crate::split::read::source::Source;

/// A sink for a plan's chunks, which returns the record of each chunk.
pub(in crate::split) trait ChunkSink {
    /// True if the sink receives only one of several chunks with the same bytes.
    const SHARES: bool = true;

    /// Writes the chunks in order, and returns their records.
    fn take(&mut self, chunks: Chunks<'_>) -> Result<Taken>;
}

/// Chunks of a plan to write, in the order of `indices`.
#[derive(Clone, Copy)]
pub(in crate::split) struct Chunks<'a> {
    pub(in crate::split) plan: &'a SplitPlan,
    pub(in crate::split) source: &'a Source,
    pub(in crate::split) indices: &'a [usize],
    pub(in crate::split) compression: ChunkCompression,
    /// True if the chunks are written one by one, with the options of the record writer.
    pub(in crate::split) one_by_one: bool,
    /// Hashing of the chunks as leaves of a Merkle tree; `None` without a tree.
    pub(in crate::split) hashing: Option<Hashing>,
    pub(in crate::split) threads: NonZeroUsize,
    pub(in crate::split) meter: &'a Meter,
}

impl<'a> Chunks<'a> {
    /// Returns the chunks with these indices, a subset of all chunks.
    pub(in crate::split) fn only(self, indices: &'a [usize]) -> Chunks<'a> {
        Chunks { indices, ..self }
    }
}

/// The record of a written chunk.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Number of the file that contains the record; 0 is the main file.
    pub file: u32,
    /// Position of the record in the file.
    pub position: RecordPosition,
    /// crc32c of the uncompressed chunk.
    pub crc32c: u32,
    /// Hash of the uncompressed chunk as a leaf of a Merkle tree; `None` if no tree was requested.
    pub leaf: Option<[u8; 32]>,
    /// Stored size of the record, in bytes, without headers.
    pub stored_size: u64,
    /// Compression of the record.
    pub compression: CompressionKind,
}

impl Record {
    pub(in crate::split) fn info(&self) -> WrittenInfo {
        WrittenInfo {
            file: self.file,
            offset: self.position.numeric(),
            crc32c: self.crc32c,
        }
    }
}

/// The records of the chunks that a sink received, in order.
#[derive(Default)]
pub(in crate::split) struct Taken {
    pub(in crate::split) records: Vec<Record>,
    /// Spans of the source that these chunks contain.
    pub(in crate::split) spans: Vec<Span>,
}

/// The records of all chunks in a plan.
pub(in crate::split) struct Ledger<'a> {
    plan: &'a SplitPlan,
    source: &'a Source,
    /// Records in the order of the chunks.
    records: Vec<Record>,
    /// For each chunk, the index of the earlier chunk whose record it shares; `None` if it shares
    /// none.
    shared: Vec<Option<usize>>,
    pub(in crate::split) spans: Vec<Span>,
}

/// Writes the chunks of a plan to a sink. Chunks with the same bytes are written once.
pub(in crate::split) fn write_chunks<'a, S: ChunkSink>(
    plan: &'a SplitPlan,
    source: &'a Source,
    options: &SplitOptions,
    sink: &mut S,
) -> Result<Ledger<'a>> {
    let threads = threads::count(options.threads);
    let hashing = options.merkle_root.then(Hashing::new).transpose()?;
    let same = if S::SHARES {
        duplicates(plan, source, threads, &options.progress)?
    } else {
        plan.chunks.iter().map(|_| None).collect()
    };
    let own = |index: &usize| same.get(*index).is_none_or(Option::is_none);
    let indices: Vec<usize> = (0..plan.chunks.len()).filter(own).collect();
    let bytes = indices.iter().map(|&index| plan.chunks[index].size).sum();
    let meter = options.progress.meter(bytes);
    let _span = tracing::debug_span!("write", chunks = indices.len(), bytes).entered();
    tell(plan, source, &indices);
    let Taken { records, mut spans } = sink.take(Chunks {
        plan,
        source,
        indices: &indices,
        compression: options.compression,
        one_by_one: options.records.is_some(),
        hashing,
        threads,
        meter: &meter,
    })?;
    let mut records = records.into_iter();
    let mut all: Vec<Record> = Vec::with_capacity(same.len());
    let mut shared = Vec::with_capacity(same.len());
    for same in same {
        shared.push(same.as_ref().map(|same| same.other));
        let record = match same {
            Some(same) => {
                spans.extend(same.spans);
                Some(Record {
                    crc32c: same.crc32c,
                    ..all[same.other]
                })
            }
            None => records.next(),
        };
        all.extend(record);
    }
    Ok(Ledger {
        plan,
        source,
        records: all,
        shared,
        spans,
    })
}

impl Ledger<'_> {
    /// Returns the trailer of a file with these records.
    pub(in crate::split) fn trailer(&mut self) -> Result<ChunkMetadata> {
        let infos: Vec<WrittenInfo> = self.records.iter().map(Record::info).collect();
        let spans = std::mem::take(&mut self.spans);
        Ok(metadata(
            self.plan,
            &infos,
            source_crc32c(self.source, spans)?,
        ))
    }

    /// Returns the leaves of the Merkle tree; `None` if no tree was requested.
    pub(in crate::split) fn leaves(&self) -> Option<Vec<Hash>> {
        self.records.iter().map(|record| record.leaf).collect()
    }

    /// Returns the chunks' entries in the trailer.
    pub(in crate::split) fn infos(&self) -> Vec<ChunkInfo> {
        let chunks = self.plan.chunks.iter().zip(&self.records);
        chunks
            .map(|(chunk, record)| chunk_info(chunk, &record.info()))
            .collect()
    }

    /// Returns a report on each chunk.
    pub(in crate::split) fn describe(&self) -> Vec<WrittenChunk> {
        let chunks = self.plan.chunks.iter().zip(&self.records);
        let chunks = chunks.zip(&self.shared).enumerate();
        chunks
            .map(|(index, ((chunk, record), shared))| WrittenChunk {
                index: index.into(),
                kind: chunk.kind(),
                path: chunk.path().clone(),
                size: chunk.size,
                stored_size: record.stored_size,
                compression: record.compression,
                file: record.file as usize,
                position: record.position,
                same_as: shared.map(ChunkIndex::from),
            })
            .collect()
    }
}
