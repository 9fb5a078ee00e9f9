//! The layout of the chunks that result from cuts. Every byte of the source becomes part of the
//! chunk of the innermost cut span around it, or of the base chunk.

use std::ops::Range;

use super::cuts::{ChunkId, Cut, Cuts, DecidedChunk};
use super::split_plan::{Content, PlannedChunk};
use crate::Result;
use crate::container::ChunkKind;
use crate::path::FieldPath;
use crate::spans::{SourceId, SpanListBuilder};
use crate::split::read::source::Source;
use crate::wire::{Field, WireCursor, WireType, tag, varint_len};

/// The chunks of the source, the base first.
#[derive(Debug)]
pub(crate) struct ChunkLayout {
    pub(crate) chunks: Vec<PlannedChunk>,
    pub(crate) byte_exact: bool,
}

/// Lays out the chunks. `most` is the maximum size of a BYTES chunk in bytes; a larger value is
/// divided into several consecutive chunks.
pub(crate) fn emit(source: &Source, marks: &Cuts, most: Option<u64>) -> Result<ChunkLayout> {
    let mut emitter = Emitter {
        source,
        marks,
        most,
        spans: marks.spans().collect(),
        next: 0,
        chunks: Vec::new(),
        index_of: vec![None; marks.chunk_count()],
        minimal: true,
    };
    emitter.open_base();
    emitter.content(0..source.size(), 0)?;
    let chunks = emitter.chunks.into_iter().map(Draft::into_chunk);
    let chunks = chunks.collect::<Result<_>>()?;
    let byte_exact = emitter.minimal && !marks.reordered;
    Ok(ChunkLayout { chunks, byte_exact })
}

struct Emitter<'a> {
    source: &'a Source,
    marks: &'a Cuts,
    most: Option<u64>,
    spans: Vec<(Range<u64>, &'a Cut)>,
    /// Index of the next cut span, in source order.
    next: usize,
    chunks: Vec<Draft>,
    index_of: Vec<Option<usize>>,
    minimal: bool,
}

struct Draft {
    decided: DecidedChunk,
    parent: Option<usize>,
    spans: SpanListBuilder,
}

impl Draft {
    fn into_chunk(self) -> Result<PlannedChunk> {
        let spans = self.spans.finish()?;
        Ok(PlannedChunk {
            decided: self.decided,
            parent: self.parent,
            size: spans.len(),
            content: Content::Spans(spans),
        })
    }
}

impl Emitter<'_> {
    fn open_base(&mut self) {
        let base = DecidedChunk::new(FieldPath::root(), ChunkKind::Message);
        self.draft(base, None);
    }

    /// Returns the index of a chunk, creating the chunk if necessary. Chunks are numbered in the
    /// order of their first bytes in the source.
    fn open(&mut self, id: ChunkId, parent: usize) -> usize {
        if let Some(index) = self.index_of[id.0] {
            return index;
        }
        let index = self.draft(self.marks.chunk(id).clone(), Some(parent));
        self.index_of[id.0] = Some(index);
        index
    }

    fn draft(&mut self, decided: DecidedChunk, parent: Option<usize>) -> usize {
        self.chunks.push(Draft {
            decided,
            parent,
            spans: SpanListBuilder::default(),
        });
        self.chunks.len() - 1
    }

    /// Adds the bytes of `range` to chunk `to`, except the bytes of cut spans inside the range.
    fn content(&mut self, range: Range<u64>, to: usize) -> Result<()> {
        let mut position = range.start;
        while let Some((place, mark)) = self.spans.get(self.next).cloned() {
            if place.start >= range.end {
                break;
            }
            self.next += 1;
            self.copy(position..place.start, to);
            position = place.end;
            match mark {
                Cut::Slice(id) => {
                    let chunk = self.open(*id, to);
                    self.content(place, chunk)?;
                }
                Cut::PackedSlice(field, id) => {
                    let chunk = self.open(*id, to);
                    self.tag(field, chunk)?;
                    self.length(place.end - place.start, chunk);
                    self.copy(place, chunk);
                }
                Cut::Value(field, id) => {
                    self.tag(field, to)?;
                    if field.wire_type == WireType::Len {
                        self.length(0, to);
                        self.check_length(field);
                    }
                    let value = self.pieces(field, *id, to);
                    let chunk = self.open(*id, to);
                    self.content(value, chunk)?;
                    self.copy(field.value.end..field.end, to);
                }
                Cut::Enclose(field) => self.enclosed(field, to)?,
            }
        }
        self.copy(position..range.end, to);
        Ok(())
    }

    /// If a bytes value is too large for one chunk, moves all but the last part into separate
    /// chunks. Returns the range of the last part, for the chunk `id`.
    fn pieces(&mut self, field: &Field, id: ChunkId, to: usize) -> Range<u64> {
        let mut value = field.value.clone();
        let decided = self.marks.chunk(id);
        let Some(most) = self.most.filter(|_| decided.kind == ChunkKind::Bytes) else {
            return value;
        };
        while value.end - value.start > most {
            let piece = self.draft(decided.clone(), Some(to));
            self.copy(value.start..value.start + most, piece);
            value.start += most;
        }
        value
    }

    fn enclosed(&mut self, field: &Field, to: usize) -> Result<()> {
        self.tag(field, to)?;
        if field.wire_type != WireType::Len {
            self.content(field.value.clone(), to)?;
            self.copy(field.value.end..field.end, to);
            return Ok(());
        }
        self.check_length(field);
        self.chunks[to].spans.begin_length();
        self.content(field.value.clone(), to)?;
        self.chunks[to].spans.end_length()
    }

    fn check_length(&mut self, field: &Field) {
        let written = field.value.start - field.tag_end;
        let minimal = varint_len(field.value.end - field.value.start) as u64;
        self.minimal &= written == minimal;
    }

    fn tag(&mut self, field: &Field, to: usize) -> Result<()> {
        let minimal = tag(field.number, field.wire_type);
        if field.tag_end - field.start == varint_len(minimal) as u64 {
            self.chunks[to].spans.push_varint(minimal);
        } else {
            let mut cursor = WireCursor::new(self.source.input());
            let written = cursor.bytes(field.start..field.tag_end)?;
            self.chunks[to].spans.push_literal(written);
        }
        Ok(())
    }

    fn length(&mut self, length: u64, to: usize) {
        self.chunks[to].spans.push_varint(length);
    }

    fn copy(&mut self, range: Range<u64>, to: usize) {
        self.chunks[to].spans.push_span(SourceId::FIRST, range);
    }
}
