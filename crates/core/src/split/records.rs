//! Chunks as records of a file, each distinct one once.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;

use prost::Message;
use record_file::{ReaderOptions, RecordFile, RecordPosition, RecordWriter, WriterOptions};

use super::file::WrittenChunk;
use super::fill::{Filled, Job, fill};
use super::metadata::{WrittenInfo, metadata};
use super::options::SplitOptions;
use super::plan::SplitPlan;
use super::same::duplicates;
use super::source::Source;
use super::write::source_crc32c;
use crate::{Result, threads};

/// What is known of a chunk that was written.
#[derive(Clone, Copy, Debug)]
struct Record {
    position: RecordPosition,
    crc32c: u32,
    /// The chunk whose record it shares.
    same_as: Option<usize>,
}

/// Writes the plan's chunks and the trailer to a file that is empty. Temporary files go to `folder`.
pub(super) fn write_records(
    plan: &SplitPlan,
    source: &Source,
    file: &mut File,
    folder: &Path,
    options: &SplitOptions,
) -> Result<Vec<WrittenChunk>> {
    let threads = threads::count(options.get_threads());
    let mut front = RecordWriter::new(&mut *file, WriterOptions::new())?;
    front.flush()?;
    let begin = front.position().numeric();
    drop(front);
    let mut same = duplicates(plan, source, threads, options.get_progress())?;
    let chunks: Vec<usize> = (0..plan.chunks.len())
        .filter(|&index| same[index].is_none())
        .collect();
    let meter = options
        .get_progress()
        .meter(chunks.iter().map(|&index| plan.chunks[index].size).sum());
    let job = Job {
        plan,
        source,
        compression: options.get_compression(),
        chunks: &chunks,
        file,
        folder,
        meter: &meter,
    };
    let Filled {
        stored,
        mut spans,
        end,
    } = fill(job, begin, threads)?;
    let mut stored = stored.into_iter();
    let mut records: Vec<Record> = Vec::with_capacity(plan.chunks.len());
    for same in &mut same {
        let record = match same {
            Some(same) => {
                spans.append(&mut same.spans);
                Some(Record {
                    position: records[same.other].position,
                    crc32c: same.crc32c,
                    same_as: Some(same.other),
                })
            }
            None => stored.next().map(|stored| Record {
                position: stored.position,
                crc32c: stored.crc32c,
                same_as: None,
            }),
        };
        records.extend(record);
    }
    let infos: Vec<WrittenInfo> = records
        .iter()
        .map(|record| WrittenInfo {
            offset: record.position.numeric(),
            crc32c: record.crc32c,
        })
        .collect();
    let trailer = metadata(plan, &infos, source_crc32c(source, spans)?);
    file.seek(SeekFrom::Start(end))?;
    let mut writer = RecordWriter::starting_at(&mut *file, end)?;
    writer.write_record_alone(
        &trailer.encode_to_vec(),
        options.get_compression().for_trailer(),
    )?;
    writer.finish()?;
    describe(plan, &records, file)
}

fn describe(plan: &SplitPlan, records: &[Record], file: &File) -> Result<Vec<WrittenChunk>> {
    let record_file = RecordFile::open(file, ReaderOptions::default())?;
    let chunks = plan.chunks.iter().zip(records).enumerate();
    chunks
        .map(|(index, (chunk, record))| {
            let stored = record_file.stored(record.position)?;
            Ok(WrittenChunk {
                index: index as u64,
                kind: chunk.kind,
                path: chunk.path.clone(),
                size: chunk.size,
                stored_size: stored.chunk.header.data_size,
                compression: stored.compression,
                position: record.position.numeric(),
                same_as: record.same_as.map(|other| other as u64),
            })
        })
        .collect()
}
