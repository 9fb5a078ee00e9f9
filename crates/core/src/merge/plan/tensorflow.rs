//! Merging files without placeholders, with TensorFlow's semantics.
//!
//! Cut values are missing from their parents. A BYTES chunk sets its field, a MESSAGE chunk is
//! merged into the existing value, and missing parts of its path are created. Concatenating the
//! bytes of two messages merges them; if the type is known, fields are put in ascending order, as
//! serializers write them, unless that would change the message.

use std::collections::BTreeMap;

use prost_reflect::Kind;

use super::node_state::Occurrence;
use super::planner::Planner;
use super::scalar_text;
use super::scalar_text::field_from_text;
use super::segment_list::UseId;
use super::segment_list::{LAST_RANK, Part, Pos};
use super::states::TargetValues;
use super::walk::Role;
use crate::container::{ChunkKind, NodeId};
use crate::merge::read::chunk_store::ChunkStore;
use crate::merge::read::first_field::short_bytes;
use crate::path::{MapKey, Select, Step, TargetKind};
use crate::wire::{FieldNumber, WireType};
use crate::{Error, ErrorKind, Result};

impl<S: ChunkStore + ?Sized> Planner<'_, S> {
    /// Merges the chunks at a node, and creates all values below it that paths lead into.
    pub(in crate::merge) fn complete_unmarked(&mut self, node: NodeId) -> Result<()> {
        if self.is_value(node) {
            return Ok(());
        }
        self.merge_chunks(node)?;
        let tree = self.tree;
        for &child in tree.children(node) {
            let step = tree.step(child);
            if self.is_value(child) {
                self.set_value(node, step, child)?;
            } else if !self.states[child].is_present() {
                self.create(node, step, child)?;
            }
        }
        Ok(())
    }

    fn is_value(&self, node: NodeId) -> bool {
        match &self.types.of(node).kind {
            Some(kind) => kind.message().is_none(),
            None => self
                .chunks(node)
                .first()
                .is_some_and(|c| self.kinds[c.chunk] == ChunkKind::Bytes),
        }
    }

    fn merge_chunks(&mut self, node: NodeId) -> Result<()> {
        let chunks = self.chunks(node);
        let has_children = !self.tree.children(node).is_empty();
        for (at, c) in chunks.iter().enumerate() {
            let Some(state) = &self.states[node].content else {
                return Ok(());
            };
            let Some(end) = state.end.clone() else {
                return Ok(());
            };
            if state.fields.is_empty() && state.highest_members.is_none() && !state.at_end {
                self.fill(node, c.chunk, &end, has_children || at + 1 < chunks.len())?;
                continue;
            }
            let kind = self.types.of(node).kind.as_ref();
            let typed = kind.is_some_and(|kind| kind.message().is_some());
            let at_end = !typed || state.at_end;
            let whole = self.use_whole(c.chunk);
            if at_end {
                // A chunk at the end is correct for any type, including oneofs.
                if has_children {
                    self.walk(node, c.chunk, whole, Role::Merged).map(|runs| {
                        self.put_at_end(node, &end, runs.runs.into_iter().map(|run| run.part));
                    })?;
                } else {
                    self.put_at_end(node, &end, [whole]);
                }
                continue;
            }
            let runs = self.walk(node, c.chunk, whole, Role::Merged)?;
            if runs.unordered {
                self.put_at_end(node, &end, runs.runs.into_iter().map(|run| run.part));
                continue;
            }
            for run in runs.runs {
                let (at, rank) = self.place(node, run.number);
                self.segments.insert(&at, rank, Part::Splice(run.part));
            }
        }
        Ok(())
    }

    fn put_at_end(&mut self, node: NodeId, end: &Pos, parts: impl IntoIterator<Item = UseId>) {
        for part in parts {
            self.segments.insert(end, LAST_RANK, Part::Splice(part));
        }
        if let Some(content) = &mut self.state(node).content {
            content.at_end = true;
        }
    }

    /// Returns the position and rank at which to insert another occurrence of a field into the
    /// message at `node`: after the existing occurrences or, if there are none, after the last
    /// field with a lower number. A member of a oneof goes after all other members, which it
    /// clears.
    fn place(&mut self, node: NodeId, number: u32) -> (Pos, u32) {
        let oneofs = self.types.oneofs(node);
        let content = self.states[node].content.as_deref_mut();
        let start = content
            .as_ref()
            .and_then(|content| content.begin.clone().or_else(|| content.end.clone()));
        let (Some(state), Some(start)) = (content, start) else {
            // Insertions only go into nodes that exist, or were just created.
            return (Pos::start_of(self.segments.new_message()), number);
        };
        if state.at_end {
            return (state.end.clone().unwrap_or(start), LAST_RANK);
        }
        let oneof_of = |number| Some(oneofs.as_ref()?.of(number)?.0);
        let highest = state.highest_members.get_or_insert_with(|| {
            let mut highest = BTreeMap::new();
            for number in state.fields.numbers() {
                if let Some(oneof) = oneof_of(number) {
                    raise(&mut highest, oneof, number);
                }
            }
            highest
        });
        let oneof = oneof_of(number);
        let rank = oneof.map_or(number, |oneof| raise(highest, oneof, number));
        let own = state
            .fields
            .get(number)
            .filter(|_| oneof.is_none())
            .map(Occurrence::behind);
        let behind = own.or_else(|| state.fields.last_up_to(rank).map(Occurrence::behind));
        (behind.unwrap_or(start), rank)
    }

    /// Creates a message that a path leads to or through.
    fn create(&mut self, node: NodeId, step: &Step, child: NodeId) -> Result<()> {
        let wire = self.new_wire(node, step, child)?;
        let body = self.segments.new_message();
        let at = Pos::start_of(body);
        let number = if let Select::Key(_) = step.select {
            FieldNumber(2)
        } else {
            step.field
        };
        let field = Part::Field {
            number,
            group: wire == WireType::StartGroup,
            body,
        };
        self.put_new(node, step, child, field)?;
        self.states.list(node, child);
        self.state(child).open(at.clone(), at);
        Ok(())
    }

    /// Returns the wire type of a message that the merge creates.
    fn new_wire(&self, node: NodeId, step: &Step, child: NodeId) -> Result<WireType> {
        match &self.types.of(child).kind {
            Some(TargetKind::Group(_)) => Ok(WireType::StartGroup),
            Some(_) => Ok(WireType::Len),
            None => {
                let want = self.states.field(node, step.field);
                let seen = want.and_then(|want| want.wire);
                match (&step.select, seen) {
                    // The value of a map entry is never a group. Existing elements determine the
                    // wire type of a new one.
                    (Select::Key(_), _) => Ok(WireType::Len),
                    (Select::Index(_), Some(wire)) => Ok(wire),
                    _ if self.options.assume_plain => Ok(WireType::Len),
                    _ => self.need_type(child, "whether it is a group or length-delimited"),
                }
            }
        }
    }

    /// Inserts a new field into the message at `node`. The field is what `step` selects: a singular
    /// field, another element, or a new map entry. For a map entry, `field` is the field of the
    /// entry's value.
    fn put_new(&mut self, node: NodeId, step: &Step, child: NodeId, field: Part) -> Result<()> {
        let number = step.field;
        let part = match &step.select {
            Select::Field => {
                self.end_later(node, number.0);
                field
            }
            Select::Index(index) => {
                let want = self.states.found_field(node, number);
                let count = want.as_ref().map_or(0, |want| want.count);
                if *index != count {
                    let message =
                        format!("index {index} is out of range: the field has {count} elements");
                    return self.fail(ErrorKind::InvalidTrailer, child, message);
                }
                if let Some(want) = want {
                    want.count += 1;
                }
                field
            }
            Select::Key(key) => {
                if let Some(entry) = &self.states[child].entry {
                    let at = entry.value_end();
                    self.segments.insert(&at, 2, field);
                    return Ok(());
                }
                let key = self.new_key(node, number, child, key)?;
                let entry = self.segments.new_message();
                let at = Pos::start_of(entry);
                self.segments.insert(&at, 1, Part::Literal(key.into()));
                self.segments.insert(&at, 2, field);
                Part::Field {
                    number,
                    group: false,
                    body: entry,
                }
            }
        };
        let (at, rank) = self.place(node, number.0);
        self.segments.insert(&at, rank, part);
        Ok(())
    }

    /// If the field `number` of the message at `node` is set and is a member of a oneof, resets the
    /// state of the member that was found, if it comes later in merge order, since setting one
    /// member clears the others.
    fn end_later(&mut self, node: NodeId, number: u32) {
        if let Some(content) = &self.states[node].content
            && let Some((oneof, _)) = content.oneofs.as_ref().and_then(|all| all.of(number))
            && let Some(&found) = content.last_members.get(&oneof)
            && found > number
        {
            self.end_member(node, found);
        }
    }

    fn new_key(
        &self,
        node: NodeId,
        number: FieldNumber,
        child: NodeId,
        key: &MapKey,
    ) -> Result<Vec<u8>> {
        let want = self.states.field(node, number);
        match want.map(|want| &want.wanted) {
            Some(TargetValues::Keyed(keys)) if keys.is_certain() || self.options.assume_plain => {
                Ok(keys.codec.encode(key))
            }
            _ => self.need_type(child, "how the map's keys are encoded"),
        }
    }

    /// Sets the scalar value at the end of a path.
    fn set_value(&mut self, node: NodeId, step: &Step, child: NodeId) -> Result<()> {
        let last = self.states[child].last.clone();
        let number = if let Select::Key(_) = step.select {
            FieldNumber(2)
        } else {
            step.field
        };
        let field = match self.types.of(child).kind.clone() {
            Some(TargetKind::Scalar(kind)) if !matches!(kind, Kind::String | Kind::Bytes) => {
                self.text_field(child, number, &kind)?
            }
            None => {
                let certain = last.is_some() && !matches!(step.select, Select::Index(_));
                if !certain && !self.options.assume_plain {
                    return self
                        .need_type(child, "whether it is a string, bytes, or a number as text");
                }
                if last.as_ref().is_some_and(|last| last.wire != WireType::Len) {
                    return self.fail(
                        ErrorKind::InvalidTrailer,
                        child,
                        "a BYTES chunk for a group",
                    );
                }
                self.bytes_field(child, number)
            }
            _ => self.bytes_field(child, number),
        };
        match last {
            Some(last) => {
                self.segments
                    .replace(&last.before(), last.end() - last.start, field);
                Ok(())
            }
            None => self.put_new(node, step, child, field),
        }
    }

    fn bytes_field(&mut self, child: NodeId, number: FieldNumber) -> Part {
        let body = self.segments.new_message();
        let at = Pos::start_of(body);
        for c in self.chunks(child) {
            let whole = self.use_whole(c.chunk);
            self.segments.insert(&at, 0, Part::Splice(whole));
        }
        Part::Field {
            number,
            group: false,
            body,
        }
    }

    fn text_field(&mut self, child: NodeId, number: FieldNumber, kind: &Kind) -> Result<Part> {
        let mut text = Vec::new();
        for c in self.chunks(child) {
            match short_bytes(self.store, c.chunk, scalar_text::MAX_TEXT)? {
                Some(bytes) => text.extend_from_slice(&bytes),
                None => {
                    let size = self.store.size(c.chunk);
                    let message = format!("{size} bytes of text for one {kind:?}");
                    return self
                        .fail(ErrorKind::InvalidMessage, child, message)
                        .map_err(|error: Error| error.in_chunk(c.chunk));
                }
            }
        }
        let chunk = self.chunks(child).first().map_or(0, |c| c.chunk);
        let field = field_from_text(number, kind, &text);
        let field = field.map_err(|e| e.at_path(self.show(child)).in_chunk(chunk))?;
        Ok(Part::Literal(field.into()))
    }
}

/// Raises the highest number of the members of a oneof to at least `number`, and returns it.
fn raise(highest: &mut BTreeMap<usize, u32>, oneof: usize, number: u32) -> u32 {
    let highest = highest.entry(oneof).or_default();
    *highest = number.max(*highest);
    *highest
}
