//! The records of a planned split proto.

use std::io;

use proto_splitter_core::path::{FieldPath, Step};
use proto_splitter_core::spans::SpanList;
use proto_splitter_core::wire::{FieldNumber, WireType, tag};
use record_file::ReadAt;

use crate::manifest::RecordKind;

/// A planned record, whose bytes are spans of the message.
pub(super) struct Record {
    pub(super) kind: RecordKind,
    pub(super) spans: SpanList,
    /// For a record with elements of a repeated field: the field numbers that lead to the field,
    /// and the number of the field's elements in earlier records.
    pub(super) first: Option<(Vec<u32>, u64)>,
}

impl Record {
    /// Creates a record that readers merge into the previous records.
    pub(super) const fn merge(spans: SpanList) -> Record {
        Record {
            kind: RecordKind::Merge,
            spans,
            first: None,
        }
    }

    /// Creates a record that is the value of the field with this number.
    pub(super) fn value(number: u32, spans: SpanList) -> Record {
        let path = [Step::field(number)].into_iter().collect::<FieldPath>();
        Record {
            kind: RecordKind::Override(path),
            spans,
            first: None,
        }
    }

    /// Sets the number of a repeated field's elements in earlier records. `field` has the field
    /// numbers that lead to the repeated field.
    pub(super) fn behind(mut self, field: impl Into<Vec<u32>>, elements: usize) -> Record {
        self.first = Some((field.into(), elements as u64));
        self
    }
}

/// The bytes of a list of spans of a message, for random access.
pub(crate) struct ListBytes<'a> {
    pub(crate) message: &'a dyn ReadAt,
    pub(crate) list: &'a SpanList,
}

impl ReadAt for ListBytes<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let read = |_, at, place: &mut [u8]| Ok(self.message.read_exact_at(at, place)?);
        Ok(self.list.read_at(offset, buf, read)?)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.list.len())
    }
}

/// Appends a length-delimited field with the value `value` to a list of spans.
pub(crate) fn field(list: &mut SpanList, number: u32, value: &SpanList) {
    list.push_varint(tag(FieldNumber(number), WireType::Len));
    list.push_varint(value.len());
    list.append(value);
}
