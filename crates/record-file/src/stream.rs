//! Reading one record as a stream.
use std::io::{self, Read};

use bytes::{Buf, Bytes};

use crate::codec::{StreamDecoder, resize};
use crate::compression::CompressionKind;
use crate::error::{Error, ErrorKind, Result};
use crate::file::RecordFile;
use crate::payload::{Payload, check_limit};
use crate::read_at::ReadAt;
use crate::simple::{Front, record_ends};

/// Sizes of one record, compressed by whatever: some tens of bytes. If more are claimed, the chunk is decoded whole.
const MAX_FRONT: u64 = 4096;

/// How much of a compressed record is read at first: of many only the beginning is wanted, and a decoder may decode all that it is given.
const FIRST_PENDING: u64 = 4 << 10;
/// How much is read at once later on: small enough to stay in a core's cache until it is decoded.
const MOST_PENDING: u64 = 128 << 10;

/// One record, read as a stream.
///
/// The hash is known only at the end: what was read before is verified by the read that returns the last bytes,
/// which fails, with an [`io::Error`] that wraps an [`Error`], if the record is damaged.
pub struct RecordStream<'a, S> {
    file: &'a RecordFile<S>,
    state: State,
    remaining: u64,
}

enum State {
    Memory(Bytes),
    Plain(Box<Payload>),
    Compressed(Box<Compressed>),
    /// All was read and verified.
    Ended,
    Failed,
}

struct Compressed {
    kind: CompressionKind,
    payload: Payload,
    /// None before the first byte is decoded.
    decoder: Option<StreamDecoder>,
    /// Stored bytes that were read, and from where on they are not decoded yet.
    pending: Vec<u8>,
    at: usize,
    /// How much is read next.
    next_len: u64,
    /// The decoder may have more output without more input.
    has_more: bool,
}

impl<'a, S: ReadAt> RecordStream<'a, S> {
    /// Opens the only record of a simple chunk; `None` if it must be decoded as a whole.
    pub(crate) fn open(file: &'a RecordFile<S>, mut payload: Payload) -> Result<Option<Self>> {
        let chunk = *payload.chunk();
        let begin = chunk.begin;
        let mut input = &file.source;
        let mut front = Vec::new();
        payload.append(&mut input, 1, &mut front)?;
        payload.append_varint(&mut input, &mut front)?;
        let front = Front::parse(&front, &chunk)?;
        let sizes_len = front.sizes.end - front.sizes.start;
        if sizes_len > MAX_FRONT || front.compression == CompressionKind::Snappy {
            return Ok(None);
        }
        let mut sizes = Vec::new();
        payload.append(&mut input, sizes_len, &mut sizes)?;
        let kind = front.compression;
        file.with_decoders(|decoders| {
            let ends = record_ends(kind, &sizes, &chunk, decoders, &file.options)?;
            decoders.memory.give_ends(ends);
            Ok::<_, Error>(())
        })?;
        let remaining = chunk.header.decoded_data_size;
        let claimed = if kind == CompressionKind::None {
            payload.left()
        } else {
            let mut size = Vec::new();
            payload.append_varint(&mut input, &mut size)?;
            crate::simple::take_size(&mut &size[..], begin)?
        };
        if claimed != remaining {
            return Err(Error::corrupt(
                begin,
                format!("{claimed} bytes of values, not {remaining}"),
            ));
        }
        let state = if kind == CompressionKind::None {
            State::Plain(Box::new(payload))
        } else {
            State::Compressed(Box::new(Compressed {
                kind,
                payload,
                decoder: None,
                pending: Vec::new(),
                at: 0,
                next_len: FIRST_PENDING,
                has_more: false,
            }))
        };
        Ok(Some(RecordStream {
            file,
            state,
            remaining,
        }))
    }

    pub(crate) fn of_memory(file: &'a RecordFile<S>, record: Bytes) -> Self {
        RecordStream {
            file,
            remaining: record.len() as u64,
            state: State::Memory(record),
        }
    }

    /// Bytes of the record not read yet.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Skips `n` bytes, or all that remain if they are fewer. They are verified all the same.
    ///
    /// # Errors
    ///
    /// As reading them.
    pub fn skip(&mut self, n: u64) -> Result<()> {
        let mut left = n.min(self.remaining);
        let mut scratch = [0; 16 << 10];
        while left > 0 {
            if let State::Plain(payload) = &mut self.state {
                match payload.piece(&mut &self.file.source, left) {
                    Ok(piece) => {
                        left -= piece.len() as u64;
                        self.remaining -= piece.len() as u64;
                    }
                    Err(fault) => return Err(self.fail(fault.into())),
                }
            } else {
                let most =
                    usize::try_from(left).map_or(scratch.len(), |left| left.min(scratch.len()));
                left -= self.read_some(&mut scratch[..most])? as u64;
            }
        }
        self.check_end()
    }

    /// Reads the whole record, of which nothing may have been read, to `buf`, which is as long.
    pub(crate) fn read_whole(mut self, buf: &mut [u8]) -> Result<()> {
        if let State::Compressed(compressed) = &mut self.state {
            let chunk = *compressed.payload.chunk();
            let options = &self.file.options;
            // In one go needs no window, and so is the way out when the window is too large.
            let streamed = chunk.header.data_size > options.stream_from
                || chunk.header.data_size > options.max_chunk_memory;
            if !streamed {
                return compressed.decode_whole(self.file, buf);
            }
            let file = self.file;
            return match self.fill(buf) {
                Err(error) if error.kind() == ErrorKind::LimitExceeded => {
                    check_limit(
                        &chunk,
                        chunk.header.data_size,
                        file.options.max_chunk_memory,
                    )?;
                    let Some(RecordStream { mut state, .. }) =
                        RecordStream::open(file, Payload::hashed(chunk))?
                    else {
                        return Err(error);
                    };
                    let State::Compressed(compressed) = &mut state else {
                        return Err(error);
                    };
                    compressed.decode_whole(file, buf)
                }
                result => result,
            };
        }
        self.fill(buf)
    }

    fn fill(&mut self, mut buf: &mut [u8]) -> Result<()> {
        while !buf.is_empty() {
            let n = self.read_some(buf)?;
            buf = &mut buf[n..];
        }
        self.check_end()
    }

    /// Reads at least a byte of what remains, which is more than nothing, as is `buf`.
    fn read_some(&mut self, buf: &mut [u8]) -> Result<usize> {
        let most = usize::try_from(self.remaining).map_or(buf.len(), |left| left.min(buf.len()));
        let buf = &mut buf[..most];
        let result = match &mut self.state {
            State::Memory(record) => {
                record.copy_to_slice(buf);
                Ok(buf.len())
            }
            State::Plain(payload) => payload
                .read(&mut &self.file.source, buf)
                .map(|()| buf.len())
                .map_err(Error::from),
            State::Compressed(compressed) => compressed.read_some(self.file, buf),
            State::Ended => Ok(0),
            State::Failed => Err(Error::closed("reading the record failed before")),
        };
        match result {
            Ok(n) => {
                self.remaining -= n as u64;
                self.check_end()?;
                Ok(n)
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Once all bytes were read: makes sure that nothing else is stored, and compares the hash.
    fn check_end(&mut self) -> Result<()> {
        if self.remaining > 0 {
            return Ok(());
        }
        let result = match &mut self.state {
            State::Plain(payload) => payload.finish(&mut &self.file.source).map_err(Error::from),
            State::Compressed(compressed) => {
                let size = compressed.payload.chunk().header.decoded_data_size;
                compressed.finish(self.file, size)
            }
            State::Failed => Err(Error::closed("reading the record failed before")),
            State::Memory(_) | State::Ended => Ok(()),
        };
        match result {
            Ok(()) => {
                self.state = State::Ended;
                Ok(())
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    fn fail(&mut self, error: Error) -> Error {
        self.state = State::Failed;
        error
    }
}

impl Compressed {
    fn read_some<S: ReadAt>(&mut self, file: &RecordFile<S>, buf: &mut [u8]) -> Result<usize> {
        let begin = self.payload.chunk().begin;
        loop {
            let had_more = self.has_more;
            if !had_more {
                self.refill(&file.source)?;
            }
            let decoder = decoder(&mut self.decoder, self.kind, file)?;
            let progress = decoder
                .run(&self.pending[self.at..], buf)
                .map_err(|error| error.or_at(begin))?;
            self.at += progress.read;
            self.has_more = progress.written == buf.len();
            if progress.written > 0 {
                return Ok(progress.written);
            }
            if progress.read == 0 && !had_more {
                return Err(Error::corrupt(begin, "compressed stream ends early"));
            }
        }
    }

    fn refill<S: ReadAt>(&mut self, mut source: &S) -> Result<()> {
        if self.at == self.pending.len() {
            // At most MOST_PENDING, which fits.
            let len = self.payload.left().min(self.next_len);
            self.next_len = (self.next_len * 2).min(MOST_PENDING);
            self.pending.resize(usize::try_from(len).unwrap_or(0), 0);
            self.at = 0;
            self.payload.read(&mut source, &mut self.pending)?;
        }
        Ok(())
    }

    fn finish<S: ReadAt>(&mut self, file: &RecordFile<S>, size: u64) -> Result<()> {
        let begin = self.payload.chunk().begin;
        loop {
            self.refill(&file.source)?;
            let input = &self.pending[self.at..];
            let decoder = decoder(&mut self.decoder, self.kind, file)?;
            let read = decoder
                .finish_step(input, size)
                .map_err(|error| error.or_at(begin))?;
            if decoder.ended() {
                let mut source = &file.source;
                if read < input.len() || self.payload.left() > 0 {
                    // A wrong hash says more than what it led to.
                    self.payload.finish(&mut source)?;
                    return Err(Error::corrupt(begin, "bytes after the compressed stream"));
                }
                if let Some(decoder) = self.decoder.take() {
                    file.with_decoders(|decoders| decoders.give_back(decoder));
                }
                return Ok(self.payload.finish(&mut source)?);
            }
            if input.is_empty() || read == 0 {
                return Err(Error::corrupt(begin, "compressed stream ends early"));
            }
            self.at += read;
        }
    }

    fn decode_whole<S: ReadAt>(&mut self, file: &RecordFile<S>, buf: &mut [u8]) -> Result<()> {
        let begin = self.payload.chunk().begin;
        file.with_decoders(|decoders| {
            let left = self.payload.left();
            let mut stored = decoders.memory.take(left);
            resize(&mut stored, left)?;
            let mut source = &file.source;
            self.payload.read(&mut source, &mut stored)?;
            self.payload.finish(&mut source)?;
            let result = decoders.decompress_into(self.kind, &stored, buf);
            decoders.memory.give(stored);
            result.map_err(|error| error.or_at(begin))
        })
    }
}

/// The decoder of a stream, which is taken from those of the file when it is first needed.
fn decoder<'d, S>(
    decoder: &'d mut Option<StreamDecoder>,
    kind: CompressionKind,
    file: &RecordFile<S>,
) -> Result<&'d mut StreamDecoder>
where
    S: ReadAt,
{
    if decoder.is_none() {
        let most = file.options.max_window_log;
        *decoder = Some(file.with_decoders(|decoders| decoders.open_stream(kind, most))?);
    }
    decoder
        .as_mut()
        .ok_or_else(|| Error::closed("the record has no decoder"))
}

impl<S: ReadAt> Read for RecordStream<'_, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        if self.remaining == 0 {
            // Nothing was read from an empty record before this.
            self.check_end()?;
            return Ok(0);
        }
        Ok(self.read_some(buf)?)
    }
}

impl<S> std::fmt::Debug for RecordStream<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordStream")
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}
