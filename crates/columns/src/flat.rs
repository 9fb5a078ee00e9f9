//! Columns that store values as bits while fields are read, and convert all values at once
//! afterwards.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int32Array,
    Int64Array, StringArray, UInt32Array, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use proto_splitter_core::Result;
use proto_splitter_core::wire::{low_32, unzigzag};

use crate::fields::{LEN, Met, pack, unpack};
use crate::names::EnumNames;
use crate::shape::{FieldShape, Scalar, Shape};

/// A column for a singular field that isn't a message.
///
/// While fields are read, each value is stored without conversion, since a later value of the same
/// field may replace it. Converting a whole column in one loop is much faster than converting each
/// value when it is read.
pub(crate) struct Flat {
    /// Value of each row: the bits of a number, the dictionary index of an enum value's name, or
    /// the [packed range](pack) of a string or bytes.
    bits: Vec<u64>,
    /// True for each row that has a value; `None` if an absent value is the same as the default
    /// value.
    is_there: Option<Vec<bool>>,
    /// Bits to store for a row without a value.
    absent: u64,
    names: Option<Arc<EnumNames>>,
    is_bytes: bool,
    shape: Shape,
}

impl Flat {
    /// Creates an empty column; `None` if the field is repeated or a message.
    pub(crate) fn new(field: &FieldShape) -> Option<Flat> {
        let (names, is_bytes) = match &field.shape {
            Shape::Scalar(scalar) => (None, matches!(scalar, Scalar::String | Scalar::Bytes)),
            Shape::Enum(names) => (Some(Arc::clone(names)), false),
            _ => return None,
        };
        // An open enum always has a name for 0. A closed enum has presence, so no default is
        // needed.
        let zero = names.as_ref().and_then(|names| names.place(0).ok()?);
        Some(Flat {
            bits: Vec::new(),
            is_there: field.has_presence.then(Vec::new),
            absent: place_bits(zero.unwrap_or_default()),
            names,
            is_bytes,
            shape: field.shape.clone(),
        })
    }

    /// Resizes the column to `rows` rows. New rows have no value.
    pub(crate) fn resize(&mut self, rows: usize) {
        self.bits.resize(rows, self.absent);
        if let Some(is_there) = &mut self.is_there {
            is_there.resize(rows, false);
        }
    }

    /// Sets the value of a row to the bits of a number, or to a [packed range](pack).
    ///
    /// Returns false, and keeps an earlier value, if the value is an enum number that readers treat
    /// as an unknown field.
    #[inline]
    pub(crate) fn set(&mut self, row: usize, bits: u64) -> Result<bool> {
        let bits = match &self.names {
            None => bits,
            Some(names) => match names.place(low_32(bits).cast_signed())? {
                Some(place) => place_bits(place),
                None => return Ok(false),
            },
        };
        self.bits[row] = bits;
        if let Some(is_there) = &mut self.is_there {
            is_there[row] = true;
        }
        Ok(true)
    }

    /// Sets the value of a row to that of a field. Returns false in the same cases as
    /// [`set`](Self::set).
    pub(crate) fn set_met(&mut self, row: usize, met: &Met) -> Result<bool> {
        let bits = if self.is_bytes {
            pack(&met.value)
        } else {
            met.bits
        };
        self.set(row, bits)
    }

    /// Removes the value of a row.
    pub(crate) fn clear(&mut self, row: usize) {
        self.bits[row] = self.absent;
        if let Some(is_there) = &mut self.is_there {
            is_there[row] = false;
        }
    }

    /// Returns the first `rows` rows as an Arrow array, and empties the column. `nulls` marks the
    /// rows without a message. Packed ranges refer to `bytes`.
    pub(crate) fn finish(
        &mut self,
        rows: usize,
        nulls: Option<&NullBuffer>,
        bytes: &[u8],
    ) -> Result<ArrayRef, ArrowError> {
        let bits = self.bits.get(..rows).unwrap_or_default();
        let nulls = match &self.is_there {
            None => nulls.cloned(),
            Some(is_there) => {
                let is_there = BooleanBuffer::collect_bool(rows, |row| is_there[row]);
                Some(NullBuffer::new(is_there)).filter(|nulls| nulls.null_count() > 0)
            }
        };
        let array = match &self.shape {
            Shape::Scalar(scalar) => array(*scalar, bits, bytes, nulls)?,
            _ => {
                let places = bits.iter().map(|&bits| low_32(bits).cast_signed());
                let places = Int32Array::try_new(places.collect(), nulls)?;
                let names = self.names.as_ref().map(|names| names.dictionary());
                let names = names.unwrap_or_else(|| Arc::new(StringArray::new_null(0)));
                Arc::new(DictionaryArray::try_new(places, names)?)
            }
        };
        // `clear` keeps the allocated memory for later rows.
        self.bits.clear();
        if let Some(is_there) = &mut self.is_there {
            is_there.clear();
        }
        Ok(array)
    }
}

/// Converts stored values to an Arrow array. Packed ranges refer to `source`.
fn array(
    scalar: Scalar,
    bits: &[u64],
    source: &[u8],
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let all = bits.iter().copied();
    Ok(match scalar {
        Scalar::Int32 | Scalar::Sfixed32 => {
            let values = all.map(|bits| low_32(bits).cast_signed());
            Arc::new(Int32Array::try_new(values.collect(), nulls)?)
        }
        Scalar::Sint32 => {
            let values = all.map(|bits| low_32(scalar.bits(bits)).cast_signed());
            Arc::new(Int32Array::try_new(values.collect(), nulls)?)
        }
        Scalar::Int64 | Scalar::Sfixed64 => Arc::new(Int64Array::try_new(
            all.map(u64::cast_signed).collect(),
            nulls,
        )?),
        Scalar::Sint64 => Arc::new(Int64Array::try_new(all.map(unzigzag).collect(), nulls)?),
        Scalar::Uint32 | Scalar::Fixed32 => {
            Arc::new(UInt32Array::try_new(all.map(low_32).collect(), nulls)?)
        }
        Scalar::Uint64 | Scalar::Fixed64 => Arc::new(UInt64Array::try_new(all.collect(), nulls)?),
        Scalar::Float => {
            let values = all.map(|bits| f32::from_bits(low_32(bits)));
            Arc::new(Float32Array::try_new(values.collect(), nulls)?)
        }
        Scalar::Double => {
            let values = all.map(f64::from_bits);
            Arc::new(Float64Array::try_new(values.collect(), nulls)?)
        }
        Scalar::Bool => {
            let values = BooleanBuffer::collect_bool(bits.len(), |row| bits[row] != 0);
            Arc::new(BooleanArray::new(values, nulls))
        }
        Scalar::String | Scalar::Bytes => {
            let (ends, bytes) = joined(bits, source)?;
            if scalar == Scalar::String {
                Arc::new(StringArray::try_new(ends, bytes, nulls)?)
            } else {
                Arc::new(BinaryArray::try_new(ends, bytes, nulls)?)
            }
        }
    })
}

/// Copies the bytes at the packed ranges `bits` of `source` to one buffer. Returns Arrow's offsets
/// of the values in the buffer, and the buffer.
fn joined(bits: &[u64], source: &[u8]) -> Result<(OffsetBuffer<i32>, Buffer), ArrowError> {
    let size: u64 = bits.iter().map(|bits| bits & LEN).sum();
    let size = i32::try_from(size).map_err(|_| ArrowError::OffsetOverflowError(bits.len()))?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    let mut ends = Vec::with_capacity(bits.len() + 1);
    let mut end = 0;
    ends.push(end);
    for &bits in bits {
        if bits & LEN > 0 {
            bytes.extend_from_slice(source.get(unpack(bits)).unwrap_or_default());
            end += low_32(bits).cast_signed();
        }
        ends.push(end);
    }
    let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
    Ok((ends, Buffer::from_vec(bytes)))
}

fn place_bits(place: i32) -> u64 {
    place.cast_unsigned().into()
}
