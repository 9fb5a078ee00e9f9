//! Chunks as records of a file, or of several.

use std::io::{Read, Write};

use record_file::{RecordPosition, RecordWriter, RecordsMetadata, WriterOptions};

use super::beside::DonePart;
use super::chunk_file::ChunkFile;
use super::chunk_reader::ChunkReader;
use super::multi_file::{ChunkFiles, fit_in_one, most_files};
use super::sink::{ChunkSink, Chunks, Record, Taken, write_chunks};
use super::written::WrittenChunk;
use crate::container::describe_type;
use crate::io::AtomicFile;
use crate::split::options::SplitOptions;
use crate::split::plan::metadata::most_of_trailer;
use crate::split::plan::readable::check_file_count;
use crate::split::plan::split_plan::SplitPlan;
use crate::split::read::source::Source;
use crate::{Error, ErrorKind, Result};

/// Writes the plan's chunks and the trailer to the file `main`, or the chunks to others if they
/// have to be, with its mode. Temporary files go beside it.
pub(in crate::split) fn write_records(
    plan: &SplitPlan,
    source: &Source,
    main: &AtomicFile,
    options: &SplitOptions,
) -> Result<(Vec<WrittenChunk>, Vec<DonePart>)> {
    let described = describe_type(&plan.descriptor, options.embed_schema);
    let mut sink = FileSink {
        files: ChunkFiles::new(ChunkFile::begin(main, front(&described, options))?),
        main,
        described: &described,
        max: options.max_file_size,
    };
    let mut ledger = write_chunks(plan, source, options, &mut sink)?;
    let mut trailer = ledger.trailer()?;
    let (file, parts) = sink.files.into_parts();
    trailer.files = parts.iter().map(|part| part.named.clone()).collect();
    file.finish(trailer, options)?;
    Ok((ledger.describe(), parts))
}

/// The beginning of a file: the type of the message, and how the trailer is compressed.
pub(in crate::split) fn front(
    described: &RecordsMetadata,
    options: &SplitOptions,
) -> WriterOptions {
    let records = options.records.clone().unwrap_or_default();
    records
        .compression(options.compression.for_trailer())
        .padding(1)
        .threads(0)
        .metadata(described)
}

/// Writes chunks with the options of the writer, each in memory as a whole.
pub(in crate::split) fn write_one_by_one<W: Write>(
    chunks: Chunks<'_>,
    writer: &mut RecordWriter<W>,
) -> Result<Taken> {
    let compression = chunks.compression.for_trailer().kind();
    let mut taken = Taken::default();
    for &index in chunks.indices {
        let chunk = &chunks.plan.chunks[index];
        let mut reader = ChunkReader::new(chunk, chunks.source).metered(chunks.meter);
        let mut record = reserve(chunk.size)?;
        reader.read_to_end(&mut record)?;
        writer.write_record(&record)?;
        let position = writer.last_position_later();
        // The next one gets a chunk of its own.
        writer.push()?;
        let position = position.and_then(|position| position.get());
        taken.records.push(Record {
            file: 0,
            position: position.unwrap_or(RecordPosition::new(0, 0)),
            crc32c: reader.crc32c(),
            stored_size: writer.last_data_size(),
            compression,
        });
        taken.spans.append(&mut reader.spans);
    }
    Ok(taken)
}

/// Memory for a chunk.
fn reserve(size: u64) -> Result<Vec<u8>> {
    let mut record = Vec::new();
    let len = usize::try_from(size).unwrap_or(usize::MAX);
    if record.try_reserve_exact(len).is_err() {
        let message = format!("a chunk of {size} bytes doesn't fit in memory");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    Ok(record)
}

/// A main file, and others beside it if there is a maximum that its chunks are over.
struct FileSink<'a> {
    files: ChunkFiles<'a>,
    main: &'a AtomicFile,
    described: &'a RecordsMetadata,
    max: Option<u64>,
}

impl ChunkSink for FileSink<'_> {
    fn take(&mut self, chunks: Chunks<'_>) -> Result<Taken> {
        let Chunks { plan, indices, .. } = chunks;
        if let Some(max) = self.max {
            let beside = most_of_trailer(plan) + self.described.serialize().len() as u64;
            if !fit_in_one(plan, indices, beside, max) {
                check_file_count(most_files(plan, indices, max))?;
                self.files.go_beside(self.main, max);
            }
        }
        self.files.take(chunks)
    }
}
