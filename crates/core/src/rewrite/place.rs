//! Where a value stands, with what is around it.

use std::ops::Range;

use prost_reflect::Kind;
use record_file::ReadAt;

use super::edits::Sequence;
use crate::container::ChunkedFile;
use crate::merge::{ChunkStore, MergePlan, PlanInput, SegmentSource};
use crate::path::TargetKind;
use crate::wire::{
    Field, Input, MAX_VARINT_LEN, SourceInput, StreamInput, WireCursor, WireType, decode_varint,
};
use crate::{Error, ErrorKind, Result};

/// A value in a message.
pub(crate) struct Place {
    /// Its bytes in the message.
    pub(crate) value: Range<u64>,
    /// The field that it is the value of.
    pub(crate) field: Field,
    /// What is known of its type.
    pub(crate) kind: Option<TargetKind>,
    /// Where the bytes on the way to it come from, if the message is in chunks.
    pub(crate) plan: Option<MergePlan>,
}

impl Place {
    /// The chunk that has the value's tag, and where in it.
    pub(super) fn in_chunk(&self) -> Result<(usize, u64)> {
        let at = self.field.start;
        let segments = self.plan.as_ref().map_or(&[][..], MergePlan::segments);
        let segment = segments
            .partition_point(|segment| segment.offset <= at)
            .checked_sub(1)
            .map(|index| &segments[index]);
        match segment.map(|segment| (segment.offset, &segment.source)) {
            Some((offset, SegmentSource::Chunk { chunk, range })) => {
                Ok((*chunk, range.start + (at - offset)))
            }
            _ => Err(Error::new(
                ErrorKind::InvalidTrailer,
                "the value's tag is in no chunk",
            )),
        }
    }
}

/// The fields of a message around a value, from the outermost to the value's own.
pub(crate) fn enclosing<I: Input>(
    cursor: &mut WireCursor<I>,
    is_it: impl Fn(&Field) -> bool,
    contains: impl Fn(&Field) -> bool,
) -> Result<Vec<Field>> {
    let mut chain = Vec::new();
    while let Some(field) = cursor.next()? {
        if is_it(&field) {
            chain.push(field);
            return Ok(chain);
        }
        let is_message = matches!(field.wire_type, WireType::Len | WireType::StartGroup);
        if is_message && contains(&field) {
            cursor.set_range(field.value.clone());
            chain.push(field);
        }
    }
    let message = "the value is not where it was found";
    Err(Error::new(ErrorKind::InvalidMessage, message))
}

/// The fields around the value at a range of a message.
pub(crate) fn enclosing_range<I: Input>(
    cursor: &mut WireCursor<I>,
    value: &Range<u64>,
) -> Result<Vec<Field>> {
    let contains = |field: &Field| field.value.start <= value.start && value.end <= field.value.end;
    enclosing(cursor, |field| field.value == *value, contains)
}

/// [`enclosing_range`] in a message in one piece.
pub(super) fn enclosing_value<S: ReadAt>(
    source: &S,
    size: u64,
    value: &Range<u64>,
) -> Result<Vec<Field>> {
    let mut cursor = WireCursor::new(SourceInput::new(source, size));
    enclosing_range(&mut cursor, value)
}

/// The fields of a chunk around the one whose tag is at `tag`.
pub(super) fn enclosing_tag<S: ReadAt>(
    file: &ChunkedFile<S>,
    chunk: usize,
    tag: u64,
) -> Result<Vec<Field>> {
    let plan = MergePlan::of_chunk(chunk, file.size(chunk), file.len());
    let mut cursor = WireCursor::new(PlanInput::new(plan, file));
    let contains = |field: &Field| field.value.contains(&tag);
    enclosing(&mut cursor, |field| field.start == tag, contains)
        .map_err(|error| cursor.input_mut().damage_first(error))
}

/// How much of a text is looked at at once.
const TEXT_WINDOW: usize = 64 << 10;

/// Fails if a value is none of the kind that stands there: a message's fields, a string's UTF-8, a
/// number's bytes.
pub(super) fn check_value<V: ReadAt + ?Sized>(value: &V, place: &Place) -> Result<()> {
    let size = value.size()?;
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidMessage, message));
    let exactly = |bytes: u64| match size == bytes {
        true => Ok(()),
        false => invalid(format!("a value of {size} bytes, where {bytes} are wanted")),
    };
    let is_message = place
        .kind
        .as_ref()
        .is_some_and(|kind| kind.message().is_some());
    match place.field.wire_type {
        WireType::Fixed64 => exactly(8),
        WireType::Fixed32 => exactly(4),
        WireType::Varint => {
            let mut bytes = vec![
                0;
                usize::try_from(size)
                    .unwrap_or(usize::MAX)
                    .min(MAX_VARINT_LEN)
            ];
            value.read_exact_at(0, &mut bytes)?;
            match decode_varint(&bytes) {
                Some((_, len)) if len as u64 == size => Ok(()),
                _ => invalid("the value is no varint, as a number there is on the wire".into()),
            }
        }
        WireType::StartGroup | WireType::EndGroup => check_fields(value, size),
        WireType::Len if is_message => check_fields(value, size),
        WireType::Len => match place.kind {
            Some(TargetKind::Scalar(Kind::String)) => check_text(value, size),
            _ => Ok(()),
        },
    }
}

fn check_fields<V: ReadAt + ?Sized>(value: &V, size: u64) -> Result<()> {
    let mut cursor = WireCursor::new(SourceInput::new(value, size));
    loop {
        match cursor.next() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(error) => {
                let message = format!("the new value is no message: {error}");
                return Err(Error::new(error.kind(), message));
            }
        }
    }
}

fn check_text<V: ReadAt + ?Sized>(value: &V, size: u64) -> Result<()> {
    let mut input = StreamInput::new(Sequence::new(value, size), size);
    let mut position = 0;
    while position < size {
        let window = input.fetch(position, TEXT_WINDOW)?;
        let valid = match std::str::from_utf8(window) {
            Ok(text) => text.len(),
            // A character that is cut at the window's end comes whole with the next.
            Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
                error.valid_up_to()
            }
            Err(error) => {
                let at = position + error.valid_up_to() as u64;
                let message = "the new value is no UTF-8, which a string has to be";
                return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(at));
            }
        };
        position += valid as u64;
    }
    Ok(())
}
