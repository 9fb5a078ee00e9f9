//! Going through the entries of a map without holding them, and through whatever a field occurs as.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};
use record_file::ReadAt;

use super::{Like, Pieces, SourceView};
use crate::Result;
use crate::container::key_is_addressable;
use crate::path::{FieldRef, MapEntry, MapKey, Step, is_closed, parse_entry};
use crate::split::read::superseded::is_passable;
use crate::wire::{Field, FieldNumber, SourceInput, WireCursor, WireType, short_tag};

/// The appearances of a field in a message, with the piece of the message that each is in.
pub(in crate::split) struct Occurrences<'a> {
    message: &'a SourceView<'a>,
    cursor: WireCursor<SourceInput<'a, dyn ReadAt>>,
    number: FieldNumber,
    wire_type: WireType,
    /// The piece that comes next.
    piece: usize,
}

impl std::fmt::Debug for Occurrences<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Occurrences")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl<'a> Occurrences<'a> {
    pub(in crate::split) fn new(message: &'a SourceView<'a>, field: &FieldRef) -> Self {
        let mut cursor = WireCursor::new(message.source.input());
        cursor.set_range(0..0);
        let number = FieldNumber(field.number());
        let wire_type = match field.is_group() {
            true => WireType::StartGroup,
            false => WireType::Len,
        };
        Occurrences {
            message,
            cursor,
            number,
            wire_type,
            piece: 0,
        }
    }

    #[inline]
    pub(in crate::split) fn next(&mut self) -> Result<Option<(usize, Field)>> {
        loop {
            let next = self.cursor.next();
            match next.map_err(|error| error.at_path(self.message.display_path()))? {
                Some(field) => {
                    if field.number == self.number && field.wire_type == self.wire_type {
                        return Ok(Some((self.piece - 1, field)));
                    }
                }
                None if self.piece == self.message.piece_count() => return Ok(None),
                None => {
                    self.cursor.set_range(self.message.content(self.piece));
                    self.piece += 1;
                }
            }
        }
    }

    /// The tag, if it is one byte and of what is length-delimited.
    pub(super) fn tag(&self) -> Option<u8> {
        short_tag(self.number, self.wire_type)
    }

    /// Goes on at another place of the same piece.
    pub(super) fn go_on_at(&mut self, position: u64) {
        let end = self.cursor.end();
        self.cursor.set_range(position..end);
    }

    pub(super) fn position(&self) -> u64 {
        self.cursor.position()
    }

    /// What is at hand of the piece behind what was found last.
    pub(super) fn ahead(&self) -> Cow<'a, [u8]> {
        let rest = self.cursor.position()..self.cursor.end();
        self.cursor.input().ahead(rest)
    }

    pub(super) fn end(&mut self) {
        self.cursor.set_range(0..0);
        self.piece = self.message.piece_count();
    }
}

/// The entries of a map, with their keys; from [`SourceView::map`]. After an error there are no more.
#[derive(Debug)]
pub struct Entries<'a> {
    occurrences: Occurrences<'a>,
    entry: MessageDescriptor,
    name: String,
    like: Like,
    hasher: RandomState,
    /// Hashes that keys share, which are nearly always those of one key.
    doubted: HashSet<u64>,
    repeated: HashMap<MapKey, Repeated>,
    place: u64,
}

/// A key that may occur more than once.
#[derive(Debug)]
struct Repeated {
    /// The place of the last entry that has it, and where its value is; empty if it has none.
    last: u64,
    value: Range<u64>,
    closed: bool,
    /// Whether paths can lead to it past the values of the others.
    addressable: bool,
}

impl<'a> Entries<'a> {
    pub(in crate::split) fn new(
        message: &'a SourceView<'a>,
        field: &FieldRef,
        entry: MessageDescriptor,
        like: Like,
    ) -> Result<Self> {
        let mut entries = Entries {
            occurrences: Occurrences::new(message, field),
            entry,
            name: field.name(),
            like,
            hasher: RandomState::new(),
            repeated: HashMap::new(),
            doubted: HashSet::new(),
            place: 0,
        };
        let mut hashes = Vec::new();
        while let Some((_, _, parsed)) = entries.parse()? {
            hashes.push(entries.hasher.hash_one(&parsed.key));
        }
        hashes.sort_unstable();
        let pairs = hashes.windows(2).filter(|pair| pair[0] == pair[1]);
        entries.doubted = pairs.map(|pair| pair[0]).collect();
        if !entries.doubted.is_empty() {
            entries.find_repeated(field)?;
        }
        entries.occurrences = Occurrences::new(message, field);
        Ok(entries)
    }

    /// Which entry is the last of each key that occurs more than once.
    fn find_repeated(&mut self, field: &FieldRef) -> Result<()> {
        self.occurrences = Occurrences::new(self.occurrences.message, field);
        let message = match self.entry.map_entry_value_field().kind() {
            Kind::Message(message) => Some(message),
            _ => None,
        };
        let mut place = 0;
        while let Some((_, entry, parsed)) = self.parse()? {
            if self.doubted.contains(&self.hasher.hash_one(&parsed.key)) {
                let value = parsed.value.as_ref();
                let closed = value.is_some_and(|value| is_closed(&entry, value));
                let value = parsed.value.map_or(0..0, |field| field.value);
                let addressable = match self.repeated.get(&parsed.key) {
                    None => true,
                    Some(earlier) => {
                        let source = self.occurrences.message.source;
                        earlier.addressable
                            && !earlier.closed
                            && is_passable(source, earlier.value.clone(), message.as_ref())?
                    }
                };
                let repeated = Repeated {
                    last: place,
                    value,
                    closed,
                    addressable,
                };
                self.repeated.insert(parsed.key, repeated);
            }
            place += 1;
        }
        Ok(())
    }

    /// The next entry, with the piece of the message that it is in.
    fn parse(&mut self) -> Result<Option<(usize, Field, MapEntry)>> {
        let Some((piece, entry)) = self.occurrences.next()? else {
            return Ok(None);
        };
        let message = self.occurrences.message;
        let mut cursor = WireCursor::new(message.source.input());
        match parse_entry(&mut cursor, entry.value.clone(), &self.entry)? {
            Some(parsed) => Ok(Some((piece, entry, parsed))),
            None => {
                let why = "has an entry of more than one key and one value";
                Err(message.misused(&self.name, why))
            }
        }
    }

    fn advance(&mut self) -> Result<Option<(MapKey, SourceView<'a>)>> {
        while let Some((piece, entry, parsed)) = self.parse()? {
            let MapEntry { key, value } = parsed;
            let place = self.place;
            self.place += 1;
            let repeated = self.repeated.get(&key);
            if repeated.is_some_and(|repeated| repeated.last != place) {
                continue;
            }
            let message = self.occurrences.message;
            let kind = self.entry.map_entry_key_field().kind();
            let addressable = key_is_addressable(&key, &kind, message.profile)
                && repeated.is_none_or(|repeated| repeated.addressable);
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
