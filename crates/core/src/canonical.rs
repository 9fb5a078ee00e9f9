//! A message as C++ serializes it deterministically, planned over the bytes it has now.
//!
//! Two serializations of one message differ in the order of their fields and map entries, in
//! lengths and numbers that take more bytes than they need, in values that are superseded, in
//! defaults. One of them is canonical, the one that C++ writes: fields by number, map entries by
//! key, repeated numbers packed as declared, everything minimal, and what the type doesn't know
//! after. Fingerprints are hashes of it.
//!
//! Nothing is decoded for it. A plan is a list of spans of the source and of a few bytes of its
//! own between them; where the source is canonical already, which most of it is, neighbouring spans
//! are one. So memory grows with the places where it isn't, and no value is held, whatever its
//! size.

mod edits;
mod entry;
mod message;
mod numbers;
mod plan;
mod scalar;
mod schema;

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use crate::progress::Progress;
use crate::spans::{SpanSource, Spans, SpansBuilder};
use crate::wire::{Input, SourceInput, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};
use prost_reflect::MessageDescriptor;
use record_file::ReadAt;

pub use edits::Edits;
pub use plan::Plan;
pub use scalar::Key;

use schema::Schema;

/// The depth to which messages may nest: protobuf's own default.
const MAX_DEPTH: u32 = 100;

/// The part of the source that is read at a time while a plan is carried out.
const COPY_LEN: usize = 256 << 10;

/// Returns a message in its canonical form: fields by number, map entries by key, and what the type
/// doesn't know behind. Values stay where they are until they are read.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if the message breaks the wire format; [`ErrorKind::LimitExceeded`]
/// if it nests too deep; [`ErrorKind::Io`] if it can't be read.
pub(crate) fn canonical(
    message: &Arc<dyn ReadAt>,
    descriptor: &MessageDescriptor,
) -> Result<Spans> {
    let mut canonical = Canonical::new(&**message, message.size()?);
    let plan = canonical.message(descriptor, &canonical.whole(), &Edits::none())?;
    let mut builder = SpansBuilder::new();
    let source = builder.reader("the message", Arc::clone(message))?;
    for span in plan.spans().iter() {
        match span.source {
            SpanSource::Literal(bytes) => builder.literal(bytes)?,
            SpanSource::Stored(_, at) => builder.span(source, at..at + span.len)?,
        }
    }
    builder.finish()
}

/// Plans canonical forms of messages that lie in one source.
#[expect(
    missing_debug_implementations,
    reason = "it borrows a source, which has none"
)]
pub struct Canonical<'a> {
    source: &'a dyn ReadAt,
    size: u64,
    cursor: WireCursor<SourceInput<'a, dyn ReadAt + 'a>>,
    schema: Schema,
    progress: Progress,
}

impl<'a> Canonical<'a> {
    /// Messages in the first `size` bytes of `source`.
    pub fn new(source: &'a dyn ReadAt, size: u64) -> Self {
        Canonical {
            source,
            size,
            cursor: WireCursor::new(SourceInput::new(source, size)),
            schema: Schema::default(),
            progress: Progress::default(),
        }
    }

    /// Sets who is told how far it is with the plan that is carried out.
    #[must_use]
    pub fn progress(mut self, progress: &Progress) -> Self {
        self.progress = progress.clone();
        self
    }

    /// All of the source, as one piece.
    pub fn whole(&self) -> [Range<u64>; 1] {
        std::array::from_fn(|_| 0..self.size)
    }

    /// The canonical form of the message whose bytes are those `pieces`, one after the other.
    pub fn message(
        &mut self,
        descriptor: &MessageDescriptor,
        pieces: &[Range<u64>],
        edits: &Edits<'_>,
    ) -> Result<Plan> {
        let shape = self.schema.id(descriptor);
        self.plan(shape, pieces, edits, MAX_DEPTH)
    }

    /// The canonical forms of the values of a map field, by key.
    pub fn map(
        &mut self,
        descriptor: &MessageDescriptor,
        pieces: &[Range<u64>],
        number: u32,
    ) -> Result<BTreeMap<Key, Plan>> {
        let shape = self.schema.id(descriptor);
        let mut values = BTreeMap::new();
        for entry in self.pieces(pieces, number)? {
            if let Some((key, value)) = self.map_value(shape, number, entry)? {
                values.insert(key, value);
            }
        }
        Ok(values)
    }

    /// All length-delimited occurrences of a field in a message: the pieces of a singular
    /// submessage, the elements of a repeated one, the entries of a map.
    pub fn pieces(&mut self, pieces: &[Range<u64>], number: u32) -> Result<Vec<Range<u64>>> {
        let mut found = Vec::new();
        for piece in pieces {
            self.cursor.set_range(piece.clone());
            while let Some(field) = self.cursor.next()? {
                if field.number.0 == number && field.wire_type == WireType::Len {
                    found.push(field.value);
                }
            }
        }
        Ok(found)
    }

    /// The length-delimited occurrences of what a row of fields leads to.
    pub fn path(&mut self, pieces: &[Range<u64>], path: &[u32]) -> Result<Vec<Range<u64>>> {
        let mut at = pieces.to_vec();
        for number in path {
            at = self.pieces(&at, *number)?;
        }
        Ok(at)
    }

    /// The entries of a map with string keys and message values: where the pieces of their values
    /// are.
    pub fn string_map(
        &mut self,
        pieces: &[Range<u64>],
        number: u32,
    ) -> Result<BTreeMap<Vec<u8>, Vec<Range<u64>>>> {
        let mut values = BTreeMap::new();
        for entry in self.pieces(pieces, number)? {
            let key = self.pieces(std::slice::from_ref(&entry), 1)?.pop();
            let value = self.pieces(&[entry], 2)?;
            let key = self.bytes(key.unwrap_or(0..0))?.to_vec();
            values.insert(key, value);
        }
        Ok(values)
    }

    /// Bytes of the source, which must be few.
    pub fn bytes(&mut self, range: Range<u64>) -> Result<&[u8]> {
        self.cursor.bytes(range)
    }

    /// Writes what was planned.
    pub fn write(&self, plan: &Plan, sink: &mut dyn Write) -> Result<()> {
        let mut input = SourceInput::new(self.source, self.size);
        let meter = self.progress.meter(plan.len());
        for span in plan.spans().iter() {
            let range = match span.source {
                SpanSource::Stored(_, start) => start..start + span.len,
                SpanSource::Literal(bytes) => {
                    sink.write_all(bytes)?;
                    meter.advance(span.len)?;
                    continue;
                }
            };
            let mut position = range.start;
            while position < range.end {
                let want = usize::try_from(range.end - position).unwrap_or(usize::MAX);
                let bytes = input.fetch(position, want.min(COPY_LEN))?;
                let bytes = &bytes[..bytes.len().min(want)];
                if bytes.is_empty() {
                    let error = Error::new(ErrorKind::SourceChanged, "the source ended early");
                    return Err(error.at_offset(position));
                }
                sink.write_all(bytes)?;
                meter.advance(bytes.len() as u64)?;
                position += bytes.len() as u64;
            }
        }
        Ok(())
    }
}
