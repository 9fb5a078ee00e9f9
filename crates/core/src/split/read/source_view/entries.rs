//! Iterating over the entries of a map without storing them.

use prost_reflect::{Kind, MessageDescriptor};

use super::occurrences::Occurrences;
use super::repeated_keys::{MAP_KEYS_HELD, RepeatedKeys, parse};
use super::{Like, Pieces, SourceView};
use crate::Result;
use crate::container::key_is_addressable;
use crate::path::{FieldRef, MapEntry, MapKey, Step};

/// An iterator over the entries of a map, with their keys, from [`SourceView::map`]. It ends after
/// an error.
pub struct Entries<'a> {
    occurrences: Occurrences<'a>,
    field: FieldRef,
    entry: MessageDescriptor,
    key_kind: Kind,
    like: Like,
    repeated: RepeatedKeys<'a>,
    place: u64,
}

// Implemented manually: a descriptor's `Debug` recurses endlessly for a type that contains itself.
impl std::fmt::Debug for Entries<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entries")
            .field("field", &self.field.number())
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl<'a> Entries<'a> {
    pub(super) fn new(
        message: &'a SourceView<'a>,
        field: FieldRef,
        entry: MessageDescriptor,
        like: Like,
    ) -> Result<Self> {
        Self::holding(MAP_KEYS_HELD, message, field, entry, like)
    }

    fn holding(
        most_held: usize,
        message: &'a SourceView<'a>,
        field: FieldRef,
        entry: MessageDescriptor,
        like: Like,
    ) -> Result<Self> {
        let repeated = RepeatedKeys::new(message, field.clone(), entry.clone(), most_held)?;
        Ok(Entries {
            occurrences: Occurrences::new(message, &field),
            key_kind: entry.map_entry_key_field().kind(),
            field,
            entry,
            like,
            repeated,
            place: 0,
        })
    }

    fn advance(&mut self) -> Result<Option<(MapKey, SourceView<'a>)>> {
        while let Some(next) = parse(&mut self.occurrences, &self.field, &self.entry)? {
            let (piece, entry, MapEntry { key, value }) = next;
            let place = self.place;
            self.place += 1;
            let repeated = self.repeated.get(place, &key)?;
            if repeated.is_some_and(|repeated| repeated.last != place) {
                continue;
            }
            let message = self.occurrences.message;
            let addressable = repeated.is_none_or(|repeated| !repeated.hidden)
                && key_is_addressable(&key, &self.key_kind, message.profile);
            let step = Step::key(entry.number.0, key.clone());
            let pieces = Pieces::Entry(piece, entry, value);
            return Ok(Some((
                key,
                message.child(step, pieces, self.like, addressable),
            )));
        }
        Ok(None)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(MapKey, SourceView<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            self.occurrences.end();
        }
        next.transpose()
    }
}

impl std::iter::FusedIterator for Entries<'_> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost_reflect::ReflectMessage;
    use prost_reflect::prost_types::Struct;

    use super::*;
    use crate::container::Profile;
    use crate::split::read::source::Source;

    /// Serialized values of a `google.protobuf.Struct`. The flag of a value is true if a merge can
    /// skip the value.
    const VALUES: [(&[u8], bool); 4] = [
        (b"\x1a\x01a", true),
        (b"\x20\x01", true),
        // An empty value, and one with a message that ends before its declared length.
        (b"", false),
        (b"\x2a\x7f\x01", false),
    ];

    /// Returns, by comparing all entries, the last entry with each key: the key, the index of the
    /// entry, and true if a path can lead to the entry.
    fn last_ones(entries: &[(usize, usize)]) -> Vec<(String, u64, bool)> {
        let mut end = 0;
        let mut last = Vec::new();
        for (at, &(key, value)) in entries.iter().enumerate() {
            end += entry(key, value).len() as u64;
            if entries[at + 1..].iter().any(|&(other, _)| other == key) {
                continue;
            }
            let mut earlier = entries[..at].iter().filter(|&&(other, _)| other == key);
            let led_to = earlier.all(|&(_, value)| VALUES[value].1);
            last.push((format!("{key:0>3}"), end, led_to));
        }
        last
    }

    fn entry(key: usize, value: usize) -> Vec<u8> {
        let value = VALUES[value].0;
        let size = u8::try_from(value.len()).unwrap();
        let mut entry = vec![0x0a, 7 + size, 0x0a, 3];
        entry.extend(format!("{key:0>3}").bytes());
        entry.extend([0x12, size]);
        entry.extend(value);
        entry
    }

    proptest! {
        #[test]
        fn of_each_key_the_last_entry_is_there_however_few_keys_are_held(
            entries in prop_oneof![
                prop::collection::vec((0_usize..1000, 0_usize..4), 0..60),
                prop::collection::vec((0_usize..30, 0_usize..4), 0..60),
                prop::collection::vec((0_usize..6, 0_usize..2), 0..60),
            ],
            most_held in prop_oneof![8_usize..100, 100_usize..3000],
        ) {
            let bytes: Vec<u8> = entries.iter().flat_map(|&(key, value)| entry(key, value)).collect();
            let source = Source::from_bytes(bytes, Struct::default().descriptor());
            let root = SourceView::root(&source, Profile::Extended);
            let field = root.field("fields").unwrap();
            let kind = field.kind().as_message().cloned().unwrap();
            let found = Entries::holding(most_held, &root, field, kind, Like::Message).unwrap();
            let found: Vec<_> = found
                .map(|found| {
                    let (key, view) = found.unwrap();
                    let Pieces::Entry(_, entry, _) = &view.pieces else {
                        panic!("not an entry");
                    };
                    let MapKey::String(key) = key else {
                        panic!("not a string");
                    };
                    (key, entry.end, view.addressable)
                })
                .collect();
            prop_assert_eq!(found, last_ones(&entries));
        }
    }
}
