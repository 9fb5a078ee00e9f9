//! Where a merge finds the chunks.

use std::io::{self, Read};

use bytes::Bytes;
use record_file::{PositionReader, ReadAt};

use crate::wire::{Input, StreamInput};
use crate::{Error, ErrorKind, Result};

/// The chunks of a message, by index: in memory, or in a file. Several threads read them at once.
pub trait ChunkStore: Sync {
    /// How many chunks there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes a chunk has.
    fn size(&self, chunk: usize) -> u64;

    /// A chunk's bytes from the first on. The stream gives exactly as many as
    /// [`size`](ChunkStore::size) says, or fails; what checks the store has for a chunk are
    /// done by the time the last byte is given.
    ///
    /// # Errors
    ///
    /// If the chunk can't be read.
    fn stream(&self, chunk: usize) -> Result<Box<dyn Read + '_>>;

    /// Reads all of a chunk into a buffer of its [`size`](ChunkStore::size), with the same checks:
    /// for small ones a stream is much ado.
    ///
    /// # Errors
    ///
    /// If the chunk can't be read, or has another size.
    fn read_into(&self, chunk: usize, buffer: &mut [u8]) -> Result<()> {
        read_stream(&mut *self.stream(chunk)?, buffer)
    }

    /// Reads chunks whole, each to its place, with the same checks. A store that hashes what it
    /// reads does so for two at a time, which takes little longer than one.
    ///
    /// # Errors
    ///
    /// If a chunk can't be read or has another size than its place, and what `places` reports.
    fn read_each<'b>(&self, places: &mut dyn Places<'b>) -> Result<()> {
        while let Some((chunk, place)) = places.next(0) {
            read_to_place(self, chunk, place, places)?;
        }
        Ok(())
    }

    /// Fails if what is known of the chunks can be seen to be wrong before they are read. A merge
    /// asks for this before it takes memory or writes anything.
    ///
    /// # Errors
    ///
    /// What is wrong, with the chunk that it is wrong of.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// Takes note that these chunks are read next, in this order; by default nothing happens.
    fn prefetch(&self, chunks: &[usize]) {
        let _ = chunks;
    }

    /// The crc32c of a chunk, if it is compared with what was read of it.
    fn checked_crc32c(&self, _chunk: usize) -> Option<u32> {
        None
    }

    /// How many bytes the chunks take where they are stored: what a chunk's size is measured by
    /// before memory is taken for it.
    fn stored_len(&self) -> u64 {
        (0..self.len())
            .map(|chunk| self.size(chunk))
            .fold(0, u64::saturating_add)
    }

    /// Fails as [`prepare`](ChunkStore::prepare) does, for these chunks alone.
    ///
    /// # Errors
    ///
    /// What is wrong, with the chunk that it is wrong of.
    fn prepare_some(&self, chunks: &[usize]) -> Result<()> {
        let _ = chunks;
        Ok(())
    }

    /// The bytes of a chunk, to be read in any order: for one that has no checks at its end.
    fn at_random(&self, _chunk: usize) -> Option<&dyn ReadAt> {
        None
    }

    /// All of a chunk's bytes, if they are in memory anyway.
    fn as_slice(&self, _chunk: usize) -> Option<&[u8]> {
        None
    }
}

/// Which chunks are read whole, and where they go.
pub trait Places<'b> {
    /// The next chunk, and a buffer of its size. Who reads two at once asks for them with 0 and 1.
    fn next(&mut self, lane: usize) -> Option<(usize, &'b mut [u8])>;

    /// Takes note that this many more bytes were read.
    ///
    /// # Errors
    ///
    /// If no more are wanted.
    fn advance(&mut self, bytes: u64) -> Result<()>;

    /// Takes note that a chunk is in its place, checked, and has this crc32c.
    fn filled(&mut self, chunk: usize, crc32c: u32);
}

/// Reads one chunk to its place.
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

/// Reads a chunk to its end, which is that of the buffer.
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

/// The error of work on a chunk: damage of the chunk itself comes before the error that it led to.
///
/// Its checks are done at its end, which a walk that fails doesn't reach, so the chunk is read once
/// more.
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

/// Whether damage may show as such an error.
pub(in crate::merge) fn may_be_led_to(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidMessage | ErrorKind::InvalidTrailer | ErrorKind::LimitExceeded
    )
}

/// Reads all of a chunk, to have it checked.
pub(in crate::merge) fn read_to_end<S: ChunkStore + ?Sized>(store: &S, chunk: usize) -> Result<()> {
    let read = store
        .stream(chunk)
        .and_then(|mut stream| Ok(io::copy(&mut stream, &mut io::sink())?));
    read.map(drop).map_err(|error| error.in_chunk(chunk))
}

/// Turns a short read of a chunk into an error.
pub(in crate::merge) fn read_error(error: io::Error) -> Error {
    match error.kind() {
        // With nothing inside, it is `read_exact`'s own.
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

/// The chunks of a message that has none.
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

/// A message in one piece: the only chunk of its store.
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

/// A chunk to be walked over, wherever it is.
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

    /// Reads what is left, so that the store has checked the chunk.
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
