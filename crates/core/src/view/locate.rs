//! Looking up the value at a path in a message, skipping other fields.

use std::collections::HashMap;
use std::ops::Range;

use prost_reflect::MessageDescriptor;

use super::element_runs::{ElementRuns, RunCursor};
use super::packed::{Packed, broken};
use super::singular_field::SingularField;
use crate::path::key_codec;
use crate::path::{
    FieldPath, FieldRef, KeyForm, MapKey, Select, Step, is_key, message_below, value_kind, with_key,
};
use crate::wire::{Field, Input, WireCursor, WireType, each_field, tag, wire_type};
use crate::{Error, ErrorKind, Result};

/// Fails unless a path identifies a single value.
pub(super) fn check(path: &FieldPath, root: Option<&MessageDescriptor>) -> Result<()> {
    let Some(root) = root else {
        return Ok(());
    };
    let target = path.resolve(root)?;
    if !target.whole_field {
        return Ok(());
    }
    let message = "the path leads to a whole repeated field or map: add an index or key";
    Err(Error::new(ErrorKind::InvalidPath, message).at_path(path.display(Some(root))))
}

/// The location of a value: its ranges (several if parsers merge several occurrences of a message),
/// its wire type, and the packed field around it.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) pieces: Vec<Range<u64>>,
    /// Wire type of the last occurrence; `None` for the root message, which has no field.
    pub(super) wire: Option<WireType>,
    /// The packed field that contains the value; `None` unless the value is a packed number.
    pub(super) run: Option<Field>,
}

impl Found {
    fn add(&mut self, field: &Field) {
        self.pieces.push(field.value.clone());
        self.wire = Some(field.wire_type);
    }
}

/// Finds the value at a path; `None` if there is no value.
pub(super) fn locate<I: ElementRuns>(
    cursor: &mut WireCursor<I>,
    path: &FieldPath,
    root: Option<&MessageDescriptor>,
) -> Result<Option<Found>> {
    let all = cursor.position()..cursor.end();
    Way::new(path, root).follow(cursor, vec![all])
}

/// A path whose fields have been resolved, for looking up the path in many messages.
#[derive(Default)]
pub(super) struct Way {
    steps: Vec<WayStep>,
}

struct WayStep {
    step: Step,
    field: Option<FieldRef>,
    /// Wire type of the field; `None` if the field is unknown.
    wire: Option<WireType>,
    /// The members of the field's oneof, by number. A later value of another member clears the
    /// field.
    rivals: HashMap<u32, SingularField>,
    /// The field itself, if it is singular and its enum is closed.
    closed: Option<SingularField>,
    is_message: bool,
    is_last: bool,
    /// Encoding of the elements in a packed field; `None` unless they are numbers.
    packed: Option<Packed>,
}

impl Way {
    pub(super) fn new(path: &FieldPath, root: Option<&MessageDescriptor>) -> Way {
        let mut message = root.cloned();
        let mut steps = Vec::new();
        for (at, step) in path.steps().iter().enumerate() {
            let known = message.as_ref();
            let field = known.and_then(|message| FieldRef::by_number(message, step.field.0));
            let rivals = match field.as_ref().and_then(FieldRef::oneof) {
                Some(oneof) if !oneof.is_synthetic() => {
                    let members = oneof.fields();
                    let members = members.map(|member| {
                        let number = member.number();
                        (number, SingularField::of(&FieldRef::Field(member)))
                    });
                    members.collect()
                }
                _ => HashMap::new(),
            };
            message = field.as_ref().and_then(message_below);
            steps.push(WayStep {
                step: step.clone(),
                wire: field.as_ref().map(FieldRef::wire_type),
                packed: field.as_ref().and_then(Packed::of),
                closed: field.as_ref().and_then(SingularField::of_closed_enum),
                field,
                rivals,
                is_message: message.is_some(),
                is_last: at + 1 == path.steps().len(),
            });
        }
        Way { steps }
    }

    /// Returns true if the path is empty.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the wire type of the value at the path; `None` if the value's field is unknown.
    pub(super) fn wire(&self) -> Option<WireType> {
        self.steps.last()?.wire
    }

    /// Returns the location of the value at the path in a message whose bytes are at the ranges
    /// `pieces`; `None` if there is no value.
    pub(super) fn follow<I: ElementRuns>(
        &self,
        cursor: &mut WireCursor<I>,
        mut pieces: Vec<Range<u64>>,
    ) -> Result<Option<Found>> {
        let (mut written, mut run) = (None, None);
        for step in &self.steps {
            let found = step.follow(cursor, &pieces)?;
            let Some(wire) = found.wire else {
                return Ok(None);
            };
            (written, run) = (Some(wire), found.run);
            if !step.is_last && !matches!(wire, WireType::Len | WireType::StartGroup) {
                let message = "the path continues below a value that is not a message";
                return Err(Error::new(ErrorKind::InvalidPath, message));
            }
            pieces = found.pieces;
            // A message consists of all its occurrences. If any other value occurs several times,
            // only the last occurrence is used.
            if step.is_last && !step.is_message && pieces.len() > 1 {
                if step.field.is_none() {
                    let message = "there are several values, and only the message's type could tell whether they form one";
                    return Err(Error::new(ErrorKind::SchemaNeeded, message));
                }
                pieces.drain(..pieces.len() - 1);
            }
        }
        Ok(Some(Found {
            pieces,
            wire: written,
            run,
        }))
    }

    /// Locates the value at the path in a message in memory. Returns `Some(None)` if there is no
    /// value, and `None` if this can't be determined quickly.
    #[inline]
    pub(super) fn at_once(&self, bytes: &[u8]) -> Option<Option<Range<usize>>> {
        let mut place = 0..bytes.len();
        for step in &self.steps {
            let wire = step.wire.filter(|_| step.rivals.is_empty())?;
            if step.step.select != Select::Field {
                return None;
            }
            let wanted = tag(step.step.field, wire);
            let (mut found, mut pieces) = (None, 0);
            let message = bytes.get(place.clone())?;
            each_field(message, |tag, value| {
                if tag == wanted && step.takes(message, &value) {
                    (found, pieces) = (Some(value), pieces + 1);
                }
                true
            })?;
            let Some(value) = found else {
                return Some(None);
            };
            if pieces > 1 && step.is_message {
                return None;
            }
            place = place.start + value.start..place.start + value.end;
        }
        Some(Some(place))
    }
}

impl WayStep {
    /// Returns true if parsers take the value at a range of the message, which has the field's wire
    /// type, rather than treat it as an unknown field.
    #[inline]
    fn takes(&self, message: &[u8], value: &Range<usize>) -> bool {
        let Some(closed) = &self.closed else {
            return true;
        };
        message
            .get(value.clone())
            .is_none_or(|value| closed.takes(value))
    }

    fn follow<I: ElementRuns>(
        &self,
        cursor: &mut WireCursor<I>,
        pieces: &[Range<u64>],
    ) -> Result<Found> {
        let (step, field) = (&self.step, self.field.as_ref());
        let takes = |wire: WireType| match self.wire {
            Some(own) => wire == own || (self.packed.is_some() && wire == WireType::Len),
            None if self.is_last && !matches!(step.select, Select::Key(_)) => true,
            None => matches!(wire, WireType::Len | WireType::StartGroup),
        };
        let mut found = Found::default();
        let mut count = 0;
        for piece in pieces {
            cursor.set_range(piece.clone());
            let mut passing = match &step.select {
                Select::Index(_) if self.packed.is_none() => {
                    Some(RunCursor::new(cursor, step.field))
                }
                _ => None,
            };
            loop {
                if let (Some(passing), Select::Index(index)) = (&mut passing, &step.select) {
                    count += passing.pass(cursor, index - count);
                }
                let Some(met) = cursor.next()? else { break };
                if met.number != step.field {
                    // Another member of the field's oneof clears the value.
                    if let Some(rival) = self.rivals.get(&met.number.0)
                        && rival.is_set_by(cursor, &met)?
                    {
                        found = Found::default();
                    }
                    continue;
                }
                if !takes(met.wire_type) {
                    continue;
                }
                if let Some(closed) = &self.closed
                    && !closed.is_set_by(cursor, &met)?
                {
                    continue;
                }
                match &step.select {
                    Select::Field => found.add(&met),
                    Select::Index(index)
                        if let Some(packed) = self.packed
                            && met.wire_type == WireType::Len =>
                    {
                        let mut run = met.value.clone();
                        count += packed.skip(cursor, &mut run, index - count)?;
                        if run.is_empty() {
                            cursor.set_range(met.end..piece.end);
                            continue;
                        }
                        let number = packed.first(cursor, &run)?;
                        found.pieces.push(number.ok_or_else(|| broken(&run))?);
                        (found.wire, found.run) = (self.wire, Some(met));
                        return Ok(found);
                    }
                    Select::Index(index) if *index == count => {
                        found.add(&met);
                        return Ok(found);
                    }
                    Select::Index(_) => count += 1,
                    Select::Key(key) => {
                        if let Some(value) = value_of(cursor, &met, key, field)? {
                            found = value;
                        }
                        cursor.set_range(met.end..piece.end);
                    }
                }
            }
        }
        Ok(found)
    }
}

/// Returns the location of the value in a map entry; `None` if the entry has another key.
fn value_of<I: Input>(
    cursor: &mut WireCursor<I>,
    entry: &Field,
    key: &MapKey,
    map: Option<&FieldRef>,
) -> Result<Option<Found>> {
    let codec = map.and_then(key_codec);
    let form = codec.map_or_else(|| KeyForm::plain(key), KeyForm::Typed);
    match with_key(cursor, entry, form, |found| is_key(key, form, found)) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        // If the type is unknown, the field may contain text instead of a map entry.
        Err(error) if map.is_none() && error.kind() == ErrorKind::InvalidMessage => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    }
    let kind = map.and_then(value_kind);
    let wire = kind.map(|kind| wire_type(&kind, false));
    entry_value(cursor, entry, wire).map(Some)
}

/// Returns the location of all values in a map entry. `wire` is the wire type of a value, if it is
/// known.
pub(super) fn entry_value<I: Input>(
    cursor: &mut WireCursor<I>,
    entry: &Field,
    wire: Option<WireType>,
) -> Result<Found> {
    let mut found = Found::default();
    cursor.set_range(entry.value.clone());
    while let Some(met) = cursor.next()? {
        if met.number.0 == 2 && wire.is_none_or(|wire| met.wire_type == wire) {
            found.add(&met);
        }
    }
    Ok(found)
}
