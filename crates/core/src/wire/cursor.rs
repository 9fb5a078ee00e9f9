//! A cursor that moves from field to field, skipping values.

use std::ops::Range;

use super::input::Input;
use super::tag::{FieldNumber, WireType, short_tag};
use super::varint::{MAX_VARINT_LEN, decode_varint, varint_end};
use crate::{Error, ErrorKind, Result};

/// Maximum nesting depth of skipped groups: protobuf's own default.
const MAX_GROUP_DEPTH: usize = 100;

/// Maximum size of a field's tag and length together, in bytes: two varints.
const HEADER_LEN: usize = 2 * MAX_VARINT_LEN;

/// Range of tags with valid field numbers.
const TAGS: Range<u64> = 1 << 3..1 << 32;

/// A field on the wire. Positions are byte offsets in the cursor's input.
///
/// ```text
/// start        value.start          value.end   end
/// | tag (varint) | length (LEN only) | value     | end tag (groups only) |
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Field number in the tag.
    pub number: FieldNumber,
    /// Wire type in the tag.
    pub wire_type: WireType,
    /// Start of the tag.
    pub start: u64,
    /// End of the tag, where the length or, if there is none, the value starts.
    pub tag_end: u64,
    /// Range of the value, without the length before it and without the tags of a group.
    pub value: Range<u64>,
    /// End of the field, where the next field starts.
    pub end: u64,
}

impl Field {
    /// Returns true if the field has this number and is length-delimited.
    pub fn is_len(&self, number: u32) -> bool {
        self.number.0 == number && self.wire_type == WireType::Len
    }

    /// Returns the field with its positions increased by `by` bytes.
    pub(crate) fn shifted_by(self, by: u64) -> Field {
        Field {
            start: self.start + by,
            tag_end: self.tag_end + by,
            value: self.value.start + by..self.value.end + by,
            end: self.end + by,
            ..self
        }
    }
}

/// A cursor that moves from field to field in a message, skipping the values.
///
/// ```
/// use proto_splitter_core::wire::WireCursor;
///
/// // Field 1: varint 150; field 2: the string "testing".
/// let bytes: &[u8] = b"\x08\x96\x01\x12\x07testing";
/// let mut cursor = WireCursor::new(bytes);
/// assert_eq!(cursor.next()?.map(|field| field.value), Some(1..3));
/// assert_eq!(cursor.next()?.map(|field| field.value), Some(5..12));
/// assert_eq!(cursor.next()?, None);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Debug)]
pub struct WireCursor<I> {
    input: I,
    position: u64,
    end: u64,
}

impl<I: Input> WireCursor<I> {
    /// Creates a cursor at the beginning of `input`, which must contain one message.
    pub fn new(input: I) -> Self {
        let end = input.size();
        WireCursor {
            input,
            position: 0,
            end,
        }
    }

    /// Returns the start of the next field, as an offset in the input.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the end of the message that the cursor traverses, as an offset in the input.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Moves the cursor to the start of `range`, and treats `range` as the message from now on.
    ///
    /// Moving back requires an input that supports it: a [`StreamInput`](super::StreamInput) can't
    /// return to bytes before those fetched most recently.
    pub fn set_range(&mut self, range: Range<u64>) {
        self.position = range.start;
        self.end = range.end;
    }

    /// Returns a reference to the input.
    pub(crate) fn input(&self) -> &I {
        &self.input
    }

    /// Returns a mutable reference to the input.
    pub fn input_mut(&mut self) -> &mut I {
        &mut self.input
    }

    /// Consumes the cursor and returns the input.
    pub fn into_input(self) -> I {
        self.input
    }

    /// Returns the next field, and skips its value; `None` at the end of the message.
    ///
    /// # Errors
    ///
    /// If reading fails, or the bytes break the wire format: an invalid tag, a length past the end
    /// of the message, a group that doesn't end, or an end-group tag without a group.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "fallible, and lends nothing")]
    pub fn next(&mut self) -> Result<Option<Field>> {
        let Some(mut field) = self.header()? else {
            return Ok(None);
        };
        match field.wire_type {
            WireType::StartGroup => self.skip_group(&mut field)?,
            WireType::EndGroup => {
                return Err(malformed("an end group tag without a group", field.start));
            }
            _ => self.position = field.end,
        }
        Ok(Some(field))
    }

    /// Returns all fields of the message at `range`. Suits messages with few fields: the list takes
    /// memory for each.
    ///
    /// # Errors
    ///
    /// The errors of [`next`](Self::next).
    pub fn fields(&mut self, range: Range<u64>) -> Result<Vec<Field>> {
        self.set_range(range);
        let mut fields = Vec::new();
        while let Some(field) = self.next()? {
            fields.push(field);
        }
        Ok(fields)
    }

    /// Returns the ranges of the values of all length-delimited fields with this number, in a message
    /// that consists of the ranges `pieces`.
    ///
    /// # Errors
    ///
    /// The errors of [`next`](Self::next).
    pub fn values(&mut self, pieces: &[Range<u64>], number: u32) -> Result<Vec<Range<u64>>> {
        let mut values = Vec::new();
        for piece in pieces {
            self.set_range(piece.clone());
            while let Some(field) = self.next()? {
                if field.is_len(number) {
                    values.push(field.value);
                }
            }
        }
        Ok(values)
    }

    /// Returns the next field after reading only its tag and length, and moves the cursor to the
    /// start of its value; `None` at the end of the message.
    ///
    /// Doesn't search for the end of a group: for a start-group tag, the returned `value` is empty,
    /// and `end` is the end of the tag. End-group tags are also returned as fields. To skip the
    /// value, call [`set_range`](Self::set_range) with a range that starts at the field's end, or
    /// [`skip_group`](Self::skip_group).
    ///
    /// # Errors
    ///
    /// If reading fails, or the bytes break the wire format.
    #[inline]
    pub fn header(&mut self) -> Result<Option<Field>> {
        let start = self.position;
        if start >= self.end {
            return Ok(None);
        }
        let left = self.end - start;
        let mut bytes = self.input.fetch(start, 1)?;
        // Requests no more bytes than necessary: fetching the value that follows may take a long
        // time.
        while bytes.len() < HEADER_LEN && !holds_header(bytes) {
            let want = bytes.len() + 1;
            bytes = self.input.fetch(start, want)?;
            if bytes.len() < want {
                break;
            }
        }
        if bytes.len() as u64 > left {
            bytes = &bytes[..usize::try_from(left).unwrap_or(usize::MAX)];
        }
        let Some((tag, tag_len)) = decode_varint(bytes) else {
            return Err(malformed("tag is truncated or too long", start));
        };
        let number = tag >> 3;
        let (Some(wire_type), 1..=0x1fff_ffff, Ok(number)) =
            (WireType::from_bits(tag), number, u32::try_from(number))
        else {
            return Err(malformed(&format!("{tag} is not a tag"), start));
        };
        let tag_end = start + tag_len as u64;
        let rest = &bytes[tag_len..];
        let (value_start, len) = match wire_type {
            WireType::Len => match decode_varint(rest) {
                Some((len, len_len)) => (tag_end + len_len as u64, len),
                None => return Err(malformed("length is truncated or too long", tag_end)),
            },
            WireType::Varint => match decode_varint(rest) {
                Some((_, len)) => (tag_end, len as u64),
                None => return Err(malformed("varint is truncated or too long", tag_end)),
            },
            WireType::Fixed64 => (tag_end, 8),
            WireType::Fixed32 => (tag_end, 4),
            WireType::StartGroup | WireType::EndGroup => (tag_end, 0),
        };
        if len > self.end - value_start {
            let message = format!(
                "field {number}: {len} bytes run past the end of the message, which has {} more",
                self.end - value_start
            );
            return Err(malformed(&message, start));
        }
        self.position = value_start;
        let end = value_start + len;
        Ok(Some(Field {
            number: FieldNumber(number),
            wire_type,
            start,
            tag_end,
            value: value_start..end,
            end,
        }))
    }

    /// Skips to the end of the group whose start tag is `group`, and sets the `value` and `end` of
    /// `group`.
    ///
    /// # Errors
    ///
    /// If reading fails, the group doesn't end, or groups nest too deeply.
    pub fn skip_group(&mut self, group: &mut Field) -> Result<()> {
        let mut open = vec![group.number];
        while let Some(&innermost) = open.last() {
            let Some(field) = self.header()? else {
                return Err(malformed(
                    &format!("group {innermost} has no end tag"),
                    group.start,
                ));
            };
            match field.wire_type {
                WireType::StartGroup if open.len() >= MAX_GROUP_DEPTH => {
                    return Err(Error::new(
                        ErrorKind::LimitExceeded,
                        format!("groups nest deeper than {MAX_GROUP_DEPTH}"),
                    )
                    .at_offset(field.start));
                }
                WireType::StartGroup => open.push(field.number),
                WireType::EndGroup => {
                    if field.number != innermost {
                        let message = format!(
                            "group {innermost} is closed by the end tag of group {}",
                            field.number
                        );
                        return Err(malformed(&message, field.start));
                    }
                    open.pop();
                    group.value.end = field.start;
                    group.end = field.end;
                }
                _ => self.position = field.end,
            }
        }
        Ok(())
    }

    /// Skips the next field if its tag is the single byte `tag` of a length-delimited field, and
    /// returns the field's start and the range of its value. Returns `None` for any other field,
    /// and on errors, which [`next`](Self::next) then reports.
    #[inline]
    pub(crate) fn next_alike(&mut self, tag: u8) -> Option<(u64, Range<u64>)> {
        let start = self.position;
        if start >= self.end {
            return None;
        }
        let bytes = self.input.fetch(start, 1).ok()?;
        let (first, behind) = bytes.split_first()?;
        if *first != tag {
            return None;
        }
        let (len, len_len) = decode_varint(behind)?;
        let value = start + 1 + len_len as u64;
        let end = value.checked_add(len).filter(|&end| end <= self.end)?;
        self.position = end;
        Some((start, value..end))
    }

    /// Skips the fields that follow, as long as each has the same one-byte tag as `field` (which
    /// must be length-delimited) and is shorter than `limit` bytes, and `pass` returns true for the
    /// field's start and the range of the field's value. May skip fewer fields.
    ///
    /// This is faster than [`next`](Self::next) for a long repeated field with many small elements.
    ///
    /// # Errors
    ///
    /// If reading fails.
    #[inline]
    pub(crate) fn hop_alike(
        &mut self,
        field: &Field,
        limit: u64,
        mut pass: impl FnMut(u64, Range<u64>) -> bool,
    ) -> Result<()> {
        let Some(tag) = short_tag(field.number, field.wire_type) else {
            return Ok(());
        };
        let Some(left) = self.end.checked_sub(self.position) else {
            return Ok(());
        };
        if field.tag_end - field.start != 1 {
            return Ok(());
        }
        let bytes = self.input.fetch(self.position, 1)?;
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let mut rest = &bytes[..bytes.len().min(most)];
        while let Some((head, len)) = alike(rest, tag)
            && (len as u64) < limit
        {
            let value = self.position + head as u64;
            let end = value + len as u64;
            if !pass(self.position, value..end) {
                break;
            }
            rest = rest.get(head + len..).unwrap_or_default();
            self.position = end;
        }
        Ok(())
    }

    /// Returns the bytes at `range`. The range should be short, since its bytes are held in memory.
    ///
    /// # Errors
    ///
    /// If reading fails, or the input ends before the range does.
    pub fn bytes(&mut self, range: Range<u64>) -> Result<&[u8]> {
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        self.input
            .fetch(range.start, len)?
            .get(..len)
            .ok_or_else(|| {
                malformed(
                    &format!("{len} bytes run past the end of the input"),
                    range.start,
                )
            })
    }
}

/// Returns true if `bytes` begins with a complete tag, followed by the complete length or varint if
/// the wire type has one.
#[cold]
fn holds_header(bytes: &[u8]) -> bool {
    let Some((tag, len)) = decode_varint(bytes) else {
        return false;
    };
    match WireType::from_bits(tag) {
        Some(WireType::Len | WireType::Varint) => decode_varint(&bytes[len..]).is_some(),
        _ => true,
    }
}

/// Returns the size of the header and the size of the value, in bytes, of the field at the
/// beginning of `bytes`; `None` unless the field is complete, length-delimited, and has the
/// one-byte tag `tag`.
#[inline]
pub(crate) fn alike(bytes: &[u8], tag: u8) -> Option<(usize, usize)> {
    let (first, behind) = bytes.split_first()?;
    if *first != tag {
        return None;
    }
    let (len, len_len) = decode_varint(behind)?;
    let len = usize::try_from(len).ok()?;
    (len <= behind.len() - len_len).then_some((1 + len_len, len))
}

/// Calls `met` for each field of a message in memory, with the field's tag and the range of its
/// value, until `met` returns false. Returns `None` for malformed bytes and for groups. Callers
/// then use a [`WireCursor`], which supports groups and reports errors.
#[inline]
pub(crate) fn each_field(
    bytes: &[u8],
    mut met: impl FnMut(u64, Range<usize>) -> bool,
) -> Option<()> {
    let mut at = 0;
    while at < bytes.len() {
        let (tag, tag_len) = decode_varint(bytes.get(at..)?)?;
        if !TAGS.contains(&tag) {
            return None;
        }
        let behind = at + tag_len;
        let (start, len) = match WireType::from_bits(tag)? {
            WireType::Varint => (behind, varint_end(bytes.get(behind..)?)?),
            WireType::Fixed64 => (behind, 8),
            WireType::Fixed32 => (behind, 4),
            WireType::Len => {
                let (len, len_len) = decode_varint(bytes.get(behind..)?)?;
                (behind + len_len, usize::try_from(len).ok()?)
            }
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        let end = start.checked_add(len).filter(|&end| end <= bytes.len())?;
        if !met(tag, start..end) {
            break;
        }
        at = end;
    }
    Some(())
}

/// Returns the bytes at a range that a cursor over `bytes` returned.
pub(crate) fn slice<'a>(bytes: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX);
    bytes
        .get(at(range.start)..at(range.end))
        .unwrap_or_default()
}

#[cold]
#[inline(never)]
fn malformed(message: &str, offset: u64) -> Error {
    Error::new(ErrorKind::InvalidMessage, message).at_offset(offset)
}
