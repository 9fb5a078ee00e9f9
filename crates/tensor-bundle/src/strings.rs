//! Strings and variants, as a bundle stores them: lengths, checksums, then the bytes.

use crate::checksum::unmask_crc;
use crate::data::BundleReader;
use proto_splitter_core::wire::decode_varint;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

/// Reads what is behind a position, piece by piece.
struct Cursor<'a> {
    reader: &'a BundleReader,
    position: u64,
    window: Vec<u8>,
    /// Where the window begins.
    start: u64,
}

/// Bytes that are read ahead.
const WINDOW: usize = 64 << 10;

impl<'a> Cursor<'a> {
    fn new(reader: &'a BundleReader) -> Self {
        Cursor {
            reader,
            position: 0,
            window: Vec::new(),
            start: 0,
        }
    }

    /// What is at hand from here on: at least `want` bytes, or all that are left.
    fn peek(&mut self, want: usize) -> Result<&[u8]> {
        let skip = usize::try_from(self.position - self.start).unwrap_or(usize::MAX);
        let have = self.window.len().saturating_sub(skip);
        if have < want {
            let left = usize::try_from(self.reader.len() - self.position).unwrap_or(usize::MAX);
            self.start = self.position;
            self.window.resize(WINDOW.max(want).min(left), 0);
            self.reader.read_exact_at(self.start, &mut self.window)?;
            return Ok(&self.window);
        }
        Ok(&self.window[skip..])
    }

    fn bad(&self, what: &str) -> Error {
        Error::new(ErrorKind::InvalidMessage, what).at_offset(self.position)
    }

    fn varint(&mut self) -> Result<u64> {
        match decode_varint(self.peek(10)?) {
            Some((value, len)) => {
                self.position += len as u64;
                Ok(value)
            }
            None => Err(self.bad("a tensor that ends within a length")),
        }
    }

    fn checksum(&mut self) -> Result<u32> {
        match self.peek(4)?.first_chunk::<4>() {
            Some(bytes) => {
                let crc = u32::from_le_bytes(*bytes);
                self.position += 4;
                Ok(crc)
            }
            None => Err(self.bad("a tensor that ends within a checksum")),
        }
    }

    /// Gives `len` bytes to `each`.
    fn bytes(&mut self, len: u64, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut left = len;
        while left > 0 {
            let want = usize::try_from(left).unwrap_or(usize::MAX);
            let bytes = self.peek(1)?;
            let bytes = &bytes[..bytes.len().min(want)];
            let len = bytes.len() as u64;
            if len == 0 {
                return Err(self.bad("a tensor that ends within an element"));
            }
            each(bytes)?;
            self.position += len;
            left -= len;
        }
        Ok(())
    }

    fn end(&self, crc: u32) -> Result<u32> {
        if self.position == self.reader.len() {
            Ok(crc)
        } else {
            Err(self.bad("bytes behind the last element"))
        }
    }
}

fn check_inner(cursor: &Cursor<'_>, stored: u32, computed: u32, what: &str) -> Result<()> {
    if unmask_crc(stored) == computed {
        return Ok(());
    }
    let message = format!("the crc32c of {what} is another than the one behind them");
    Err(Error::new(ErrorKind::ChecksumMismatch, message).at_offset(cursor.position - 4))
}

fn check_count(reader: &BundleReader, count: u64) -> Result<()> {
    if count <= reader.len() {
        return Ok(());
    }
    let message = format!("{count} elements in {} bytes", reader.len());
    Err(Error::new(ErrorKind::InvalidMessage, message))
}

/// Gives the bytes of `count` strings to `each`, with the string's number; gives their checksum. It
/// is over the lengths as numbers of 4 or 8 bytes, their checksum, and the strings.
pub(crate) fn read_strings(
    reader: &BundleReader,
    count: u64,
    each: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
) -> Result<u32> {
    check_count(reader, count)?;
    let mut lengths = Cursor::new(reader);
    let mut crc = 0;
    let mut total = 0u64;
    for _ in 0..count {
        let len = lengths.varint()?;
        crc = match u32::try_from(len) {
            Ok(short) => crc32c::crc32c_append(crc, &short.to_le_bytes()),
            Err(_) => crc32c::crc32c_append(crc, &len.to_le_bytes()),
        };
        total = total.saturating_add(len);
    }
    if count == 0 && reader.is_empty() {
        return Ok(0);
    }
    let stored = lengths.checksum()?;
    check_inner(&lengths, stored, crc, "the lengths")?;
    crc = crc32c::crc32c_append(crc, &stored.to_le_bytes());
    if total > reader.len() {
        return Err(lengths.bad("strings that are longer than the tensor"));
    }
    // Lengths are read again, so that there may be any number of them.
    let mut strings = Cursor::new(reader);
    strings.position = lengths.position;
    let mut lengths = Cursor::new(reader);
    for string in 0..count {
        let len = lengths.varint()?;
        let string = usize::try_from(string).unwrap_or(usize::MAX);
        strings.bytes(len, |bytes| {
            crc = crc32c::crc32c_append(crc, bytes);
            each(string, bytes)
        })?;
    }
    strings.end(crc)
}

/// Gives the bytes of `count` variants to `each`; gives their checksum. Each has its length in
/// front, and behind it the checksum of all before it, in which the lengths are numbers of 8 bytes.
pub(crate) fn read_variants(
    reader: &BundleReader,
    count: u64,
    each: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
) -> Result<u32> {
    check_count(reader, count)?;
    let mut cursor = Cursor::new(reader);
    let mut crc = 0;
    for at in 0..count {
        let len = cursor.varint()?;
        crc = crc32c::crc32c_append(crc, &len.to_le_bytes());
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        cursor.bytes(len, |bytes| {
            crc = crc32c::crc32c_append(crc, bytes);
            each(at, bytes)
        })?;
        let stored = cursor.checksum()?;
        check_inner(&cursor, stored, crc, "the elements")?;
        crc = crc32c::crc32c_append(crc, &stored.to_le_bytes());
    }
    cursor.end(crc)
}
