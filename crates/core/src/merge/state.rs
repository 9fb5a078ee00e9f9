//! What planning remembers of the message at each node, over all the pieces it comes in.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

use super::keys::KeyTable;
use super::rope::{Frame, Pos, UseId};
use super::schema::NodeType;
use super::tree::{NodeId, PathTree};
use crate::container::ChunkKind;
use crate::path::Select;
use crate::wire::{Field, WireType};
use crate::{Error, ErrorKind, Result};

/// How many different field numbers of one message are kept track of. Types have hundreds at most; hostile bytes can have millions.
const MAX_FIELD_NUMBERS: usize = 1 << 16;

/// A field on the wire that is remembered: which use it is in, and what encloses it there.
#[derive(Clone, Debug)]
pub(super) struct Occurrence {
    pub(super) in_use: UseId,
    pub(super) enclosing: Option<Rc<Frame>>,
    pub(super) wire: WireType,
    pub(super) start: u64,
    pub(super) tag_end: u64,
    pub(super) value: Range<u64>,
    pub(super) end: u64,
}

impl Occurrence {
    pub(super) fn new(in_use: UseId, enclosing: Option<&Rc<Frame>>, field: &Field) -> Occurrence {
        Occurrence {
            in_use,
            enclosing: enclosing.cloned(),
            wire: field.wire_type,
            start: field.start,
            tag_end: field.tag_end,
            value: field.value.clone(),
            end: field.end,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// The frame that positions inside its value have.
    pub(super) fn inner_frame(&self) -> Option<Rc<Frame>> {
        match self.wire {
            WireType::Len => Some(Frame::new(
                self.tag_end,
                self.value.clone(),
                self.enclosing.as_ref(),
            )),
            _ => self.enclosing.clone(),
        }
    }

    pub(super) fn value_start(&self) -> Pos {
        Pos {
            in_use: self.in_use,
            offset: self.value.start,
            frame: self.inner_frame(),
        }
    }

    pub(super) fn value_end(&self) -> Pos {
        Pos {
            in_use: self.in_use,
            offset: self.value.end,
            frame: self.inner_frame(),
        }
    }

    pub(super) fn before(&self) -> Pos {
        Pos {
            in_use: self.in_use,
            offset: self.start,
            frame: self.enclosing.clone(),
        }
    }

    pub(super) fn behind(&self) -> Pos {
        Pos {
            in_use: self.in_use,
            offset: self.end,
            frame: self.enclosing.clone(),
        }
    }
}

/// The last field of each number in a message.
#[derive(Debug, Default)]
pub(super) struct LastFields {
    slots: Vec<(u32, u64, Occurrence)>,
    by_number: HashMap<u32, usize>,
    recent: usize,
    count: u64,
    /// The numbers in ascending order, each with the slot of the last field up to it.
    ascending: Vec<(u32, usize)>,
}

impl LastFields {
    #[inline]
    pub(super) fn see(
        &mut self,
        in_use: UseId,
        enclosing: Option<&Rc<Frame>>,
        field: &Field,
    ) -> Result<()> {
        self.count += 1;
        let number = field.number.0;
        // Elements of one field stand together: most of the time it's the field that came last.
        if let Some((recent, at, last)) = self.slots.get_mut(self.recent)
            && *recent == number
            && last.in_use == in_use
            && same(last.enclosing.as_ref(), enclosing)
        {
            *at = self.count;
            last.wire = field.wire_type;
            last.start = field.start;
            last.tag_end = field.tag_end;
            last.value = field.value.clone();
            last.end = field.end;
            return Ok(());
        }
        self.see_other(number, Occurrence::new(in_use, enclosing, field))
    }

    #[cold]
    fn see_other(&mut self, number: u32, occurrence: Occurrence) -> Result<()> {
        if self.slots.len() >= MAX_FIELD_NUMBERS && !self.by_number.contains_key(&number) {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("more than {MAX_FIELD_NUMBERS} different fields in one message"),
            ));
        }
        let slot = *self.by_number.entry(number).or_insert(self.slots.len());
        let seen = (number, self.count, occurrence);
        match self.slots.get_mut(slot) {
            Some(known) => *known = seen,
            None => self.slots.push(seen),
        }
        self.recent = slot;
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn get(&self, number: u32) -> Option<&Occurrence> {
        self.by_number.get(&number).map(|&slot| &self.slots[slot].2)
    }

    /// The field that comes last among those with this number or a lower one. To be asked once all fields were seen.
    pub(super) fn last_up_to(&mut self, number: u32) -> Option<&Occurrence> {
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

/// Which values of one field paths lead to.
#[derive(Debug)]
pub(super) enum Wanted {
    Single(NodeId),
    /// By index, ascending, and how many of them were passed.
    Indexed(Vec<(u64, NodeId)>, usize),
    Keyed(KeyTable),
}

/// A field that paths lead into.
#[derive(Debug)]
pub(super) struct Want {
    pub(super) number: u32,
    pub(super) wanted: Wanted,
    /// How many elements there were so far.
    pub(super) count: u64,
    /// The wire type they had.
    pub(super) wire: Option<WireType>,
}

/// What is known about the message, or the value, at a node.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The fields that paths lead into, by number.
    pub(super) wants: Vec<Want>,
    /// For each member of a oneof in which paths lead to members: those whose value ends when it is met.
    pub(super) ends: HashMap<u32, Vec<(NodeId, WireType)>>,
    /// Whether anything may be put among its fields.
    pub(super) tracked: bool,
    pub(super) fields: LastFields,
    /// Its last piece, if that stands in a chunk.
    pub(super) last: Option<Occurrence>,
    /// The map entry whose value it is.
    pub(super) entry: Option<Occurrence>,
    /// How many of its pieces were empty.
    pub(super) empties: u64,
    /// Where its content begins and, so far, ends.
    pub(super) begin: Option<Pos>,
    pub(super) end: Option<Pos>,
    /// The numbers of fields that were put in.
    pub(super) placed: BTreeSet<u32>,
    /// Whether what is put in goes to its end from now on.
    pub(super) at_end: bool,
}

impl State {
    pub(super) fn is_present(&self) -> bool {
        self.end.is_some()
    }
}

/// The states of all nodes, and how they are reached from each other.
pub(super) fn states(
    tree: &PathTree,
    kinds: &[ChunkKind],
    types: &[NodeType],
) -> Result<Vec<State>> {
    let mut states = Vec::with_capacity(tree.len());
    for (id, node) in tree.nodes() {
        let spliced = node
            .chunks
            .iter()
            .any(|c| kinds[c.chunk] == ChunkKind::Message);
        // A value is looked at only from outside.
        let tracked = spliced || !node.children.is_empty();
        let mut state = State {
            tracked,
            ..State::default()
        };
        for (step, &child) in &node.children {
            let number = step.field.0;
            let known = state.wants.last_mut().filter(|want| want.number == number);
            let mixed = || {
                let message =
                    "paths with and without an index, or with indices and keys, into one field";
                Error::new(ErrorKind::InvalidTrailer, message).at_path(tree.path(child))
            };
            match (&step.select, known.map(|want| &mut want.wanted)) {
                (Select::Index(index), Some(Wanted::Indexed(list, _))) => {
                    list.push((*index, child))
                }
                (Select::Key(key), Some(Wanted::Keyed(table))) => {
                    table
                        .add(key, child)
                        .map_err(|error| error.at_path(tree.path(child)))?;
                }
                (_, Some(_)) => return Err(mixed()),
                (select, None) => {
                    let wanted = match select {
                        Select::Field => Wanted::Single(child),
                        Select::Index(index) => Wanted::Indexed(vec![(*index, child)], 0),
                        Select::Key(key) => {
                            let mut table = KeyTable::new(key, types[child.index()].key);
                            table.add(key, child)?;
                            Wanted::Keyed(table)
                        }
                    };
                    state.wants.push(Want {
                        number,
                        wanted,
                        count: 0,
                        wire: None,
                    });
                }
            }
            for (member, wire) in &types[child.index()].oneof {
                if *member != number {
                    state.ends.entry(*member).or_default().push((child, *wire));
                }
            }
        }
        debug_assert_eq!(id.index(), states.len());
        states.push(state);
    }
    Ok(states)
}
