//! What was decided: the chunks, and the bytes that each is made of.

use std::fmt;
use std::ops::Range;

use prost_reflect::MessageDescriptor;

use crate::container::{ChunkKind, Profile};
use crate::newtypes::ChunkIndex;
use crate::path::FieldPath;
use crate::proto::VersionDef;
use crate::spans::SpanList;
use crate::wire::FieldNumber;

/// A chunk to be written: where its bytes come from, and where it belongs.
#[derive(Clone, Debug)]
pub struct PlannedChunk {
    pub(crate) kind: ChunkKind,
    pub(crate) path: FieldPath,
    pub(crate) slice_of: Option<FieldNumber>,
    pub(crate) elements: u64,
    pub(crate) packed: bool,
    pub(crate) tail: bool,
    pub(crate) within: bool,
    pub(crate) parent: Option<usize>,
    pub(crate) size: u64,
    pub(crate) content: Content,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Bytes of the source, and tags and lengths that are written anew.
    Spans(SpanList),
    /// A chunk that is not a span of the source: from
    /// [`SplitContext::add_chunk`](super::SplitContext::add_chunk).
    Added(bytes::Bytes),
}

impl PlannedChunk {
    /// A chunk without a path.
    #[doc(hidden)]
    pub fn of_spans(kind: ChunkKind, spans: SpanList) -> PlannedChunk {
        PlannedChunk::new(kind, spans.len(), Content::Spans(spans))
    }

    /// A chunk without a path that a splitter added.
    #[doc(hidden)]
    pub fn of_bytes(kind: ChunkKind, bytes: bytes::Bytes) -> PlannedChunk {
        PlannedChunk::new(kind, bytes.len() as u64, Content::Added(bytes))
    }

    fn new(kind: ChunkKind, size: u64, content: Content) -> PlannedChunk {
        PlannedChunk {
            kind,
            path: FieldPath::root(),
            slice_of: None,
            elements: 0,
            packed: false,
            tail: false,
            within: false,
            parent: None,
            size,
            content,
        }
    }

    /// Returns the bytes of a chunk that a splitter added.
    pub fn added(&self) -> Option<&bytes::Bytes> {
        match &self.content {
            Content::Added(bytes) => Some(bytes),
            Content::Spans(_) => None,
        }
    }

    /// Whether it holds a message or a bytes value.
    pub fn kind(&self) -> ChunkKind {
        self.kind
    }

    /// Where it belongs, from the root of the message.
    pub fn path(&self) -> &FieldPath {
        &self.path
    }

    /// Bytes, uncompressed.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// For a slice: the repeated field whose members it holds.
    pub fn slice_of(&self) -> Option<FieldNumber> {
        self.slice_of
    }

    /// For a slice: how many members it holds, if that was counted; packed ones are not.
    pub fn elements(&self) -> Option<u64> {
        Some(self.elements).filter(|&elements| elements > 0)
    }

    /// Whether it goes on where its message ends, whatever fields are in it: what is made of a
    /// message whose fields take turns by the million.
    pub fn is_tail(&self) -> bool {
        self.tail
    }

    /// Whether it is a tail that begins within a field, which is too large for one chunk.
    pub fn is_within_field(&self) -> bool {
        self.within
    }

    /// Whether it is a slice that continues a packed run.
    pub fn packed(&self) -> bool {
        self.packed
    }

    /// The index of the chunk that it was cut out of; none for the base, and for a chunk that a
    /// splitter added.
    pub fn parent(&self) -> Option<ChunkIndex> {
        self.parent.map(ChunkIndex::from)
    }

    /// Returns the spans of the chunk, whose only source is the message that is split; none for a
    /// chunk that a splitter added.
    pub fn spans(&self) -> &SpanList {
        static NONE: SpanList = SpanList::new();
        match &self.content {
            Content::Spans(spans) => spans,
            Content::Added(_) => &NONE,
        }
    }

    /// Returns the ranges of the source that the chunk has, in its order.
    pub(crate) fn source_ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let spans = self.spans().iter();
        spans.filter_map(|span| Some(span.stored()?.1))
    }

    /// Returns the range of the source that all of the chunk is.
    pub(crate) fn only_range(&self) -> Option<Range<u64>> {
        let spans = self.spans();
        let only = spans.get(0).filter(|_| spans.span_count() == 1)?;
        Some(only.stored()?.1)
    }
}

/// Which spans leave their parent, in which chunk, under which path, in what order. Nothing is read
/// or written by it.
///
/// Printed, it lists its chunks:
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
    /// For the trailer: where every byte of the source went; empty where the placeholders tell.
    pub(crate) source_layout: Vec<u8>,
    pub(crate) version: VersionDef,
    pub(crate) profile: Profile,
    /// Whether the first chunk is what is left of the message.
    pub(crate) has_base: bool,
    pub(crate) always_chunked: bool,
}

impl SplitPlan {
    /// The chunks in the order of their indices; the first is the base, from which the others were
    /// cut, unless the splitter [left it out](crate::split::SplitContext::leave_out_message).
    pub fn chunks(&self) -> &[PlannedChunk] {
        &self.chunks
    }

    /// Whether it becomes a file of chunks: something was cut, or
    /// [that was asked for](crate::split::SplitOptions::always_chunked) in any case.
    pub fn is_split(&self) -> bool {
        self.always_chunked || !self.has_base || self.chunks.len() > 1
    }

    /// Whether a merge gives the very bytes of the source, and not just an equal message.
    pub fn byte_exact(&self) -> bool {
        self.byte_exact
    }

    /// Bytes of the message that is split.
    pub fn source_size(&self) -> u64 {
        self.source_size
    }

    /// The type of the message that is split.
    pub fn descriptor(&self) -> &MessageDescriptor {
        &self.descriptor
    }

    /// Which readers the chunks are for.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// A plan of a file whose chunks have no paths.
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

    /// A plan of these chunks.
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

    /// Whether every chunk is a span of the source, so that placeholders say where each belongs.
    pub(crate) fn is_marked(&self) -> bool {
        self.chunks
            .iter()
            .all(|chunk| matches!(chunk.content, Content::Spans(_)))
    }
}

// By hand: the `Debug` of a descriptor doesn't end for a type that contains itself.
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
            write!(f, "{index} {} {} B", chunk.kind, chunk.size)?;
            if !chunk.path.is_root() {
                write!(f, " {}", chunk.path.display(Some(&self.descriptor)))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
