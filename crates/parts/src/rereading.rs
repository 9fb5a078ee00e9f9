//! Rereading the data that parts have written, and verifying the checksums in the parts' reports.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use record_file::ReadAt;

use super::options::PartOptions;
use super::store::PartStore;
use proto_splitter_core::container::{Limits, TrailerUse};
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::part_work::{chunk_leaves, open_sources_with, verify_part};
use proto_splitter_core::progress::{Meter, Progress};
use proto_splitter_core::proto::chunk_metadata::ExternalFile;
use proto_splitter_core::proto::{ChunkInfo, ChunkMetadata, ChunkedMessage};
use proto_splitter_core::spans::crc_of_range;
use proto_splitter_core::threads;
use proto_splitter_core::{Error, ErrorKind, Result};

/// Number of bytes to read at a time: 1 MiB.
const STEP: usize = 1 << 20;

/// The range of the merged message that a part wrote, and the crc32c in the part's report.
pub(super) struct WrittenRange {
    pub(super) range: Range<u64>,
    pub(super) crc32c: u32,
}

/// Reads the range of a merged message that each part wrote, and verifies the checksums in the
/// parts' reports. Errors refer to the message as `name`.
///
/// # Errors
///
/// [`ErrorKind::ChecksumMismatch`] for the first part whose range has changed since it was written.
pub(super) fn reread_ranges(
    source: &dyn ReadAt,
    written: &[WrittenRange],
    name: &str,
    options: &PartOptions,
) -> Result<()> {
    let total = written.last().map_or(0, |last| last.range.end);
    let meter = options.progress.meter(total);
    let compare = |part: usize| {
        let Some(written) = written.get(part) else {
            return Ok(());
        };
        let found = sum_up(source, written.range.clone(), &meter)
            .map_err(|error| error.context(name.escape_debug()))?;
        if found == written.crc32c {
            return Ok(());
        }
        let message = format!(
            "{name}: crc32c of bytes {:?} is {found:08x}, but part {part} wrote {:08x}: the bytes were damaged, and the part has to be run again",
            written.range, written.crc32c
        );
        Err(Error::new(ErrorKind::ChecksumMismatch, message))
    };
    threads::map(threads::count(options.threads), written.len(), compare).map(drop)
}

/// Computes the crc32c of the bytes at `range` in a source.
pub(super) fn sum_up(source: &dyn ReadAt, range: Range<u64>, meter: &Meter) -> Result<u32> {
    source.prefetch(std::slice::from_ref(&range));
    crc_of_range(source, range, &mut vec![0; STEP], |len| meter.advance(len))
}

/// The file that a part of a split wrote, and the chunks in the file, ordered by offset. Equal
/// chunks that share a record are listed once.
pub(super) struct WrittenPart {
    pub(super) file: ExternalFile,
    pub(super) chunks: Vec<ChunkInfo>,
    /// Hash of each chunk, as a leaf of a Merkle tree; empty if the plan doesn't request a Merkle
    /// root.
    pub(super) leaves: Vec<[u8; 32]>,
}

/// Reads and checks all files that the parts of a split wrote. Reads every record, and every byte
/// between records, once.
///
/// # Errors
///
/// The error of the first damaged file.
pub(super) fn reread_files(
    parts: &[WrittenPart],
    store: &dyn PartStore,
    options: &PartOptions,
) -> Result<()> {
    let sizes = parts.iter().map(|part| part.file.size);
    let meter = options.progress.meter(sizes.fold(0, u64::saturating_add));
    for (number, part) in parts.iter().enumerate() {
        meter.check()?;
        let source = store.open(&part.file.path)?;
        let at = |error: Error| {
            let error = error.context(part.file.path.escape_debug());
            error.context(format_args!("part {number}"))
        };
        let damaged = "damaged since it was written: delete it and have the part run again";
        let leaves = reread_file(source, part, options.threads);
        let leaves = leaves.map_err(|error| at(error.context(damaged)))?;
        if let Some(chunk) = leaves.iter().zip(&part.leaves).position(|(a, b)| a != b) {
            let message = "its hash differs from the hash in the report: have the part run again";
            let error = Error::new(ErrorKind::ChecksumMismatch, message);
            return Err(at(error.in_chunk(chunk)));
        }
        meter.advance(part.file.size)?;
    }
    Ok(())
}

/// Reads the file of a part, and checks it. Returns the hashes of its chunks if the plan requests a
/// Merkle root.
fn reread_file(
    source: Arc<dyn ReadAt>,
    part: &WrittenPart,
    threads: Option<NonZeroUsize>,
) -> Result<Vec<[u8; 32]>> {
    // The sizes of the chunks are those in the plan, so nothing in the file can be larger than
    // planned.
    let limits = Limits::new().max_merged_size(u64::MAX);
    let metadata = ChunkMetadata {
        chunks: part.chunks.clone(),
        message: Some(ChunkedMessage::default()),
        ..ChunkMetadata::default()
    };
    let none = |_: &ExternalFile| proto_splitter_core::merge::no_way_to_others();
    let store = open_sources_with(source, metadata, TrailerUse::Part, &limits, none)?;
    let options = ReadOptions::new()
        .limits(limits)
        .threads(threads)
        .progress(Progress::none());
    let has_tree = !part.leaves.is_empty();
    // The chunks are read only once. If the plan requests a Merkle root, they are read while they
    // are hashed.
    let groups = if has_tree { Vec::new() } else { store.groups() };
    let read = verify_part(&store, &groups, |_| true, &options);
    read.problems.into_iter().next().map_or(Ok(()), Err)?;
    if has_tree {
        chunk_leaves(&store, &options)
    } else {
        Ok(Vec::new())
    }
}
