//! Finding the fields that a change affects.

use std::collections::HashSet;
use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};
use record_file::ReadAt;

use super::place::{check_as, check_value};
use super::splice::{Replacement, Splice, SpliceKind};
use crate::path::{
    FieldPath, FieldRef, KeyForm, PathQuery, Pick, Select, Step, TargetKind, is_key, key_codec,
    message_below, with_key,
};
use crate::view::MessageView;
use crate::view::NameRule;
use crate::wire::{
    Field, FieldNumber, SourceInput, WireCursor, WireType, put_varint, tag, wire_type,
};
use crate::{Error, ErrorKind, Result};

/// A search for the fields that changes affect.
pub(super) struct Finder<'a> {
    view: &'a MessageView<'a>,
    names: &'a [NameRule],
    cursor: WireCursor<SourceInput<'a, dyn ReadAt + 'a>>,
    /// Paths of the inserted values that may exist only once. A member of a oneof has the path of
    /// the oneof's first member.
    inserted: HashSet<FieldPath>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(
        view: &'a MessageView<'a>,
        source: &'a dyn ReadAt,
        names: &'a [NameRule],
    ) -> Result<Self> {
        let size = source.size()?;
        let cursor = WireCursor::new(SourceInput::new(source, size));
        Ok(Finder {
            view,
            names,
            cursor,
            inserted: HashSet::new(),
        })
    }

    /// Finds the fields to remove: elements, map entries, or all occurrences of a field.
    pub(super) fn remove(&mut self, query: &PathQuery) -> Result<Vec<Splice>> {
        let mut found = Vec::new();
        let (parent, last) = query.split_last().ok_or_else(|| whole(query))?;
        let mut add = |field: Range<u64>| {
            found.push(Splice {
                kind: SpliceKind::Remove,
                at: field.clone(),
                range: field,
                with: Vec::new(),
                run: None,
            });
        };
        match &last.pick {
            Pick::One(select) => {
                let message = self.message_of(&parent)?;
                let known = message.and_then(|m| FieldRef::by_number(&m, last.field.0));
                if let (Some(known), Select::Index(_)) = (&known, select) {
                    check_has_elements(known).map_err(|error| error.at_path(query.as_str()))?;
                }
                let mut parents = self.view.select(&parent, self.names)?;
                while parents.next().transpose()?.is_some() {
                    let pieces = parents.pieces();
                    self.each(pieces, last.field, select, known.as_ref(), |_, field| {
                        add(field.start..field.end);
                    })?;
                }
            }
            _ => {
                let message = self.message_of(&parent)?;
                if let Some(known) = message.and_then(|m| FieldRef::by_number(&m, last.field.0)) {
                    check_has_elements(&known).map_err(|error| error.at_path(query.as_str()))?;
                }
                let mut elements = self.view.select(query, self.names)?;
                while elements.next().transpose()?.is_some() {
                    add(elements.field());
                }
            }
        }
        if found.is_empty() {
            return Err(self.view.no_such_value(query, self.names)?);
        }
        Ok(found)
    }

    /// Returns the splice that replaces the value matched by a query. `number` is the index of the
    /// new value in the list of new values.
    pub(super) fn replace(
        &mut self,
        query: &PathQuery,
        value: &dyn ReadAt,
        number: usize,
    ) -> Result<Splice> {
        let path = self.view.select_one(query, self.names)?;
        let kind = self.view.kind(&path)?;
        if let Some((at, field)) = self.view.packed_place(&path)?
            && let Some(kind) = kind
        {
            check_as(value, kind.wire_type(), Some(&kind))
                .map_err(|error| error.at_path(self.view.show(&path)))?;
            return Ok(Splice {
                kind: SpliceKind::Replace,
                at: at.clone(),
                range: at,
                with: vec![Replacement::Value(number)],
                run: Some(field.value),
            });
        }
        let place = self.view.place(&path)?;
        check_value(value, &place).map_err(|error| error.at_path(self.view.show(&path)))?;
        let field = place.field;
        let mut with = vec![Replacement::Value(number)];
        let mut range = field.value.clone();
        if field.wire_type == WireType::Len {
            range.start = field.tag_end;
            with.insert(0, Replacement::Bytes(varint(value.size()?)));
        }
        Ok(Splice {
            kind: SpliceKind::Replace,
            at: field.start..field.end,
            range,
            with,
            run: None,
        })
    }

    /// Returns the splice that inserts a field: before the element with the query's index, or after
    /// all occurrences of the field. `number` is the index of the new value in the list of new
    /// values.
    pub(super) fn insert(
        &mut self,
        query: &PathQuery,
        value: &dyn ReadAt,
        number: usize,
    ) -> Result<Splice> {
        let path = self.insertion(query)?;
        let shown = self.view.show(&path);
        self.insert_at(&path, value, number)
            .map_err(|error| error.at_path(shown))
    }

    /// Returns the path at which a query inserts a value. If an element exists at this path, the
    /// value is inserted before the element.
    fn insertion(&self, query: &PathQuery) -> Result<FieldPath> {
        let (parent, last) = query.split_last().ok_or_else(|| whole(query))?;
        match (query.as_path(), &last.pick) {
            (Some(path), _) => Ok(path),
            (None, Pick::One(select)) => {
                let mut path = self.view.select_one(&parent, self.names)?;
                path.push(Step {
                    field: last.field,
                    select: select.clone(),
                });
                Ok(path)
            }
            (None, _) => self.view.select_one(query, self.names),
        }
    }

    fn insert_at(&mut self, path: &FieldPath, value: &dyn ReadAt, number: usize) -> Result<Splice> {
        let invalid = |message: String| Err(Error::new(ErrorKind::InvalidPath, message));
        let mut parent = path.clone();
        let Some(step) = parent.pop() else {
            return invalid("the path selects the whole message".into());
        };
        let Some(kind) = self.view.kind(&parent)? else {
            let message = "the encoding of a new value depends on the message's type";
            return Err(Error::new(ErrorKind::SchemaNeeded, message));
        };
        let Some(field) = kind
            .message()
            .and_then(|message| FieldRef::by_number(message, step.field.0))
        else {
            return invalid(format!("there is no field {}", step.field));
        };
        let (_, pieces) = self.view.find_some(&parent)?;
        let Some(end) = pieces.last().cloned() else {
            return invalid("the enclosing message does not exist".into());
        };
        let wanted = match &step.select {
            Select::Index(index) => Some(*index),
            _ => None,
        };
        // Stores only these positions, since the field may have millions of elements.
        let (mut count, mut in_front, mut behind) = (0, None, (end.clone(), end.end));
        self.each(
            &pieces,
            step.field,
            &Select::Field,
            Some(&field),
            |piece, field| {
                if wanted == Some(count) {
                    in_front = Some((piece.clone(), field.start));
                }
                count += 1;
                behind = (piece.clone(), field.end);
            },
        )?;
        let mut key = None;
        let (into, at) = match &step.select {
            Select::Field if field.is_map() => {
                return invalid("an entry of a map needs a key".into());
            }
            Select::Field if field.is_list() => behind,
            Select::Field => {
                self.check_free(&pieces, &field, count > 0)?;
                parent.push(Step::field(first_alternative(&field)));
                self.note_inserted(parent)?;
                (end.clone(), end.end)
            }
            Select::Index(index) => {
                check_has_elements(&field)?;
                match in_front {
                    Some(in_front) => in_front,
                    None if *index == count => behind,
                    None => {
                        return invalid(format!(
                            "the field has {count} elements: a new one can be inserted at 0 to {count}"
                        ));
                    }
                }
            }
            Select::Key(wanted) => {
                if self.is_there(&pieces, step.field, &step.select, &field)? {
                    return invalid("there is an entry with this key: replace its value".into());
                }
                let codec = key_codec(&field).ok_or_else(|| {
                    Error::new(
                        ErrorKind::InvalidPath,
                        "the path has a key, but the field is not a map",
                    )
                })?;
                key = Some(codec.encode(wanted));
                self.note_inserted(path.clone())?;
                behind
            }
        };
        Ok(Splice {
            kind: SpliceKind::Insert,
            at: into,
            range: at..at,
            with: written(&field, key, value, number)?,
            run: None,
        })
    }

    /// Fails if an earlier change inserted the value at this path.
    fn note_inserted(&mut self, path: FieldPath) -> Result<()> {
        if self.inserted.insert(path) {
            return Ok(());
        }
        let message =
            "two changes contradict each other: both insert this value, or members of its oneof";
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }

    /// Fails if a singular field already has a value, or another member of its oneof does.
    fn check_free(
        &mut self,
        pieces: &[Range<u64>],
        field: &FieldRef,
        is_there: bool,
    ) -> Result<()> {
        if is_there {
            let message = "there is a value already: replace it";
            return Err(Error::new(ErrorKind::InvalidPath, message));
        }
        let oneof = field.oneof().filter(|oneof| !oneof.is_synthetic());
        let others = oneof.iter().flat_map(|oneof| oneof.fields());
        for other in others.filter(|other| other.number() != field.number()) {
            let known = FieldRef::Field(other.clone());
            let number = FieldNumber(other.number());
            if self.is_there(pieces, number, &Select::Field, &known)? {
                let name = other.name();
                let message =
                    format!("{name} is set, which excludes this field: remove {name} first");
                return Err(Error::new(ErrorKind::InvalidPath, message));
            }
        }
        Ok(())
    }

    /// Returns the type of the messages that a query matches; `None` if the type is unknown.
    fn message_of(&self, query: &PathQuery) -> Result<Option<MessageDescriptor>> {
        let mut message = self.view.descriptor().cloned();
        for step in query.steps() {
            let field = message
                .as_ref()
                .and_then(|message| FieldRef::by_number(message, step.field.0));
            message = field.as_ref().and_then(message_below);
        }
        Ok(message)
    }

    /// Calls `found` with each selected occurrence of a field, and with the piece that contains the
    /// occurrence. The message consists of `pieces`. `select` selects all occurrences, or only
    /// those with an index or a key.
    fn each(
        &mut self,
        pieces: &[Range<u64>],
        number: FieldNumber,
        select: &Select,
        known: Option<&FieldRef>,
        mut found: impl FnMut(&Range<u64>, &Field),
    ) -> Result<()> {
        let takes = |wire: WireType| match known {
            Some(known) => known.takes(wire),
            None => true,
        };
        let mut count = 0;
        for piece in pieces {
            let mut left = piece.clone();
            self.cursor.set_range(left.clone());
            while let Some(field) = self.cursor.next()? {
                left.start = field.end;
                if field.number != number || !takes(field.wire_type) {
                    continue;
                }
                let index = count;
                count += 1;
                let is_it = match select {
                    Select::Field => true,
                    Select::Index(wanted) => *wanted == index,
                    Select::Key(key) => {
                        let codec = known.and_then(key_codec);
                        let form = codec.map_or_else(|| KeyForm::plain(key), KeyForm::Typed);
                        let is_it = with_key(&mut self.cursor, &field, form, |found| {
                            is_key(key, form, found)
                        })?;
                        self.cursor.set_range(left.clone());
                        is_it
                    }
                };
                if is_it {
                    found(piece, &field);
                }
            }
        }
        Ok(())
    }

    fn is_there(
        &mut self,
        pieces: &[Range<u64>],
        number: FieldNumber,
        select: &Select,
        known: &FieldRef,
    ) -> Result<bool> {
        let mut is_there = false;
        self.each(pieces, number, select, Some(known), |_, _| is_there = true)?;
        Ok(is_there)
    }
}

/// Returns the number of the first member of a field's oneof, or of the field itself if it is in no
/// oneof.
fn first_alternative(field: &FieldRef) -> u32 {
    let first = field.oneof().and_then(|oneof| oneof.fields().next());
    first.map_or(field.number(), |first| first.number())
}

fn whole(query: &PathQuery) -> Error {
    let message = "the path selects the whole message";
    Error::new(ErrorKind::InvalidPath, message).at_path(query.as_str())
}

/// Fails if a repeated field contains numbers. Several numbers may be packed under one tag, so a
/// single number can't be removed or inserted.
fn check_has_elements(field: &FieldRef) -> Result<()> {
    match field.kind() {
        Kind::Message(_) | Kind::String | Kind::Bytes => Ok(()),
        _ => {
            let message = "an element of repeated numbers can't be addressed: use the whole field";
            Err(Error::new(ErrorKind::InvalidPath, message))
        }
    }
}

/// Returns the encoding of a new field, wrapped in a map entry if the field has a key.
fn written(
    field: &FieldRef,
    key: Option<Vec<u8>>,
    value: &dyn ReadAt,
    number: usize,
) -> Result<Vec<Replacement>> {
    let kind = match (field.kind(), &key) {
        (Kind::Message(entry), Some(_)) => entry.map_entry_value_field().kind(),
        (kind, _) => kind,
    };
    let is_group = field.is_group() && key.is_none();
    let wire = wire_type(&kind, is_group);
    let target = match kind {
        Kind::Message(message) if is_group => TargetKind::Group(message),
        Kind::Message(message) => TargetKind::Message(message),
        kind => TargetKind::Scalar(kind),
    };
    check_as(value, wire, Some(&target))?;
    let own = match key {
        Some(_) => FieldNumber(2),
        None => FieldNumber(field.number()),
    };
    let size = value.size()?;
    let mut front = varint(tag(own, wire));
    let mut behind = Vec::new();
    match wire {
        WireType::Len => put_varint(&mut front, size),
        WireType::StartGroup => behind = varint(tag(own, WireType::EndGroup)),
        _ => {}
    }
    if let Some(key) = key {
        let len = (key.len() as u64)
            .checked_add(front.len() as u64)
            .and_then(|len| len.checked_add(size))
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::LimitExceeded,
                    "the message's size exceeds 64 bits",
                )
            })?;
        let mut entry = varint(tag(FieldNumber(field.number()), WireType::Len));
        put_varint(&mut entry, len);
        entry.extend(key);
        entry.append(&mut front);
        front = entry;
    }
    Ok(vec![
        Replacement::Bytes(front),
        Replacement::Value(number),
        Replacement::Bytes(behind),
    ])
}

fn varint(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, value);
    bytes
}
