//! Writing chunks as records with a sequential writer. Each chunk is held in memory as a whole.

use std::io::{Read, Write};

use record_file::{RecordPosition, RecordWriter};

use super::chunk_reader::ChunkReader;
use super::sink::{Chunks, Record, Taken};
use crate::{Error, ErrorKind, Result};

/// Writes chunks with the writer's options. Each chunk is held in memory as a whole.
pub(in crate::split) fn write_one_by_one<W: Write>(
    chunks: Chunks<'_>,
    writer: &mut RecordWriter<W>,
) -> Result<Taken> {
    let compression = chunks.compression.for_trailer().kind();
    let mut taken = Taken::default();
    for &index in chunks.indices {
        let chunk = &chunks.plan.chunks[index];
        let mut reader = ChunkReader::new(chunk, chunks.source).metered(chunks.meter);
        reader = reader.hashed(chunks.hashing);
        let mut record = reserve(chunk.size)?;
        reader.read_to_end(&mut record)?;
        writer.write_record(&record)?;
        let position = writer.last_position_later();
        // Ends the Riegeli chunk, so that the next record is in another one.
        writer.push()?;
        let position = position.and_then(|position| position.get());
        taken.records.push(Record {
            file: 0,
            position: position.unwrap_or(RecordPosition::new(0, 0)),
            crc32c: reader.crc32c(),
            leaf: reader.leaf(),
            stored_size: writer.last_data_size(),
            compression,
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
