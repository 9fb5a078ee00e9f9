//! The occurrences of each field of a message, and their values.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};

use crate::path::{FieldRef, NumberForm};
use crate::view::{Packed, SingularField};
use crate::wire::{Field, Input, WireCursor, WireType, unzigzag};
use crate::{Error, ErrorKind, Result};

/// The occurrences of one field in a message, as byte ranges that contain nothing else.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    pub(super) stretches: Vec<Range<u64>>,
    /// The last occurrence of the field.
    pub(super) last: Option<Field>,
}

/// The key of a field in a message. `known` is true if the schema has a field with this number, and
/// parsers take the occurrence as its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) number: u32,
    pub(super) known: bool,
}

/// The properties that the schema gives to a field number.
struct Latest {
    number: u32,
    field: Option<FieldRef>,
    /// Index of the field's oneof in the message.
    oneof: Option<i32>,
    /// The field, if it is singular and its enum is closed.
    closed: Option<SingularField>,
}

impl Latest {
    fn new(message: Option<&MessageDescriptor>, number: u32) -> Latest {
        let field = message.and_then(|message| FieldRef::by_number(message, number));
        Latest {
            number,
            oneof: field.as_ref().and_then(oneof_of),
            closed: field.as_ref().and_then(SingularField::of_closed_enum),
            field,
        }
    }

    /// Returns true if parsers take `met`, a field with this number, as a value of the field.
    fn takes<I: Input>(&self, cursor: &mut WireCursor<I>, met: &Field) -> Result<bool> {
        match (&self.closed, &self.field) {
            (Some(closed), _) => closed.is_set_by(cursor, met),
            (None, Some(field)) => Ok(field.takes(met.wire_type)),
            (None, None) => Ok(false),
        }
    }
}

/// Indexes the fields of a message by number, in one pass. Omits oneof members that a later member
/// supersedes.
pub(super) fn index<I: Input>(
    cursor: &mut WireCursor<I>,
    pieces: &[Range<u64>],
    message: Option<&MessageDescriptor>,
) -> Result<BTreeMap<Slot, Runs>> {
    let mut runs: BTreeMap<Slot, Runs> = BTreeMap::new();
    // The most recent field. The next field often has the same number.
    let mut latest: Option<Latest> = None;
    // For each oneof, by its index, the number of its last member.
    let mut chosen: HashMap<i32, u32> = HashMap::new();
    for piece in pieces {
        cursor.set_range(piece.clone());
        while let Some(field) = cursor.next()? {
            let number = field.number.0;
            if latest.as_ref().is_none_or(|latest| latest.number != number) {
                latest = Some(Latest::new(message, number));
            }
            let Some(latest) = &latest else {
                continue;
            };
            let known = latest.takes(cursor, &field)?;
            if known
                && let Some(oneof) = latest.oneof
                && let Some(before) = chosen.insert(oneof, number)
                && before != number
            {
                runs.remove(&Slot {
                    number: before,
                    known: true,
                });
            }
            let run = runs.entry(Slot { number, known }).or_default();
            match run.stretches.last_mut() {
                Some(last) if last.end == field.start => last.end = field.end,
                _ => run.stretches.push(field.start..field.end),
            }
            run.last = Some(field);
        }
    }
    Ok(runs)
}

/// Returns the index of a field's oneof in the message; `None` if the field is in no oneof.
fn oneof_of(field: &FieldRef) -> Option<i32> {
    // The last part of a oneof's path in its file is the oneof's index.
    field.oneof()?.path().last().copied()
}

/// An iterator over the occurrences of a field.
#[derive(Clone)]
pub(super) struct Occurrences<'a> {
    stretches: std::slice::Iter<'a, Range<u64>>,
    left: Range<u64>,
}

impl<'a> Occurrences<'a> {
    pub(super) fn of(runs: &'a Runs) -> Self {
        Occurrences {
            stretches: runs.stretches.iter(),
            left: 0..0,
        }
    }

    pub(super) fn next<I: Input>(&mut self, cursor: &mut WireCursor<I>) -> Result<Option<Field>> {
        while self.left.is_empty() {
            match self.stretches.next() {
                Some(stretch) => self.left = stretch.clone(),
                None => return Ok(None),
            }
        }
        cursor.set_range(self.left.clone());
        let field = cursor.next()?;
        if let Some(field) = &field {
            self.left.start = field.end;
        }
        Ok(field)
    }
}

/// An iterator over the numbers in a repeated field, packed or not.
pub(super) struct Numbers<'a> {
    occurrences: Occurrences<'a>,
    kind: Kind,
    packed: Option<Packed>,
    /// The packed numbers that follow.
    run: Range<u64>,
}

impl<'a> Numbers<'a> {
    pub(super) fn of(runs: &'a Runs, field: &FieldRef) -> Self {
        Numbers {
            occurrences: Occurrences::of(runs),
            kind: field.kind(),
            packed: Packed::of(field),
            run: 0..0,
        }
    }

    pub(super) fn next<I: Input>(&mut self, cursor: &mut WireCursor<I>) -> Result<Option<u64>> {
        while self.run.is_empty() {
            let Some(field) = self.occurrences.next(cursor)? else {
                return Ok(None);
            };
            if field.wire_type != WireType::Len {
                return number(cursor, &field.value, &self.kind).map(Some);
            }
            self.run = field.value;
        }
        let Some(packed) = self.packed else {
            return Ok(None);
        };
        let value = packed.first(cursor, &self.run)?.ok_or_else(cut)?;
        self.run.start = value.end;
        number(cursor, &value, &self.kind).map(Some)
    }
}

/// Returns the bits of a number of this kind. Like a parser, drops the upper bits of a 32-bit
/// varint, and converts every non-zero bool to 1. Doesn't decode zigzag.
pub(super) fn number<I: Input>(
    cursor: &mut WireCursor<I>,
    value: &Range<u64>,
    kind: &Kind,
) -> Result<u64> {
    let bytes = cursor.bytes(value.clone())?;
    NumberForm::of(kind).read(bytes).ok_or_else(cut)
}

/// Returns the error for packed numbers whose last number is incomplete. The error has no offset,
/// since it would be an offset in the copy of a small message.
#[cold]
fn cut() -> Error {
    let message = "packed numbers end inside a number";
    Error::new(ErrorKind::InvalidMessage, message)
}

/// Formats a number of this kind as text.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "32-bit and signed numbers are reinterpreted by their bits"
)]
pub(super) fn shown(bits: u64, kind: &Kind) -> String {
    match kind {
        Kind::Double => format!("{:?}", f64::from_bits(bits)),
        Kind::Float => format!("{:?}", f32::from_bits(bits as u32)),
        Kind::Bool => (bits != 0).to_string(),
        Kind::Int32 | Kind::Sfixed32 => (bits as u32 as i32).to_string(),
        Kind::Int64 | Kind::Sfixed64 => (bits as i64).to_string(),
        Kind::Sint32 | Kind::Sint64 => unzigzag(bits).to_string(),
        Kind::Enum(values) => {
            let number = bits as u32 as i32;
            let name = values.get_value(number);
            name.map_or_else(|| number.to_string(), |value| value.name().to_owned())
        }
        _ => bits.to_string(),
    }
}
