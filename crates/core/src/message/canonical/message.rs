//! Parsing a message and planning its canonical form.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::wire::{Field, FieldNumber, WireType};
use crate::{Error, ErrorKind, Result};

use super::edits::Edits;
use super::numbers::{Encoded, tagged};
use super::plan::{Kept, Plan, span};
use super::scalar::Key;
use super::scalar::Scalar;
use super::schema::{FieldShape, Form, ShapeId, Value, find};
use super::{Canonical, MAX_DEPTH};

/// The occurrences of one field seen so far.
enum Bucket {
    /// The last value of a singular numeric field: its encoding, its bits, and its field in the
    /// source.
    Number(Scalar, u64, Field),
    /// The last value of a bytes or string field.
    Bytes(Field),
    Message {
        shape: ShapeId,
        pieces: Vec<Range<u64>>,
        /// The message's first piece in the source.
        first: Field,
        /// The plan for the message; `None` if it has to be planned when all pieces are known.
        content: Option<Plan>,
    },
    /// Elements of an unpacked repeated field, each with its tag.
    List(Plan),
    /// Content of a packed run, and the field in the source if all numbers are from one packed
    /// field.
    Packed(Plan, Option<Field>),
    /// Map entries, each with its tag.
    Map(BTreeMap<Key, Kept>),
}

/// The fields of a message, collected while it is read: the known fields by number, and a plan for
/// the unknown fields.
#[derive(Default)]
struct Buckets {
    known: BTreeMap<u32, Bucket>,
    /// Number of the last member of each oneof, by the oneof's index.
    chosen: BTreeMap<i32, u32>,
    unknown: Plan,
}

impl Buckets {
    /// Returns the bucket of a field. If the field has no bucket yet, creates one with `nothing`.
    fn of(&mut self, number: u32, nothing: impl FnOnce() -> Bucket) -> &mut Bucket {
        self.known.entry(number).or_insert_with(nothing)
    }
}

impl Canonical<'_> {
    pub(super) fn plan(
        &mut self,
        shape: ShapeId,
        pieces: &[Range<u64>],
        edits: &Edits<'_>,
        depth: u32,
    ) -> Result<Plan> {
        if let Some(content) = edits.whole() {
            return Ok(Plan::of_bytes(content));
        }
        let Some(depth) = depth.checked_sub(1) else {
            let message = format!("messages nest deeper than {MAX_DEPTH}");
            let error = Error::new(ErrorKind::LimitExceeded, message);
            return Err(error.at_offset(pieces.first().map_or(0, |piece| piece.start)));
        };
        let fields = self.schema.shape(shape);
        let mut buckets = Buckets::default();
        for piece in pieces {
            self.cursor.set_range(piece.clone());
            while let Some(field) = self.cursor.next()? {
                match find(&fields, field.number.0) {
                    Some(known) if accepts(known.form, field.wire_type) => {
                        self.known(known, &field, &mut buckets, edits, depth)?;
                    }
                    _ => self.unknown(&field, &mut buckets.unknown, depth)?,
                }
                self.cursor.set_range(field.end..piece.end);
            }
        }
        for (number, content) in edits.given() {
            buckets
                .known
                .insert(number, Bucket::List(given(number, content)));
        }
        let mut plan = Plan::default();
        for (number, bucket) in buckets.known {
            let known = find(&fields, number);
            self.finish(number, known, bucket, edits, depth, &mut plan)?;
        }
        plan.append(&buckets.unknown);
        Ok(plan)
    }

    fn known(
        &mut self,
        known: &FieldShape,
        field: &Field,
        buckets: &mut Buckets,
        edits: &Edits<'_>,
        depth: u32,
    ) -> Result<()> {
        // A number that a closed enum doesn't declare replaces neither an earlier value nor another
        // member of the oneof.
        if known.has_closed_enum() && field.wire_type == WireType::Varint {
            let bits = Scalar::Int32.normalize(self.number(field)?);
            if !known.is_declared(bits) {
                return self.put_number(Scalar::Int32, bits, field, &mut buckets.unknown);
            }
        }
        let number = known.number;
        if let Some(oneof) = known.oneof
            && let Some(before) = buckets.chosen.insert(oneof, number)
            && before != number
        {
            buckets.known.remove(&before);
        }
        match known.form {
            Form::Singular(Value::Scalar(scalar)) => {
                let bits = scalar.normalize(self.number(field)?);
                let bucket = Bucket::Number(scalar, bits, field.clone());
                buckets.known.insert(number, bucket);
            }
            Form::Singular(value @ (Value::Bytes | Value::Text)) => {
                self.check_value(known, value, field)?;
                buckets.known.insert(number, Bucket::Bytes(field.clone()));
            }
            Form::Singular(Value::Message(shape)) => {
                self.piece(shape, field, buckets, edits, depth)?;
            }
            Form::Repeated(value) => self.values(known, value, field, buckets, edits, depth)?,
            Form::Group {
                shape,
                repeated: false,
            } => self.piece(shape, field, buckets, edits, depth)?,
            Form::Group { shape, .. } => {
                let pieces = std::slice::from_ref(&field.value);
                let content = self.plan(shape, pieces, &Edits::none(), depth)?;
                let Bucket::List(list) = buckets.of(number, || Bucket::List(Plan::default()))
                else {
                    return Err(contradiction(field));
                };
                list.put_group(&content, field);
            }
            Form::Packed(scalar) => {
                let unknown = &mut buckets.unknown;
                let nothing = || Bucket::Packed(Plan::default(), None);
                let bucket = buckets.known.entry(number).or_insert_with(nothing);
                let Bucket::Packed(run, was) = bucket else {
                    return Err(contradiction(field));
                };
                let is_first = run.is_empty() && field.wire_type == WireType::Len;
                *was = is_first.then(|| field.clone());
                self.run(scalar, field, |source, bits| match source {
                    _ if !known.is_declared(bits) => {
                        unknown.put_bytes(&tagged(field.number, scalar, bits));
                    }
                    Some(source) => run.put_source(source),
                    None => run.put_bytes(&Encoded::new(scalar, bits)),
                })?;
            }
            Form::Map(map) => {
                let (key, entry, value) = self.entry(known, map, field, edits, depth)?;
                let mut plan = Plan::default();
                plan.put_field(field.number, &entry, Some(field));
                if value.is_some_and(|value| !known.is_declared(value)) {
                    buckets.unknown.append(&plan);
                    return Ok(());
                }
                let Bucket::Map(entries) = buckets.of(number, || Bucket::Map(BTreeMap::new()))
                else {
                    return Err(contradiction(field));
                };
                entries.insert(key, plan.into());
            }
        }
        Ok(())
    }

    /// Fails if parsers refuse a value because it isn't UTF-8. Extensions are unknown fields here,
    /// and aren't checked.
    pub(super) fn check_value(
        &mut self,
        known: &FieldShape,
        value: Value,
        field: &Field,
    ) -> Result<()> {
        match value {
            Value::Text => self.check_text(known, field),
            _ => Ok(()),
        }
    }

    /// Fails if a string of a known field isn't UTF-8.
    pub(super) fn check_text(&mut self, known: &FieldShape, field: &Field) -> Result<()> {
        match self.cursor.first_not_utf8(field.value.clone())? {
            None => Ok(()),
            Some(at) => {
                let message = format!("a string of the field {} is not UTF-8", known.name);
                Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(at))
            }
        }
    }

    /// Adds a piece of a singular message.
    fn piece(
        &mut self,
        shape: ShapeId,
        field: &Field,
        buckets: &mut Buckets,
        edits: &Edits<'_>,
        depth: u32,
    ) -> Result<()> {
        let number = field.number.0;
        let nothing = || Bucket::Message {
            shape,
            pieces: Vec::new(),
            first: field.clone(),
            content: None,
        };
        let Bucket::Message {
            pieces, content, ..
        } = buckets.of(number, nothing)
        else {
            return Err(contradiction(field));
        };
        pieces.push(field.value.clone());
        *content = if pieces.len() == 1 && !self.defers {
            // Plans the first piece now, while the source is positioned here.
            let none = Edits::none();
            let edits = edits.of_field(number).unwrap_or(&none);
            Some(self.plan(shape, &pieces[..], edits, depth)?)
        } else {
            None
        };
        Ok(())
    }

    /// Adds a value of a repeated field, or several packed numbers.
    fn values(
        &mut self,
        known: &FieldShape,
        value: Value,
        field: &Field,
        buckets: &mut Buckets,
        edits: &Edits<'_>,
        depth: u32,
    ) -> Result<()> {
        let number = field.number.0;
        let content = match value {
            Value::Message(shape) => {
                let found = match edits.of_elements(number) {
                    Some(of_element) => of_element(self, field.value.clone())?,
                    None => None,
                };
                let edits = found.unwrap_or_default();
                Some(self.plan(shape, std::slice::from_ref(&field.value), &edits, depth)?)
            }
            Value::Bytes => Some(span(field)),
            Value::Text => {
                self.check_text(known, field)?;
                Some(span(field))
            }
            Value::Scalar(_) => None,
        };
        let unknown = &mut buckets.unknown;
        let nothing = || Bucket::List(Plan::default());
        let bucket = buckets.known.entry(number).or_insert_with(nothing);
        let Bucket::List(list) = bucket else {
            return Err(contradiction(field));
        };
        match (content, value) {
            (Some(content), _) => list.put_field(field.number, &content, Some(field)),
            (None, Value::Scalar(scalar)) => self.elements(known, scalar, field, list, unknown)?,
            (None, _) => {}
        }
        Ok(())
    }

    /// Adds the content of a field's bucket to `plan`. `known` is the field's shape, or `None` if
    /// the field comes only from the edits.
    fn finish(
        &mut self,
        number: u32,
        known: Option<&FieldShape>,
        bucket: Bucket,
        edits: &Edits<'_>,
        depth: u32,
        plan: &mut Plan,
    ) -> Result<()> {
        let presence = known.is_none_or(|known| known.presence);
        match bucket {
            Bucket::Number(_, 0, _) if !presence => {}
            Bucket::Number(scalar, bits, field) => self.put_number(scalar, bits, &field, plan)?,
            Bucket::Bytes(field) if field.value.is_empty() && !presence => {}
            Bucket::Bytes(field) => plan.put_field(field.number, &span(&field), Some(&field)),
            Bucket::Message {
                shape,
                pieces,
                first,
                content,
            } => {
                let content = match content {
                    Some(content) => content,
                    None => {
                        let none = Edits::none();
                        let edits = edits.of_field(number).unwrap_or(&none);
                        let defers = std::mem::replace(&mut self.defers, true);
                        let planned = self.plan(shape, &pieces, edits, depth);
                        self.defers = defers;
                        planned?
                    }
                };
                if first.wire_type == WireType::StartGroup {
                    plan.put_group(&content, &first);
                } else {
                    let was = (pieces.len() == 1).then_some(&first);
                    plan.put_field(first.number, &content, was);
                }
            }
            Bucket::List(list) => plan.append(&list),
            Bucket::Packed(run, _) if run.is_empty() => {}
            Bucket::Packed(run, was) => plan.put_field(FieldNumber(number), &run, was.as_ref()),
            Bucket::Map(entries) => entries.values().for_each(|entry| plan.append_kept(entry)),
        }
        Ok(())
    }

    /// Adds an unknown field. Its tags, lengths and varints get their shortest encodings; the bytes
    /// of length-delimited values are unchanged.
    fn unknown(&mut self, field: &Field, plan: &mut Plan, depth: u32) -> Result<()> {
        match field.wire_type {
            WireType::Len => plan.put_field(field.number, &span(field), Some(field)),
            WireType::Varint => {
                let bits = self.number(field)?;
                self.put_number(Scalar::Uint64, bits, field, plan)?;
            }
            WireType::Fixed32 | WireType::Fixed64 => {
                let bits = self.number(field)?;
                let scalar = match field.wire_type {
                    WireType::Fixed32 => Scalar::Fixed32 { signed: false },
                    _ => Scalar::Fixed64 { signed: false },
                };
                self.put_number(scalar, bits, field, plan)?;
            }
            WireType::StartGroup => {
                let Some(depth) = depth.checked_sub(1) else {
                    let message = format!("groups nest deeper than {MAX_DEPTH}");
                    return Err(
                        Error::new(ErrorKind::LimitExceeded, message).at_offset(field.start)
                    );
                };
                plan.put_tag(
                    field.number,
                    WireType::StartGroup,
                    field.start..field.tag_end,
                );
                self.cursor.set_range(field.value.clone());
                while let Some(inner) = self.cursor.next()? {
                    self.unknown(&inner, plan, depth)?;
                    self.cursor.set_range(inner.end..field.value.end);
                }
                plan.put_tag(field.number, WireType::EndGroup, field.value.end..field.end);
            }
            // The cursor never returns the end of a group.
            WireType::EndGroup => {}
        }
        Ok(())
    }
}

fn accepts(form: Form, wire_type: WireType) -> bool {
    match form {
        Form::Singular(value) => value.wire_type() == wire_type,
        Form::Map(_) => wire_type == WireType::Len,
        Form::Group { .. } => wire_type == WireType::StartGroup,
        // Parsers accept repeated numbers packed or unpacked.
        Form::Repeated(value) => wire_type == value.wire_type() || wire_type == WireType::Len,
        Form::Packed(scalar) => wire_type == scalar.wire_type() || wire_type == WireType::Len,
    }
}

fn given(number: u32, content: &[u8]) -> Plan {
    let mut plan = Plan::default();
    plan.put_field(FieldNumber(number), &Plan::of_bytes(content), None);
    plan
}

#[cold]
fn contradiction(field: &Field) -> Error {
    let message = "the field has two forms";
    Error::new(ErrorKind::InvalidMessage, message).at_offset(field.start)
}
