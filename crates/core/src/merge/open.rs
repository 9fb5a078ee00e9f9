//! Opening a chunked file, which reads and checks the trailer. The chunks' records are checked
//! later, when they are read.

mod external_files;

use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;

use bytes::Bytes;
use external_files::ExternalFiles;
use record_file::{ReadAt, ReaderOptions, RecordFile, RecordPosition};

use super::read::file_source::FileSource;
use super::read::record_store::Part;
use super::read::records::Records;
use crate::container::{Limits, Trailer, TrailerUse};
use crate::io::open_file;
use crate::merge::read::chunk_store::ChunkStore;
use crate::merge::read::record_cache::RecordChunkCache;
use crate::merge::read::record_store::RecordStore;
use crate::merge::read_options::ReadOptions;
use crate::merge::write::execute::to_bytes;
use crate::proto::ChunkMetadata;
use crate::proto::chunk_metadata::ExternalFile;
use crate::{Error, ErrorKind, Result};

/// Number of bytes to read at once at the beginning of a file: 64 KiB. They contain the file's
/// metadata, and usually the chunk that the other chunks are spliced into.
const HEAD: usize = 64 << 10;

/// Number of bytes to read at once at the end of a file: 256 KiB. They contain the header of the
/// last block, which locates the trailer, and a trailer for up to about 3,000 chunks.
const TAIL: usize = 256 << 10;

/// Opens a `.cpb` file, which must not exceed `limits`.
pub(crate) fn open_path(path: &Path, limits: &Limits) -> Result<RecordStore<File>> {
    open_path_as(path, limits, |file| file)
}

/// Opens a `.cpb` file, which must not exceed `limits`. `source` converts the open file to the type
/// that the returned store reads from.
///
/// # Errors
///
/// The same errors as [`ChunkedFile::open`](crate::ChunkedFile::open).
pub fn open_path_as<S: ReadAt>(
    path: &Path,
    limits: &Limits,
    source: impl Fn(File) -> S,
) -> Result<RecordStore<S>> {
    let span = tracing::debug_span!("open", path = %path.display());
    let file = span.in_scope(|| open_file(path))?;
    open_within(&span, path, source(file), limits)
}

/// Opens the message in the `.cpb` file at `path`, which is already open as `source`.
pub(crate) fn open_given<S: ReadAt>(
    path: &Path,
    source: S,
    limits: &Limits,
) -> Result<RecordStore<S>> {
    let span = tracing::debug_span!("open", path = %path.display());
    open_within(&span, path, source, limits)
}

fn open_within<S: ReadAt>(
    span: &tracing::Span,
    path: &Path,
    source: S,
    limits: &Limits,
) -> Result<RecordStore<S>> {
    let _span = span.enter();
    let mut siblings = ExternalFiles::of(path, limits)?;
    let file = open_all(FileSource::given(source), limits, |file| {
        siblings.open(file)
    })?;
    let paths = siblings.into_paths(path);
    Ok(RecordStore { paths, ..file })
}

/// Opens a `.cpb` file, but uses `metadata` instead of the trailer in the file, to read only a part
/// of the message.
pub(crate) fn open_path_with(
    path: &Path,
    metadata: ChunkMetadata,
    limits: &Limits,
) -> Result<RecordStore<File>> {
    let mut siblings = ExternalFiles::of(path, limits)?;
    let trailer = Trailer::from_metadata(metadata, TrailerUse::Part, limits)?;
    let file = open_main(FileSource::given(open_file(path)?))?;
    let cache = RecordChunkCache::new(limits.max_cached_size);
    let file = complete(file, None, trailer, cache, limits, |file| {
        siblings.open(file)
    })?;
    let paths = siblings.into_paths(path);
    Ok(RecordStore { paths, ..file })
}

/// Opens a chunked message whose chunks may be in several sources. `source` is the main file;
/// `open` opens each other file that the main file's trailer names.
///
/// Fails with [`ErrorKind::ChecksumMismatch`] if a source isn't the file that the trailer
/// describes.
///
/// # Errors
///
/// The same errors as [`ChunkedFile::open`](crate::ChunkedFile::open), and any error from `open`.
pub fn open_sources<S: ReadAt>(
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

/// Reads the trailer of a `.cpb` file, even if its chunks are damaged.
pub(crate) fn read_trailer(path: &Path, limits: &Limits) -> Result<Trailer> {
    let begun = read_trailer_of(FileSource::given(open_file(path)?), limits);
    match begun {
        Ok((_, _, trailer, ..)) => Ok(trailer),
        Err(error) => search_trailer(path, limits)?.ok_or(error),
    }
}

/// Number of bytes at the end of a file to search for a trailer that can't be located through the
/// record chunks before it: 64 KiB. A trailer that begins before these bytes crosses a block
/// boundary, and the block header at that boundary has the trailer's position.
const SEARCHED: u64 = 64 << 10;

/// Searches the end of a file for a trailer, without relying on the record chunks before it, which
/// may be damaged. Returns `None` if no trailer is found.
fn search_trailer(path: &Path, limits: &Limits) -> Result<Option<Trailer>> {
    let source = open_file(path)?;
    let size = source.size()?;
    let file = open_main(FileSource::given(source))?;
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

/// A file whose trailer was read: the file, the position of its last record, the trailer, a cache
/// of record chunks, and the offsets of the record chunks that contain parts of the trailer or the
/// nodes of the Merkle tree.
type Begun<S> = (
    RecordFile<FileSource<S>>,
    RecordPosition,
    Trailer,
    RecordChunkCache,
    Vec<u64>,
);

fn read_trailer_of<S: ReadAt>(source: FileSource<S>, limits: &Limits) -> Result<Begun<S>> {
    let file = open_main(source)?;
    let cache = RecordChunkCache::new(limits.max_cached_size);
    let Some((end, bytes)) = last_record((0, &file), &cache, limits)? else {
        return Err(Error::new(ErrorKind::NotChunked, "the file has no records"));
    };
    let trailer = Trailer::parse_level(&bytes, limits).map_err(|error| match error.kind() {
        ErrorKind::NotChunked => error.at_offset(end.numeric()),
        _ => error,
    })?;
    let (file, trailer, cache, mut trailer_chunks) = unfold(file, end, trailer, cache, limits)?;
    // The record chunk with the nodes of the Merkle tree counts as part of the trailer.
    let nodes = trailer.metadata().merkle_tree.as_ref();
    let nodes = nodes.map(|tree| tree.nodes_offset).filter(|&at| at > 0);
    trailer_chunks.extend(nodes);
    trailer_chunks.push(end.chunk_begin().0);
    Ok((file, end, trailer, cache, trailer_chunks))
}

/// Opens `source` and the files that `metadata` names, with `metadata` in place of the stored
/// trailer, to read the part of the message that `metadata` describes.
///
/// # Errors
///
/// The same errors as [`ChunkedFile::open`](crate::ChunkedFile::open), and any error from `open`.
pub fn open_sources_with<S: ReadAt>(
    source: S,
    metadata: ChunkMetadata,
    purpose: TrailerUse,
    limits: &Limits,
    mut open: impl FnMut(&ExternalFile) -> Result<S>,
) -> Result<RecordStore<S>> {
    let open = |file: &ExternalFile| Ok(FileSource::given(open(file)?));
    let trailer = Trailer::from_metadata(metadata, purpose, limits)?;
    let file = open_main(FileSource::given(source))?;
    let cache = RecordChunkCache::new(limits.max_cached_size);
    complete(file, None, trailer, cache, limits, open)
}

/// Opens the other files that the trailer names, and performs all checks of the trailer that don't
/// require reading records.
fn complete<S: ReadAt>(
    file: RecordFile<FileSource<S>>,
    end: Option<RecordPosition>,
    trailer: Trailer,
    cache: RecordChunkCache,
    limits: &Limits,
    mut open: impl FnMut(&ExternalFile) -> Result<FileSource<S>>,
) -> Result<RecordStore<S>> {
    let named = &trailer.metadata().files;
    let at = |error: Error, file: &ExternalFile| error.context(file.path.escape_debug());
    // Opens all files before waiting for data from the first.
    let mut sources = Vec::with_capacity(named.len());
    for file in named {
        sources.push(open(file).map_err(|error| at(error, file))?);
    }
    let mut parts = Vec::with_capacity(named.len());
    for (source, file) in sources.into_iter().zip(named) {
        let number = parts.len() + 1;
        let part = open_part(source, number, file, &cache, limits);
        parts.push(part.map_err(|error| at(error, file))?);
    }
    let store = RecordStore {
        records: Records::unknown(trailer.metadata().chunks.len()),
        file,
        end,
        parts,
        trailer,
        trailer_chunks: Vec::new(),
        cache,
        paths: Vec::new(),
        limits: limits.clone(),
        root: OnceLock::new(),
    };
    store.check_offsets()?;
    Ok(store)
}

/// Returns the position and the bytes of a file's last record; `None` if there are no records.
fn last_record<S: ReadAt>(
    (number, file): (usize, &RecordFile<FileSource<S>>),
    cache: &RecordChunkCache,
    limits: &Limits,
) -> Result<Option<(RecordPosition, Bytes)>> {
    let Some(end) = file.last_record()? else {
        return Ok(None);
    };
    let chunk = file.chunk_header_at(end.chunk_begin())?;
    let size = chunk.header.decoded_data_size;
    // A record that is alone in its record chunk may be as large as a trailer; a record that shares
    // its record chunk may be as large as a cached record chunk.
    if size > limits.max_trailer_size.max(limits.max_cached_size) {
        let message = format!("the trailer has {size} bytes, more than the limit");
        return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(end.numeric()));
    }
    let bytes = if chunk.header.num_records > 1 {
        cache.record((number, file), end, &chunk)?
    } else {
        file.read_known_chunk(&chunk)?.record_at(end)?
    };
    Ok(Some((end, bytes)))
}

/// A file, its trailer in one piece, a cache of record chunks, and the offsets of the record chunks
/// that contained the trailer's chunks.
type Unfolded<S> = (
    RecordFile<FileSource<S>>,
    Trailer,
    RecordChunkCache,
    Vec<u64>,
);

/// Merges a trailer that was itself split into chunks, repeatedly if it was split several times.
fn unfold<S: ReadAt>(
    mut file: RecordFile<FileSource<S>>,
    end: RecordPosition,
    mut trailer: Trailer,
    mut cache: RecordChunkCache,
    limits: &Limits,
) -> Result<Unfolded<S>> {
    let mut chunks = Vec::new();
    let most = limits.max_trailer_size.min(limits.max_message_size);
    let options = ReadOptions::new().limits(Limits {
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
            let begins = (0..folded.len()).map(|chunk| {
                let record = folded.record(chunk)?;
                Ok(record.position.chunk_begin().0)
            });
            let begins = begins.collect::<Result<Vec<u64>>>()?;
            Ok((folded.file, trailer, folded.cache, begins))
        };
        let begins;
        (file, trailer, cache, begins) =
            merge(file, trailer, cache).map_err(|error| error.context("the trailer"))?;
        chunks.extend(begins);
        // The level decreases each time, so the loop terminates.
        if trailer.level() + 1 != level {
            let message = format!(
                "the trailer was split {level} times, but the trailer merged from its chunks says {}",
                trailer.level()
            );
            return Err(Error::new(ErrorKind::InvalidTrailer, message));
        }
    }
    Ok((file, trailer, cache, chunks))
}

/// Opens one of the files that the trailer names, and checks its identity.
fn open_part<S: ReadAt>(
    source: FileSource<S>,
    number: usize,
    named: &ExternalFile,
    cache: &RecordChunkCache,
    limits: &Limits,
) -> Result<Part<S>> {
    let size = source.size()?;
    let other = |message: String| {
        let message = format!("{message}: it belongs to another split, or is damaged");
        Err(Error::new(ErrorKind::ChecksumMismatch, message))
    };
    if size != named.size {
        return other(format!(
            "it has {size} bytes, where the trailer says {}",
            named.size
        ));
    }
    let file = RecordFile::open(source, ReaderOptions::new()).map_err(not_records)?;
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
/// Returns the error for another file that a trailer names. Call this from the `open` function
/// passed to [`open_sources`] if only the main file can be opened.
///
/// # Errors
///
/// Always.
pub fn no_way_to_others<S>() -> Result<S> {
    let message = "chunks are in this other file, which can only be found by a path";
    Err(Error::new(ErrorKind::InvalidConfig, message))
}

/// Opens the file that contains the trailer, with one read at its beginning and one at its end.
fn open_main<S: ReadAt>(source: FileSource<S>) -> Result<RecordFile<FileSource<S>>> {
    let opened = RecordFile::open_with_ends(source, ReaderOptions::new(), HEAD, TAIL);
    opened.map_err(not_records)
}

#[cold]
fn not_records(error: record_file::Error) -> Error {
    match error.kind() {
        record_file::ErrorKind::NotARecordFile => {
            Error::new(ErrorKind::NotChunked, "not a record file: wrong signature")
                .with_source(error)
        }
        _ => error.into(),
    }
}
