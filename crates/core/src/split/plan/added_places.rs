//! Checking that a merge will find the elements that the paths of added chunks select by index.

use std::collections::BTreeMap;

use prost_reflect::{Kind, MessageDescriptor};

use super::decisions::Added;
use super::split_plan::Content;
use crate::container::ChunkKind;
use crate::path::{FieldPath, MapKey, Select, Step, parse_entry, step_in};
use crate::split::read::source::Source;
use crate::wire::{Field, Input, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// Fails if an index in the path of an added chunk exceeds the number of elements in the repeated
/// field, since elements before the index would be missing.
///
/// Simulates a merge: first the message, then the added chunks in the order of their paths. An
/// index that equals the number of elements adds an element to the field.
///
/// # Errors
///
/// [`ErrorKind::InvalidPath`] with the path of the element after the gap; any wire format error in
/// a message that contains the elements.
pub(super) fn check_places(added: &[Added], source: &Source) -> Result<()> {
    let has_index = |added: &Added| {
        let steps = added.chunk.path().steps();
        steps
            .iter()
            .any(|step| matches!(step.select, Select::Index(_)))
    };
    if !added.iter().any(has_index) {
        return Ok(());
    }
    let descriptor = source.descriptor();
    let mut root = Place::default();
    for added in added {
        root.add(added.chunk.path(), descriptor)?;
    }
    root.walk(&mut WireCursor::new(source.input()))?;
    let mut in_order: Vec<&Added> = added.iter().collect();
    in_order.sort_by_key(|added| added.chunk.path());
    for added in in_order {
        let path = added.chunk.path();
        let place = root.reach(path).map_err(|(at, len)| {
            let until: FieldPath = path.steps().iter().take(at + 1).cloned().collect();
            let message = format!("the index leaves a gap: there are {len} elements");
            Error::new(ErrorKind::InvalidPath, message).at_path(until.display(Some(descriptor)))
        })?;
        if let (Content::Added(bytes), ChunkKind::Message) =
            (&added.chunk.content, added.chunk.kind())
        {
            place.walk(&mut WireCursor::new(&bytes[..]))?;
        }
    }
    Ok(())
}

/// A value on the path of an added chunk.
#[derive(Default)]
struct Place {
    fields: BTreeMap<u32, Below>,
}

/// A field on the path of an added chunk.
#[derive(Default)]
struct Below {
    /// Number of elements so far, if the field is repeated.
    len: u64,
    itself: Option<Place>,
    elements: BTreeMap<u64, Place>,
    entries: BTreeMap<MapKey, Place>,
    /// Type of the entries; `None` if the field is not a map.
    entry: Option<MessageDescriptor>,
}

impl Place {
    /// Adds all values along a path.
    fn add(&mut self, path: &FieldPath, root: &MessageDescriptor) -> Result<()> {
        let (mut place, mut message) = (self, Some(root.clone()));
        for step in path.steps() {
            let Some(parent) = message else {
                return Ok(());
            };
            let (field, target) = step_in(&parent, step)?;
            let below = place.fields.entry(step.field.0).or_default();
            if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
                below.entry = Some(entry);
            }
            place = below.at(step);
            message = target.kind.message().cloned();
        }
        Ok(())
    }

    /// Returns the value at the end of a path. If an index along the path equals the number of
    /// elements in its field, counts one more element. A larger index would leave a gap. For the
    /// first such index, returns an error with the position of the index's step in the path, and
    /// the number of elements in the step's field.
    fn reach(&mut self, path: &FieldPath) -> Result<&mut Place, (usize, u64)> {
        let mut place = self;
        for (at, step) in path.steps().iter().enumerate() {
            let below = place.fields.entry(step.field.0).or_default();
            if let Select::Index(index) = step.select {
                match index.cmp(&below.len) {
                    std::cmp::Ordering::Greater => return Err((at, below.len)),
                    std::cmp::Ordering::Equal => below.len += 1,
                    std::cmp::Ordering::Less => {}
                }
            }
            place = below.at(step);
        }
        Ok(place)
    }

    /// Counts the elements in the message at `cursor`. A merge merges this message into the value.
    // Recursion is as deep as the paths, which were checked.
    fn walk<I: Input>(&mut self, cursor: &mut WireCursor<I>) -> Result<()> {
        let end = cursor.end();
        while let Some(field) = cursor.next()? {
            if let Some(below) = self.fields.get_mut(&field.number.0) {
                below.meet(&field, cursor)?;
                cursor.set_range(field.end..end);
            }
        }
        Ok(())
    }

    /// Sets the number of elements to 0 in all fields of this value, and of the values inside it.
    fn forget(&mut self) {
        for below in self.fields.values_mut() {
            below.len = 0;
            let elements = below.elements.values_mut();
            let all = elements
                .chain(below.entries.values_mut())
                .chain(&mut below.itself);
            all.for_each(Place::forget);
        }
    }
}

impl Below {
    fn at(&mut self, step: &Step) -> &mut Place {
        match &step.select {
            Select::Field => self.itself.get_or_insert_default(),
            Select::Index(index) => self.elements.entry(*index).or_default(),
            Select::Key(key) => self.entries.entry(key.clone()).or_default(),
        }
    }

    /// Counts one occurrence of the field, and the elements inside that occurrence.
    fn meet<I: Input>(&mut self, field: &Field, cursor: &mut WireCursor<I>) -> Result<()> {
        let mut value = field.value.clone();
        let place = if let Some(entry) = &self.entry {
            let parsed = match field.wire_type {
                WireType::Len => parse_entry(cursor, value.clone(), entry)?,
                _ => None,
            };
            parsed.and_then(|parsed| {
                let place = self.entries.get_mut(&parsed.key)?;
                // An entry replaces an earlier entry with the same key.
                place.forget();
                value = parsed.value?.value;
                Some(place)
            })
        } else {
            let index = self.len;
            self.len += 1;
            self.elements.get_mut(&index).or(self.itself.as_mut())
        };
        if let Some(place) = place.filter(|place| !place.fields.is_empty()) {
            cursor.set_range(value);
            place.walk(cursor)?;
        }
        Ok(())
    }
}
