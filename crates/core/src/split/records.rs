//! Chunks as records of a file, each distinct one once.

use std::fs::File;
use std::io::{Seek, SeekFrom};

use prost::Message;
use record_file::{ReaderOptions, RecordFile, RecordPosition, RecordWriter, WriterOptions};

use super::file::WrittenChunk;
use super::fill::{Filled, Job, Stored, fill};
use super::metadata::{WrittenInfo, chunk_info, metadata};
use super::options::SplitOptions;
use super::parts::{DonePart, assign, check_size, complete_part, fit_in_one};
use super::plan::SplitPlan;
use super::same::{Same, duplicates};
use super::source::Source;
use super::trailer::write_trailer;
use super::write::{Span, source_crc32c};
use crate::atomic::AtomicFile;
use crate::container::describe_type;
use crate::{Result, threads};

/// What is known of a chunk that was written.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Which file it is in: 0 is the main one.
    file: u32,
    position: RecordPosition,
    crc32c: u32,
    /// The chunk whose record it shares.
    same_as: Option<usize>,
}

impl Record {
    fn info(&self) -> WrittenInfo {
        WrittenInfo {
            file: self.file,
            offset: self.position.numeric(),
            crc32c: self.crc32c,
        }
    }
}

/// Writes the plan's chunks and the trailer to the file `main`, or the chunks to others if they
/// have to be, with its mode. Temporary files go beside it.
pub(super) fn write_records(
    plan: &SplitPlan,
    source: &Source,
    main: &mut AtomicFile,
    options: &SplitOptions,
) -> Result<(Vec<WrittenChunk>, Vec<DonePart>)> {
    let threads = threads::count(options.get_threads());
    let described = describe_type(&plan.descriptor, options.get_embed_schema());
    let front = WriterOptions::new()
        .compression(options.get_compression().for_trailer())
        .metadata(&described);
    let same = duplicates(plan, source, threads, options.get_progress())?;
    let chunks: Vec<usize> = (0..plan.chunks.len())
        .filter(|&index| same[index].is_none())
        .collect();
    let bytes = chunks.iter().map(|&index| plan.chunks[index].size).sum();
    let meter = options.get_progress().meter(bytes);
    let _span = tracing::debug_span!("write", chunks = chunks.len(), bytes).entered();
    let fill_file = |file: &mut AtomicFile, front: WriterOptions, chunks: &[usize]| {
        let begin = begin(file.as_file_mut(), front)?;
        let job = Job {
            plan,
            source,
            compression: options.get_compression(),
            chunks,
            file: file.as_file(),
            folder: file.folder(),
            meter: &meter,
        };
        fill(job, begin, threads)
    };
    let beside = most_of_trailer(plan) + described.serialize().len() as u64;
    let groups = match options.get_max_file_size() {
        Some(max) if !fit_in_one(plan, &chunks, beside, max) => assign(plan, &chunks, max),
        _ => Vec::new(),
    };
    let own: &[usize] = if groups.is_empty() { &chunks } else { &[] };
    let Filled {
        stored,
        mut spans,
        end,
    } = fill_file(main, front, own)?;
    let mut written: Vec<Record> = records(0, &stored).collect();
    let mut parts = Vec::with_capacity(groups.len());
    for (group, number) in groups.iter().zip(1..) {
        // Its name is known once its content is.
        let mut file = main.create_beside()?;
        let mut filled = fill_file(&mut file, WriterOptions::new(), group)?;
        spans.append(&mut filled.spans);
        let infos = records(0, &filled.stored).zip(group);
        let infos = infos.map(|(record, &index)| chunk_info(&plan.chunks[index], &record.info()));
        let part = complete_part(
            main.target(),
            parts.len(),
            file,
            filled.end,
            infos.collect(),
        )?;
        check_size(part.file.as_file(), filled.end, options.get_max_file_size())?;
        written.extend(records(number, &filled.stored));
        parts.push(part);
    }
    let all = with_shared(written, same, &mut spans);
    let infos: Vec<WrittenInfo> = all.iter().map(Record::info).collect();
    let mut trailer = metadata(plan, &infos, source_crc32c(source, spans)?);
    trailer.files = parts.iter().map(|part| part.named.clone()).collect();
    let file = main.as_file_mut();
    file.seek(SeekFrom::Start(end))?;
    let mut writer = RecordWriter::starting_at(&mut *file, end)?.seekable();
    write_trailer(&mut writer, trailer, options)?;
    writer.finish()?;
    check_size(file, end, options.get_max_file_size())?;
    let others = parts.iter().map(|part| part.file.as_file());
    let described = describe(plan, &all, std::iter::once(&*file).chain(others))?;
    Ok((described, parts))
}

/// Writes what every record file begins with, and says where that ends.
fn begin(file: &mut File, options: WriterOptions) -> Result<u64> {
    let mut front = RecordWriter::new(file, options)?;
    front.flush()?;
    Ok(front.position().numeric())
}

/// The records of all chunks, in order: of each what was written, or the record it shares. What of
/// the source those consist of that share one is added to `spans`.
fn with_shared(
    written: Vec<Record>,
    same: Vec<Option<Same>>,
    spans: &mut Vec<Span>,
) -> Vec<Record> {
    let mut written = written.into_iter();
    let mut all: Vec<Record> = Vec::with_capacity(same.len());
    for same in same {
        let record = match same {
            Some(same) => {
                spans.extend(same.spans);
                Some(Record {
                    crc32c: same.crc32c,
                    same_as: Some(same.other),
                    ..all[same.other]
                })
            }
            None => written.next(),
        };
        all.extend(record);
    }
    all
}

fn records(file: u32, stored: &[Stored]) -> impl Iterator<Item = Record> {
    stored.iter().map(move |stored| Record {
        file,
        position: stored.position,
        crc32c: stored.crc32c,
        same_as: None,
    })
}

/// Bytes that the trailer has at the most, but for what other files it names.
fn most_of_trailer(plan: &SplitPlan) -> u64 {
    let largest = WrittenInfo {
        file: u32::MAX,
        offset: u64::MAX,
        crc32c: u32::MAX,
    };
    let infos = vec![largest; plan.chunks.len()];
    metadata(plan, &infos, 0).encoded_len() as u64
}

fn describe<'a>(
    plan: &SplitPlan,
    records: &[Record],
    files: impl Iterator<Item = &'a File>,
) -> Result<Vec<WrittenChunk>> {
    let files = files
        .map(|file| RecordFile::open(file, ReaderOptions::default()))
        .collect::<Result<Vec<_>, _>>()?;
    let chunks = plan.chunks.iter().zip(records).enumerate();
    chunks
        .map(|(index, (chunk, record))| {
            let stored = files[record.file as usize].stored(record.position)?;
            Ok(WrittenChunk {
                index: index as u64,
                kind: chunk.kind,
                path: chunk.path.clone(),
                size: chunk.size,
                stored_size: stored.chunk.header.data_size,
                compression: stored.compression,
                file: record.file as usize,
                position: record.position.numeric(),
                same_as: record.same_as.map(|other| other as u64),
            })
        })
        .collect()
}
