//! Getting the message out of a receiver: as bytes, as a generated type, in a file, or as a handle.

use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::container::{ChunkedFile, Trailer, TrailerUse};
use proto_splitter_core::merge::{ReadOptions, shared_pieces};
use proto_splitter_core::proto::ChunkMetadata;
use proto_splitter_core::{Error, Result};
use record_file::ReadAt;

use crate::receive::Receiver;
use crate::store::{Spool, Store};

impl Receiver {
    /// Merges the received chunks, and returns the bytes of the message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](proto_splitter_core::ErrorKind::InvalidConfig) if the transfer
    /// isn't complete; the errors of [`Merger::merge`](proto_splitter_core::merge::Merger::merge).
    pub fn into_bytes(self) -> Result<Bytes> {
        match self.into_whole()? {
            Whole::Pieces(mut pieces) => Ok(pieces.copy_to_bytes(pieces.remaining())),
            Whole::File(file, reading) => file.merge_to_bytes(&reading),
        }
    }

    /// Merges the received chunks, and decodes the message as a generated type. If the chunks are
    /// in memory, fields of type [`Bytes`] share this memory.
    ///
    /// # Errors
    ///
    /// The errors of [`into_bytes`](Self::into_bytes);
    /// [`ErrorKind::InvalidMessage`](proto_splitter_core::ErrorKind::InvalidMessage) if the message
    /// can't be decoded as `M`.
    pub fn into_message<M: prost::Message + Default>(self) -> Result<M> {
        let undecodable = |error| Error::invalid(format!("the message can't be decoded: {error}"));
        match self.into_whole()? {
            Whole::Pieces(pieces) => M::decode(pieces),
            Whole::File(file, reading) => M::decode(file.merge_to_bytes(&reading)?),
        }
        .map_err(undecodable)
    }

    /// Returns the received chunks as a chunked file, whose parts are read on demand. If the chunks
    /// are in memory, they are written to a temporary file.
    ///
    /// # Errors
    ///
    /// The errors of [`into_reader`](Self::into_reader) and of [`ChunkedFile::from_source`].
    pub fn into_chunked_file(self) -> Result<ChunkedFile<Arc<dyn ReadAt>>> {
        let limits = self.options.limits().clone();
        ChunkedFile::from_source(self.into_reader()?, &limits)
    }

    /// Returns the received chunks and the trailer as an unnamed file in the `.cpb` format. If the
    /// chunks are in memory, they are written to a temporary file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](proto_splitter_core::ErrorKind::InvalidConfig) if the transfer
    /// isn't complete; [`ErrorKind::Io`](proto_splitter_core::ErrorKind::Io).
    pub fn into_reader(self) -> Result<Arc<dyn ReadAt>> {
        let (store, trailer, _) = self.complete()?;
        match store {
            Store::File(spool) => finished(&spool, trailer),
            Store::Memory { chunks, .. } => {
                let mut spool = Spool::create(None)?;
                for chunk in chunks {
                    spool.add_whole(&chunk)?;
                }
                finished(&spool, trailer)
            }
        }
    }

    /// Returns a chunked file that can be read before the whole message has arrived. A read waits
    /// until its bytes have arrived. Returns `None` for a receiver in memory, and before the whole
    /// trailer has arrived.
    ///
    /// The checksum of each chunk is verified before the chunk can be read, but the checksum of the
    /// whole message isn't. If the transfer breaks off, or the receiver is dropped before the end
    /// of the transfer, reads of missing bytes fail with
    /// [`ErrorKind::Io`](proto_splitter_core::ErrorKind::Io).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidTrailer`](proto_splitter_core::ErrorKind::InvalidTrailer) if the trailer
    /// is inconsistent;
    /// [`ErrorKind::LimitExceeded`](proto_splitter_core::ErrorKind::LimitExceeded).
    pub fn handle(&self) -> Result<Option<ChunkedFile<Arc<dyn ReadAt>>>> {
        let (Some(Store::File(spool)), Some(trailer)) = (&self.store, &self.trailer) else {
            return Ok(None);
        };
        let (file, mut trailer) = spool.arriving(trailer.clone())?;
        for info in &mut trailer.chunks {
            info.crc32c = None;
        }
        let source: Arc<dyn ReadAt> = Arc::clone(&file) as _;
        let chunked = ChunkedFile::with_metadata(source, trailer, self.options.limits())?;
        file.opened();
        Ok(Some(chunked))
    }

    /// Writes the merged message to a file, and returns the file's size in bytes. The file is
    /// written atomically.
    ///
    /// # Errors
    ///
    /// The errors of [`into_bytes`](Self::into_bytes);
    /// [`ErrorKind::AlreadyExists`](proto_splitter_core::ErrorKind::AlreadyExists) if the file
    /// exists and `force` isn't set; [`ErrorKind::Io`](proto_splitter_core::ErrorKind::Io) if
    /// writing fails.
    pub fn write_file(self, target: impl AsRef<Path>, force: bool) -> Result<u64> {
        // There is no input file whose permissions the output could have.
        let file = AtomicFile::create(target, &MadeFrom::Nothing, force)?;
        file.write(|mut sink| self.write_to(&mut sink))
    }

    /// Writes the merged message to `sink`, and returns the message's size in bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`into_bytes`](Self::into_bytes);
    /// [`ErrorKind::Io`](proto_splitter_core::ErrorKind::Io) if writing fails. After an error,
    /// discard the bytes already written to `sink`.
    pub fn write_to(self, sink: &mut impl Write) -> Result<u64> {
        match self.into_whole()? {
            Whole::Pieces(pieces) => {
                let size = pieces.left as u64;
                for piece in pieces.queue {
                    sink.write_all(&piece)?;
                }
                Ok(size)
            }
            Whole::File(file, reading) => Ok(file.merge_to(sink, &reading)?.size),
        }
    }

    fn into_whole(self) -> Result<Whole> {
        let (store, trailer, options) = self.complete()?;
        match store {
            Store::Memory { chunks, .. } => {
                let trailer = Trailer::from_metadata(trailer, TrailerUse::Whole, options.limits())?;
                // These checksums were computed when the chunks arrived, so they needn't be
                // computed again.
                let sums = trailer.metadata().chunks.iter().map(|info| info.crc32c);
                let sums: Vec<Option<u32>> = sums.collect();
                let known = |chunk: usize| sums.get(chunk).copied().flatten();
                let pieces = shared_pieces(&trailer, &chunks, known, options.get_reading())?;
                Ok(Whole::Pieces(Pieces::new(pieces)))
            }
            Store::File(spool) => {
                let file = finished(&spool, trailer)?;
                let file = ChunkedFile::from_source(file, options.limits())?;
                Ok(Whole::File(Box::new(file), options.get_reading().clone()))
            }
        }
    }
}

fn finished(spool: &Spool, trailer: ChunkMetadata) -> Result<Arc<dyn ReadAt>> {
    Ok(spool.finish(trailer).map_err(Error::from)?)
}

/// A received message, which is merged from memory or from a file.
enum Whole {
    Pieces(Pieces),
    File(Box<ChunkedFile<Arc<dyn ReadAt>>>, ReadOptions),
}

/// A message that consists of pieces in memory. Each piece is released once it has been read.
struct Pieces {
    queue: VecDeque<Bytes>,
    left: usize,
}

impl Pieces {
    fn new(pieces: Vec<Bytes>) -> Pieces {
        let queue: VecDeque<Bytes> = pieces.into_iter().filter(|one| !one.is_empty()).collect();
        let left = queue.iter().map(Bytes::len).sum();
        Pieces { queue, left }
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.left
    }

    fn chunk(&self) -> &[u8] {
        self.queue.front().map_or(&[], |piece| &piece[..])
    }

    #[allow(clippy::panic, reason = "as `Buf` asks")]
    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.left, "{count} bytes of {}", self.left);
        self.left -= count;
        while let Some(piece) = self.queue.front_mut() {
            if count < piece.len() {
                piece.advance(count);
                return;
            }
            count -= piece.len();
            self.queue.pop_front();
        }
    }

    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        if let Some(piece) = self.queue.front_mut()
            && len <= piece.len()
        {
            let bytes = piece.split_to(len);
            self.left -= len;
            if piece.is_empty() {
                self.queue.pop_front();
            }
            return bytes;
        }
        let mut copied = BytesMut::with_capacity(len);
        copied.put(self.take(len));
        copied.freeze()
    }
}
