//! The plan for a split: the chunks, and the spans of the source in each chunk.

use std::fmt;
use std::ops::Range;

use prost_reflect::MessageDescriptor;

use super::cuts::DecidedChunk;
use crate::container::{ChunkKind, Profile};
use crate::error::ChunkIndex;
use crate::path::FieldPath;
use crate::proto::VersionDef;
use crate::spans::SpanList;
use crate::wire::FieldNumber;

/// A chunk to write: the origin of its bytes, and its place in the message.
#[derive(Clone, Debug)]
pub struct PlannedChunk {
    pub(crate) decided: DecidedChunk,
    pub(crate) parent: Option<usize>,
    pub(crate) size: u64,
    pub(crate) content: Content,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Bytes of the source, and rewritten tags and lengths.
    Spans(SpanList),
    /// Bytes that a splitter added with
    /// [`SplitContext::add_chunk`](super::SplitContext::add_chunk).
    Added(bytes::Bytes),
}

impl PlannedChunk {
    /// Creates a chunk without a path.
    #[doc(hidden)]
    pub fn of_spans(kind: ChunkKind, spans: SpanList) -> PlannedChunk {
        PlannedChunk::new(kind, spans.len(), Content::Spans(spans))
    }

    /// Creates a chunk that has no path and consists of these bytes.
    #[doc(hidden)]
    pub fn of_bytes(kind: ChunkKind, bytes: bytes::Bytes) -> PlannedChunk {
        PlannedChunk::new(kind, bytes.len() as u64, Content::Added(bytes))
    }

    fn new(kind: ChunkKind, size: u64, content: Content) -> PlannedChunk {
        PlannedChunk {
            decided: DecidedChunk::new(FieldPath::root(), kind),
            parent: None,
            size,
            content,
        }
    }

    /// Returns the bytes of a chunk that a splitter added; `None` for a chunk from the source.
    pub fn added(&self) -> Option<&bytes::Bytes> {
        match &self.content {
            Content::Added(bytes) => Some(bytes),
            Content::Spans(_) => None,
        }
    }

    /// Returns the kind of the chunk: a message or a bytes value.
    pub fn kind(&self) -> ChunkKind {
        self.decided.kind
    }

    /// Returns the path of the chunk from the root of the message.
    pub fn path(&self) -> &FieldPath {
        &self.decided.path
    }

    /// Returns the uncompressed size of the chunk, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of the repeated field whose elements the chunk contains; `None` if the
    /// chunk is not a slice.
    pub fn slice_of(&self) -> Option<FieldNumber> {
        self.decided.slice_of
    }

    /// Returns the number of elements in a slice; `None` if it is unknown, the elements are packed,
    /// or the chunk is not a slice.
    pub fn elements(&self) -> Option<u64> {
        Some(self.decided.elements).filter(|&elements| elements > 0)
    }

    /// Returns true if the chunk is a tail. A merge appends the fields in a tail to the message.
    /// These fields may have any field numbers. Messages with millions of alternating fields are
    /// cut into tails.
    pub fn is_tail(&self) -> bool {
        self.decided.tail
    }

    /// Returns true if the chunk is a tail that begins inside a field. Such a field is too large
    /// for one chunk.
    pub fn is_within_field(&self) -> bool {
        self.decided.within
    }

    /// Returns true if the chunk is a slice that contains elements of a packed field.
    pub fn packed(&self) -> bool {
        self.decided.packed
    }

    /// Returns the index of the chunk out of which this chunk was cut; `None` for the base, and for
    /// a chunk that a splitter added.
    pub fn parent(&self) -> Option<ChunkIndex> {
        self.parent.map(ChunkIndex::from)
    }

    /// Returns the spans that the chunk consists of: ranges of the message being split, and
    /// rewritten tags and lengths. Empty for a chunk that a splitter added.
    pub fn spans(&self) -> &SpanList {
        static NONE: SpanList = SpanList::new();
        match &self.content {
            Content::Spans(spans) => spans,
            Content::Added(_) => &NONE,
        }
    }

    /// Returns the ranges of the source that the chunk contains, in order.
    pub(crate) fn source_ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let spans = self.spans().iter();
        spans.filter_map(|span| Some(span.stored()?.1))
    }

    /// Returns the range of the source that the chunk consists of; `None` if it has more than one
    /// range, or other bytes.
    pub(crate) fn only_range(&self) -> Option<Range<u64>> {
        let spans = self.spans();
        let only = spans.get(0).filter(|_| spans.span_count() == 1)?;
        Some(only.stored()?.1)
    }
}

/// The planned chunks of a message, in order. Each chunk has a path, and the spans of the source
/// that it consists of. A plan itself reads and writes nothing.
///
/// Its `Display` lists its chunks:
///
/// ```text
/// 0 MESSAGE 52 B
/// 1 BYTES 4096 B graph_def.node[0].attr["value"].tensor.tensor_content
/// ```
#[derive(Clone)]
pub struct SplitPlan {
    pub(crate) descriptor: MessageDescriptor,
    pub(crate) source_size: u64,
    pub(crate) chunks: Vec<PlannedChunk>,
    pub(crate) nested: std::collections::BTreeSet<FieldPath>,
    pub(crate) byte_exact: bool,
    /// Encoded destination (chunk and offset) of every source byte, for the trailer. Empty if
    /// placeholders suffice.
    pub(crate) source_layout: Vec<u8>,
    pub(crate) version: VersionDef,
    pub(crate) profile: Profile,
    /// True if the first chunk is the base: the remainder of the message after all cuts.
    pub(crate) has_base: bool,
    pub(crate) always_chunked: bool,
}

impl SplitPlan {
    /// Returns the chunks in index order. The first one is the base, from which the others were
    /// cut, unless the splitter [omitted the
    /// message](crate::split::SplitContext::leave_out_message).
    pub fn chunks(&self) -> &[PlannedChunk] {
        &self.chunks
    }

    /// Returns true if writing the plan creates a chunked file: something was cut, or the options
    /// [request one](crate::split::SplitOptions::always_chunked).
    pub fn is_split(&self) -> bool {
        self.always_chunked || !self.has_base || self.chunks.len() > 1
    }

    /// Returns true if a merge reproduces the exact bytes of the source, and not just an equal
    /// message.
    pub fn byte_exact(&self) -> bool {
        self.byte_exact
    }

    /// Returns the size of the message being split, in bytes.
    pub fn source_size(&self) -> u64 {
        self.source_size
    }

    /// Returns the type of the message being split.
    pub fn descriptor(&self) -> &MessageDescriptor {
        &self.descriptor
    }

    /// Returns the profile that the chunks conform to.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Creates the plan for a file whose chunks have no paths.
    #[doc(hidden)]
    #[must_use]
    pub fn of_chunks(
        descriptor: MessageDescriptor,
        source_size: u64,
        chunks: Vec<PlannedChunk>,
    ) -> SplitPlan {
        SplitPlan {
            descriptor,
            source_size,
            chunks,
            nested: std::collections::BTreeSet::new(),
            byte_exact: false,
            source_layout: Vec::new(),
            version: VersionDef::default(),
            profile: Profile::Extended,
            has_base: true,
            always_chunked: true,
        }
    }

    /// Creates a plan like this one, but with other chunks.
    #[doc(hidden)]
    #[must_use]
    pub fn with_chunks(&self, chunks: Vec<PlannedChunk>) -> SplitPlan {
        SplitPlan {
            descriptor: self.descriptor.clone(),
            source_size: self.source_size,
            chunks,
            nested: std::collections::BTreeSet::new(),
            byte_exact: self.byte_exact,
            source_layout: Vec::new(),
            version: self.version.clone(),
            profile: self.profile,
            has_base: self.has_base,
            always_chunked: self.always_chunked,
        }
    }

    /// Returns true if no chunk was added by a splitter, so that placeholders determine the place
    /// of each chunk.
    pub(crate) fn is_marked(&self) -> bool {
        self.chunks
            .iter()
            .all(|chunk| matches!(chunk.content, Content::Spans(_)))
    }
}

// Implemented manually: a descriptor's `Debug` recurses endlessly for a type that contains itself.
impl fmt::Debug for SplitPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SplitPlan")
            .field("descriptor", &self.descriptor.full_name())
            .field("source_size", &self.source_size)
            .field("byte_exact", &self.byte_exact)
            .field("chunks", &self.chunks)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for SplitPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, chunk) in self.chunks.iter().enumerate() {
            write!(f, "{index} {} {} B", chunk.kind(), chunk.size)?;
            if !chunk.path().is_root() {
                write!(f, " {}", chunk.path().display(Some(&self.descriptor)))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
