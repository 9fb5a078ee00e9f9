//! Columns under construction.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int32Array,
    Int64Array, ListArray, MapArray, StringArray, StructArray, UInt32Array, UInt64Array,
};
use arrow_buffer::{
    BooleanBufferBuilder, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer,
};
use arrow_schema::{ArrowError, TimeUnit};
use proto_splitter_core::wire::WireType;
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::fields::{Met, number};
use crate::message::MessageColumns;
use crate::names::EnumNames;
use crate::pending::Pending;
use crate::shape::{Scalar, Shape, entries_field, entry_fields, item_field, low};
use crate::source::Source;
use crate::time;

/// A column under construction, with one value for each row of its parent.
pub(crate) struct Column {
    nulls: NullBufferBuilder,
    values: Values,
}

enum Values {
    Int32(Vec<i32>, Scalar),
    Int64(Vec<i64>, Scalar),
    Uint32(Vec<u32>),
    Uint64(Vec<u64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bool(BooleanBufferBuilder),
    Bytes {
        ends: Vec<i32>,
        bytes: Vec<u8>,
        is_text: bool,
    },
    Enum(Vec<i32>, Arc<EnumNames>),
    Timestamp(Vec<i64>, TimeUnit),
    Duration(Vec<i64>, TimeUnit),
    /// The value is in a wrapper message.
    Wrapped(Box<Values>, WireType),
    Mark(BooleanBufferBuilder),
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
            Shape::Scalar(scalar) => match scalar {
                Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => {
                    Values::Int32(Vec::new(), *scalar)
                }
                Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => {
                    Values::Int64(Vec::new(), *scalar)
                }
                Scalar::Uint32 | Scalar::Fixed32 => Values::Uint32(Vec::new()),
                Scalar::Uint64 | Scalar::Fixed64 => Values::Uint64(Vec::new()),
                Scalar::Float => Values::Float(Vec::new()),
                Scalar::Double => Values::Double(Vec::new()),
                Scalar::Bool => Values::Bool(BooleanBufferBuilder::new(0)),
                Scalar::String | Scalar::Bytes => Values::Bytes {
                    ends: vec![0],
                    bytes: Vec::new(),
                    is_text: *scalar == Scalar::String,
                },
            },
            Shape::Enum(names) => Values::Enum(Vec::new(), Arc::clone(names)),
            Shape::Timestamp(unit) => Values::Timestamp(Vec::new(), *unit),
            Shape::Duration(unit) => Values::Duration(Vec::new(), *unit),
            Shape::Wrapped(scalar) => {
                let wire = scalar.wire();
                Values::Wrapped(Box::new(Values::new(&Shape::Scalar(*scalar))), wire)
            }
            Shape::Mark => Values::Mark(BooleanBufferBuilder::new(0)),
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

    /// Appends a row. For an enum number that readers treat as unknown, adds no row and returns
    /// `Ok(false)`.
    pub(crate) fn append(&mut self, source: Source<'_>, value: &Pending) -> Result<bool> {
        let is_taken = self.values.append(source, value)?;
        if is_taken {
            self.nulls.append_non_null();
        }
        Ok(is_taken)
    }

    /// Adds the value of a repeated field to the current row: an element, a packed run, or the entry of a map.
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

    /// Ends the current row of a list or map.
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

    /// Takes the rows, which were read from these bytes.
    pub(crate) fn finish(&mut self, bytes: &[u8]) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls.finish();
        self.values.finish(nulls, bytes)
    }
}

/// Appends the end of a list or value.
#[inline]
fn push_end(ends: &mut Vec<i32>, end: usize) -> Result<()> {
    let end = i32::try_from(end).map_err(|_| {
        let message = "more than 2 GiB, or 2,147,483,647 elements, in one part of a column";
        Error::new(ErrorKind::LimitExceeded, message)
    })?;
    ends.push(end);
    Ok(())
}

impl Values {
    fn append_empty(&mut self) -> Result<()> {
        match self {
            Values::Int32(values, _) => values.push(0),
            Values::Int64(values, _) => values.push(0),
            Values::Uint32(values) => values.push(0),
            Values::Uint64(values) => values.push(0),
            Values::Float(values) => values.push(0.0),
            Values::Double(values) => values.push(0.0),
            Values::Bool(values) | Values::Mark(values) => values.append(false),
            Values::Bytes { ends, bytes, .. } => return push_end(ends, bytes.len()),
            // An open enum has a name for 0.
            Values::Enum(places, names) => places.push(names.place(0)?.unwrap_or(0)),
            Values::Timestamp(values, _) | Values::Duration(values, _) => values.push(0),
            Values::Wrapped(values, _) => return values.append_empty(),
            Values::Message(message) => return message.append_null(),
            Values::List(ends, items, _) => return push_end(ends, items.len()),
            Values::Map(map) => return push_end(&mut map.ends, map.keys.len()),
        }
        Ok(())
    }

    #[inline]
    fn append(&mut self, source: Source<'_>, value: &Pending) -> Result<bool> {
        let bits = value.bits;
        match self {
            Values::Int32(values, scalar) => {
                values.push(low(scalar.bits(bits)).cast_signed());
            }
            Values::Int64(values, scalar) => values.push(scalar.bits(bits).cast_signed()),
            Values::Uint32(values) => values.push(low(bits)),
            Values::Uint64(values) => values.push(bits),
            Values::Float(values) => values.push(f32::from_bits(low(bits))),
            Values::Double(values) => values.push(f64::from_bits(bits)),
            Values::Bool(values) => values.append(bits != 0),
            Values::Bytes { ends, bytes, .. } => {
                bytes.extend_from_slice(source.at(&value.value));
                push_end(ends, bytes.len())?;
            }
            Values::Enum(places, names) => match names.place(low(bits).cast_signed())? {
                Some(place) => places.push(place),
                None => return Ok(false),
            },
            Values::Timestamp(values, unit) => {
                values.push(time::timestamp(source, value.pieces(), *unit)?);
            }
            Values::Duration(values, unit) => {
                values.push(time::duration(source, value.pieces(), *unit)?);
            }
            Values::Wrapped(values, wire) => {
                let mut inner = Pending::empty();
                for piece in value.pieces() {
                    let mut fields = source.fields(piece);
                    while let Some(met) = fields.next()? {
                        if met.number == 1 && met.wire == *wire {
                            inner.set(&met, false);
                        }
                    }
                }
                return values.append(source, &inner);
            }
            Values::Mark(values) => values.append(true),
            Values::Message(message) => message.append(source, value.pieces())?,
            Values::List(..) | Values::Map(_) => {}
        }
        Ok(true)
    }

    /// Takes the rows, which were read from the bytes of `source`.
    fn finish(&mut self, nulls: Option<NullBuffer>, source: &[u8]) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Values::Int32(values, _) => Arc::new(Int32Array::try_new(buffer(values), nulls)?),
            Values::Int64(values, _) => Arc::new(Int64Array::try_new(buffer(values), nulls)?),
            Values::Uint32(values) => Arc::new(UInt32Array::try_new(buffer(values), nulls)?),
            Values::Uint64(values) => Arc::new(UInt64Array::try_new(buffer(values), nulls)?),
            Values::Float(values) => Arc::new(Float32Array::try_new(buffer(values), nulls)?),
            Values::Double(values) => Arc::new(Float64Array::try_new(buffer(values), nulls)?),
            Values::Bool(values) | Values::Mark(values) => {
                Arc::new(BooleanArray::new(values.finish(), nulls))
            }
            Values::Bytes {
                ends,
                bytes,
                is_text,
            } => {
                let (ends, bytes) = (offsets(ends), Buffer::from_vec(std::mem::take(bytes)));
                if *is_text {
                    Arc::new(StringArray::try_new(ends, bytes, nulls)?)
                } else {
                    Arc::new(BinaryArray::try_new(ends, bytes, nulls)?)
                }
            }
            Values::Enum(places, names) => {
                let places = Int32Array::try_new(buffer(places), nulls)?;
                Arc::new(DictionaryArray::try_new(places, names.dictionary())?)
            }
            Values::Timestamp(values, unit) => {
                let of = Shape::Timestamp(*unit).data_type();
                time::counted(buffer(values), nulls, of)?
            }
            Values::Duration(values, unit) => {
                let of = Shape::Duration(*unit).data_type();
                time::counted(buffer(values), nulls, of)?
            }
            Values::Wrapped(values, _) => values.finish(nulls, source)?,
            Values::Message(message) => {
                let fields = message.shape().arrow_fields();
                Arc::new(StructArray::try_new(
                    fields,
                    message.finish(source)?,
                    nulls,
                )?)
            }
            Values::List(ends, items, shape) => {
                let (item, items) = (Arc::new(item_field(shape)), items.finish(source)?);
                Arc::new(ListArray::try_new(item, offsets(ends), items, nulls)?)
            }
            Values::Map(map) => map.finish(nulls, source)?,
        })
    }
}

fn buffer<T: arrow_buffer::ArrowNativeType>(values: &mut Vec<T>) -> ScalarBuffer<T> {
    ScalarBuffer::from(std::mem::take(values))
}

/// Returns the ends of values as offsets that start with 0.
fn offsets(ends: &mut Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(ends, vec![0])))
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

    /// Ends the row. Of entries with equal keys, the last one counts.
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

    /// Returns the entries whose key a later entry repeats.
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
