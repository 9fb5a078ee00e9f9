//! Opening a chunked file: its trailer is read, and checked against the records of all files.

mod external_files;
mod locate;

use std::fs::File;
use std::path::Path;

use bytes::Bytes;
use external_files::Siblings;
use locate::locate_all;
use record_file::{ChunkHeader, ReadAt, ReaderOptions, RecordFile, RecordPosition};

use super::options::MergeOptions;
use super::read::file_source::FileSource;
use super::read::record_store::{Part, Record};
use crate::container::{Limits, Trailer, TrailerUse};
use crate::io::{open_file, threads};
use crate::merge::read::record_cache::RecordChunkCache;
use crate::merge::read::record_store::RecordStore;
use crate::merge::write::execute::to_bytes;
use crate::proto::chunk_metadata::ExternalFile;
use crate::proto::{ChunkInfo, ChunkMetadata};
use crate::{Error, ErrorKind, Result};

/// Opens a `.cpb` file within `limits`.
pub(crate) fn open_path(path: &Path, limits: &Limits) -> Result<RecordStore<File>> {
    let _span = tracing::debug_span!("open", path = %path.display()).entered();
    let mut siblings = Siblings::of(path, limits)?;
    let main = FileSource::given(open_file(path)?);
    let file = open_all(main, limits, |file| siblings.open(file))?;
    let paths = siblings.into_paths(path);
    Ok(RecordStore { paths, ..file })
}

/// Opens a `.cpb` file whose chunks are those that `metadata` says, whatever its own trailer
/// is: to read a part of it.
pub(crate) fn open_path_with(
    path: &Path,
    metadata: ChunkMetadata,
    limits: &Limits,
) -> Result<RecordStore<File>> {
    let mut siblings = Siblings::of(path, limits)?;
    let trailer = Trailer::from_metadata(metadata, TrailerUse::Part, limits)?;
    let file = open_records(FileSource::given(open_file(path)?))?;
    let cache = RecordChunkCache::new(limits.max_cached_size);
    let file = complete(file, None, trailer, cache, limits, |file| {
        siblings.open(file)
    })?;
    let paths = siblings.into_paths(path);
    Ok(RecordStore { paths, ..file })
}

/// Opens a chunked message in any source of bytes, some of whose chunks may be in others;
/// `open` opens one of those.
///
/// Whether it is the one that is meant is checked here: [`ErrorKind::ChecksumMismatch`] if it
/// isn't.
pub(crate) fn open_sources<S: ReadAt>(
    source: S,
    limits: &Limits,
    mut open: impl FnMut(&ExternalFile) -> Result<S>,
) -> Result<RecordStore<S>> {
    let open = |file: &ExternalFile| Ok(FileSource::given(open(file)?));
    open_all(FileSource::given(source), limits, open)
}

fn open_all<S: ReadAt>(
    source: FileSource<S>,
    limits: &Limits,
    open: impl FnMut(&ExternalFile) -> Result<FileSource<S>>,
) -> Result<RecordStore<S>> {
    let (file, end, trailer, cache, trailer_chunks) = read_trailer_of(source, limits)?;
    let file = complete(file, Some(end), trailer, cache, limits, open)?;
    Ok(RecordStore {
        trailer_chunks,
        ..file
    })
}

/// The trailer of a `.cpb` file, whatever became of its chunks.
pub(crate) fn read_trailer(path: &Path, limits: &Limits) -> Result<Trailer> {
    let begun = read_trailer_of(FileSource::given(open_file(path)?), limits);
    match begun {
        Ok((_, _, trailer, ..)) => Ok(trailer),
        Err(error) => search_trailer(path, limits)?.ok_or(error),
    }
}

/// How far from its end a file is searched for a trailer whose place the chunks in front of it don't
/// tell: where a block begins, the file tells it itself.
const SEARCHED: u64 = 64 << 10;

/// A trailer that ends the file, and that no sound chunk leads to.
fn search_trailer(path: &Path, limits: &Limits) -> Result<Option<Trailer>> {
    let source = open_file(path)?;
    let size = source.size()?;
    let file = open_records(FileSource::given(source))?;
    for begin in (size.saturating_sub(SEARCHED)..size).rev() {
        let Ok(chunk) = file.chunk_header_at(record_file::ChunkOffset(begin)) else {
            continue;
        };
        if chunk.header.num_records != 1 || chunk.header.decoded_data_size > limits.max_trailer_size
        {
            continue;
        }
        let Ok(bytes) = file.read_record(RecordPosition::new(begin, 0)) else {
            continue;
        };
        let trailer = Trailer::parse_level(&bytes, limits);
        if let Some(trailer) = trailer.ok().filter(|trailer| trailer.level() == 0) {
            return Ok(Some(trailer));
        }
    }
    Ok(None)
}

/// What is known of a file once its trailer was read.
type Begun<S> = (
    RecordFile<FileSource<S>>,
    RecordPosition,
    Trailer,
    RecordChunkCache,
    Vec<u64>,
);

fn read_trailer_of<S: ReadAt>(source: FileSource<S>, limits: &Limits) -> Result<Begun<S>> {
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
    Ok((file, end, trailer, cache, trailer_chunks))
}

/// Opens sources whose chunks are those that `metadata` says, whatever their own trailer is: to read
/// a part of it.
pub(crate) fn open_sources_with<S: ReadAt>(
    source: S,
    metadata: ChunkMetadata,
    limits: &Limits,
    mut open: impl FnMut(&ExternalFile) -> Result<S>,
) -> Result<RecordStore<S>> {
    let open = |file: &ExternalFile| Ok(FileSource::given(open(file)?));
    let trailer = Trailer::from_metadata(metadata, TrailerUse::Part, limits)?;
    let file = open_records(FileSource::given(source))?;
    let cache = RecordChunkCache::new(limits.max_cached_size);
    complete(file, None, trailer, cache, limits, open)
}

/// Opens the other files, and checks the trailer against the records of all.
fn complete<S: ReadAt>(
    file: RecordFile<FileSource<S>>,
    end: Option<RecordPosition>,
    trailer: Trailer,
    cache: RecordChunkCache,
    limits: &Limits,
    mut open: impl FnMut(&ExternalFile) -> Result<FileSource<S>>,
) -> Result<RecordStore<S>> {
    let mut parts = Vec::with_capacity(trailer.metadata().files.len());
    for named in &trailer.metadata().files {
        let number = parts.len() + 1;
        let part = open(named).and_then(|s| open_part(s, number, named, &cache, limits));
        parts.push(part.map_err(|error| error.context(named.path.escape_debug()))?);
    }
    let infos = &trailer.metadata().chunks;
    let mut found = vec![None; infos.len()];
    let threads = threads::count(limits.threads);
    let mut by_file: Vec<usize> = (0..infos.len()).collect();
    by_file.sort_by_key(|&at| infos[at].file);
    for wanted in by_file.chunk_by(|&a, &b| infos[a].file == infos[b].file) {
        let part = (infos[wanted[0]].file as usize).checked_sub(1);
        let file = part.map_or(&file, |at| &parts[at].file);
        locate_all(file, infos, wanted.to_vec(), &mut found, threads)?;
    }
    let mut records = Vec::with_capacity(infos.len());
    for (at, (info, found)) in infos.iter().zip(found).enumerate() {
        let number = info.file as usize;
        let end = number.checked_sub(1).map_or(end, |at| Some(parts[at].end));
        let record = check_record(info, found, end);
        records.push(record.map_err(|error| error.in_chunk(at as u64))?);
    }
    Ok(RecordStore {
        file,
        parts,
        trailer,
        records,
        trailer_chunks: Vec::new(),
        cache,
        paths: Vec::new(),
        limits: limits.clone(),
    })
}

/// Where the last record of a file is, and its bytes; none if there are no records.
fn last_record<S: ReadAt>(
    (number, file): (usize, &RecordFile<FileSource<S>>),
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

/// A trailer in one piece, and where the record chunks begin that it was in.
type Unfolded<S> = (
    RecordFile<FileSource<S>>,
    Trailer,
    RecordChunkCache,
    Vec<u64>,
);

/// Merges a trailer that is itself in chunks, as often as it was chunked.
fn unfold<S: ReadAt>(
    mut file: RecordFile<FileSource<S>>,
    end: RecordPosition,
    mut trailer: Trailer,
    mut cache: RecordChunkCache,
    limits: &Limits,
) -> Result<Unfolded<S>> {
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
            let folded = complete(file, Some(end), trailer, cache, limits, none)?;
            let bytes = to_bytes(folded.trailer(), &folded, &options)?;
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
    source: FileSource<S>,
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
pub(crate) fn no_way_to_others<S>() -> Result<S> {
    let message = "chunks are in this other file, and only a path leads to it";
    Err(Error::new(ErrorKind::InvalidConfig, message))
}

fn open_records<S: ReadAt>(source: FileSource<S>) -> Result<RecordFile<FileSource<S>>> {
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
