//! Merging the records of a profile like XProf, without copying them. Planes and lines are joined.
//! If a plane is merged into another one, the numbers of its metadata and its times may change.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::sync::Arc;

use proto_splitter_core::formats::OpenOptions;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::spans::{SourceId, SpanList, SpanSource, SpansBuilder};
use proto_splitter_core::wire::{
    Field, FieldNumber, SourceInput, WireCursor, WireType, decode_varint, put_varint, tag,
};
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_sequences::Records;
use record_file::ReadAt;

use crate::write::RecordBytes;

/// Maximum size of a name, in bytes.
const MAX_NAME: u64 = 1 << 20;

/// Maximum number of records in a profile.
const MAX_RECORDS: u64 = 1 << 24;

/// Returns the message that the records of a profile form.
pub(super) fn message(source: Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Arc<dyn ReadAt>> {
    let mut records = Records::new(source)?;
    let found = records.find(u64::MAX)?;
    if found.records > MAX_RECORDS {
        let message = format!(
            "a profile of {} records exceeds the limit of 2^24",
            found.records
        );
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    let records = Arc::new(records);
    let size = records.size()?;
    let meter = options.get_progress().meter(size);
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

/// A profile under construction.
pub(super) struct Space<'a> {
    reader: &'a dyn ReadAt,
    cursor: WireCursor<SourceInput<'a, dyn ReadAt + 'a>>,
    source: SourceId,
    planes: Vec<Plane>,
    /// Last plane with each name.
    by_name: HashMap<Vec<u8>, usize>,
    rest: SpanList,
    /// Errors, warnings and names of hosts added so far, each with its field number.
    texts: HashSet<(u32, Vec<u8>)>,
}

#[derive(Default)]
pub(super) struct Plane {
    pub(super) name: Vec<u8>,
    /// Id and name.
    pub(super) head: SpanList,
    pub(super) lines: Vec<Line>,
    /// Last line with each id.
    by_id: HashMap<i64, usize>,
    /// Metadata and stats.
    pub(super) rest: SpanList,
    /// The whole plane, as stored in its record.
    pub(super) as_it_is: SpanList,
    /// Names of the plane's metadata, once another plane has been merged into this one.
    pub(super) known: Option<Known>,
    /// True if another plane has been merged into this one.
    is_joined: bool,
}

#[derive(Default)]
pub(super) struct Line {
    id: i64,
    timestamp: i64,
    /// Fields before the start time.
    head: SpanList,
    /// Start time of the line, as stored in its record.
    stamp: SpanList,
    pub(super) events: Vec<Events>,
    duration: i64,
    has_duration: bool,
    /// Fields after the events.
    rest: SpanList,
}

impl<'a> Space<'a> {
    /// Creates an empty profile, which will consist of parts of `reader`.
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

    /// Returns the source of the spans.
    pub(super) const fn source(&self) -> SourceId {
        self.source
    }

    pub(super) const fn reader(&self) -> &'a dyn ReadAt {
        self.reader
    }

    /// Adds the first record unchanged.
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

    /// Merges any later record into the profile.
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
            // XProf ignores other fields of a profile, except in the first record.
        }
        // The search goes backwards. Planes in the same record aren't merged with each other.
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

    /// Merges a plane into the plane with the same name.
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

    /// Returns a plane with these bytes.
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

    /// Returns the first field of a range.
    pub(super) fn next_field(&mut self, range: Range<u64>) -> Result<Option<Field>> {
        self.cursor.set_range(range);
        self.cursor.next()
    }

    pub(super) fn bytes(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        if range.end - range.start > MAX_NAME {
            let message = format!("a name of {} bytes is too large", range.end - range.start);
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        Ok(self.cursor.bytes(range)?.to_vec())
    }

    pub(super) fn number(&mut self, range: Range<u64>) -> Result<i64> {
        let number = decode_varint(self.cursor.bytes(range)?);
        Ok(number.map_or(0, |(number, _)| number.cast_signed()))
    }

    /// Returns the whole profile, with its fields in the order of their numbers, and the source of
    /// its changed events.
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

    /// Returns the whole plane, with its lines after its head. Another plane must not have been
    /// merged into it.
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
    /// Merges a line with the same id. Appends its events, and keeps the earlier of the two start
    /// times. The events of the line that starts later are delayed by the difference.
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

    /// Returns the runs of the line's events.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Range<u64>> {
        self.events.iter().flat_map(|events| &events.runs)
    }

    /// Returns the line with `events` as its only events.
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

/// Fields of a plane that are maps of metadata.
const EVENT_METADATA: u32 = 4;
const STAT_METADATA: u32 = 5;

/// Number of a plane's field with its stats.
const STATS: u32 = 6;

/// Picoseconds per nanosecond.
const PICOSECONDS: i64 = 1000;

/// New numbers of metadata, after its plane was merged into another one. Numbers that aren't listed
/// are unchanged.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    events: HashMap<i64, i64>,
    stats: HashMap<i64, i64>,
}

impl Numbers {
    /// Returns true if all numbers are unchanged.
    fn are_same(&self) -> bool {
        let same = |map: &HashMap<i64, i64>| map.iter().all(|(from, to)| from == to);
        same(&self.events) && same(&self.stats)
    }

    fn event(&self, number: i64) -> i64 {
        self.events.get(&number).copied().unwrap_or(number)
    }

    fn stat(&self, number: i64) -> i64 {
        self.stats.get(&number).copied().unwrap_or(number)
    }
}

/// Events of a line, and the changes to them.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    /// Runs of consecutive events.
    pub(super) runs: Vec<Range<u64>>,
    /// New numbers of the events' metadata, if any change.
    numbers: Option<Arc<Numbers>>,
    /// Number of nanoseconds to add to the events' times.
    shift: i64,
}

/// Maximum size of a run, in bytes, unless a single event is larger.
pub(super) const MAX_RUN: u64 = 16 << 20;

impl Events {
    /// Adds the event at this range.
    pub(super) fn push(&mut self, place: Range<u64>) {
        match self.runs.last_mut() {
            Some(run) if run.end == place.start && place.end - run.start <= MAX_RUN => {
                run.end = place.end;
            }
            _ => self.runs.push(place),
        }
    }

    /// Delays the events by this many nanoseconds.
    pub(super) const fn delay(&mut self, nanoseconds: i64) {
        self.shift = self.shift.wrapping_add(nanoseconds);
    }

    /// Renumbers the events' metadata.
    pub(super) fn renumber(&mut self, numbers: Option<&Arc<Numbers>>) {
        self.numbers = numbers.cloned();
    }
}

/// The names and numbers of a plane's metadata, once another plane is merged into it.
#[derive(Debug)]
pub(super) struct Known {
    events: ByName,
    stats: ByName,
    /// Numbers of the plane's own stats.
    plane_stats: HashSet<i64>,
}

#[derive(Debug, Default)]
struct ByName {
    numbers: HashMap<Vec<u8>, i64>,
    next: i64,
}

/// An entry of a map of metadata.
struct Metadata {
    name: Vec<u8>,
    value: Range<u64>,
}

/// Merges the metadata and stats of `from` into those of `to`. A known name gets its existing
/// number, and a new name gets the next free number. Metadata without a name is left out, as in
/// XProf.
pub(super) fn merge_metadata(
    space: &mut Space<'_>,
    from: &Plane,
    to: &mut Plane,
) -> Result<Option<Arc<Numbers>>> {
    if from.rest.is_empty() {
        return Ok(None);
    }
    let mut known = match to.known.take() {
        Some(known) => known,
        None => known_of(space, &to.rest)?,
    };
    let mut numbers = Numbers::default();
    for (map, by_name, changed) in [
        (EVENT_METADATA, &mut known.events, &mut numbers.events),
        (STAT_METADATA, &mut known.stats, &mut numbers.stats),
    ] {
        for (number, metadata) in metadata_of(space, &from.rest, map)? {
            if metadata.name.is_empty() {
                changed.insert(number, number);
                continue;
            }
            let (taken, next) = (&mut by_name.numbers, &mut by_name.next);
            let mut is_new = false;
            let there = *taken.entry(metadata.name).or_insert_with(|| {
                is_new = true;
                *next
            });
            if is_new {
                *next = next.wrapping_add(1);
                let mut entry = SpanList::default();
                put_number(&mut entry, 1, there);
                let mut value = SpanList::default();
                value.push_span(space.source(), metadata.value);
                field(&mut entry, 2, &value);
                field(&mut to.rest, map, &entry);
            }
            changed.insert(number, there);
        }
    }
    for range in fields_of(space, &from.rest, STATS)? {
        let number = numbers.stat(stat_number(space, range.clone())?);
        if known.plane_stats.insert(number) {
            let stat = space.renumbered_stat(range, &numbers)?;
            field(&mut to.rest, STATS, &stat);
        }
    }
    to.known = Some(known);
    Ok((!numbers.are_same()).then(|| Arc::new(numbers)))
}

fn known_of(space: &mut Space<'_>, rest: &SpanList) -> Result<Known> {
    let mut by_name = |map| -> Result<ByName> {
        let mut found = ByName::default();
        for (number, metadata) in metadata_of(space, rest, map)? {
            found.next = found.next.max(number.wrapping_add(1));
            if !metadata.name.is_empty() {
                found.numbers.insert(metadata.name, number);
            }
        }
        Ok(found)
    };
    let (events, stats) = (by_name(EVENT_METADATA)?, by_name(STAT_METADATA)?);
    let mut plane_stats = HashSet::new();
    for range in fields_of(space, rest, STATS)? {
        plane_stats.insert(stat_number(space, range)?);
    }
    Ok(Known {
        events,
        stats,
        plane_stats,
    })
}

/// Returns the entries of a map of metadata, by their numbers. If several entries have the same
/// number, the last one takes effect.
fn metadata_of(
    space: &mut Space<'_>,
    rest: &SpanList,
    map: u32,
) -> Result<BTreeMap<i64, Metadata>> {
    let mut found = BTreeMap::new();
    for entry in fields_of(space, rest, map)? {
        let (mut number, mut value) = (0, entry.start..entry.start);
        for part in space.fields(entry)? {
            match (part.number.0, part.wire_type) {
                (1, WireType::Varint) => number = space.number(part.value)?,
                (2, WireType::Len) => value = part.value,
                _ => {}
            }
        }
        let mut name = Vec::new();
        for part in space.fields(value.clone())? {
            if is(&part, 2) {
                name = space.bytes(part.value)?;
            }
        }
        found.insert(number, Metadata { name, value });
    }
    Ok(found)
}

/// Returns the values of a field among the other fields of a plane.
fn fields_of(space: &mut Space<'_>, rest: &SpanList, number: u32) -> Result<Vec<Range<u64>>> {
    let mut values = Vec::new();
    for span in rest.iter() {
        let Some((_, range)) = span.stored() else {
            continue;
        };
        let fields = space.fields(range)?.into_iter();
        values.extend(
            fields
                .filter(|found| is(found, number))
                .map(|found| found.value),
        );
    }
    Ok(values)
}

fn stat_number(space: &mut Space<'_>, stat: Range<u64>) -> Result<i64> {
    let mut number = 0;
    for part in space.fields(stat)? {
        if is_number(&part, 1) {
            number = space.number(part.value)?;
        }
    }
    Ok(number)
}

const fn is_number(field: &Field, number: u32) -> bool {
    field.number.0 == number && matches!(field.wire_type, WireType::Varint)
}

/// Adds a number field.
pub(super) fn put_number(list: &mut SpanList, number: u32, value: i64) {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, tag(FieldNumber(number), WireType::Varint));
    put_varint(&mut bytes, value.cast_unsigned());
    list.push_literal(&bytes);
}

impl Space<'_> {
    /// Renumbers the metadata of a stat: the stat's own number, and the number that is its value,
    /// if it has one.
    fn renumbered_stat(&mut self, stat: Range<u64>, numbers: &Numbers) -> Result<SpanList> {
        let mut list = SpanList::default();
        for part in self.fields(stat)? {
            if is_number(&part, 1) || is_number(&part, 7) {
                let there = numbers.stat(self.number(part.value)?);
                put_number(&mut list, part.number.0, there);
            } else {
                list.push_span(self.source(), part.start..part.end);
            }
        }
        Ok(list)
    }

    /// Returns an event that is `delay` picoseconds later, with renumbered metadata.
    fn changed_event(
        &mut self,
        event: Range<u64>,
        numbers: &Numbers,
        delay: i64,
    ) -> Result<SpanList> {
        let (mut number, mut offset) = (0, 0);
        let mut others = SpanList::default();
        for part in self.fields(event)? {
            match part.number.0 {
                1 if is_number(&part, 1) => number = self.number(part.value)?,
                // An event has either an offset or a number of occurrences.
                2 if delay != 0 && is_number(&part, 2) => offset = self.number(part.value)?,
                5 if delay != 0 && is_number(&part, 5) => offset = 0,
                4 if is(&part, 4) => {
                    let stat = self.renumbered_stat(part.value, numbers)?;
                    field(&mut others, 4, &stat);
                }
                _ => others.push_span(self.source(), part.start..part.end),
            }
        }
        let mut list = SpanList::default();
        put_number(&mut list, 1, numbers.event(number));
        if delay != 0 {
            put_number(&mut list, 2, offset.wrapping_add(delay));
        }
        list.append(&others);
        Ok(list)
    }
}

/// Changed events, in a temporary file.
pub(super) struct Rewritten {
    /// Source of the changed events' spans.
    source: SourceId,
    file: Option<BufWriter<std::fs::File>>,
    len: u64,
}

impl Rewritten {
    pub(super) const fn new(source: SourceId) -> Rewritten {
        Rewritten {
            source,
            file: None,
            len: 0,
        }
    }

    /// Adds events to a line, as spans of the original or as changed copies.
    pub(super) fn add(
        &mut self,
        space: &mut Space<'_>,
        events: &Events,
        line: &mut SpanList,
    ) -> Result<()> {
        if events.numbers.is_none() && events.shift == 0 {
            for run in &events.runs {
                line.push_span(space.source(), run.clone());
            }
            return Ok(());
        }
        let same = Arc::default();
        let numbers = events.numbers.as_ref().unwrap_or(&same);
        let delay = events.shift.wrapping_mul(PICOSECONDS);
        let meter = Progress::default().meter(0);
        let start = self.len;
        for run in &events.runs {
            let mut at = run.start;
            while let Some(found) = space.next_field(at..run.end)? {
                at = found.end;
                let mut event = SpanList::default();
                let changed = space.changed_event(found.value, numbers, delay)?;
                field(&mut event, 4, &changed);
                let mut bytes = RecordBytes::new(space.reader(), &event, &meter);
                self.len += std::io::copy(&mut bytes, self.file()?)?;
            }
        }
        line.push_span(self.source, start..self.len);
        Ok(())
    }

    fn file(&mut self) -> Result<&mut BufWriter<std::fs::File>> {
        if self.file.is_none() {
            self.file = Some(BufWriter::new(tempfile::tempfile()?));
        }
        self.file.as_mut().ok_or_else(|| {
            let message = "there is no temporary file";
            Error::new(ErrorKind::Io, message)
        })
    }

    /// Returns the source of the changed events, if there are any.
    pub(super) fn finish(self) -> Result<Option<Arc<dyn ReadAt>>> {
        let Some(mut file) = self.file else {
            return Ok(None);
        };
        file.flush()?;
        let file = file
            .into_inner()
            .map_err(|error| Error::from(error.into_error()))?;
        Ok(Some(Arc::new(file)))
    }
}
