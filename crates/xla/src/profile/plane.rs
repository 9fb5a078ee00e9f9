//! The planes of a profile, and the lines of a plane.

use std::collections::HashMap;
use std::ops::Range;

use proto_splitter_core::Result;
use proto_splitter_core::spans::{SourceId, SpanList};
use proto_splitter_core::wire::WireType;

use super::events::Events;
use super::fields::{ProfileReader, put_number};
use super::metadata::Known;
use crate::write::field;

/// A plane of a profile, as spans of the profile's records.
#[derive(Default)]
pub(super) struct Plane {
    pub(super) name: Vec<u8>,
    /// Fields with the plane's id and name.
    pub(super) head: SpanList,
    pub(super) lines: Vec<Line>,
    /// Map from an id to the index in `lines` of the last line with this id.
    pub(super) by_id: HashMap<i64, usize>,
    /// Fields with the plane's metadata and stats.
    pub(super) rest: SpanList,
    /// All fields of the plane, as stored in a single record.
    pub(super) as_it_is: SpanList,
    /// Names of the plane's metadata; `None` until another plane is merged into this one.
    pub(super) known: Option<Known>,
    /// True if another plane was merged into this one.
    pub(super) is_joined: bool,
}

/// A line of a plane, as spans of the profile's records.
#[derive(Default)]
pub(super) struct Line {
    pub(super) id: i64,
    timestamp: i64,
    /// Fields of the line whose numbers are lower than that of its start time.
    head: SpanList,
    /// Field with the line's start time, as stored in the record.
    stamp: SpanList,
    pub(super) events: Vec<Events>,
    /// Number of nanoseconds by which all events are delayed, in addition to their own delays. Thus,
    /// joining a line that started earlier doesn't change the events that are there already.
    pub(super) shift: i64,
    duration: i64,
    has_duration: bool,
    /// Fields of the line whose numbers are higher than that of its events, except for the
    /// duration.
    rest: SpanList,
}

impl Plane {
    /// Reads the plane in a range of the profile's records.
    pub(super) fn read(reader: &mut ProfileReader<'_>, range: Range<u64>) -> Result<Plane> {
        let mut plane = Plane::default();
        plane.as_it_is.push_span(reader.source(), range.clone());
        let mut at = range.start;
        while let Some(field) = reader.next_field(at..range.end)? {
            at = field.end;
            let all = field.start..field.end;
            match (field.number.0, field.wire_type) {
                (2, WireType::Len) => {
                    plane.name = reader.bytes(field.value)?;
                    plane.head.push_span(reader.source(), all);
                }
                (1 | 2, _) => plane.head.push_span(reader.source(), all),
                (3, WireType::Len) => {
                    let line = Line::read(reader, field.value)?;
                    plane.add(line);
                }
                _ => plane.rest.push_span(reader.source(), all),
            }
        }
        Ok(plane)
    }

    pub(super) fn add(&mut self, line: Line) {
        self.by_id.insert(line.id, self.lines.len());
        self.lines.push(line);
    }

    /// Returns true if no two lines have the same id.
    pub(super) fn has_unique_lines(&self) -> bool {
        self.by_id.len() == self.lines.len()
    }

    /// Returns the fields of the plane in canonical order: its id and name, its lines, and the
    /// remaining fields. Must not be called if another plane was merged into this one.
    pub(super) fn whole(&self, source: SourceId) -> SpanList {
        let mut inside = self.head.clone();
        for line in &self.lines {
            let mut events = SpanList::default();
            for run in line.runs() {
                events.push_span(source, run.clone());
            }
            field(&mut inside, 3, &line.with(&events));
        }
        inside.append(&self.rest);
        inside
    }
}

impl Line {
    fn read(reader: &mut ProfileReader<'_>, range: Range<u64>) -> Result<Line> {
        let (mut line, mut events) = (Line::default(), Events::default());
        let mut at = range.start;
        while let Some(field) = reader.next_field(at..range.end)? {
            at = field.end;
            let all = field.start..field.end;
            let part = match (field.number.0, field.wire_type) {
                (4, WireType::Len) => {
                    events.push(all);
                    continue;
                }
                (1, WireType::Varint) => {
                    line.id = reader.number(field.value)?;
                    &mut line.head
                }
                (3, WireType::Varint) => {
                    line.timestamp = reader.number(field.value)?;
                    &mut line.stamp
                }
                (9, WireType::Varint) => {
                    line.duration = reader.number(field.value)?;
                    line.has_duration = true;
                    continue;
                }
                (0..4, _) => &mut line.head,
                _ => &mut line.rest,
            };
            part.push_span(reader.source(), all);
        }
        line.events.push(events);
        Ok(line)
    }

    /// Merges another line with the same id into this one, by appending its events. Keeps the
    /// earlier of the start times. The events of the line that started later are delayed by the
    /// difference.
    pub(super) fn join(&mut self, mut from: Line) {
        let later = from.timestamp.wrapping_sub(self.timestamp);
        let mut by = from.shift;
        if from.timestamp < self.timestamp {
            self.timestamp = from.timestamp;
            self.stamp = SpanList::default();
            put_number(&mut self.stamp, 3, from.timestamp);
            self.shift = self.shift.wrapping_sub(later);
        } else {
            by = by.wrapping_add(later);
        }
        by = by.wrapping_sub(self.shift);
        from.events.iter_mut().for_each(|events| events.delay(by));
        self.events.append(&mut from.events);
        self.has_duration |= from.has_duration;
        self.duration = self.duration.max(from.duration);
    }

    /// Returns the ranges of the line's runs of consecutive events.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Range<u64>> {
        self.events.iter().flat_map(|events| &events.runs)
    }

    /// Returns the fields of the line, with `events` in place of its own events.
    pub(super) fn with(&self, events: &SpanList) -> SpanList {
        let mut list = self.head.clone();
        list.append(&self.stamp);
        list.append(events);
        if self.has_duration {
            put_number(&mut list, 9, self.duration);
        }
        list.append(&self.rest);
        list
    }
}
