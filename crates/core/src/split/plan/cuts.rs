//! What leaves its parent: spans of the source, nested in each other, each with the chunk it goes
//! to.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::container::ChunkKind;
use crate::path::{FieldPath, Select};
use crate::split::read::source_view::Chain;
use crate::wire::{Field, FieldNumber};

/// A chunk before it has an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChunkId(pub(crate) usize);

/// What happens to a span of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A run of whole fields goes to a chunk; nothing stays.
    Slice(ChunkId),
    /// A field stays, but something inside leaves: its length is written anew.
    Enclose(Field),
    /// A field's value goes to a chunk; the field stays, empty.
    Cut(Field, ChunkId),
    /// A run of packed elements goes to a chunk, behind a tag and length of its own; nothing stays.
    PackedSlice(Field, ChunkId),
}

/// Spans sort by where they start, the enclosing one first; of two equal ones the slice encloses
/// the field.
type Place = (u64, std::cmp::Reverse<u64>, u8);

/// A chunk that was decided on.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) path: FieldPath,
    pub(crate) kind: ChunkKind,
    /// For a slice: the field whose members it holds.
    pub(crate) slice_of: Option<FieldNumber>,
    /// How many those are; 0 if nobody counted.
    pub(crate) elements: u64,
    pub(crate) packed: bool,
    /// It goes on where its message ends, whatever fields are in it.
    pub(crate) tail: bool,
    /// It begins within a field of the chunk before it.
    pub(crate) within: bool,
}

/// All spans that leave their parent so far.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    spans: BTreeMap<Place, Mark>,
    chunks: Vec<Decided>,
    /// For each path that ends with a map key: the entry's value, and how many chunks lie at or
    /// under it.
    keyed: BTreeMap<FieldPath, (Field, usize)>,
    /// Whether elements of some sliced field were apart from each other.
    pub(crate) reordered: bool,
}

impl Marks {
    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// All spans in the order of the source, each before what it encloses.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (Range<u64>, &Mark)> {
        self.spans
            .iter()
            .map(|((start, end, _), mark)| (*start..end.0, mark))
    }

    pub(crate) fn chunk(&self, id: ChunkId) -> &Decided {
        &self.chunks[id.0]
    }

    pub(crate) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Adds the marks that were made apart from these.
    pub(crate) fn absorb(&mut self, other: Marks) {
        if self.spans.is_empty() {
            *self = other;
            return;
        }
        let first = self.chunks.len();
        let renumbered = |id: ChunkId| ChunkId(first + id.0);
        for (place, mark) in other.spans {
            let mark = match mark {
                Mark::Enclose(field) => {
                    // What these marks cut is no less cut for something inside it leaving as well.
                    self.spans.entry(place).or_insert(Mark::Enclose(field));
                    continue;
                }
                Mark::Slice(id) => Mark::Slice(renumbered(id)),
                Mark::Cut(field, id) => Mark::Cut(field, renumbered(id)),
                Mark::PackedSlice(field, id) => Mark::PackedSlice(field, renumbered(id)),
            };
            self.spans.insert(place, mark);
        }
        self.chunks.extend(other.chunks);
        for (path, (field, count)) in other.keyed {
            self.keyed.entry(path).or_insert((field, 0)).1 += count;
        }
        self.reordered |= other.reordered;
    }

    /// The chunk that the value of this field was cut to, if it was.
    pub(crate) fn cut_at(&self, field: &Field) -> Option<ChunkId> {
        match self.spans.get(&field_place(field)) {
            Some(Mark::Cut(_, id)) => Some(*id),
            _ => None,
        }
    }

    /// Whether anything was marked inside `range`.
    pub(crate) fn any_within(&self, range: &Range<u64>) -> bool {
        let from = (range.start, std::cmp::Reverse(u64::MAX), 0);
        let to = (range.end, std::cmp::Reverse(u64::MAX), 0);
        self.spans.range(from..to).next().is_some()
    }

    /// Cuts the value of a field out of its parent.
    pub(crate) fn cut(&mut self, chain: &Chain, path: &FieldPath, kind: ChunkKind) {
        let Some(occurrence) = chain else { return };
        if self.cut_at(&occurrence.field).is_some() {
            return;
        }
        let id = self.decide(path.clone(), kind, None, false);
        self.enclose(&occurrence.parent);
        self.note_keys(chain, path);
        let field = occurrence.field.clone();
        self.spans.insert(field_place(&field), Mark::Cut(field, id));
    }

    /// Moves runs of whole fields, so many together or 0 if nobody counted, out of the message at
    /// `parent`.
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
                .insert((run.start, std::cmp::Reverse(run.end), 0), Mark::Slice(id));
        }
    }

    /// Moves all that stands in a range of the message itself to a chunk that goes on where what is
    /// before it ends; `within` a field, if that is where it does.
    pub(crate) fn tail(&mut self, range: Range<u64>, within: bool) {
        let id = self.decide(FieldPath::root(), ChunkKind::Message, None, false);
        self.chunks[id.0].tail = true;
        self.chunks[id.0].within = within;
        let place = (range.start, std::cmp::Reverse(range.end), 0);
        self.spans.insert(place, Mark::Slice(id));
    }

    /// Moves a run of elements out of the packed field `run`.
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
            .insert(place, Mark::PackedSlice(occurrence.field.clone(), id));
    }

    fn decide(
        &mut self,
        path: FieldPath,
        kind: ChunkKind,
        slice_of: Option<FieldNumber>,
        packed: bool,
    ) -> ChunkId {
        self.chunks.push(Decided {
            path,
            kind,
            slice_of,
            elements: 0,
            packed,
            tail: false,
            within: false,
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
                .insert(place, Mark::Enclose(occurrence.field.clone()));
            next = &occurrence.parent;
        }
    }

    /// Counts a chunk at `path` for every map key in it. `chain` is what stands at `path`.
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
                // The entry itself stands between the value and the message with the map.
                next = next.as_ref().map_or(&None, |entry| &entry.parent);
            }
        }
    }

    /// Makes a chunk of every map value with more than one chunk at or under it, and tells which
    /// those are.
    ///
    /// TensorFlow's Merger sorts paths, but stops comparing at a map key: two that share one may
    /// come in any order.
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
                    .insert(field_place(field), Mark::Cut(field.clone(), id));
            }
        }
        shared.into_iter().map(|(path, _)| path).collect()
    }
}

fn field_place(field: &Field) -> Place {
    (field.start, std::cmp::Reverse(field.end), 1)
}
