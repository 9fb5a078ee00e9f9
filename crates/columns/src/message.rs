//! The columns of a message's fields under construction.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::NullBufferBuilder;
use arrow_schema::ArrowError;
use proto_splitter_core::wire::WireType;
use proto_splitter_core::{Error, Result};

use crate::column::Column;
use crate::fields::Met;
use crate::flat::Flat;
use crate::pending::Pending;
use crate::shape::{MessageShape, Shape, Slot};
use crate::source::Source;
use crate::unit::Elements;

/// The columns filled from the fields of a message.
pub(crate) struct MessageColumns {
    shape: Arc<MessageShape>,
    columns: Vec<Member>,
    /// Indices of the columns that each row is appended to.
    appended: Vec<usize>,
    rows: usize,
    /// Number of rows that collected columns have room for.
    room: usize,
    /// The rows without a message, if there is one.
    nulls: Option<NullBufferBuilder>,
}

/// The column of a field.
enum Member {
    /// Values are collected by row.
    Flat(Flat),
    /// Rows are appended when a message ends. The value of a singular field waits until then.
    Appended(Column, Pending),
}

impl MessageColumns {
    pub(crate) fn new(shape: &Arc<MessageShape>) -> Self {
        let columns = shape.fields.iter().map(|field| match Flat::new(field) {
            Some(flat) => Member::Flat(flat),
            None => Member::Appended(Column::new(&field.shape), Pending::default()),
        });
        let columns: Vec<Member> = columns.collect();
        let appended = columns.iter().enumerate();
        let appended = appended.filter(|(_, column)| matches!(column, Member::Appended(..)));
        MessageColumns {
            shape: Arc::clone(shape),
            appended: appended.map(|(at, _)| at).collect(),
            columns,
            rows: 0,
            room: 0,
            nulls: None,
        }
    }

    pub(crate) fn shape(&self) -> &MessageShape {
        &self.shape
    }

    /// Makes room for this many rows.
    pub(crate) fn reserve(&mut self, rows: usize) {
        if rows <= self.room {
            return;
        }
        self.room = rows;
        for column in &mut self.columns {
            if let Member::Flat(flat) = column {
                flat.resize(rows);
            }
        }
    }

    /// Begins a row without values and returns its index.
    #[inline]
    fn begin_row(&mut self) -> usize {
        let row = self.rows;
        if row == self.room {
            self.reserve((self.room * 2).max(64));
        }
        self.rows += 1;
        row
    }

    /// Appends a row for the message with these pieces.
    pub(crate) fn append<'p>(
        &mut self,
        source: Source<'_>,
        pieces: impl Iterator<Item = &'p Range<usize>>,
    ) -> Result<()> {
        let row = self.begin_row();
        if let Some(nulls) = &mut self.nulls {
            nulls.append_non_null();
        }
        for &at in &self.appended {
            if let Member::Appended(_, pending) = &mut self.columns[at] {
                pending.clear();
            }
        }
        for piece in pieces {
            self.read(source, piece.clone(), row)?;
        }
        for &at in &self.appended {
            let (Some(field), Member::Appended(column, pending)) =
                (self.shape.fields.get(at), &mut self.columns[at])
            else {
                continue;
            };
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

    /// Appends a row for each of these elements.
    pub(crate) fn append_all(&mut self, elements: &Elements, rows: Range<usize>) -> Result<()> {
        self.reserve(self.rows + rows.len());
        let bytes = &elements.bytes;
        for at in rows {
            let mut left = elements.range(at);
            let source = || Source {
                bytes,
                origin: elements.origin(at),
            };
            if !self.appended.is_empty() || self.nulls.is_some() {
                self.append(source(), [left].iter())?;
                continue;
            }
            let row = self.begin_row();
            self.collect(bytes, &mut left, row)?;
            if !left.is_empty() {
                self.read(source(), left, row)?;
            }
        }
        Ok(())
    }

    /// Reads the fields of a message, or of a piece of it, into a row.
    fn read(&mut self, source: Source<'_>, mut left: Range<usize>, row: usize) -> Result<()> {
        loop {
            self.collect(source.bytes, &mut left, row)?;
            let mut fields = source.fields(&left);
            let Some(met) = fields.next()? else {
                return Ok(());
            };
            left.start = fields.position();
            self.meet(source, &met, row)?;
        }
    }

    /// Collects the values of the first fields of a message, and leaves in `left` the others, from
    /// the first one that isn't [simple](MessageShape::simple).
    #[inline]
    fn collect(&mut self, bytes: &[u8], left: &mut Range<usize>, row: usize) -> Result<()> {
        // A position in memory would be stored and loaded again for each field.
        let mut rest = left.clone();
        while rest.start < rest.end
            && let Some((column, bits, len)) = self.shape.simple(bytes, &rest)
        {
            if let Some(at) = column
                && let Some(Member::Flat(flat)) = self.columns.get_mut(usize::from(at))
            {
                flat.set(row, bits)?;
            }
            rest.start += len;
        }
        *left = rest;
        Ok(())
    }

    fn meet(&mut self, source: Source<'_>, met: &Met, row: usize) -> Result<()> {
        let Some(slot) = self.shape.slot(met.number) else {
            return Ok(());
        };
        if met.wire != slot.wire && !(slot.is_packable && met.wire == WireType::Len) {
            return Err(other_type(source, met, slot, &self.shape));
        }
        if let Some(at) = slot.field
            && let Some(field) = self.shape.fields.get(at)
        {
            match (&mut self.columns[at], &field.shape) {
                (Member::Flat(flat), _) => {
                    if !flat.set_met(row, met)? {
                        return Ok(());
                    }
                }
                (Member::Appended(column, _), Shape::List(_) | Shape::Map(..)) => {
                    return column.add(source, met);
                }
                (Member::Appended(_, pending), shape) => pending.set(met, shape.is_message()),
            }
        }
        for &rival in &slot.rivals {
            match &mut self.columns[rival] {
                Member::Flat(flat) => flat.clear(row),
                Member::Appended(_, pending) => pending.clear(),
            }
        }
        Ok(())
    }

    /// Appends a row without a message.
    pub(crate) fn append_null(&mut self) -> Result<()> {
        let row = self.begin_row();
        let nulls = self.nulls.get_or_insert_with(|| {
            let mut nulls = NullBufferBuilder::new(0);
            nulls.append_n_non_nulls(row);
            nulls
        });
        nulls.append_null();
        for &at in &self.appended {
            if let Member::Appended(column, _) = &mut self.columns[at] {
                column.append_null()?;
            }
        }
        Ok(())
    }

    /// Takes the rows, which were read from these bytes.
    pub(crate) fn finish(&mut self, bytes: &[u8]) -> Result<Vec<ArrayRef>, ArrowError> {
        let nulls = self.nulls.take().and_then(|mut nulls| nulls.finish());
        let rows = std::mem::take(&mut self.rows);
        self.room = 0;
        let columns = self.columns.iter_mut().map(|column| match column {
            Member::Flat(flat) => flat.finish(rows, nulls.as_ref(), bytes),
            Member::Appended(column, _) => column.finish(bytes),
        });
        columns.collect()
    }
}

/// Returns the error for a field whose wire type differs from the schema's. Readers would treat it
/// as unknown, and in a table it would be missing.
#[cold]
fn other_type(source: Source<'_>, met: &Met, slot: &Slot, message: &MessageShape) -> Error {
    let text = format!(
        "the message may be of another type: field {} has a wire type that {} does not declare",
        slot.name, message.name
    );
    source.origin.broken(text, met.start)
}
