//! A model with some of its tensors written anew, as a message of spans: everything else is spans of the old one.

use std::ops::Range;

use proto_splitter_core::Result;
use proto_splitter_core::spans::{Mark, SourceId, SpansBuilder};
use proto_splitter_core::wire::{Field, FieldNumber, WireType, encode_varint, put_varint, tag};

use crate::tensor::{Tensor, field};
use crate::walk::{Cursor, Place, Visitor};

/// What becomes of a tensor.
pub(crate) enum Change {
    None,
    /// It loses the fields with these numbers, and `inserted` comes before the first of the others
    /// whose number is at least `before`.
    Fields {
        dropped: &'static [u32],
        before: u32,
        inserted: Vec<Inserted>,
    },
}

/// What a tensor whose data comes inside loses: what says where it was, and what doesn't count
/// beside it.
const OUTSIDE: &[u32] = &[
    4,
    5,
    6,
    7,
    field::RAW_DATA,
    10,
    11,
    field::EXTERNAL_DATA,
    field::DATA_LOCATION,
];

impl Change {
    /// Its data becomes a span of a file, inside.
    pub(crate) fn raw_data(file: SourceId, range: Range<u64>) -> Change {
        let mut front = Vec::new();
        put_varint(&mut front, tag(FieldNumber(field::RAW_DATA), WireType::Len));
        put_varint(&mut front, range.end - range.start);
        Change::Fields {
            dropped: OUTSIDE,
            before: field::RAW_DATA + 1,
            inserted: vec![Inserted::Literal(front), Inserted::Span(file, range)],
        }
    }
}

/// What is put into a tensor.
pub(crate) enum Inserted {
    Literal(Vec<u8>),
    /// A span of a file.
    Span(SourceId, Range<u64>),
}

/// Says what becomes of each tensor; it may add files to the message.
pub(crate) type Decide<'d> =
    dyn FnMut(&Tensor, &Place<'_>, &mut Cursor<'_>, &mut SpansBuilder) -> Result<Change> + 'd;

/// Copies a model to a message of spans while it is walked. The lengths around what is changed are written anew.
pub(crate) struct Rewriter<'b, 'd> {
    builder: &'b mut SpansBuilder,
    /// The model.
    from: SourceId,
    /// Up to where the model is in the message.
    copied: u64,
    /// True if anything was changed since the innermost message began.
    is_changed: bool,
    open: Vec<Open>,
    decide: &'b mut Decide<'d>,
}

/// How it was before a message was begun, in case that it stays as it is.
struct Open {
    mark: Mark,
    copied: u64,
    is_changed: bool,
}

impl<'b, 'd> Rewriter<'b, 'd> {
    pub(crate) fn new(
        builder: &'b mut SpansBuilder,
        from: SourceId,
        decide: &'b mut Decide<'d>,
    ) -> Self {
        Rewriter {
            builder,
            from,
            copied: 0,
            is_changed: false,
            open: Vec::new(),
            decide,
        }
    }

    /// Copies what is left of a model of this many bytes, and says whether anything was changed.
    pub(crate) fn finish(mut self, size: u64) -> Result<bool> {
        self.copy_to(size)?;
        Ok(self.is_changed)
    }

    fn copy_to(&mut self, end: u64) -> Result<()> {
        self.builder.span(self.from, self.copied..end)?;
        self.copied = end;
        Ok(())
    }

    fn begin(&mut self, field: &Field) -> Result<()> {
        self.copy_to(field.start)?;
        let (tag, len) = encode_varint(tag(field.number, field.wire_type));
        if len as u64 == field.tag_end - field.start {
            // With the length one piece, which a span of a byte in front of it would not be.
            self.builder.literal(&tag[..len])?;
        } else {
            self.copy_to(field.tag_end)?;
        }
        self.builder.begin_length();
        self.copied = field.value.start;
        Ok(())
    }

    fn end(&mut self, field: &Field) -> Result<()> {
        self.copied = field.end;
        self.is_changed = true;
        self.builder.end_field()
    }
}

impl Visitor for Rewriter<'_, '_> {
    fn enter(&mut self, field: &Field) -> Result<()> {
        self.open.push(Open {
            mark: self.builder.mark(),
            copied: self.copied,
            is_changed: self.is_changed,
        });
        self.is_changed = false;
        self.begin(field)
    }

    fn leave(&mut self, field: &Field) -> Result<()> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        if self.is_changed {
            self.copy_to(field.value.end)?;
            return self.end(field);
        }
        self.builder.rewind(open.mark);
        self.copied = open.copied;
        self.is_changed = open.is_changed;
        Ok(())
    }

    fn tensor(
        &mut self,
        field: &Field,
        tensor: &Tensor,
        place: &Place<'_>,
        cursor: &mut Cursor<'_>,
    ) -> Result<()> {
        let Change::Fields {
            dropped,
            before,
            inserted,
        } = (self.decide)(tensor, place, cursor, self.builder)?
        else {
            return Ok(());
        };
        self.begin(field)?;
        let mut inserted = Some(inserted);
        cursor.set_range(field.value.clone());
        while let Some(part) = cursor.next()? {
            if part.number.0 >= before
                && let Some(inserted) = inserted.take()
            {
                self.copy_to(part.start)?;
                self.insert(inserted)?;
            }
            if dropped.contains(&part.number.0) {
                self.copy_to(part.start)?;
                self.copied = part.end;
            }
        }
        self.copy_to(field.value.end)?;
        if let Some(inserted) = inserted {
            self.insert(inserted)?;
        }
        self.end(field)
    }
}

impl Rewriter<'_, '_> {
    fn insert(&mut self, inserted: Vec<Inserted>) -> Result<()> {
        inserted.into_iter().try_for_each(|part| match part {
            Inserted::Literal(bytes) => self.builder.literal(&bytes),
            Inserted::Span(file, range) => self.builder.span(file, range),
        })
    }
}
