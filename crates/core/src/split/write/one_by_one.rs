//! Writing chunks as records with a sequential writer. Each chunk is held in memory as a whole.

use std::io::{Read, Write};

use record_file::{DEFAULT_MAX_CHUNK_MEMORY, RecordPosition, RecordWriter};

use super::chunk_reader::ChunkReader;
use super::sink::{Chunks, Record, Taken};
use crate::{Error, ErrorKind, Result};

/// Maximum size, in bytes, of a chunk that is written with the writer's options: 1 GiB.
///
/// Readers decode a transposed chunk as a whole, within their memory limit, but stream a record
/// that isn't transposed. The maximum is half of their limit, since the stored form of a chunk that
/// can't be compressed is larger than the chunk.
const MOST_TRANSPOSED: u64 = DEFAULT_MAX_CHUNK_MEMORY / 2;

/// Writes chunks with the writer's options, except that chunks of more than 1 GiB are not
/// transposed. Each chunk is held in memory as a whole.
pub(in crate::split) fn write_one_by_one<W: Write>(
    chunks: Chunks<'_>,
    writer: &mut RecordWriter<W>,
) -> Result<Taken> {
    write_up_to(MOST_TRANSPOSED, chunks, writer)
}

/// Writes chunks with the writer's options, except that chunks of more than `most` bytes are not
/// transposed.
fn write_up_to<W: Write>(
    most: u64,
    chunks: Chunks<'_>,
    writer: &mut RecordWriter<W>,
) -> Result<Taken> {
    let compression = chunks.compression.for_trailer();
    let mut taken = Taken::default();
    for &index in chunks.indices {
        let chunk = &chunks.plan.chunks[index];
        let mut reader = ChunkReader::new(chunk, chunks.source).metered(chunks.meter);
        reader = reader.hashed(chunks.hashing);
        let mut record = reserve(chunk.size)?;
        reader.read_to_end(&mut record)?;
        let position = if chunk.size > most {
            Some(writer.write_record_alone(&record, compression)?)
        } else {
            writer.write_record(&record)?;
            let position = writer.last_position_later();
            // Ends the Riegeli chunk, so that the next record is in another one.
            writer.push()?;
            position.and_then(|position| position.get())
        };
        taken.records.push(Record {
            file: 0,
            position: position.unwrap_or(RecordPosition::new(0, 0)),
            crc32c: reader.crc32c(),
            leaf: reader.leaf(),
            stored_size: writer.last_data_size(),
            compression: compression.kind(),
        });
        taken.spans.append(&mut reader.spans);
    }
    Ok(taken)
}

/// Allocates memory for a chunk of `size` bytes. Fails if there isn't enough.
fn reserve(size: u64) -> Result<Vec<u8>> {
    let mut record = Vec::new();
    let len = usize::try_from(size).unwrap_or(usize::MAX);
    if record.try_reserve_exact(len).is_err() {
        let message = format!("a chunk of {size} bytes doesn't fit in memory");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use prost_reflect::prost_types::FileDescriptorProto;
    use record_file::{ChunkType, ReaderOptions, RecordFile};

    use super::*;
    use crate::split::read::source::Source;
    use crate::split::write::sink::{ChunkSink, write_chunks};
    use crate::split::{SizeSplitter, SplitExt, SplitOptions};

    /// A sink that transposes chunks of at most this many bytes.
    struct UpTo<'a>(u64, &'a mut RecordWriter<Vec<u8>>);

    impl ChunkSink for UpTo<'_> {
        fn take(&mut self, chunks: Chunks<'_>) -> Result<Taken> {
            write_up_to(self.0, chunks, self.1)
        }
    }

    #[test]
    fn only_chunks_that_readers_can_decode_at_once_are_transposed() {
        let file = FileDescriptorProto {
            name: Some("n".repeat(5000)),
            syntax: Some("proto3".into()),
            ..Default::default()
        };
        let records: record_file::WriterOptions = "transpose,zstd".parse().unwrap();
        let options = SplitOptions::new()
            .max_chunk_size(1000)
            .records(records.clone());
        let plan = SizeSplitter.plan(&file, &options).unwrap();
        let mut writer = RecordWriter::new(Vec::new(), records).unwrap();
        let mut sink = UpTo(4999, &mut writer);
        let source = Source::from(&file);
        let written = write_chunks(&plan, &source, &options, &mut sink).unwrap();
        let written = written.describe();
        let records = RecordFile::open(writer.finish().unwrap(), ReaderOptions::new()).unwrap();
        let found = written.iter().map(|chunk| {
            let stored = records.stored(chunk.position).unwrap();
            let record = records.read_record(chunk.position).unwrap();
            assert_eq!(stored.chunk.header.data_size, chunk.stored_size);
            (record.len(), stored.chunk.header.kind)
        });
        // The first chunk has the placeholder of the other chunk, and the field `syntax`.
        assert_eq!(
            found.collect::<Vec<_>>(),
            [(2 + 8, ChunkType::Transposed), (5000, ChunkType::Simple)]
        );
    }
}
