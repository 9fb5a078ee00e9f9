//! Finding large parts by scanning the fields of a message.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};

use super::Engine;
use super::skip_index::{SkipIndex, SmallMembers};
use super::tree::{Class, Group, Node, Siblings};
use crate::path::{FieldPath, FieldRef, check_field, value_message};
use crate::split::read::source_view::{Chain, content};
use crate::wire::{Field, FieldNumber, WireCursor, WireType, wire_type};
use crate::{Error, ErrorKind, Result};

/// Maximum size of a field's tag and length, in bytes.
const HEADER: u64 = 20;

/// Maximum number of pieces (occurrences that parsers merge) of a singular submessage. A submessage
/// in more pieces is not cut. Writers make one piece. The limit exists since each piece stores
/// facts about all others.
const MOST_PIECES: u64 = 16;

/// Maximum number of distinct field numbers in a message that is cut. Real types have at most
/// hundreds, but malicious bytes can contain millions.
const MOST_NUMBERS: usize = 1 << 16;

/// Fails if a message has more than [`MOST_NUMBERS`] distinct field numbers.
pub(super) fn check_numbers(count: usize) -> Result<()> {
    if count <= MOST_NUMBERS {
        return Ok(());
    }
    let message = format!("more than {MOST_NUMBERS} different fields in one message");
    Err(Error::new(ErrorKind::LimitExceeded, message))
}

/// The choice of the members of a group that a scan keeps.
#[derive(Clone, Copy)]
enum Hold {
    /// Members that are large enough to be kept in the first scan.
    Large,
    /// All members that could become chunks and whose group can't be sliced.
    All,
}

/// Number of fields to scan between two checks for cancellation.
const CHECK_EVERY: u32 = 1 << 10;

/// The result of a scan over a message's fields.
#[derive(Default)]
struct Found {
    groups: Vec<Group>,
    /// Indices in `groups` by field number.
    places: HashMap<FieldNumber, usize>,
    /// For each group: the members to keep, with their ordinals.
    held: Vec<Vec<(u64, Field)>>,
    /// For each group: the number of members with an unexpected wire type.
    odd: Vec<u64>,
    /// For each group: the number of empty members.
    empties: Vec<u64>,
    /// For each group: the index of its oneof in `winners`; `None` if the field is in no oneof.
    oneofs: Vec<Option<usize>>,
    /// For each oneof: its name, and the member that occurred last.
    winners: Vec<(String, FieldNumber)>,
    /// Members of oneofs that are followed by another member of the same oneof.
    superseded: HashSet<FieldNumber>,
}

/// Facts about consecutive fields with the same number and wire type.
#[derive(Clone, Copy, Default)]
struct Run {
    /// Index of the run's group.
    at: usize,
    /// True if the fields are length-delimited or groups.
    nested: bool,
    /// True if the fields don't have the wire type that the message's type declares.
    odd: bool,
    /// True if the fields can become chunks one by one, but not in slices.
    spare: bool,
}

impl Run {
    fn of(field: &Field, node: &Node, found: &mut Found) -> Result<Run> {
        let at = found.place(&node.descriptor, field.number)?;
        found.chosen(at);
        let class = &found.groups[at].class;
        // An unknown field counts as repeated, and indices count only its length-delimited values.
        let uncounted = *class == Class::Unknown && field.wire_type != WireType::Len;
        let nested = matches!(field.wire_type, WireType::Len | WireType::StartGroup);
        Ok(Run {
            at,
            nested,
            odd: uncounted || !fits(class, field.wire_type),
            spare: nested && !(class.repeats() && node.sliceable),
        })
    }
}

impl Engine<'_> {
    /// Scans the fields of a message, and enters the members that may contain parts to move out.
    pub(super) fn scan(
        &self,
        chain: &Chain,
        descriptor: &MessageDescriptor,
        path: &FieldPath,
        depth: u32,
        siblings: Siblings,
        check: bool,
    ) -> Result<Node> {
        let range = content(chain, self.source);
        let mut node = Node {
            path: path.clone(),
            descriptor: descriptor.clone(),
            chain: chain.clone(),
            depth,
            size: range.end - range.start,
            groups: Vec::new(),
            sliceable: !self.rules.keeps_whole(descriptor.full_name()) && !siblings.any_empty,
            complete: false,
            siblings,
        };
        let found = self.hop(&node, Hold::Large, check)?;
        self.adopt(&mut node, found)?;
        Ok(node)
    }

    /// Returns true if the first scan keeps a field: if the field is large enough, or contains a
    /// cut.
    pub(super) fn is_held(&self, field: &Field) -> bool {
        let len = field.value.end - field.value.start;
        let nested = matches!(field.wire_type, WireType::Len | WireType::StartGroup);
        nested && (len >= self.held_from() || self.is_marked(field))
    }

    /// Returns the minimum size of a field that the first scan keeps, in bytes.
    fn held_from(&self) -> u64 {
        let large = self.max().saturating_sub(HEADER);
        let value = self.options.value_chunk_size;
        value.map_or(large, |value| value.min(large)).max(1)
    }

    fn is_marked(&self, field: &Field) -> bool {
        !self.marks.is_empty() && self.marks.any_within(&(field.start..field.end))
    }

    /// Adds children to the groups that can't be sliced, so that every member that could become a
    /// chunk is a child.
    pub(super) fn complete(&self, node: &mut Node) -> Result<()> {
        if node.complete {
            return Ok(());
        }
        node.complete = true;
        let held = if node.groups.iter().all(|group| group.spare.is_complete()) {
            node.groups
                .iter_mut()
                .map(|group| group.spare.take())
                .collect()
        } else {
            self.hop(node, Hold::All, false)?.held
        };
        for (at, held) in held.into_iter().enumerate() {
            let known = node.groups[at].children.iter();
            let known: HashSet<u64> = known.map(|child| child.ordinal).collect();
            let more = held
                .into_iter()
                .filter(|(ordinal, _)| !known.contains(ordinal))
                .collect();
            let more = self.children(node, at, more)?;
            let group = &mut node.groups[at];
            group.children.extend(more);
            group.children.sort_by_key(|child| child.ordinal);
        }
        Ok(())
    }

    /// Keeps the first member of a group as a child. When the other members become slices, the
    /// first one stays in the message, unless its value is cut, too.
    pub(super) fn hold_first(&self, node: &mut Node, at: usize) -> Result<()> {
        let group = &node.groups[at];
        if group
            .children
            .first()
            .is_some_and(|child| child.ordinal == 0)
        {
            return Ok(());
        }
        let Some(run) = group.runs.first() else {
            return Ok(());
        };
        let mut cursor = WireCursor::new(self.source.input());
        cursor.set_range(run.clone());
        let Some(first) = cursor.next()? else {
            return Ok(());
        };
        let first = self.children(node, at, vec![(0, first)])?;
        node.groups[at].children.splice(0..0, first);
        Ok(())
    }

    /// Scans a message's fields, and groups them by number. With `check`, fails if a field's
    /// wire type differs from the one that the message type declares for the field.
    fn hop(&self, node: &Node, hold: Hold, check: bool) -> Result<Found> {
        let mut found = Found::default();
        let mut cursor = WireCursor::new(self.source.input());
        cursor.set_range(content(&node.chain, self.source));
        let here = |error: Error| error.at_path(node.path.display(Some(self.source.descriptor())));
        let large = self.held_from();
        let marked = !self.marks.is_empty();
        let mut previous = None;
        let mut run = Run::default();
        let mut steps = 0u32;
        while let Some(field) = cursor.next().map_err(here)? {
            steps = steps.wrapping_add(1);
            if steps % CHECK_EVERY == 1 {
                self.options.progress.check()?;
            }
            if previous != Some((field.number, field.wire_type)) {
                previous = Some((field.number, field.wire_type));
                run = Run::of(&field, node, &mut found).map_err(here)?;
                if check {
                    check_field(&node.descriptor, &field).map_err(here)?;
                }
            }
            let Run {
                at,
                nested,
                odd,
                spare,
            } = run;
            let group = &mut found.groups[at];
            found.odd[at] += u64::from(odd);
            let len = field.value.end - field.value.start;
            found.empties[at] += u64::from(len == 0);
            let is_large = nested && (len >= large || (marked && self.is_marked(&field)));
            match hold {
                Hold::Large if is_large => found.held[at].push((group.count, field.clone())),
                Hold::Large if spare => group.spare.add(group.count, &field),
                Hold::All if spare => {
                    let held = &mut found.held[at];
                    // Only the last occurrence of a singular value could become a chunk. If a
                    // singular message has more than the maximum number of pieces, none of them
                    // could.
                    let most = match group.class {
                        _ if marked || group.class.repeats() => u64::MAX,
                        Class::Message { .. } => MOST_PIECES,
                        _ => 1,
                    };
                    if held.len() as u64 == most {
                        held.clear();
                    }
                    held.push((group.count, field.clone()));
                }
                _ => {}
            }
            if group.count == 0 {
                group.first = field.end - field.start;
            }
            group.stops.pass(group.count, field.start);
            group.count += 1;
            group.total += field.end - field.start;
            match group.runs.last_mut() {
                Some(run) if run.end == field.start => run.end = field.end,
                _ => {
                    if let Hold::Large = hold {
                        self.turns.take()?;
                    }
                    group.runs.push(field.start..field.end);
                }
            }
            if nested && !spare && !marked {
                let (ordinal, start) = (group.count, cursor.position());
                let empties = &mut found.empties[at];
                let pass = |start, value: Range<u64>| {
                    group.stops.pass(group.count, start);
                    group.count += 1;
                    *empties += u64::from(value.is_empty());
                    true
                };
                cursor.hop_alike(&field, large, pass).map_err(here)?;
                if group.count > ordinal {
                    found.odd[at] += u64::from(odd) * (group.count - ordinal);
                    group.total += cursor.position() - start;
                    if let Some(run) = group.runs.last_mut() {
                        run.end = cursor.position();
                    }
                }
            }
        }
        Ok(found)
    }

    fn adopt(&self, node: &mut Node, found: Found) -> Result<()> {
        let Found {
            groups,
            held,
            odd,
            empties,
            superseded,
            ..
        } = found;
        node.groups = groups;
        for (at, group) in node.groups.iter_mut().enumerate() {
            group.kept = u64::MAX;
            group.addressable = odd[at] == 0 && !superseded.contains(&group.number);
            group.addressable &= !rivals(&node.descriptor, group.number)
                .any(|rival| node.siblings.after.contains(&rival));
            match group.class {
                // If there are several values, the last one is used. An earlier, empty value would
                // look like a second placeholder.
                Class::Value => {
                    group.addressable &= empties[at] == 0 || group.count == 1;
                    group.addressable &= node.siblings.before(group.number) == 0;
                    group.addressable &= !node.siblings.after.contains(&group.number);
                }
                // A submessage stays whole if it also occurs in another piece of its parent, or if
                // it has very many pieces.
                Class::Message {
                    repeated: false, ..
                } => {
                    group.addressable &= group.count <= MOST_PIECES;
                    group.addressable &= node.siblings.before(group.number) == 0;
                    group.addressable &= !node.siblings.after.contains(&group.number);
                }
                Class::Map { .. } => {
                    group.addressable &= node.siblings.before(group.number) == 0;
                    group.addressable &= !node.siblings.after.contains(&group.number);
                }
                _ => {}
            }
        }
        for (at, held) in held.into_iter().enumerate() {
            if held.is_empty() {
                continue;
            }
            let children = self.children(node, at, held)?;
            node.groups[at].children = children;
        }
        for at in 0..node.groups.len() {
            self.settle(node, at);
        }
        Ok(())
    }

    /// Updates a group's total size and the node's size after changes to the group's children.
    pub(super) fn settle(&self, node: &mut Node, at: usize) {
        let group = &mut node.groups[at];
        let kept = group
            .children
            .iter()
            .filter(|child| child.ordinal < group.kept);
        let saved: u64 = kept
            .map(|child| child.raw().saturating_sub(child.outer()))
            .sum();
        let raw = group
            .kept_raw
            .unwrap_or_else(|| group.runs.iter().map(|run| run.end - run.start).sum());
        let total = raw - saved;
        node.size = node.size - group.total + total;
        group.total = total;
    }
}

impl Found {
    /// Returns the index of the group with this field number, creating the group if necessary.
    fn place(&mut self, descriptor: &MessageDescriptor, number: FieldNumber) -> Result<usize> {
        if let Some(&at) = self.places.get(&number) {
            return Ok(at);
        }
        check_numbers(self.groups.len() + 1)?;
        let at = self.groups.len();
        self.places.insert(number, at);
        self.groups.push(Group {
            number,
            class: classify(descriptor, number),
            count: 0,
            first: 0,
            total: 0,
            kept_raw: None,
            runs: Vec::new(),
            stops: SkipIndex::default(),
            spare: SmallMembers::default(),
            children: Vec::new(),
            slices: Vec::new(),
            kept: u64::MAX,
            addressable: false,
        });
        let oneof = oneof_of(descriptor, number).map(|name| {
            let known = self.winners.iter().position(|(known, _)| *known == name);
            known.unwrap_or_else(|| {
                self.winners.push((name, number));
                self.winners.len() - 1
            })
        });
        self.oneofs.push(oneof);
        self.held.push(Vec::new());
        self.odd.push(0);
        self.empties.push(0);
        Ok(at)
    }

    /// Tracks which member of a oneof occurred last. That member supersedes all earlier members,
    /// and also its own earlier pieces if another member was in between.
    fn chosen(&mut self, at: usize) {
        let number = self.groups[at].number;
        if let Some(oneof) = self.oneofs[at] {
            let winner = &mut self.winners[oneof].1;
            if *winner != number {
                self.superseded.insert(*winner);
                *winner = number;
            }
        }
    }
}

/// Returns the numbers of the other members of a field's oneof.
fn rivals(
    descriptor: &MessageDescriptor,
    number: FieldNumber,
) -> impl Iterator<Item = FieldNumber> {
    let oneof = FieldRef::by_number(descriptor, number.0).and_then(|field| field.oneof());
    let members: Vec<_> = oneof
        .iter()
        .flat_map(|oneof| oneof.fields())
        .map(|f| FieldNumber(f.number()))
        .collect();
    members.into_iter().filter(move |member| *member != number)
}

fn oneof_of(descriptor: &MessageDescriptor, number: FieldNumber) -> Option<String> {
    let oneof = FieldRef::by_number(descriptor, number.0)?.oneof()?;
    Some(oneof.full_name().to_owned())
}

fn classify(descriptor: &MessageDescriptor, number: FieldNumber) -> Class {
    let Some(field) = FieldRef::by_number(descriptor, number.0) else {
        return Class::Unknown;
    };
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            let value = value_message(&entry);
            Class::Map { entry, value }
        }
        Kind::Message(descriptor) => Class::Message {
            descriptor,
            repeated: field.is_list(),
            group: field.is_group(),
        },
        Kind::Bytes | Kind::String if field.is_list() => Class::Values,
        Kind::Bytes | Kind::String => Class::Value,
        kind if field.is_list() => Class::Numbers {
            width: wire_type(&kind, false).width().map(u64::from),
        },
        _ => Class::Scalar,
    }
}

/// Returns true if a field of this class can have this wire type.
fn fits(class: &Class, wire_type: WireType) -> bool {
    match class {
        Class::Message { group: true, .. } => wire_type == WireType::StartGroup,
        Class::Message { .. } | Class::Value | Class::Values | Class::Map { .. } => {
            wire_type == WireType::Len
        }
        Class::Numbers { width } => {
            wire_type == WireType::Len
                || wire_type
                    == match width {
                        None => WireType::Varint,
                        Some(8) => WireType::Fixed64,
                        Some(_) => WireType::Fixed32,
                    }
        }
        Class::Scalar | Class::Unknown => true,
    }
}
