//! The planning state of each node: of the message or value at the node, which may have several
//! pieces on the wire.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;

use super::node_types::Oneofs;
use super::segment_list::{Frame, Pos, UseId};
use crate::container::NodeId;
use crate::wire::{Field, WireType};
use crate::{Error, ErrorKind, Result};

/// Maximum number of distinct field numbers to track in one message. Types have at most hundreds of
/// fields, but hostile bytes can have millions.
const MAX_FIELD_NUMBERS: usize = 1 << 16;

/// Maximum number of field numbers for a linear search.
const FEW_FIELD_NUMBERS: usize = 8;

/// The position of a field on the wire: the [use](UseId) that contains the field, its offsets in
/// that use, and the frame that encloses the field.
///
/// Occurrences are stored compactly, since there is one for every path. A tag or a length takes at
/// most ten bytes, so its size is stored in one byte.
#[derive(Clone, Debug)]
pub(in crate::merge) struct Occurrence {
    pub(in crate::merge) enclosing: Option<Rc<Frame>>,
    pub(in crate::merge) start: u64,
    value_len: u64,
    pub(in crate::merge) in_use: UseId,
    pub(in crate::merge) wire: WireType,
    tag_len: u8,
    /// Total size of the tag and the length, in bytes.
    head_len: u8,
    /// Size of a group's end tag, in bytes; 0 if the field isn't a group.
    tail_len: u8,
}

fn short(bytes: u64) -> u8 {
    u8::try_from(bytes).unwrap_or(u8::MAX)
}

impl Occurrence {
    pub(in crate::merge) fn new(
        in_use: UseId,
        enclosing: Option<&Rc<Frame>>,
        field: &Field,
    ) -> Occurrence {
        Occurrence {
            enclosing: enclosing.cloned(),
            start: field.start,
            value_len: field.value.end - field.value.start,
            in_use,
            wire: field.wire_type,
            tag_len: short(field.tag_end - field.start),
            head_len: short(field.value.start - field.start),
            tail_len: short(field.end - field.value.end),
        }
    }

    pub(in crate::merge) fn value(&self) -> Range<u64> {
        let start = self.start + u64::from(self.head_len);
        start..start + self.value_len
    }

    pub(in crate::merge) fn end(&self) -> u64 {
        self.value().end + u64::from(self.tail_len)
    }

    pub(in crate::merge) fn is_empty(&self) -> bool {
        self.value_len == 0
    }

    /// Returns the innermost [frame](Frame) around positions inside the value.
    pub(in crate::merge) fn inner_frame(&self) -> Option<Rc<Frame>> {
        match self.wire {
            WireType::Len => Some(Frame::new(
                self.start + u64::from(self.tag_len),
                self.value(),
                self.enclosing.as_ref(),
            )),
            _ => self.enclosing.clone(),
        }
    }

    pub(in crate::merge) fn value_start(&self) -> Pos {
        Pos {
            in_use: self.in_use,
            offset: self.value().start,
            frame: self.inner_frame(),
        }
    }

    pub(in crate::merge) fn value_end(&self) -> Pos {
        Pos {
            in_use: self.in_use,
            offset: self.value().end,
            frame: self.inner_frame(),
        }
    }

    pub(in crate::merge) fn before(&self) -> Pos {
        Pos {
            in_use: self.in_use,
            offset: self.start,
            frame: self.enclosing.clone(),
        }
    }

    pub(in crate::merge) fn behind(&self) -> Pos {
        Pos {
            in_use: self.in_use,
            offset: self.end(),
            frame: self.enclosing.clone(),
        }
    }
}

/// The last occurrence of each field number in a message.
#[derive(Debug, Default)]
pub(in crate::merge) struct LastFields {
    slots: Vec<(u32, u64, Occurrence)>,
    /// Index of each number in `slots`, once there are too many for a linear search.
    by_number: HashMap<u32, usize>,
    recent: usize,
    count: u64,
    /// The field numbers in ascending order, each with an index in `slots`: the index of the field
    /// that occurs last among the fields with this number or a lower one.
    ascending: Vec<(u32, usize)>,
}

impl LastFields {
    #[inline]
    pub(in crate::merge) fn see(
        &mut self,
        in_use: UseId,
        enclosing: Option<&Rc<Frame>>,
        field: &Field,
    ) -> Result<()> {
        self.count += 1;
        let number = field.number.0;
        // Elements of one field are usually adjacent, so the most recent field is checked first.
        if let Some((recent, at, last)) = self.slots.get_mut(self.recent)
            && *recent == number
            && last.in_use == in_use
            && same(last.enclosing.as_ref(), enclosing)
        {
            *at = self.count;
            *last = Occurrence {
                enclosing: last.enclosing.take(),
                ..Occurrence::new(in_use, None, field)
            };
            return Ok(());
        }
        self.see_other(number, Occurrence::new(in_use, enclosing, field))
    }

    #[cold]
    fn see_other(&mut self, number: u32, occurrence: Occurrence) -> Result<()> {
        let known = self.slot(number);
        if self.slots.len() >= MAX_FIELD_NUMBERS && known.is_none() {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("more than {MAX_FIELD_NUMBERS} different fields in one message"),
            ));
        }
        let slot = known.unwrap_or(self.slots.len());
        let seen = (number, self.count, occurrence);
        match self.slots.get_mut(slot) {
            Some(known) => *known = seen,
            None => {
                self.slots.push(seen);
                self.index(slot);
            }
        }
        self.recent = slot;
        Ok(())
    }

    fn slot(&self, number: u32) -> Option<usize> {
        if self.slots.len() <= FEW_FIELD_NUMBERS {
            return self.slots.iter().position(|slot| slot.0 == number);
        }
        self.by_number.get(&number).copied()
    }

    /// Adds a slot to `by_number`, if there are too many slots for a linear search.
    fn index(&mut self, slot: usize) {
        let first = match slot.cmp(&FEW_FIELD_NUMBERS) {
            Ordering::Less => return,
            Ordering::Equal => 0,
            Ordering::Greater => slot,
        };
        let slots = self.slots.iter().enumerate().skip(first);
        self.by_number.extend(slots.map(|(at, slot)| (slot.0, at)));
    }

    pub(in crate::merge) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(in crate::merge) fn get(&self, number: u32) -> Option<&Occurrence> {
        self.slot(number).map(|slot| &self.slots[slot].2)
    }

    /// Returns the numbers of the fields.
    pub(in crate::merge) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().map(|slot| slot.0)
    }

    /// Returns the field that occurs last among the fields with this number or a lower one. Call
    /// this only after all fields have been seen.
    pub(in crate::merge) fn last_up_to(&mut self, number: u32) -> Option<&Occurrence> {
        if self.ascending.len() != self.slots.len() {
            let mut order: Vec<usize> = (0..self.slots.len()).collect();
            order.sort_unstable_by_key(|&slot| self.slots[slot].0);
            let mut last = None;
            self.ascending = order
                .into_iter()
                .map(|slot| {
                    let (number, at, _) = self.slots[slot];
                    let (_, latest) =
                        *last.insert(last.map_or((at, slot), |l: (u64, usize)| l.max((at, slot))));
                    (number, latest)
                })
                .collect();
        }
        let up_to = self
            .ascending
            .partition_point(|(known, _)| *known <= number);
        let (_, slot) = *self.ascending.get(up_to.checked_sub(1)?)?;
        Some(&self.slots[slot].2)
    }
}

fn same(a: Option<&Rc<Frame>>, b: Option<&Rc<Frame>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Rc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

/// The state of the message or value at a node.
///
/// There is one per node, so data that few nodes need is boxed.
#[derive(Debug, Default)]
pub(in crate::merge) struct NodeState {
    /// Range, in the list of all [target fields](super::states::TargetField), of the fields of this
    /// message that paths lead into, by number.
    pub(super) fields_below: Range<u32>,
    /// The last piece of the message or value; `None` if no chunk contains a piece.
    pub(in crate::merge) last: Option<Occurrence>,
    /// The map entry that has this node as its value.
    pub(in crate::merge) entry: Option<Box<Occurrence>>,
    /// Number of empty pieces of the message or value.
    pub(in crate::merge) empties: u64,
    /// Extent and fields of the message, if chunks may be inserted among its fields.
    pub(in crate::merge) content: Option<Box<Content>>,
    /// Index of the first in the list of the fields that paths lead into and that were found in the
    /// message.
    pub(super) listed_field: Option<u32>,
    /// The first in the list of the children of which a piece or a map entry was found.
    pub(super) listed_child: Option<NodeId>,
    /// True if this node is in its parent's list of children.
    pub(super) is_listed: bool,
    /// The next node in that list.
    pub(super) next_listed: Option<NodeId>,
}

/// The state of a message into which chunks or fields may be inserted.
#[derive(Debug, Default)]
pub(in crate::merge) struct Content {
    /// The oneofs of the message's type if paths lead to members of oneofs, otherwise `None`. Such
    /// a member is replaced by a later member of the same oneof.
    pub(in crate::merge) oneofs: Option<Rc<Oneofs>>,
    /// Number of the last member found of each oneof, by the index of the oneof; only if paths lead
    /// to members of oneofs.
    pub(in crate::merge) last_members: BTreeMap<usize, u32>,
    pub(in crate::merge) fields: LastFields,
    /// Start of the message's content; `None` if no piece of it was found.
    pub(in crate::merge) begin: Option<Pos>,
    /// End of the message's content so far; `None` if no piece of it was found.
    pub(in crate::merge) end: Option<Pos>,
    /// Highest number of the members of each oneof that are in the message, by the index of the
    /// oneof; `None` until a field is inserted into the message.
    pub(in crate::merge) highest_members: Option<BTreeMap<usize, u32>>,
    /// True if all later insertions go to the end.
    pub(in crate::merge) at_end: bool,
}

impl NodeState {
    pub(in crate::merge) fn is_present(&self) -> bool {
        self.last.is_some() || self.end().is_some()
    }

    /// Returns true if a value at this node has to be parsed, because paths continue below it, or
    /// chunks may be inserted among its fields.
    pub(in crate::merge) fn descends(&self) -> bool {
        self.content.is_some() || !self.fields_below.is_empty()
    }

    pub(in crate::merge) fn end(&self) -> Option<&Pos> {
        self.content
            .as_ref()
            .and_then(|content| content.end.as_ref())
    }

    pub(in crate::merge) fn fields(&self) -> Option<&LastFields> {
        self.content.as_ref().map(|content| &content.fields)
    }

    /// Starts another piece of the message's content, from `begin` to `end`.
    pub(in crate::merge) fn open(&mut self, begin: Pos, end: Pos) {
        if let Some(content) = &mut self.content {
            content.begin.get_or_insert(begin);
            content.end = Some(end);
        }
    }
}
