//! The records of a profile, merged as XProf merges them, where they are.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use proto_splitter_core::formats::OpenOptions;
use proto_splitter_core::spans::{SourceId, SpanList, SpanSource, SpansBuilder};
use proto_splitter_core::wire::{
    Field, FieldNumber, SourceInput, WireCursor, WireType, decode_varint, tag,
};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use super::renumber::{Events, Known, Rewritten, merge_metadata, put_number};
use crate::records::Records;

/// The most bytes of a name.
const MAX_NAME: u64 = 1 << 20;

/// The most records that a profile may have.
const MAX_RECORDS: u64 = 1 << 24;

/// The message that the records of a profile make.
pub(super) fn message(source: Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Arc<dyn ReadAt>> {
    let mut records = Records::new(source)?;
    let found = records.find(u64::MAX)?;
    if found.records > MAX_RECORDS {
        let message = format!("a profile of {} records", found.records);
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    let records = Arc::new(records);
    let size = records.size()?;
    let meter = options.progress.meter(size);
    let mut space = Space::new(&*records)?;
    for number in 0..found.records {
        let range = records.range(number..number + 1)?;
        let merged = if number == 0 {
            space.first(range.clone())
        } else {
            space.merge(range.clone())
        };
        merged.map_err(|error| error.context(format!("record {number}")))?;
        meter.advance(range.end - range.start)?;
    }
    let (list, rewritten) = space.finish()?;
    let mut builder = SpansBuilder::new();
    let mut sources = vec![builder.reader("records", records)?];
    if let Some(rewritten) = rewritten {
        sources.push(builder.reader("events that were changed", rewritten)?);
    }
    for span in list.iter() {
        match span.source {
            SpanSource::Literal(bytes) => builder.literal(bytes)?,
            SpanSource::Stored(source, at) => {
                let source = sources.get(source.index()).copied().unwrap_or(source);
                builder.span(source, at..at + span.len)?;
            }
        }
    }
    Ok(Arc::new(builder.finish()?))
}

/// A profile that is put together.
pub(super) struct Space<'a> {
    reader: &'a dyn ReadAt,
    cursor: WireCursor<SourceInput<'a, dyn ReadAt + 'a>>,
    source: SourceId,
    planes: Vec<Plane>,
    /// The last plane of each name.
    by_name: HashMap<Vec<u8>, usize>,
    rest: SpanList,
    /// Errors, warnings and names of hosts that are there, by their fields.
    texts: HashSet<(u32, Vec<u8>)>,
}

#[derive(Default)]
pub(super) struct Plane {
    pub(super) name: Vec<u8>,
    /// Its id and name.
    pub(super) head: SpanList,
    pub(super) lines: Vec<Line>,
    /// The last line of each id.
    by_id: HashMap<i64, usize>,
    /// Metadata and stats.
    pub(super) rest: SpanList,
    /// All of it, as it stands in its record.
    pub(super) as_it_is: SpanList,
    /// What its metadata is called, once metadata was merged into it.
    pub(super) known: Option<Known>,
    /// Whether another was merged into it.
    is_joined: bool,
}

#[derive(Default)]
pub(super) struct Line {
    id: i64,
    timestamp: i64,
    /// What comes before the time at which it begins.
    head: SpanList,
    /// That time, as it stands in its record.
    stamp: SpanList,
    pub(super) events: Vec<Events>,
    duration: i64,
    has_duration: bool,
    /// What comes behind the events.
    rest: SpanList,
}

impl<'a> Space<'a> {
    /// An empty profile of parts of `reader`.
    pub(super) fn new(reader: &'a dyn ReadAt) -> Result<Space<'a>> {
        let size = reader.size()?;
        Ok(Space {
            reader,
            cursor: WireCursor::new(SourceInput::new(reader, size)),
            source: SourceId::FIRST,
            planes: Vec::new(),
            by_name: HashMap::new(),
            rest: SpanList::default(),
            texts: HashSet::new(),
        })
    }

    /// What the spans are of.
    pub(super) const fn source(&self) -> SourceId {
        self.source
    }

    pub(super) const fn reader(&self) -> &'a dyn ReadAt {
        self.reader
    }

    /// Takes the first record as it is.
    fn first(&mut self, range: Range<u64>) -> Result<()> {
        for field in self.fields(range)? {
            if is(&field, 1) {
                let plane = self.plane(field.value)?;
                self.add(plane);
                continue;
            }
            if is_text(&field) {
                let text = self.bytes(field.value.clone())?;
                self.texts.insert((field.number.0, text));
            }
            self.push_rest(&field);
        }
        Ok(())
    }

    /// Merges a further record in.
    fn merge(&mut self, range: Range<u64>) -> Result<()> {
        let mut planes = Vec::new();
        for field in self.fields(range)? {
            if is(&field, 1) {
                planes.push(field.value);
            } else if is_text(&field) {
                let text = self.bytes(field.value.clone())?;
                if self.texts.insert((field.number.0, text)) {
                    self.push_rest(&field);
                }
            }
            // What else a profile has, XProf leaves out of all records but the first.
        }
        // The last comes first; planes of one record are not merged into each other.
        let mut added = Vec::new();
        for range in planes.into_iter().rev() {
            let plane = self.plane(range)?;
            match self.by_name.get(&plane.name).copied() {
                Some(index) => self.join(index, plane)?,
                None => added.push(plane),
            }
        }
        for plane in added {
            self.add(plane);
        }
        Ok(())
    }

    /// Merges a plane into the one that is called the same.
    fn join(&mut self, index: usize, from: Plane) -> Result<()> {
        let Some(there) = self.planes.get_mut(index) else {
            return Ok(());
        };
        let mut to = std::mem::take(there);
        to.is_joined = true;
        let numbers = merge_metadata(self, &from, &mut to);
        if let Ok(numbers) = &numbers {
            let mut added = Vec::new();
            for mut line in from.lines.into_iter().rev() {
                for events in &mut line.events {
                    events.renumber(numbers.as_ref());
                }
                let known = to.by_id.get(&line.id).copied();
                match known.and_then(|known| to.lines.get_mut(known)) {
                    Some(known) => known.join(line),
                    None => added.push(line),
                }
            }
            for line in added {
                to.add(line);
            }
        }
        if let Some(there) = self.planes.get_mut(index) {
            *there = to;
        }
        numbers.map(|_| ())
    }

    fn add(&mut self, plane: Plane) {
        self.by_name.insert(plane.name.clone(), self.planes.len());
        self.planes.push(plane);
    }

    fn push_rest(&mut self, field: &Field) {
        self.rest.push_span(self.source, field.start..field.end);
    }

    /// A plane of these bytes.
    pub(super) fn plane(&mut self, range: Range<u64>) -> Result<Plane> {
        let mut plane = Plane::default();
        plane.as_it_is.push_span(self.source, range.clone());
        let mut at = range.start;
        while let Some(field) = self.next_field(at..range.end)? {
            at = field.end;
            let all = field.start..field.end;
            match (field.number.0, field.wire_type) {
                (2, WireType::Len) => {
                    plane.name = self.bytes(field.value)?;
                    plane.head.push_span(self.source, all);
                }
                (1 | 2, _) => plane.head.push_span(self.source, all),
                (3, WireType::Len) => {
                    let line = self.line(field.value)?;
                    plane.add(line);
                }
                _ => plane.rest.push_span(self.source, all),
            }
        }
        Ok(plane)
    }

    fn line(&mut self, range: Range<u64>) -> Result<Line> {
        let (mut line, mut events) = (Line::default(), Events::default());
        self.cursor.set_range(range.clone());
        while let Some(field) = self.cursor.next()? {
            let all = field.start..field.end;
            let part = match (field.number.0, field.wire_type) {
                (4, WireType::Len) => {
                    events.push(all);
                    continue;
                }
                (1, WireType::Varint) => {
                    line.id = self.number(field.value)?;
                    &mut line.head
                }
                (3, WireType::Varint) => {
                    line.timestamp = self.number(field.value)?;
                    &mut line.stamp
                }
                (9, WireType::Varint) => {
                    line.duration = self.number(field.value)?;
                    line.has_duration = true;
                    self.cursor.set_range(field.end..range.end);
                    continue;
                }
                (0..4, _) => &mut line.head,
                _ => &mut line.rest,
            };
            part.push_span(self.source, all);
            self.cursor.set_range(field.end..range.end);
        }
        line.events.push(events);
        Ok(line)
    }

    pub(super) fn fields(&mut self, range: Range<u64>) -> Result<Vec<Field>> {
        self.cursor.set_range(range);
        let mut fields = Vec::new();
        while let Some(field) = self.cursor.next()? {
            fields.push(field);
        }
        Ok(fields)
    }

    /// The first field of a range.
    pub(super) fn next_field(&mut self, range: Range<u64>) -> Result<Option<Field>> {
        self.cursor.set_range(range);
        self.cursor.next()
    }

    pub(super) fn bytes(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        if range.end - range.start > MAX_NAME {
            let message = format!("{} bytes of a name", range.end - range.start);
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        Ok(self.cursor.bytes(range)?.to_vec())
    }

    pub(super) fn number(&mut self, range: Range<u64>) -> Result<i64> {
        let number = decode_varint(self.cursor.bytes(range)?);
        Ok(number.map_or(0, |(number, _)| number.cast_signed()))
    }

    /// The whole profile, fields by number, and the events in it that were changed.
    fn finish(mut self) -> Result<(SpanList, Option<Arc<dyn ReadAt>>)> {
        let mut rewritten = Rewritten::new(SourceId::new(1)?);
        let mut list = SpanList::default();
        for plane in std::mem::take(&mut self.planes) {
            if plane.is_joined {
                let mut inside = plane.head.clone();
                for line in &plane.lines {
                    let mut events = SpanList::default();
                    for part in &line.events {
                        rewritten.add(&mut self, part, &mut events)?;
                    }
                    field(&mut inside, 3, &line.with(&events));
                }
                inside.append(&plane.rest);
                field(&mut list, 1, &inside);
            } else {
                field(&mut list, 1, &plane.as_it_is);
            }
        }
        list.append(&self.rest);
        Ok((list, rewritten.finish()?))
    }
}

impl Plane {
    fn add(&mut self, line: Line) {
        self.by_id.insert(line.id, self.lines.len());
        self.lines.push(line);
    }

    /// Returns true if no two lines have the same id.
    pub(super) fn has_unique_lines(&self) -> bool {
        self.by_id.len() == self.lines.len()
    }

    /// All of it, its lines behind its head, where nothing was merged into it.
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
    /// Merges a line in that has the same id: its events come behind, and what begins later keeps its
    /// time.
    fn join(&mut self, mut from: Line) {
        let later = from.timestamp.wrapping_sub(self.timestamp);
        let (moved, by) = if from.timestamp < self.timestamp {
            self.timestamp = from.timestamp;
            self.stamp = SpanList::default();
            put_number(&mut self.stamp, 3, from.timestamp);
            (&mut self.events, later.wrapping_neg())
        } else {
            (&mut from.events, later)
        };
        moved.iter_mut().for_each(|events| events.delay(by));
        self.events.append(&mut from.events);
        self.has_duration |= from.has_duration;
        self.duration = self.duration.max(from.duration);
    }

    /// Runs of its events.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Range<u64>> {
        self.events.iter().flat_map(|events| &events.runs)
    }

    /// The line with these of its events.
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

pub(super) const fn is_text(field: &Field) -> bool {
    matches!((field.number.0, field.wire_type), (2..=4, WireType::Len))
}

pub(super) fn is(field: &Field, number: u32) -> bool {
    field.number.0 == number && field.wire_type == WireType::Len
}

/// Adds a field whose value is a list of spans.
pub(super) fn field(list: &mut SpanList, number: u32, value: &SpanList) {
    list.push_varint(tag(FieldNumber(number), WireType::Len));
    list.push_varint(value.len());
    list.append(value);
}
