//! A single record, read piece by piece from a file or a reader.
use bytes::{Buf, Bytes};

use crate::chunk::Chunk;
use crate::codec::{Decoders, StreamDecoder};
use crate::compression::CompressionKind;
use crate::error::{Error, Result};
use crate::fault::Fault;
use crate::input::RecordInput;
use crate::options::ReaderOptions;
use crate::payload::Payload;
use crate::simple::{Front, record_ends, take_size};

/// Maximum stored length, in bytes, of the list of record sizes that precedes a streamed record. A
/// list with a single size takes a few tens of bytes, even if it doesn't compress. A chunk that
/// claims a longer list is decoded as a whole.
const MAX_FRONT: u64 = 4096;

/// Size of the first read of a compressed record, in bytes. It is small, since often only the
/// beginning of the record is wanted, and a decoder may decode everything that was read.
const FIRST_PENDING: u64 = 4 << 10;
/// Maximum size of the reads after the first read, in bytes: small enough for the bytes to stay in
/// a core's cache until they are decoded.
const MOST_PENDING: u64 = 128 << 10;

/// The parts of a file or reader that are needed to read one record.
pub(crate) trait Access {
    type RecordInput: RecordInput + ?Sized;

    fn options(&self) -> &ReaderOptions;

    fn input(&mut self) -> &mut Self::RecordInput;

    /// Calls `run` with decompressors.
    fn with_decoders<T>(&mut self, run: impl FnOnce(&mut Decoders) -> T) -> T;
}

/// The unread part of a record.
pub(crate) struct OneRecord {
    state: State,
    remaining: u64,
}

enum State {
    Memory(Bytes),
    Plain(Box<Payload>),
    Compressed(Box<Compressed>),
    /// All bytes were read and verified.
    Ended,
    Failed,
}

struct Compressed {
    kind: CompressionKind,
    payload: Payload,
    /// `None` before the first byte is decoded.
    decoder: Option<StreamDecoder>,
    /// Stored bytes that were read. The bytes before `at` are already decoded.
    pending: Vec<u8>,
    at: usize,
    /// Size of the next read, in bytes.
    next_len: u64,
    /// True if the decoder may have more output without more input.
    has_more: bool,
}

/// The result of opening a simple chunk with one record.
pub(crate) enum Opened {
    Stream(OneRecord),
    /// A record that can't be streamed: the chunk's data that was already read, and the remaining
    /// data.
    Whole(Vec<u8>, Box<Payload>),
}

impl OneRecord {
    /// Opens the only record in a simple chunk, before any of the chunk's data is read.
    pub(crate) fn open<A: Access>(access: &mut A, mut payload: Payload) -> Result<Opened, Fault> {
        let mut read = Vec::new();
        match read_front(access, &mut payload, &mut read) {
            Ok(Some(kind)) => Ok(Opened::Stream(OneRecord::new(kind, payload))),
            Ok(None) => Ok(Opened::Whole(read, Box::new(payload))),
            Err(fault) => Err(payload.hash_first(access.input(), fault)),
        }
    }

    /// Returns a record whose stored bytes are the remaining data in `payload`.
    pub(crate) fn new(kind: CompressionKind, payload: Payload) -> Self {
        OneRecord {
            remaining: payload.chunk().header.decoded_data_size,
            state: match kind {
                CompressionKind::None => State::Plain(Box::new(payload)),
                _ => State::Compressed(Box::new(Compressed {
                    kind,
                    payload,
                    decoder: None,
                    pending: Vec::new(),
                    at: 0,
                    next_len: FIRST_PENDING,
                    has_more: false,
                })),
            },
        }
    }

    pub(crate) fn of_memory(record: Bytes) -> Self {
        OneRecord {
            remaining: record.len() as u64,
            state: State::Memory(record),
        }
    }

    /// Returns the number of bytes not yet read.
    pub(crate) fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Skips `n` bytes, or all remaining bytes if there are fewer.
    pub(crate) fn skip<A: Access>(&mut self, access: &mut A, n: u64) -> Result<()> {
        let mut left = n.min(self.remaining);
        let mut scratch = [0; 16 << 10];
        while left > 0 {
            if let State::Plain(payload) = &mut self.state {
                match payload.piece(access.input(), left) {
                    Ok(piece) => {
                        left -= piece.len() as u64;
                        self.remaining -= piece.len() as u64;
                    }
                    Err(fault) => return Err(self.fail(access, fault)),
                }
            } else {
                let most =
                    usize::try_from(left).map_or(scratch.len(), |left| left.min(scratch.len()));
                left -= self.read_some(access, &mut scratch[..most])? as u64;
            }
        }
        self.check_end(access)
    }

    /// Returns the compression and the stored bytes of a record that hasn't been read yet, or the
    /// record itself if it is in memory.
    pub(crate) fn into_stored(self) -> Result<(CompressionKind, Payload), Self> {
        match self.state {
            State::Plain(payload) => Ok((CompressionKind::None, *payload)),
            State::Compressed(compressed) => Ok((compressed.kind, compressed.payload)),
            state => Err(OneRecord { state, ..self }),
        }
    }

    /// Reads at least one byte, unless none remain or `buf` is empty.
    pub(crate) fn read<A: Access>(&mut self, access: &mut A, buf: &mut [u8]) -> Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        if self.remaining == 0 {
            // An empty record hasn't been verified by an earlier read.
            self.check_end(access)?;
            return Ok(0);
        }
        self.read_some(access, buf)
    }

    /// Reads at least one byte. At least one byte must remain, and `buf` must not be empty.
    fn read_some<A: Access>(&mut self, access: &mut A, buf: &mut [u8]) -> Result<usize> {
        let most = usize::try_from(self.remaining).map_or(buf.len(), |left| left.min(buf.len()));
        let buf = &mut buf[..most];
        let result = match &mut self.state {
            State::Memory(record) => {
                record.copy_to_slice(buf);
                Ok(buf.len())
            }
            State::Plain(payload) => payload.read(access.input(), buf).map(|()| buf.len()),
            State::Compressed(compressed) => compressed.read_some(access, buf),
            State::Ended => Ok(0),
            State::Failed => return Err(failed_before()),
        };
        match result {
            Ok(n) => {
                self.remaining -= n as u64;
                self.check_end(access)?;
                Ok(n)
            }
            Err(fault) => Err(self.fail(access, fault)),
        }
    }

    /// If all bytes of the record have been read, checks that no more bytes are stored, and
    /// verifies the hash.
    pub(crate) fn check_end<A: Access>(&mut self, access: &mut A) -> Result<()> {
        if self.remaining > 0 {
            return Ok(());
        }
        let result = match &mut self.state {
            State::Plain(payload) => payload.finish(access.input()),
            State::Compressed(compressed) => compressed.finish(access),
            State::Failed => return Err(failed_before()),
            State::Memory(_) | State::Ended => Ok(()),
        };
        match result {
            Ok(()) => {
                self.state = State::Ended;
                Ok(())
            }
            Err(fault) => Err(self.fail(access, fault)),
        }
    }

    fn fail<A: Access>(&mut self, access: &mut A, fault: Fault) -> Error {
        let fault = match std::mem::replace(&mut self.state, State::Failed) {
            State::Compressed(mut compressed) => {
                compressed.payload.hash_first(access.input(), fault)
            }
            _ => fault,
        };
        fault.error
    }
}

fn failed_before() -> Error {
    Error::closed("reading the record failed before")
}

/// Reads and checks the chunk's data before the record, and returns the compression. Returns `None`
/// if the record can't be read piece by piece.
fn read_front<A: Access>(
    access: &mut A,
    payload: &mut Payload,
    read: &mut Vec<u8>,
) -> Result<Option<CompressionKind>, Fault> {
    let chunk = *payload.chunk();
    let begin = chunk.begin;
    let wrong = |error| Fault::in_data(&chunk, error);
    payload.append(access.input(), 1, read)?;
    payload.append_varint(access.input(), read)?;
    let front = Front::parse(read, &chunk).map_err(wrong)?;
    let kind = front.compression;
    let sizes_len = front.sizes.end - front.sizes.start;
    if sizes_len > MAX_FRONT {
        return Ok(None);
    }
    let mut sizes = Vec::new();
    payload.append(access.input(), sizes_len, &mut sizes)?;
    let options = *access.options();
    access
        .with_decoders(|decoders| {
            let ends = record_ends(kind, &sizes, &chunk, decoders, &options)?;
            decoders.memory.give_ends(ends);
            Ok(())
        })
        .map_err(wrong)?;
    let expected = chunk.header.decoded_data_size;
    let claimed = if kind == CompressionKind::None {
        payload.left()
    } else {
        let mut size = Vec::new();
        payload.append_varint(access.input(), &mut size)?;
        take_size(&mut &size[..], begin).map_err(wrong)?
    };
    if claimed == expected {
        return Ok(Some(kind));
    }
    let detail = format!("chunk has {claimed} bytes of values, not {expected}");
    Err(wrong(Error::corrupt(begin, detail)))
}

impl Compressed {
    fn read_some<A: Access>(&mut self, access: &mut A, buf: &mut [u8]) -> Result<usize, Fault> {
        let chunk = *self.payload.chunk();
        let wrong = |error| Fault::in_data(&chunk, error);
        loop {
            let had_more = self.has_more;
            if !had_more {
                self.refill(access)?;
            }
            let input = &self.pending[self.at..];
            let progress = decoder(&mut self.decoder, self.kind, access)
                .and_then(|decoder| decoder.run(input, buf))
                .map_err(wrong)?;
            self.at += progress.read;
            self.has_more = progress.written == buf.len();
            if progress.written > 0 {
                return Ok(progress.written);
            }
            if progress.read == 0 && !had_more {
                return Err(ends_early(&chunk));
            }
        }
    }

    fn refill<A: Access>(&mut self, access: &mut A) -> Result<(), Fault> {
        if self.at == self.pending.len() {
            // The length is at most MOST_PENDING, so it fits in a `usize`.
            let len = self.payload.left().min(self.next_len);
            self.next_len = (self.next_len * 2).min(MOST_PENDING);
            self.pending.resize(usize::try_from(len).unwrap_or(0), 0);
            self.at = 0;
            self.payload.read(access.input(), &mut self.pending)?;
        }
        Ok(())
    }

    fn finish<A: Access>(&mut self, access: &mut A) -> Result<(), Fault> {
        let chunk = *self.payload.chunk();
        let wrong = |error| Fault::in_data(&chunk, error);
        loop {
            self.refill(access)?;
            let input = &self.pending[self.at..];
            let decoder = decoder(&mut self.decoder, self.kind, access).map_err(wrong)?;
            let read = decoder
                .finish_step(input, chunk.header.decoded_data_size)
                .map_err(wrong)?;
            if decoder.ended() {
                if read < input.len() || self.payload.left() > 0 {
                    let error = Error::corrupt(chunk.begin, "bytes after the compressed stream");
                    return Err(wrong(error));
                }
                if let Some(decoder) = self.decoder.take() {
                    access.with_decoders(|decoders| decoders.give_back(decoder));
                }
                return self.payload.finish(access.input());
            }
            if input.is_empty() || read == 0 {
                return Err(ends_early(&chunk));
            }
            self.at += read;
        }
    }
}

#[cold]
fn ends_early(chunk: &Chunk) -> Fault {
    Fault::in_data(
        chunk,
        Error::corrupt(chunk.begin, "compressed stream ends early"),
    )
}

/// Returns the decoder of a record. The first call gets the decoder from the reusable
/// decompressors.
fn decoder<'d, A: Access>(
    decoder: &'d mut Option<StreamDecoder>,
    kind: CompressionKind,
    access: &mut A,
) -> Result<&'d mut StreamDecoder> {
    if decoder.is_none() {
        let most = access.options().max_window_log;
        *decoder = Some(access.with_decoders(|decoders| decoders.open_stream(kind, most))?);
    }
    decoder
        .as_mut()
        .ok_or_else(|| Error::closed("the record has no decoder"))
}
