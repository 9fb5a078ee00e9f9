//! Values of the message being split, located by scanning the message.

pub(in crate::split) mod elements;
pub(in crate::split) mod entries;
pub(in crate::split) mod occurrences;
pub(in crate::split) mod repeated_keys;
mod shared_hashes;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use prost_reflect::{Kind, MessageDescriptor};

use super::source::Source;
use crate::container::Profile;
use crate::path::{FieldPath, FieldRef, Select, Step, check_field, is_closed, message_below};
use crate::wire::{Field, WireCursor};
use crate::{Error, ErrorKind, Result};
use elements::{Element, Elements};
use entries::Entries;
use occurrences::Occurrences;

/// An occurrence of a field on the wire, and the field that encloses it, if any.
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

/// Returns the range of a message's content: the whole source for the root.
pub(crate) fn content(chain: &Chain, source: &Source) -> Range<u64> {
    chain.as_ref().map_or(0..source.size(), |occurrence| {
        occurrence.field.value.clone()
    })
}

/// A value of the message being split: its location, its path, and its type.
///
/// Locating a value reads only tags and lengths; its size is known without parsing its content. A
/// view borrows its message, and takes little memory: path and type are computed on demand.
#[derive(Clone, Debug)]
pub struct SourceView<'a> {
    pub(in crate::split) source: &'a Source,
    parent: Parent<'a>,
    /// Path step from the parent message to the value.
    step: Step,
    pub(in crate::split) pieces: Pieces,
    like: Like,
    kind: OnceLock<ViewKind>,
    /// True if the value's path leads every reader to the value: no value along the path is
    /// superseded, and the split's profile allows the map keys in the path.
    pub(in crate::split) addressable: bool,
    pub(in crate::split) profile: Profile,
}

/// The parent message of a view.
#[derive(Clone, Copy, Debug)]
enum Parent<'a> {
    /// No parent, since the view is of the root message.
    None,
    View(&'a SourceView<'a>),
    Element(Element<'a>),
}

/// The occurrences of a value on the wire, each with the index of the parent's occurrence that
/// contains it.
#[derive(Clone, Debug)]
pub(in crate::split) enum Pieces {
    /// The whole message being split.
    All,
    /// A value that occurs once, with the index of the parent's occurrence that contains it.
    One(usize, Field),
    /// A singular submessage that may occur in several pieces, each with the index of the parent's
    /// occurrence that contains it.
    Several(Vec<(usize, Field)>),
    /// A map entry, with the index of the parent's occurrence that contains it; and the entry's
    /// value, which may be omitted.
    Entry(usize, Field, Option<Field>),
}

/// The basic kind of a view's value, known without looking up the message's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::split) enum Like {
    Message,
    Bytes,
    Element,
}

/// The kind of value in a [`SourceView`].
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum ViewKind {
    /// A message of this type.
    Message(MessageDescriptor),
    /// A bytes or string value.
    Bytes,
    /// An element of a repeated bytes or string field, or a bytes or string value in a map. Only
    /// the extended profile has paths for these values.
    Element,
}

// Implemented manually: a descriptor's `Debug` recurses endlessly for a type that contains itself.
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

/// The location and type of a view's value. Doesn't borrow the source.
#[derive(Clone, Debug)]
pub(in crate::split) struct Located {
    pub(in crate::split) path: FieldPath,
    pub(in crate::split) chains: Vec<Chain>,
    pub(in crate::split) contents: Vec<Range<u64>>,
    pub(in crate::split) descriptor: Option<MessageDescriptor>,
}

impl Located {
    /// Returns the size of the value in bytes.
    pub(in crate::split) fn size(&self) -> u64 {
        self.contents
            .iter()
            .map(|range| range.end - range.start)
            .sum()
    }

    /// Scans the message's own fields, without parsing their values.
    ///
    /// Fails if a field's wire type differs from the one that the message type declares for the
    /// field: readers would treat the field as unknown, and the message most likely has another
    /// type.
    pub(in crate::split) fn check_fields(&self, source: &Source) -> Result<()> {
        let Some(descriptor) = &self.descriptor else {
            return Ok(());
        };
        let here = |error: Error| error.at_path(self.path.display(Some(source.descriptor())));
        let mut checked = None;
        for range in &self.contents {
            let mut cursor = WireCursor::new(source.input());
            cursor.set_range(range.clone());
            while let Some(at) = cursor.next().map_err(here)? {
                if checked != Some((at.number, at.wire_type)) {
                    checked = Some((at.number, at.wire_type));
                    check_field(descriptor, &at).map_err(here)?;
                }
            }
        }
        Ok(())
    }
}

impl<'a> SourceView<'a> {
    pub(in crate::split) fn root(source: &'a Source, profile: Profile) -> SourceView<'a> {
        SourceView {
            source,
            parent: Parent::None,
            step: Step::field(0),
            pieces: Pieces::All,
            like: Like::Message,
            kind: OnceLock::new(),
            addressable: true,
            profile,
        }
    }

    /// Returns the view of a value in this message.
    #[inline]
    pub(in crate::split) fn child(
        &'a self,
        step: Step,
        pieces: Pieces,
        like: Like,
        addressable: bool,
    ) -> Self {
        self.child_of(Parent::View(self), step, pieces, like, addressable)
    }

    /// Returns the view of a value in this message; `parent` is this message.
    fn child_of<'b>(
        &self,
        parent: Parent<'b>,
        step: Step,
        pieces: Pieces,
        like: Like,
        addressable: bool,
    ) -> SourceView<'b>
    where
        'a: 'b,
    {
        SourceView {
            source: self.source,
            parent,
            step,
            pieces,
            like,
            kind: OnceLock::new(),
            addressable: self.addressable && addressable && !self.is_closed(),
            profile: self.profile,
        }
    }

    /// Returns true if no path can lead into the value, because its map entry is too large for
    /// readers to hold until they have read the key.
    fn is_closed(&self) -> bool {
        match &self.pieces {
            Pieces::Entry(_, entry, Some(value)) => is_closed(entry, value),
            _ => false,
        }
    }

    /// Returns the path from the root of the message being split.
    pub fn path(&self) -> FieldPath {
        match self.parent {
            Parent::None => FieldPath::root(),
            Parent::View(parent) => parent.path().join(self.step.clone()),
            Parent::Element(element) => element.path().join(self.step.clone()),
        }
    }

    /// Returns the enclosing message; `None` for the message being split.
    pub fn parent(&self) -> Option<SourceView<'a>> {
        match self.parent {
            Parent::None => None,
            Parent::View(parent) => Some(parent.clone()),
            Parent::Element(element) => Some(element.view()),
        }
    }

    /// Returns the value's index in its repeated field; `None` if its path doesn't end with an
    /// index.
    pub fn index(&self) -> Option<u64> {
        match self.step.select {
            Select::Index(index) => Some(index),
            _ => None,
        }
    }

    /// Returns the kind of value.
    pub fn kind(&self) -> &ViewKind {
        self.kind.get_or_init(|| match self.like {
            Like::Bytes => ViewKind::Bytes,
            Like::Element => ViewKind::Element,
            Like::Message => match self.message_type() {
                Some(message) => ViewKind::Message(message),
                // A view of a message always has a type, so this value is not a message.
                None => ViewKind::Bytes,
            },
        })
    }

    fn message_type(&self) -> Option<MessageDescriptor> {
        let Some(parent) = self.parent() else {
            return Some(self.source.descriptor().clone());
        };
        let field = FieldRef::by_number(parent.descriptor()?, self.step.field.0)?;
        message_below(&field)
    }

    /// Returns the type of the message; `None` for a value that is not a message.
    pub fn descriptor(&self) -> Option<&MessageDescriptor> {
        match self.kind() {
            ViewKind::Message(descriptor) => Some(descriptor),
            _ => None,
        }
    }

    pub(in crate::split) fn like(&self) -> Like {
        self.like
    }

    /// Returns the size of the value in the source, in bytes, without tag and length. Reads
    /// nothing.
    #[inline]
    pub fn size(&self) -> u64 {
        match &self.pieces {
            Pieces::All => self.source.size(),
            Pieces::One(_, field) => field.value.end - field.value.start,
            Pieces::Several(pieces) => {
                let len = |(_, field): &(usize, Field)| field.value.end - field.value.start;
                pieces.iter().map(len).sum()
            }
            Pieces::Entry(_, _, value) => value
                .as_ref()
                .map_or(0, |field| field.value.end - field.value.start),
        }
    }

    /// Reads and returns the bytes of the value.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] or [`ErrorKind::SourceChanged`] if reading fails.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for piece in 0..self.piece_count() {
            let mut cursor = WireCursor::new(self.source.input());
            bytes.extend_from_slice(cursor.bytes(self.content(piece))?);
        }
        Ok(bytes)
    }

    pub(in crate::split) fn piece_count(&self) -> usize {
        match &self.pieces {
            Pieces::All | Pieces::One(..) => 1,
            Pieces::Several(pieces) => pieces.len(),
            Pieces::Entry(_, _, value) => usize::from(value.is_some()),
        }
    }

    /// Returns the range of the content of the value's occurrence with the index `piece`; empty if
    /// there is no such occurrence.
    pub(in crate::split) fn content(&self, piece: usize) -> Range<u64> {
        let field = match &self.pieces {
            Pieces::All if piece == 0 => return 0..self.source.size(),
            Pieces::One(_, field) if piece == 0 => Some(field),
            Pieces::Several(pieces) => pieces.get(piece).map(|(_, field)| field),
            Pieces::Entry(_, _, value) if piece == 0 => value.as_ref(),
            _ => None,
        };
        field.map_or(0..0, |field| field.value.clone())
    }

    /// Returns the chain of enclosing fields for each occurrence of the value.
    pub(in crate::split) fn chains(&self) -> Vec<Chain> {
        let above = self.parent();
        let above = above.map(|parent| parent.chains()).unwrap_or_default();
        let around = |piece: usize| above.get(piece).cloned().flatten();
        match &self.pieces {
            Pieces::All => vec![None],
            Pieces::One(piece, field) => vec![occurrence(field.clone(), &around(*piece))],
            Pieces::Several(pieces) => {
                let chain =
                    |(piece, field): &(usize, Field)| occurrence(field.clone(), &around(*piece));
                pieces.iter().map(chain).collect()
            }
            Pieces::Entry(piece, entry, value) => {
                let entry = occurrence(entry.clone(), &around(*piece));
                let value = value.iter();
                value
                    .map(|value| occurrence(value.clone(), &entry))
                    .collect()
            }
        }
    }

    pub(in crate::split) fn located(&self) -> Located {
        Located {
            path: self.path(),
            chains: self.chains(),
            contents: (0..self.piece_count())
                .map(|piece| self.content(piece))
                .collect(),
            descriptor: self.descriptor().cloned(),
        }
    }

    /// Returns the singular message, bytes or string field `name`; `None` if it is absent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if there is no such field, or the field is repeated or a scalar;
    /// [`ErrorKind::InvalidMessage`] if the source is malformed.
    pub fn get(&self, name: &str) -> Result<Option<SourceView<'_>>> {
        self.find(Parent::View(self), name)
    }

    /// Does the same as [`get`](Self::get), but the result has `element` as its parent. This
    /// message must be the view of `element`.
    fn get_below<'b>(&self, element: Element<'b>, name: &str) -> Result<Option<SourceView<'b>>>
    where
        'a: 'b,
    {
        self.find(Parent::Element(element), name)
    }

    /// Returns a singular field of this message; `parent` is this message.
    fn find<'b>(&self, parent: Parent<'b>, name: &str) -> Result<Option<SourceView<'b>>>
    where
        'a: 'b,
    {
        let field = self.field(name)?;
        if field.is_list() || field.is_map() {
            return Err(self.misused(name, "is repeated"));
        }
        let like = self.like_of(&field.kind(), name, false)?;
        let mut found = Vec::new();
        let mut occurrences = Occurrences::new(self, &field);
        while let Some(piece) = occurrences.next()? {
            found.push(piece);
        }
        let mut addressable = !self.superseded(&field)?;
        if like == Like::Bytes {
            // If an earlier value is empty, a cut would leave two placeholders.
            let last = found.len().saturating_sub(1);
            addressable &= found
                .drain(..last)
                .all(|(_, field)| !field.value.is_empty());
        }
        let step = Step::field(field.number());
        if found.is_empty() {
            return Ok(None);
        }
        let pieces = Pieces::Several(found);
        Ok(Some(self.child_of(parent, step, pieces, like, addressable)))
    }

    /// Returns an iterator over the elements of the repeated message, bytes or string field `name`.
    /// Memory use doesn't grow with the number of elements.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if there is no such field, or the field is not repeated or has
    /// scalar elements. The iterator returns the same errors as [`get`](Self::get).
    pub fn repeated(&self, name: &str) -> Result<Elements<'_>> {
        let field = self.field(name)?;
        if !field.is_list() {
            return Err(self.misused(name, "is not repeated"));
        }
        let like = self.like_of(&field.kind(), name, true)?;
        Ok(Elements::new(self, &field, like))
    }

    /// Returns an iterator over the entries of the map field `name`, in source order. The map's
    /// values must be messages, bytes or strings. Detecting repeated keys takes at most about
    /// [`MAP_KEYS_HELD`](crate::split::MAP_KEYS_HELD) bytes of memory for any number of entries,
    /// and several passes for more than two million entries.
    ///
    /// If several entries have the same key, only the last one is returned, since it replaces the
    /// earlier entries. An empty value that the writer omitted is returned with size 0.
    ///
    /// # Errors
    ///
    /// The same errors as [`get`](Self::get), which are also returned if the field is not a map, or
    /// if an entry is written in pieces.
    pub fn map(&self, name: &str) -> Result<Entries<'_>> {
        let field = self.field(name)?;
        let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) else {
            return Err(self.misused(name, "is not a map"));
        };
        let like = self.like_of(&entry.map_entry_value_field().kind(), name, true)?;
        Entries::new(self, field, entry, like)
    }

    /// Returns true if another member of the field's oneof occurs after the field on the wire.
    fn superseded(&self, field: &FieldRef) -> Result<bool> {
        let Some(oneof) = field.oneof() else {
            return Ok(false);
        };
        let members: Vec<u32> = oneof.fields().map(|member| member.number()).collect();
        let mut seen = false;
        for piece in 0..self.piece_count() {
            let mut cursor = WireCursor::new(self.source.input());
            cursor.set_range(self.content(piece));
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
            .ok_or_else(|| self.misused(name, "is not below a message"))?;
        FieldRef::by_text(descriptor, name).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidPath,
                format!("{} has no field {name}", descriptor.full_name()),
            )
            .at_path(self.display_path())
        })
    }

    fn like_of(&self, kind: &Kind, name: &str, element: bool) -> Result<Like> {
        match kind {
            Kind::Message(_) => Ok(Like::Message),
            Kind::Bytes | Kind::String if element => Ok(Like::Element),
            Kind::Bytes | Kind::String => Ok(Like::Bytes),
            _ => Err(self.misused(name, "is neither message, bytes nor string")),
        }
    }

    /// Returns the path as text, with field names.
    pub fn display_path(&self) -> String {
        self.path().display(Some(self.source.descriptor()))
    }

    #[cold]
    pub(in crate::split) fn misused(&self, name: &str, what: &str) -> Error {
        Error::new(ErrorKind::InvalidPath, format!("field {name} {what}"))
            .at_path(self.display_path())
    }
}
