//! Rewriting a model with changes to some tensors, as a message made of spans. All unchanged parts
//! are spans of the old model.

use proto_splitter_core::Result;
use proto_splitter_core::spans::{Mark, SourceId, SpansBuilder};
use proto_splitter_core::wire::{Field, encode_varint, tag};

use crate::change::{Change, Inserted};
use crate::context::{Context, Part};
use crate::tensor::Tensor;
use crate::walk::{Cursor, Place, Visitor};

/// Decisions about changes to the tensors and compiled nodes of a model. An implementation may add
/// files to the message, as sources of inserted spans.
pub(crate) trait Decide {
    fn tensor(
        &mut self,
        tensor: &Tensor,
        place: &Place<'_>,
        builder: &mut SpansBuilder,
    ) -> Result<Change>;

    /// Decides about the content of a compiled node. The default implementation changes nothing.
    fn context(
        &mut self,
        _context: &Context,
        _part: Part,
        _cursor: &mut Cursor<'_>,
        _builder: &mut SpansBuilder,
    ) -> Result<Change> {
        Ok(Change::None)
    }
}

/// A visitor that copies a model, with changes, to a message made of spans. It updates the lengths
/// of the messages that contain a change.
pub(crate) struct Rewriter<'b> {
    builder: &'b mut SpansBuilder,
    /// The source that contains the model.
    from: SourceId,
    /// Offset up to which the model has been copied to the message.
    copied: u64,
    /// True if a change was made since the innermost message began.
    is_changed: bool,
    open: Vec<Open>,
    decide: &'b mut dyn Decide,
}

/// The state of a [`Rewriter`] before a message began. It is restored if the message is unchanged.
struct Open {
    mark: Mark,
    copied: u64,
    is_changed: bool,
}

impl<'b> Rewriter<'b> {
    pub(crate) fn new(
        builder: &'b mut SpansBuilder,
        from: SourceId,
        decide: &'b mut dyn Decide,
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

    /// Copies the remaining bytes of the model. `size` is the size of the whole model, in bytes.
    pub(crate) fn finish(mut self, size: u64) -> Result<()> {
        self.copy_to(size)
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
            // Writes the tag as a literal, next to the literal length. A span of the model would
            // have only a single byte.
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

impl Visitor for Rewriter<'_> {
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
        let change = self.decide.tensor(tensor, place, self.builder)?;
        self.change(field, change, cursor)
    }

    fn context(
        &mut self,
        field: &Field,
        context: &Context,
        part: Part,
        cursor: &mut Cursor<'_>,
    ) -> Result<()> {
        let change = self.decide.context(context, part, cursor, self.builder)?;
        self.change(field, change, cursor)
    }
}

impl Rewriter<'_> {
    /// Copies a field, with `change` applied to the message in it.
    fn change(&mut self, field: &Field, change: Change, cursor: &mut Cursor<'_>) -> Result<()> {
        let Change::Fields {
            dropped,
            before,
            inserted,
            after,
        } = change
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
        self.end(field)?;
        if after.is_empty() {
            return Ok(());
        }
        self.builder.literal(&after)
    }

    fn insert(&mut self, inserted: Vec<Inserted>) -> Result<()> {
        inserted.into_iter().try_for_each(|part| match part {
            Inserted::Literal(bytes) => self.builder.literal(&bytes),
            Inserted::Span(file, range) => self.builder.span(file, range),
        })
    }
}
