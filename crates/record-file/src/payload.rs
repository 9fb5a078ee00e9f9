//! Reading the data of a chunk without the block headers inside it.
use std::io::IoSliceMut;

use crate::block::{
    BLOCK, BLOCK_HEADER, BLOCK_HEADER_LEN, BlockHeader, PAYLOAD, block_of, is_boundary, payload_end,
};
use crate::chunk::{CHUNK_HEADER, Chunk};
use crate::error::{Error, Result};
use crate::fault::{Fault, FaultPlace};
use crate::hash::Hasher;
use crate::headers::{MOST_HEADER, header_len, other_chunk, parse_header, read_header};
use crate::input::RecordInput;
use crate::varint;

/// Number of bytes of a file to read at once: few enough to stay in a core's cache until they are
/// copied.
const WINDOW: u64 = AT_ONCE * BLOCK;
const AT_ONCE: u64 = 4;
/// Maximum number of block headers in a range of the file that has as many payload bytes as
/// [`AT_ONCE`] blocks.
const MOST_HEADERS: usize = 5;

/// Number of bytes of a chunk's data to read together with its header: the bytes before the record
/// in a chunk with one record, and a few more.
const FRONT: usize = 64;

/// A reader that reads a chunk's data piece by piece, and compares every block header inside the
/// data with its expected value.
#[derive(Debug)]
pub(crate) struct Payload {
    chunk: Chunk,
    /// File offset of the next byte of data or, if a block header comes before that byte, of the
    /// block header.
    pos: u64,
    /// Number of data bytes that weren't read yet.
    left: u64,
    window: Window,
    hasher: Option<Hasher>,
}

impl Payload {
    /// Returns a reader that reads and hashes all of the chunk's data.
    pub(crate) fn hashed(chunk: Chunk) -> Self {
        Payload {
            pos: payload_end(chunk.begin, CHUNK_HEADER),
            hasher: Some(Hasher::new()),
            left: chunk.header.data_size,
            chunk,
            window: Window::default(),
        }
    }

    /// Returns a reader that reads and hashes the data of the chunk at `begin`. This call reads the
    /// chunk's header together with the beginning of the data. `None` if the input ends at `begin`.
    pub(crate) fn open<I: RecordInput + ?Sized>(
        input: &mut I,
        begin: u64,
    ) -> Result<Option<Self>, Fault> {
        if input.as_slice().is_some() {
            return Ok(read_header(input, begin)?.map(Payload::hashed));
        }
        let mut bytes = vec![0; MOST_HEADER + FRONT];
        let got = input
            .read_full(begin, &mut bytes)
            .map_err(|error| Fault::io(begin, error))?;
        bytes.truncate(got);
        let header = &bytes[..got.min(header_len(begin))];
        let chunk = parse_header(header, begin)?;
        Ok(chunk.map(|chunk| Payload {
            window: Window {
                bytes,
                begin,
                is_short: false,
            },
            ..Payload::hashed(chunk)
        }))
    }

    /// Opens a chunk whose header was read before, like [`open`](Self::open), but reads only the
    /// beginning of the data.
    pub(crate) fn open_known<I: RecordInput + ?Sized>(
        input: &mut I,
        chunk: Chunk,
    ) -> Result<Self, Fault> {
        let mut payload = Payload::hashed(chunk);
        if input.as_slice().is_none() {
            let begin = payload.pos;
            let left = chunk.end.saturating_sub(begin).min(FRONT as u64);
            payload.window.bytes = vec![0; usize::try_from(left).unwrap_or(FRONT)];
            let got = input
                .read_full(begin, &mut payload.window.bytes)
                .map_err(|error| Fault::io(chunk.begin, error))?;
            payload.window.bytes.truncate(got);
            payload.window.begin = begin;
        }
        Ok(payload)
    }

    /// Returns a reader that reads all of the chunk's data without hashing it.
    pub(crate) fn unhashed(chunk: Chunk) -> Self {
        Payload {
            hasher: None,
            ..Payload::hashed(chunk)
        }
    }

    pub(crate) fn chunk(&self) -> &Chunk {
        &self.chunk
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Hashes and returns the next piece of the data, which has at most `most` bytes. The piece is
    /// empty only if no bytes are left or `most` is 0.
    pub(crate) fn piece<'a, I: RecordInput + ?Sized>(
        &'a mut self,
        input: &'a mut I,
        most: u64,
    ) -> Result<&'a [u8], Fault> {
        let (piece, hasher) = self.next_piece(input, most)?;
        if let Some(hasher) = hasher {
            hasher.update(piece);
        }
        Ok(piece)
    }

    /// Returns the next piece like [`piece`](Self::piece), but doesn't hash the piece. Also returns
    /// the hasher with which the caller must hash the piece.
    fn next_piece<'a, I: RecordInput + ?Sized>(
        &'a mut self,
        input: &'a mut I,
        most: u64,
    ) -> Result<(&'a [u8], Option<&'a mut Hasher>), Fault> {
        let want = most.min(self.left);
        if want == 0 {
            return Ok((&[], None));
        }
        if is_boundary(self.pos) {
            let mut stored = [0; BLOCK_HEADER_LEN];
            let raw = self
                .window
                .raw(input, &self.chunk, self.pos, BLOCK_HEADER, self.left)?;
            stored.copy_from_slice(raw);
            self.check_block(&stored)?;
            self.pos += BLOCK_HEADER;
        }
        // If the window has some of the bytes, only these bytes are returned, and nothing is read.
        let want = match self.window.left_from(self.pos) {
            0 => want,
            at_hand => want.min(at_hand),
        };
        let want = want.min(BLOCK - self.pos % BLOCK);
        self.left -= want;
        let at = self.pos;
        self.pos += want;
        let piece = self
            .window
            .raw(input, &self.chunk, at, want, want + self.left)?;
        Ok((piece, self.hasher.as_mut()))
    }

    /// Returns the next piece of the data, up to the end of the block, without hashing it. The
    /// piece is borrowed from `all`, the bytes of the whole file, and is empty only if no data is
    /// left.
    pub(crate) fn piece_of<'a>(&mut self, all: &'a [u8]) -> Result<&'a [u8], Fault> {
        if self.left == 0 {
            return Ok(&[]);
        }
        let short = || Fault::ends_inside(&self.chunk, all.len() as u64);
        if is_boundary(self.pos) {
            let stored = slice(all, self.pos, BLOCK_HEADER).and_then(<[u8]>::first_chunk);
            self.check_block(stored.ok_or_else(short)?)?;
            self.pos += BLOCK_HEADER;
        }
        let want = self.left.min(BLOCK - self.pos % BLOCK);
        let piece = slice(all, self.pos, want).ok_or_else(short)?;
        self.left -= want;
        self.pos += want;
        Ok(piece)
    }

    /// Fills `buf` with the next bytes of the data. The caller has checked that enough data is
    /// left.
    pub(crate) fn read<I: RecordInput + ?Sized>(
        &mut self,
        input: &mut I,
        mut buf: &mut [u8],
    ) -> Result<(), Fault> {
        while !buf.is_empty() {
            let straight = self.read_straight(input, buf)?;
            if straight > 0 {
                buf = &mut buf[straight..];
                continue;
            }
            let (piece, hasher) = self.next_piece(input, buf.len() as u64)?;
            if piece.is_empty() {
                let begin = self.chunk.begin;
                return Err(Fault {
                    error: Error::corrupt(begin, "chunk data ends early"),
                    place: FaultPlace::Data {
                        end: self.chunk.end,
                    },
                });
            }
            let (mut filled, rest) = buf.split_at_mut(piece.len());
            hash_along(hasher, piece, |part| {
                let (place, behind) = std::mem::take(&mut filled).split_at_mut(part.len());
                place.copy_from_slice(part);
                filled = behind;
            });
            buf = rest;
        }
        Ok(())
    }

    /// Reads the next bytes into `buf`, bypassing the window, and returns their number. Returns 0,
    /// and reads nothing, if this isn't faster than reading through the window.
    fn read_straight<I: RecordInput + ?Sized>(
        &mut self,
        input: &mut I,
        buf: &mut [u8],
    ) -> Result<usize, Fault> {
        // Small reads that follow each other are faster with a window.
        let is_small = (buf.len() as u64) < BLOCK.min(self.left);
        if is_small || self.window.left_from(self.pos) > 0 || !input.is_vectored() {
            return Ok(0);
        }
        // The number of bytes is limited so that they stay in a core's cache until they are hashed.
        let most = self.left.min(AT_ONCE * PAYLOAD);
        let len = usize::try_from(most).map_or(buf.len(), |most| most.min(buf.len()));
        let mut headers = [[0; BLOCK_HEADER_LEN]; MOST_HEADERS];
        let mut slices = Vec::with_capacity(2 * headers.len());
        let mut pos = self.pos;
        {
            let mut rest = &mut buf[..len];
            let mut headers = headers.iter_mut();
            while !rest.is_empty() {
                if is_boundary(pos)
                    && let Some(header) = headers.next()
                {
                    slices.push(IoSliceMut::new(header));
                    pos += BLOCK_HEADER;
                }
                let (part, behind) = rest.split_at_mut(until_block_end(pos, rest.len()));
                pos += part.len() as u64;
                slices.push(IoSliceMut::new(part));
                rest = behind;
            }
        }
        let got = input
            .read_full_vectored(self.pos, &mut slices)
            .map_err(|error| Fault::io(self.pos, error))?;
        let end = self.pos + got as u64;
        if end < pos {
            return Err(Fault::ends_inside(&self.chunk, end));
        }
        let mut rest = &buf[..len];
        let mut headers = headers.iter();
        while !rest.is_empty() {
            if is_boundary(self.pos)
                && let Some(header) = headers.next()
            {
                self.check_block(header)?;
                self.pos += BLOCK_HEADER;
            }
            let (part, behind) = rest.split_at(until_block_end(self.pos, rest.len()));
            if let Some(hasher) = &mut self.hasher {
                hasher.update(part);
            }
            self.pos += part.len() as u64;
            self.left -= part.len() as u64;
            rest = behind;
        }
        Ok(len)
    }

    /// Appends the next `len` bytes of the data, or all remaining bytes if there are fewer. `out`
    /// grows only as bytes arrive.
    pub(crate) fn append<I: RecordInput + ?Sized>(
        &mut self,
        input: &mut I,
        len: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let mut left = len.min(self.left);
        while left > 0 {
            let (piece, hasher) = self.next_piece(input, left)?;
            out.reserve(piece.len());
            hash_along(hasher, piece, |part| out.extend_from_slice(part));
            left -= piece.len() as u64;
        }
        Ok(())
    }

    /// Appends the bytes of the next varint, or only its beginning if the data ends within it.
    pub(crate) fn append_varint<I: RecordInput + ?Sized>(
        &mut self,
        input: &mut I,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        for _ in 0..varint::MAX_LEN {
            let before = out.len();
            self.append(input, 1, out)?;
            if out.len() == before || out.last().is_some_and(|&byte| byte < 0x80) {
                break;
            }
        }
        Ok(())
    }

    /// Reads the remaining data and, if the data was hashed, compares the hash with the stored
    /// hash.
    pub(crate) fn finish<I: RecordInput + ?Sized>(&mut self, input: &mut I) -> Result<(), Fault> {
        while !self.piece(input, u64::MAX)?.is_empty() {}
        let Some(hasher) = self.hasher.take() else {
            return Ok(());
        };
        Self::check_hash(&self.chunk, hasher.finish())
    }

    /// Returns the fault to report after `fault` was found. If `fault` is in the chunk's data, the
    /// remaining data is read first, and a wrong hash takes precedence, since the same damage may
    /// have caused `fault`.
    pub(crate) fn hash_first<I: RecordInput + ?Sized>(
        &mut self,
        input: &mut I,
        fault: Fault,
    ) -> Fault {
        let end = self.chunk.end;
        if fault.place != (FaultPlace::Data { end }) {
            return fault;
        }
        self.finish(input).err().unwrap_or(fault)
    }

    /// Returns the hasher with the state after the data read so far. The caller hashes the
    /// remaining data.
    pub(crate) fn take_hasher(&mut self) -> Hasher {
        self.hasher.take().unwrap_or_else(Hasher::new)
    }

    /// Compares the hash of a chunk's data with the stored hash.
    pub(crate) fn check_hash(chunk: &Chunk, computed: u64) -> Result<(), Fault> {
        let stored = chunk.header.data_hash;
        if stored == computed {
            return Ok(());
        }
        Err(Fault {
            error: Error::hash(chunk.begin, "chunk data", stored, computed),
            place: FaultPlace::Data { end: chunk.end },
        })
    }

    fn check_block(&self, stored: &[u8; BLOCK_HEADER_LEN]) -> Result<(), Fault> {
        let block = block_of(self.pos);
        let header = BlockHeader::decode(stored, block).map_err(|error| Fault {
            error,
            place: FaultPlace::BlockHeader { block },
        })?;
        if header == BlockHeader::within(block, self.chunk.begin, self.chunk.end) {
            return Ok(());
        }
        Err(other_chunk(
            block,
            header,
            self.chunk.begin,
            Some(self.chunk.end),
        ))
    }
}

/// Copies a piece, hashing it at the same time if there is a hasher.
fn hash_along(hasher: Option<&mut Hasher>, piece: &[u8], mut copy: impl FnMut(&[u8])) {
    match hasher {
        Some(hasher) => hasher.update_along(piece, copy),
        None => copy(piece),
    }
}

/// Returns the number of bytes from `pos` to the end of its block, but at most `len`.
fn until_block_end(pos: u64, len: usize) -> usize {
    usize::try_from(BLOCK - pos % BLOCK).map_or(len, |room| room.min(len))
}

/// The bytes from the most recent read of the file; empty for an input in memory.
#[derive(Debug, Default)]
struct Window {
    bytes: Vec<u8>,
    /// File offset of the window's first byte.
    begin: u64,
    /// True if the input ended after the window's bytes.
    is_short: bool,
}

impl Window {
    fn end(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    /// Returns the number of bytes in the window at and after `pos`.
    fn left_from(&self, pos: u64) -> u64 {
        if pos < self.begin {
            return 0;
        }
        self.end().saturating_sub(pos)
    }

    /// Returns `len` bytes of the file at `at`, from the input's memory or from the window. Refills
    /// the window if necessary, at most to the end of the chunk's data, which has `left` more
    /// bytes.
    fn raw<'a, I: RecordInput + ?Sized>(
        &'a mut self,
        input: &'a mut I,
        chunk: &Chunk,
        at: u64,
        len: u64,
        left: u64,
    ) -> Result<&'a [u8], Fault> {
        let short = |have: u64| Fault::ends_inside(chunk, have);
        if input.as_slice().is_some() {
            let all = input.as_slice().unwrap_or_default();
            let have = all.len() as u64;
            return slice(all, at, len).ok_or_else(|| short(have));
        }
        if at < self.begin || at + len > self.end() {
            self.refill(input, chunk, at, left)?;
        }
        slice(&self.bytes, at - self.begin, len).ok_or_else(|| short(self.end()))
    }

    fn refill<I: RecordInput + ?Sized>(
        &mut self,
        input: &mut I,
        chunk: &Chunk,
        at: u64,
        left: u64,
    ) -> Result<(), Fault> {
        if self.is_short && (self.begin..self.end()).contains(&at) {
            // A stream can't go back to earlier bytes.
            return Err(Fault::ends_inside(chunk, self.end()));
        }
        // A stream can't go back, so it is never read beyond the chunk's data, nor beyond a block
        // header that hasn't been checked yet.
        let most = match (input.goes_back(), is_boundary(at)) {
            (true, _) => WINDOW - at % BLOCK,
            (false, true) => BLOCK_HEADER,
            (false, false) => BLOCK - at % BLOCK,
        };
        let wanted = (payload_end(at, left) - at).min(most);
        // `wanted` is at most WINDOW, so it fits in a `usize`.
        self.bytes.resize(usize::try_from(wanted).unwrap_or(0), 0);
        self.begin = at;
        match input.read_full(at, &mut self.bytes) {
            Ok(got) => {
                self.is_short = got < self.bytes.len();
                self.bytes.truncate(got);
                Ok(())
            }
            Err(error) => {
                self.bytes.clear();
                Err(Fault::io(at, error))
            }
        }
    }
}

fn slice(bytes: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    let at = usize::try_from(at).ok()?;
    let len = usize::try_from(len).ok()?;
    bytes.get(at..)?.get(..len)
}
