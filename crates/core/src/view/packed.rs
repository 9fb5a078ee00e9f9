//! Repeated numbers, which may be packed in one field.

use std::ops::Range;

use prost_reflect::Kind;

use crate::path::FieldRef;
use crate::wire::{Input, MAX_VARINT_LEN, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// Number of bytes of packed numbers to read at a time.
const WINDOW_LEN: u64 = 64 << 10;

/// The encoding of the numbers in a packed field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packed {
    /// Numbers of a fixed width, with this width in bytes.
    Fixed(u64),
    /// Varints.
    Varints,
}

impl Packed {
    /// Returns the encoding of a field's packed elements; `None` unless it is a repeated number
    /// field.
    pub(crate) fn of(field: &FieldRef) -> Option<Packed> {
        let is_number = !matches!(field.kind(), Kind::Message(_) | Kind::String | Kind::Bytes);
        if !field.is_list() || !is_number {
            return None;
        }
        match field.wire_type() {
            WireType::Fixed64 => Some(Packed::Fixed(8)),
            WireType::Fixed32 => Some(Packed::Fixed(4)),
            _ => Some(Packed::Varints),
        }
    }

    /// Skips up to `most` numbers at the beginning of `run`, and returns the number of numbers
    /// skipped.
    pub(crate) fn skip<I: Input>(
        self,
        cursor: &mut WireCursor<I>,
        run: &mut Range<u64>,
        most: u64,
    ) -> Result<u64> {
        match self {
            Packed::Fixed(width) => {
                let len = run.end - run.start;
                let skipped = most.min(len / width);
                run.start += skipped * width;
                if skipped < most && run.start < run.end {
                    return Err(broken(run));
                }
                Ok(skipped)
            }
            Packed::Varints => {
                let mut skipped = 0;
                // Start of the number after the last complete one.
                let mut begun = run.start;
                let mut at = run.start;
                while skipped < most && at < run.end {
                    let window = at..run.end.min(at + WINDOW_LEN);
                    let bytes = cursor.bytes(window.clone())?;
                    let ends = bytes.iter().zip(window.clone());
                    for (_, end) in ends.filter(|(byte, _)| **byte < 0x80) {
                        skipped += 1;
                        begun = end + 1;
                        if skipped == most {
                            break;
                        }
                    }
                    at = window.end;
                }
                if skipped < most && begun < run.end {
                    return Err(broken(&(begun..run.end)));
                }
                run.start = begun;
                Ok(skipped)
            }
        }
    }

    /// Returns the range of the first number in `run`, which must not be empty; `None` if the run
    /// ends inside the number.
    pub(crate) fn first<I: Input>(
        self,
        cursor: &mut WireCursor<I>,
        run: &Range<u64>,
    ) -> Result<Option<Range<u64>>> {
        let len = match self {
            Packed::Fixed(width) => Some(width),
            Packed::Varints => {
                let most = run.end.min(run.start + MAX_VARINT_LEN as u64);
                let bytes = cursor.bytes(run.start..most)?;
                let last = bytes.iter().position(|byte| *byte < 0x80);
                last.map(|last| last as u64 + 1)
            }
        };
        let number = len.map(|len| run.start..run.start + len);
        Ok(number.filter(|number| number.end <= run.end))
    }
}

#[cold]
pub(super) fn broken(run: &Range<u64>) -> Error {
    let message = "packed numbers end inside a number";
    Error::new(ErrorKind::InvalidMessage, message).at_offset(run.start)
}
