//! Reading and checking the chunks in open record files.

use std::cell::Cell;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::OnceLock;

use record_file::{PairStep, ReadAt, RecordFile, RecordPair, RecordPosition, WantedRecord, Watch};

use super::checked_stream::{CheckedStream, check_crc32c};
use super::chunk_store::{ChunkStore, Places, read_stream, read_to_place};
use super::file_source::FileSource;
use super::record_cache::RecordChunkCache;
use super::records::{Record, Records};
use super::required_root::RequiredRoot;
use crate::container::{Limits, Trailer, with_largest_chunks};
use crate::proto::ChunkInfo;
use crate::{Error, ErrorKind, Result};

/// The chunks of a message, as records of one or several files.
#[derive(Debug)]
pub struct RecordStore<S> {
    pub(in crate::merge) file: RecordFile<FileSource<S>>,
    /// Position of the last record in the main file; `None` if that record isn't the trailer in
    /// use.
    pub(in crate::merge) end: Option<RecordPosition>,
    /// Further files that contain chunks, in the order of the trailer's `files`.
    pub(in crate::merge) parts: Vec<Part<S>>,
    pub(in crate::merge) trailer: Trailer,
    pub(in crate::merge) records: Records,
    /// Offsets, in the main file, of the record chunks that contain the last record, other parts of
    /// the trailer, or nodes of the Merkle tree.
    pub(in crate::merge) trailer_chunks: Vec<u64>,
    pub(in crate::merge) cache: RecordChunkCache,
    /// Paths of the open files, without symbolic links; empty if the source wasn't opened by a
    /// path.
    pub(in crate::merge) paths: Vec<PathBuf>,
    /// Limits that the file was opened with.
    pub(in crate::merge) limits: Limits,
    /// Merkle root that chunks are checked against, once one is required.
    pub(in crate::merge) root: OnceLock<RequiredRoot>,
}

/// A file that contains chunks, in addition to the main file.
#[derive(Debug)]
pub(in crate::merge) struct Part<S> {
    pub(in crate::merge) name: String,
    pub(in crate::merge) file: RecordFile<FileSource<S>>,
    /// Position of this file's last record.
    pub(in crate::merge) end: RecordPosition,
}

/// The running checksum of a chunk while it is read.
#[derive(Debug, Default)]
struct Sum {
    crc32c: u32,
}

impl Watch for Sum {
    fn see(&mut self, bytes: &[u8]) {
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
    }
}

/// A [`Sum`] that also counts the bytes read from all chunks.
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

impl<S: ReadAt> RecordStore<S> {
    /// Returns the trailer.
    pub fn trailer(&self) -> &Trailer {
        &self.trailer
    }

    /// Returns the record file that contains the trailer.
    pub fn record_file(&self) -> &RecordFile<FileSource<S>> {
        &self.file
    }

    /// Returns all record files: first the one with the trailer, then the others in the order of
    /// the trailer's `files`.
    pub fn record_files(&self) -> impl Iterator<Item = &RecordFile<FileSource<S>>> {
        std::iter::once(&self.file).chain(self.parts.iter().map(|part| &part.file))
    }

    /// Returns the position of a chunk's record, if that record is in the file that contains the
    /// trailer, and matches the trailer.
    pub(crate) fn position(&self, chunk: usize) -> Option<RecordPosition> {
        let record = self.record(chunk).ok();
        let record = record.filter(|record| record.file == 0);
        record.map(|record| record.position)
    }

    /// Returns, for one file, the offsets of the record chunks that contain the trailer or, if the
    /// file has no trailer, the last record. Files are numbered as in
    /// [`record_files`](Self::record_files).
    pub(crate) fn trailer_chunks(&self, file: usize) -> Vec<u64> {
        match self.part(file) {
            Some(part) => vec![part.end.chunk_begin().0],
            None => self.trailer_chunks.clone(),
        }
    }

    /// Returns the index of the file that contains a chunk's record, in the order of
    /// [`record_files`](Self::record_files), and the record's position in that file; `None` if the
    /// record can't be found or doesn't match the trailer.
    pub(crate) fn place(&self, chunk: usize) -> Option<(usize, RecordPosition)> {
        let record = self.record(chunk).ok()?;
        Some((record.file, record.position))
    }

    /// Returns the record file with this number, and a function that adds the file's name to an
    /// error. For the main file, the function returns errors unchanged.
    pub(crate) fn numbered(
        &self,
        number: usize,
    ) -> (&RecordFile<FileSource<S>>, impl Fn(Error) -> Error) {
        let part = self.part(number);
        let name = part.map(|part| part.name.as_str());
        let named = move |error: Error| match name {
            Some(name) => error.context(name.escape_debug()),
            None => error,
        };
        (part.map_or(&self.file, |part| &part.file), named)
    }

    /// Returns the file with this number among `parts`, counted from 1; `None` for 0, the main
    /// file.
    fn part(&self, number: usize) -> Option<&Part<S>> {
        number.checked_sub(1).and_then(|at| self.parts.get(at))
    }

    /// Returns the paths of the open files, with symbolic links resolved: first the file with the
    /// trailer, then the other files with chunks. Empty if the source wasn't opened from a path.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Fails if the total size of all chunks exceeds the limit on merged sizes that was set when
    /// the file was opened. A chunk that is used at several places in the message counts once for
    /// each place. Used by operations that read every chunk, whether or not they merge the message.
    pub(crate) fn check_merged_size(&self) -> Result<()> {
        let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0, u64::saturating_add);
        let tree = self.trailer.chunk_tree();
        let named = tree.ids().flat_map(|id| tree.chunks(id));
        let named = sum(&mut named.map(|at| self.size(at.chunk)));
        let all = sum(&mut (0..self.len()).map(|chunk| self.size(chunk)));
        self.limits
            .check_merged_size(all.max(named), self.stored_len())
            .map_err(|error| with_largest_chunks(error, &self.trailer, None))
    }

    /// Returns the record of a chunk, if the record is alone in its record chunk.
    fn alone(&self, chunk: usize) -> Option<(Record, &ChunkInfo)> {
        let record = self.record(chunk).ok().filter(|record| !record.shared)?;
        Some((record, self.trailer.metadata().chunks.get(chunk)?))
    }

    /// Adds the name of a chunk's record file to an error.
    fn named(&self, chunk: usize, error: Error) -> Error {
        let info = self.trailer.metadata().chunks.get(chunk);
        let file = info.map_or(0, |info| info.file as usize);
        self.numbered(file).1(error)
    }
}

impl<S: ReadAt> ChunkStore for RecordStore<S> {
    fn file_name(&self, chunk: usize) -> Option<&str> {
        let file = self.record(chunk).ok()?.file.checked_sub(1)?;
        Some(self.parts.get(file)?.name.as_str())
    }

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

    fn prepare_some(&self, chunks: &[usize]) -> Result<()> {
        self.check_some(chunks)
    }

    fn prepare(&self, threads: NonZeroUsize) -> Result<()> {
        self.check_records(threads)
    }

    fn prefetch(&self, chunks: &[usize]) {
        self.tell_chunks(chunks);
    }

    fn read_into(&self, chunk: usize, buffer: &mut [u8]) -> Result<()> {
        self.tell_chunks(&[chunk]);
        let Some((record, info)) = self.alone(chunk) else {
            return read_stream(&mut *self.stream(chunk)?, buffer);
        };
        let (file, named) = self.numbered(record.file);
        let wanted = WantedRecord {
            file,
            position: record.position,
            chunk: Some(record.chunk),
            place: &mut *buffer,
            watch: Sum::default(),
        };
        let sum = wanted.read().map_err(|error| named(error.into()))?;
        check_crc32c(sum.crc32c, info.crc32c).map_err(named)?;
        self.prove(chunk, buffer)
    }

    fn read_each<'b>(&self, places: &mut dyn Places<'b>) -> Result<()> {
        if self.required_root().is_some() {
            while let Some((chunk, place)) = places.next(0) {
                read_to_place(self, chunk, place, places)?;
            }
            return Ok(());
        }
        let read = Cell::new(0);
        let mut pair = RecordPair::new();
        loop {
            // A record that shares its record chunk is read through the cache instead.
            let mut shared = None;
            let step = pair.step(|lane| {
                if shared.is_some() {
                    return None;
                }
                let (chunk, place) = places.next(lane)?;
                self.tell_chunks(&[chunk]);
                let Some((record, _)) = self.alone(chunk) else {
                    shared = Some((chunk, place));
                    return None;
                };
                Some(WantedRecord {
                    file: self.numbered(record.file).0,
                    position: record.position,
                    chunk: Some(record.chunk),
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
                    .map_err(Error::from)
                    .and_then(|()| check_crc32c(sum.crc32c, self.checked_crc32c(chunk)));
                checked.map_err(|error| self.named(chunk, error).in_chunk(chunk))?;
                places.filled(chunk, sum.crc32c);
            }
        }
    }

    fn stream(&self, chunk: usize) -> Result<Box<dyn Read + '_>> {
        match self.required_root() {
            Some(root) => self.proven(root, chunk),
            None => self.unproven(chunk),
        }
    }
}

impl<S: ReadAt> RecordStore<S> {
    /// Returns a stream of a chunk's bytes. Reading the stream verifies the chunk's checksums, but
    /// doesn't check the chunk against a Merkle root.
    pub(super) fn unproven(&self, chunk: usize) -> Result<Box<dyn Read + '_>> {
        let Some(info) = self.trailer.metadata().chunks.get(chunk) else {
            return Err(Error::new(
                ErrorKind::InvalidTrailer,
                "there is no such chunk",
            ));
        };
        self.tell_chunks(&[chunk]);
        let record = self.record(chunk)?;
        let (file, named) = self.numbered(record.file);
        let name = self.part(record.file).map(|part| part.name.as_str());
        if !record.shared {
            let stream = file.record_stream_in(record.position, &record.chunk);
            let stream = stream.map_err(|error| named(error.into()))?;
            return Ok(Box::new(CheckedStream::new(stream, info, name)));
        }
        let bytes = self
            .cache
            .record((record.file, file), record.position, &record.chunk)
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
            name,
        )))
    }
}
