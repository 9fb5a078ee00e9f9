//! Executing a part of a plan to a file of its own, and the main file over the files of all parts.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use record_file::{RecordWriter, RecordsMetadata, WriterOptions};

use super::chunk_reader::{Span, source_crc32c};
use super::dedup::duplicates;
use super::multi_file::{check_size, complete_part};
use super::parallel::{Job, fill};
use super::records::{begin, distinct, records, with_shared};
use super::trailer::write_trailer;
use crate::io::{AtomicFile, combine, threads};
use crate::proto::chunk_metadata::ExternalFile;
use crate::proto::{ChunkInfo, ChunkMetadata};
use crate::split::options::SplitOptions;
use crate::split::plan::metadata::chunk_info;
use crate::split::plan::split_plan::{ChunkSegment, PlannedChunk, SplitPlan};
use crate::split::read::source::Source;
use crate::{Error, ErrorKind, Result};

/// A part's file, complete, but not yet in its place.
#[derive(Debug)]
pub(crate) struct PartFile {
    pub(crate) file: AtomicFile,
    /// By its name in the main file's folder.
    pub(crate) named: ExternalFile,
    /// Of every chunk of the part.
    pub(crate) infos: Vec<ChunkInfo>,
    /// The crc32c of every one of its [`runs`].
    pub(crate) run_crc32cs: Vec<u32>,
}

/// Writes the chunks of `part`, which are some of a plan's, to `file`. It is number `number` of the
/// files beside `main`, counted from 0, and named by its content. Chunks of the part that are equal
/// share a record.
pub(crate) fn write_part(
    part: &SplitPlan,
    source: &Source,
    mut file: AtomicFile,
    (main, number): (&Path, usize),
    options: &SplitOptions,
) -> Result<PartFile> {
    let threads = threads::count(options.threads);
    let same = duplicates(part, source, threads, &options.progress)?;
    let chunks = distinct(&same);
    let bytes = chunks.iter().map(|&index| part.chunks[index].size).sum();
    let meter = options.progress.meter(bytes);
    let _span = tracing::debug_span!("write", number, chunks = chunks.len(), bytes).entered();
    let begin = begin(file.as_file_mut(), WriterOptions::new())?;
    let job = Job {
        plan: part,
        source,
        compression: options.compression,
        chunks: &chunks,
        file: file.as_file(),
        folder: file.folder(),
        meter: &meter,
    };
    let mut filled = fill(job, begin, threads)?;
    let own = records(0, &filled.stored).zip(&chunks);
    let own = own.map(|(record, &index)| chunk_info(&part.chunks[index], &record.info()));
    let done = complete_part(main, number, file, filled.end, own.collect())?;
    check_size(done.file.as_file(), filled.end, options.max_file_size)?;
    let written = records(0, &filled.stored).collect();
    let all = with_shared(written, same, &mut filled.spans);
    let infos = part.chunks.iter().zip(&all);
    let infos = infos.map(|(chunk, record)| chunk_info(chunk, &record.info()));
    Ok(PartFile {
        infos: infos.collect(),
        run_crc32cs: of_runs(&runs(&part.chunks), filled.spans),
        named: done.named,
        file: done.file,
    })
}

/// The runs of the source that these chunks hold, in order.
pub(crate) fn runs(chunks: &[PlannedChunk]) -> Vec<Range<u64>> {
    let segments = chunks.iter().flat_map(PlannedChunk::segments);
    let mut found: Vec<Range<u64>> = segments
        .filter_map(|segment| match segment {
            ChunkSegment::Source(range) if !range.is_empty() => Some(range.clone()),
            _ => None,
        })
        .collect();
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

/// The crc32c of each run, from those of the spans that it consists of.
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

/// The crc32c of the whole source, from those of the runs that its parts hold. What is between them
/// is read.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if runs overlap or lie outside of the source.
pub(crate) fn crc32c_of_runs(source: &Source, runs: Vec<(Range<u64>, u32)>) -> Result<u32> {
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
                let message =
                    "chunks of the plan share bytes of the source, or have some that are not in it";
                return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(span.start));
            }
        }
    }
    source_crc32c(source, spans)
}

/// Writes a main file without chunks to `file`: what it says of the message's type, and the trailer.
pub(crate) fn write_main(
    file: &mut AtomicFile,
    described: &RecordsMetadata,
    trailer: ChunkMetadata,
    options: &SplitOptions,
) -> Result<()> {
    let front = WriterOptions::new()
        .compression(options.compression.for_trailer())
        .metadata(described);
    let file = file.as_file_mut();
    let end = begin(file, front)?;
    write_end(file, end, trailer, options)
}

/// Writes a main file with one chunk, the first, which is all of `base`.
///
/// # Errors
///
/// [`ErrorKind::LimitExceeded`] if the base is larger than a chunk may be.
pub(crate) fn write_base(
    file: &mut AtomicFile,
    described: &RecordsMetadata,
    mut trailer: ChunkMetadata,
    base: &Source,
    options: &SplitOptions,
) -> Result<()> {
    let most = options.effective_max_chunk_size();
    let size = usize::try_from(base.size()).ok();
    let Some(size) = size.filter(|_| base.size() <= most) else {
        let message = format!(
            "what is left of the message has {} bytes, over the maximum chunk size of {most} bytes",
            base.size()
        );
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    };
    let mut bytes = vec![0; size];
    base.data().read_exact_at(0, &mut bytes)?;
    let compression = options.compression.for_trailer();
    let front = WriterOptions::new()
        .compression(compression)
        .metadata(described);
    let file = file.as_file_mut();
    let begin = begin(file, front)?;
    file.seek(SeekFrom::Start(begin))?;
    let mut writer = RecordWriter::starting_at(&mut *file, begin)?.seekable();
    let position = writer.write_record_alone(&bytes, compression)?;
    writer.flush()?;
    let end = writer.position().numeric();
    drop(writer);
    if let Some(info) = trailer.chunks.first_mut() {
        info.offset = position.numeric();
        info.crc32c = Some(crc32c::crc32c(&bytes));
    }
    write_end(file, end, trailer, options)
}

fn write_end(
    file: &mut File,
    end: u64,
    trailer: ChunkMetadata,
    options: &SplitOptions,
) -> Result<()> {
    file.seek(SeekFrom::Start(end))?;
    let mut writer = RecordWriter::starting_at(&mut *file, end)?.seekable();
    write_trailer(&mut writer, trailer, options)?;
    writer.finish()?;
    check_size(file, end, options.max_file_size)
}
