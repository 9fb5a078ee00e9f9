//! The merged message during planning: parts of chunks with edits. All lengths are computed at the
//! end.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use crate::spans::{SourceId, SpanList};
use crate::wire::{FieldNumber, WireType, tag, varint_len};
use crate::{Error, ErrorKind, Result};

/// The ID of a use. A use is either one occurrence of a chunk's byte range in the output, or a
/// message that the merge creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::merge) struct UseId(u32);

impl UseId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A length-delimited field that encloses an edit. The field's length must therefore be rewritten.
///
/// Frames are reference-counted. A frame is dropped once no position inside it is stored, so only
/// the frames that are still needed are in memory, even if there are millions of messages.
#[derive(Debug)]
pub(in crate::merge) struct Frame {
    /// Offset of the field's length, after the tag.
    len_start: u64,
    value: Range<u64>,
    depth: u32,
    parent: Option<Rc<Frame>>,
}

impl Frame {
    pub(in crate::merge) fn new(
        len_start: u64,
        value: Range<u64>,
        parent: Option<&Rc<Frame>>,
    ) -> Rc<Frame> {
        let depth = parent.map_or(0, |parent| parent.depth) + 1;
        Rc::new(Frame {
            len_start,
            value,
            depth,
            parent: parent.cloned(),
        })
    }
}

/// A position between two bytes of a [use](UseId), and the innermost length-delimited field around
/// that position.
#[derive(Clone, Debug)]
pub(in crate::merge) struct Pos {
    pub(in crate::merge) in_use: UseId,
    pub(in crate::merge) offset: u64,
    pub(in crate::merge) frame: Option<Rc<Frame>>,
}

impl Pos {
    pub(in crate::merge) fn start_of(message: UseId) -> Pos {
        Pos {
            in_use: message,
            offset: 0,
            frame: None,
        }
    }
}

/// The content that an edit inserts into a [use](UseId).
#[derive(Debug)]
pub(in crate::merge) enum Part {
    Literal(Box<[u8]>),
    /// The rewritten length of an enclosing field.
    Length(u64),
    /// All bytes of another [use](UseId).
    Splice(UseId),
    /// A field that the merge creates around the [use](UseId) `body`: a group, or a
    /// length-delimited field.
    Field {
        number: FieldNumber,
        group: bool,
        body: UseId,
    },
}

#[derive(Debug)]
struct Edit {
    offset: u64,
    remove: u64,
    frame: Option<Rc<Frame>>,
    part: Part,
    /// Number of frames that enclose the offset.
    depth: u32,
    rank: u32,
}

impl Edit {
    /// Returns the key by which edits are sorted: by offset and, at the same offset, by nesting
    /// depth, the deepest first. A replacement comes after the insertions at its start.
    fn order(&self) -> (u64, Reverse<u32>, bool, u32) {
        (self.offset, Reverse(self.depth), self.remove > 0, self.rank)
    }
}

#[derive(Debug)]
struct Use {
    source: Option<(usize, Range<u64>)>,
    edits: Vec<Edit>,
}

#[derive(Debug, Default)]
pub(in crate::merge) struct SegmentList {
    uses: Vec<Use>,
}

/// The rank of parts that are inserted after all other parts at their position.
pub(in crate::merge) const LAST_RANK: u32 = u32::MAX;

impl SegmentList {
    /// Creates a use that is an empty message, into which parts can be inserted.
    pub(in crate::merge) fn new_message(&mut self) -> UseId {
        self.push(None)
    }

    /// Creates a use of these bytes of a chunk.
    pub(in crate::merge) fn new_use(&mut self, chunk: usize, range: Range<u64>) -> UseId {
        self.push(Some((chunk, range)))
    }

    fn push(&mut self, source: Option<(usize, Range<u64>)>) -> UseId {
        self.uses.push(Use {
            source,
            edits: Vec::new(),
        });
        // Memory runs out before there are four billion uses.
        UseId(u32::try_from(self.uses.len() - 1).unwrap_or(u32::MAX))
    }

    /// Sets the end of a [use](UseId) whose end was unknown when the use was created.
    pub(in crate::merge) fn set_end(&mut self, id: UseId, end: u64) {
        if let Some((_, range)) = &mut self.uses[id.index()].source {
            range.end = end;
        }
    }

    pub(in crate::merge) fn end(&self, id: UseId) -> u64 {
        self.uses[id.index()]
            .source
            .as_ref()
            .map_or(0, |(_, range)| range.end)
    }

    /// Returns the chunk of a [use](UseId); `None` for a message that the merge creates.
    pub(in crate::merge) fn chunk(&self, id: UseId) -> Option<usize> {
        self.uses[id.index()]
            .source
            .as_ref()
            .map(|(chunk, _)| *chunk)
    }

    /// Inserts `part` at `at`, after other insertions there with the same or a lower rank.
    pub(in crate::merge) fn insert(&mut self, at: &Pos, rank: u32, part: Part) {
        self.edit(at, 0, rank, part);
    }

    /// Replaces `remove` bytes at `at` with `part`.
    pub(in crate::merge) fn replace(&mut self, at: &Pos, remove: u64, part: Part) {
        self.edit(at, remove, 0, part);
    }

    fn edit(&mut self, at: &Pos, remove: u64, rank: u32, part: Part) {
        self.uses[at.in_use.index()].edits.push(Edit {
            offset: at.offset,
            remove,
            frame: at.frame.clone(),
            part,
            depth: at.frame.as_ref().map_or(0, |frame| frame.depth),
            rank,
        });
    }

    /// Computes the lengths of all uses, and returns the spans of the message `root`.
    pub(in crate::merge) fn lay_out(mut self, root: UseId) -> Result<SpanList> {
        let mut totals = vec![0u64; self.uses.len()];
        // `order` lists uses from the root downwards. In reverse order, the totals of inserted uses
        // are known before the totals of the uses that contain them.
        let mut order = vec![root];
        let mut at = 0;
        while let Some(id) = order.get(at) {
            let edits = &self.uses[id.index()].edits;
            order.extend(edits.iter().filter_map(|edit| edit.part.body()));
            at += 1;
        }
        for id in order.into_iter().rev() {
            totals[id.index()] = self.uses[id.index()].settle(&totals)?;
        }
        let edits: usize = self.uses.iter().map(|one| one.edits.len()).sum();
        let mut layout = SpanList::new();
        // About one span for each edit, and one for the bytes copied after it.
        layout.reserve(self.uses.len() + 2 * edits);
        let mut open = vec![Cursor::new(root, &self.uses[root.index()])];
        while let Some(cursor) = open.last_mut() {
            let current = &self.uses[cursor.id.index()];
            let Some(edit) = current.edits.get(cursor.edit) else {
                let end = current.source.as_ref().map_or(0, |(_, range)| range.end);
                current.copy(cursor.position..end, &mut layout)?;
                open.pop();
                continue;
            };
            if let Some(number) = cursor.end_tag.take() {
                layout.push_varint(tag(number, WireType::EndGroup));
                cursor.edit += 1;
                continue;
            }
            current.copy(cursor.position..edit.offset, &mut layout)?;
            cursor.position = edit.offset + edit.remove;
            let body = match &edit.part {
                Part::Literal(bytes) => {
                    layout.push_literal(bytes);
                    None
                }
                Part::Length(len) => {
                    layout.push_varint(*len);
                    None
                }
                Part::Splice(body) => Some(body),
                Part::Field {
                    number,
                    group: true,
                    body,
                } => {
                    layout.push_varint(tag(*number, WireType::StartGroup));
                    cursor.end_tag = Some(*number);
                    Some(body)
                }
                Part::Field { number, body, .. } => {
                    layout.push_varint(tag(*number, WireType::Len));
                    layout.push_varint(totals[body.index()]);
                    Some(body)
                }
            };
            // A group's end tag comes before the next edit.
            cursor.edit += usize::from(cursor.end_tag.is_none());
            if let Some(body) = body {
                open.push(Cursor::new(*body, &self.uses[body.index()]));
            }
        }
        Ok(layout)
    }
}

struct Cursor {
    id: UseId,
    position: u64,
    edit: usize,
    /// Field number of the group that the current edit opened and whose end tag is still missing.
    end_tag: Option<FieldNumber>,
}

impl Cursor {
    fn new(id: UseId, of: &Use) -> Self {
        let position = of.source.as_ref().map_or(0, |(_, range)| range.start);
        Cursor {
            id,
            position,
            edit: 0,
            end_tag: None,
        }
    }
}

impl Use {
    /// Adds a range of this use's chunk to the spans.
    fn copy(&self, range: Range<u64>, layout: &mut SpanList) -> Result<()> {
        if let Some((chunk, _)) = &self.source {
            layout.push_span(SourceId::new(*chunk)?, range);
        }
        Ok(())
    }

    /// Adds edits that rewrite the lengths of enclosing fields, sorts all edits, and returns the
    /// length of this use in the output.
    fn settle(&mut self, totals: &[u64]) -> Result<u64> {
        // Deepest first, since a length that grows by a byte makes its parent grow.
        let mut by_depth: BTreeMap<u32, Vec<(Rc<Frame>, i128)>> = BTreeMap::new();
        let mut grown = 0i128;
        for edit in &mut self.edits {
            let by = edit.part.len(totals) - i128::from(edit.remove);
            match edit.frame.take() {
                None => grown += by,
                Some(frame) => by_depth.entry(frame.depth).or_default().push((frame, by)),
            }
        }
        while let Some((_, mut frames)) = by_depth.pop_last() {
            // Different frames at one depth have values with different starts.
            frames.sort_unstable_by_key(|(frame, _)| frame.value.start);
            let same = |a: &(Rc<Frame>, _), b: &(Rc<Frame>, _)| a.0.value.start == b.0.value.start;
            self.edits.reserve_exact(frames.chunk_by(same).count());
            for grows in frames.chunk_by(same) {
                let frame = &grows[0].0;
                let by: i128 = grows.iter().map(|(_, by)| by).sum();
                let len = to_len(i128::from(frame.value.end - frame.value.start) + by)?;
                let remove = frame.value.start - frame.len_start;
                let by = by + varint_len(len) as i128 - i128::from(remove);
                match &frame.parent {
                    None => grown += by,
                    Some(parent) => {
                        let above = by_depth.entry(parent.depth).or_default();
                        above.push((Rc::clone(parent), by));
                    }
                }
                self.edits.push(Edit {
                    offset: frame.len_start,
                    remove,
                    frame: None,
                    part: Part::Length(len),
                    depth: 0,
                    rank: 0,
                });
            }
        }
        self.edits.sort_by_key(Edit::order);
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
            Part::Literal(_) | Part::Length(_) => None,
            Part::Splice(body) | Part::Field { body, .. } => Some(*body),
        }
    }

    fn len(&self, totals: &[u64]) -> i128 {
        match self {
            Part::Literal(bytes) => bytes.len() as i128,
            Part::Length(len) => varint_len(*len) as i128,
            Part::Splice(id) => i128::from(totals[id.index()]),
            Part::Field {
                number,
                group,
                body,
            } => {
                let total = totals[body.index()];
                let tag_len = varint_len(u64::from(number.0) << 3);
                let around = if *group { tag_len } else { varint_len(total) };
                (tag_len + around) as i128 + i128::from(total)
            }
        }
    }
}

/// Converts a computed length to `u64`. Fails if the length is negative or too large, which wrong
/// declared sizes of chunks can cause.
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
