//! Receiving a message from its frames.

use std::path::Path;

use bytes::{Bytes, BytesMut};
use proto_splitter_core::container::{Trailer, TrailerUse};
use proto_splitter_core::progress::Meter;
use proto_splitter_core::proto::ChunkMetadata;
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::checks::{check_begin, check_crc32c, check_trailer, piece};
use crate::options::ReceiveOptions;
use crate::proto::{Begin, Data, End, Frame, ResumeToken};
use crate::store::{Place, Spool, Store};

/// A receiver that reassembles a message from its frames, in memory or in a temporary file.
///
/// Frames aren't trusted. [`ReceiveOptions`] limit all sizes, and the checksums of every chunk and
/// of the merged message are verified.
///
/// Frames are [pushed](Self::push) as they arrive, or [read](Self::receive) from an iterator.
#[derive(Debug)]
pub struct Receiver {
    pub(crate) options: ReceiveOptions,
    place: Place,
    pub(crate) store: Option<Store>,
    begin: Begin,
    /// Trailer, with checksums for just the complete chunks; `None` until the trailer has arrived.
    pub(crate) trailer: Option<ChunkMetadata>,
    received: u64,
    /// Total size of the complete chunks, in bytes.
    received_bytes: u64,
    /// crc32c of the concatenated checksums of the complete chunks.
    sums: u32,
    state: State,
    meter: Option<Meter>,
}

/// The part of the transfer that is expected next.
#[derive(Debug)]
enum State {
    Begin,
    Trailer(BytesMut),
    /// The next bytes of the first incomplete chunk. Contains the number of this chunk's bytes
    /// received so far, and their crc32c.
    Chunk {
        offset: u64,
        crc32c: u32,
    },
    Nothing,
}

impl Receiver {
    /// Creates a receiver that keeps the received chunks in memory.
    pub fn in_memory(options: &ReceiveOptions) -> Receiver {
        Receiver::new(options, Place::Memory)
    }

    /// Creates a receiver that keeps the received chunks in an unnamed file in `folder`. `None`
    /// means the system's folder for temporary files. Only one frame is in memory at a time.
    pub fn in_file(folder: Option<&Path>, options: &ReceiveOptions) -> Receiver {
        Receiver::new(options, Place::File(folder.map(Path::to_owned)))
    }

    fn new(options: &ReceiveOptions, place: Place) -> Receiver {
        Receiver {
            options: options.clone(),
            place,
            store: None,
            begin: Begin::default(),
            trailer: None,
            received: 0,
            received_bytes: 0,
            sums: 0,
            state: State::Begin,
            meter: None,
        }
    }

    /// Accepts the next frame of the transfer.
    ///
    /// An error ends the transfer, but complete chunks are kept. Afterwards, only the first frame
    /// of another transfer is accepted. If that transfer is from
    /// [`Frames::resume`](crate::Frames::resume), it continues after the kept chunks; otherwise,
    /// the kept chunks are discarded.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if the frames are inconsistent, or the message doesn't have
    /// the type in the options; [`ErrorKind::ChecksumMismatch`]; [`ErrorKind::LimitExceeded`];
    /// [`ErrorKind::UnsupportedVersion`]; [`ErrorKind::Cancelled`]; [`ErrorKind::Io`] if the
    /// temporary file can't be written.
    pub fn push(&mut self, frame: Frame) -> Result<()> {
        let taken = self.take(frame);
        if taken.is_err() {
            self.break_off();
        }
        taken
    }

    /// Signals that no more frames of the transfer will arrive.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the transfer isn't complete. It can be resumed then.
    pub fn end(&mut self) -> Result<()> {
        let message = match &self.state {
            State::Nothing => return Ok(()),
            State::Begin => "no frame came".to_owned(),
            _ => {
                let (chunk, count) = self.chunks();
                format!("the transfer broke off in chunk {chunk} of {count}")
            }
        };
        self.break_off();
        Err(Error::new(ErrorKind::Io, message))
    }

    /// Ends the current transfer, if any. Complete chunks are kept.
    pub fn break_off(&mut self) {
        self.state = State::Begin;
        match &mut self.store {
            // No first frame was accepted yet, so there are no chunks.
            None => {}
            Some(store) => {
                store.drop_partial();
                if let Store::File(spool) = store {
                    spool.tell(true);
                }
            }
        }
    }

    /// Accepts all frames of a transfer. After an error of kind [`ErrorKind::Io`], such as a broken
    /// connection, the transfer can be resumed by calling this method again, with the frames from
    /// [`Frames::resume`](crate::Frames::resume).
    ///
    /// # Errors
    ///
    /// The first error in `frames`; the errors of [`push`](Self::push) and [`end`](Self::end).
    pub fn receive(&mut self, frames: impl IntoIterator<Item = Result<Frame>>) -> Result<()> {
        for frame in frames {
            match frame {
                Ok(frame) => self.push(frame)?,
                Err(error) => {
                    self.break_off();
                    return Err(error);
                }
            }
        }
        self.end()
    }

    /// Returns the token with which a sender can resume the transfer. The token contains the number
    /// of chunks that have arrived completely.
    pub fn token(&self) -> ResumeToken {
        ResumeToken {
            identity: self.begin.identity.clone(),
            chunks: self.received,
            session: self.begin.session.clone(),
        }
    }

    /// Returns the announcement of the message, which the first frame contains. The announcement is
    /// empty if the first frame hasn't arrived.
    pub fn begin(&self) -> &Begin {
        &self.begin
    }

    /// Returns the number of complete chunks, and the total number of chunks in the message. The
    /// total is 0 if the first frame hasn't arrived.
    pub fn chunks(&self) -> (u64, u64) {
        (self.received, self.begin.chunk_count)
    }

    /// Returns the number of bytes of the chunks that have arrived, including those of an
    /// incomplete chunk, and the total size of all chunks, in bytes. The total is 0 if the first
    /// frame hasn't arrived.
    pub fn bytes(&self) -> (u64, u64) {
        let incomplete = match self.state {
            State::Chunk { offset, .. } => offset,
            _ => 0,
        };
        (self.received_bytes + incomplete, self.begin.chunk_bytes)
    }

    /// Returns true if all frames of the message have arrived, and their checksums match.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Nothing)
    }

    fn take(&mut self, mut frame: Frame) -> Result<()> {
        match (&self.state, frame.begin.take()) {
            (State::Begin, Some(begin)) => self.start(begin)?,
            (State::Begin, None) => return Err(Error::invalid("the first frame has no `begin`")),
            (State::Nothing, _) => return Err(Error::invalid("a frame came after the last")),
            (_, Some(_)) => return Err(Error::invalid("a second `begin` came")),
            (_, None) if frame == Frame::default() => {
                return Err(Error::invalid("an empty frame came"));
            }
            (_, None) => {}
        }
        self.take_trailer(&frame.trailer)?;
        for data in frame.data {
            let taken = self.take_data(data);
            taken.map_err(|error| self.in_chunk_at_hand(error))?;
        }
        match frame.end {
            Some(end) => self.finish(end),
            None => Ok(()),
        }
    }

    /// Starts a transfer. If the new transfer resumes the earlier one, keeps the chunks received so
    /// far, and fails if the new announcement doesn't match the earlier announcement and the number
    /// of these chunks. Otherwise, discards the chunks.
    fn start(&mut self, begin: Begin) -> Result<()> {
        check_begin(&begin, &self.options)?;
        let (first, there) = (begin.first_chunk, self.received);
        if first == 0 {
            self.store = Some(match &self.place {
                Place::Memory => Store::memory(),
                Place::File(folder) => Store::File(Box::new(Spool::create(folder.as_deref())?)),
            });
            (self.received, self.received_bytes) = (0, 0);
            (self.sums, self.trailer) = (0, None);
        } else {
            let expected = Begin {
                first_chunk: first,
                ..self.begin.clone()
            };
            if begin != expected || first != there {
                let message = format!(
                    "the transfer can't resume at chunk {first}: the message is another one, or {there} chunks were received"
                );
                return Err(Error::invalid(message));
            }
            if let Some(Store::File(spool)) = &self.store {
                spool.tell(false);
            }
        }
        self.meter = Some(self.options.get_progress().meter(begin.chunk_bytes));
        self.begin = begin;
        self.advance(self.received_bytes)?;
        self.state = State::Trailer(BytesMut::new());
        Ok(())
    }

    fn take_trailer(&mut self, bytes: &[u8]) -> Result<()> {
        let State::Trailer(trailer) = &mut self.state else {
            if bytes.is_empty() {
                return Ok(());
            }
            return Err(Error::invalid("bytes of the trailer came twice"));
        };
        trailer.extend_from_slice(bytes);
        let (size, said) = (trailer.len() as u64, self.begin.trailer_size);
        if size > said {
            let message = format!("the trailer has {size} bytes, but {said} were announced");
            return Err(Error::invalid(message));
        }
        if size < said {
            return Ok(());
        }
        let found = crc32c::crc32c(trailer);
        check_crc32c("the trailer has", found, self.begin.trailer_crc32c)?;
        // A resumed transfer repeats the trailer, which was parsed before.
        if self.trailer.is_none() {
            let parsed = Trailer::parse(trailer, self.options.limits())?;
            let mut parsed = parsed.metadata().clone();
            check_trailer(&parsed, &self.begin)?;
            parsed.source_crc32c = None;
            // The receiver doesn't get the nodes of the message's Merkle tree.
            parsed.merkle_tree = None;
            for info in &mut parsed.chunks {
                (info.offset, info.file, info.crc32c) = (0, 0, None);
            }
            self.trailer = Some(parsed);
        }
        self.state = State::Chunk {
            offset: 0,
            crc32c: 0,
        };
        Ok(())
    }

    fn take_data(&mut self, data: Data) -> Result<()> {
        let State::Chunk { offset, crc32c } = self.state else {
            return Err(Error::invalid(
                "bytes of a chunk came before the trailer ended",
            ));
        };
        let chunk = self.received;
        let index = usize::try_from(chunk).unwrap_or(usize::MAX);
        let trailer = self.trailer.as_mut();
        let (Some(info), Some(store)) = (
            trailer.and_then(|trailer| trailer.chunks.get_mut(index)),
            self.store.as_mut(),
        ) else {
            return Err(Error::invalid("bytes of a chunk came after the last chunk"));
        };
        let said = data.crc32c;
        let bytes = piece(data, chunk, offset, info.size)?;
        let (len, left) = (bytes.len() as u64, info.size - offset);
        let crc32c = crc32c::crc32c_append(crc32c, &bytes);
        if let Some(said) = said {
            check_crc32c("the chunk has", crc32c, said)?;
        }
        if len == info.size {
            store.add_whole(bytes)?;
        } else {
            if offset == 0 {
                store.begin(info.size)?;
            }
            store.push(&bytes, left)?;
            if len == left {
                store.finish_chunk()?;
            }
        }
        self.state = State::Chunk {
            offset: offset + len,
            crc32c,
        };
        if len == left {
            info.crc32c = Some(crc32c);
            self.sums = crc32c::crc32c_append(self.sums, &crc32c.to_le_bytes());
            self.received += 1;
            self.received_bytes += info.size;
            self.state = State::Chunk {
                offset: 0,
                crc32c: 0,
            };
        }
        self.advance(len)
    }

    /// Adds to an error the index and the field path of the current chunk, and the number of the
    /// chunk's bytes received so far.
    #[cold]
    fn in_chunk_at_hand(&self, error: Error) -> Error {
        let chunk = usize::try_from(self.received).unwrap_or(usize::MAX);
        let error = error.in_chunk(chunk);
        let State::Chunk { offset, .. } = self.state else {
            return error;
        };
        let error = error.at_offset(offset);
        let limits = self.options.limits();
        let trailer = (self.trailer.clone())
            .and_then(|trailer| Trailer::from_metadata(trailer, TrailerUse::Part, limits).ok());
        let places = trailer.map(|trailer| trailer.places()).unwrap_or_default();
        let Some(place) = places.get(chunk).and_then(|places| places.first()) else {
            return error;
        };
        let root = self.options.get_reading().get_descriptor();
        error.at_path(place.path.display(root))
    }

    fn finish(&mut self, end: End) -> Result<()> {
        let (received, count) = self.chunks();
        if received < count || !matches!(self.state, State::Chunk { .. }) {
            let message = format!("the end came in chunk {received} of {count}");
            return Err(Error::invalid(message));
        }
        check_crc32c("the chunks together have", self.sums, end.chunks_crc32c)?;
        if let Some(trailer) = &mut self.trailer {
            if trailer.source_size.is_some() && end.source_crc32c.is_none() {
                return Err(Error::invalid("the end has no checksum of the message"));
            }
            trailer.source_crc32c = end.source_crc32c;
        }
        self.state = State::Nothing;
        Ok(())
    }

    fn advance(&self, bytes: u64) -> Result<()> {
        let meter = self.meter.as_ref();
        meter.map_or(Ok(()), |meter| meter.advance(bytes))
    }

    /// Returns the chunks, the trailer and the options. Fails unless the transfer is complete.
    pub(crate) fn complete(self) -> Result<(Store, ChunkMetadata, ReceiveOptions)> {
        match (self.is_complete(), self.store, self.trailer) {
            (true, Some(store), Some(trailer)) => Ok((store, trailer, self.options)),
            _ => {
                let message = "the transfer isn't complete";
                Err(Error::new(ErrorKind::InvalidConfig, message))
            }
        }
    }
}

/// Decodes a frame of a transfer.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if the bytes aren't a serialized frame.
pub fn decode_frame(bytes: Bytes) -> Result<Frame> {
    let undecodable = |error| Error::invalid(format!("a frame can't be decoded: {error}"));
    prost::Message::decode(bytes).map_err(undecodable)
}
