//! The cuts of a split: nested spans of the source that move from their parent's chunk to separate
//! chunks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::container::ChunkKind;
use crate::path::{FieldPath, Select};
use crate::split::read::source_view::Chain;
use crate::wire::{Field, FieldNumber};

/// The identifier of a planned chunk, before the chunk has an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChunkId(pub(crate) usize);

/// The treatment of a cut span of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A run of complete fields that moves into a chunk.
    Slice(ChunkId),
    /// A field that stays where it is, with a new length, since something inside it moves into a
    /// chunk.
    Enclose(Field),
    /// A field whose value moves into a chunk. The field itself stays, with an empty value.
    Value(Field, ChunkId),
    /// A run of packed elements that moves into a chunk, with a new tag and length.
    PackedSlice(Field, ChunkId),
}

/// The sort key of spans: by start; among spans with the same start, the enclosing one comes first.
/// If a slice and a field have the same span, the slice encloses the field.
type Place = (u64, std::cmp::Reverse<u64>, u8);

/// A planned chunk.
#[derive(Clone, Debug)]
pub(crate) struct DecidedChunk {
    pub(crate) path: FieldPath,
    pub(crate) kind: ChunkKind,
    /// Number of the field whose elements the chunk contains; `None` if it is not a slice.
    pub(crate) slice_of: Option<FieldNumber>,
    /// Number of elements in a slice; 0 if unknown.
    pub(crate) elements: u64,
    pub(crate) packed: bool,
    /// True if the chunk is a continuation, whose fields may have any numbers and are appended to
    /// the message.
    pub(crate) tail: bool,
    /// True if the chunk is a continuation that begins inside a field.
    pub(crate) within: bool,
}

impl DecidedChunk {
    /// Creates a chunk that is neither a slice nor a continuation.
    pub(crate) fn new(path: FieldPath, kind: ChunkKind) -> DecidedChunk {
        DecidedChunk {
            path,
            kind,
            slice_of: None,
            elements: 0,
            packed: false,
            tail: false,
            within: false,
        }
    }
}

/// All cuts made so far.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    spans: BTreeMap<Place, Cut>,
    chunks: Vec<DecidedChunk>,
    /// For each path that ends with a map key: the field of the entry's value, and the number of
    /// chunks at this path or inside the value.
    keyed: BTreeMap<FieldPath, (Field, usize)>,
    /// True if the elements of some sliced field were not contiguous.
    pub(crate) reordered: bool,
}

impl Cuts {
    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns all spans in source order. Each span comes before the spans that it encloses.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (Range<u64>, &Cut)> {
        self.spans
            .iter()
            .map(|((start, end, _), mark)| (*start..end.0, mark))
    }

    pub(crate) fn chunk(&self, id: ChunkId) -> &DecidedChunk {
        &self.chunks[id.0]
    }

    pub(crate) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Adds cuts that were made separately.
    pub(crate) fn absorb(&mut self, other: Cuts) {
        if self.spans.is_empty() {
            *self = other;
            return;
        }
        let first = self.chunks.len();
        let renumbered = |id: ChunkId| ChunkId(first + id.0);
        for (place, mark) in other.spans {
            let mark = match mark {
                Cut::Enclose(field) => {
                    // If the field's value is cut, it stays cut, even if something inside it is
                    // moved out, too.
                    self.spans.entry(place).or_insert(Cut::Enclose(field));
                    continue;
                }
                Cut::Slice(id) => Cut::Slice(renumbered(id)),
                Cut::Value(field, id) => Cut::Value(field, renumbered(id)),
                Cut::PackedSlice(field, id) => Cut::PackedSlice(field, renumbered(id)),
            };
            self.spans.insert(place, mark);
        }
        self.chunks.extend(other.chunks);
        for (path, (field, count)) in other.keyed {
            self.keyed.entry(path).or_insert((field, 0)).1 += count;
        }
        self.reordered |= other.reordered;
    }

    /// Returns the chunk that contains the value of this field; `None` if the value wasn't cut.
    pub(crate) fn cut_at(&self, field: &Field) -> Option<ChunkId> {
        match self.spans.get(&field_place(field)) {
            Some(Cut::Value(_, id)) => Some(*id),
            _ => None,
        }
    }

    /// Returns true if anything inside `range` was cut.
    pub(crate) fn any_within(&self, range: &Range<u64>) -> bool {
        let from = (range.start, std::cmp::Reverse(u64::MAX), 0);
        let to = (range.end, std::cmp::Reverse(u64::MAX), 0);
        self.spans.range(from..to).next().is_some()
    }

    /// Moves the value of the innermost field in `chain` from its parent into a chunk at `path`.
    pub(crate) fn cut(&mut self, chain: &Chain, path: &FieldPath, kind: ChunkKind) {
        let Some(occurrence) = chain else { return };
        if self.cut_at(&occurrence.field).is_some() {
            return;
        }
        let id = self.decide(path.clone(), kind, None, false);
        self.enclose(&occurrence.parent);
        self.note_keys(chain, path);
        let field = occurrence.field.clone();
        self.spans
            .insert(field_place(&field), Cut::Value(field, id));
    }

    /// Moves runs of complete fields out of the message at `parent` into a slice. `elements` is the
    /// number of these fields, or 0 if unknown.
    pub(crate) fn slice(
        &mut self,
        path: &FieldPath,
        number: FieldNumber,
        parent: &Chain,
        (runs, elements): (impl IntoIterator<Item = Range<u64>>, u64),
    ) {
        let id = self.decide(path.clone(), ChunkKind::Message, Some(number), false);
        self.chunks[id.0].elements = elements;
        self.enclose(parent);
        self.note_keys(parent, path);
        for run in runs {
            self.spans
                .insert((run.start, std::cmp::Reverse(run.end), 0), Cut::Slice(id));
        }
    }

    /// Moves a range of the root message into a continuation of the preceding chunk. `within` must
    /// be true if the range begins inside a field.
    pub(crate) fn tail(&mut self, range: Range<u64>, within: bool) {
        let id = self.decide(FieldPath::root(), ChunkKind::Message, None, false);
        self.chunks[id.0].tail = true;
        self.chunks[id.0].within = within;
        let place = (range.start, std::cmp::Reverse(range.end), 0);
        self.spans.insert(place, Cut::Slice(id));
    }

    /// Moves a run of elements out of the packed field `run` into a slice.
    pub(crate) fn slice_packed(&mut self, path: &FieldPath, run: &Chain, elements: Range<u64>) {
        let Some(occurrence) = run else { return };
        let id = self.decide(
            path.clone(),
            ChunkKind::Message,
            Some(occurrence.field.number),
            true,
        );
        self.enclose(run);
        self.note_keys(&occurrence.parent, path);
        let place = (elements.start, std::cmp::Reverse(elements.end), 0);
        self.spans
            .insert(place, Cut::PackedSlice(occurrence.field.clone(), id));
    }

    fn decide(
        &mut self,
        path: FieldPath,
        kind: ChunkKind,
        slice_of: Option<FieldNumber>,
        packed: bool,
    ) -> ChunkId {
        self.chunks.push(DecidedChunk {
            slice_of,
            packed,
            ..DecidedChunk::new(path, kind)
        });
        ChunkId(self.chunks.len() - 1)
    }

    fn enclose(&mut self, chain: &Chain) {
        let mut next = chain;
        while let Some(occurrence) = next {
            let place = field_place(&occurrence.field);
            if self.spans.contains_key(&place) {
                return;
            }
            self.spans
                .insert(place, Cut::Enclose(occurrence.field.clone()));
            next = &occurrence.parent;
        }
    }

    /// Counts a chunk at `path` for every map key in the path. `chain` leads to the value at
    /// `path`.
    fn note_keys(&mut self, chain: &Chain, path: &FieldPath) {
        let mut next = chain;
        let mut path = path.clone();
        while let (Some(occurrence), Some(step)) = (next, path.pop()) {
            next = &occurrence.parent;
            if let Select::Key(_) = step.select {
                let entry = self
                    .keyed
                    .entry(path.join(step))
                    .or_insert_with(|| (occurrence.field.clone(), 0));
                entry.1 += 1;
                // The entry is between the value and the message that contains the map.
                next = next.as_ref().map_or(&None, |entry| &entry.parent);
            }
        }
    }

    /// Adds a chunk for every map value that has more than one chunk at its path or inside it, and
    /// returns the paths of these values.
    ///
    /// TensorFlow's Merger sorts chunks by path, but compares two paths only up to the first map
    /// key. So chunks whose paths have the same key may be merged in any order.
    pub(crate) fn nest_at_keys(&mut self) -> BTreeSet<FieldPath> {
        let shared: Vec<_> = self
            .keyed
            .iter()
            .filter(|(_, (_, count))| *count > 1)
            .map(|(path, (field, _))| (path.clone(), field.clone()))
            .collect();
        for (path, field) in &shared {
            if self.cut_at(field).is_none() {
                let id = self.decide(path.clone(), ChunkKind::Message, None, false);
                self.spans
                    .insert(field_place(field), Cut::Value(field.clone(), id));
            }
        }
        shared.into_iter().map(|(path, _)| path).collect()
    }
}

fn field_place(field: &Field) -> Place {
    (field.start, std::cmp::Reverse(field.end), 1)
}
