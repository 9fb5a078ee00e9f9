//! Columns under construction.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, NullBufferBuilder};
use arrow_schema::ArrowError;
use proto_splitter_core::wire::WireType;
use proto_splitter_core::{Error, Result};

use crate::fields::{Met, number};
use crate::flat::Flat;
use crate::leaf::{LeafValues, offsets, push_end};
use crate::pending::Pending;
use crate::shape::{MessageShape, Scalar, Shape, Slot, entries_field, entry_fields, item_field};
use crate::source::Source;
use crate::unit::Elements;

/// A column under construction, with one value for each row of its parent.
pub(crate) struct Column {
    nulls: NullBufferBuilder,
    values: Values,
}

enum Values {
    Leaf(LeafValues),
    Message(Box<MessageColumns>),
    List(Vec<i32>, Box<Column>, Box<Shape>),
    Map(Box<MapColumn>),
}

struct MapColumn {
    ends: Vec<i32>,
    keys: Column,
    values: Column,
    key: Scalar,
    value: Shape,
    key_wire: WireType,
    value_wire: WireType,
    /// The entries of the current row.
    entries: Vec<Entry>,
}

struct Entry {
    key: Pending,
    value: Pending,
}

impl Values {
    fn new(shape: &Shape) -> Values {
        match shape {
            Shape::Scalar(scalar) => Values::Leaf(LeafValues::new(*scalar)),
            Shape::Enum(names) => Values::Leaf(LeafValues::Enum(Vec::new(), Arc::clone(names))),
            Shape::Timestamp(unit) => Values::Leaf(LeafValues::Timestamp(Vec::new(), *unit)),
            Shape::Duration(unit) => Values::Leaf(LeafValues::Duration(Vec::new(), *unit)),
            Shape::Wrapped(scalar) => {
                let values = Box::new(LeafValues::new(*scalar));
                Values::Leaf(LeafValues::Wrapped(values, scalar.wire()))
            }
            Shape::Mark => Values::Leaf(LeafValues::Mark(BooleanBufferBuilder::new(0))),
            Shape::Message(message) => Values::Message(Box::new(MessageColumns::new(message))),
            Shape::List(item) => Values::List(vec![0], Box::new(Column::new(item)), item.clone()),
            Shape::Map(key, value) => Values::Map(Box::new(MapColumn {
                ends: vec![0],
                keys: Column::new(&Shape::Scalar(*key)),
                values: Column::new(value),
                key: *key,
                value: (**value).clone(),
                key_wire: key.wire(),
                value_wire: value.wire(),
                entries: Vec::new(),
            })),
        }
    }
}

impl Column {
    pub(crate) fn new(shape: &Shape) -> Column {
        Column {
            nulls: NullBufferBuilder::new(0),
            values: Values::new(shape),
        }
    }

    /// Adds a row without a value.
    pub(crate) fn append_null(&mut self) -> Result<()> {
        self.nulls.append_null();
        self.values.append_empty()
    }

    /// Adds a row whose value is 0 or empty.
    pub(crate) fn append_empty(&mut self) -> Result<()> {
        self.nulls.append_non_null();
        self.values.append_empty()
    }

    /// Appends a row. If the value is an enum number that readers treat as an unknown field, adds
    /// no row and returns `Ok(false)`.
    pub(crate) fn append(&mut self, source: Source<'_>, value: &Pending) -> Result<bool> {
        let is_taken = self.values.append(source, value)?;
        if is_taken {
            self.nulls.append_non_null();
        }
        Ok(is_taken)
    }

    /// Adds the value of a repeated field to the current row: an element, a packed run, or the
    /// entry of a map.
    pub(crate) fn add(&mut self, source: Source<'_>, met: &Met) -> Result<()> {
        match &mut self.values {
            Values::List(_, items, shape) => items.add_elements(source, met, shape),
            Values::Map(map) => map.add(source, met),
            _ => Ok(()),
        }
    }

    fn add_elements(&mut self, source: Source<'_>, met: &Met, shape: &Shape) -> Result<()> {
        let single = shape.wire();
        let mut pending = Pending::empty();
        if met.wire != WireType::Len || single == WireType::Len {
            pending.set(met, false);
            self.append(source, &pending)?;
            return Ok(());
        }
        let mut at = met.value.start;
        while at < met.value.end {
            let rest = source.at(&(at..met.value.end));
            let (bits, len) = number(rest, single).ok_or_else(|| {
                source
                    .origin
                    .broken("a packed number that is cut short or too long", at)
            })?;
            pending.bits = bits;
            self.append(source, &pending)?;
            at += len;
        }
        Ok(())
    }

    /// Completes the current row of a list or map.
    pub(crate) fn end_row(&mut self, source: Source<'_>) -> Result<()> {
        self.nulls.append_non_null();
        match &mut self.values {
            Values::List(ends, items, _) => push_end(ends, items.len()),
            Values::Map(map) => map.end_row(source),
            _ => Ok(()),
        }
    }

    fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Returns the column's rows, and empties the column. The rows' values are ranges in `bytes`.
    pub(crate) fn finish(&mut self, bytes: &[u8]) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls.finish();
        self.values.finish(nulls, bytes)
    }
}

impl Values {
    fn append_empty(&mut self) -> Result<()> {
        match self {
            Values::Leaf(values) => values.append_empty(),
            Values::Message(message) => message.append_null(),
            Values::List(ends, items, _) => push_end(ends, items.len()),
            Values::Map(map) => push_end(&mut map.ends, map.keys.len()),
        }
    }

    #[inline]
    fn append(&mut self, source: Source<'_>, value: &Pending) -> Result<bool> {
        match self {
            Values::Leaf(values) => return values.append(source, value),
            Values::Message(message) => message.append(source, value.pieces())?,
            Values::List(..) | Values::Map(_) => {}
        }
        Ok(true)
    }

    /// Returns the column's rows, and empties the column. The rows' values are ranges in `source`.
    fn finish(&mut self, nulls: Option<NullBuffer>, source: &[u8]) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Values::Leaf(values) => values.finish(nulls)?,
            Values::Message(message) => {
                let fields = message.shape().arrow_fields();
                let columns = message.finish(source)?;
                Arc::new(StructArray::try_new(fields, columns, nulls)?)
            }
            Values::List(ends, items, shape) => {
                let (item, items) = (Arc::new(item_field(shape)), items.finish(source)?);
                Arc::new(ListArray::try_new(item, offsets(ends), items, nulls)?)
            }
            Values::Map(map) => map.finish(nulls, source)?,
        })
    }
}

impl MapColumn {
    /// Adds an entry to the current row.
    fn add(&mut self, source: Source<'_>, met: &Met) -> Result<()> {
        let mut entry = Entry {
            key: Pending::empty(),
            value: Pending::empty(),
        };
        entry.value.is_there = false;
        let is_message = self.value.is_message();
        let mut fields = source.fields(&met.value);
        while let Some(met) = fields.next()? {
            match met.number {
                1 if met.wire == self.key_wire => entry.key.set(&met, false),
                2 if met.wire == self.value_wire => entry.value.set(&met, is_message),
                _ => {}
            }
        }
        self.entries.push(entry);
        Ok(())
    }

    /// Ends the row. If several entries have the same key, keeps the last one.
    fn end_row(&mut self, source: Source<'_>) -> Result<()> {
        let entries = std::mem::take(&mut self.entries);
        let superseded = self.superseded(source, &entries);
        for (at, entry) in entries.iter().enumerate() {
            if superseded.contains(&at) {
                continue;
            }
            let is_taken = match &entry.value {
                value if value.is_there => self.values.append(source, value)?,
                _ if self.value.is_message() => self.values.append(source, &Pending::empty())?,
                _ => {
                    self.values.append_empty()?;
                    true
                }
            };
            if is_taken {
                self.keys.append(source, &entry.key)?;
            }
        }
        self.entries = entries;
        self.entries.clear();
        push_end(&mut self.ends, self.keys.len())
    }

    /// Returns the entries that a later entry with the same key replaces.
    fn superseded(&self, source: Source<'_>, entries: &[Entry]) -> HashSet<usize> {
        if entries.len() < 2 {
            return HashSet::new();
        }
        let mut known = HashSet::with_capacity(entries.len());
        let key = |entry: &Entry| (self.key.bits(entry.key.bits), source.at(&entry.key.value));
        let is_text = self.key == Scalar::String;
        let entries = entries.iter().enumerate().rev();
        entries
            .filter(|(_, entry)| match key(entry) {
                (_, text) if is_text => !known.insert((0, text)),
                (bits, _) => !known.insert((bits, &[])),
            })
            .map(|(at, _)| at)
            .collect()
    }

    fn finish(&mut self, nulls: Option<NullBuffer>, source: &[u8]) -> Result<ArrayRef, ArrowError> {
        let fields = entry_fields(self.key, &self.value);
        let columns = vec![self.keys.finish(source)?, self.values.finish(source)?];
        let entries = StructArray::try_new(fields, columns, None)?;
        let field = Arc::new(entries_field(self.key, &self.value));
        let ends = offsets(&mut self.ends);
        Ok(Arc::new(MapArray::try_new(
            field, ends, entries, nulls, false,
        )?))
    }
}

/// The columns filled from the fields of a message.
pub(crate) struct MessageColumns {
    shape: Arc<MessageShape>,
    columns: Vec<Member>,
    /// Indices of the columns to which each row is appended.
    appended: Vec<usize>,
    rows: usize,
    /// Number of rows for which the collected columns have room.
    room: usize,
    /// The rows whose message is missing; `None` if every row has a message.
    nulls: Option<NullBufferBuilder>,
}

/// The column for a field, by the way it is filled.
enum Member {
    /// A column whose values are collected by row.
    Flat(Flat),
    /// A column whose rows are appended when a message ends, and the pending value of a singular
    /// field.
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

    /// Appends a row for a message, which consists of these pieces.
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

    /// Collects the values of a message's first fields. Stops at the first field that isn't
    /// [simple](MessageShape::simple), and leaves the remaining fields in `left`.
    #[inline]
    fn collect(&mut self, bytes: &[u8], left: &mut Range<usize>, row: usize) -> Result<()> {
        // A local variable can stay in a register, unlike `left`.
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

    /// Appends a row whose message is missing.
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

    /// Returns the rows of all columns, and empties the columns. The rows' values are ranges in
    /// `bytes`.
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
/// as an unknown field, so the table would lack the value.
#[cold]
fn other_type(source: Source<'_>, met: &Met, slot: &Slot, message: &MessageShape) -> Error {
    let text = format!(
        "the message may be of another type: field {} has a wire type that {} does not declare",
        slot.name, message.name
    );
    source.origin.broken(text, met.start)
}
