//! Changes to single messages of a model.

use std::ops::Range;

use proto_splitter_core::spans::SourceId;
use proto_splitter_core::wire::{FieldNumber, WireType, put_varint, tag};

use crate::tensor::field;

/// A change to a single message of a model: a tensor or an attribute.
pub(crate) enum Change {
    None,
    /// Removes the fields with the numbers in `dropped`, and inserts `inserted` before the first
    /// remaining field whose number is at least `before`.
    Fields {
        dropped: &'static [u32],
        before: u32,
        inserted: Vec<Inserted>,
        /// Encoded fields to insert after the changed message, in its parent message.
        after: Vec<u8>,
    },
}

impl Change {
    /// Returns the change that replaces a tensor's data with the bytes at `range` in a file.
    pub(crate) fn raw_data(file: SourceId, range: Range<u64>) -> Change {
        let mut front = Vec::new();
        put_varint(&mut front, tag(FieldNumber(field::RAW_DATA), WireType::Len));
        put_varint(&mut front, range.end - range.start);
        Change::Fields {
            dropped: field::DATA,
            before: field::RAW_DATA + 1,
            inserted: vec![Inserted::Literal(front), Inserted::Span(file, range)],
            after: Vec::new(),
        }
    }
}

/// Bytes to insert into a message.
pub(crate) enum Inserted {
    Literal(Vec<u8>),
    /// A byte range of a file.
    Span(SourceId, Range<u64>),
}
