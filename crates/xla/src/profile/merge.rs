//! Merging the records of a profile as XProf does, but without copying the records. Planes with the
//! same name are joined, and so are lines with the same id. When planes are joined, the times of
//! events and the numbers of metadata may change.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use proto_splitter_core::formats::OpenOptions;
use proto_splitter_core::spans::{SourceId, SpanList, SpanSource, SpansBuilder};
use proto_splitter_core::wire::Field;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_sequences::Records;
use record_file::ReadAt;

use super::events::Rewritten;
use super::fields::{ProfileReader, is_text};
use super::metadata::merge_metadata;
use super::plane::Plane;
use crate::write::field;

/// Maximum number of records in a profile.
const MAX_RECORDS: u64 = 1 << 24;

/// Returns the message that results from merging the records of a profile.
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

/// A profile that is being merged from records.
struct Space<'a> {
    reader: ProfileReader<'a>,
    planes: Vec<Plane>,
    /// Map from a name to the index in `planes` of the last plane with this name.
    by_name: HashMap<Vec<u8>, usize>,
    rest: SpanList,
    /// Errors, warnings and host names added so far, each with the number of its field.
    texts: HashSet<(u32, Vec<u8>)>,
}

impl<'a> Space<'a> {
    /// Creates an empty profile. `reader` has the bytes of all records.
    fn new(reader: &'a dyn ReadAt) -> Result<Space<'a>> {
        Ok(Space {
            reader: ProfileReader::new(reader)?,
            planes: Vec::new(),
            by_name: HashMap::new(),
            rest: SpanList::default(),
            texts: HashSet::new(),
        })
    }

    /// Adds the profile's first record, which isn't changed.
    fn first(&mut self, range: Range<u64>) -> Result<()> {
        for field in self.reader.fields(range)? {
            if field.is_len(1) {
                let plane = Plane::read(&mut self.reader, field.value)?;
                self.add(plane);
                continue;
            }
            if is_text(&field) {
                let text = self.reader.bytes(field.value.clone())?;
                self.texts.insert((field.number.0, text));
            }
            self.push_rest(&field);
        }
        Ok(())
    }

    /// Merges a record other than the first into the profile.
    fn merge(&mut self, range: Range<u64>) -> Result<()> {
        let mut planes = Vec::new();
        for field in self.reader.fields(range)? {
            if field.is_len(1) {
                planes.push(field.value);
            } else if is_text(&field) {
                let text = self.reader.bytes(field.value.clone())?;
                if self.texts.insert((field.number.0, text)) {
                    self.push_rest(&field);
                }
            }
            // Like XProf, ignores all other fields of records after the first.
        }
        // Goes through the record's planes backwards, like XProf. Planes of the same record aren't
        // joined with each other.
        let mut added = Vec::new();
        for range in planes.into_iter().rev() {
            let plane = Plane::read(&mut self.reader, range)?;
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

    /// Joins the plane `from` with the existing plane that has the same name.
    fn join(&mut self, index: usize, from: Plane) -> Result<()> {
        let Some(there) = self.planes.get_mut(index) else {
            return Ok(());
        };
        let mut to = std::mem::take(there);
        to.is_joined = true;
        let numbers = merge_metadata(&mut self.reader, &from.rest, &mut to.rest, &mut to.known);
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
        self.rest
            .push_span(self.reader.source(), field.start..field.end);
    }

    /// Returns the fields of the merged profile, in the order of their numbers, and the source of
    /// the events that were copied, if any.
    fn finish(mut self) -> Result<(SpanList, Option<Arc<dyn ReadAt>>)> {
        let mut rewritten = Rewritten::new(SourceId::new(1)?);
        let mut list = SpanList::default();
        for plane in std::mem::take(&mut self.planes) {
            if plane.is_joined {
                let mut inside = plane.head.clone();
                for line in &plane.lines {
                    let mut events = SpanList::default();
                    for part in &line.events {
                        rewritten.add(&mut self.reader, part, line.shift, &mut events)?;
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
