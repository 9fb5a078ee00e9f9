//! The chunks of an open file, read and checked.

use std::cell::Cell;
use std::io::Read;

use record_file::{PairStep, ReadAt, RecordFile, RecordPair, WantedRecord, Watch};

use super::ChunkedFile;
use super::checked::{CheckedStream, check_crc32c};
use super::file::Record;
use crate::merge::{ChunkStore, Places, read_stream, read_to_place};
use crate::proto::ChunkInfo;
use crate::{Error, ErrorKind, Result};

/// Sums up a chunk while it is read.
#[derive(Debug, Default)]
struct Sum {
    crc32c: u32,
}

impl Watch for Sum {
    fn see(&mut self, bytes: &[u8]) {
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
    }
}

/// Says besides how much was read, of all chunks.
struct Counted<'a> {
    chunk: usize,
    sum: Sum,
    read: &'a Cell<u64>,
}

impl Watch for Counted<'_> {
    fn see(&mut self, bytes: &[u8]) {
        self.sum.see(bytes);
        self.read.set(self.read.get() + bytes.len() as u64);
    }
}

impl<S: ReadAt> ChunkedFile<S> {
    /// A chunk whose record has a record chunk of its own.
    fn alone(&self, chunk: usize) -> Option<(&Record, &ChunkInfo)> {
        let record = self.records.get(chunk).filter(|record| !record.shared)?;
        Some((record, self.trailer.metadata().chunks.get(chunk)?))
    }

    /// The chunks in groups, each for one reader: those whose records share record chunks are one,
    /// by their places, so that each record chunk is decoded once however few are kept. There is
    /// nothing to gain from several readers: it is decoded while the others wait.
    pub(crate) fn groups(&self) -> Vec<Vec<usize>> {
        let mut shared = Vec::new();
        let mut groups = Vec::new();
        for (chunk, record) in self.records.iter().enumerate() {
            match record.shared {
                true => shared.push(chunk),
                false => groups.push(vec![chunk]),
            }
        }
        shared.sort_by_key(|&chunk| (self.records[chunk].file, self.records[chunk].position));
        groups.extend(Some(shared).filter(|shared| !shared.is_empty()));
        groups
    }

    /// An error of the record file that a chunk is in.
    fn named(&self, chunk: usize, error: record_file::Error) -> Error {
        let file = self.records.get(chunk).map_or(0, |record| record.file);
        self.numbered(file).1(error.into())
    }
}

impl<S: ReadAt> ChunkStore for ChunkedFile<S> {
    fn len(&self) -> usize {
        self.records.len()
    }

    fn size(&self, chunk: usize) -> u64 {
        self.trailer
            .metadata()
            .chunks
            .get(chunk)
            .map_or(0, |info| info.size)
    }

    fn stored_len(&self) -> u64 {
        self.record_files()
            .map(RecordFile::size)
            .fold(0, u64::saturating_add)
    }

    fn checked_crc32c(&self, chunk: usize) -> Option<u32> {
        self.trailer.metadata().chunks.get(chunk)?.crc32c
    }

    fn read_into(&self, chunk: usize, buffer: &mut [u8]) -> Result<()> {
        let Some((record, info)) = self.alone(chunk) else {
            return read_stream(&mut *self.stream(chunk)?, buffer);
        };
        let (file, named) = self.numbered(record.file);
        let wanted = WantedRecord {
            file,
            position: record.position,
            place: buffer,
            watch: Sum::default(),
        };
        let sum = wanted.read().map_err(|error| named(error.into()))?;
        check_crc32c(sum.crc32c, info.crc32c)
    }

    fn read_each<'b>(&self, places: &mut dyn Places<'b>) -> Result<()> {
        let read = Cell::new(0);
        let mut pair = RecordPair::new();
        loop {
            // A record that isn't alone comes from the cache.
            let mut shared = None;
            let step = pair.step(|lane| {
                if shared.is_some() {
                    return None;
                }
                let (chunk, place) = places.next(lane)?;
                let Some((record, _)) = self.alone(chunk) else {
                    shared = Some((chunk, place));
                    return None;
                };
                Some(WantedRecord {
                    file: self.numbered(record.file).0,
                    position: record.position,
                    place,
                    watch: Counted {
                        chunk,
                        sum: Sum::default(),
                        read: &read,
                    },
                })
            });
            if step.is_none() && shared.is_none() {
                return Ok(());
            }
            places.advance(read.take())?;
            if let Some((chunk, place)) = shared {
                read_to_place(self, chunk, place, places)?;
            }
            if let Some(PairStep::Ended(Counted { chunk, sum, .. }, result)) = step {
                let checked = result
                    .map_err(|error| self.named(chunk, error))
                    .and_then(|()| check_crc32c(sum.crc32c, self.checked_crc32c(chunk)));
                checked.map_err(|error| error.in_chunk(chunk as u64))?;
                places.filled(chunk, sum.crc32c);
            }
        }
    }

    fn stream(&self, chunk: usize) -> Result<Box<dyn Read + '_>> {
        let (Some(record), Some(info)) = (
            self.records.get(chunk),
            self.trailer.metadata().chunks.get(chunk),
        ) else {
            return Err(Error::new(
                ErrorKind::InvalidTrailer,
                "there is no such chunk",
            ));
        };
        let (file, named) = self.numbered(record.file);
        if !record.shared {
            let stream = file.record_stream(record.position);
            let stream = stream.map_err(|error| named(error.into()))?;
            return Ok(Box::new(CheckedStream::new(stream, info)));
        }
        let header = file.chunk_header_at(record.position.chunk_begin());
        let size = header
            .map_err(|error| named(error.into()))?
            .header
            .decoded_data_size;
        let bytes = self
            .cache
            .record((record.file, file), record.position, size)
            .map_err(named)?;
        if bytes.len() as u64 != info.size {
            let message = format!(
                "the trailer says {} bytes, where its record has {}",
                info.size,
                bytes.len()
            );
            return Err(Error::new(ErrorKind::InvalidTrailer, message));
        }
        Ok(Box::new(CheckedStream::new(
            std::io::Cursor::new(bytes),
            info,
        )))
    }
}
