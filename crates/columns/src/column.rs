//! Building Arrow columns from the fields of messages.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, NullBufferBuilder};
use arrow_schema::ArrowError;
use proto_splitter_core::wire::{WireType, low_32};
use proto_splitter_core::{Error, Result};

use crate::fields::{Met, number};
use crate::flat::Flat;
use crate::leaf::{LeafValues, offsets, push_end};
use crate::pending::Pending;
use crate::shape::{MessageShape, Scalar, Shape, Slot, entries_field, entry_fields, item_field};
use crate::source::Source;
use crate::unit::Elements;

/// A column that is being built, with one value for each row of its parent.
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
    /// Entries of the map in the current row.
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

    /// Appends a row that is null.
    pub(crate) fn append_null(&mut self) -> Result<()> {
        self.nulls.append_null();
        self.values.append_empty()
    }

    /// Appends a row with the value 0, or an empty value.
    pub(crate) fn append_empty(&mut self) -> Result<()> {
        self.nulls.append_non_null();
        self.values.append_empty()
    }

    /// Appends a row with `value`. Returns `Ok(false)`, and appends nothing, if the value is an
    /// enum number that readers treat as an unknown field.
    pub(crate) fn append(&mut self, source: Source<'_>, value: &Pending) -> Result<bool> {
        let is_taken = self.values.append(source, value)?;
        if is_taken {
            self.nulls.append_non_null();
        }
        Ok(is_taken)
    }

    /// Adds the contents of one field, which is an element, a packed run of elements, or a map
    /// entry, to the list or map in the current row.
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

    /// Completes the list or map in the current row.
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

    /// Returns the rows as an Arrow array, and empties the column. Ranges in the rows refer to
    /// `bytes`.
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

    /// Returns the rows as an Arrow array, and empties the column. Ranges in the rows refer to
    /// `source`.
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
    /// Adds an entry to the map in the current row. Leaves out an entry whose value is an enum number
    /// that readers treat as an unknown field, since such an entry replaces no other.
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
        let is_unknown = match &self.value {
            Shape::Enum(names) => !names.is_known(low_32(entry.value.bits).cast_signed()),
            _ => false,
        };
        if !(is_unknown && entry.value.is_there) {
            self.entries.push(entry);
        }
        Ok(())
    }

    /// Completes the map in the current row. If several entries have the same key, only the last
    /// one is kept.
    fn end_row(&mut self, source: Source<'_>) -> Result<()> {
        let entries = std::mem::take(&mut self.entries);
        let superseded = self.superseded(source, &entries);
        for (at, entry) in entries.iter().enumerate() {
            if superseded.contains(&at) {
                continue;
            }
            match &entry.value {
                value if value.is_there => self.values.append(source, value).map(drop),
                _ if self.value.is_message() => {
                    self.values.append(source, &Pending::empty()).map(drop)
                }
                _ => self.values.append_empty(),
            }?;
            self.keys.append(source, &entry.key)?;
        }
        self.entries = entries;
        self.entries.clear();
        push_end(&mut self.ends, self.keys.len())
    }

    /// Returns the indices of the entries that are replaced by a later entry with the same key.
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

/// The columns that are built from the fields of messages of one type.
pub(crate) struct MessageColumns {
    shape: Arc<MessageShape>,
    columns: Vec<Member>,
    /// Indices in `columns` of the [`Member::Appended`] columns.
    appended: Vec<usize>,
    rows: usize,
    /// Number of rows that the [`Member::Flat`] columns have room for.
    room: usize,
    /// Flags that mark the rows without a message as null; `None` if every row has a message.
    nulls: Option<NullBufferBuilder>,
}

/// The column for one field. The variants store values in different ways.
enum Member {
    /// Column in which a row's value is set as soon as the field is read.
    Flat(Flat),
    /// Column to which a row is appended at the end of each message. If the field is singular, the
    /// pending value becomes the row's value.
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

    /// Makes room for at least `rows` rows.
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

    /// Begins a row without values, and returns the row's index.
    #[inline]
    fn begin_row(&mut self) -> usize {
        let row = self.rows;
        if row == self.room {
            self.reserve((self.room * 2).max(64));
        }
        self.rows += 1;
        row
    }

    /// Appends a row for one message. The message's fields are the concatenated fields of all
    /// `pieces`.
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

    /// Appends a row for each element with an index in `rows`.
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

    /// Reads the fields in the range `left`, which is a message or a piece of one, into a row.
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

    /// Reads fields from the front of `left` into a row, up to the first field that isn't
    /// [simple](MessageShape::simple). Leaves the fields that weren't read in `left`.
    #[inline]
    fn collect(&mut self, bytes: &[u8], left: &mut Range<usize>, row: usize) -> Result<()> {
        // Unlike `left`, which is a reference, a local variable can be kept in a register.
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
        if let Some(names) = &slot.names
            && !names.is_known(low_32(met.bits).cast_signed())
        {
            return Ok(());
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
        for &rival in slot.rivals.iter().filter(|&&at| Some(at) != slot.field) {
            match &mut self.columns[rival] {
                Member::Flat(flat) => flat.clear(row),
                Member::Appended(_, pending) => pending.clear(),
            }
        }
        Ok(())
    }

    /// Appends a null row, for an absent message.
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

    /// Returns the rows of each column as an Arrow array, and empties the columns. Ranges in the
    /// rows refer to `bytes`.
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

/// Returns the error for a field whose wire type differs from that in the schema. Protobuf parsers
/// would treat the field as unknown, so its value would be missing from the table.
#[cold]
fn other_type(source: Source<'_>, met: &Met, slot: &Slot, message: &MessageShape) -> Error {
    let text = format!(
        "the message may be of another type: field {} has a wire type that {} does not declare",
        slot.name, message.name
    );
    source.origin.broken(text, met.start)
}
