//! Choosing the parts to move out of a message that exceeds the maximum size.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use super::Engine;
use super::tree::{Child, Class, Cut, Group, Node};
use crate::Result;
use crate::wire::WireType;

/// A part of a node that could become a chunk: the value of a child, or the tail of a repeated
/// field. Candidates are ordered by gain. If two candidates have the same gain, the one that is
/// earlier in the source is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    gain: u64,
    start: Reverse<u64>,
    group: usize,
    child: usize,
}

impl Engine<'_> {
    /// Moves out the largest parts until the content has at most `limit` bytes, or no more parts
    /// can be moved out.
    pub(super) fn reduce(&self, node: &mut Node, limit: u64) -> Result<()> {
        if node.size <= limit {
            return Ok(());
        }
        self.complete(node)?;
        if node.sliceable {
            for at in 0..node.groups.len() {
                if node.groups[at].class.repeats() {
                    self.hold_first(node, at)?;
                }
            }
        }
        let mut queue = BinaryHeap::new();
        (0..node.groups.len()).for_each(|at| self.queue(node, at, &mut queue));
        let mut tails: BinaryHeap<_> = (0..node.groups.len())
            .filter_map(|at| tail(node, at))
            .collect();
        while node.size > limit {
            let tail = best_tail(node, &mut tails);
            // Parts that are in a slice by now, or are cut already, are no longer candidates.
            while queue.peek().is_some_and(|best| !self.may_leave(node, best)) {
                queue.pop();
            }
            match (queue.peek(), tail) {
                (Some(value), tail) if tail.as_ref().is_none_or(|tail| value > tail) => {
                    self.cut(node, value.group, value.child);
                }
                (_, Some(tail)) => {
                    self.take_back(node, tail.group);
                    self.slice(node, tail.group, limit)?;
                    self.queue(node, tail.group, &mut queue);
                    tails.extend(self::tail(node, tail.group));
                }
                _ => break,
            }
        }
        if node.size > limit {
            self.squeeze(node, limit)?;
        }
        if node.size <= limit {
            self.give_back(node, limit)?;
        }
        Ok(())
    }

    /// Slices all repeated fields that are larger than one slice, even if the message fits in a
    /// chunk. Skips packed fields, and fields whose elements are not contiguous. Returns true if
    /// any field was sliced.
    pub(super) fn slice_long(&self, node: &mut Node) -> Result<bool> {
        let most = self.max_slice();
        let is_long = |at: &usize| {
            let group = &node.groups[*at];
            let is_packed = matches!(group.class, Class::Numbers { .. });
            let in_one_place = group.runs.len() == 1;
            !is_packed && in_one_place && group.total > most && tail(node, *at).is_some()
        };
        let long: Vec<usize> = (0..node.groups.len()).filter(is_long).collect();
        for &at in &long {
            self.hold_first(node, at)?;
            let others = node.size - node.groups[at].total;
            self.slice(node, at, others.saturating_add(most))?;
        }
        Ok(!long.is_empty())
    }

    /// Adds to `queue` those children of a group that could become chunks.
    fn queue(&self, node: &Node, at: usize, queue: &mut BinaryHeap<Candidate>) {
        for (place, child) in node.groups[at].children.iter().enumerate() {
            let candidate = Candidate {
                gain: child.gain(),
                start: Reverse(child.field.start),
                group: at,
                child: place,
            };
            if candidate.gain > 0 && self.may_leave(node, &candidate) {
                queue.push(candidate);
            }
        }
    }

    fn may_leave(&self, node: &Node, candidate: &Candidate) -> bool {
        let group = &node.groups[candidate.group];
        let child = &group.children[candidate.child];
        child.cut == Cut::No
            && child.chunkable
            && child.ordinal < group.kept
            && (!child.message || child.content <= self.max())
    }

    /// Cuts the value of a child that was not cut before.
    fn cut(&self, node: &mut Node, at: usize, place: usize) {
        let group = &mut node.groups[at];
        let child = &mut group.children[place];
        let before = child.outer();
        child.cut = Cut::Needed;
        let gain = before.saturating_sub(child.outer());
        group.total -= gain;
        node.size -= gain;
    }

    /// Undoes the cuts of single members of a group, since slices will contain these members. A
    /// member that alone exceeds the maximum stays cut.
    fn take_back(&self, node: &mut Node, at: usize) {
        let max = self.max();
        for child in &mut node.groups[at].children {
            if child.cut == Cut::Needed
                && child.ordinal > 0
                && child.outer_with(child.content) <= max
            {
                child.cut = Cut::No;
            }
        }
        self.settle(node, at);
    }

    /// Leaves the first members of a group in the message, at least one, and moves the others into
    /// slices, so that the message has at most `limit` bytes. Unless the members are numbers, those
    /// in the message are at most as large as a slice in total, so that finding one of them takes
    /// no longer than finding an element in a slice.
    fn slice(&self, node: &mut Node, at: usize, limit: u64) -> Result<()> {
        let max = self.max();
        for child in &mut node.groups[at].children {
            if child.outer() > max && child.chunkable && (!child.message || child.content <= max) {
                child.cut = Cut::Needed;
            }
        }
        self.settle(node, at);
        let others = node.size - node.groups[at].total;
        let budget = match node.groups[at].class {
            Class::Numbers { .. } => limit.saturating_sub(others),
            _ => limit.saturating_sub(others).min(self.max_slice()),
        };
        let packed = self.pack(node, at, budget)?;
        let group = &mut node.groups[at];
        group.kept = packed.kept;
        group.kept_raw = packed.kept_raw;
        group.slices = packed.slices;
        self.settle(node, at);
        Ok(())
    }

    /// Reduces the content of children that can't be moved out themselves.
    fn squeeze(&self, node: &mut Node, limit: u64) -> Result<()> {
        let mut tried = HashSet::new();
        while node.size > limit {
            let children = node.groups.iter().enumerate().flat_map(|(at, group)| {
                let stays = move |child: &&Child| {
                    child.cut == Cut::No
                        && child.enterable
                        && !child.chunkable
                        && child.ordinal < group.kept
                };
                let places = group.children.iter().enumerate();
                places
                    .filter(move |(_, child)| stays(child))
                    .map(move |(place, child)| {
                        (child.outer(), Reverse(child.field.start), at, place)
                    })
            });
            let Some((_, start, at, place)) = children
                .filter(|(_, start, ..)| !tried.contains(start))
                .max()
            else {
                return Ok(());
            };
            tried.insert(start);
            let excess = node.size - limit;
            let below = match &node.groups[at].class {
                Class::Message { descriptor, .. } => Some(descriptor.clone()),
                Class::Map { value, .. } => value.clone(),
                _ => None,
            };
            let depth = node.depth + 1;
            let child = &mut node.groups[at].children[place];
            if let (None, Some(below)) = (&child.node, below) {
                self.enter(child, &below, depth)?;
            }
            let target = child.content.saturating_sub(excess);
            if let Some(inner) = &mut child.node {
                self.reduce(inner, target)?;
                child.content = inner.size;
            }
            self.settle(node, at);
        }
        Ok(())
    }

    /// Moves back those parts that fit again after larger parts have been moved out.
    fn give_back(&self, node: &mut Node, limit: u64) -> Result<()> {
        for at in 0..node.groups.len() {
            if !node.groups[at].slices.is_empty() {
                self.slice(node, at, limit)?;
            }
            let mut needed: Vec<usize> = (0..node.groups[at].children.len())
                .filter(|&place| {
                    let child = &node.groups[at].children[place];
                    child.cut == Cut::Needed && child.ordinal < node.groups[at].kept
                })
                .collect();
            needed.sort_by_key(|&place| Reverse(node.groups[at].children[place].gain()));
            for place in needed {
                let group = &mut node.groups[at];
                let child = &mut group.children[place];
                let gain = child
                    .outer_with(child.content)
                    .saturating_sub(child.outer());
                if node.size + gain <= limit {
                    child.cut = Cut::No;
                    group.total += gain;
                    node.size += gain;
                }
            }
            for place in 0..node.groups[at].children.len() {
                let group = &mut node.groups[at];
                // Ten bytes are reserved for the growth of the enclosing length.
                let slack = (limit - node.size).saturating_sub(10);
                let child = &mut group.children[place];
                let squeezed =
                    child.cut == Cut::No && !child.chunkable && child.ordinal < group.kept;
                if let (true, Some(inner)) = (squeezed, &mut child.node) {
                    self.give_back(inner, inner.size + slack)?;
                    child.content = inner.size;
                    self.settle(node, at);
                }
            }
        }
        Ok(())
    }
}

/// Returns the tail of a repeated field as a candidate; `None` if it can't be moved out, or nothing
/// would be gained.
fn tail(node: &Node, at: usize) -> Option<Candidate> {
    let group = &node.groups[at];
    let sliceable = group.class.repeats() && node.sliceable;
    if !sliceable || node.siblings.after.contains(&group.number) {
        return None;
    }
    let gain = group.total - first_size(group);
    let start = Reverse(group.runs.first()?.start);
    (gain > 0).then_some(Candidate {
        gain,
        start,
        group: at,
        child: usize::MAX,
    })
}

/// Returns the tail with the largest gain. Gains shrink as members are moved out one by one, so an
/// outdated first candidate is evaluated again.
fn best_tail(node: &Node, tails: &mut BinaryHeap<Candidate>) -> Option<Candidate> {
    loop {
        let first = *tails.peek()?;
        let now = tail(node, first.group);
        if now == Some(first) {
            return now;
        }
        tails.pop();
        tails.extend(now);
    }
}

/// Returns the size in bytes of the part of a field that slicing always leaves in the message: the
/// first element or, for a packed field, the tag and the length.
fn first_size(group: &Group) -> u64 {
    let size = match group.children.first() {
        Some(run) if is_packed_run(group, run) => run.outer_with(0),
        Some(first) if first.ordinal == 0 => first.outer(),
        // The value can't be moved out, or the member isn't a field with a separate value.
        _ => group.first,
    };
    size.min(group.total)
}

fn is_packed_run(group: &Group, child: &Child) -> bool {
    child.ordinal == 0
        && matches!(group.class, Class::Numbers { .. })
        && child.field.wire_type == WireType::Len
}
