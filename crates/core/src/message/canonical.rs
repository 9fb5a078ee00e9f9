//! Serializing a message deterministically, as C++ does. The serialization is planned as spans of
//! the message's existing bytes.
//!
//! Two serializations of one message may differ in the order of fields and map entries, in overlong
//! varints and lengths, in superseded values and in explicit defaults. The canonical serialization
//! is the one that C++ writes: fields sorted by number, map entries sorted by key, repeated numbers
//! packed as declared, minimal encodings, and unknown fields last, including the numbers that a
//! closed enum doesn't declare. Fingerprints are hashes of this form.
//!
//! Nothing is decoded. A plan is a list of spans of the source with a few literal bytes between
//! them. Most of a source is already canonical, and adjacent canonical spans merge into one. So the
//! memory for a plan grows only with the number of places in the source that are not canonical.
//! Values stay in the source.

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

use crate::Result;
use crate::progress::Progress;
use crate::spans::{SpanSource, Spans, SpansBuilder};
use crate::wire::{SourceInput, WireCursor};
use prost_reflect::MessageDescriptor;
use record_file::ReadAt;

pub use edits::Edits;
pub use plan::Plan;
pub use scalar::Key;

use schema::Schema;

/// Maximum nesting depth of messages: 100, the default of protobuf's parsers.
const MAX_DEPTH: u32 = 100;

/// Returns a message in canonical form: fields sorted by number, map entries by key, and unknown
/// fields last. Values stay in the source until they are read.
///
/// # Errors
///
/// [`InvalidMessage`](crate::ErrorKind::InvalidMessage) if the message breaks the wire format, or a
/// string that parsers require to be UTF-8 isn't;
/// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if it nests too deeply;
/// [`Io`](crate::ErrorKind::Io) if it can't be read.
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

/// A planner for the canonical forms of messages in one source.
#[expect(
    missing_debug_implementations,
    reason = "it has the descriptors of all fields"
)]
pub struct Canonical<'a> {
    source: &'a dyn ReadAt,
    size: u64,
    cursor: WireCursor<SourceInput<'a, dyn ReadAt + 'a>>,
    schema: Schema,
    progress: Progress,
    /// True inside a singular message that is planned with all its pieces. There, no singular
    /// message is planned before all its pieces are known: planning messages twice at every level
    /// would take exponential time.
    defers: bool,
}

impl<'a> Canonical<'a> {
    /// Creates a planner for messages in the first `size` bytes of `source`.
    pub fn new(source: &'a dyn ReadAt, size: u64) -> Self {
        Canonical {
            source,
            size,
            cursor: WireCursor::new(SourceInput::new(source, size)),
            schema: Schema::default(),
            progress: Progress::default(),
            defers: false,
        }
    }

    /// Sets the progress listener for the execution of plans.
    #[must_use]
    pub fn progress(mut self, progress: &Progress) -> Self {
        self.progress = progress.clone();
        self
    }

    /// Returns the byte range of the whole source, as a list of one piece.
    pub fn whole(&self) -> [Range<u64>; 1] {
        std::array::from_fn(|_| 0..self.size)
    }

    /// Plans the canonical form of a message, with `edits` applied. The message's encoding is the
    /// concatenation of `pieces`, which are byte ranges of the source.
    pub fn message(
        &mut self,
        descriptor: &MessageDescriptor,
        pieces: &[Range<u64>],
        edits: &Edits<'_>,
    ) -> Result<Plan> {
        let shape = self.schema.id(descriptor);
        self.plan(shape, pieces, edits, MAX_DEPTH)
    }

    /// Plans the canonical form of each value in the map field `number` of a message. Returns the
    /// plans by map key.
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

    /// Returns the byte ranges of all length-delimited occurrences of a field in a message: the
    /// pieces of a singular submessage, the elements of a repeated one, or the entries of a map.
    pub fn pieces(&mut self, pieces: &[Range<u64>], number: u32) -> Result<Vec<Range<u64>>> {
        self.cursor.values(pieces, number)
    }

    /// Returns the byte ranges of the length-delimited occurrences of the field at the end of a
    /// path of field numbers.
    pub fn path(&mut self, pieces: &[Range<u64>], path: &[u32]) -> Result<Vec<Range<u64>>> {
        let mut at = pieces.to_vec();
        for number in path {
            at = self.pieces(&at, *number)?;
        }
        Ok(at)
    }

    /// Returns the byte ranges of each value in a map field with string keys and message values, by
    /// map key.
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

    /// Returns the bytes at `range` in the source. The range must be small, since its bytes are
    /// held in memory.
    pub fn bytes(&mut self, range: Range<u64>) -> Result<&[u8]> {
        self.cursor.bytes(range)
    }

    /// Writes the bytes that a plan describes to `sink`.
    pub fn write(&self, plan: &Plan, sink: &mut dyn Write) -> Result<()> {
        let mut cursor = WireCursor::new(SourceInput::new(self.source, self.size));
        let meter = self.progress.meter(plan.len());
        let mut sink = meter.written_to(sink);
        for span in plan.spans().iter() {
            match span.source {
                SpanSource::Literal(bytes) => sink.write_all(bytes)?,
                SpanSource::Stored(_, start) => {
                    let range = start..start + span.len;
                    cursor.read_pieces(range, |bytes| Ok(sink.write_all(bytes)?))?;
                }
            }
        }
        Ok(())
    }
}
