//! Locating the fields that enclose a value, and checking new values.

use std::ops::Range;

use prost_reflect::Kind;
use record_file::ReadAt;

use crate::merge::ChunkStore;
use crate::merge::{MergePlan, PlanReader};
use crate::message::ChunkedFile;
use crate::path::TargetKind;
use crate::view::{Place, enclosing, enclosing_range};
use crate::wire::{Field, MAX_VARINT_LEN, SourceInput, WireCursor, WireType, decode_varint};
use crate::{Error, ErrorKind, Result};

/// Returns the fields that enclose a value in a message that isn't split. `value` is the value's
/// byte range in `source`.
pub(super) fn enclosing_value<S: ReadAt>(
    source: &S,
    size: u64,
    value: &Range<u64>,
) -> Result<Vec<Field>> {
    let mut cursor = WireCursor::new(SourceInput::new(source, size));
    enclosing_range(&mut cursor, value)
}

/// Returns the fields in a chunk that lead to the tag at the offset `tag`, from the outermost field
/// to the field with this tag.
pub(super) fn enclosing_tag<S: ReadAt>(
    file: &ChunkedFile<S>,
    chunk: usize,
    tag: u64,
) -> Result<Vec<Field>> {
    let plan = MergePlan::of_chunk(chunk, file.size(chunk), file.len())?;
    let mut cursor = WireCursor::new(PlanReader::new(plan, file));
    let contains = |field: &Field| field.value.contains(&tag);
    enclosing(&mut cursor, |field| field.start == tag, contains)
        .map_err(|error| cursor.input_mut().damage_first(error))
}

/// Fails if a value doesn't have the form that the kind of the existing value requires: valid
/// fields for a message, UTF-8 for a string, or a wire encoding for a number.
pub(super) fn check_value<V: ReadAt + ?Sized>(value: &V, place: &Place) -> Result<()> {
    check_as(value, place.field.wire_type, place.kind.as_ref())
}

/// Fails if a value doesn't have the form that this wire type and, if known, this kind require. See
/// [`check_value`].
pub(super) fn check_as<V: ReadAt + ?Sized>(
    value: &V,
    wire: WireType,
    kind: Option<&TargetKind>,
) -> Result<()> {
    let size = value.size()?;
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidMessage, message));
    let exactly = |bytes: u64| {
        if size == bytes {
            Ok(())
        } else {
            invalid(format!(
                "the new value has {size} bytes, but the field needs {bytes}"
            ))
        }
    };
    let is_message = kind.is_some_and(|kind| kind.message().is_some());
    match wire {
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
                _ => invalid("the new value is not a varint, but the field holds varints".into()),
            }
        }
        WireType::StartGroup | WireType::EndGroup => check_fields(value, size),
        WireType::Len if is_message => check_fields(value, size),
        WireType::Len => match kind {
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
                let message = format!("the new value is not a message: {error}");
                return Err(Error::new(error.kind(), message));
            }
        }
    }
}

fn check_text<V: ReadAt + ?Sized>(value: &V, size: u64) -> Result<()> {
    let mut cursor = WireCursor::new(SourceInput::new(value, size));
    let Some(at) = cursor.first_not_utf8(0..size)? else {
        return Ok(());
    };
    let message = "the new value is not UTF-8, which a string has to be";
    Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(at))
}
