//! A stretch of bytes with some of them replaced.

use std::io::{self, Read};
use std::ops::Range;

use record_file::ReadAt;

use crate::wire::{Field, WireType, put_varint};
use crate::{Error, ErrorKind, Result};

/// What takes the place of bytes.
#[derive(Clone, Debug)]
enum With {
    Bytes(Vec<u8>),
    /// The new value, which has this many bytes.
    Value(u64),
}

/// Bytes that are replaced, in order.
#[derive(Clone, Debug)]
pub(super) struct Edits(Vec<(Range<u64>, With)>);

impl Edits {
    /// Puts a value of `size` bytes in the place of the last field's, with new lengths for those
    /// around it; `chain` are the fields from the outermost to the one itself.
    pub(super) fn replace(chain: &[Field], size: u64) -> Result<Edits> {
        let mut edits = Vec::new();
        // Bytes of the value that is being looked at, as it will be.
        let mut new_len = size;
        for (at, field) in chain.iter().enumerate().rev() {
            let is_last = at + 1 == chain.len();
            if is_last {
                edits.push((field.value.clone(), With::Value(size)));
            }
            let length = field.tag_end..field.value.start;
            let (old_len, old_prefix) = (
                field.value.end - field.value.start,
                length.end - length.start,
            );
            let mut prefix = Vec::new();
            if field.wire_type == WireType::Len {
                put_varint(&mut prefix, new_len);
                edits.push((length, With::Bytes(prefix.clone())));
            }
            // What the field around this one grows by.
            let Some(around) = at.checked_sub(1).map(|around| &chain[around]) else {
                break;
            };
            let new_prefix = if field.wire_type == WireType::Len {
                prefix.len() as u64
            } else {
                old_prefix
            };
            new_len = (around.value.end - around.value.start)
                .checked_sub(old_len + old_prefix)
                .and_then(|rest| rest.checked_add(new_len)?.checked_add(new_prefix))
                .ok_or_else(|| Error::new(ErrorKind::LimitExceeded, "a message beyond 64 bits"))?;
        }
        edits.reverse();
        Ok(Edits(edits))
    }

    /// Bytes of what had `size` bytes.
    pub(super) fn size_of(&self, size: u64) -> Result<u64> {
        let mut total = size;
        for (range, with) in &self.0 {
            let new = match with {
                With::Bytes(bytes) => bytes.len() as u64,
                With::Value(size) => *size,
            };
            total = total
                .checked_sub(range.end - range.start)
                .and_then(|rest| rest.checked_add(new))
                .ok_or_else(|| Error::new(ErrorKind::LimitExceeded, "a message beyond 64 bits"))?;
        }
        Ok(total)
    }

    /// Reads `base`, which has `size` bytes, with the edits made.
    pub(super) fn reader<'a>(
        self,
        base: Box<dyn Read + 'a>,
        size: u64,
        value: &'a (dyn ReadAt + 'a),
    ) -> Spliced<'a> {
        let mut pieces = Vec::new();
        let mut position = 0;
        for (range, with) in self.0 {
            pieces.push(Piece::Base(range.start - position));
            pieces.push(match with {
                With::Bytes(bytes) => Piece::Other(Box::new(io::Cursor::new(bytes))),
                With::Value(size) => Piece::Other(Box::new(Sequence::new(value, size))),
            });
            pieces.push(Piece::Skipped(range.end - range.start));
            position = range.end;
        }
        pieces.push(Piece::Base(size - position));
        Spliced {
            base,
            pieces: pieces.into_iter(),
            piece: Piece::Base(0),
        }
    }
}

enum Piece<'a> {
    Base(u64),
    Skipped(u64),
    Other(Box<dyn Read + 'a>),
}

/// What was edited, as a stream.
pub(super) struct Spliced<'a> {
    base: Box<dyn Read + 'a>,
    pieces: std::vec::IntoIter<Piece<'a>>,
    piece: Piece<'a>,
}

impl Read for Spliced<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match &mut self.piece {
                Piece::Base(left) if *left > 0 => {
                    let read = self.base.by_ref().take(*left).read(buffer)?;
                    if read == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    *left -= read as u64;
                    return Ok(read);
                }
                Piece::Skipped(left) if *left > 0 => {
                    let mut skipped = self.base.by_ref().take(*left);
                    if io::copy(&mut skipped, &mut io::sink())? < *left {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    *left = 0;
                }
                Piece::Base(_) | Piece::Skipped(_) => {}
                Piece::Other(other) => {
                    let read = other.read(buffer)?;
                    if read > 0 {
                        return Ok(read);
                    }
                }
            }
            match self.pieces.next() {
                Some(piece) => self.piece = piece,
                // The base is read to its end, so that it has checked itself.
                None => return self.base.read(&mut [0]).map(|_| 0),
            }
        }
    }
}

/// The first bytes of a source, one after the other.
pub(super) struct Sequence<'a, S: ?Sized> {
    source: &'a S,
    position: u64,
    end: u64,
}

impl<'a, S: ReadAt + ?Sized> Sequence<'a, S> {
    pub(super) fn new(source: &'a S, size: u64) -> Self {
        Sequence {
            source,
            position: 0,
            end: size,
        }
    }
}

impl<S: ReadAt + ?Sized> Read for Sequence<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let want = left.min(buffer.len());
        if want == 0 {
            return Ok(0);
        }
        let read = self.source.read_at(self.position, &mut buffer[..want])?;
        if read == 0 {
            let message = "a file became shorter while it was being read";
            return Err(Error::new(ErrorKind::SourceChanged, message).into());
        }
        self.position += read as u64;
        Ok(read)
    }
}
