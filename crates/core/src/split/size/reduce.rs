//! Deciding what leaves a message that is too large.

use super::{Child, Class, Cut, Engine, Group, Node};
use crate::Result;
use crate::wire::WireType;

/// Something that could leave a node.
enum Candidate {
    /// The value of a child.
    Child { group: usize, child: usize },
    /// The tail of a repeated field.
    Tail { group: usize },
}

impl Engine<'_> {
    /// Lets the largest things leave until the content is at most `limit`, as far as that goes.
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
        while node.size > limit {
            match self.best(node) {
                Some(Candidate::Child { group, child }) => {
                    node.groups[group].children[child].cut = Cut::Needed;
                    self.settle(node, group);
                }
                Some(Candidate::Tail { group }) => {
                    self.take_back(node, group);
                    self.slice(node, group, limit)?;
                }
                None => break,
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

    /// What gains most by leaving; of equals what comes first in the source.
    fn best(&self, node: &Node) -> Option<Candidate> {
        let mut best: Option<(u64, std::cmp::Reverse<u64>, Candidate)> = None;
        let mut offer = |gain: u64, start: u64, candidate: Candidate| {
            let rank = (gain, std::cmp::Reverse(start));
            if gain > 0
                && best
                    .as_ref()
                    .is_none_or(|(gain, start, _)| rank > (*gain, *start))
            {
                best = Some((rank.0, rank.1, candidate));
            }
        };
        for (at, group) in node.groups.iter().enumerate() {
            for (place, child) in group.children.iter().enumerate() {
                if self.may_leave(group, child) {
                    offer(
                        child.gain(),
                        child.field.start,
                        Candidate::Child {
                            group: at,
                            child: place,
                        },
                    );
                }
            }
            if let Some(run) = group.runs.first()
                && self.may_slice(node, group)
            {
                offer(
                    group.total - first_size(group),
                    run.start,
                    Candidate::Tail { group: at },
                );
            }
        }
        best.map(|(.., candidate)| candidate)
    }

    fn may_leave(&self, group: &Group, child: &Child) -> bool {
        child.cut == Cut::No
            && child.chunkable
            && child.ordinal < group.kept
            && (!child.message || child.content <= self.max())
    }

    fn may_slice(&self, node: &Node, group: &Group) -> bool {
        group.class.repeats() && node.sliceable && !node.siblings.after.contains(&group.number)
    }

    /// Puts back what left a group one by one; slices will take it along. What is over the maximum by itself stays cut.
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

    /// Leaves as many members as fit into `limit`, at least the first, and puts the others into slices.
    fn slice(&self, node: &mut Node, at: usize, limit: u64) -> Result<()> {
        let max = self.max();
        for child in &mut node.groups[at].children {
            if child.outer() > max && child.chunkable && (!child.message || child.content <= max) {
                child.cut = Cut::Needed;
            }
        }
        self.settle(node, at);
        let others = node.size - node.groups[at].total;
        let packed = self.pack(node, at, limit.saturating_sub(others))?;
        let group = &mut node.groups[at];
        group.kept = packed.kept;
        group.kept_raw = packed.kept_raw;
        group.slices = packed.slices;
        self.settle(node, at);
        Ok(())
    }

    /// Reduces inside the children that may not leave as a whole.
    fn squeeze(&self, node: &mut Node, limit: u64) -> Result<()> {
        let mut tried = Vec::new();
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
                        (
                            child.outer(),
                            std::cmp::Reverse(child.field.start),
                            at,
                            place,
                        )
                    })
            });
            let Some((_, start, at, place)) = children
                .filter(|(_, start, ..)| !tried.contains(start))
                .max()
            else {
                return Ok(());
            };
            tried.push(start);
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

    /// Puts back what turns out to fit, now that larger things have left.
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
            needed.sort_by_key(|&place| std::cmp::Reverse(node.groups[at].children[place].gain()));
            for place in needed {
                let child = &mut node.groups[at].children[place];
                if node.size + child.gain() <= limit {
                    child.cut = Cut::No;
                    self.settle(node, at);
                }
            }
            for place in 0..node.groups[at].children.len() {
                let group = &mut node.groups[at];
                // Less what the lengths around it could grow by.
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

/// Bytes of a group's first member: what a slice leaves at the least. A packed run can be left empty.
fn first_size(group: &Group) -> u64 {
    let size = match group.children.first() {
        Some(run) if is_packed_run(group, run) => run.outer_with(0),
        Some(first) if first.ordinal == 0 => first.outer(),
        // Its value can't leave, or it is no field with a value inside.
        _ => group.first,
    };
    size.min(group.total)
}

fn is_packed_run(group: &Group, child: &Child) -> bool {
    child.ordinal == 0
        && matches!(group.class, Class::Numbers { .. })
        && child.field.wire_type == WireType::Len
}
