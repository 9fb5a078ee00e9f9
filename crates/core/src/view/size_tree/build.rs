//! Building the tree to display from the sums of a traversal.

use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};

use super::arena::{Arena, Link, Look, NodeId, OTHERS, ROOT};
use super::chunks::ChunkSet;
use super::node::{Guessed, Member, TreeNode};
use crate::Result;
use crate::path::{FieldPath, FieldRef, KeyForm, Select, Step, key_codec, kind_name, with_key};
use crate::view::{Kindred, MAX_TEXT, MemberName, NameRule, name_of};
use crate::wire::header::{field_if_any, is_malformed};
use crate::wire::{Field, FieldNumber, Input, WireCursor, WireType};

/// Label of the node for a map's keys.
const KEY: &str = "(key)";
const VALUE: &str = "(value)";
/// Label of the node for the fields that have no nodes of their own, because there are too many.
const OTHER_FIELDS: &str = "(other fields)";

/// A builder that turns the sums of a traversal into a tree.
pub(super) struct TreeBuilder<'a, I> {
    pub(super) cursor: WireCursor<I>,
    pub(super) arena: Arena,
    pub(super) rules: &'a [NameRule],
    /// Path of the measured value in the whole message.
    pub(super) prefix: &'a FieldPath,
    /// Type of the whole message; `None` if it is unknown.
    pub(super) whole: Option<&'a MessageDescriptor>,
    pub(super) wanted: Vec<UnreadName>,
}

/// A member whose name is still to be read: its value, and its node.
pub(super) struct UnreadName {
    value: Range<u64>,
    node: NodeId,
    /// Position among all members, in discovery order.
    serial: usize,
}

impl<I: Input> TreeBuilder<'_, I> {
    pub(super) fn tree(mut self, root: &str) -> Result<TreeNode> {
        let mut tree = self.node(ROOT, 1)?;
        root.clone_into(&mut tree.name);
        let mut names = self.names()?;
        put_names(&mut tree, &mut names);
        Ok(tree)
    }

    fn node(&mut self, id: NodeId, parents: u64) -> Result<TreeNode> {
        let at = id as usize;
        let (count, size) = (self.arena.nodes[at].count, self.arena.nodes[at].total);
        let members = self.members(id)?;
        let facts = &self.arena.facts[at];
        let is_message = !(facts.guess.no_message && self.arena.nodes[at].look == Look::Guess);
        let ids = if is_message {
            facts.children.clone()
        } else {
            Vec::new()
        };
        let mut children = Vec::with_capacity(ids.len());
        let is_map = facts.field.as_ref().is_some_and(FieldRef::is_map);
        for child in ids {
            let is_value = is_map && self.arena.facts[child as usize].number == 2;
            let mut child = self.node(child, count)?;
            // In a path, the fields of a map's value follow the key directly.
            if is_value && !child.children.is_empty() {
                children.append(&mut child.children);
            } else {
                children.push(child);
            }
        }
        let below: u64 = children.iter().map(|child| child.size).sum();
        children.sort_by(|a, b| b.size.cmp(&a.size).then(a.field.cmp(&b.field)));
        let facts = &self.arena.facts[at];
        Ok(TreeNode {
            field: FieldNumber(facts.number),
            name: self.name(id),
            type_name: type_name(&self.arena, id),
            guessed: guessed(&self.arena, id),
            repeated: self.is_repeated(id, parents),
            count,
            size,
            own: size.saturating_sub(below),
            chunks: facts.chunks.clone(),
            members,
            children,
        })
    }

    fn is_repeated(&self, id: NodeId, parents: u64) -> bool {
        let node = &self.arena.nodes[id as usize];
        match &self.arena.facts[id as usize].field {
            Some(field) => field.is_list() || field.is_map(),
            None => id != ROOT && (node.several || node.count > parents),
        }
    }

    fn name(&self, id: NodeId) -> String {
        let facts = &self.arena.facts[id as usize];
        let above = &self.arena.facts[facts.parent as usize];
        let in_map = id != ROOT && above.field.as_ref().is_some_and(FieldRef::is_map);
        match (&facts.field, facts.number) {
            (_, OTHERS) => OTHER_FIELDS.into(),
            (_, 1) if in_map => KEY.into(),
            (_, 2) if in_map => VALUE.into(),
            (Some(field), _) => field.name(),
            (None, number) => number.to_string(),
        }
    }

    /// Returns the largest members of a field. Their names are read later.
    fn members(&mut self, id: NodeId) -> Result<Vec<Member>> {
        if !self.is_repeated(id, u64::MAX) {
            return Ok(Vec::new());
        }
        let kept: Vec<(u64, Vec<Link>)> = self
            .arena
            .kept(id)
            .into_iter()
            .map(|(size, links)| (size, links.to_vec()))
            .collect();
        let mut members = Vec::with_capacity(kept.len());
        for (size, links) in kept {
            let (path, above) = self.path(id, &links)?;
            let (mut chunks, mut value) = (ChunkSet::default(), 0..0);
            if let Some(last) = links.last() {
                value = last.start..last.start + last.len;
                self.arena.chunks.add_range(value.clone(), &mut chunks);
            }
            let serial = self.wanted.len();
            self.wanted.push(UnreadName {
                value,
                node: id,
                serial,
            });
            members.push(Member {
                text: path.display(self.whole),
                path,
                short: above,
                name: MemberName::default(),
                size,
                chunks,
                serial,
            });
        }
        Ok(members)
    }

    /// Returns the path of a member, and the suffix of the path that distinguishes it from other
    /// members.
    fn path(&mut self, id: NodeId, links: &[Link]) -> Result<(FieldPath, String)> {
        let mut way = vec![id];
        while let Some(&last) = way.last()
            && last != ROOT
        {
            way.push(self.arena.facts[last as usize].parent);
        }
        let mut links = links.iter();
        let mut path = self.prefix.clone();
        // First step along the path that may differ between members, and the node of the message
        // before it.
        let mut differs: Option<(usize, NodeId)> = None;
        for &node in way.iter().rev().skip(1) {
            let link = if self.arena.keeps(node) {
                links.next()
            } else {
                None
            };
            let facts = &self.arena.facts[node as usize];
            let parent = facts.parent;
            let above = &self.arena.facts[parent as usize];
            if parent != ROOT && above.field.as_ref().is_some_and(FieldRef::is_map) {
                continue;
            }
            let is_map = facts.field.as_ref().is_some_and(FieldRef::is_map);
            let select = match link {
                Some(link) if is_map => {
                    let codec = facts.field.as_ref().and_then(key_codec);
                    let entry = entry(link);
                    let key = codec.map(|codec| {
                        with_key(&mut self.cursor, &entry, KeyForm::Typed(codec), |key| {
                            codec.key(key)
                        })
                    });
                    match key {
                        Some(Ok(key)) => Select::Key(key),
                        Some(Err(error)) if !is_malformed(&error) => return Err(error),
                        // If the key can't be read, the member is still listed, by its index.
                        _ => Select::Index(link.ordinal),
                    }
                }
                Some(link) if self.is_repeated(node, u64::MAX) => Select::Index(link.ordinal),
                _ => Select::Field,
            };
            if differs.is_none() && self.arena.nodes[node as usize].count > 1 {
                differs = Some((path.steps().len(), parent));
            }
            let number = self.arena.facts[node as usize].number;
            path.push(Step {
                field: FieldNumber(number),
                select,
            });
        }
        let (from, parent) = differs.unwrap_or((path.steps().len().saturating_sub(1), ROOT));
        let rest: FieldPath = path.steps()[from..].iter().cloned().collect();
        let message = match differs {
            Some(_) => self.arena.facts[parent as usize].message.as_ref(),
            None => self.arena.facts[self.arena.facts[id as usize].parent as usize]
                .message
                .as_ref(),
        };
        let text = rest.display(message);
        // The field's name is omitted, since the line above this member shows it.
        let short = match rest.steps() {
            [_] => text
                .find('[')
                .map_or(text.clone(), |at| text[at..].to_owned()),
            _ => text,
        };
        Ok((path, short))
    }

    /// Returns the names of all members in discovery order. Reads them in the order of the input.
    fn names(&mut self) -> Result<Vec<MemberName>> {
        let mut wanted = std::mem::take(&mut self.wanted);
        let mut names = vec![MemberName::default(); wanted.len()];
        wanted.sort_by_key(|wanted| wanted.value.start);
        for UnreadName {
            value,
            node,
            serial,
        } in wanted
        {
            let facts = &self.arena.facts[node as usize];
            let input = self.cursor.input_mut();
            let is_map = facts.field.as_ref().is_some_and(FieldRef::is_map);
            let name = match (&facts.message, &facts.field) {
                (Some(entry), _) if is_map => map_value(
                    input,
                    value,
                    &entry.map_entry_value_field().kind(),
                    self.rules,
                )?,
                (Some(message), _) => name_of(
                    input,
                    value,
                    &Kindred::Message(message),
                    self.rules,
                    MAX_TEXT,
                )?,
                (None, Some(_)) => name_of(input, value, &Kindred::Text, self.rules, MAX_TEXT)?,
                (None, None) => {
                    if facts.guess.message && !facts.guess.no_message {
                        name_of(input, value, &Kindred::Unknown, self.rules, MAX_TEXT)?
                    } else {
                        name_of(input, value, &Kindred::Text, self.rules, MAX_TEXT)?
                    }
                }
            };
            names[serial] = name;
        }
        Ok(names)
    }
}

/// Returns the name found in the value of a map entry. The name doesn't include the entry's key.
fn map_value<I: Input>(
    input: &mut I,
    entry: Range<u64>,
    kind: &Kind,
    rules: &[NameRule],
) -> Result<MemberName> {
    let mut rest = entry;
    while let Some(field) = field_if_any(input, rest.clone())? {
        rest.start = field.end;
        if field.number.0 == 2 && field.wire_type == WireType::Len {
            let kindred = match kind {
                Kind::Message(message) => Kindred::Message(message),
                Kind::String => Kindred::Text,
                _ => break,
            };
            return name_of(input, field.value, &kindred, rules, MAX_TEXT);
        }
    }
    Ok(MemberName::default())
}

fn put_names(node: &mut TreeNode, names: &mut [MemberName]) {
    for member in &mut node.members {
        if let Some(name) = names.get_mut(member.serial) {
            member.name = std::mem::take(name);
        }
    }
    node.children
        .iter_mut()
        .for_each(|child| put_names(child, names));
}

fn entry(link: &Link) -> Field {
    Field {
        number: FieldNumber(1),
        wire_type: WireType::Len,
        start: link.start,
        tag_end: link.start,
        value: link.start..link.start + link.len,
        end: link.start + link.len,
    }
}

fn guessed(arena: &Arena, id: NodeId) -> Option<Guessed> {
    let facts = &arena.facts[id as usize];
    if arena.nodes[id as usize].look != Look::Guess {
        return None;
    }
    let guess = facts.guess;
    Some(match () {
        () if !facts.children.is_empty() && !guess.no_message => Guessed::Message,
        () if guess.text && !guess.no_text => Guessed::Text,
        () if guess.len => Guessed::Bytes,
        () => Guessed::Number,
    })
}

fn type_name(arena: &Arena, id: NodeId) -> Option<String> {
    let facts = &arena.facts[id as usize];
    let Some(field) = &facts.field else {
        return facts
            .message
            .as_ref()
            .map(|message| message.full_name().to_owned());
    };
    Some(match field.kind() {
        Kind::Message(entry) if field.is_map() => format!(
            "map<{}, {}>",
            kind_name(&entry.map_entry_key_field().kind()),
            kind_name(&entry.map_entry_value_field().kind())
        ),
        kind => kind_name(&kind),
    })
}
