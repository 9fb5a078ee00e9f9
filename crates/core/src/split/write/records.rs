//! Chunks as records of a file, each distinct one once.

use std::fs::File;
use std::io::{Seek, SeekFrom};

use prost::Message;
use record_file::{
    CompressionKind, ReaderOptions, RecordFile, RecordPosition, RecordWriter, RecordsMetadata,
    WriterOptions,
};

use super::chunk_reader::{Span, source_crc32c};
use super::dedup::{Same, duplicates};
use super::multi_file::{DonePart, check_size, complete_part, fit_in_one, most_files, sure_to_fit};
use super::parallel::{Filled, Job, Stored, fill};
use super::trailer::write_trailer;
use super::written::WrittenChunk;
use crate::Result;
use crate::container::describe_type;
use crate::io::AtomicFile;
use crate::io::threads;
use crate::newtypes::ChunkIndex;
use crate::proto::ChunkMetadata;
use crate::split::options::SplitOptions;
use crate::split::plan::metadata::{WrittenInfo, chunk_info, metadata};
use crate::split::plan::readable::check_file_count;
use crate::split::plan::split_plan::SplitPlan;
use crate::split::read::source::Source;

/// What is known of a chunk that was written.
#[derive(Clone, Copy, Debug)]
pub(in crate::split) struct Record {
    /// Which file it is in: 0 is the main one.
    pub(in crate::split) file: u32,
    pub(in crate::split) position: RecordPosition,
    pub(in crate::split) crc32c: u32,
    /// The chunk whose record it shares.
    pub(in crate::split) same_as: Option<usize>,
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

/// Writes the plan's chunks and the trailer to the file `main`, or the chunks to others if they
/// have to be, with its mode. Temporary files go beside it.
pub(in crate::split) fn write_records(
    plan: &SplitPlan,
    source: &Source,
    main: &mut AtomicFile,
    options: &SplitOptions,
) -> Result<(Vec<WrittenChunk>, Vec<DonePart>)> {
    let threads = threads::count(options.threads);
    let described = describe_type(&plan.descriptor, options.embed_schema);
    let front = front(&described, options);
    let same = duplicates(plan, source, threads, &options.progress)?;
    let chunks = distinct(&same);
    let bytes = chunks.iter().map(|&index| plan.chunks[index].size).sum();
    let meter = options.progress.meter(bytes);
    let _span = tracing::debug_span!("write", chunks = chunks.len(), bytes).entered();
    let fill_from = |file: &AtomicFile, begin: u64, chunks: &[usize]| {
        let job = Job {
            plan,
            source,
            compression: options.compression,
            chunks,
            file: file.as_file(),
            folder: file.folder(),
            meter: &meter,
        };
        fill(job, begin, threads)
    };
    let beside = most_of_trailer(plan) + described.serialize().len() as u64;
    let several = options
        .max_file_size
        .filter(|&max| !fit_in_one(plan, &chunks, beside, max));
    check_file_count(several.map_or(0, |max| most_files(plan, &chunks, max)))?;
    let (own, mut left): (&[usize], &[usize]) = match several {
        Some(_) => (&[], &chunks),
        None => (&chunks, &[]),
    };
    let front = begin(main.as_file_mut(), front)?;
    let Filled {
        stored,
        mut spans,
        end,
    } = fill_from(main, front, own)?;
    let mut written: Vec<Record> = records(0, &stored).collect();
    let mut parts = Vec::new();
    let mut number = 0;
    while let (Some(max), [_, ..]) = (several, left) {
        number += 1;
        // Its name is known once its content is.
        let mut file = main.create_beside()?;
        let mut end = begin(file.as_file_mut(), WriterOptions::new())?;
        let group = left;
        let mut stored: Vec<Stored> = Vec::new();
        // What compressed well leaves room for more. A chunk that never fits fails below.
        loop {
            let count = sure_to_fit(plan, left, end, stored.len(), max);
            let count = count.max(usize::from(stored.is_empty())).min(left.len());
            if count == 0 {
                break;
            }
            let mut filled = fill_from(&file, end, &left[..count])?;
            spans.append(&mut filled.spans);
            stored.append(&mut filled.stored);
            (end, left) = (filled.end, &left[count..]);
        }
        let infos = records(0, &stored).zip(group);
        let infos = infos.map(|(record, &index)| chunk_info(&plan.chunks[index], &record.info()));
        let part = complete_part(main.target(), parts.len(), file, end, infos.collect())?;
        check_size(part.file.as_file(), end, options.max_file_size)?;
        written.extend(records(number, &stored));
        parts.push(part);
    }
    let all = with_shared(written, same, &mut spans);
    let mut trailer = trailer(plan, &all, source, spans)?;
    trailer.files = parts.iter().map(|part| part.named.clone()).collect();
    let file = main.as_file_mut();
    file.seek(SeekFrom::Start(end))?;
    let mut writer = RecordWriter::starting_at(&mut *file, end)?.seekable();
    write_trailer(&mut writer, trailer, options)?;
    writer.finish()?;
    check_size(file, end, options.max_file_size)?;
    let others = parts.iter().map(|part| part.file.as_file());
    let files = std::iter::once(&*file)
        .chain(others)
        .map(|file| RecordFile::open(file, ReaderOptions::default()))
        .collect::<Result<Vec<_>, _>>()?;
    let described = describe(plan, &all, |_, record| {
        let stored = files[record.file as usize].stored(record.position)?;
        Ok((stored.chunk.header.data_size, stored.compression))
    })?;
    Ok((described, parts))
}

/// How a file begins, and how what is not a chunk is compressed.
pub(in crate::split) fn front(
    described: &RecordsMetadata,
    options: &SplitOptions,
) -> WriterOptions {
    WriterOptions::new()
        .compression(options.compression.for_trailer())
        .metadata(described)
}

/// The chunks that have a record of their own.
pub(in crate::split) fn distinct(same: &[Option<Same>]) -> Vec<usize> {
    (0..same.len())
        .filter(|&index| same[index].is_none())
        .collect()
}

/// The trailer of these records, which are made of these parts of the source.
pub(in crate::split) fn trailer(
    plan: &SplitPlan,
    records: &[Record],
    source: &Source,
    spans: Vec<Span>,
) -> Result<ChunkMetadata> {
    let infos: Vec<WrittenInfo> = records.iter().map(Record::info).collect();
    Ok(metadata(plan, &infos, source_crc32c(source, spans)?))
}

/// Writes what every record file begins with, and says where that ends.
pub(in crate::split) fn begin(file: &mut File, options: WriterOptions) -> Result<u64> {
    let mut front = RecordWriter::new(file, options)?;
    front.flush()?;
    Ok(front.position().numeric())
}

/// The records of all chunks, in order: of each what was written, or the record it shares. What of
/// the source those consist of that share one is added to `spans`.
pub(in crate::split) fn with_shared(
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

pub(in crate::split) fn records(file: u32, stored: &[Stored]) -> impl Iterator<Item = Record> {
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

/// What became of the chunks; `stored` tells how large a record is in its file, and how it is
/// compressed.
pub(in crate::split) fn describe(
    plan: &SplitPlan,
    records: &[Record],
    stored: impl Fn(usize, &Record) -> Result<(u64, CompressionKind)>,
) -> Result<Vec<WrittenChunk>> {
    let chunks = plan.chunks.iter().zip(records).enumerate();
    chunks
        .map(|(index, (chunk, record))| {
            let (stored_size, compression) = stored(index, record)?;
            Ok(WrittenChunk {
                index: index.into(),
                kind: chunk.kind,
                path: chunk.path.clone(),
                size: chunk.size,
                stored_size,
                compression,
                file: record.file as usize,
                position: record.position,
                same_as: record.same_as.map(ChunkIndex::from),
            })
        })
        .collect()
}
