//! What lies under a path.

use std::collections::HashMap;
use std::ops::Range;

use prost_reflect::MessageDescriptor;
use record_file::ReadAt;

use super::Part;
use super::locate::{key_codec, with_key};
use crate::Result;
use crate::merge::KeyForm;
use crate::path::{FieldRef, Select, Step};
use crate::wire::{Field, WireCursor, WireType};

/// A field of a message, as it stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldEntry {
    /// The step that leads to it from its message. Without a type the first value of a field is
    /// taken for its only one, and those behind it for elements; a map's entries, too.
    pub step: Step,
    /// How it is written.
    pub wire: WireType,
    /// Bytes of its value.
    pub size: u64,
}

/// The fields of a message, in their order; from
/// [`MessageView::fields`](super::MessageView::fields). After an error there are no more.
pub struct Fields<'a, S> {
    cursor: WireCursor<Part<'a, S>>,
    /// What is left of the message: the first is walked.
    pieces: std::vec::IntoIter<Range<u64>>,
    descriptor: Option<MessageDescriptor>,
    counts: HashMap<u32, u64>,
}

impl<S> std::fmt::Debug for Fields<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fields")
            .field("pieces", &self.pieces)
            .finish_non_exhaustive()
    }
}

impl<'a, S: ReadAt> Fields<'a, S> {
    pub(super) fn new(
        mut cursor: WireCursor<Part<'a, S>>,
        pieces: Vec<Range<u64>>,
        descriptor: Option<MessageDescriptor>,
    ) -> Self {
        cursor.set_range(0..0);
        Fields {
            cursor,
            pieces: pieces.into_iter(),
            descriptor,
            counts: HashMap::new(),
        }
    }

    fn advance(&mut self) -> Result<Option<FieldEntry>> {
        loop {
            if let Some(field) = self.cursor.next()? {
                return self.entry(&field).map(Some);
            }
            match self.pieces.next() {
                Some(piece) => self.cursor.set_range(piece),
                None => return Ok(None),
            }
        }
    }

    fn entry(&mut self, field: &Field) -> Result<FieldEntry> {
        let count = self.counts.entry(field.number.0).or_insert(0);
        let index = *count;
        *count += 1;
        let known = self
            .descriptor
            .as_ref()
            .and_then(|message| FieldRef::by_number(message, field.number.0));
        let select = match &known {
            Some(map) if map.is_map() => match key_codec(map) {
                Some(codec) => {
                    let end = self.cursor.end();
                    let key = with_key(&mut self.cursor, field, KeyForm::Typed(codec), |key| {
                        codec.key(key)
                    })?;
                    self.cursor.set_range(field.end..end);
                    Select::Key(key)
                }
                None => Select::Index(index),
            },
            Some(list) if list.is_list() => Select::Index(index),
            None if index > 0 => Select::Index(index),
            _ => Select::Field,
        };
        Ok(FieldEntry {
            step: Step {
                field: field.number,
                select,
            },
            wire: field.wire_type,
            size: field.value.end - field.value.start,
        })
    }
}

impl<S: ReadAt> Iterator for Fields<'_, S> {
    type Item = Result<FieldEntry>;

    fn next(&mut self) -> Option<Result<FieldEntry>> {
        let next = self.advance();
        let next = next.map_err(|error| self.cursor.input_mut().damage_first(error));
        if next.is_err() {
            self.pieces = Vec::new().into_iter();
            self.cursor.set_range(0..0);
        }
        next.transpose()
    }
}

impl<S: ReadAt> std::iter::FusedIterator for Fields<'_, S> {}
