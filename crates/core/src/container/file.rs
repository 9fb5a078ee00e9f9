use std::fs::File;
use std::io::Read;
use std::path::Path;

use record_file::{ChunkHeader, ReadAt, ReaderOptions, RecordFile, RecordPosition};

use super::cache::RecordChunkCache;
use super::checked::CheckedStream;
use super::{Trailer, TrailerUse};
use crate::merge::{ChunkStore, Limits, MergeOptions, MergePlan};
use crate::proto::{ChunkInfo, ChunkMetadata};
use crate::{Error, ErrorKind, Result};

/// A chunked message in a `.cpb` file, or in any other source of bytes. Its chunks are read when they are asked for.
///
/// Opening one checks the trailer against the records. Of records that share a record chunk, the lengths are checked when
/// that record chunk is decoded, which is when the first of them is read.
#[derive(Debug)]
pub struct ChunkedFile<S = File> {
    pub(super) file: RecordFile<S>,
    pub(super) trailer: Trailer,
    pub(super) records: Vec<Record>,
    cache: RecordChunkCache,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) position: RecordPosition,
    /// Whether other records are in its record chunk.
    pub(super) shared: bool,
    /// Bytes of its record chunk as stored.
    pub(super) stored_size: u64,
}

impl ChunkedFile<File> {
    /// Opens a `.cpb` file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be opened, and what [`from_source`](ChunkedFile::from_source) finds wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        ChunkedFile::open_with(path, &Limits::default())
    }

    /// Opens a `.cpb` file of which no more than this is accepted.
    ///
    /// # Errors
    ///
    /// As [`open`](ChunkedFile::open).
    pub fn open_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        ChunkedFile::from_source(open_file(path.as_ref())?, limits)
    }
}

pub(crate) fn open_file(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::from(error).context(path.display()))
}

impl<S: ReadAt> ChunkedFile<S> {
    /// Opens a chunked message in any source of bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotChunked`] if it is no record file, has no record, or the last is no trailer; [`ErrorKind::InvalidTrailer`]
    /// if the trailer contradicts itself or the records; [`ErrorKind::UnsupportedVersion`]; [`ErrorKind::LimitExceeded`].
    pub fn from_source(source: S, limits: &Limits) -> Result<Self> {
        let file = open_records(source)?;
        let Some(end) = file.last_record()? else {
            return Err(Error::new(ErrorKind::NotChunked, "the file has no records"));
        };
        let header = file.chunk_header_at(end.chunk_begin())?.header;
        let size = header.decoded_data_size;
        if size > limits.max_trailer_size.max(limits.max_cached_size) {
            let message = format!("a trailer of {size} bytes");
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(end.numeric()));
        }
        let cache = RecordChunkCache::new(limits.max_cached_size);
        let bytes = if header.num_records > 1 {
            cache.record(&file, end, size)?
        } else {
            file.read_record(end)?
        };
        let trailer = Trailer::parse(&bytes, limits).map_err(|error| match error.kind() {
            ErrorKind::NotChunked => error.at_offset(end.numeric()),
            _ => error,
        })?;
        ChunkedFile::check(file, trailer, cache, Some(end))
    }

    /// Opens a source whose chunks are those that `metadata` says, whatever its own trailer is: to read a part of it.
    ///
    /// # Errors
    ///
    /// As [`from_source`](Self::from_source), but for the file's own trailer, which isn't read.
    pub fn with_metadata(source: S, metadata: ChunkMetadata, limits: &Limits) -> Result<Self> {
        let trailer = Trailer::from_metadata(metadata, TrailerUse::Part, limits)?;
        let cache = RecordChunkCache::new(limits.max_cached_size);
        ChunkedFile::check(open_records(source)?, trailer, cache, None)
    }

    fn check(
        file: RecordFile<S>,
        trailer: Trailer,
        cache: RecordChunkCache,
        end: Option<RecordPosition>,
    ) -> Result<Self> {
        let infos = &trailer.metadata().chunks;
        let found = locate_all(&file, infos)?;
        let mut records = Vec::with_capacity(infos.len());
        for (at, (info, found)) in infos.iter().zip(found).enumerate() {
            let record = check_record(info, found, end);
            records.push(record.map_err(|error| error.in_chunk(at as u64))?);
        }
        Ok(ChunkedFile {
            file,
            trailer,
            records,
            cache,
        })
    }

    /// The trailer.
    pub fn trailer(&self) -> &Trailer {
        &self.trailer
    }

    /// The record file below.
    pub fn record_file(&self) -> &RecordFile<S> {
        &self.file
    }

    /// The position of a chunk's record.
    pub fn position(&self, chunk: usize) -> Option<RecordPosition> {
        self.records.get(chunk).map(|record| record.position)
    }

    /// Plans the merge of the file's chunks.
    ///
    /// # Errors
    ///
    /// As [`Trailer::plan`].
    pub fn plan(&self, options: &MergeOptions) -> Result<MergePlan> {
        self.trailer.plan(self, options)
    }
}

fn open_records<S: ReadAt>(source: S) -> Result<RecordFile<S>> {
    RecordFile::open(source, ReaderOptions::new()).map_err(|error| match error.kind() {
        record_file::ErrorKind::NotARecordFile => Error::new(
            ErrorKind::NotChunked,
            "the file is no record file: its signature differs",
        )
        .with_source(error),
        _ => error.into(),
    })
}

/// From how many chunks on all headers of the file are read in one pass. Looking one up reads the headers in its block.
const ONE_PASS_FROM: usize = 16;

/// The records that chunks say they are; `None` where no record begins. Any offset may be claimed; nothing is read but headers.
fn locate_all<S: ReadAt>(
    file: &RecordFile<S>,
    infos: &[ChunkInfo],
) -> Result<Vec<Option<(RecordPosition, ChunkHeader)>>> {
    let mut found = vec![None; infos.len()];
    if infos.len() < ONE_PASS_FROM {
        for (info, found) in infos.iter().zip(&mut found) {
            *found = match file.locate(info.offset) {
                Ok(at) => Some((at, file.chunk_header_at(at.chunk_begin())?.header)),
                Err(error) if error.kind() == record_file::ErrorKind::InvalidPosition => None,
                Err(error) => return Err(error.into()),
            };
        }
        return Ok(found);
    }
    let mut order: Vec<usize> = (0..infos.len()).collect();
    order.sort_unstable_by_key(|&at| infos[at].offset);
    let mut order = order.into_iter().peekable();
    for chunk in file.chunks() {
        let chunk = chunk?;
        let begin = chunk.begin().0;
        while let Some(at) = order.next_if(|&at| infos[at].offset < chunk.end().0) {
            if let Some(index) = infos[at].offset.checked_sub(begin)
                && index < chunk.header.num_records
            {
                found[at] = Some((RecordPosition::new(begin, index), chunk.header));
            }
        }
        if order.peek().is_none() {
            break;
        }
    }
    Ok(found)
}

fn check_record(
    info: &ChunkInfo,
    found: Option<(RecordPosition, ChunkHeader)>,
    end: Option<RecordPosition>,
) -> Result<Record> {
    let ChunkInfo { offset, size, .. } = *info;
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidTrailer, message));
    let Some((position, header)) = found else {
        return invalid(format!("no record begins at its offset {offset}"));
    };
    if end.is_some_and(|end| position >= end) {
        return invalid(format!("its offset {offset} is the trailer's"));
    }
    let shared = header.num_records > 1;
    let most = header.decoded_data_size;
    if size != most && (!shared || size > most) {
        let than = if shared {
            "all records there have"
        } else {
            "its record has"
        };
        return invalid(format!(
            "the trailer says {size} bytes, where {than} {most}"
        ));
    }
    Ok(Record {
        position,
        shared,
        stored_size: header.data_size,
    })
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
        self.file.size()
    }

    fn checked_crc32c(&self, chunk: usize) -> Option<u32> {
        self.trailer.metadata().chunks.get(chunk)?.crc32c
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
        if !record.shared {
            let stream = self.file.record_stream(record.position)?;
            return Ok(Box::new(CheckedStream::new(stream, info)));
        }
        let header = self
            .file
            .chunk_header_at(record.position.chunk_begin())?
            .header;
        let bytes = self
            .cache
            .record(&self.file, record.position, header.decoded_data_size)?;
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
