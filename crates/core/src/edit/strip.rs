//! Finding the content to strip: values of at least a given size, and the elements of tensors.

use std::collections::HashSet;
use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};
use record_file::ReadAt;

use super::splice::{Replacement, Splice, SpliceKind};
use crate::path::{FieldRef, value_message};
use crate::progress::Meter;
use crate::tensor::{TensorRule, leading};
use crate::wire::{Field, SourceInput, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// A search for the content to strip.
pub(super) struct Stripper<'a> {
    cursor: WireCursor<SourceInput<'a, dyn ReadAt + 'a>>,
    /// Minimum size of a value to strip, in bytes; `None` if values are not stripped by size.
    least: Option<u64>,
    rules: &'a [&'static TensorRule],
    /// Names of the types that contain tensors, directly or in nested messages.
    leads: HashSet<String>,
    meter: &'a Meter,
    pub(super) found: Vec<Splice>,
}

impl<'a> Stripper<'a> {
    pub(super) fn new(
        source: &'a dyn ReadAt,
        root: &MessageDescriptor,
        least: Option<u64>,
        rules: &'a [&'static TensorRule],
        meter: &'a Meter,
    ) -> Result<Self> {
        let size = source.size()?;
        Ok(Stripper {
            cursor: WireCursor::new(SourceInput::new(source, size)),
            least,
            rules,
            leads: leading(root, rules),
            meter,
            found: Vec::new(),
        })
    }

    /// Finds the content to strip in a message. Strings, bytes and packed numbers become empty but
    /// aren't removed, so that indices don't change and oneofs keep the members that are set. The
    /// fields that contain a tensor's elements are removed.
    pub(super) fn message(
        &mut self,
        range: Range<u64>,
        message: &MessageDescriptor,
        levels: u32,
    ) -> Result<()> {
        let levels = levels.checked_sub(1).ok_or_else(|| {
            let error = "messages nest too deeply to be searched";
            Error::new(ErrorKind::LimitExceeded, error)
        })?;
        let rule = self.rules.iter().find(|r| r.message == message.full_name());
        let elements: Vec<u32> = rule.map_or(Vec::new(), |rule| elements_of(rule));
        // The number and descriptor of the most recent field. The next field often has the same
        // number.
        let mut latest: Option<(u32, Option<FieldRef>)> = None;
        self.cursor.set_range(range.clone());
        while let Some(field) = self.cursor.next()? {
            self.meter.check()?;
            let number = field.number.0;
            if latest.as_ref().is_none_or(|(known, _)| *known != number) {
                latest = Some((number, FieldRef::by_number(message, number)));
            }
            let known = latest.as_ref().and_then(|(_, known)| known.as_ref());
            if elements.contains(&number) {
                let range = field.start..field.end;
                self.add(&field, range, Vec::new());
                continue;
            }
            // A map key stays, since it identifies the entry.
            if message.is_map_entry() && number == 1 {
                continue;
            }
            let is_message = known.is_some_and(|known| known.takes(field.wire_type));
            match known.map(FieldRef::kind) {
                Some(Kind::Message(below)) if is_message => {
                    if self.may_have_some(&field, &below) {
                        self.message(field.value, &below, levels)?;
                        self.cursor.set_range(field.end..range.end);
                    }
                }
                _ => self.value(&field),
            }
        }
        Ok(())
    }

    fn may_have_some(&self, field: &Field, below: &MessageDescriptor) -> bool {
        let size = field.value.end - field.value.start;
        self.least.is_some_and(|least| size >= least) || self.leads(below)
    }

    /// Returns true if messages of a type contain tensors. For map entries, checks the type of the
    /// values.
    fn leads(&self, message: &MessageDescriptor) -> bool {
        if message.is_map_entry() {
            return value_message(message)
                .is_some_and(|value| self.leads.contains(value.full_name()));
        }
        self.leads.contains(message.full_name())
    }

    fn value(&mut self, field: &Field) {
        let size = field.value.end - field.value.start;
        if field.wire_type == WireType::Len && self.least.is_some_and(|least| size >= least) {
            let range = field.tag_end..field.value.end;
            self.add(field, range, vec![Replacement::Bytes(vec![0])]);
        }
    }

    fn add(&mut self, field: &Field, range: Range<u64>, with: Vec<Replacement>) {
        self.found.push(Splice {
            kind: SpliceKind::Strip,
            at: field.start..field.end,
            range,
            with,
            run: None,
        });
    }
}

/// Returns the numbers of the fields that contain a tensor's elements.
fn elements_of(rule: &TensorRule) -> Vec<u32> {
    let mut fields: Vec<u32> = rule.elements.iter().map(|element| element.field).collect();
    fields.push(rule.content);
    fields.sort_unstable();
    fields.dedup();
    fields
}
