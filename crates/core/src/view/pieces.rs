//! A message with a long repeated field, as several messages that each have some of the elements.

use std::io::Write;
use std::ops::Range;

use prost_reflect::Kind;
use record_file::ReadAt;

use super::portion::Portion;
use super::{MessageView, total};
use crate::path::{FieldPath, TargetKind};
use crate::wire::{Field, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// How much is copied at a time.
const COPY_LEN: usize = 64 << 10;

/// In how many stretches the other fields may stand that each piece gets. Where packets and other
/// fields take turns by the million, there is no holding them all.
const MOST_STRETCHES: usize = 1 << 20;

/// How a message is taken apart into pieces.
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
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        PieceOptions {
            max_size: u64::MAX,
            max_count: u64::MAX,
            with_rest: false,
        }
    }

    /// The most bytes that a piece has (any number).
    #[must_use]
    pub const fn max_size(mut self, bytes: u64) -> Self {
        self.max_size = bytes;
        self
    }

    /// The most elements that a piece has (any number).
    #[must_use]
    pub const fn max_count(mut self, elements: u64) -> Self {
        self.max_count = elements;
        self
    }

    /// Whether each piece has the message's other fields, too (no).
    #[must_use]
    pub const fn with_rest(mut self, with: bool) -> Self {
        self.with_rest = with;
        self
    }
}

/// A piece that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece {
    /// The index of its first element.
    pub first: u64,
    /// How many elements it has.
    pub count: u64,
    /// Bytes of it.
    pub size: u64,
}

/// The pieces of a message; from [`MessageView::pieces`]. After an error there are no more.
pub struct Pieces<'a, S> {
    cursor: WireCursor<Portion<'a, S>>,
    options: PieceOptions,
    number: u32,
    wire_type: Option<WireType>,
    /// What is left to be gone through.
    left: Range<u64>,
    /// The index of the next element.
    next: u64,
    rest: Vec<Range<u64>>,
    /// The stretches of the last piece's elements.
    stretches: Vec<Range<u64>>,
}

impl<S> std::fmt::Debug for Pieces<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pieces")
            .field("options", &self.options)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl<'a, S: ReadAt> MessageView<'a, S> {
    /// The message as several of its type, one after the other, that each have some of the elements
    /// of the repeated field at `field`, a path of one step. Any program that reads the type reads
    /// them, and put one behind the other they are the message again, but for the order of its
    /// fields.
    ///
    /// ```
    /// use proto_splitter_core::merge::MergeOptions;
    /// use proto_splitter_core::view::{MessageView, PieceOptions};
    ///
    /// // Three elements of field 1, which are strings.
    /// let message = b"\x0a\x01a\x0a\x01b\x0a\x01c".to_vec();
    /// let view = MessageView::of_plain(&message, MergeOptions::new())?;
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
    /// [`ErrorKind::InvalidPath`] if it is not a repeated field of the message itself;
    /// [`ErrorKind::LimitExceeded`] if the other fields, where pieces have them, stand in more than
    /// a million stretches; what is wrong with the message.
    pub fn pieces(&self, field: &FieldPath, options: &PieceOptions) -> Result<Pieces<'a, S>> {
        let invalid = |message: &str| {
            let error = Error::new(ErrorKind::InvalidPath, message);
            Err(error.at_path(self.show(field)))
        };
        let [step] = field.steps() else {
            return invalid("pieces are made of a repeated field of the message itself");
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
                return invalid("its elements are numbers, which have no room of their own");
            }
        };
        let (portion, all) = self.find_some(&FieldPath::root())?;
        let mut pieces = Pieces {
            cursor: WireCursor::new(portion),
            options: *options,
            number: step.field.0,
            wire_type,
            left: 0..total(&all),
            next: 0,
            rest: Vec::new(),
            stretches: Vec::new(),
        };
        if options.with_rest {
            pieces.find_rest()?;
        }
        Ok(pieces)
    }
}

impl<S: ReadAt> Pieces<'_, S> {
    fn is_element(&self, field: &Field) -> bool {
        field.number.0 == self.number
            && self
                .wire_type
                .is_none_or(|wire_type| field.wire_type == wire_type)
    }

    fn find_rest(&mut self) -> Result<()> {
        self.cursor.set_range(self.left.clone());
        while let Some(field) = self.cursor.next()? {
            if self.is_element(&field) {
                self.cursor.hop_alike(&field, u64::MAX, |_, _| true)?;
                continue;
            }
            join(&mut self.rest, field.start..field.end);
            if self.rest.len() > MOST_STRETCHES {
                let message = format!(
                    "the other fields stand in more than {MOST_STRETCHES} stretches between the elements"
                );
                return Err(Error::new(ErrorKind::LimitExceeded, message));
            }
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<Piece>> {
        self.stretches.clear();
        let rest = total(&self.rest);
        let mut piece = Piece {
            first: self.next,
            count: 0,
            size: rest,
        };
        self.cursor.set_range(self.left.clone());
        while let Some(field) = self.cursor.next()? {
            if !self.is_element(&field) {
                self.left.start = field.end;
                continue;
            }
            let size = field.end - field.start;
            let is_full = piece.count >= self.options.max_count.max(1)
                || piece.size.saturating_add(size) > self.options.max_size;
            if is_full && piece.count > 0 {
                return Ok(Some(piece));
            }
            if is_full && piece.size.saturating_add(size) > self.options.max_size {
                let message = format!(
                    "element {} has {size} bytes, and a piece at most {}, {rest} of them for other fields",
                    self.next, self.options.max_size
                );
                return Err(Error::new(ErrorKind::Uncuttable, message));
            }
            piece.count += 1;
            piece.size += size;
            let options = &self.options;
            let fits = |start: u64, value: Range<u64>| {
                let size = piece.size.saturating_add(value.end - start);
                let fits = piece.count < options.max_count && size <= options.max_size;
                if fits {
                    (piece.count, piece.size) = (piece.count + 1, size);
                }
                fits
            };
            self.cursor.hop_alike(&field, u64::MAX, fits)?;
            self.left.start = self.cursor.position();
            self.next = piece.first + piece.count;
            join(&mut self.stretches, field.start..self.left.start);
        }
        Ok((piece.count > 0).then_some(piece))
    }

    /// Writes the piece that was given last: the other fields, if it has them, then the elements.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if writing fails; what is wrong with the chunks that are read.
    pub fn write_to(&mut self, sink: &mut impl Write) -> Result<()> {
        for stretch in self.rest.iter().chain(&self.stretches) {
            let mut at = stretch.start;
            while at < stretch.end {
                let left = usize::try_from(stretch.end - at).unwrap_or(usize::MAX);
                let end = at + left.min(COPY_LEN) as u64;
                match self.cursor.bytes(at..end) {
                    Ok(bytes) => sink.write_all(bytes)?,
                    Err(error) => return Err(self.cursor.input_mut().damage_first(error)),
                }
                at = end;
            }
        }
        Ok(())
    }
}

impl<S: ReadAt> Iterator for Pieces<'_, S> {
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

impl<S: ReadAt> std::iter::FusedIterator for Pieces<'_, S> {}

/// Adds a stretch behind others, to the last one if it goes on there.
fn join(stretches: &mut Vec<Range<u64>>, next: Range<u64>) {
    match stretches.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => stretches.push(next),
    }
}
