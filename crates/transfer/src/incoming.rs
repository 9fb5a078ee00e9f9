//! The frames of one transfer as they come in, checked against each other.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use prost::Message;
use proto_splitter_core::proto::ChunkMetadata;
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::VERSION;
use crate::options::ReceiveOptions;
use crate::proto::{Begin, Data, Frame};

/// Largest size of a frame's piece once it is decompressed, whatever it claims: 64 MiB.
const MAX_PIECE_SIZE: u64 = 64 << 20;

/// Consecutive bytes of the chunk at hand.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    /// The crc32c of the chunk, if this is its last piece.
    pub(crate) crc32c: Option<u32>,
}

/// The frames of one transfer. Each frame is checked before anything of it is given on: the order of
/// fields, chunks and pieces, and that sizes are what was announced.
#[derive(Debug)]
pub(crate) struct Incoming<I> {
    frames: I,
    begin: Begin,
    data: VecDeque<Data>,
    /// The chunk that comes next or is at hand, how much of it there was, and its size.
    chunk: u64,
    offset: u64,
    chunk_size: u64,
    /// Bytes of chunks that may still come.
    left: u64,
    trailer: BytesMut,
    max_trailer_size: u64,
    end: Option<crate::proto::End>,
}

impl<I: Iterator<Item = Result<Frame>>> Incoming<I> {
    /// Takes the first frame.
    pub(crate) fn open(mut frames: I, options: &ReceiveOptions) -> Result<Incoming<I>> {
        let Some(mut first) = frames.next().transpose()? else {
            return Err(invalid("no frame came"));
        };
        let Some(begin) = first.begin.take() else {
            return Err(invalid("the first frame has no `begin`"));
        };
        check_begin(&begin, options)?;
        let mut incoming = Incoming {
            frames,
            data: VecDeque::new(),
            chunk: begin.first_chunk,
            offset: 0,
            chunk_size: 0,
            left: begin.chunk_bytes,
            begin,
            trailer: BytesMut::new(),
            max_trailer_size: options.limits().max_trailer_size,
            end: None,
        };
        incoming.take(first)?;
        Ok(incoming)
    }

    pub(crate) fn begin(&self) -> &Begin {
        &self.begin
    }

    /// Returns the size of the next chunk, if there is one; its pieces follow.
    pub(crate) fn next_chunk(&mut self) -> Result<Option<u64>> {
        if self.chunk == self.begin.chunk_count {
            return Ok(None);
        }
        while self.data.is_empty() {
            self.next_frame()?;
        }
        let first = self.data.front();
        let size = first.map_or(0, |data| data.chunk_size);
        if size > self.left {
            let (chunk, left) = (self.chunk, self.left);
            let message = format!("it has {size} bytes, where {left} were left of those announced");
            return Err(invalid(message).in_chunk(index(chunk)));
        }
        self.left -= size;
        (self.offset, self.chunk_size) = (0, size);
        Ok(Some(size))
    }

    /// Returns the next piece of the chunk at hand.
    pub(crate) fn next_piece(&mut self) -> Result<Piece> {
        let data = loop {
            match self.data.pop_front() {
                Some(data) => break data,
                None => self.next_frame()?,
            }
        };
        let chunk = self.chunk;
        self.piece(data)
            .map_err(|error| error.in_chunk(index(chunk)))
    }

    fn piece(&mut self, data: Data) -> Result<Piece> {
        if data.chunk != self.chunk || data.offset != self.offset {
            let (chunk, offset) = (self.chunk, self.offset);
            let message = format!(
                "bytes of chunk {} at {} came, where chunk {chunk} at {offset} was expected",
                data.chunk, data.offset
            );
            return Err(invalid(message));
        }
        if self.offset > 0 && data.chunk_size != 0 {
            return Err(invalid("its size comes twice"));
        }
        let left = self.chunk_size - self.offset;
        let bytes = match data.zstd_size {
            None => data.content,
            Some(size) => decompress(&data.content, size, left)?,
        };
        let len = bytes.len() as u64;
        if len > left || (len == 0 && self.chunk_size > 0) {
            let message = format!("a piece has {len} bytes, where {left} are left");
            return Err(invalid(message));
        }
        self.offset += len;
        let is_last = self.offset == self.chunk_size;
        if is_last != data.crc32c.is_some() {
            return Err(invalid(if is_last {
                "its last piece has no checksum"
            } else {
                "a checksum comes before its last piece"
            }));
        }
        if is_last {
            self.chunk += 1;
        }
        Ok(Piece {
            bytes,
            crc32c: data.crc32c,
        })
    }

    /// Takes what is left of the frames, and returns the trailer.
    pub(crate) fn finish(mut self) -> Result<ChunkMetadata> {
        while self.end.is_none() {
            self.next_frame()?;
            if !self.data.is_empty() {
                return Err(invalid("bytes of a chunk came after the last chunk"));
            }
        }
        let end = self.end.unwrap_or_default();
        let (size, said) = (self.trailer.len() as u64, end.trailer_size);
        if size != said {
            let message = format!("the trailer has {size} bytes, where {said} were announced");
            return Err(invalid(message));
        }
        let (found, said) = (crc32c::crc32c(&self.trailer), end.trailer_crc32c);
        if found != said {
            let message = format!("the trailer has crc32c {found:08x}, where {said:08x} was sent");
            return Err(Error::new(ErrorKind::ChecksumMismatch, message));
        }
        if let Some(more) = self.frames.next() {
            more?;
            return Err(invalid("a frame came after the last"));
        }
        ChunkMetadata::decode(self.trailer.freeze())
            .map_err(|error| invalid(format!("the trailer can't be decoded: {error}")))
    }

    fn next_frame(&mut self) -> Result<()> {
        let Some(frame) = self.frames.next().transpose()? else {
            let (chunk, count) = (self.chunk, self.begin.chunk_count);
            let message = format!("the transfer broke off in chunk {chunk} of {count}");
            return Err(Error::new(ErrorKind::Io, message));
        };
        if frame.begin.is_some() {
            return Err(invalid("a second `begin` came"));
        }
        if frame == Frame::default() {
            return Err(invalid("an empty frame came"));
        }
        self.take(frame)
    }

    fn take(&mut self, frame: Frame) -> Result<()> {
        let has_ended = self.end.is_some();
        if has_ended || (!self.trailer.is_empty() && !frame.data.is_empty()) {
            return Err(invalid("frames came out of order"));
        }
        self.data.extend(frame.data);
        let size = self.trailer.len() as u64 + frame.trailer.len() as u64;
        if size > self.max_trailer_size {
            let most = self.max_trailer_size;
            let message = format!("the trailer is larger than the {most} bytes that are allowed");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        self.trailer.extend_from_slice(&frame.trailer);
        self.end = frame.end;
        Ok(())
    }
}

/// Refuses what the options don't allow, and numbers that can't be true.
fn check_begin(begin: &Begin, options: &ReceiveOptions) -> Result<()> {
    if begin.version != VERSION {
        let found = begin.version;
        let message = format!("the transfer has version {found}, where {VERSION} is known");
        return Err(Error::new(ErrorKind::UnsupportedVersion, message));
    }
    options.check_type(&begin.message_type)?;
    for (what, found, most) in [
        ("a message of", begin.message_size, options.max_size()),
        ("chunks of", begin.chunk_bytes, options.max_size()),
    ] {
        if found > most {
            let message = format!("{what} {found} bytes, where {most} are allowed");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
    }
    let (count, most) = (begin.chunk_count, options.most_chunks());
    if count > most {
        let message = format!("{count} chunks, where {most} are allowed");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    if count == 0 {
        return Err(invalid("a transfer without chunks"));
    }
    if begin.first_chunk > count {
        let first = begin.first_chunk;
        let message = format!("the transfer starts at chunk {first} of {count}");
        return Err(invalid(message));
    }
    Ok(())
}

/// Decompresses a piece that says how large it is, where at most `left` bytes are expected.
fn decompress(content: &[u8], size: u64, left: u64) -> Result<Bytes> {
    if size > left.min(MAX_PIECE_SIZE) {
        let message = format!("a piece claims {size} bytes, where {left} are left");
        return Err(invalid(message));
    }
    inflate(content, usize::try_from(size).unwrap_or(usize::MAX))
}

#[cfg(feature = "zstd")]
fn inflate(content: &[u8], size: usize) -> Result<Bytes> {
    let failed = |error| invalid(format!("a piece can't be decompressed: {error}"));
    let bytes = zstd::bulk::decompress(content, size).map_err(failed)?;
    if bytes.len() != size {
        let message = format!("a piece has {} bytes, where it claims {size}", bytes.len());
        return Err(invalid(message));
    }
    Ok(bytes.into())
}

#[cfg(not(feature = "zstd"))]
fn inflate(_content: &[u8], _size: usize) -> Result<Bytes> {
    let message = "a compressed piece came, and this build has no zstd";
    Err(Error::new(ErrorKind::UnsupportedVersion, message))
}

pub(crate) fn index(chunk: u64) -> usize {
    usize::try_from(chunk).unwrap_or(usize::MAX)
}

#[cold]
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidMessage, message)
}
