//! Merging the metadata of two planes with the same name. An entry of the metadata is identified by
//! its name.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use proto_splitter_core::Result;
use proto_splitter_core::spans::SpanList;
use proto_splitter_core::wire::WireType;

use super::events::Numbers;
use super::fields::{ProfileReader, is_number, put_number};
use crate::write::field;

/// Number of the field that contains a plane's map of event metadata.
const EVENT_METADATA: u32 = 4;
/// Number of the field that contains a plane's map of stat metadata.
const STAT_METADATA: u32 = 5;

/// Number of the field that contains a plane's own stats.
const STATS: u32 = 6;

/// The names and numbers of a plane's metadata. They are collected when another plane is merged
/// into this plane for the first time.
#[derive(Debug)]
pub(super) struct Known {
    events: ByName,
    stats: ByName,
    /// Metadata numbers of the plane's own stats.
    plane_stats: HashSet<i64>,
}

#[derive(Debug, Default)]
struct ByName {
    numbers: HashMap<Vec<u8>, i64>,
    next: i64,
}

/// An entry of a metadata map, without its key, which is the metadata's number.
struct Metadata {
    name: Vec<u8>,
    value: Range<u64>,
}

/// Merges the metadata and stats of one plane, `from`, into those of another plane, `to`. Each of
/// these two span lists contains all fields of its plane except for the id, the name and the lines.
/// `known` caches the names in `to` between calls. Metadata with a known name gets the existing
/// number, and metadata with a new name gets the next free number. Like XProf, omits metadata
/// without a name. Returns the new numbers of the metadata in `from`; `None` if all numbers stay
/// the same.
pub(super) fn merge_metadata(
    reader: &mut ProfileReader<'_>,
    from: &SpanList,
    to: &mut SpanList,
    known: &mut Option<Known>,
) -> Result<Option<Arc<Numbers>>> {
    if from.is_empty() {
        return Ok(None);
    }
    let known = match known {
        Some(known) => known,
        None => known.insert(known_of(reader, to)?),
    };
    let mut numbers = Numbers::default();
    for (map, by_name, changed) in [
        (EVENT_METADATA, &mut known.events, &mut numbers.events),
        (STAT_METADATA, &mut known.stats, &mut numbers.stats),
    ] {
        for (number, metadata) in metadata_of(reader, from, map)? {
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
                value.push_span(reader.source(), metadata.value);
                field(&mut entry, 2, &value);
                field(to, map, &entry);
            }
            changed.insert(number, there);
        }
    }
    for range in fields_of(reader, from, STATS)? {
        let number = numbers.stat(stat_number(reader, range.clone())?);
        if known.plane_stats.insert(number) {
            let stat = reader.renumbered_stat(range, &numbers)?;
            field(to, STATS, &stat);
        }
    }
    Ok((!numbers.are_same()).then(|| Arc::new(numbers)))
}

fn known_of(reader: &mut ProfileReader<'_>, rest: &SpanList) -> Result<Known> {
    let mut by_name = |map| -> Result<ByName> {
        let mut found = ByName::default();
        for (number, metadata) in metadata_of(reader, rest, map)? {
            found.next = found.next.max(number.wrapping_add(1));
            if !metadata.name.is_empty() {
                found.numbers.insert(metadata.name, number);
            }
        }
        Ok(found)
    };
    let (events, stats) = (by_name(EVENT_METADATA)?, by_name(STAT_METADATA)?);
    let mut plane_stats = HashSet::new();
    for range in fields_of(reader, rest, STATS)? {
        plane_stats.insert(stat_number(reader, range)?);
    }
    Ok(Known {
        events,
        stats,
        plane_stats,
    })
}

/// Returns the entries of a metadata map, keyed by their numbers. If several entries have the same
/// number, only the last of them is returned.
fn metadata_of(
    reader: &mut ProfileReader<'_>,
    rest: &SpanList,
    map: u32,
) -> Result<BTreeMap<i64, Metadata>> {
    let mut found = BTreeMap::new();
    for entry in fields_of(reader, rest, map)? {
        let (mut number, mut value) = (0, entry.start..entry.start);
        for part in reader.fields(entry)? {
            match (part.number.0, part.wire_type) {
                (1, WireType::Varint) => number = reader.number(part.value)?,
                (2, WireType::Len) => value = part.value,
                _ => {}
            }
        }
        let name = match reader.values(value.clone(), 2)?.pop() {
            Some(name) => reader.bytes(name)?,
            None => Vec::new(),
        };
        found.insert(number, Metadata { name, value });
    }
    Ok(found)
}

/// Returns the value ranges of all fields with this number in `rest`.
fn fields_of(
    reader: &mut ProfileReader<'_>,
    rest: &SpanList,
    number: u32,
) -> Result<Vec<Range<u64>>> {
    let mut values = Vec::new();
    for span in rest.iter() {
        let Some((_, range)) = span.stored() else {
            continue;
        };
        values.append(&mut reader.values(range, number)?);
    }
    Ok(values)
}

fn stat_number(reader: &mut ProfileReader<'_>, stat: Range<u64>) -> Result<i64> {
    let mut number = 0;
    for part in reader.fields(stat)? {
        if is_number(&part, 1) {
            number = reader.number(part.value)?;
        }
    }
    Ok(number)
}
