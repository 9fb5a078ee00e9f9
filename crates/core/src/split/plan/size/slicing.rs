//! Slicing the members of a repeated field.

use std::ops::Range;

use super::Engine;
use super::tree::{Child, Class, Group, Node, Slice};
use crate::path::Step;
use crate::split::read::source_view::occurrence;
use crate::wire::{Field, MAX_VARINT_LEN, WireCursor, WireType, varint_len};
use crate::{Error, ErrorKind, Result};

/// The slices of a repeated field, and the members that stay in the parent message.
pub(super) struct GroupSlices {
    /// Number of members that stay in the message.
    pub(super) kept: u64,
    /// Size in the source of the members that stay in the message, in bytes; `None` if all members
    /// stay.
    pub(super) kept_raw: Option<u64>,
    pub(super) slices: Vec<Slice>,
}

/// The state of a distribution of members, which go to the parent message first, and then to one
/// slice after the other.
struct Filling {
    slices: Vec<Slice>,
    /// Number of bytes in the parent message or the current slice.
    used: u64,
    capacity: u64,
    in_parent: bool,
    /// True if the last slice is complete.
    closed: bool,
    /// Number of members that stay in the parent message; set when the parent message is full.
    kept: u64,
    kept_raw: u64,
    /// Number of members inspected individually.
    looked_at: u64,
    counted: Counted,
}

/// A position in the source up to which members were counted.
#[derive(Clone, Copy, Default)]
struct Counted {
    /// Ordinal of the next member.
    ordinal: u64,
    /// Start of the next member, or end of the previous one, as an offset in the source.
    position: u64,
}

impl Filling {
    fn new(budget: u64) -> Self {
        Filling {
            slices: Vec::new(),
            used: 0,
            capacity: budget,
            in_parent: true,
            closed: false,
            kept: 0,
            kept_raw: 0,
            looked_at: 0,
            counted: Counted::default(),
        }
    }

    fn room(&self) -> u64 {
        if self.closed {
            0
        } else {
            self.capacity.saturating_sub(self.used)
        }
    }

    /// Returns true if the current slice is empty.
    fn is_empty_slice(&self) -> bool {
        !self.in_parent && !self.closed && self.used == 0
    }

    /// Begins a slice of at most `max` bytes, whose first member has the ordinal `first`.
    fn next_slice(&mut self, first: u64, max: u64) {
        self.in_parent = false;
        self.closed = false;
        self.used = 0;
        self.capacity = max;
        let runs = Vec::new();
        self.slices.push(Slice::Fields { first, runs });
    }

    fn add(&mut self, span: Range<u64>, size: u64) {
        self.used += size;
        if self.in_parent || span.is_empty() {
            return;
        }
        if let Some(Slice::Fields { runs, .. }) = self.slices.last_mut() {
            match runs.last_mut() {
                Some(run) if run.end == span.start => run.end = span.end,
                _ => runs.push(span),
            }
        }
    }
}

impl Engine<'_> {
    /// Keeps the first members in the parent message, at least one and up to `budget` bytes in
    /// total, and fills slices with the other members, in order.
    pub(super) fn pack(&self, node: &Node, at: usize, budget: u64) -> Result<GroupSlices> {
        let group = &node.groups[at];
        let numbers = matches!(group.class, Class::Numbers { .. });
        let mut filling = Filling::new(budget);
        let mut children = group.children.iter().peekable();
        let mut cursor = WireCursor::new(self.source.input());
        for run in &group.runs {
            let mut position = run.start;
            while position < run.end {
                let child = children.next_if(|child| child.outer_start() == position);
                if filling.looked_at == 0 || child.is_some() || numbers {
                    cursor.set_range(position..run.end);
                    let Some(field) = cursor.next()? else { break };
                    let ordinal = child.map_or(filling.looked_at, |child| child.ordinal);
                    self.pack_one(node, group, child, &field, &mut filling)?;
                    position = field.end;
                    filling.counted = Counted {
                        ordinal: ordinal + 1,
                        position,
                    };
                } else {
                    let next = children.peek().map_or(run.end, |child| child.outer_start());
                    let members = position..next.min(run.end);
                    position = self.pack_many(node, group, &members, &mut filling)?;
                }
            }
        }
        let mut slices = filling.slices;
        slices.retain(|slice| !matches!(slice, Slice::Fields { runs, .. } if runs.is_empty()));
        Ok(GroupSlices {
            kept: if filling.in_parent {
                group.count
            } else {
                filling.kept
            },
            kept_raw: (!slices.is_empty()).then_some(filling.kept_raw),
            slices,
        })
    }

    /// Adds unchanged members to the parent message or the current slice while they fit, and begins
    /// the next slice if any are left. Returns the end of the last member added.
    fn pack_many(
        &self,
        node: &Node,
        group: &Group,
        members: &Range<u64>,
        filling: &mut Filling,
    ) -> Result<u64> {
        let room = members.start.saturating_add(filling.room());
        // If all of these members fit, they are only counted when their number is needed.
        if members.end > room {
            filling.counted = self.last_boundary(group, members.clone(), room, filling.counted)?;
        }
        let mut end = if members.end > room {
            filling.counted.position
        } else {
            members.end
        };
        if end == members.start && filling.is_empty_slice() {
            let mut cursor = WireCursor::new(self.source.input());
            cursor.set_range(members.clone());
            if let Some(field) = cursor.next()? {
                if field.end - field.start > self.max() {
                    return Err(self.too_large(node, group, None, &field));
                }
                end = field.end;
                filling.counted.ordinal += 1;
                filling.counted.position = end;
            }
        }
        let size = end - members.start;
        filling.add(members.start..end, size);
        if filling.in_parent {
            filling.kept_raw += size;
        }
        if end < members.end {
            let next = filling.counted.ordinal;
            if filling.in_parent {
                filling.kept = next;
            }
            filling.next_slice(next, self.max_slice());
        }
        Ok(end)
    }

    /// Adds one member to the parent message or to a slice. The member must be the first of its
    /// group, have reduced content, or be a number or a packed run. A packed run may be divided.
    fn pack_one(
        &self,
        node: &Node,
        group: &Group,
        child: Option<&Child>,
        field: &Field,
        filling: &mut Filling,
    ) -> Result<()> {
        let max = self.max();
        let raw = field.end - field.start;
        let size = child.map_or(raw, Child::outer);
        let divisible =
            field.wire_type == WireType::Len && matches!(group.class, Class::Numbers { .. });
        let fits = size <= filling.room();
        // Numbers are inspected one by one; of other members, only the first is inspected
        // individually.
        let before = filling.looked_at;
        let is_first = before == 0;
        filling.looked_at += 1;
        let ordinal = child.map_or(before, |child| child.ordinal);
        if filling.in_parent {
            if fits || (is_first && !divisible) {
                filling.add(field.start..field.end, size);
                filling.kept_raw += raw;
                return Ok(());
            }
            filling.kept = ordinal;
        }
        if divisible && (is_first || size > max) {
            if !is_first && filling.room() < field.tag_end - field.start + 1 {
                filling.next_slice(ordinal, max);
            }
            let head = self.divide(node, group, field, filling)?;
            if filling.in_parent {
                filling.kept += 1;
                filling.kept_raw += head;
                filling.in_parent = false;
            }
            return Ok(());
        }
        if filling.in_parent || !fits {
            // An element larger than the target size gets a separate slice.
            filling.next_slice(ordinal, self.max_slice().max(size));
        }
        if size > max {
            return Err(self.too_large(node, group, child, field));
        }
        filling.add(field.start..field.end, size);
        Ok(())
    }

    /// Keeps the beginning of a packed run in the parent message or the current slice, and moves
    /// the remainder into new slices. Returns the number of bytes kept.
    fn divide(
        &self,
        node: &Node,
        group: &Group,
        run: &Field,
        filling: &mut Filling,
    ) -> Result<u64> {
        let max = self.max();
        let tag = run.tag_end - run.start;
        let width = match group.class {
            Class::Numbers { width } => width,
            _ => None,
        };
        let content_in = |room: u64| room.saturating_sub(tag + varint_len(room) as u64);
        let room = content_in(filling.room());
        let mut head = self.boundary(&run.value, room, width)?;
        if head == run.value.end && !run.value.is_empty() {
            // The run would fit if its overlong length were shortened, but a length is only
            // rewritten if elements are moved out.
            let room = run.value.end - run.value.start - 1;
            head = self.boundary(&run.value, room, width)?;
        }
        let left = head - run.value.start;
        let left_size = tag + varint_len(left) as u64 + left;
        filling.add(run.start..run.end, left_size);
        let chain = occurrence(run.clone(), &node.chain);
        let mut start = head;
        while start < run.value.end {
            let rest = start..run.value.end;
            let end = self.boundary(&rest, content_in(max), width)?;
            if end == start {
                let path = node.path.join(Step::field(group.number.0));
                let element = self.first_element(&rest, width)?;
                let whole = tag + varint_len(element) as u64 + element;
                return Err(self.uncuttable_value(&path, element, whole));
            }
            filling.slices.push(Slice::Packed {
                run: chain.clone(),
                elements: start..end,
            });
            start = end;
        }
        filling.closed = true;
        Ok(left_size)
    }

    /// Returns the end of the last element that ends within the first `room` bytes of `elements`.
    fn boundary(&self, elements: &Range<u64>, room: u64, width: Option<u64>) -> Result<u64> {
        if room >= elements.end - elements.start {
            return Ok(elements.end);
        }
        let end = elements.start + room;
        if let Some(width) = width {
            return Ok(end - room % width);
        }
        let look = room.min(MAX_VARINT_LEN as u64);
        let mut cursor = WireCursor::new(self.source.input());
        let tail = cursor.bytes(end - look..end)?;
        match tail.iter().rposition(|byte| *byte < 0x80) {
            Some(last) => Ok(end - look + last as u64 + 1),
            None if look < MAX_VARINT_LEN as u64 => Ok(elements.start),
            None => Err(
                Error::new(ErrorKind::InvalidMessage, "a varint of more than ten bytes")
                    .at_offset(end - look),
            ),
        }
    }

    /// Returns the size in bytes of the first element in a packed run.
    fn first_element(&self, elements: &Range<u64>, width: Option<u64>) -> Result<u64> {
        if let Some(width) = width {
            return Ok(width);
        }
        let look = (elements.end - elements.start).min(MAX_VARINT_LEN as u64);
        let mut cursor = WireCursor::new(self.source.input());
        let front = cursor.bytes(elements.start..elements.start + look)?;
        let last = front.iter().position(|byte| *byte < 0x80);
        Ok(last.map_or(look, |last| last as u64 + 1))
    }

    /// Returns the end of the last member in the range `members` that ends at or before `limit`, or
    /// the start of the range if none does. Continues counting from `counted` if possible.
    fn last_boundary(
        &self,
        group: &Group,
        members: Range<u64>,
        limit: u64,
        counted: Counted,
    ) -> Result<Counted> {
        let mut boundary = match group.stops.before(limit) {
            Some((ordinal, position)) if position > members.start => Counted { ordinal, position },
            _ => Counted {
                ordinal: self.ordinal_at(group, members.start, counted)?,
                position: members.start,
            },
        };
        let mut cursor = WireCursor::new(self.source.input());
        cursor.set_range(boundary.position..members.end);
        while let Some(field) = cursor.next()? {
            if field.end > limit {
                break;
            }
            boundary.position = field.end;
            boundary.ordinal += 1;
        }
        Ok(boundary)
    }

    /// Returns the ordinal of the member that starts at `position`, counting from the last position
    /// whose ordinal is known.
    fn ordinal_at(&self, group: &Group, position: u64, counted: Counted) -> Result<u64> {
        let stop = group.stops.before(position);
        let (mut ordinal, from) = stop
            .filter(|(_, start)| *start >= counted.position)
            .unwrap_or((counted.ordinal, counted.position));
        if from == position {
            return Ok(ordinal);
        }
        let mut cursor = WireCursor::new(self.source.input());
        let first = group.runs.partition_point(|run| run.end <= from);
        for run in &group.runs[first..] {
            if run.start >= position {
                break;
            }
            cursor.set_range(run.start.max(from)..run.end);
            while let Some(field) = cursor.next()? {
                if field.start >= position {
                    return Ok(ordinal);
                }
                ordinal += 1;
            }
        }
        Ok(ordinal)
    }

    fn too_large(&self, node: &Node, group: &Group, child: Option<&Child>, field: &Field) -> Error {
        match child {
            Some(Child {
                node: Some(inner), ..
            }) if inner.size > self.max() => self.uncuttable(inner),
            Some(child) => self.uncuttable_value(&child.path, child.content, child.outer()),
            None => {
                let ordinal = match self.ordinal_at(group, field.start, Counted::default()) {
                    Ok(ordinal) => ordinal,
                    Err(error) => return error,
                };
                let index = node.siblings.before(group.number) + ordinal;
                let path = node.path.join(Step::index(group.number.0, index));
                let content = field.value.end - field.value.start;
                self.uncuttable_value(&path, content, field.end - field.start)
            }
        }
    }
}
