//! Dividing records that are too large for XLA's reader. Each large value is moved to a separate
//! record, which overrides the value at a path.

use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};
use proto_splitter_core::Result;
use proto_splitter_core::path::{FieldPath, Step};
use proto_splitter_core::spans::SpanList;
use proto_splitter_core::wire::{Field, SourceInput, WireCursor, WireType};
use record_file::ReadAt;

use super::MAX_MERGE_RECORD;
use super::record::{ListBytes, Record, field};
use crate::manifest::RecordKind;

/// Minimum size of a value to move to a separate record, in bytes. Moving smaller values would
/// result in too many records.
const MIN_VALUE: u64 = 1 << 20;

/// Maximum nesting depth of messages, as in protobuf's own parsers.
const MAX_DEPTH: usize = 100;

/// A value that can be moved from a record to a separate record.
struct Value {
    kind: RecordKind,
    /// Range of the value in the record.
    range: Range<u64>,
}

/// Moves values of a record to separate records until the record is small enough. `root` is the
/// type of the message. Returns the remaining record, followed by the records of the moved values.
/// Returns `None` if the record would still be too large.
pub(super) fn cut(
    message: &dyn ReadAt,
    record: &Record,
    root: &MessageDescriptor,
) -> Result<Option<Vec<Record>>> {
    let bytes = ListBytes {
        message,
        list: &record.spans,
    };
    let size = record.spans.len();
    let mut search = Search {
        cursor: WireCursor::new(SourceInput::new(&bytes, size)),
        record,
        path: FieldPath::root(),
        found: Vec::new(),
    };
    search.message(0..size, root, false)?;
    let mut values = search.found;
    values.sort_by_key(|value| std::cmp::Reverse(value.range.end - value.range.start));
    let (mut leaving, mut left) = (Vec::new(), size);
    for value in values {
        if left <= MAX_MERGE_RECORD {
            break;
        }
        left -= value.range.end - value.range.start;
        leaving.push(value);
    }
    leaving.sort_by_key(|value| value.range.start);
    let mut cursor = WireCursor::new(SourceInput::new(&bytes, size));
    let rest = without(&mut cursor, &record.spans, 0..size, &leaving)?;
    // The remaining size isn't known in advance, as the length prefixes of enclosing messages may
    // shrink, too.
    if rest.len() > MAX_MERGE_RECORD {
        return Ok(None);
    }
    let mut records = vec![Record::merge(rest)];
    for value in leaving {
        let mut spans = SpanList::default();
        spans.append_range(&record.spans, value.range);
        records.push(Record {
            kind: value.kind,
            spans,
            first: None,
        });
    }
    Ok(Some(records))
}

struct Search<'a> {
    cursor: WireCursor<SourceInput<'a, ListBytes<'a>>>,
    record: &'a Record,
    path: FieldPath,
    found: Vec<Value>,
}

impl Search<'_> {
    /// Finds the values in a message that can be moved to separate records. If the message has
    /// large parts that can't be moved, finds the message as a whole instead, unless it is the root
    /// message.
    fn message(
        &mut self,
        range: Range<u64>,
        descriptor: &MessageDescriptor,
        may_leave: bool,
    ) -> Result<()> {
        if self.path.steps().len() > MAX_DEPTH {
            return Ok(());
        }
        let fields = self.cursor.fields(range.clone())?;
        let (first, mut is_bulky) = (self.found.len(), false);
        let mut counts = std::collections::BTreeMap::<u32, u64>::new();
        for field in &fields {
            let index = counts.entry(field.number.0).or_default();
            let at = *index;
            *index += 1;
            if field.value.end - field.value.start < MIN_VALUE {
                continue;
            }
            let known = descriptor.get_field(field.number.0);
            let Some(known) = known.filter(|known| !known.is_map() && !known.is_group()) else {
                is_bulky = true;
                continue;
            };
            // The values of a singular field that occurs several times aren't moved, since their
            // order matters.
            let is_single = |other: &&Field| other.number == field.number;
            if !known.is_list() && fields.iter().filter(is_single).count() > 1 {
                is_bulky = true;
                continue;
            }
            let number = field.number.0;
            self.path.push(if known.is_list() {
                Step::index(number, at + self.first_of(number))
            } else {
                Step::field(number)
            });
            match known.kind() {
                Kind::Message(inside) => self.message(field.value.clone(), &inside, true)?,
                // XLA's reader accepts an override of a string or bytes field whose path has one
                // step, even though XLA's writers only create them for three types.
                Kind::String | Kind::Bytes => self.found.push(Value {
                    kind: RecordKind::Override(self.path.clone()),
                    range: field.value.clone(),
                }),
                _ => is_bulky = true,
            }
            self.path.pop();
        }
        if is_bulky && may_leave {
            self.found.truncate(first);
            self.found.push(Value {
                kind: RecordKind::OverrideMessage(self.path.clone()),
                range,
            });
        }
        Ok(())
    }

    /// Returns the number of elements of this repeated field in earlier records; 0 if earlier
    /// records can't contain elements of the field.
    fn first_of(&self, number: u32) -> u64 {
        let Some((path, first)) = &self.record.first else {
            return 0;
        };
        let way = self.path.steps().iter().map(|step| step.field.0);
        let is_way = way.chain([number]).eq(path.iter().copied());
        if is_way { *first } else { 0 }
    }
}

/// Returns the content of a range of a record, with the values in `leaving` replaced by empty
/// values.
fn without(
    cursor: &mut WireCursor<SourceInput<'_, ListBytes<'_>>>,
    record: &SpanList,
    range: Range<u64>,
    leaving: &[Value],
) -> Result<SpanList> {
    let (mut list, mut at) = (SpanList::default(), range.start);
    let mut leaving = leaving;
    while let Some(next) = leaving.first() {
        cursor.set_range(at..range.end);
        let Some(found) = cursor.next()? else {
            break;
        };
        at = found.end;
        if found.wire_type != WireType::Len || found.value.end <= next.range.start {
            list.append_range(record, found.start..found.end);
            continue;
        }
        let is_inside = |value: &Value| value.range.end <= found.value.end;
        let count = leaving.iter().take_while(|value| is_inside(value)).count();
        let (inside, behind) = leaving.split_at(count);
        leaving = behind;
        let rest = if next.range == found.value {
            SpanList::default()
        } else {
            without(cursor, record, found.value.clone(), inside)?
        };
        field(&mut list, found.number.0, &rest);
    }
    list.append_range(record, at..range.end);
    Ok(list)
}
