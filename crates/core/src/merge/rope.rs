//! The merged message as chunks with edits: pure bookkeeping of what goes where, until every length is known.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::plan::{Segment, SegmentSource};
use crate::wire::{encode_varint, put_varint, varint_len};
use crate::{Error, ErrorKind, Result};

/// A span of a chunk that is used in one place of the output, or a message that only the merge creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UseId(usize);

/// A length-delimited field that encloses an edit: its length has to be written anew.
///
/// Frames are counted references: one lives as long as something inside it is remembered, so a walk over a million messages keeps
/// only those that matter.
#[derive(Debug)]
pub(super) struct Frame {
    /// Where its length starts, behind the tag.
    len_start: u64,
    value: Range<u64>,
    depth: u32,
    parent: Option<Rc<Frame>>,
}

impl Frame {
    pub(super) fn new(len_start: u64, value: Range<u64>, parent: Option<&Rc<Frame>>) -> Rc<Frame> {
        let depth = parent.map_or(0, |parent| parent.depth) + 1;
        Rc::new(Frame {
            len_start,
            value,
            depth,
            parent: parent.cloned(),
        })
    }
}

/// A place between two bytes of a use, and the length-delimited field of that use that encloses it.
#[derive(Clone, Debug)]
pub(super) struct Pos {
    pub(super) in_use: UseId,
    pub(super) offset: u64,
    pub(super) frame: Option<Rc<Frame>>,
}

/// What is put in somewhere.
#[derive(Debug)]
pub(super) enum Part {
    Literal(Vec<u8>),
    /// All of a use.
    Splice(UseId),
    /// A field made by the merge: its tag, the length of the use unless there's an end tag, the use, the end tag.
    Field {
        tag: Vec<u8>,
        body: UseId,
        end_tag: Option<Vec<u8>>,
    },
}

#[derive(Debug)]
struct Edit {
    offset: u64,
    /// Inner messages end before outer ones at the same offset; what is replaced comes behind what is put in front of it.
    order: (Reverse<u32>, bool, u32, usize),
    remove: u64,
    frame: Option<Rc<Frame>>,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Use {
    source: Option<(usize, Range<u64>)>,
    edits: Vec<Edit>,
}

#[derive(Debug, Default)]
pub(super) struct Rope {
    uses: Vec<Use>,
    edits: usize,
}

/// The rank of what has to come behind everything else at its place.
pub(super) const LAST_RANK: u32 = u32::MAX;

impl Rope {
    /// A message that starts out empty.
    pub(super) fn new_message(&mut self) -> UseId {
        self.push(None)
    }

    /// These bytes of this chunk.
    pub(super) fn new_use(&mut self, chunk: usize, range: Range<u64>) -> UseId {
        self.push(Some((chunk, range)))
    }

    fn push(&mut self, source: Option<(usize, Range<u64>)>) -> UseId {
        self.uses.push(Use {
            source,
            edits: Vec::new(),
        });
        UseId(self.uses.len() - 1)
    }

    /// Moves the end of a use whose extent wasn't known when it was made.
    pub(super) fn set_end(&mut self, id: UseId, end: u64) {
        if let Some((_, range)) = &mut self.uses[id.0].source {
            range.end = end;
        }
    }

    pub(super) fn end(&self, id: UseId) -> u64 {
        self.uses[id.0]
            .source
            .as_ref()
            .map_or(0, |(_, range)| range.end)
    }

    /// The chunk that a use is a span of.
    pub(super) fn chunk(&self, id: UseId) -> Option<usize> {
        self.uses[id.0].source.as_ref().map(|(chunk, _)| *chunk)
    }

    /// Puts `parts` in at `at`: of what is put there, behind what has the same or a lower rank.
    pub(super) fn insert(&mut self, at: &Pos, rank: u32, parts: Vec<Part>) {
        self.edit(at, 0, rank, parts);
    }

    /// Puts `parts` in the place of the `remove` bytes at `at`.
    pub(super) fn replace(&mut self, at: &Pos, remove: u64, parts: Vec<Part>) {
        self.edit(at, remove, 0, parts);
    }

    fn edit(&mut self, at: &Pos, remove: u64, rank: u32, parts: Vec<Part>) {
        let depth = at.frame.as_ref().map_or(0, |frame| frame.depth);
        self.edits += 1;
        self.uses[at.in_use.0].edits.push(Edit {
            offset: at.offset,
            order: (Reverse(depth), remove > 0, rank, self.edits),
            remove,
            frame: at.frame.clone(),
            parts,
        });
    }

    /// Computes every length and lays `root` out.
    pub(super) fn lay_out(mut self, root: UseId) -> Result<(Vec<Segment>, Vec<u8>)> {
        let mut totals = vec![0u64; self.uses.len()];
        // From the root downwards; backwards, the total of what is put into a use is there when the use's is computed.
        let mut order = vec![root];
        let mut at = 0;
        while let Some(id) = order.get(at) {
            let parts = self.uses[id.0].edits.iter().flat_map(|edit| &edit.parts);
            let inner: Vec<UseId> = parts.filter_map(Part::body).collect();
            order.extend(inner);
            at += 1;
        }
        for id in order.into_iter().rev() {
            totals[id.0] = self.uses[id.0].settle(&totals)?;
        }
        let mut layout = Layout::default();
        let mut open = vec![Cursor::new(root, &self.uses[root.0])];
        while let Some(cursor) = open.last_mut() {
            let current = &self.uses[cursor.id.0];
            let Some(edit) = current.edits.get(cursor.edit) else {
                let end = current.source.as_ref().map_or(0, |(_, range)| range.end);
                layout.copy(current, cursor.position..end);
                open.pop();
                continue;
            };
            if cursor.part == 0 {
                layout.copy(current, cursor.position..edit.offset);
                cursor.position = edit.offset + edit.remove;
            }
            if let Some(end_tag) = cursor.end_tag.take() {
                layout.literal(end_tag);
            }
            let Some(part) = edit.parts.get(cursor.part) else {
                cursor.edit += 1;
                cursor.part = 0;
                continue;
            };
            cursor.part += 1;
            match part {
                Part::Literal(bytes) => layout.literal(bytes),
                Part::Splice(id) => open.push(Cursor::new(*id, &self.uses[id.0])),
                Part::Field { tag, body, end_tag } => {
                    layout.literal(tag);
                    match end_tag {
                        Some(end_tag) => cursor.end_tag = Some(end_tag),
                        None => {
                            let (len, count) = encode_varint(totals[body.0]);
                            layout.literal(&len[..count]);
                        }
                    }
                    open.push(Cursor::new(*body, &self.uses[body.0]));
                }
            }
        }
        Ok((layout.segments, layout.literals))
    }
}

struct Cursor<'a> {
    id: UseId,
    position: u64,
    edit: usize,
    part: usize,
    /// Owed once the field that was begun last is done.
    end_tag: Option<&'a [u8]>,
}

impl Cursor<'_> {
    fn new(id: UseId, of: &Use) -> Self {
        let position = of.source.as_ref().map_or(0, |(_, range)| range.start);
        Cursor {
            id,
            position,
            edit: 0,
            part: 0,
            end_tag: None,
        }
    }
}

impl Use {
    /// Adds the edits of the enclosing lengths, sorts all edits, and gives the length that this use takes in the output.
    fn settle(&mut self, totals: &[u64]) -> Result<u64> {
        // Deepest first, since a length that takes another byte makes its parent grow; a value's start tells frames apart.
        let mut frames: BTreeMap<(Reverse<u32>, u64), (Rc<Frame>, i128)> = BTreeMap::new();
        let mut grown = 0i128;
        let mut grow = |frames: &mut BTreeMap<_, (Rc<Frame>, i128)>,
                        frame: Option<&Rc<Frame>>,
                        by| {
            match frame {
                None => grown += by,
                Some(frame) => {
                    let key = (Reverse(frame.depth), frame.value.start);
                    frames.entry(key).or_insert_with(|| (frame.clone(), 0)).1 += by;
                }
            }
        };
        for edit in &self.edits {
            let added: i128 = edit.parts.iter().map(|part| part.len(totals)).sum();
            grow(
                &mut frames,
                edit.frame.as_ref(),
                added - i128::from(edit.remove),
            );
        }
        while let Some((_, (frame, by))) = frames.pop_first() {
            let len = i128::from(frame.value.end - frame.value.start) + by;
            let len = to_len(len)?;
            let mut prefix = Vec::new();
            put_varint(&mut prefix, len);
            let remove = frame.value.start - frame.len_start;
            let prefix_growth = prefix.len() as i128 - i128::from(remove);
            grow(&mut frames, frame.parent.as_ref(), by + prefix_growth);
            self.edits.push(Edit {
                offset: frame.len_start,
                order: (Reverse(0), true, 0, 0),
                remove,
                frame: None,
                parts: vec![Part::Literal(prefix)],
            });
        }
        self.edits.sort_by_key(|edit| (edit.offset, edit.order));
        let len = self
            .source
            .as_ref()
            .map_or(0, |(_, range)| range.end - range.start);
        to_len(i128::from(len) + grown)
    }
}

impl Part {
    fn body(&self) -> Option<UseId> {
        match self {
            Part::Literal(_) => None,
            Part::Splice(body) | Part::Field { body, .. } => Some(*body),
        }
    }

    fn len(&self, totals: &[u64]) -> i128 {
        match self {
            Part::Literal(bytes) => bytes.len() as i128,
            Part::Splice(id) => i128::from(totals[id.0]),
            Part::Field { tag, body, end_tag } => {
                let total = totals[body.0];
                let around = match end_tag {
                    Some(end_tag) => end_tag.len(),
                    None => varint_len(total),
                };
                (tag.len() + around) as i128 + i128::from(total)
            }
        }
    }
}

/// Chunks say of themselves how large they are, so sums of them may be absurd.
fn to_len(len: i128) -> Result<u64> {
    i64::try_from(len)
        .ok()
        .and_then(|len| u64::try_from(len).ok())
        .ok_or_else(|| {
            Error::new(
                ErrorKind::LimitExceeded,
                format!("the merged message would have {len} bytes"),
            )
        })
}

#[derive(Default)]
struct Layout {
    segments: Vec<Segment>,
    literals: Vec<u8>,
    offset: u64,
}

impl Layout {
    fn literal(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let range = self.literals.len()..self.literals.len() + bytes.len();
        self.literals.extend_from_slice(bytes);
        let len = bytes.len() as u64;
        match self.segments.last_mut() {
            Some(Segment {
                source: SegmentSource::Literal(last),
                ..
            }) => last.end = range.end,
            _ => self.push(SegmentSource::Literal(range)),
        }
        self.offset += len;
    }

    fn copy(&mut self, from: &Use, range: Range<u64>) {
        let Some((chunk, _)) = &from.source else {
            return;
        };
        if range.is_empty() {
            return;
        }
        let len = range.end - range.start;
        match self.segments.last_mut() {
            Some(Segment {
                source:
                    SegmentSource::Chunk {
                        chunk: last,
                        range: before,
                    },
                ..
            }) if last == chunk && before.end == range.start => {
                before.end = range.end;
            }
            _ => self.push(SegmentSource::Chunk {
                chunk: *chunk,
                range,
            }),
        }
        self.offset += len;
    }

    fn push(&mut self, source: SegmentSource) {
        self.segments.push(Segment {
            offset: self.offset,
            source,
        });
    }
}
