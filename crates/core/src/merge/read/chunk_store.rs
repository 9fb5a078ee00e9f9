//! Sources of chunks for a merge.

use std::io::{self, Read};
use std::num::NonZeroUsize;

use bytes::Bytes;
use record_file::{PositionReader, ReadAt};

use crate::wire::{Input, StreamInput};
use crate::{Error, ErrorKind, Result};

/// A store of a message's chunks, in memory or in a file. Chunks are identified by index. Several
/// threads may read chunks at once.
pub trait ChunkStore: Sync {
    /// Returns the number of chunks.
    fn len(&self) -> usize;

    /// Returns true if there are no chunks.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of a chunk in bytes.
    fn size(&self, chunk: usize) -> u64;

    /// Returns a stream of a chunk's bytes from the beginning. It produces exactly
    /// [`size`](ChunkStore::size) bytes, or fails. Before it produces the last byte, the store has
    /// completed all its checks of the chunk.
    ///
    /// # Errors
    ///
    /// If the chunk can't be read.
    fn stream(&self, chunk: usize) -> Result<Box<dyn Read + '_>>;

    /// Reads a whole chunk into a buffer of its [`size`](ChunkStore::size), with the same checks as
    /// [`stream`](ChunkStore::stream). This is cheaper than a stream for small chunks.
    ///
    /// # Errors
    ///
    /// If the chunk can't be read, or doesn't have its declared size.
    fn read_into(&self, chunk: usize, buffer: &mut [u8]) -> Result<()> {
        read_stream(&mut *self.stream(chunk)?, buffer)
    }

    /// Reads the chunks that `places` lists, each into its buffer, with the same checks as
    /// [`stream`](ChunkStore::stream). A store that hashes its data reads two chunks at a time,
    /// which takes little longer than reading one.
    ///
    /// # Errors
    ///
    /// If a chunk can't be read, or its size differs from the size of its buffer; any error from
    /// `places`.
    fn read_each<'b>(&self, places: &mut dyn Places<'b>) -> Result<()> {
        while let Some((chunk, place)) = places.next(0) {
            read_to_place(self, chunk, place, places)?;
        }
        Ok(())
    }

    /// Checks the descriptions of all chunks for evident errors, before any chunk is read. Uses up
    /// to `threads` threads. A merge calls this method before it allocates memory or writes.
    ///
    /// # Errors
    ///
    /// The problem found, with the affected chunk.
    fn prepare(&self, threads: NonZeroUsize) -> Result<()> {
        let _ = threads;
        Ok(())
    }

    /// Announces that these chunks will be read next, in this order. The default implementation
    /// does nothing.
    fn prefetch(&self, chunks: &[usize]) {
        let _ = chunks;
    }

    /// Returns the name of the file that contains a chunk; `None` for the file with the trailer.
    fn file_name(&self, _chunk: usize) -> Option<&str> {
        None
    }

    /// Returns the expected crc32c of a chunk; `None` if the store doesn't compare a crc32c with
    /// the bytes read.
    fn checked_crc32c(&self, _chunk: usize) -> Option<u32> {
        None
    }

    /// Returns the total size of the chunks as they are stored, in bytes. The chunks' declared
    /// sizes are compared with this size before memory is allocated for them.
    fn stored_len(&self) -> u64 {
        (0..self.len())
            .map(|chunk| self.size(chunk))
            .fold(0, u64::saturating_add)
    }

    /// Does the same as [`prepare`](ChunkStore::prepare), but only for these chunks.
    ///
    /// # Errors
    ///
    /// The problem found, with the affected chunk.
    fn prepare_some(&self, chunks: &[usize]) -> Result<()> {
        let _ = chunks;
        Ok(())
    }

    /// Returns a source for random access to the bytes of a chunk; `None` if the chunk has to be
    /// read to its end to be checked.
    fn at_random(&self, _chunk: usize) -> Option<&dyn ReadAt> {
        None
    }

    /// Returns all bytes of a chunk, if they are in memory already.
    fn as_slice(&self, _chunk: usize) -> Option<&[u8]> {
        None
    }
}

/// The chunks to read with [`ChunkStore::read_each`], and the buffers to read them into.
pub trait Places<'b> {
    /// Returns the index of the next chunk, and a buffer of its size; `None` if there are no more
    /// chunks. A reader that reads two chunks at once passes 0 as `lane` for one of them, and 1 for
    /// the other.
    fn next(&mut self, lane: usize) -> Option<(usize, &'b mut [u8])>;

    /// Adds `bytes` to the number of bytes read so far, which is reported as progress.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Cancelled`] if the operation was cancelled.
    fn advance(&mut self, bytes: u64) -> Result<()>;

    /// Reports that a chunk has been read into its buffer and checked, and has this crc32c.
    fn filled(&mut self, chunk: usize, crc32c: u32);
}

/// Reads one chunk into the buffer `place`, and reports this to `places`.
pub(crate) fn read_to_place<S: ChunkStore + ?Sized>(
    store: &S,
    chunk: usize,
    place: &mut [u8],
    places: &mut dyn Places<'_>,
) -> Result<()> {
    let read = store.read_into(chunk, place);
    read.map_err(|error| error.in_chunk(chunk))?;
    places.advance(place.len() as u64)?;
    let checked = store.checked_crc32c(chunk);
    places.filled(chunk, checked.unwrap_or_else(|| crc32c::crc32c(place)));
    Ok(())
}

/// Reads a whole chunk into a buffer. Fails if the chunk doesn't have the size of the buffer.
pub(crate) fn read_stream(stream: &mut dyn Read, buffer: &mut [u8]) -> Result<()> {
    stream.read_exact(buffer).map_err(read_error)?;
    match stream.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(Error::new(
            ErrorKind::InvalidTrailer,
            "the chunk is longer than the file says",
        )),
    }
}

/// Returns the error to report after work on a chunk failed: the error from reading the chunk if
/// the chunk is damaged, otherwise the error from the work.
///
/// A chunk's checks are complete only at its end, which the failed work may not have reached, so
/// the chunk is read again.
#[cold]
pub(in crate::merge) fn damage_first<S: ChunkStore + ?Sized>(
    store: &S,
    chunk: usize,
    error: Error,
) -> Error {
    if !may_be_led_to(&error) || store.as_slice(chunk).is_some() {
        return error;
    }
    match read_to_end(store, chunk) {
        Ok(()) => error,
        Err(damage) => damage.at_path(error.path().unwrap_or_default()),
    }
}

/// Returns true if damage to a chunk may have caused this error.
pub(in crate::merge) fn may_be_led_to(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidMessage | ErrorKind::InvalidTrailer | ErrorKind::LimitExceeded
    )
}

/// Reads a whole chunk to check it.
pub(in crate::merge) fn read_to_end<S: ChunkStore + ?Sized>(store: &S, chunk: usize) -> Result<()> {
    let read = store
        .stream(chunk)
        .and_then(|mut stream| Ok(io::copy(&mut stream, &mut io::sink())?));
    read.map(drop).map_err(|error| error.in_chunk(chunk))
}

/// Converts an error from reading a chunk. An unexpected end of the data means that the chunk is
/// too short.
pub(in crate::merge) fn read_error(error: io::Error) -> Error {
    match error.kind() {
        // An error without a payload comes from `read_exact` itself.
        io::ErrorKind::UnexpectedEof if error.get_ref().is_none() => shorter(),
        _ => Error::from(error),
    }
}

#[cold]
pub(in crate::merge) fn shorter() -> Error {
    Error::new(
        ErrorKind::InvalidTrailer,
        "the chunk is shorter than the file says",
    )
}

impl ChunkStore for [Bytes] {
    fn len(&self) -> usize {
        <[Bytes]>::len(self)
    }

    fn size(&self, chunk: usize) -> u64 {
        self.get(chunk).map_or(0, |bytes| bytes.len() as u64)
    }

    fn stream(&self, chunk: usize) -> Result<Box<dyn Read + '_>> {
        match self.get(chunk) {
            Some(bytes) => Ok(Box::new(&bytes[..])),
            None => {
                Err(Error::new(ErrorKind::InvalidTrailer, "there is no such chunk").in_chunk(chunk))
            }
        }
    }

    fn as_slice(&self, chunk: usize) -> Option<&[u8]> {
        self.get(chunk).map(|bytes| &bytes[..])
    }
}

/// A store without any chunks.
pub(crate) struct NoChunks;

impl ChunkStore for NoChunks {
    fn len(&self) -> usize {
        0
    }

    fn size(&self, _: usize) -> u64 {
        0
    }

    fn stream(&self, chunk: usize) -> Result<Box<dyn Read + '_>> {
        Err(Error::new(ErrorKind::InvalidTrailer, "there is no such chunk").in_chunk(chunk))
    }
}

/// A store whose only chunk is a message in one piece.
#[derive(Clone, Copy)]
pub(crate) struct OnePiece<'a> {
    source: &'a dyn ReadAt,
    size: u64,
}

impl<'a> OnePiece<'a> {
    pub(crate) fn new(source: &'a dyn ReadAt, size: u64) -> Self {
        OnePiece { source, size }
    }

    pub(crate) fn source(&self) -> &'a dyn ReadAt {
        self.source
    }
}

impl ChunkStore for OnePiece<'_> {
    fn len(&self) -> usize {
        1
    }

    fn size(&self, _: usize) -> u64 {
        self.size
    }

    fn stream(&self, _: usize) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(PositionReader::new(self.source).take(self.size)))
    }

    fn at_random(&self, _: usize) -> Option<&dyn ReadAt> {
        Some(self.source)
    }
}

/// A chunk to parse, in memory or as a stream.
pub(in crate::merge) enum ChunkInput<'a> {
    Slice(&'a [u8]),
    Stream(StreamInput<Box<dyn Read + 'a>>),
}

impl<'a> ChunkInput<'a> {
    pub(in crate::merge) fn open<S: ChunkStore + ?Sized>(
        store: &'a S,
        chunk: usize,
    ) -> Result<Self> {
        match store.as_slice(chunk) {
            Some(slice) => Ok(ChunkInput::Slice(slice)),
            None => {
                let stream = store.stream(chunk).map_err(|error| error.in_chunk(chunk))?;
                Ok(ChunkInput::Stream(StreamInput::new(
                    stream,
                    store.size(chunk),
                )))
            }
        }
    }

    /// Reads the chunk to its end, so that the store completes its checks.
    pub(in crate::merge) fn finish(self) -> Result<()> {
        match self {
            ChunkInput::Slice(_) => Ok(()),
            ChunkInput::Stream(stream) => stream.finish(),
        }
    }
}

impl Input for ChunkInput<'_> {
    fn size(&self) -> u64 {
        match self {
            ChunkInput::Slice(slice) => slice.len() as u64,
            ChunkInput::Stream(stream) => stream.size(),
        }
    }

    #[inline]
    fn fetch(&mut self, position: u64, want: usize) -> Result<&[u8]> {
        match self {
            ChunkInput::Slice(slice) => slice.fetch(position, want),
            ChunkInput::Stream(stream) => stream.fetch(position, want),
        }
    }
}
