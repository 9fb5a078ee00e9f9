//! The receiving half: from frames to a message.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::container::{ChunkedFile, Trailer, TrailerUse};
use proto_splitter_core::merge::ChunkMerger;
use proto_splitter_core::proto::ChunkMetadata;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::incoming::{Incoming, Piece, invalid};
use crate::options::ReceiveOptions;
use crate::proto::{Frame, ResumeToken};
use crate::store::{Spool, Store};

/// Puts a message together from its frames, in memory or in a temporary file.
///
/// Nothing is taken on trust: sizes are bounded by [`ReceiveOptions`], every chunk is compared with
/// its checksum, and the merged message with the sender's.
#[derive(Debug)]
pub struct Receiver {
    options: ReceiveOptions,
    store: Store,
    identity: Bytes,
    chunk_count: u64,
    /// The size and the crc32c of each chunk that came whole.
    received: Vec<(u64, u32)>,
    trailer: Option<ChunkMetadata>,
}

impl Receiver {
    /// Returns a receiver that keeps chunks in memory.
    pub fn in_memory(options: &ReceiveOptions) -> Receiver {
        Receiver::new(options, Store::Memory(Vec::new()))
    }

    /// Returns a receiver that keeps chunks in a file without a name in `folder`, or in the folder for
    /// temporary files if there is none. In memory is one frame.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be created.
    pub fn in_file(folder: Option<&Path>, options: &ReceiveOptions) -> Result<Receiver> {
        let spool = Spool::create(folder)?;
        Ok(Receiver::new(options, Store::File(spool)))
    }

    fn new(options: &ReceiveOptions, store: Store) -> Receiver {
        Receiver {
            options: options.clone(),
            store,
            identity: Bytes::new(),
            chunk_count: 0,
            received: Vec::new(),
            trailer: None,
        }
    }

    /// Takes the frames of a transfer, to its end. After an error of kind [`ErrorKind::Io`], as when a
    /// connection breaks, it can be called again with the frames of [`Frames::resume`](crate::Frames::resume).
    ///
    /// # Errors
    ///
    /// The first error that the frames report; [`ErrorKind::Io`] if they end early;
    /// [`ErrorKind::InvalidMessage`] if they contradict each other;
    /// [`ErrorKind::ChecksumMismatch`]; [`ErrorKind::LimitExceeded`]; [`ErrorKind::UnsupportedVersion`];
    /// [`ErrorKind::InvalidMessage`] if the message isn't of the type that the options ask for.
    pub fn receive(&mut self, frames: impl IntoIterator<Item = Result<Frame>>) -> Result<()> {
        let mut incoming = Incoming::open(frames.into_iter(), &self.options)?;
        self.start(&incoming)?;
        while let Some(size) = incoming.next_chunk()? {
            let chunk = self.received.len();
            let crc32c = self.add_chunk(&mut incoming, size);
            let crc32c = crc32c.map_err(|error| error.in_chunk(chunk))?;
            self.received.push((size, crc32c));
        }
        let trailer = incoming.finish()?;
        self.check_trailer(&trailer)?;
        self.trailer = Some(trailer);
        Ok(())
    }

    /// Returns what a sender needs to know to resume the transfer.
    pub fn token(&self) -> ResumeToken {
        ResumeToken {
            identity: self.identity.clone(),
            chunks: self.received.len() as u64,
        }
    }

    /// Returns the number of chunks that came whole, and of all, which is 0 before the first frame.
    pub fn chunks(&self) -> (u64, u64) {
        (self.received.len() as u64, self.chunk_count)
    }

    /// Compares a transfer with what is there already: it goes on with that, or replaces it.
    fn start<I: Iterator<Item = Result<Frame>>>(&mut self, incoming: &Incoming<I>) -> Result<()> {
        let begin = incoming.begin();
        let (first, received) = (begin.first_chunk, self.received.len() as u64);
        if first == 0 {
            self.store.clear()?;
            self.received.clear();
        } else if begin.identity != self.identity || first != received {
            let message = format!(
                "the transfer resumes at chunk {first} of another message, or {received} chunks are there"
            );
            return Err(invalid(message));
        }
        self.identity = begin.identity.clone();
        self.chunk_count = begin.chunk_count;
        self.trailer = None;
        Ok(())
    }

    /// Takes a chunk of `size` bytes, and returns its checksum.
    fn add_chunk<I: Iterator<Item = Result<Frame>>>(
        &mut self,
        incoming: &mut Incoming<I>,
        size: u64,
    ) -> Result<u32> {
        let first = incoming.next_piece()?;
        if let Some(said) = first.crc32c {
            check_crc32c(crc32c::crc32c(&first.bytes), said)?;
            self.store.add_whole(first.bytes)?;
            return Ok(said);
        }
        let mut content = ChunkContent {
            incoming,
            piece: first,
            crc32c: 0,
            checked: None,
        };
        self.store.add(size, &mut content)?;
        // A store that stops at the size never asks for the end, where the checksum is compared.
        io::copy(&mut content, &mut io::sink())?;
        content
            .checked
            .ok_or_else(|| invalid("a chunk ended without its checksum"))
    }

    /// Compares what the trailer says of the chunks with what came.
    fn check_trailer(&self, trailer: &ChunkMetadata) -> Result<()> {
        Trailer::from_metadata(trailer.clone(), TrailerUse::Whole, self.options.limits())?;
        let said = trailer.chunks.iter().map(|info| (info.size, info.crc32c));
        let came = self.received.iter().map(|&(size, sum)| (size, Some(sum)));
        if trailer.files.is_empty() && said.eq(came) {
            return Ok(());
        }
        let message = "the trailer is of other chunks than those that came";
        Err(Error::new(ErrorKind::ChecksumMismatch, message))
    }

    /// Returns the bytes of the message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the transfer isn't complete; as
    /// [`Merger::merge`](proto_splitter_core::merge::Merger::merge).
    pub fn into_bytes(self) -> Result<Bytes> {
        let reading = self.options.reading.clone();
        match self.complete()? {
            Complete::Chunks(merger) => merger.finish(),
            Complete::File(file) => file.merge_to_bytes(&reading),
        }
    }

    /// Returns the message, of a type known to the program.
    ///
    /// # Errors
    ///
    /// As [`into_bytes`](Self::into_bytes); [`ErrorKind::InvalidMessage`] if it is not a message of
    /// that type.
    pub fn into_message<M: prost::Message + Default>(self) -> Result<M> {
        let undecodable = |error| invalid(format!("the message can't be decoded: {error}"));
        M::decode(self.into_bytes()?).map_err(undecodable)
    }

    /// Returns the message as a handle whose parts are read as they are asked for. One in memory is
    /// written to a temporary file.
    ///
    /// # Errors
    ///
    /// As [`into_bytes`](Self::into_bytes), but for what a merge finds; [`ErrorKind::Io`].
    pub fn into_chunked_file(mut self) -> Result<ChunkedFile<Arc<dyn ReadAt>>> {
        if let Store::Memory(chunks) = &mut self.store {
            let chunks = std::mem::take(chunks);
            let mut spooled = Store::File(Spool::create(None)?);
            for chunk in chunks {
                spooled.add_whole(chunk)?;
            }
            self.store = spooled;
        }
        match self.complete()? {
            Complete::File(file) => Ok(*file),
            Complete::Chunks(_) => Err(incomplete()),
        }
    }

    /// Writes the merged message to a file, which appears complete or not at all, and returns its size in
    /// bytes.
    ///
    /// # Errors
    ///
    /// As [`into_bytes`](Self::into_bytes); [`ErrorKind::AlreadyExists`] if the file is there and
    /// `force` isn't set; [`ErrorKind::Io`] if writing fails.
    pub fn write_file(self, target: impl AsRef<Path>, force: bool) -> Result<u64> {
        // What comes over a network is in no file.
        let file = AtomicFile::create(target, &MadeFrom::Nothing, force)?;
        file.write(|mut sink| self.write_to(&mut sink))
    }

    /// Writes the merged message to `sink`, and returns its size in bytes.
    ///
    /// # Errors
    ///
    /// As [`into_bytes`](Self::into_bytes), and [`ErrorKind::Io`] if writing fails. Then `sink` has had
    /// bytes that are not to be used.
    pub fn write_to(self, sink: &mut impl Write) -> Result<u64> {
        let reading = self.options.reading.clone();
        let merged = match self.complete()? {
            Complete::Chunks(merger) => merger.finish_to(sink)?,
            Complete::File(file) => file.merge_to(sink, &reading)?,
        };
        Ok(merged.size)
    }

    fn complete(self) -> Result<Complete> {
        let trailer = self.trailer.ok_or_else(incomplete)?;
        match self.store {
            Store::Memory(chunks) => {
                let mut merger = ChunkMerger::new(trailer, self.options.reading)?;
                for (index, chunk) in chunks.into_iter().enumerate() {
                    merger.insert(index, chunk)?;
                }
                Ok(Complete::Chunks(Box::new(merger)))
            }
            Store::File(spool) => {
                let file: Arc<dyn ReadAt> = spool.finish(trailer)?;
                let file = ChunkedFile::from_source(file, self.options.limits())?;
                Ok(Complete::File(Box::new(file)))
            }
        }
    }
}

/// A transfer that has ended.
enum Complete {
    Chunks(Box<ChunkMerger>),
    File(Box<ChunkedFile<Arc<dyn ReadAt>>>),
}

/// The bytes of one chunk as they come, compared with their checksum at the end.
struct ChunkContent<'a, I> {
    incoming: &'a mut Incoming<I>,
    piece: Piece,
    crc32c: u32,
    checked: Option<u32>,
}

impl<I: Iterator<Item = Result<Frame>>> Read for ChunkContent<'_, I> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        while self.piece.bytes.is_empty() {
            if let Some(said) = self.piece.crc32c {
                check_crc32c(self.crc32c, said)?;
                self.checked = Some(said);
                return Ok(0);
            }
            self.piece = self.incoming.next_piece()?;
        }
        let len = buf.len().min(self.piece.bytes.len());
        let bytes = self.piece.bytes.split_to(len);
        self.crc32c = crc32c::crc32c_append(self.crc32c, &bytes);
        buf[..len].copy_from_slice(&bytes);
        Ok(len)
    }
}

fn check_crc32c(found: u32, said: u32) -> Result<()> {
    if found == said {
        return Ok(());
    }
    let message = format!("the chunk has crc32c {found:08x}, where {said:08x} was sent");
    Err(Error::new(ErrorKind::ChecksumMismatch, message))
}

#[cold]
fn incomplete() -> Error {
    let message = "the transfer isn't complete";
    Error::new(ErrorKind::InvalidConfig, message)
}
