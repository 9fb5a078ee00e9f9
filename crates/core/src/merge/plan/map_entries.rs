//! Parsing the entries of maps that paths lead into. The key of an entry determines the node of its
//! value.

use std::ops::Range;

use super::node_state::Occurrence;
use super::states::TargetValues;
use super::walk::{Level, Place, Walk, malformed};
use crate::container::NodeId;
use crate::merge::read::chunk_store::ChunkStore;
use crate::path::{EntryKey, KeyForm, LARGEST_HELD_ENTRY, entry_key};
use crate::wire::Input;
use crate::wire::{Field, WireType};
use crate::{Error, ErrorKind, Result};

/// Number of bytes at the beginning of a map entry that are read first, to find the key: 64 KiB.
/// Writers usually put the key at the beginning.
const KEY_WINDOW: u64 = 64 << 10;

impl<S: ChunkStore + ?Sized> Walk<'_, '_, S> {
    pub(in crate::merge) fn map_entry(&mut self, node: NodeId, mut field: Field) -> Result<()> {
        if field.wire_type != WireType::Len {
            return self.pass(node, field);
        }
        let (start, len) = (field.value.start, field.value.end - field.value.start);
        let tree = self.planner.tree;
        let mut size = len.min(KEY_WINDOW);
        let want = self.planner.states.found_field(node, field.number);
        if let Some(TargetValues::Keyed(keys)) = want.map(|want| &want.wanted)
            && size < len
        {
            let form = keys.form();
            let (key, looked) =
                look_for_key(self.cursor.input_mut(), start..start + size, len, form)?;
            if key == EntryKey::Absent && looked < len {
                if len > LARGEST_HELD_ENTRY {
                    return self.large_entry(node, field);
                }
                size = len;
            }
        }
        let want = self.planner.states.found_field(node, field.number);
        let Some((entries, TargetValues::Keyed(keys))) =
            want.map(|want| (want.among(tree.children(node)), &mut want.wanted))
        else {
            return self.pass(node, field);
        };
        let range = start..start + size;
        let (key, looked) = look_for_key(self.cursor.input_mut(), range, len, keys.form())?;
        let (child, ambiguous) = keys.find(key, tree, entries);
        if ambiguous {
            self.planner.need_plain_keys(node, field.number)?;
        }
        let Some(child) = child else {
            return self.pass(node, field);
        };
        // If two entries have the same key, only the last one counts.
        self.planner.forget(child);
        let frame = self.levels.last().and_then(|level| level.frame.clone());
        let entry = Occurrence::new(self.in_use, frame.as_ref(), &field);
        let inner = entry.inner_frame();
        self.planner.states.list(node, child);
        self.planner.states[child].entry = Some(Box::new(entry));
        self.remember(node, &field)?;
        if field.value.is_empty() {
            return self.hop(&mut field);
        }
        self.cursor.set_range(field.value.clone());
        let place = Place::Entry(child, start + looked);
        self.levels.push(Level {
            place,
            end: field.value.end,
            frame: inner,
            group: None,
        });
        Ok(())
    }

    /// Skips a map entry that doesn't begin with its key, and is too large to be held in memory
    /// until the key is found. Fails if a chunk belongs in the entry. Splitters avoid such chunks.
    fn large_entry(&mut self, node: NodeId, field: Field) -> Result<()> {
        let (end, tree) = (self.cursor.end(), self.planner.tree);
        let want = self.planner.states.found_field(node, field.number);
        let Some((entries, TargetValues::Keyed(keys))) =
            want.map(|want| (want.among(tree.children(node)), &mut want.wanted))
        else {
            return self.pass(node, field);
        };
        let (mut found, _) = keys.find(EntryKey::Absent, tree, entries);
        self.cursor.set_range(field.value.clone());
        while let Some(inner) = self.cursor.next()? {
            let is_key = inner.number.0 == 1 && keys.form().on_wire(inner.wire_type).is_some();
            if is_key && inner.value.end - inner.value.start <= KEY_WINDOW {
                let key = EntryKey::of_value(inner.wire_type, self.cursor.bytes(inner.value)?);
                (found, _) = keys.find(key, tree, entries);
            }
        }
        if found.is_some() {
            let len = field.value.end - field.value.start;
            let message = format!("a map entry of {len} bytes whose key is not at its beginning");
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(field.value.start));
        }
        self.cursor.set_range(field.end..end);
        self.remember(node, &field)
    }

    pub(in crate::merge) fn in_entry(
        &mut self,
        value: NodeId,
        key_end: u64,
        mut field: Field,
    ) -> Result<()> {
        if field.start >= key_end && self.is_key(value, &field) {
            let message = "a map entry has two keys, with its value between them";
            return Err(malformed(message.into(), field.start));
        }
        if field.number.0 == 2 && self.planner.types.of(value).takes(field.wire_type) {
            return self.meet(value, None, field);
        }
        self.hop(&mut field)
    }

    /// Returns true if a field of a map entry is the entry's key.
    fn is_key(&mut self, value: NodeId, field: &Field) -> bool {
        let Some((map, step)) = self.planner.tree.above(value) else {
            return false;
        };
        let want = self.planner.states.field(map, step.field);
        field.number.0 == 1
            && want.is_some_and(|want| match &want.wanted {
                TargetValues::Keyed(keys) => keys.form().on_wire(field.wire_type).is_some(),
                TargetValues::Single | TargetValues::Indexed(_) => false,
            })
    }
}

/// Searches the range `part`, which starts at the beginning of a map entry of `len` bytes, for the
/// entry's key. Returns the key, if found, and the number of bytes searched.
fn look_for_key<I: Input>(
    input: &mut I,
    part: Range<u64>,
    len: u64,
    form: KeyForm,
) -> Result<(EntryKey<'_>, u64)> {
    let want = usize::try_from(part.end - part.start).unwrap_or(usize::MAX);
    let window = input.fetch(part.start, want)?;
    let most = usize::try_from(len).unwrap_or(usize::MAX);
    entry_key(window.get(..most).unwrap_or(window), len, form).map_err(|error| {
        let inner = error.offset().unwrap_or(0);
        Error::new(error.kind(), "the map entry is truncated").at_offset(part.start + inner)
    })
}
