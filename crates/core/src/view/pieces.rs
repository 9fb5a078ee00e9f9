//! Dividing a message with a long repeated field into several messages, each with some of the
//! field's elements.

use std::io::Write;
use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};

use super::portion::{Portion, copy_ranges};
use super::{MessageView, enclosing_range, locate, total};
use crate::path::{FieldPath, Select, TargetKind};
use crate::wire::{Field, FieldNumber, WireCursor, WireType, put_varint, tag, varint_len};
use crate::{Error, ErrorKind, Result};

/// Maximum number of ranges of a piece's elements, and of the message's other fields if the pieces
/// include these fields. If elements and other fields alternated millions of times, the ranges would
/// take too much memory.
const MOST_STRETCHES: usize = 1 << 20;

/// Options for dividing a message into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceOptions {
    max_size: u64,
    max_count: u64,
    with_rest: bool,
}

impl Default for PieceOptions {
    fn default() -> Self {
        PieceOptions::new()
    }
}

impl PieceOptions {
    /// Creates the default options.
    #[must_use]
    pub const fn new() -> Self {
        PieceOptions {
            max_size: u64::MAX,
            max_count: u64::MAX,
            with_rest: false,
        }
    }

    crate::options! {
        /// Sets the maximum size of a piece, in bytes. Default: unlimited.
        const max_size, get_max_size: u64;

        /// Sets the maximum number of elements in a piece. Default: unlimited.
        const max_count, get_max_count: u64;

        /// Sets whether each piece also includes the fields that are not on the path to the divided
        /// field. Default: false.
        const with_rest, get_with_rest: bool;
    }
}

/// A piece of a divided message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece {
    /// Index of the piece's first element.
    pub first: u64,
    /// Number of elements in the piece.
    pub count: u64,
    /// Size of the piece, in bytes.
    pub size: u64,
}

/// An iterator over the pieces of a message, from [`MessageView::pieces`]. It ends after an error.
pub struct Pieces<'a> {
    cursor: WireCursor<Portion<'a>>,
    options: PieceOptions,
    number: u32,
    wire_type: Option<WireType>,
    /// The fields that enclose the message with the repeated field, from the outermost to the
    /// innermost.
    around: Vec<Around>,
    /// Range of the message that hasn't been divided into pieces yet.
    left: Range<u64>,
    /// Index of the next element in the divided field.
    next: u64,
    rest: Vec<Range<u64>>,
    /// Ranges of the elements in the most recently returned piece.
    stretches: Vec<Range<u64>>,
}

/// A field that encloses the message with the repeated field. Each piece also contains this field,
/// around the piece's elements.
struct Around {
    number: FieldNumber,
    is_group: bool,
    /// Ranges of the parent message's other fields; empty unless pieces include them.
    rest: Vec<Range<u64>>,
}

impl Around {
    fn tag(&self, wire_type: WireType) -> u64 {
        tag(self.number, wire_type)
    }

    /// Returns the size in bytes of the parent message, if this field's value has `inner` bytes.
    fn size(&self, inner: u64) -> u64 {
        let frame = if self.is_group {
            varint_len(self.tag(WireType::StartGroup)) + varint_len(self.tag(WireType::EndGroup))
        } else {
            varint_len(self.tag(WireType::Len)) + varint_len(inner)
        };
        total(&self.rest)
            .saturating_add(frame as u64)
            .saturating_add(inner)
    }
}

/// Returns the size in bytes of a piece with all enclosing fields, if the innermost message has
/// `inner` bytes.
fn size_with(around: &[Around], inner: u64) -> u64 {
    around
        .iter()
        .rev()
        .fold(inner, |inner, around| around.size(inner))
}

impl std::fmt::Debug for Pieces<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pieces")
            .field("options", &self.options)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl<'a> MessageView<'a> {
    /// Divides the message into several messages of the same type, each with some of the elements
    /// of the repeated field at `field`. Any program that supports the type can read these pieces.
    /// If the field is a top-level field, concatenating the pieces yields an equal message, whose
    /// fields may be in another order.
    ///
    /// If the path leads to a nested field, such as `planes[0].lines[1].events`, each piece has
    /// that one plane with that one line with some of its events.
    /// [`with_rest`](PieceOptions::with_rest) adds the other fields of the plane, the line and the
    /// message itself, but no other planes or lines.
    ///
    /// ```
    /// use proto_splitter_core::merge::ReadOptions;
    /// use proto_splitter_core::view::{MessageView, PieceOptions};
    ///
    /// // Three elements of field 1, which are strings.
    /// let message = b"\x0a\x01a\x0a\x01b\x0a\x01c".to_vec();
    /// let view = MessageView::of_plain(&message, ReadOptions::new())?;
    /// let mut pieces = view.pieces(&"1".parse()?, &PieceOptions::new().max_count(2))?;
    /// let mut written = Vec::new();
    /// while let Some(piece) = pieces.next().transpose()? {
    ///     let mut bytes = Vec::new();
    ///     pieces.write_to(&mut bytes)?;
    ///     written.push((piece.first, bytes));
    /// }
    /// assert_eq!(written, [(0, b"\x0a\x01a\x0a\x01b".to_vec()), (2, b"\x0a\x01c".to_vec())]);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if `field` is not a repeated field, or if the message that
    /// contains it doesn't exist or [consists of several occurrences](Self::is_in_pieces) of its
    /// field; [`ErrorKind::LimitExceeded`] if pieces include the other fields and these fields form
    /// more than a million ranges; any error in the message.
    pub fn pieces(&self, field: &FieldPath, options: &PieceOptions) -> Result<Pieces<'a>> {
        let invalid = |message: &str| {
            let error = Error::new(ErrorKind::InvalidPath, message);
            Err(error.at_path(self.show(field)))
        };
        let mut above = field.clone();
        let Some(step) = above.pop().filter(|step| step.select == Select::Field) else {
            return invalid("only a whole repeated field can be divided into pieces");
        };
        let kind = match self.descriptor() {
            Some(root) => {
                let target = field.resolve(root)?;
                if !target.whole_field {
                    return invalid("the field is not repeated");
                }
                Some(target.kind)
            }
            None => None,
        };
        let wire_type = match kind {
            None => None,
            Some(TargetKind::Group(_)) => Some(WireType::StartGroup),
            Some(TargetKind::Message(_) | TargetKind::Scalar(Kind::String | Kind::Bytes)) => {
                Some(WireType::Len)
            }
            Some(TargetKind::Scalar(_)) => {
                return invalid("its elements are numbers, which can't be divided into pieces");
            }
        };
        let (portion, all) = self.find_some(&FieldPath::root())?;
        let mut pieces = Pieces {
            cursor: WireCursor::new(portion),
            options: *options,
            number: step.field.0,
            wire_type,
            around: Vec::new(),
            left: 0..total(&all),
            next: 0,
            rest: Vec::new(),
            stretches: Vec::new(),
        };
        if let Err(error) = pieces.find(&above, self.descriptor()) {
            let error = pieces.cursor.input_mut().damage_first(error);
            return Err(error.at_path(self.show(field)));
        }
        Ok(pieces)
    }
}

impl Pieces<'_> {
    fn is_element(&self, field: &Field) -> bool {
        field.number.0 == self.number
            && self
                .wire_type
                .is_none_or(|wire_type| field.wire_type == wire_type)
    }

    /// Finds the message that contains the elements to distribute, and any other fields that each
    /// piece must include.
    fn find(&mut self, path: &FieldPath, root: Option<&MessageDescriptor>) -> Result<()> {
        let invalid = |message: &str| Err(Error::new(ErrorKind::InvalidPath, message));
        let all = self.left.clone();
        self.cursor.set_range(all.clone());
        let found = locate::locate(&mut self.cursor, path, root)?;
        let message = match found.as_ref().map(|found| found.pieces.as_slice()) {
            None => return invalid("the message with the field does not exist"),
            Some([message]) => message.clone(),
            Some(_) => return invalid("the message with the field is in several pieces"),
        };
        let mut chain = Vec::new();
        if !path.is_root() {
            self.cursor.set_range(all.clone());
            chain = enclosing_range(&mut self.cursor, &message)?;
        }
        // Pieces include other fields only on request, except the key of a map entry, without which
        // its value isn't valid. Other elements of a repeated field along the path are excluded.
        let with_rest = self.options.with_rest;
        let kinds = path.steps().iter().flat_map(|step| match step.select {
            Select::Key(_) => vec![(with_rest, false), (true, false)],
            Select::Index(_) => vec![(with_rest, false)],
            Select::Field => vec![(with_rest, true)],
        });
        let mut outer = all;
        for (field, (needs_rest, is_single)) in chain.into_iter().zip(kinds) {
            let rest = if needs_rest {
                self.stretches_but(outer, |met| {
                    let is_alike = met.number == field.number && !is_single;
                    is_alike || met.start == field.start
                })?
            } else {
                Vec::new()
            };
            self.around.push(Around {
                number: field.number,
                is_group: field.wire_type == WireType::StartGroup,
                rest,
            });
            outer = field.value;
        }
        if with_rest {
            let (number, wire_type) = (self.number, self.wire_type);
            self.rest = self.stretches_but(message.clone(), |met| {
                met.number.0 == number && wire_type.is_none_or(|wire| met.wire_type == wire)
            })?;
        }
        self.left = message;
        Ok(())
    }

    /// Returns the ranges of the fields of a message, except those for which `is_left_out` returns
    /// true.
    fn stretches_but(
        &mut self,
        message: Range<u64>,
        is_left_out: impl Fn(&Field) -> bool,
    ) -> Result<Vec<Range<u64>>> {
        let mut stretches = Vec::new();
        self.cursor.set_range(message);
        while let Some(field) = self.cursor.next()? {
            if is_left_out(&field) {
                continue;
            }
            join(&mut stretches, field.start..field.end);
            if stretches.len() > MOST_STRETCHES {
                let message = format!(
                    "the other fields form more than {MOST_STRETCHES} ranges between the elements"
                );
                return Err(Error::new(ErrorKind::LimitExceeded, message));
            }
        }
        Ok(stretches)
    }

    fn advance(&mut self) -> Result<Option<Piece>> {
        self.stretches.clear();
        let (max_size, max_count) = (self.options.max_size, self.options.max_count.max(1));
        let rest = total(&self.rest);
        // Size in bytes of the innermost message so far, its number of elements, and its first
        // element's index.
        let (mut inner, mut count, first) = (rest, 0, self.next);
        self.cursor.set_range(self.left.clone());
        while let Some(field) = self.cursor.next()? {
            if !self.is_element(&field) {
                self.left.start = field.end;
                continue;
            }
            let is_apart = |last: &Range<u64>| last.end != field.start;
            if self.stretches.len() >= MOST_STRETCHES && self.stretches.last().is_some_and(is_apart)
            {
                break;
            }
            let around = &self.around;
            let mut fits = |size: u64| {
                let larger = inner.saturating_add(size);
                let fits = count < max_count && size_with(around, larger) <= max_size;
                if fits {
                    (inner, count) = (larger, count + 1);
                }
                fits
            };
            let size = field.end - field.start;
            if !fits(size) {
                if count > 0 {
                    break;
                }
                let other = size_with(around, rest.saturating_add(size)) - size;
                let message = format!(
                    "element {first} has {size} bytes, but a piece may have at most {max_size}, {other} of them for other fields",
                );
                return Err(Error::new(ErrorKind::Uncuttable, message).refusing_size());
            }
            let pass = |start, value: Range<u64>| fits(value.end - start);
            self.cursor.hop_alike(&field, u64::MAX, pass)?;
            self.left.start = self.cursor.position();
            self.next = first + count;
            join(&mut self.stretches, field.start..self.left.start);
        }
        let piece = Piece {
            first,
            count,
            size: size_with(&self.around, inner),
        };
        Ok((count > 0).then_some(piece))
    }

    /// Writes the most recently returned piece: first any fields other than the divided field, then
    /// the elements.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if writing fails; damage in the chunks that are read.
    pub fn write_to(&mut self, sink: &mut impl Write) -> Result<()> {
        let mut sizes = vec![total(&self.rest) + total(&self.stretches)];
        for around in self.around.iter().rev() {
            let inner = sizes.last().copied().unwrap_or(0);
            sizes.push(around.size(inner));
        }
        // The last size is that of the piece itself, which has no length prefix.
        sizes.pop();
        for around in &self.around {
            copy_ranges(&mut self.cursor, &around.rest, sink)?;
            let mut frame = Vec::new();
            let inner = sizes.pop().unwrap_or(0);
            if around.is_group {
                put_varint(&mut frame, around.tag(WireType::StartGroup))
            } else {
                put_varint(&mut frame, around.tag(WireType::Len));
                put_varint(&mut frame, inner);
            }
            sink.write_all(&frame)?;
        }
        copy_ranges(&mut self.cursor, &self.rest, sink)?;
        copy_ranges(&mut self.cursor, &self.stretches, sink)?;
        for around in self.around.iter().rev().filter(|around| around.is_group) {
            let mut end = Vec::new();
            put_varint(&mut end, around.tag(WireType::EndGroup));
            sink.write_all(&end)?;
        }
        Ok(())
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Result<Piece>> {
        let next = self.advance();
        let next = next.map_err(|error| self.cursor.input_mut().damage_first(error));
        if next.is_err() {
            self.left = 0..0;
        }
        next.transpose()
    }
}

impl std::iter::FusedIterator for Pieces<'_> {}

/// Appends a range, merging it with the last one if they are contiguous.
fn join(stretches: &mut Vec<Range<u64>>, next: Range<u64>) {
    match stretches.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => stretches.push(next),
    }
}
