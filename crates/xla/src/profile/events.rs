//! The events of a line, and how merging a profile's records changes them.

use std::collections::HashMap;
use std::io::BufWriter;
use std::ops::Range;
use std::sync::Arc;

use proto_splitter_core::spans::{SourceId, SpanList};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::{PositionReader, ReadAt};

use super::fields::{ProfileReader, is_number, put_number};
use crate::write::{ListBytes, field};

/// Picoseconds per nanosecond.
const PICOSECONDS: i64 = 1000;

/// New numbers for the metadata of a plane that is merged into another plane. A number that isn't
/// listed is unchanged.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) events: HashMap<i64, i64>,
    pub(super) stats: HashMap<i64, i64>,
}

impl Numbers {
    /// Returns true if all numbers stay the same.
    pub(super) fn are_same(&self) -> bool {
        let same = |map: &HashMap<i64, i64>| map.iter().all(|(from, to)| from == to);
        same(&self.events) && same(&self.stats)
    }

    fn event(&self, number: i64) -> i64 {
        self.events.get(&number).copied().unwrap_or(number)
    }

    pub(super) fn stat(&self, number: i64) -> i64 {
        self.stats.get(&number).copied().unwrap_or(number)
    }
}

/// The events of a line, and the changes to make to them.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    /// Byte ranges of runs of consecutive events, in the profile's records.
    pub(super) runs: Vec<Range<u64>>,
    /// New numbers for the events' metadata; `None` if all numbers stay the same.
    numbers: Option<Arc<Numbers>>,
    /// Number of nanoseconds by which the events are delayed.
    shift: i64,
}

/// Maximum size of a run of events, in bytes. A single event may be larger.
pub(super) const MAX_RUN: u64 = 16 << 20;

impl Events {
    /// Adds the event in this range to the last run, or to a new run.
    pub(super) fn push(&mut self, place: Range<u64>) {
        match self.runs.last_mut() {
            Some(run) if run.end == place.start && place.end - run.start <= MAX_RUN => {
                run.end = place.end;
            }
            _ => self.runs.push(place),
        }
    }

    /// Delays the events by a number of nanoseconds.
    pub(super) const fn delay(&mut self, nanoseconds: i64) {
        self.shift = self.shift.wrapping_add(nanoseconds);
    }

    /// Sets the new numbers for the events' metadata.
    pub(super) fn renumber(&mut self, numbers: Option<&Arc<Numbers>>) {
        self.numbers = numbers.cloned();
    }
}

impl ProfileReader<'_> {
    /// Returns a stat with new metadata numbers: the number of the stat itself and, if its value
    /// refers to metadata, the number in its value.
    pub(super) fn renumbered_stat(
        &mut self,
        stat: Range<u64>,
        numbers: &Numbers,
    ) -> Result<SpanList> {
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

    /// Returns a copy of an event, delayed by `delay` picoseconds and with new metadata numbers.
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
                // An event has either an offset, which is delayed, or an occurrence count.
                2 if delay != 0 && is_number(&part, 2) => offset = self.number(part.value)?,
                5 if delay != 0 && is_number(&part, 5) => offset = 0,
                4 if part.is_len(4) => {
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

/// Copies of events that merging changed, in a temporary file.
pub(super) struct Rewritten {
    /// Source to which spans of the copied events refer.
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

    /// Adds events, delayed by another `shift` nanoseconds, to a list of spans. An event that is
    /// changed by merging is added as a span of its changed copy, any other event as a span of its
    /// record.
    pub(super) fn add(
        &mut self,
        reader: &mut ProfileReader<'_>,
        events: &Events,
        shift: i64,
        line: &mut SpanList,
    ) -> Result<()> {
        let shift = events.shift.wrapping_add(shift);
        if events.numbers.is_none() && shift == 0 {
            for run in &events.runs {
                line.push_span(reader.source(), run.clone());
            }
            return Ok(());
        }
        let same = Arc::default();
        let numbers = events.numbers.as_ref().unwrap_or(&same);
        let delay = shift.wrapping_mul(PICOSECONDS);
        let start = self.len;
        for run in &events.runs {
            let mut at = run.start;
            while let Some(found) = reader.next_field(at..run.end)? {
                at = found.end;
                let mut event = SpanList::default();
                let changed = reader.changed_event(found.value, numbers, delay)?;
                field(&mut event, 4, &changed);
                let (message, list) = (reader.all(), &event);
                let mut bytes = PositionReader::new(ListBytes { message, list });
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

    /// Returns the temporary file as a source; `None` if no events were copied.
    pub(super) fn finish(self) -> Result<Option<Arc<dyn ReadAt>>> {
        let Some(file) = self.file else {
            return Ok(None);
        };
        let file = file
            .into_inner()
            .map_err(|error| Error::from(error.into_error()))?;
        Ok(Some(Arc::new(file)))
    }
}
