//! A chunked file that is open: its trailer, its records and what they are checked by.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use record_file::{ChunkHeader, ReadAt, ReaderOptions, RecordFile, RecordPosition};

use bytes::Bytes;

use super::cache::RecordChunkCache;
use super::locate::locate_all;
use super::siblings::Siblings;
use super::{Trailer, TrailerUse};
use crate::merge::{Limits, MergeOptions, MergePlan};
use crate::proto::chunk_metadata::ExternalFile;
use crate::proto::{ChunkInfo, ChunkMetadata};
use crate::{Error, ErrorKind, Result};

/// A chunked message in a `.cpb` file, or in any other source of bytes. Its chunks are read when
/// they are asked for.
///
/// Opening one checks the trailer against the records. Of records that share a record chunk, the
/// lengths are checked when that record chunk is decoded, which is when the first of them is read.
#[derive(Debug)]
pub struct ChunkedFile<S = File> {
    pub(super) file: RecordFile<S>,
    /// The other files that have chunks.
    pub(super) parts: Vec<Part<S>>,
    pub(super) trailer: Trailer,
    pub(super) records: Vec<Record>,
    /// Where the record chunks begin that the trailer is in, the last record's included.
    trailer_chunks: Vec<u64>,
    pub(super) cache: RecordChunkCache,
    /// Without symbolic links; none if it wasn't opened by a path.
    paths: Vec<PathBuf>,
}

/// One of the other files.
#[derive(Debug)]
pub(super) struct Part<S> {
    name: String,
    pub(super) file: RecordFile<S>,
    /// Where its own last record is.
    end: RecordPosition,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Which file it is in: 0 is the one with the trailer.
    pub(super) file: usize,
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
    /// [`ErrorKind::Io`] if the file can't be opened, and what
    /// [`from_source`](ChunkedFile::from_source) finds wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        ChunkedFile::open_with(path, &Limits::default())
    }

    /// Opens a `.cpb` file of which no more than this is accepted.
    ///
    /// # Errors
    ///
    /// As [`open`](ChunkedFile::open).
    pub fn open_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        let path = path.as_ref();
        let _span = tracing::debug_span!("open", path = %path.display()).entered();
        let siblings = Siblings::of(path, limits)?;
        let mut paths = Vec::from_iter(fs::canonicalize(path).ok());
        let file = ChunkedFile::from_sources(open_file(path)?, limits, |file| {
            let (file, path) = siblings.open(file)?;
            paths.push(path);
            Ok(file)
        })?;
        Ok(ChunkedFile { paths, ..file })
    }

    /// Opens a `.cpb` file whose chunks are those that `metadata` says, whatever its own trailer
    /// is: to read a part of it.
    ///
    /// # Errors
    ///
    /// As [`open`](ChunkedFile::open), but for the file's own trailer, which isn't read.
    pub fn open_with_metadata(
        path: impl AsRef<Path>,
        metadata: ChunkMetadata,
        limits: &Limits,
    ) -> Result<Self> {
        let path = path.as_ref();
        let siblings = Siblings::of(path, limits)?;
        let trailer = Trailer::from_metadata(metadata, TrailerUse::Part, limits)?;
        let file = open_records(open_file(path)?)?;
        let cache = RecordChunkCache::new(limits.max_cached_size);
        let mut paths = Vec::from_iter(fs::canonicalize(path).ok());
        let file = ChunkedFile::complete(file, None, trailer, cache, limits, |file| {
            let (file, path) = siblings.open(file)?;
            paths.push(path);
            Ok(file)
        })?;
        Ok(ChunkedFile { paths, ..file })
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
    /// [`ErrorKind::NotChunked`] if it is no record file, has no record, or the last is no trailer;
    /// [`ErrorKind::InvalidTrailer`] if the trailer contradicts itself or the records;
    /// [`ErrorKind::UnsupportedVersion`]; [`ErrorKind::LimitExceeded`].
    pub fn from_source(source: S, limits: &Limits) -> Result<Self> {
        ChunkedFile::from_sources(source, limits, |_| no_way_to_others())
    }

    /// Opens a chunked message in any source of bytes, some of whose chunks may be in others;
    /// `open` opens one of those.
    ///
    /// Whether it is the one that is meant is checked here: [`ErrorKind::ChecksumMismatch`] if it
    /// isn't.
    ///
    /// # Errors
    ///
    /// As [`from_source`](Self::from_source), and what `open` reports.
    pub fn from_sources(
        source: S,
        limits: &Limits,
        open: impl FnMut(&ExternalFile) -> Result<S>,
    ) -> Result<Self> {
        let file = open_records(source)?;
        let cache = RecordChunkCache::new(limits.max_cached_size);
        let Some((end, bytes)) = last_record((0, &file), &cache, limits)? else {
            return Err(Error::new(ErrorKind::NotChunked, "the file has no records"));
        };
        let trailer = Trailer::parse_level(&bytes, limits).map_err(|error| match error.kind() {
            ErrorKind::NotChunked => error.at_offset(end.numeric()),
            _ => error,
        })?;
        let (file, trailer, cache, mut trailer_chunks) = unfold(file, end, trailer, cache, limits)?;
        trailer_chunks.push(end.chunk_begin().0);
        let file = ChunkedFile::complete(file, Some(end), trailer, cache, limits, open)?;
        Ok(ChunkedFile {
            trailer_chunks,
            ..file
        })
    }

    /// Opens a source whose chunks are those that `metadata` says, whatever its own trailer is: to
    /// read a part of it.
    ///
    /// # Errors
    ///
    /// As [`from_source`](Self::from_source), but for the file's own trailer, which isn't read.
    pub fn with_metadata(source: S, metadata: ChunkMetadata, limits: &Limits) -> Result<Self> {
        ChunkedFile::with_metadata_and(source, metadata, limits, |_| no_way_to_others())
    }

    /// [`with_metadata`](Self::with_metadata), some of whose chunks may be in other sources.
    pub(crate) fn with_metadata_and(
        source: S,
        metadata: ChunkMetadata,
        limits: &Limits,
        open: impl FnMut(&ExternalFile) -> Result<S>,
    ) -> Result<Self> {
        let trailer = Trailer::from_metadata(metadata, TrailerUse::Part, limits)?;
        let file = open_records(source)?;
        let cache = RecordChunkCache::new(limits.max_cached_size);
        ChunkedFile::complete(file, None, trailer, cache, limits, open)
    }

    /// Opens the other files, and checks the trailer against the records of all.
    fn complete(
        file: RecordFile<S>,
        end: Option<RecordPosition>,
        trailer: Trailer,
        cache: RecordChunkCache,
        limits: &Limits,
        mut open: impl FnMut(&ExternalFile) -> Result<S>,
    ) -> Result<Self> {
        let mut parts = Vec::with_capacity(trailer.metadata().files.len());
        for named in &trailer.metadata().files {
            let number = parts.len() + 1;
            let part = open(named).and_then(|s| open_part(s, number, named, &cache, limits));
            parts.push(part.map_err(|error| error.context(named.path.escape_debug()))?);
        }
        let infos = &trailer.metadata().chunks;
        let mut found = vec![None; infos.len()];
        for number in 0..=parts.len() {
            let wanted = (0..infos.len()).filter(|&at| infos[at].file as usize == number);
            let file = number.checked_sub(1).map_or(&file, |at| &parts[at].file);
            locate_all(file, infos, wanted.collect(), &mut found)?;
        }
        let mut records = Vec::with_capacity(infos.len());
        for (at, (info, found)) in infos.iter().zip(found).enumerate() {
            let number = info.file as usize;
            let end = number.checked_sub(1).map_or(end, |at| Some(parts[at].end));
            let record = check_record(info, found, end);
            records.push(record.map_err(|error| error.in_chunk(at as u64))?);
        }
        Ok(ChunkedFile {
            file,
            parts,
            trailer,
            records,
            trailer_chunks: Vec::new(),
            cache,
            paths: Vec::new(),
        })
    }

    /// The trailer.
    pub fn trailer(&self) -> &Trailer {
        &self.trailer
    }

    /// The record file below: the one with the trailer.
    pub fn record_file(&self) -> &RecordFile<S> {
        &self.file
    }

    /// All record files, the one with the trailer first; the others in the order of `files` in the
    /// trailer.
    pub fn record_files(&self) -> impl Iterator<Item = &RecordFile<S>> {
        std::iter::once(&self.file).chain(self.parts.iter().map(|part| &part.file))
    }

    /// The position of a chunk's record, if that is in the file with the trailer.
    pub fn position(&self, chunk: usize) -> Option<RecordPosition> {
        let record = self.records.get(chunk).filter(|record| record.file == 0);
        record.map(|record| record.position)
    }

    /// Where the record chunks begin that the trailer is in or, of one of the other files, its last
    /// record; counted as [`record_files`](Self::record_files) does.
    pub(crate) fn trailer_chunks(&self, file: usize) -> Vec<u64> {
        match file.checked_sub(1).and_then(|at| self.parts.get(at)) {
            Some(part) => vec![part.end.chunk_begin().0],
            None => self.trailer_chunks.clone(),
        }
    }

    /// Which file a chunk's record is in, counted as [`record_files`](Self::record_files) does, and
    /// its position there.
    pub fn place(&self, chunk: usize) -> Option<(usize, RecordPosition)> {
        let record = self.records.get(chunk)?;
        Some((record.file, record.position))
    }

    /// The record file that counts as `number`, and in front of an error its name.
    pub(super) fn numbered(&self, number: usize) -> (&RecordFile<S>, impl Fn(Error) -> Error) {
        let part = number.checked_sub(1).and_then(|at| self.parts.get(at));
        let name = part.map(|part| part.name.as_str());
        let named = move |error: Error| match name {
            Some(name) => error.context(name.escape_debug()),
            None => error,
        };
        (part.map_or(&self.file, |part| &part.file), named)
    }

    /// The files that it was opened from, without symbolic links: the one with the trailer, and the
    /// others that have chunks. None if it wasn't opened by a path.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
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

/// Where the last record of a file is, and its bytes; none if there are no records.
fn last_record<S: ReadAt>(
    (number, file): (usize, &RecordFile<S>),
    cache: &RecordChunkCache,
    limits: &Limits,
) -> Result<Option<(RecordPosition, Bytes)>> {
    let Some(end) = file.last_record()? else {
        return Ok(None);
    };
    let header = file.chunk_header_at(end.chunk_begin())?.header;
    let size = header.decoded_data_size;
    // In a record chunk of its own it may be as large as a trailer, with others as large as those
    // may be.
    if size > limits.max_trailer_size.max(limits.max_cached_size) {
        let message = format!("a trailer of {size} bytes");
        return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(end.numeric()));
    }
    let bytes = if header.num_records > 1 {
        cache.record((number, file), end, size)?
    } else {
        file.read_record(end)?
    };
    Ok(Some((end, bytes)))
}

/// Merges a trailer that is itself in chunks, as often as it was chunked.
fn unfold<S: ReadAt>(
    mut file: RecordFile<S>,
    end: RecordPosition,
    mut trailer: Trailer,
    mut cache: RecordChunkCache,
    limits: &Limits,
) -> Result<(RecordFile<S>, Trailer, RecordChunkCache, Vec<u64>)> {
    let mut chunks = Vec::new();
    let most = limits.max_trailer_size.min(limits.max_message_size);
    let options = MergeOptions::new().limits(Limits {
        max_message_size: most,
        ..limits.clone()
    });
    while trailer.level() > 0 {
        let level = trailer.level();
        let merge = |file, trailer, cache| -> Result<_> {
            let none = |_: &ExternalFile| no_way_to_others();
            let folded = ChunkedFile::complete(file, Some(end), trailer, cache, limits, none)?;
            let bytes = folded.merge_to_bytes(&options)?;
            let trailer = Trailer::parse_level(&bytes, limits)?;
            let begins = folded.records.iter();
            let begins: Vec<u64> = begins.map(|at| at.position.chunk_begin().0).collect();
            Ok((folded.file, trailer, folded.cache, begins))
        };
        let begins;
        (file, trailer, cache, begins) =
            merge(file, trailer, cache).map_err(|error| error.context("the trailer"))?;
        chunks.extend(begins);
        // It gets less each time, so this comes to an end.
        if trailer.level() + 1 != level {
            let message = format!(
                "the trailer was chunked {level} times, and what its chunks make {} times",
                trailer.level()
            );
            return Err(Error::new(ErrorKind::InvalidTrailer, message));
        }
    }
    Ok((file, trailer, cache, chunks))
}

/// Opens one of the other files, and checks that it is the one that is meant.
fn open_part<S: ReadAt>(
    source: S,
    number: usize,
    named: &ExternalFile,
    cache: &RecordChunkCache,
    limits: &Limits,
) -> Result<Part<S>> {
    let size = source.size()?;
    let other = |message: String| {
        let message = format!("{message}: it is of another split, or was damaged");
        Err(Error::new(ErrorKind::ChecksumMismatch, message))
    };
    if size != named.size {
        return other(format!(
            "it has {size} bytes, where the trailer says {}",
            named.size
        ));
    }
    let file = open_records(source)?;
    let Some((end, bytes)) = last_record((number, &file), cache, limits)? else {
        return other("it has no records".into());
    };
    let crc32c = crc32c::crc32c(&bytes);
    if crc32c != named.trailer_crc32c {
        let expected = named.trailer_crc32c;
        return other(format!(
            "crc32c of its last record is {crc32c:08x}, where the trailer says {expected:08x}"
        ));
    }
    Ok(Part {
        name: named.path.clone(),
        file,
        end,
    })
}

#[cold]
fn no_way_to_others<S>() -> Result<S> {
    let message = "chunks are in this other file, and only a path leads to it";
    Err(Error::new(ErrorKind::InvalidConfig, message))
}

fn open_records<S: ReadAt>(source: S) -> Result<RecordFile<S>> {
    RecordFile::open(source, ReaderOptions::new()).map_err(|error| match error.kind() {
        record_file::ErrorKind::NotARecordFile => {
            Error::new(ErrorKind::NotChunked, "not a record file: wrong signature")
                .with_source(error)
        }
        _ => error.into(),
    })
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
        file: info.file as usize,
        position,
        shared,
        stored_size: header.data_size,
    })
}
