//! The records of a planned split proto.

use proto_splitter_core::path::{FieldPath, Step};
use proto_splitter_core::spans::SpanList;
use proto_splitter_core::wire::{FieldNumber, WireType, put_varint, tag, varint_len};

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

/// Returns the tag and length before the value of a length-delimited field.
pub(super) fn head(number: u32, len: u64) -> Vec<u8> {
    let tag = tag(FieldNumber(number), WireType::Len);
    let mut bytes = Vec::with_capacity(varint_len(tag) + varint_len(len));
    put_varint(&mut bytes, tag);
    put_varint(&mut bytes, len);
    bytes
}
