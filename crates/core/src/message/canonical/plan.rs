//! Plans for canonical forms: runs of source bytes and of literal bytes.

use std::ops::Range;

use crate::spans::{SourceId, SpanList};
use crate::wire::{Field, FieldNumber, WireType, put_varint, tag, varint_len};

/// The planned encoding of a message or a part of one: spans of the source, and literal bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan(SpanList);

impl Plan {
    /// Returns a plan that consists of only these bytes.
    pub fn of_bytes(bytes: &[u8]) -> Plan {
        let mut plan = Plan::default();
        plan.put_bytes(bytes);
        plan
    }

    /// Returns the planned length in bytes.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns true if the plan has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the plan's spans.
    pub fn spans(&self) -> &SpanList {
        &self.0
    }

    /// Adds bytes from the source, merging them with the preceding span if the two are contiguous.
    pub fn put_source(&mut self, range: Range<u64>) {
        self.0.push_span(SourceId::FIRST, range);
    }

    /// Adds literal bytes.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.0.push_literal(bytes);
    }

    /// Adds a tag. Reuses the tag's bytes in the source, which are at `was`, if they are the
    /// shortest encoding.
    pub fn put_tag(&mut self, number: FieldNumber, wire_type: WireType, was: Range<u64>) {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, tag(number, wire_type));
        if was.end - was.start == bytes.len() as u64 {
            self.put_source(was);
        } else {
            self.put_bytes(&bytes);
        }
    }

    /// Appends another plan.
    pub fn append(&mut self, other: &Plan) {
        self.0.append(&other.0);
    }

    /// Adds a group. `was` is an occurrence of the group in the source, whose tags are reused if
    /// they are canonical.
    pub fn put_group(&mut self, content: &Plan, was: &Field) {
        self.put_tag(was.number, WireType::StartGroup, was.start..was.tag_end);
        self.append(content);
        self.put_tag(was.number, WireType::EndGroup, was.value.end..was.end);
    }

    /// Adds a length-delimited field. `was` is the field in the source, if it occurs there; the tag
    /// and length from the source are reused if they are canonical.
    pub fn put_field(&mut self, number: FieldNumber, content: &Plan, was: Option<&Field>) {
        match was {
            Some(field) if has_header(field, content.len()) => {
                self.put_source(field.start..field.value.start);
            }
            _ => {
                let mut header = Vec::with_capacity(16);
                put_varint(&mut header, tag(number, WireType::Len));
                put_varint(&mut header, content.len());
                self.put_bytes(&header);
            }
        }
        self.append(content);
    }
}

/// Returns true if the field has the shortest encodings of its tag and of the length `len`.
fn has_header(field: &Field, len: u64) -> bool {
    let tag_len = varint_len(tag(field.number, WireType::Len)) as u64;
    field.wire_type == WireType::Len
        && field.value.end - field.value.start == len
        && field.tag_end - field.start == tag_len
        && field.value.start - field.tag_end == varint_len(len) as u64
}

/// Returns a plan that copies the value of a length-delimited field unchanged.
pub(super) fn span(field: &Field) -> Plan {
    let mut plan = Plan::default();
    plan.put_source(field.value.clone());
    plan
}

/// A compact form of a plan, for storing many plans, most of which consist of one span.
#[derive(Debug)]
pub enum Kept {
    Span(Range<u64>),
    Plan(Box<Plan>),
}

impl From<Plan> for Kept {
    fn from(plan: Plan) -> Kept {
        let mut spans = plan.0.iter();
        match (spans.next().and_then(|span| span.stored()), spans.len()) {
            (Some((_, range)), 0) => Kept::Span(range),
            _ => {
                drop(spans);
                Kept::Plan(Box::new(plan))
            }
        }
    }
}

impl Plan {
    /// Appends a plan that is stored in compact form.
    pub fn append_kept(&mut self, kept: &Kept) {
        match kept {
            Kept::Span(range) => self.put_source(range.clone()),
            Kept::Plan(plan) => self.append(plan),
        }
    }
}
