//! Detecting repeated keys in a map, in memory that doesn't grow with the number of entries.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use prost_reflect::MessageDescriptor;

use super::SourceView;
use super::occurrences::Occurrences;
use super::shared_hashes::SharedHashes;
use crate::Result;
use crate::path::{FieldRef, MapEntry, MapKey, is_closed, parse_entry, value_message};
use crate::split::read::superseded::is_passable;
use crate::wire::{Field, WireCursor};

/// Approximate maximum memory for detecting repeated keys in a map, in bytes: 8 MiB, enough for the
/// hashes of two million keys, or for 40,000 repeated keys. Beyond that, detection takes several
/// passes over the map.
pub const MAP_KEYS_HELD: usize = 8 << 20;

/// Detector of map keys that may occur in several entries.
pub(super) struct RepeatedKeys<'a> {
    message: &'a SourceView<'a>,
    field: FieldRef,
    entry: MessageDescriptor,
    hasher: RandomState,
    /// Hashes that several entries share, nearly always because they have the same key.
    doubted: SharedHashes,
    /// Facts about the keys that occur in the current window of entries and whose hashes are in
    /// `doubted`. The window ends before the entry with the index `known_to`.
    keys: HashMap<MapKey, RepeatedKey>,
    known_to: u64,
    most_held: usize,
}

/// Facts about a key that may occur in several entries.
#[derive(Debug, Default)]
pub(super) struct RepeatedKey {
    /// Index of the last entry with the key.
    pub(super) last: u64,
    /// Range of the value of the last entry with the key; empty if that entry has no value.
    value: Range<u64>,
    /// True if parts of the last entry's value may become chunks only if the value itself becomes a
    /// chunk.
    closed: bool,
    /// True if no path can lead to the last entry, because of the values of other entries with the
    /// same key.
    pub(super) hidden: bool,
    seen: bool,
}

impl<'a> RepeatedKeys<'a> {
    /// Scans the map `field` of a message; `most_held` is in bytes, see [`MAP_KEYS_HELD`].
    pub(super) fn new(
        message: &'a SourceView<'a>,
        field: FieldRef,
        entry: MessageDescriptor,
        most_held: usize,
    ) -> Result<Self> {
        let hasher = RandomState::new();
        let doubted = SharedHashes::find(most_held / size_of::<u32>(), |see| {
            let mut occurrences = Occurrences::new(message, &field);
            while let Some((_, _, parsed)) = parse(&mut occurrences, &field, &entry)? {
                see(hash(&hasher, &parsed.key));
            }
            Ok(())
        })?;
        let mut repeated = RepeatedKeys {
            message,
            field,
            entry,
            hasher,
            doubted,
            keys: HashMap::new(),
            known_to: u64::MAX,
            most_held,
        };
        if !repeated.doubted.is_none() {
            repeated.look_at(0)?;
        }
        Ok(repeated)
    }

    /// Returns the facts about the key of the entry with the index `place`; `None` if the key
    /// occurs once. Entries must be requested in order.
    pub(super) fn get(&mut self, place: u64, key: &MapKey) -> Result<Option<&RepeatedKey>> {
        if place >= self.known_to {
            self.look_at(place)?;
        }
        Ok(self.keys.get(key))
    }

    /// Collects facts about the keys of the entries from the index `first` on, until the facts take
    /// up the maximum memory.
    fn look_at(&mut self, first: u64) -> Result<()> {
        (self.keys, self.known_to) = (HashMap::new(), u64::MAX);
        let mut room = self.most_held;
        if first > 0 {
            // Facts also depend on earlier entries, so the keys are collected before the facts.
            let mut entries = self.doubted_entries();
            while let Some((place, _, parsed)) = self.next_doubted(&mut entries)? {
                if place >= first && !self.hold(place, parsed.key, &mut room) {
                    break;
                }
            }
        }
        let message = value_message(&self.entry);
        let mut entries = self.doubted_entries();
        while let Some((place, entry, parsed)) = self.next_doubted(&mut entries)? {
            if first == 0 && self.known_to == u64::MAX {
                self.hold(place, parsed.key.clone(), &mut room);
            }
            let Some(key) = self.keys.get_mut(&parsed.key) else {
                continue;
            };
            if key.seen && !key.hidden {
                let value = key.value.clone();
                let source = self.message.source;
                key.hidden = key.closed || !is_passable(source, value, message.as_ref())?;
            }
            let value = parsed.value.as_ref();
            key.closed = value.is_some_and(|value| is_closed(&entry, value));
            key.value = parsed.value.map_or(0..0, |field| field.value);
            key.last = place;
            key.seen = true;
        }
        Ok(())
    }

    /// Adds the key of the entry with the index `place`. Returns false if there is no room for the
    /// key; always returns true for the first key.
    fn hold(&mut self, place: u64, key: MapKey, room: &mut usize) -> bool {
        if self.keys.contains_key(&key) {
            return true;
        }
        let text = match &key {
            MapKey::String(text) => text.len(),
            _ => 0,
        };
        // Counted twice, since half of the hash table may be empty.
        let size = 2 * size_of::<(MapKey, RepeatedKey)>() + text;
        if !self.keys.is_empty() && size > *room {
            self.known_to = place;
            return false;
        }
        *room = room.saturating_sub(size);
        self.keys.insert(key, RepeatedKey::default());
        true
    }

    fn doubted_entries(&self) -> (u64, Occurrences<'a>) {
        (0, Occurrences::new(self.message, &self.field))
    }

    /// Returns the next entry whose key may occur in several entries, and the entry's index.
    fn next_doubted(
        &self,
        (next, occurrences): &mut (u64, Occurrences<'a>),
    ) -> Result<Option<(u64, Field, MapEntry)>> {
        while let Some((_, entry, parsed)) = parse(occurrences, &self.field, &self.entry)? {
            let place = *next;
            *next += 1;
            if self.doubted.contains(hash(&self.hasher, &parsed.key)) {
                return Ok(Some((place, entry, parsed)));
            }
        }
        Ok(None)
    }
}

fn hash(hasher: &RandomState, key: &MapKey) -> u32 {
    (hasher.hash_one(key) >> 32) as u32
}

/// Returns the next entry in a map, and the index of the message's piece that contains it.
pub(super) fn parse(
    occurrences: &mut Occurrences<'_>,
    field: &FieldRef,
    entry: &MessageDescriptor,
) -> Result<Option<(usize, Field, MapEntry)>> {
    let Some((piece, found)) = occurrences.next()? else {
        return Ok(None);
    };
    let message = occurrences.message;
    let mut cursor = WireCursor::new(message.source.input());
    match parse_entry(&mut cursor, found.value.clone(), entry)? {
        Some(parsed) => Ok(Some((piece, found, parsed))),
        None => {
            let why = "has an entry of more than one key and one value";
            Err(message.misused(&field.name(), why))
        }
    }
}
