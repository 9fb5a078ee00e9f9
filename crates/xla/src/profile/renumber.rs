//! Numbers of metadata, and times, which become others where a plane is merged into another.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::sync::Arc;

use proto_splitter_core::progress::Progress;
use proto_splitter_core::spans::{SourceId, SpanList};
use proto_splitter_core::wire::{Field, FieldNumber, WireType, put_varint, tag};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use super::merge::{Plane, Space, field, is};
use crate::write::RecordBytes;

/// The fields of a plane that are maps of metadata.
const EVENT_METADATA: u32 = 4;
const STAT_METADATA: u32 = 5;

/// The field of a plane with its stats.
const STATS: u32 = 6;

/// Picoseconds of a nanosecond.
const PICOSECONDS: i64 = 1000;

/// The numbers that metadata has in the plane that it was merged into; of those that are not named
/// the number stays.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    events: HashMap<i64, i64>,
    stats: HashMap<i64, i64>,
}

impl Numbers {
    /// Returns true if every number stays what it is.
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

/// Events of a line, and how they change.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    /// Runs of events that follow each other.
    pub(super) runs: Vec<Range<u64>>,
    /// The numbers of their metadata, if any becomes another.
    numbers: Option<Arc<Numbers>>,
    /// How many nanoseconds later they are than they say.
    shift: i64,
}

/// The most bytes of a run, unless one event has more.
pub(super) const MAX_RUN: u64 = 16 << 20;

impl Events {
    /// Adds the event at this place.
    pub(super) fn push(&mut self, place: Range<u64>) {
        match self.runs.last_mut() {
            Some(run) if run.end == place.start && place.end - run.start <= MAX_RUN => {
                run.end = place.end;
            }
            _ => self.runs.push(place),
        }
    }

    /// Lets them begin this many nanoseconds later.
    pub(super) const fn delay(&mut self, nanoseconds: i64) {
        self.shift = self.shift.wrapping_add(nanoseconds);
    }

    /// Gives their metadata other numbers.
    pub(super) fn renumber(&mut self, numbers: Option<&Arc<Numbers>>) {
        self.numbers = numbers.cloned();
    }
}

/// Names and numbers of metadata that a plane has, once another is merged into it.
#[derive(Debug)]
pub(super) struct Known {
    events: ByName,
    stats: ByName,
    /// Numbers of its own stats.
    plane_stats: HashSet<i64>,
}

#[derive(Debug, Default)]
struct ByName {
    numbers: HashMap<Vec<u8>, i64>,
    next: i64,
}

/// One entry of a map of metadata.
struct Metadata {
    name: Vec<u8>,
    value: Range<u64>,
}

/// Merges the metadata and stats of `from` into those of `to`: a name that is there has the number
/// that it has there, and a new one the next that is free. Metadata without a name is left out, as
/// XProf leaves it.
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

/// The entries of a map of metadata, by their numbers: of those with one number the last counts.
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

/// The values of a field among what a plane has in the records.
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

/// Adds a field with a number.
pub(super) fn put_number(list: &mut SpanList, number: u32, value: i64) {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, tag(FieldNumber(number), WireType::Varint));
    put_varint(&mut bytes, value.cast_unsigned());
    list.push_literal(&bytes);
}

impl Space<'_> {
    /// A stat with other numbers of metadata: its own, and the one that it may have for a value.
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

    /// An event that is `delay` picoseconds later, with other numbers of metadata.
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
                // They are two of which an event has one.
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

/// Events that change, in a temporary file.
pub(super) struct Rewritten {
    /// What the spans of it are of.
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

    /// Adds events to a line: where they are, or changed.
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

    /// What was written, if anything was.
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
