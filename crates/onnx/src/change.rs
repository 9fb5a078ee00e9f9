//! Changes to messages in a model.

use std::ops::Range;

use proto_splitter_core::spans::SourceId;
use proto_splitter_core::wire::{FieldNumber, WireType, put_varint, tag};

use crate::tensor::field;

/// A change to a message in a model: a tensor, or an attribute.
pub(crate) enum Change {
    None,
    /// Removes the fields with the numbers in `dropped`, and inserts `inserted` before the first
    /// remaining field whose number is at least `before`.
    Fields {
        dropped: &'static [u32],
        before: u32,
        inserted: Vec<Inserted>,
        /// Fields to insert after this message, in the enclosing message.
        after: Vec<u8>,
    },
}

/// The fields removed from a tensor when its data is moved into the model: the data's location, and
/// fields that the data overrides.
const OUTSIDE: &[u32] = &[
    4,
    5,
    6,
    7,
    field::RAW_DATA,
    10,
    11,
    field::EXTERNAL_DATA,
    field::DATA_LOCATION,
];

impl Change {
    /// Replaces the data with a span of a file, which becomes part of the message.
    pub(crate) fn raw_data(file: SourceId, range: Range<u64>) -> Change {
        let mut front = Vec::new();
        put_varint(&mut front, tag(FieldNumber(field::RAW_DATA), WireType::Len));
        put_varint(&mut front, range.end - range.start);
        Change::Fields {
            dropped: OUTSIDE,
            before: field::RAW_DATA + 1,
            inserted: vec![Inserted::Literal(front), Inserted::Span(file, range)],
            after: Vec::new(),
        }
    }
}

/// The content inserted into a message.
pub(crate) enum Inserted {
    Literal(Vec<u8>),
    /// A span of a file.
    Span(SourceId, Range<u64>),
}
