//! Canonical forms of map entries.

use std::ops::Range;

use crate::Result;
use crate::wire::{Field, FieldNumber, WireType};

use super::edits::Edits;
use super::numbers::tagged;
use super::plan::{Plan, span};
use super::scalar::Key;
use super::scalar::Scalar;
use super::schema::{FieldShape, Form, MapShape, ShapeId, Value, find};
use super::{Canonical, MAX_DEPTH};

const KEY: FieldNumber = FieldNumber(1);
const VALUE: FieldNumber = FieldNumber(2);

#[derive(Default)]
struct EntryParts {
    key: Option<Field>,
    value: Vec<Field>,
}

impl Canonical<'_> {
    /// Returns a map entry's key, the plan for the entry's canonical content, and the bits of the
    /// entry's value. The bits are `None` if the value isn't a number, or is absent.
    pub(super) fn entry(
        &mut self,
        known: &FieldShape,
        map: MapShape,
        field: &Field,
        edits: &Edits<'_>,
        depth: u32,
    ) -> Result<(Key, Plan, Option<u64>)> {
        let depth = depth.saturating_sub(1);
        let parts = self.entry_parts(known, map, field.value.clone())?;
        let mut entry = Plan::default();
        let key = match (map.key, &parts.key) {
            (None, Some(at)) => {
                entry.put_field(KEY, &span(at), Some(at));
                Key::Text(self.cursor.bytes(at.value.clone())?.to_vec())
            }
            (None, None) => {
                entry.put_field(KEY, &Plan::default(), None);
                Key::Text(Vec::new())
            }
            (Some(scalar), Some(at)) => {
                let bits = scalar.normalize(self.number(at)?);
                self.put_number(scalar, bits, at, &mut entry)?;
                scalar.key(bits)
            }
            (Some(scalar), None) => {
                entry.put_bytes(&tagged(KEY, scalar, 0));
                scalar.key(0)
            }
        };
        let mut number = None;
        match (map.value, parts.value.last()) {
            (Value::Message(shape), last) => {
                let content = self.entry_message(shape, &parts, field, &key, edits, depth)?;
                let was = last.filter(|_| parts.value.len() == 1);
                entry.put_field(VALUE, &content, was);
            }
            (Value::Bytes | Value::Text, Some(at)) => entry.put_field(VALUE, &span(at), Some(at)),
            (Value::Bytes | Value::Text, None) => entry.put_field(VALUE, &Plan::default(), None),
            (Value::Scalar(scalar), Some(at)) => {
                let bits = scalar.normalize(self.number(at)?);
                self.put_number(scalar, bits, at, &mut entry)?;
                number = Some(bits);
            }
            (Value::Scalar(scalar), None) => entry.put_bytes(&tagged(VALUE, scalar, 0)),
        }
        Ok((key, entry, number))
    }

    fn entry_message(
        &mut self,
        shape: ShapeId,
        parts: &EntryParts,
        field: &Field,
        key: &Key,
        edits: &Edits<'_>,
        depth: u32,
    ) -> Result<Plan> {
        let none = Edits::none();
        let edits = match key {
            Key::Text(key) => edits.of_value(field.number.0, key).unwrap_or(&none),
            _ => &none,
        };
        let pieces: Vec<Range<u64>> = parts.value.iter().map(|at| at.value.clone()).collect();
        self.plan(shape, &pieces, edits, depth)
    }

    /// Returns the key of a map entry, and the plan for the canonical form of the entry's value;
    /// `None` if the field isn't a map with message values.
    pub(super) fn map_value(
        &mut self,
        shape: ShapeId,
        number: u32,
        entry: Range<u64>,
    ) -> Result<Option<(Key, Plan)>> {
        let fields = self.schema.shape(shape);
        let Some(known) = find(&fields, number) else {
            return Ok(None);
        };
        let Form::Map(map) = known.form else {
            return Ok(None);
        };
        let Value::Message(value) = map.value else {
            return Ok(None);
        };
        let parts = self.entry_parts(known, map, entry)?;
        let key = match (map.key, &parts.key) {
            (None, Some(at)) => Key::Text(self.cursor.bytes(at.value.clone())?.to_vec()),
            (None, None) => Key::Text(Vec::new()),
            (Some(scalar), Some(at)) => {
                let bits = self.number(at)?;
                scalar.key(scalar.normalize(bits))
            }
            (Some(scalar), None) => scalar.key(0),
        };
        let pieces: Vec<Range<u64>> = parts.value.iter().map(|at| at.value.clone()).collect();
        Ok(Some((
            key,
            self.plan(value, &pieces, &Edits::none(), MAX_DEPTH)?,
        )))
    }

    /// Finds the key and the value of a map entry. Drops unknown fields in the entry, as C++ does.
    fn entry_parts(
        &mut self,
        known: &FieldShape,
        map: MapShape,
        range: Range<u64>,
    ) -> Result<EntryParts> {
        let key_type = map.key.map_or(WireType::Len, Scalar::wire_type);
        let mut parts = EntryParts::default();
        self.cursor.set_range(range);
        while let Some(field) = self.cursor.next()? {
            if field.number == KEY && field.wire_type == key_type {
                if map.has_text_key {
                    self.check_text(known, &field)?;
                }
                parts.key = Some(field);
            } else if field.number == VALUE && field.wire_type == map.value.wire_type() {
                self.check_value(known, map.value, &field)?;
                parts.value.push(field);
            }
        }
        Ok(parts)
    }
}
