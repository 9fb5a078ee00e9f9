//! The records of a profile, merged as XProf merges them, where they are.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use proto_splitter_core::formats::OpenOptions;
use proto_splitter_core::spans::{SourceId, SpanList, SpanSource, SpansBuilder};
use proto_splitter_core::wire::{
    Field, FieldNumber, SourceInput, WireCursor, WireType, decode_varint, put_varint, tag,
};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

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
    let list = space.finish();
    let mut builder = SpansBuilder::new();
    let source = builder.reader("records", records)?;
    for span in list.iter() {
        match span.source {
            SpanSource::Literal(bytes) => builder.literal(bytes)?,
            SpanSource::Stored(_, at) => builder.span(source, at..at + span.len)?,
        }
    }
    Ok(Arc::new(builder.finish()?))
}

/// A profile that is put together.
pub(super) struct Space<'a> {
    cursor: WireCursor<SourceInput<'a, dyn ReadAt + 'a>>,
    source: SourceId,
    planes: Vec<Plane>,
    /// The first plane of each name.
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
    by_id: HashMap<i64, usize>,
    /// Metadata and stats.
    pub(super) rest: SpanList,
    /// All of it, as it stands in its record.
    pub(super) as_it_is: SpanList,
    /// Whether another was merged into it.
    is_joined: bool,
}

#[derive(Default)]
pub(super) struct Line {
    pub(super) id: i64,
    timestamp: i64,
    /// What comes before its events.
    pub(super) head: SpanList,
    pub(super) events: SpanList,
    /// Where the events are, one by one, if somebody asks for them.
    pub(super) places: Vec<Range<u64>>,
    duration: i64,
    has_duration: bool,
    /// What comes behind them.
    pub(super) rest: SpanList,
}

impl<'a> Space<'a> {
    /// An empty profile of parts of `source`.
    pub(super) fn new(source: &'a dyn ReadAt) -> Result<Space<'a>> {
        let size = source.size()?;
        Ok(Space {
            cursor: WireCursor::new(SourceInput::new(source, size)),
            source: SourceId::new(0)?,
            planes: Vec::new(),
            by_name: HashMap::new(),
            rest: SpanList::default(),
            texts: HashSet::new(),
        })
    }

    /// What the spans are of.
    pub(super) fn source(&self) -> SourceId {
        self.source
    }

    /// Takes the first record as it is.
    fn first(&mut self, range: Range<u64>) -> Result<()> {
        for field in self.fields(range)? {
            if is(&field, 1) {
                let plane = self.plane(field.value, false)?;
                self.add(plane);
                continue;
            }
            if (2..=4).contains(&field.number.0) && field.wire_type == WireType::Len {
                let text = self.bytes(field.value.clone())?;
                self.texts.insert((field.number.0, text));
            }
            self.push_rest(&field);
        }
        Ok(())
    }

    /// Merges a further record in.
    fn merge(&mut self, range: Range<u64>) -> Result<()> {
        let mut added = Vec::new();
        for field in self.fields(range)? {
            if is(&field, 1) {
                let plane = self.plane(field.value, false)?;
                match self.by_name.get(&plane.name).copied() {
                    Some(index) => self.join(index, plane)?,
                    None => added.push(plane),
                }
            } else if (2..=4).contains(&field.number.0) && field.wire_type == WireType::Len {
                let text = self.bytes(field.value.clone())?;
                if self.texts.insert((field.number.0, text)) {
                    self.push_rest(&field);
                }
            } else {
                self.push_rest(&field);
            }
        }
        // Of several the last comes first.
        for plane in added.into_iter().rev() {
            self.add(plane);
        }
        Ok(())
    }

    /// Merges a plane into the one that is called the same.
    fn join(&mut self, index: usize, plane: Plane) -> Result<()> {
        let called = |what: &str| {
            let name = String::from_utf8_lossy(&plane.name);
            let message = format!(
                "plane {name:?} {what} again: merging that needs the numbers in it to be changed, \
                 which is not done"
            );
            Error::new(ErrorKind::UnsupportedVersion, message)
        };
        if !plane.rest.is_empty() {
            return Err(called("has metadata or stats"));
        }
        let Some(there) = self.planes.get_mut(index) else {
            return Ok(());
        };
        there.is_joined = true;
        let mut added = Vec::new();
        for line in plane.lines {
            let known = there.by_id.get(&line.id).copied();
            let Some(known) = known.and_then(|known| there.lines.get_mut(known)) else {
                added.push(line);
                continue;
            };
            if known.timestamp != line.timestamp {
                let name = String::from_utf8_lossy(&there.name);
                let message = format!(
                    "line {} of plane {name:?} begins at another time: merging that needs the times \
                     of its events to be changed, which is not done",
                    line.id
                );
                return Err(Error::new(ErrorKind::UnsupportedVersion, message));
            }
            known.events.append(&line.events);
            known.has_duration |= line.has_duration;
            known.duration = known.duration.max(line.duration);
        }
        for line in added.into_iter().rev() {
            there.add(line);
        }
        Ok(())
    }

    fn add(&mut self, plane: Plane) {
        let index = self.planes.len();
        self.by_name.entry(plane.name.clone()).or_insert(index);
        self.planes.push(plane);
    }

    fn push_rest(&mut self, field: &Field) {
        self.rest.push_span(self.source, field.start..field.end);
    }

    /// A plane of these bytes; with the place of every event, if that is wanted.
    pub(super) fn plane(&mut self, range: Range<u64>, with_events: bool) -> Result<Plane> {
        let mut plane = Plane::default();
        plane.as_it_is.push_span(self.source, range.clone());
        for field in self.fields(range)? {
            let all = field.start..field.end;
            match (field.number.0, field.wire_type) {
                (2, WireType::Len) => {
                    plane.name = self.bytes(field.value)?;
                    plane.head.push_span(self.source, all);
                }
                (1 | 2, _) => plane.head.push_span(self.source, all),
                (3, WireType::Len) => {
                    let line = self.line(field.value, with_events)?;
                    plane.add(line);
                }
                _ => plane.rest.push_span(self.source, all),
            }
        }
        Ok(plane)
    }

    fn line(&mut self, range: Range<u64>, with_events: bool) -> Result<Line> {
        let mut line = Line::default();
        self.cursor.set_range(range.clone());
        while let Some(field) = self.cursor.next()? {
            let all = field.start..field.end;
            match (field.number.0, field.wire_type) {
                (4, WireType::Len) => {
                    if with_events {
                        line.places.push(all.clone());
                    }
                    line.events.push_span(self.source, all);
                    continue;
                }
                (1, WireType::Varint) => line.id = self.number(field.value.clone())?,
                (3, WireType::Varint) => line.timestamp = self.number(field.value.clone())?,
                (9, WireType::Varint) => {
                    line.duration = self.number(field.value.clone())?;
                    line.has_duration = true;
                    self.cursor.set_range(field.end..range.end);
                    continue;
                }
                _ => {}
            }
            let part = if field.number.0 < 4 {
                &mut line.head
            } else {
                &mut line.rest
            };
            part.push_span(self.source, all);
            self.cursor.set_range(field.end..range.end);
        }
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

    fn bytes(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        if range.end - range.start > MAX_NAME {
            let message = format!("{} bytes of a name", range.end - range.start);
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        Ok(self.cursor.bytes(range)?.to_vec())
    }

    fn number(&mut self, range: Range<u64>) -> Result<i64> {
        let number = decode_varint(self.cursor.bytes(range)?);
        Ok(number.map_or(0, |(number, _)| number.cast_signed()))
    }

    /// The whole profile, fields by number.
    fn finish(self) -> SpanList {
        let mut list = SpanList::default();
        for plane in &self.planes {
            if plane.is_joined {
                field(&mut list, 1, &plane.whole());
            } else {
                field(&mut list, 1, &plane.as_it_is);
            }
        }
        list.append(&self.rest);
        list
    }
}

impl Plane {
    fn add(&mut self, line: Line) {
        let index = self.lines.len();
        self.by_id.entry(line.id).or_insert(index);
        self.lines.push(line);
    }

    /// Returns true if no two lines have the same id.
    pub(super) fn has_unique_lines(&self) -> bool {
        self.by_id.len() == self.lines.len()
    }

    pub(super) fn whole(&self) -> SpanList {
        let mut inside = self.head.clone();
        for line in &self.lines {
            field(&mut inside, 3, &line.with(&line.events));
        }
        inside.append(&self.rest);
        inside
    }
}

impl Line {
    /// The line with these of its events.
    pub(super) fn with(&self, events: &SpanList) -> SpanList {
        let mut list = self.head.clone();
        list.append(events);
        if self.has_duration {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, tag(FieldNumber(9), WireType::Varint));
            put_varint(&mut bytes, self.duration.cast_unsigned());
            list.push_literal(&bytes);
        }
        list.append(&self.rest);
        list
    }
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
