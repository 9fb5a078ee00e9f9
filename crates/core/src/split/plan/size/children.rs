//! The large members of a group: their locations, their paths, and whether a path can lead to them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use prost_reflect::MessageDescriptor;

use super::engine::Engine;
use super::scan::check_numbers;
use super::tree::{Child, Class, Cut, Group, Node, Siblings, mark_node};
use crate::Result;
use crate::container::key_is_addressable;
use crate::path::{MapKey, Step, is_closed, parse_entry};
use crate::split::read::source_view::occurrence;
use crate::split::read::superseded::is_passable;
use crate::wire::{Field, FieldNumber, WireCursor};

/// The last entry with a given key.
enum LastEntry {
    NoneYet,
    /// Ordinal of the last entry, and the range of its value (empty if it has none). The flag is
    /// true if readers can't enter the entry.
    At(u64, Range<u64>, bool),
    /// An entry that no path can lead to, because of the entries before it.
    Hidden,
}

impl Engine<'_> {
    /// Returns the members in `held` as children of their group, after entering and reducing their
    /// content.
    pub(super) fn children(
        &self,
        node: &Node,
        at: usize,
        held: Vec<(u64, Field)>,
    ) -> Result<Vec<Child>> {
        let group = &node.groups[at];
        let keys = match &group.class {
            Class::Map { entry, value } => self.last_keys(group, entry, value.as_ref(), &held)?,
            _ => HashMap::new(),
        };
        let siblings = match &group.class {
            Class::Message {
                repeated: false, ..
            } if group.count > 1 && group.addressable => self.pieces(group)?,
            _ => Vec::new(),
        };
        let mut children = Vec::with_capacity(held.len());
        for (ordinal, field) in held {
            let piece = usize::try_from(ordinal)
                .ok()
                .and_then(|at| siblings.get(at));
            let siblings = piece.cloned().unwrap_or_default();
            let child = self.child(node, group, ordinal, field, &keys, siblings)?;
            children.extend(child);
        }
        Ok(children)
    }

    fn child(
        &self,
        node: &Node,
        group: &Group,
        ordinal: u64,
        field: Field,
        keys: &HashMap<MapKey, u64>,
        siblings: Siblings,
    ) -> Result<Option<Child>> {
        let number = group.number.0;
        let index = node.siblings.before(group.number) + ordinal;
        let mut child = Child {
            ordinal,
            path: node.path.join(Step::field(number)),
            content: field.value.end - field.value.start,
            chain: occurrence(field.clone(), &node.chain),
            field,
            entry: None,
            siblings,
            node: None,
            inside: 0,
            message: false,
            cut: Cut::No,
            chunkable: group.addressable,
            enterable: false,
        };
        let below = match &group.class {
            Class::Message {
                descriptor,
                repeated,
                ..
            } => {
                if *repeated {
                    child.path = node.path.join(Step::index(number, index));
                }
                child.chunkable &= *repeated || group.count == 1;
                Some(descriptor)
            }
            Class::Value => {
                child.chunkable &= ordinal + 1 == group.count;
                None
            }
            Class::Map { entry, value } => {
                let Some(key) = self.go_to_value(&mut child, entry)? else {
                    return Ok(None);
                };
                let kind = entry.map_entry_key_field().kind();
                child.chunkable &= (value.is_some() || self.cuts_elements())
                    && key_is_addressable(&key, &kind, self.options.profile)
                    && keys.get(&key) == Some(&ordinal);
                child.path = node.path.join(Step::key(number, key));
                value.as_ref()
            }
            Class::Values | Class::Numbers { .. } | Class::Unknown | Class::Scalar => {
                child.path = node.path.join(Step::index(number, index));
                let is_value = matches!(group.class, Class::Values | Class::Unknown);
                child.chunkable &= is_value && self.cuts_elements();
                None
            }
        };
        match (below, self.options.value_chunk_size) {
            (Some(below), _) => self.go_below(&mut child, node, group, below)?,
            (None, Some(size)) if child.chunkable && child.content >= size.max(1) => {
                child.cut = Cut::Always;
            }
            _ => {}
        }
        if self.marks.cut_at(&child.field).is_some() {
            child.cut = Cut::Already;
        }
        Ok(Some(child))
    }

    /// Changes `child`, which must describe a map entry, so that it describes the entry's value.
    /// Returns the entry's key; `None` if no path can lead to the value.
    fn go_to_value(&self, child: &mut Child, entry: &MessageDescriptor) -> Result<Option<MapKey>> {
        let mut cursor = WireCursor::new(self.source.input());
        let parsed = parse_entry(&mut cursor, child.field.value.clone(), entry)?;
        let Some((key, value)) = parsed.and_then(|entry| Some((entry.key, entry.value?))) else {
            return Ok(None);
        };
        child.chain = occurrence(value.clone(), &child.chain);
        child.content = value.value.end - value.value.start;
        child.entry = Some(std::mem::replace(&mut child.field, value));
        Ok(Some(key))
    }

    /// Determines whether a child that is a message may become a chunk, and whether parts of its
    /// content may become chunks. Then enters the child if necessary.
    fn go_below(
        &self,
        child: &mut Child,
        node: &Node,
        group: &Group,
        below: &MessageDescriptor,
    ) -> Result<()> {
        let is_map = matches!(group.class, Class::Map { .. });
        let entry = child.entry.as_ref();
        let closed = entry.is_some_and(|entry| is_closed(entry, &child.field));
        // To enter a child, a path must be able to lead through it, even if the child itself may
        // not become a chunk.
        child.message = true;
        child.enterable = group.addressable
            && node.depth < self.options.effective_depth_limit()
            && (child.chunkable || !is_map);
        child.chunkable &= !self.rules.keeps_whole(below.full_name());
        // The child's content may move out only if the child itself does.
        child.enterable &= child.chunkable || !closed;
        if child.enterable && self.is_held(&child.field) {
            self.enter(child, below, node.depth + 1)?;
            if closed {
                child.cut = Cut::Always;
            }
        }
        Ok(())
    }

    /// Scans a child's content, and reduces it if necessary.
    pub(super) fn enter(
        &self,
        child: &mut Child,
        descriptor: &MessageDescriptor,
        depth: u32,
    ) -> Result<()> {
        let siblings = child.siblings.clone();
        let mut inner = self.scan(
            &child.chain,
            descriptor,
            &child.path,
            depth,
            siblings,
            false,
        )?;
        self.reduce(&mut inner, self.max())?;
        child.content = inner.size;
        // Several chunks under a map key need the value as their parent chunk; see
        // `Cuts::nest_at_keys`.
        child.inside = inner.chunk_count();
        let nests = child.entry.is_some() && !self.cuts_elements();
        if nests && child.chunkable && child.inside > 1 {
            child.cut = Cut::Always;
        }
        // Only children that may not become chunks themselves are reduced again. For other
        // children, keeping their state isn't worth the memory.
        if child.chunkable && inner.size <= self.max() {
            mark_node(&inner, &mut self.decided.borrow_mut());
            return Ok(());
        }
        child.node = Some(Box::new(inner));
        Ok(())
    }

    /// Returns, for each key of the entries in `held`, the ordinal of the last entry with that key,
    /// since parsers use only the last one. `message` is the type of the values; `None` if they are
    /// not messages.
    fn last_keys(
        &self,
        group: &Group,
        entry: &MessageDescriptor,
        message: Option<&MessageDescriptor>,
        held: &[(u64, Field)],
    ) -> Result<HashMap<MapKey, u64>> {
        let mut cursor = WireCursor::new(self.source.input());
        let mut last: HashMap<MapKey, LastEntry> = HashMap::new();
        for (_, field) in held {
            if let Some(parsed) = parse_entry(&mut cursor, field.value.clone(), entry)? {
                last.insert(parsed.key, LastEntry::NoneYet);
            }
        }
        let mut ordinal = 0;
        let mut fields = WireCursor::new(self.source.input());
        for run in &group.runs {
            fields.set_range(run.clone());
            while let Some(field) = fields.next()? {
                // An entry with an unreadable key may have any key.
                let Some(parsed) = parse_entry(&mut cursor, field.value.clone(), entry)? else {
                    return Ok(HashMap::new());
                };
                let value = parsed.value.as_ref();
                let closed = value.is_some_and(|value| is_closed(&field, value));
                if let Some(known) = last.get_mut(&parsed.key) {
                    let value = parsed.value.map_or(0..0, |value| value.value);
                    let passable = match known {
                        LastEntry::NoneYet => true,
                        LastEntry::At(_, earlier, closed) => {
                            !*closed && is_passable(self.source, earlier.clone(), message)?
                        }
                        LastEntry::Hidden => false,
                    };
                    *known = if passable {
                        LastEntry::At(ordinal, value, closed)
                    } else {
                        LastEntry::Hidden
                    };
                }
                ordinal += 1;
            }
        }
        let named = last.into_iter().filter_map(|(key, last)| match last {
            LastEntry::At(ordinal, ..) => Some((key, ordinal)),
            LastEntry::NoneYet | LastEntry::Hidden => None,
        });
        Ok(named.collect())
    }

    /// Returns, for each piece of a singular submessage, facts about the other pieces.
    fn pieces(&self, group: &Group) -> Result<Vec<Siblings>> {
        let mut counts: Vec<HashMap<FieldNumber, u64>> = Vec::new();
        let mut numbers = HashSet::new();
        let mut pieces = WireCursor::new(self.source.input());
        let mut cursor = WireCursor::new(self.source.input());
        for run in &group.runs {
            pieces.set_range(run.clone());
            while let Some(piece) = pieces.next()? {
                let mut occurs = HashMap::new();
                cursor.set_range(piece.value);
                while let Some(field) = cursor.next()? {
                    *occurs.entry(field.number).or_insert(0) += 1;
                    if numbers.insert(field.number) {
                        check_numbers(numbers.len())?;
                    }
                }
                counts.push(occurs);
            }
        }
        let any_empty = counts.iter().any(HashMap::is_empty);
        let siblings = (0..counts.len()).map(|at| {
            let mut before = HashMap::new();
            for (number, count) in counts[..at].iter().flatten() {
                *before.entry(*number).or_insert(0) += count;
            }
            let later = counts[at + 1..].iter();
            let after = later.flat_map(|occurs| occurs.keys().copied()).collect();
            Siblings {
                before,
                after,
                any_empty,
            }
        });
        Ok(siblings.collect())
    }
}
