//! A record of a split proto, as it is planned.

use proto_splitter_core::path::{FieldPath, Step};
use proto_splitter_core::spans::SpanList;
use proto_splitter_core::wire::{FieldNumber, WireType, put_varint, tag, varint_len};

use crate::manifest::RecordKind;

/// A record that is planned.
pub(super) struct Record {
    pub(super) kind: RecordKind,
    pub(super) spans: SpanList,
    /// Of a record with elements of a field: the numbers that lead to the field, and how many elements
    /// the records before have.
    pub(super) first: Option<(Vec<u32>, u64)>,
}

impl Record {
    /// A record that is merged into what is there.
    pub(super) const fn merge(spans: SpanList) -> Record {
        Record {
            kind: RecordKind::Merge,
            spans,
            first: None,
        }
    }

    /// The value of a field.
    pub(super) fn value(number: u32, spans: SpanList) -> Record {
        let path = [Step::field(number)].into_iter().collect::<FieldPath>();
        Record {
            kind: RecordKind::Override(path),
            spans,
            first: None,
        }
    }

    /// The same, with elements of a field behind others.
    pub(super) fn behind(mut self, field: impl Into<Vec<u32>>, elements: usize) -> Record {
        self.first = Some((field.into(), elements as u64));
        self
    }
}

/// The tag and length in front of a value.
pub(super) fn head(number: u32, len: u64) -> Vec<u8> {
    let tag = tag(FieldNumber(number), WireType::Len);
    let mut bytes = Vec::with_capacity(varint_len(tag) + varint_len(len));
    put_varint(&mut bytes, tag);
    put_varint(&mut bytes, len);
    bytes
}
