//! Reading the fields of a profile, and adding numbers to lists of spans.

use std::ops::Range;

use proto_splitter_core::spans::{SourceId, SpanList};
use proto_splitter_core::wire::{
    Field, FieldNumber, SourceInput, WireCursor, WireType, decode_varint, put_varint, tag,
};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

/// Maximum size of a name, in bytes.
const MAX_NAME: u64 = 1 << 20;

/// A reader for the fields in a range of a message.
pub(super) struct ProfileReader<'a> {
    bytes: &'a dyn ReadAt,
    cursor: WireCursor<SourceInput<'a, dyn ReadAt + 'a>>,
    source: SourceId,
}

impl<'a> ProfileReader<'a> {
    /// Creates a reader for a message.
    pub(super) fn new(bytes: &'a dyn ReadAt) -> Result<ProfileReader<'a>> {
        let size = bytes.size()?;
        Ok(ProfileReader {
            bytes,
            cursor: WireCursor::new(SourceInput::new(bytes, size)),
            source: SourceId::FIRST,
        })
    }

    /// Returns the source to which spans of the message refer.
    pub(super) const fn source(&self) -> SourceId {
        self.source
    }

    /// Returns the bytes of the message.
    pub(super) const fn all(&self) -> &'a dyn ReadAt {
        self.bytes
    }

    /// Returns all fields in a range of the message.
    pub(super) fn fields(&mut self, range: Range<u64>) -> Result<Vec<Field>> {
        self.cursor.fields(range)
    }

    /// Returns the ranges of the values of all length-delimited fields with this number in a range of
    /// the message.
    pub(super) fn values(&mut self, range: Range<u64>, number: u32) -> Result<Vec<Range<u64>>> {
        self.cursor.values(&[range], number)
    }

    /// Returns the first field in a range of the message; `None` if the range is empty.
    pub(super) fn next_field(&mut self, range: Range<u64>) -> Result<Option<Field>> {
        self.cursor.set_range(range);
        self.cursor.next()
    }

    /// Returns the value of a name or another short string, given its range.
    pub(super) fn bytes(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        if range.end - range.start > MAX_NAME {
            let message = format!("a name of {} bytes is too large", range.end - range.start);
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        Ok(self.cursor.bytes(range)?.to_vec())
    }

    /// Returns the number that the varint in this range encodes.
    pub(super) fn number(&mut self, range: Range<u64>) -> Result<i64> {
        let number = decode_varint(self.cursor.bytes(range)?);
        Ok(number.map_or(0, |(number, _)| number.cast_signed()))
    }
}

/// Returns true if a profile's field contains an error, a warning or the name of a host.
pub(super) const fn is_text(field: &Field) -> bool {
    matches!((field.number.0, field.wire_type), (2..=4, WireType::Len))
}

/// Returns true if a field has this number and is a varint.
pub(super) const fn is_number(field: &Field, number: u32) -> bool {
    field.number.0 == number && matches!(field.wire_type, WireType::Varint)
}

/// Appends a varint field to a list of spans.
pub(super) fn put_number(list: &mut SpanList, number: u32, value: i64) {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, tag(FieldNumber(number), WireType::Varint));
    put_varint(&mut bytes, value.cast_unsigned());
    list.push_literal(&bytes);
}
