//! Values of the source, found by hopping to them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use prost_reflect::{Kind, MessageDescriptor};

use super::entry::{key_is_addressable, parse_entry};
use super::options::Profile;
use super::size::check_field;
use super::source::Source;
use crate::path::{FieldPath, FieldRef, MapKey, Step};
use crate::wire::{Field, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// One appearance of a field on the wire, and the one that encloses it. Chains lead up to the root,
/// which has none.
#[derive(Debug)]
pub(crate) struct Occurrence {
    pub(crate) field: Field,
    pub(crate) parent: Chain,
}

pub(crate) type Chain = Option<Arc<Occurrence>>;

pub(crate) fn occurrence(field: Field, parent: &Chain) -> Chain {
    Some(Arc::new(Occurrence {
        field,
        parent: parent.clone(),
    }))
}

/// Where the content of a message lies: all of its source for the root.
pub(crate) fn content(chain: &Chain, source: &Source) -> Range<u64> {
    chain.as_ref().map_or(0..source.size(), |occurrence| {
        occurrence.field.value.clone()
    })
}

/// A value of the message that is being split: where it is, its path, and what its type says it is.
///
/// Finding one reads tags and lengths only; its size is known without looking inside.
#[derive(Clone, Debug)]
pub struct View {
    pub(crate) source: Source,
    pub(crate) path: FieldPath,
    /// The wire's pieces of the value: one, except for a singular submessage that was written in
    /// several, and the value of a map entry that was left out.
    pub(crate) pieces: Vec<Chain>,
    pub(crate) kind: ViewKind,
    /// Whether a path says the same to every reader: nothing on the way is superseded, and its
    /// keys may stand in paths of the profile.
    pub(crate) addressable: bool,
    profile: Profile,
}

/// What a [`View`] shows.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum ViewKind {
    /// A message of this type.
    Message(MessageDescriptor),
    /// A bytes or string value.
    Bytes,
    /// An element of a repeated bytes or string field, or such a value in a map: only the extended
    /// profile has paths for it.
    Element,
}

// By hand: the `Debug` of a descriptor doesn't end for a type that contains itself.
impl std::fmt::Debug for ViewKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ViewKind::Message(descriptor) => f
                .debug_tuple("Message")
                .field(&descriptor.full_name())
                .finish(),
            ViewKind::Bytes => f.write_str("Bytes"),
            ViewKind::Element => f.write_str("Element"),
        }
    }
}

impl View {
    pub(crate) fn root(source: &Source, profile: Profile) -> View {
        View {
            kind: ViewKind::Message(source.descriptor().clone()),
            source: source.clone(),
            path: FieldPath::root(),
            pieces: vec![None],
            addressable: true,
            profile,
        }
    }

    /// The path from the root of the message being split.
    pub fn path(&self) -> &FieldPath {
        &self.path
    }

    /// What the value is.
    pub fn kind(&self) -> &ViewKind {
        &self.kind
    }

    /// The type of the message; `None` for a value that is no message.
    pub fn descriptor(&self) -> Option<&MessageDescriptor> {
        match &self.kind {
            ViewKind::Message(descriptor) => Some(descriptor),
            _ => None,
        }
    }

    /// Bytes of the value as it is in the source, without its tag and length. Costs nothing.
    pub fn size(&self) -> u64 {
        self.contents().map(|range| range.end - range.start).sum()
    }

    /// The bytes of the value: read from the source and copied.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] or [`ErrorKind::SourceChanged`] if reading fails.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for range in self.contents() {
            let mut cursor = WireCursor::new(self.source.input());
            bytes.extend_from_slice(cursor.bytes(range)?);
        }
        Ok(bytes)
    }

    pub(crate) fn contents(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.pieces.iter().map(|chain| content(chain, &self.source))
    }

    /// Hops over the message's own fields, without looking into them.
    ///
    /// A field that its type has, but writes otherwise, is an error: readers would take it for an
    /// unknown field, and most likely the message is of another type than was said.
    pub(crate) fn check_fields(&self) -> Result<()> {
        let Some(descriptor) = self.descriptor() else {
            return Ok(());
        };
        let mut checked = None;
        for range in self.contents() {
            let mut cursor = WireCursor::new(self.source.input());
            cursor.set_range(range);
            while let Some(at) = cursor.next().map_err(|e| e.at_path(self.display_path()))? {
                if checked != Some((at.number, at.wire_type)) {
                    checked = Some((at.number, at.wire_type));
                    check_field(descriptor, &at).map_err(|e| e.at_path(self.display_path()))?;
                }
            }
        }
        Ok(())
    }

    /// The singular message, bytes or string field `name`; `None` if it isn't there.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if there is no such field or it is repeated or a scalar;
    /// [`ErrorKind::InvalidMessage`] if the source is malformed.
    pub fn get(&self, name: &str) -> Result<Option<View>> {
        let field = self.field(name)?;
        if field.is_list() || field.is_map() {
            return Err(self.misused(name, "is repeated"));
        }
        let kind = self.view_kind(&field, false)?;
        let mut found = self.occurrences(&field)?;
        let mut addressable = !self.superseded(&field)?;
        if kind == ViewKind::Bytes {
            // Were an earlier value empty too, there would be two placeholders.
            let last = found.len().saturating_sub(1);
            addressable &= found
                .drain(..last)
                .all(|chain| !content(&chain, &self.source).is_empty());
        }
        let path = self.path.join(Step::field(field.number()));
        Ok((!found.is_empty()).then(|| self.view(path, found, kind, addressable)))
    }

    /// The elements of the repeated message, bytes or string field `name`.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), for a field that is not repeated.
    pub fn repeated(&self, name: &str) -> Result<Vec<View>> {
        let field = self.field(name)?;
        if !field.is_list() {
            return Err(self.misused(name, "is not repeated"));
        }
        let kind = self.view_kind(&field, true)?;
        let elements = self.occurrences(&field)?.into_iter().zip(0..);
        Ok(elements
            .map(|(chain, index)| {
                let path = self.path.join(Step::index(field.number(), index));
                self.view(path, vec![chain], kind.clone(), true)
            })
            .collect())
    }

    /// The entries of the map field `name`, whose values are messages, bytes or strings, in the
    /// order of the source.
    ///
    /// Of entries with the same key only the last is there: it is the one that counts. Some writers
    /// leave out a value that is empty: it is there, of size 0.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), for a field that is no map, or with an entry that is written in
    /// pieces.
    pub fn map(&self, name: &str) -> Result<Vec<(MapKey, View)>> {
        let field = self.field(name)?;
        let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) else {
            return Err(self.misused(name, "is no map"));
        };
        let value_field = FieldRef::Field(entry.map_entry_value_field());
        let kind = self.view_kind(&value_field, true)?;
        let mut cursor = WireCursor::new(self.source.input());
        // What counts so far of each key, and where that stands among the entries.
        let mut entries: Vec<Option<(MapKey, View)>> = Vec::new();
        let mut places: HashMap<MapKey, usize> = HashMap::new();
        for chain in self.occurrences(&field)? {
            let range = content(&chain, &self.source);
            let Some(parsed) = parse_entry(&mut cursor, range, &entry)? else {
                return Err(self.misused(name, "has an entry of more than one key and one value"));
            };
            let key = parsed.key;
            let path = self.path.join(Step::key(field.number(), key.clone()));
            let value = parsed.value.map(|value| occurrence(value, &chain));
            let superseded = places
                .insert(key.clone(), entries.len())
                .and_then(|place| entries[place].take());
            // Were an earlier value empty, there would be two placeholders.
            let key_kind = entry.map_entry_key_field().kind();
            let addressable = key_is_addressable(&key, &key_kind, self.profile)
                && superseded.is_none_or(|(_, view)| view.addressable && view.size() > 0);
            let view = self.view(path, Vec::from_iter(value), kind.clone(), addressable);
            entries.push(Some((key, view)));
        }
        Ok(entries.into_iter().flatten().collect())
    }

    fn view(&self, path: FieldPath, pieces: Vec<Chain>, kind: ViewKind, addressable: bool) -> View {
        let addressable = self.addressable && addressable;
        View {
            source: self.source.clone(),
            path,
            pieces,
            kind,
            addressable,
            profile: self.profile,
        }
    }

    /// Whether another member of the field's oneof comes after it on the wire.
    fn superseded(&self, field: &FieldRef) -> Result<bool> {
        let Some(oneof) = field.oneof() else {
            return Ok(false);
        };
        let members: Vec<u32> = oneof.fields().map(|member| member.number()).collect();
        let mut seen = false;
        for piece in &self.pieces {
            let mut cursor = WireCursor::new(self.source.input());
            cursor.set_range(content(piece, &self.source));
            while let Some(at) = cursor.next()? {
                let own = at.number.0 == field.number();
                if seen && !own && members.contains(&at.number.0) {
                    return Ok(true);
                }
                seen |= own;
            }
        }
        Ok(false)
    }

    fn field(&self, name: &str) -> Result<FieldRef> {
        let descriptor = self
            .descriptor()
            .ok_or_else(|| self.misused(name, "lies below no message"))?;
        FieldRef::by_text(descriptor, name).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidPath,
                format!("{} has no field {name}", descriptor.full_name()),
            )
            .at_path(self.display_path())
        })
    }

    fn view_kind(&self, field: &FieldRef, element: bool) -> Result<ViewKind> {
        match field.kind() {
            Kind::Message(message) => Ok(ViewKind::Message(message)),
            Kind::Bytes | Kind::String if element => Ok(ViewKind::Element),
            Kind::Bytes | Kind::String => Ok(ViewKind::Bytes),
            _ => Err(self.misused(&field.name(), "is neither message, bytes nor string")),
        }
    }

    fn occurrences(&self, field: &FieldRef) -> Result<Vec<Chain>> {
        let expected = if field.is_group() {
            WireType::StartGroup
        } else {
            WireType::Len
        };
        let mut found = Vec::new();
        for piece in &self.pieces {
            let mut cursor = WireCursor::new(self.source.input());
            cursor.set_range(content(piece, &self.source));
            while let Some(at) = cursor.next().map_err(|e| e.at_path(self.display_path()))? {
                if at.number.0 == field.number() && at.wire_type == expected {
                    found.push(occurrence(at, piece));
                }
            }
        }
        Ok(found)
    }

    /// The path with names.
    pub fn display_path(&self) -> String {
        self.path.display(Some(self.source.descriptor()))
    }

    #[cold]
    fn misused(&self, name: &str, what: &str) -> Error {
        Error::new(ErrorKind::InvalidPath, format!("field {name} {what}"))
            .at_path(self.display_path())
    }
}
