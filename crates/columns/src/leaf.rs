//! Building Arrow columns that have no nested columns.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int32Array,
    Int64Array, StringArray, UInt32Array, UInt64Array,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, TimeUnit};
use proto_splitter_core::wire::{WireType, low_32};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::names::EnumNames;
use crate::pending::Pending;
use crate::shape::{Scalar, Shape};
use crate::source::Source;
use crate::time;

/// The values of a column of numbers, strings, bytes, enums, or messages that have a single value
/// in Arrow.
pub(crate) enum LeafValues {
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
    /// Values of wrapper messages, and the wire type of the wrapped field.
    Wrapped(Box<LeafValues>, WireType),
    Mark(BooleanBufferBuilder),
}

impl LeafValues {
    /// Creates an empty column of numbers, bools, strings or bytes.
    pub(crate) fn new(scalar: Scalar) -> LeafValues {
        match scalar {
            Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => {
                LeafValues::Int32(Vec::new(), scalar)
            }
            Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => {
                LeafValues::Int64(Vec::new(), scalar)
            }
            Scalar::Uint32 | Scalar::Fixed32 => LeafValues::Uint32(Vec::new()),
            Scalar::Uint64 | Scalar::Fixed64 => LeafValues::Uint64(Vec::new()),
            Scalar::Float => LeafValues::Float(Vec::new()),
            Scalar::Double => LeafValues::Double(Vec::new()),
            Scalar::Bool => LeafValues::Bool(BooleanBufferBuilder::new(0)),
            Scalar::String | Scalar::Bytes => LeafValues::Bytes {
                ends: vec![0],
                bytes: Vec::new(),
                is_text: scalar == Scalar::String,
            },
        }
    }

    /// Appends the type's default: the value 0, an empty value, or the first value of an enum.
    pub(crate) fn append_empty(&mut self) -> Result<()> {
        match self {
            LeafValues::Int32(values, _) => values.push(0),
            LeafValues::Int64(values, _) => values.push(0),
            LeafValues::Uint32(values) => values.push(0),
            LeafValues::Uint64(values) => values.push(0),
            LeafValues::Float(values) => values.push(0.0),
            LeafValues::Double(values) => values.push(0.0),
            LeafValues::Bool(values) | LeafValues::Mark(values) => values.append(false),
            LeafValues::Bytes { ends, bytes, .. } => return push_end(ends, bytes.len()),
            LeafValues::Enum(places, names) => places.push(names.default_place()),
            LeafValues::Timestamp(values, _) | LeafValues::Duration(values, _) => values.push(0),
            LeafValues::Wrapped(values, _) => return values.append_empty(),
        }
        Ok(())
    }

    /// Appends a value. Returns `Ok(false)`, and appends nothing, if the value is an enum number
    /// that readers treat as an unknown field.
    #[inline]
    pub(crate) fn append(&mut self, source: Source<'_>, value: &Pending) -> Result<bool> {
        let bits = value.bits;
        match self {
            LeafValues::Int32(values, scalar) => {
                values.push(low_32(scalar.bits(bits)).cast_signed());
            }
            LeafValues::Int64(values, scalar) => values.push(scalar.bits(bits).cast_signed()),
            LeafValues::Uint32(values) => values.push(low_32(bits)),
            LeafValues::Uint64(values) => values.push(bits),
            LeafValues::Float(values) => values.push(f32::from_bits(low_32(bits))),
            LeafValues::Double(values) => values.push(f64::from_bits(bits)),
            LeafValues::Bool(values) => values.append(bits != 0),
            LeafValues::Bytes { ends, bytes, .. } => {
                bytes.extend_from_slice(source.at(&value.value));
                push_end(ends, bytes.len())?;
            }
            LeafValues::Enum(places, names) => match names.place(low_32(bits).cast_signed())? {
                Some(place) => places.push(place),
                None => return Ok(false),
            },
            LeafValues::Timestamp(values, unit) => {
                values.push(time::timestamp(source, value.pieces(), *unit)?);
            }
            LeafValues::Duration(values, unit) => {
                values.push(time::duration(source, value.pieces(), *unit)?);
            }
            LeafValues::Wrapped(values, wire) => {
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
            LeafValues::Mark(values) => values.append(true),
        }
        Ok(true)
    }

    /// Returns the values as an Arrow array, and empties the column.
    pub(crate) fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            LeafValues::Int32(values, _) => Arc::new(Int32Array::try_new(buffer(values), nulls)?),
            LeafValues::Int64(values, _) => Arc::new(Int64Array::try_new(buffer(values), nulls)?),
            LeafValues::Uint32(values) => Arc::new(UInt32Array::try_new(buffer(values), nulls)?),
            LeafValues::Uint64(values) => Arc::new(UInt64Array::try_new(buffer(values), nulls)?),
            LeafValues::Float(values) => Arc::new(Float32Array::try_new(buffer(values), nulls)?),
            LeafValues::Double(values) => Arc::new(Float64Array::try_new(buffer(values), nulls)?),
            LeafValues::Bool(values) | LeafValues::Mark(values) => {
                Arc::new(BooleanArray::new(values.finish(), nulls))
            }
            LeafValues::Bytes {
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
            LeafValues::Enum(places, names) => {
                let places = Int32Array::try_new(buffer(places), nulls)?;
                Arc::new(DictionaryArray::try_new(places, names.dictionary())?)
            }
            LeafValues::Timestamp(values, unit) => {
                let of = Shape::Timestamp(*unit).data_type();
                time::counted(buffer(values), nulls, of)?
            }
            LeafValues::Duration(values, unit) => {
                let of = Shape::Duration(*unit).data_type();
                time::counted(buffer(values), nulls, of)?
            }
            LeafValues::Wrapped(values, _) => values.finish(nulls)?,
        })
    }
}

/// Appends the offset at which a list or value ends. Fails if the offset doesn't fit in an `i32`.
#[inline]
pub(crate) fn push_end(ends: &mut Vec<i32>, end: usize) -> Result<()> {
    let end = i32::try_from(end).map_err(|_| {
        let message = "more than 2 GiB, or 2,147,483,647 elements, in one part of a column";
        Error::new(ErrorKind::LimitExceeded, message)
    })?;
    ends.push(end);
    Ok(())
}

fn buffer<T: arrow_buffer::ArrowNativeType>(values: &mut Vec<T>) -> ScalarBuffer<T> {
    ScalarBuffer::from(std::mem::take(values))
}

/// Converts `ends`, which contains 0 and the offset at which each value ends, to Arrow offsets.
/// Resets `ends` to a single 0.
pub(crate) fn offsets(ends: &mut Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(ends, vec![0])))
}
