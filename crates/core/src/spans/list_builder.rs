//! A builder of a list of spans, in which the length of a field is filled in when the field ends.

use std::ops::Range;

use super::MAX_SPANS_SIZE;
use super::list::{SourceId, SpanList};
use crate::wire::put_varint;
use crate::{Error, ErrorKind, Result};

/// A builder that makes a [`SpanList`] by appending bytes and ranges of sources.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanListBuilder {
    /// The list so far. It contains an empty piece at each position where the length of a field
    /// will be inserted.
    list: SpanList,
    /// Fields that have begun and not ended, the innermost last.
    open: Vec<OpenField>,
    /// Lengths of ended fields: for each, the index of its piece and its range in the list's
    /// literals.
    lengths: Vec<(usize, Range<usize>)>,
    /// Total size of the encoded lengths of ended fields, in bytes.
    length_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct OpenField {
    /// Index of the piece that the field's length will fill.
    length: usize,
    /// Size of the message before the field's value, without the lengths of open fields, in bytes.
    value_start: u64,
}

/// A position in a message under construction, to which the builder can return: see
/// [`SpansBuilder::mark`](super::SpansBuilder::mark).
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pieces: usize,
    literals: usize,
    len: u64,
    open: usize,
    lengths: usize,
    length_bytes: u64,
}

impl SpanListBuilder {
    /// Returns the current size of the message in bytes, without the lengths of open fields.
    pub(crate) fn size(&self) -> u64 {
        self.list.len.saturating_add(self.length_bytes)
    }

    /// Appends literal bytes.
    pub(crate) fn push_literal(&mut self, bytes: &[u8]) {
        self.list.push_literal(bytes);
    }

    /// Appends a number as a varint.
    pub(crate) fn push_varint(&mut self, value: u64) {
        self.list.push_varint(value);
    }

    /// Appends a range of a source.
    pub(crate) fn push_span(&mut self, source: SourceId, range: Range<u64>) {
        self.list.push_span(source, range);
    }

    /// Reserves the length of a value, which [`end_length`](Self::end_length) fills in.
    pub(crate) fn begin_length(&mut self) {
        self.open.push(OpenField {
            length: self.list.pieces.len(),
            value_start: self.size(),
        });
        // No literal begins at the offset `u64::MAX`, so bytes that are appended next don't extend
        // this piece.
        self.list.push_piece(SourceId::LITERAL, u64::MAX);
    }

    /// Fills in the most recently reserved length. The value is everything appended since the
    /// length was reserved.
    pub(crate) fn end_length(&mut self) -> Result<()> {
        let Some(field) = self.open.pop() else {
            let message = "no field is open that could be closed";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        };
        let start = self.list.literals.len();
        let value = self.size() - field.value_start;
        put_varint(&mut self.list.literals, value);
        let place = start..self.list.literals.len();
        self.length_bytes = self.length_bytes.saturating_add(place.len() as u64);
        self.lengths.push((field.length, place));
        Ok(())
    }

    /// Returns the current position, for [`rewind`](Self::rewind).
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            pieces: self.list.pieces.len(),
            literals: self.list.literals.len(),
            len: self.list.len,
            open: self.open.len(),
            lengths: self.lengths.len(),
            length_bytes: self.length_bytes,
        }
    }

    /// Removes everything appended since the mark. Fields that were open at the mark must still be
    /// open.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.list.pieces.truncate(mark.pieces);
        self.list.literals.truncate(mark.literals);
        self.list.len = mark.len;
        self.open.truncate(mark.open);
        self.lengths.truncate(mark.lengths);
        self.length_bytes = mark.length_bytes;
    }

    /// Returns the finished list, with all lengths inserted. Fails if a field is still open.
    pub(crate) fn finish(self) -> Result<SpanList> {
        let SpanListBuilder {
            mut list,
            open,
            mut lengths,
            length_bytes,
        } = self;
        if !open.is_empty() {
            let message = "a field was begun but not ended";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        check_size(list.len.saturating_add(length_bytes))?;
        if !lengths.is_empty() {
            lengths.sort_unstable_by_key(|(piece, _)| *piece);
            settle(&mut list, lengths);
        }
        list.pieces.shrink_to_fit();
        list.literals.shrink_to_fit();
        Ok(list)
    }
}

/// Fails if `size` bytes exceed the maximum size of a message.
pub(super) fn check_size(size: u64) -> Result<()> {
    if size <= MAX_SPANS_SIZE {
        return Ok(());
    }
    let message = format!("{size} bytes are more than a message can have");
    Err(Error::new(ErrorKind::LimitExceeded, message))
}

/// Inserts the lengths of fields, which must be sorted by piece, and merges consecutive literals
/// into one span.
fn settle(list: &mut SpanList, lengths: Vec<(usize, Range<usize>)>) {
    let mut lengths = lengths.into_iter().peekable();
    let mut literals = Vec::with_capacity(list.literals.len());
    let (mut kept, mut moved, mut after_literal) = (0, 0, false);
    for index in 0..list.pieces.len() {
        let mut piece = list.pieces[index];
        let next = list.pieces.get(index + 1);
        let len = next.map_or(list.len, |next| next.offset) - piece.offset;
        let length = lengths.next_if(|(at, _)| *at == index);
        piece.offset += moved;
        let is_literal = piece.source == SourceId::LITERAL;
        if is_literal {
            let bytes = match length {
                Some((_, place)) => {
                    moved += place.len() as u64;
                    list.literals.get(place).unwrap_or_default()
                }
                None => list.literal(piece.at, len),
            };
            piece.at = literals.len() as u64;
            literals.extend_from_slice(bytes);
        }
        if !(is_literal && after_literal) {
            list.pieces[kept] = piece;
            kept += 1;
        }
        after_literal = is_literal;
    }
    list.pieces.truncate(kept);
    list.literals = literals;
    list.len += moved;
}
