//! Reading a tensor from a message: its header, and its elements in any storage form.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use prost_reflect::{Kind, MessageDescriptor};
use record_file::ReadAt;

use super::elements::{ElementForm, write_elements};
use super::{ElementRule, Location, ShapeRule, TensorInfo, TensorReader, TensorRule};
use crate::path::{FieldPath, Step};
use crate::spans::copy_range;
use crate::view::{MessageView, Portion};
use crate::wire::{Input, SourceInput, WireCursor, WireType, decode_varint, wire_type};
use crate::{Error, ErrorKind, Result};

/// Maximum size of a tensor's encoded shape, in bytes, and of its number of dimensions: more than
/// any real shape takes.
const MAX_SHAPE: u64 = 64 << 10;

/// Maximum number of dimensions of a shape that an error lists.
const MOST_SHOWN: usize = 32;

/// Maximum number of bytes to fill with copies of a tensor's last element: 8 GiB. Without this
/// limit, a short encoded shape could require any number of copies.
const LARGEST_FILLED: u64 = 8 << 30;

/// Number of bytes of copies of an element to write at once: a multiple of every element width.
const FILLED_AT_ONCE: usize = 64 << 10;

/// Everything in a tensor's message except the elements.
#[derive(Debug, Default)]
pub(super) struct TensorHeader {
    number: u64,
    /// Sizes of the dimensions, as stored. An unknown size is negative.
    shape: Vec<i64>,
    /// Size of the bytes field that contains all elements, in bytes; 0 if there is none.
    content: u64,
    /// Start of the bytes field's value that contains all elements, as an offset in the input.
    content_start: u64,
    is_elsewhere: bool,
    /// Total size of the fields that contain single elements, in bytes.
    one_by_one: u64,
}

impl TensorHeader {
    /// Reads the header of a tensor, but no elements. `pieces` are the ranges of the tensor's
    /// message.
    pub(super) fn read<I: Input>(
        cursor: &mut WireCursor<I>,
        pieces: &[Range<u64>],
        rule: &TensorRule,
    ) -> Result<TensorHeader> {
        let mut header = TensorHeader::default();
        for piece in pieces {
            cursor.set_range(piece.clone());
            while let Some(field) = cursor.next()? {
                let number = field.number.0;
                let len = field.value.end - field.value.start;
                match (rule.shape, field.wire_type) {
                    (_, WireType::Varint) if number == rule.dtype => {
                        header.number = varint(cursor.bytes(field.value)?);
                    }
                    (_, WireType::Varint) if rule.elsewhere == Some(number) => {
                        header.is_elsewhere = varint(cursor.bytes(field.value)?) != 0;
                    }
                    (_, WireType::Len) if number == rule.content => {
                        header.content = len;
                        header.content_start = field.value.start;
                    }
                    (ShapeRule::Dimensions(shape), WireType::Len) if number == shape => {
                        dimensions(small(cursor, field.value)?, &mut header.shape)?;
                    }
                    (ShapeRule::Sizes(sizes), WireType::Varint) if number == sizes => {
                        header
                            .shape
                            .push(varint(cursor.bytes(field.value)?).cast_signed());
                    }
                    (ShapeRule::Sizes(sizes), WireType::Len) if number == sizes => {
                        packed(small(cursor, field.value)?, &mut header.shape)?;
                    }
                    _ if rule.elements.iter().any(|known| known.field == number) => {
                        header.one_by_one += len;
                    }
                    _ => {}
                }
                if header.shape.len() as u64 > MAX_SHAPE {
                    let message = format!("the shape has more than {MAX_SHAPE} dimensions");
                    let error = Error::new(ErrorKind::LimitExceeded, message);
                    return Err(error.at_offset(field.start));
                }
            }
        }
        Ok(header)
    }

    /// Returns the heap memory for this header and the [`TensorInfo`] created from it, in bytes.
    pub(super) fn memory(&self) -> usize {
        2 * self.shape.capacity() * size_of::<i64>()
    }

    /// Returns the header to show in a list of tensors, even if the tensor's elements can't be
    /// read.
    pub(super) fn info(
        &self,
        name: String,
        rule: &'static TensorRule,
        location: Location,
    ) -> TensorInfo {
        let dtype = match rule.element(self.number) {
            Some(element) => element.dtype,
            None => super::DType::Unknown(self.number.cast_signed()),
        };
        // An unknown size is shown as 0.
        let shape = self
            .shape
            .iter()
            .map(|&size| u64::try_from(size).unwrap_or(0));
        let info = TensorInfo::new(name, dtype, shape.collect())
            .ordered(rule.byte_order)
            .located(location);
        let bytes = match self.content {
            0 => self.expected(rule).unwrap_or(self.one_by_one),
            content => content,
        };
        info.sized(bytes)
    }

    /// Returns the range of the elements in the message; `None` unless they are contiguous, have
    /// their in-memory layout, and their total size matches the type and the shape.
    pub(super) fn place(&self, rule: &TensorRule) -> Option<Range<u64>> {
        rule.element(self.number)?.dtype.width()?;
        let is_whole = self.content > 0 && self.expected(rule) == Some(self.content);
        let end = self.content_start.checked_add(self.content)?;
        (is_whole && !self.is_elsewhere).then_some(self.content_start..end)
    }

    /// Returns the rule for the element type; `None` if the format doesn't define the type.
    pub(super) fn element<'r>(&self, rule: &'r TensorRule) -> Option<&'r ElementRule> {
        rule.element(self.number)
    }

    /// Returns the number of elements in the shape; `None` if a dimension's size is unknown, or the
    /// number doesn't fit in 64 bits.
    pub(super) fn elements(&self) -> Option<u64> {
        let sizes: Option<Vec<u64>> = self
            .shape
            .iter()
            .map(|&size| u64::try_from(size).ok())
            .collect();
        TensorInfo::new("", super::DType::Bool, sizes?).elements()
    }

    /// Returns the size that the type and the shape imply, in bytes; `None` if they don't imply
    /// one.
    fn expected(&self, rule: &TensorRule) -> Option<u64> {
        let dtype = rule.element(self.number)?.dtype;
        let elements = self.elements()?;
        if rule.is_packed {
            return dtype.packed_bytes(elements);
        }
        elements.checked_mul(dtype.width()?)
    }
}

/// Returns a reader for the tensor at a path. `rule` describes the fields of the tensor's message.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if the tensor's elements have no fixed width, are in another file,
/// or differ in number from the shape; any error from [`MessageView::get`].
pub fn tensor_at<'a>(
    view: MessageView<'a>,
    path: &FieldPath,
    name: impl Into<String>,
    rule: &'static TensorRule,
) -> Result<TensorReader<'a>> {
    let location = Location::Message {
        path: path.clone(),
        text: view.show(path),
    };
    let content = path.join(Step::field(rule.content));
    let path = path.clone();
    let info = TensorInfo::new(name, super::DType::Bool, Vec::new()).located(location);
    reader_of(
        AtPath {
            view,
            path,
            content,
        },
        info,
        rule,
    )
}

/// Returns a reader for the tensor that `info` names and locates. The tensor's own message has the
/// type `message` and consists of the ranges `pieces` of `bytes`.
///
/// # Errors
///
/// The errors of [`tensor_at`].
pub(crate) fn tensor_in_pieces(
    bytes: Arc<dyn ReadAt>,
    pieces: Vec<Range<u64>>,
    message: MessageDescriptor,
    info: &TensorInfo,
    rule: &'static TensorRule,
) -> Result<TensorReader<'static>> {
    let size = bytes.size()?;
    let place = InPieces {
        bytes,
        size,
        pieces,
        message,
    };
    reader_of(place, info.clone(), rule)
}

/// Access to a tensor's own message, wherever it is stored.
trait TensorPlace {
    type Input<'s>: Input
    where
        Self: 's;

    /// Returns an input that contains the message, and the ranges of the message in that input.
    fn open(&self) -> Result<(Self::Input<'_>, Vec<Range<u64>>)>;

    /// Returns the error to report after parsing the input failed with `error`.
    fn failed(input: Self::Input<'_>, error: Error) -> Error;

    /// Returns the type of the message; `None` if it is unknown.
    fn message(&self) -> Result<Option<MessageDescriptor>>;

    /// Writes the range `part` of the tensor's elements, which start at the offset `start` in the
    /// input.
    fn write_content(&self, start: u64, part: Range<u64>, sink: &mut dyn Write) -> Result<()>;
}

/// A tensor's message at a path in a view.
struct AtPath<'a> {
    view: MessageView<'a>,
    path: FieldPath,
    content: FieldPath,
}

impl<'a> TensorPlace for AtPath<'a> {
    type Input<'s>
        = Portion<'a>
    where
        Self: 's;

    fn open(&self) -> Result<(Portion<'a>, Vec<Range<u64>>)> {
        self.view.find_some(&self.path)
    }

    fn failed(mut input: Portion<'a>, error: Error) -> Error {
        input.damage_first(error)
    }

    fn message(&self) -> Result<Option<MessageDescriptor>> {
        let kind = self.view.kind(&self.path)?;
        Ok(kind.and_then(|kind| kind.message().cloned()))
    }

    fn write_content(&self, _: u64, part: Range<u64>, sink: &mut dyn Write) -> Result<()> {
        self.view.get_range_to(&self.content, part, sink)
    }
}

/// A tensor's message whose ranges in a source are known.
struct InPieces {
    bytes: Arc<dyn ReadAt>,
    size: u64,
    pieces: Vec<Range<u64>>,
    message: MessageDescriptor,
}

impl TensorPlace for InPieces {
    type Input<'s> = SourceInput<'s, dyn ReadAt>;

    fn open(&self) -> Result<(SourceInput<'_, dyn ReadAt>, Vec<Range<u64>>)> {
        Ok((
            SourceInput::new(&*self.bytes, self.size),
            self.pieces.clone(),
        ))
    }

    fn failed(_: SourceInput<'_, dyn ReadAt>, error: Error) -> Error {
        error
    }

    fn message(&self) -> Result<Option<MessageDescriptor>> {
        Ok(Some(self.message.clone()))
    }

    fn write_content(&self, start: u64, part: Range<u64>, sink: &mut dyn Write) -> Result<()> {
        copy_range(&*self.bytes, start + part.start..start + part.end, sink)
    }
}

/// Reads the header of a tensor that `info` names and locates, and returns a reader of the tensor's
/// elements.
fn reader_of<'a, P: TensorPlace + Send + 'a>(
    place: P,
    info: TensorInfo,
    rule: &'static TensorRule,
) -> Result<TensorReader<'a>> {
    let TensorInfo { name, location, .. } = info;
    let text = match &location {
        Location::Message { text, .. } => text.clone(),
        _ => name.clone(),
    };
    let bad = |message: String| {
        let error = Error::new(ErrorKind::InvalidMessage, message);
        Err(error.at_path(&text))
    };
    let header = {
        let (input, pieces) = place.open()?;
        let mut cursor = WireCursor::new(input);
        match TensorHeader::read(&mut cursor, &pieces, rule) {
            Ok(header) => header,
            Err(error) => return Err(P::failed(cursor.into_input(), error).at_path(text)),
        }
    };
    let Some(element) = rule.element(header.number) else {
        let number = header.number;
        return bad(format!("the tensor's data type {number} is not known"));
    };
    let Some(width) = element.dtype.width() else {
        let dtype = element.dtype;
        return bad(format!("elements of the type {dtype} have no fixed width"));
    };
    if header.is_elsewhere {
        return bad("the tensor's elements are in another file".into());
    }
    let Some(bytes) = header.expected(rule) else {
        let shape = &header.shape;
        if shape.len() > MOST_SHOWN {
            let count = shape.len();
            return bad(format!("a tensor of {count} dimensions has no size"));
        }
        return bad(format!("a tensor of the shape {shape:?} has no size"));
    };
    let info = header.info(name, rule, location).sized(bytes);
    if header.content > 0 {
        let there = header.content;
        if there != bytes {
            return bad(format!(
                "the tensor's shape requires {bytes} bytes, but it has {there}"
            ));
        }
        let start = header.content_start;
        return Ok(TensorReader::of_parts(info, move |range, sink| {
            place.write_content(start, range, sink)
        }));
    }
    let Some(form) = place
        .message()?
        .as_ref()
        .and_then(|message| form_of(message, element, rule))
    else {
        let field = element.field;
        return bad(format!("field {field} of the tensor has no numbers in it"));
    };
    Ok(TensorReader::new(info, move |sink| {
        let (input, pieces) = place.open()?;
        let mut cursor = WireCursor::new(input);
        let mut sink = Bounded {
            left: bytes,
            fills_up: rule.fills_up,
            last: Vec::new(),
            element: usize::try_from(width).unwrap_or(usize::MAX),
            sink,
        };
        let written = write_elements(&mut cursor, &pieces, form, &mut sink);
        let written = written.and_then(|written| sink.finish(bytes, written));
        written.map_err(|error| P::failed(cursor.into_input(), error).at_path(text))
    }))
}

/// Returns the form of elements with this rule in messages of the type `message`; `None` if they
/// aren't numbers, or too wide.
fn form_of(
    message: &MessageDescriptor,
    element: &ElementRule,
    rule: &TensorRule,
) -> Option<ElementForm> {
    let kind = message.get_field(element.field)?.kind();
    let whole = usize::try_from(element.dtype.width()?).ok()?;
    let wire = wire_type(&kind, false);
    let width = match (wire, wire.width()) {
        (WireType::Len, _) => return None,
        (_, Some(width)) => width.into(),
        // If several elements share a byte, each number in the field is such a byte.
        _ if rule.is_packed => whole.max(1),
        _ => whole,
    };
    // Elements of 2 or 4 bits share bytes in the field already.
    let is_narrow = |bits: &u32| rule.is_packed && *bits < 8 && 8 % bits != 0;
    (width <= whole && width <= 8).then(|| {
        ElementForm::new(element.field, wire, width)
            .zigzag(matches!(kind, Kind::Sint32 | Kind::Sint64))
            .narrow(element.dtype.bits().filter(is_narrow))
    })
}

/// A writer of a tensor's elements that drops what exceeds the tensor's size.
struct Bounded<'a> {
    /// Number of bytes that are still missing.
    left: u64,
    fills_up: bool,
    /// If missing elements are filled up, the last whole element, and the bytes after it, which
    /// aren't written yet.
    last: Vec<u8>,
    /// Width of an element in bytes. A complex element consists of two numbers.
    element: usize,
    sink: &'a mut dyn Write,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        if !self.fills_up {
            let fits = &bytes[..bytes.len().min(most)];
            self.sink.write_all(fits)?;
            self.left -= fits.len() as u64;
            return Ok(bytes.len());
        }
        // A missing part of an element isn't filled up by itself, so only whole elements are
        // written.
        let held = self.last.len() % self.element;
        let begin = self.last.len() - held;
        let fits = bytes.len().min(most.saturating_sub(held));
        self.last.extend_from_slice(&bytes[..fits]);
        let end = self.last.len() - self.last.len() % self.element;
        self.sink.write_all(&self.last[begin..end])?;
        self.left -= (end - begin) as u64;
        self.last.drain(..end.saturating_sub(self.element));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}

impl Bounded<'_> {
    /// Fails if `written` isn't the size of the tensor, `bytes`. If the format allows it, ignores
    /// excess elements instead, and fills up missing ones with copies of the last element, or with
    /// zeros if there is none.
    fn finish(mut self, bytes: u64, written: u64) -> Result<()> {
        if written > bytes && !self.fills_up {
            let message = "the tensor has more elements than its shape says";
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        }
        if self.left > 0 && !self.fills_up {
            return Err(differs(bytes, written));
        }
        if self.left > LARGEST_FILLED {
            let message = format!(
                "the tensor's shape requires {bytes} bytes, but it has only {written}: at most {LARGEST_FILLED} are filled up"
            );
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        if self.last.len() < self.element {
            self.last.clear();
        }
        self.last.resize(self.element, 0);
        let block = self.last.repeat(FILLED_AT_ONCE / self.element.max(1));
        while self.left > 0 {
            let step = usize::try_from(self.left).unwrap_or(usize::MAX);
            let step = step.min(block.len());
            self.sink.write_all(&block[..step])?;
            self.left -= step as u64;
        }
        Ok(())
    }
}

#[cold]
fn differs(bytes: u64, there: u64) -> Error {
    let message = format!("the tensor's shape requires {bytes} bytes, but it has {there}");
    Error::new(ErrorKind::InvalidMessage, message)
}

fn varint(bytes: &[u8]) -> u64 {
    decode_varint(bytes).map_or(0, |(value, _)| value)
}

/// Returns the bytes of an encoded shape. Fails if they exceed [`MAX_SHAPE`].
fn small<I: Input>(cursor: &mut WireCursor<I>, range: Range<u64>) -> Result<&[u8]> {
    let len = range.end - range.start;
    if len > MAX_SHAPE {
        let message = format!("the shape has {len} bytes, more than the maximum of {MAX_SHAPE}");
        return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(range.start));
    }
    cursor.bytes(range)
}

/// Appends the dimensions' sizes in a packed field to `sizes`.
fn packed(mut run: &[u8], sizes: &mut Vec<i64>) -> Result<()> {
    while !run.is_empty() {
        let Some((size, len)) = decode_varint(run) else {
            let message = "the sizes of the tensor's dimensions end inside a number";
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        };
        sizes.push(size.cast_signed());
        run = &run[len..];
    }
    Ok(())
}

/// Appends the dimensions' sizes in a `TensorShapeProto` to `sizes`.
fn dimensions(shape: &[u8], sizes: &mut Vec<i64>) -> Result<()> {
    let mut shape = WireCursor::new(shape);
    while let Some(field) = shape.next()? {
        if (field.number.0, field.wire_type) != (2, WireType::Len) {
            continue;
        }
        let mut size = 0;
        let mut dimension = WireCursor::new(shape.bytes(field.value)?);
        while let Some(field) = dimension.next()? {
            if (field.number.0, field.wire_type) == (1, WireType::Varint) {
                size = varint(dimension.bytes(field.value)?);
            }
        }
        sizes.push(size.cast_signed());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_elements_are_copies_of_the_last_whole_element() {
        for (numbers, expected) in [
            (&[][..], [0; 6]),
            (&[1], [0; 6]),
            (&[1, 2, 3], [1, 2, 1, 2, 1, 2]),
            (&[1, 2, 3, 4, 5], [1, 2, 3, 4, 3, 4]),
            (&[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6]),
        ] {
            for step in 1..=numbers.len().max(1) {
                let mut written = Vec::new();
                let mut sink = Bounded {
                    left: 6,
                    fills_up: true,
                    last: Vec::new(),
                    element: 2,
                    sink: &mut written,
                };
                for part in numbers.chunks(step) {
                    sink.write_all(part).unwrap();
                }
                sink.finish(6, numbers.len() as u64).unwrap();
                assert_eq!(written, expected, "{numbers:?} {step}");
            }
        }
    }
}
