//! The columns that the fields of a message fill.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;
use proto_splitter_core::Result;
use proto_splitter_core::wire::WireType;

use crate::column::{Column, Pending, Source};
use crate::fields::Met;
use crate::shape::{MessageShape, Shape, Slot, low};

/// The columns that the fields of a message fill.
pub(crate) struct MessageColumns {
    shape: Arc<MessageShape>,
    columns: Vec<Column>,
    /// The values of the message at hand, of fields that are no lists.
    pending: Vec<Pending>,
}

impl MessageColumns {
    pub(crate) fn new(shape: &Arc<MessageShape>) -> Self {
        let fields = &shape.fields;
        MessageColumns {
            shape: Arc::clone(shape),
            columns: fields
                .iter()
                .map(|field| Column::new(&field.shape))
                .collect(),
            pending: vec![Pending::default(); fields.len()],
        }
    }

    pub(crate) fn shape(&self) -> &MessageShape {
        &self.shape
    }

    /// Adds a row that is the message with these pieces.
    pub(crate) fn append<'p>(
        &mut self,
        source: Source<'_>,
        pieces: impl Iterator<Item = &'p Range<usize>>,
    ) -> Result<()> {
        self.pending.iter_mut().for_each(Pending::clear);
        for piece in pieces {
            let mut fields = source.fields(piece);
            while let Some(met) = fields.next()? {
                self.meet(source, &met)?;
            }
        }
        for ((field, column), pending) in self
            .shape
            .fields
            .iter()
            .zip(&mut self.columns)
            .zip(&self.pending)
        {
            match &field.shape {
                Shape::List(_) | Shape::Map(..) => column.end_row(source)?,
                _ if pending.is_there => {
                    column.append(source, pending)?;
                }
                _ if field.has_presence => column.append_null()?,
                _ => column.append_empty()?,
            }
        }
        Ok(())
    }

    #[inline]
    fn meet(&mut self, source: Source<'_>, met: &Met) -> Result<()> {
        let Some(slot) = self.shape.slot(met.number) else {
            return Ok(());
        };
        if met.wire != slot.wire && !(slot.is_packable && met.wire == WireType::Len) {
            return Err(other_type(source, met, slot, &self.shape));
        }
        if let Some(at) = slot.field
            && let Some(field) = self.shape.fields.get(at)
        {
            match &field.shape {
                Shape::List(_) | Shape::Map(..) => return self.columns[at].add(source, met),
                // An unknown field to readers, which doesn't end what was there.
                Shape::Enum(names) if names.place(low(met.bits).cast_signed())?.is_none() => {
                    return Ok(());
                }
                shape => self.pending[at].set(met, shape.is_message()),
            }
        }
        for &rival in &slot.rivals {
            self.pending[rival].clear();
        }
        Ok(())
    }

    /// Adds a row without a message.
    pub(crate) fn append_null(&mut self) -> Result<()> {
        self.columns.iter_mut().try_for_each(Column::append_null)
    }

    /// Takes the rows out.
    pub(crate) fn finish(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.columns.iter_mut().map(Column::finish).collect()
    }
}

/// A field that the type writes otherwise: readers would take it for an unknown one, and a table for
/// one that isn't there.
#[cold]
fn other_type(
    source: Source<'_>,
    met: &Met,
    slot: &Slot,
    message: &MessageShape,
) -> proto_splitter_core::Error {
    let text = format!(
        "the message may be of another type: field {} has a wire type that {} does not declare",
        slot.name, message.name
    );
    source.origin.broken(text, met.start)
}
