//! Writing the chunks of one part of a plan to a separate file, and writing the main file for the
//! files of all parts.

use std::ops::Range;
use std::path::Path;

use record_file::{RecordsMetadata, WriterOptions};

use super::beside::check_size;
use super::chunk_file::ChunkFile;
use super::chunk_reader::{Span, source_crc32c};
use super::merkle::root_of;
use super::records::front;
use super::sink::write_chunks;
use crate::container::MerkleRoot;
use crate::io::{AtomicFile, combine};
use crate::proto::chunk_metadata::ExternalFile;
use crate::proto::{ChunkInfo, ChunkMetadata};
use crate::split::options::SplitOptions;
use crate::split::plan::split_plan::{PlannedChunk, SplitPlan};
use crate::split::read::source::Source;
use crate::{Error, ErrorKind, Result};

/// The file with the chunks of one part of a plan. The file is complete, but not at its final path
/// yet.
#[derive(Debug)]
pub struct PartFile {
    /// The file, which can be moved to its final path.
    pub file: AtomicFile,
    /// The trailer's entry for the file. The path in the entry is relative to the main file's
    /// folder.
    pub named: ExternalFile,
    /// Trailer entries of the part's chunks.
    pub infos: Vec<ChunkInfo>,
    /// Hashes of the part's chunks as leaves of a Merkle tree; empty unless the options request a
    /// Merkle root.
    pub leaves: Vec<[u8; 32]>,
    /// crc32c of each range in the part's [`runs`], in the same order.
    pub run_crc32cs: Vec<u32>,
}

/// Writes the chunks of `part`, a subset of a plan's chunks, to `file`. `number` is the number of
/// the file among the files next to `main`, counted from 0. The file's name depends on its content.
/// Chunks of the part that have the same bytes share a record.
///
/// # Errors
///
/// Any error from reading or writing; [`ErrorKind::LimitExceeded`] if the file exceeds the maximum
/// size.
pub fn write_part(
    part: &SplitPlan,
    source: &Source,
    file: AtomicFile,
    (main, number): (&Path, usize),
    options: &SplitOptions,
) -> Result<PartFile> {
    let mut chunks = ChunkFile::begin(&file, WriterOptions::new())?;
    let mut ledger = write_chunks(part, source, options, &mut chunks)?;
    let end = chunks.end();
    let done = chunks.complete(file, main, number)?;
    check_size(done.file.as_file(), end, options.max_file_size)?;
    Ok(PartFile {
        infos: ledger.infos(),
        leaves: ledger.leaves().unwrap_or_default(),
        run_crc32cs: of_runs(&runs(&part.chunks), std::mem::take(&mut ledger.spans)),
        named: done.named,
        file: done.file,
    })
}

/// Returns the ranges of the source that these chunks contain, in order. Adjacent ranges are
/// merged.
pub fn runs(chunks: &[PlannedChunk]) -> Vec<Range<u64>> {
    let found = chunks.iter().flat_map(PlannedChunk::source_ranges);
    let mut found: Vec<Range<u64>> = found.collect();
    found.sort_unstable_by_key(|range| range.start);
    found.dedup_by(|next, before| {
        let continues = before.end == next.start;
        if continues {
            before.end = next.end;
        }
        continues
    });
    found
}

/// Computes the crc32c of each run from the crc32c of each span in it.
fn of_runs(runs: &[Range<u64>], mut spans: Vec<Span>) -> Vec<u32> {
    spans.sort_unstable_by_key(|span| span.start);
    let mut spans = spans.into_iter().peekable();
    let crc32c = |run: &Range<u64>| {
        let mut crc = 0;
        while let Some(span) = spans.next_if(|span| span.start < run.end) {
            crc = combine(crc, span.crc32c, span.len);
        }
        crc
    };
    runs.iter().map(crc32c).collect()
}

/// Computes the crc32c of the whole source from `runs`: byte ranges of the source, each with its
/// crc32c, from all parts. Reads the bytes between the runs.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if runs overlap or exceed the source.
pub fn crc32c_of_runs(source: &Source, runs: Vec<(Range<u64>, u32)>) -> Result<u32> {
    let mut spans: Vec<Span> = runs
        .into_iter()
        .map(|(run, crc32c)| Span {
            start: run.start,
            len: run.end - run.start,
            crc32c,
        })
        .collect();
    spans.sort_unstable_by_key(|span| span.start);
    let mut position = 0;
    for span in &spans {
        let end = span.start.checked_add(span.len);
        match end.filter(|&end| span.start >= position && end <= source.size()) {
            Some(end) => position = end,
            None => {
                let message = "chunks of the plan share bytes of the source, or contain bytes that are not in the source";
                return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(span.start));
            }
        }
    }
    source_crc32c(source, spans)
}

/// Writes a main file without chunks to `file`: the message's type, and the trailer. If the options
/// request a Merkle root, computes the root from the `leaves` of all chunks, and returns it.
///
/// # Errors
///
/// Any error from writing; [`ErrorKind::LimitExceeded`] if the trailer exceeds a maximum.
pub fn write_main(
    file: &AtomicFile,
    described: &RecordsMetadata,
    mut trailer: ChunkMetadata,
    leaves: &[[u8; 32]],
    options: &SplitOptions,
) -> Result<Option<MerkleRoot>> {
    let mut main = ChunkFile::begin(file, front(described, options))?;
    if options.merkle_root {
        trailer.merkle_tree = Some(main.add_tree(leaves, &described.serialize())?);
    }
    let root = root_of(&trailer)?;
    main.finish(trailer, options)?;
    Ok(root)
}

/// Writes a main file that contains only the first chunk, whose bytes are those of `base`.
///
/// # Errors
///
/// [`ErrorKind::LimitExceeded`] if the base is larger than a chunk may be.
pub fn write_base(
    file: &AtomicFile,
    described: &RecordsMetadata,
    mut trailer: ChunkMetadata,
    base: &Source,
    options: &SplitOptions,
) -> Result<()> {
    let most = options.effective_max_chunk_size();
    let size = usize::try_from(base.size()).ok();
    let Some(size) = size.filter(|_| base.size() <= most) else {
        let message = format!(
            "the remainder of the message has {} bytes, over the maximum chunk size of {most} bytes",
            base.size()
        );
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    };
    let mut bytes = vec![0; size];
    base.data().read_exact_at(0, &mut bytes)?;
    let mut chunks = ChunkFile::begin(file, front(described, options))?;
    let compression = options.compression.for_trailer();
    let record = chunks.add(&mut &bytes[..], base.size(), compression)?;
    if let Some(info) = trailer.chunks.first_mut() {
        info.offset = record.position.numeric();
        info.crc32c = Some(record.crc32c);
    }
    chunks.finish(trailer, options)
}
