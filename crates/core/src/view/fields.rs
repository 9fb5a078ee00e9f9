//! An iterator over the fields of the message at a path.

use std::collections::HashMap;
use std::ops::Range;

use prost_reflect::MessageDescriptor;

use super::portion::Portion;
use crate::path::{FieldRef, KeyForm, Select, Step, key_codec, with_key};
use crate::wire::{Field, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// Maximum size of a value that [`Fields::value`] reads, in bytes: 64 KiB.
pub const LARGEST_SMALL_VALUE: u64 = 64 << 10;

/// An occurrence of a field in a message, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldEntry {
    /// Path step from the message to the field's value. If the type is unknown, the first value of
    /// a field counts as singular, and later values count as elements, even if they are map
    /// entries.
    pub step: Step,
    /// Wire type.
    pub wire: WireType,
    /// Size of the value, in bytes.
    pub size: u64,
}

/// An iterator over the fields of a message, in order, from
/// [`MessageView::fields`](super::MessageView::fields). It ends after an error.
pub struct Fields<'a> {
    cursor: WireCursor<Portion<'a>>,
    /// Ranges of the message that the cursor hasn't entered yet.
    pieces: std::vec::IntoIter<Range<u64>>,
    descriptor: Option<MessageDescriptor>,
    counts: HashMap<u32, u64>,
    /// Range of the most recently returned field's value.
    last: Range<u64>,
}

impl std::fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fields")
            .field("pieces", &self.pieces)
            .finish_non_exhaustive()
    }
}

impl<'a> Fields<'a> {
    pub(super) fn new(
        mut cursor: WireCursor<Portion<'a>>,
        pieces: Vec<Range<u64>>,
        descriptor: Option<MessageDescriptor>,
    ) -> Self {
        cursor.set_range(0..0);
        Fields {
            cursor,
            pieces: pieces.into_iter(),
            descriptor,
            counts: HashMap::new(),
            last: 0..0,
        }
    }

    /// Reads the value of the most recently returned field. The value must be small. It may lack a
    /// path of its own, like an unpacked repeated number, which is identified only by its position
    /// in the order of the fields.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if the value exceeds [`LARGEST_SMALL_VALUE`], in which case use
    /// [`MessageView::get`](super::MessageView::get); damage in the chunks that are read.
    ///
    /// ```
    /// use proto_splitter_core::view::MessageView;
    /// use proto_splitter_core::merge::ReadOptions;
    /// use proto_splitter_core::path::FieldPath;
    ///
    /// // Field 1 is the varint 150, field 2 is "hi".
    /// let message = &b"\x08\x96\x01\x12\x02hi"[..];
    /// let view = MessageView::of_plain(&message, ReadOptions::new())?;
    /// let mut fields = view.fields(&FieldPath::root())?;
    /// let mut values = Vec::new();
    /// while let Some(field) = fields.next().transpose()? {
    ///     values.push((field.step.field.0, fields.value()?));
    /// }
    /// assert_eq!(values, [(1, b"\x96\x01".to_vec()), (2, b"hi".to_vec())]);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    pub fn value(&mut self) -> Result<Vec<u8>> {
        let size = self.last.end - self.last.start;
        if size > LARGEST_SMALL_VALUE {
            let message =
                format!("the value has {size} bytes, but only small values can be read here");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let value = self.cursor.bytes(self.last.clone()).map(<[u8]>::to_vec);
        value.map_err(|error| self.cursor.input_mut().damage_first(error))
    }

    fn advance(&mut self) -> Result<Option<FieldEntry>> {
        loop {
            if let Some(field) = self.cursor.next()? {
                self.last = field.value.clone();
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

impl Iterator for Fields<'_> {
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

impl std::iter::FusedIterator for Fields<'_> {}
