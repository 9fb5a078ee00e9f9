//! Repeating a parent's value for each row that belongs to the parent.

use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{
    Array, ArrayRef, GenericByteArray, PrimitiveArray, UInt32Array, downcast_primitive_array,
};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;

/// The number of times that each of several consecutive values is repeated.
#[derive(Debug)]
pub(crate) struct Repeats {
    /// Index, in the array of values, of the first value to repeat.
    first: usize,
    counts: Vec<usize>,
}

impl Repeats {
    /// Counts the rows in `rows` that belong to each value. `ends` contains the index after each
    /// value's last row, in ascending order.
    pub(crate) fn new(ends: &[usize], rows: &Range<usize>) -> Repeats {
        let first = ends.partition_point(|&end| end <= rows.start);
        let (mut start, mut counts) = (rows.start, Vec::new());
        for &end in ends.get(first..).unwrap_or_default() {
            if start >= rows.end {
                break;
            }
            let end = end.min(rows.end);
            counts.push(end - start);
            start = end;
        }
        Repeats { first, counts }
    }

    /// Returns an array in which the values of `array` are repeated.
    pub(crate) fn of(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let values = array.slice(self.first, self.counts.len());
        let array = values.as_ref();
        Ok(downcast_primitive_array!(
            array => Arc::new(self.numbers(array)?),
            DataType::Utf8 => Arc::new(self.texts(array.as_string::<i32>())?),
            DataType::Binary => Arc::new(self.texts(array.as_binary::<i32>())?),
            _ => return take(&values, &self.indices(), None),
        ))
    }

    fn numbers<T: arrow_array::ArrowPrimitiveType>(
        &self,
        array: &PrimitiveArray<T>,
    ) -> Result<PrimitiveArray<T>, ArrowError> {
        let mut values = Vec::with_capacity(self.len());
        for (&value, &count) in array.values().iter().zip(&self.counts) {
            values.extend(repeat_n(value, count));
        }
        let repeated = PrimitiveArray::try_new(ScalarBuffer::from(values), self.nulls(array))?;
        Ok(repeated.with_data_type(array.data_type().clone()))
    }

    fn texts<T: ByteArrayType<Offset = i32>>(
        &self,
        array: &GenericByteArray<T>,
    ) -> Result<GenericByteArray<T>, ArrowError> {
        let too_large = || ArrowError::OffsetOverflowError(self.len());
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(self.len() + 1);
        ends.push(0);
        for (pair, &count) in array.value_offsets().windows(2).zip(&self.counts) {
            let value = match *pair {
                [start, end] => start.unsigned_abs() as usize..end.unsigned_abs() as usize,
                _ => 0..0,
            };
            let value = array.value_data().get(value).unwrap_or_default();
            let begin = i32::try_from(bytes.len()).map_err(|_| too_large())?;
            let size = value.len().checked_mul(count).ok_or_else(too_large)?;
            let end = bytes.len().checked_add(size).ok_or_else(too_large)?;
            i32::try_from(end).map_err(|_| too_large())?;
            bytes.extend_from_slice(&value.repeat(count));
            let len = i32::try_from(value.len()).map_err(|_| too_large())?;
            let mut end = begin;
            ends.extend((0..count).map(|_| {
                end += len;
                end
            }));
        }
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        GenericByteArray::try_new(ends, Buffer::from_vec(bytes), self.nulls(array))
    }

    fn nulls(&self, array: &dyn Array) -> Option<NullBuffer> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0)?;
        let mut repeated = NullBufferBuilder::new(self.len());
        for (is_valid, &count) in nulls.iter().zip(&self.counts) {
            if is_valid {
                repeated.append_n_non_nulls(count);
            } else {
                repeated.append_n_nulls(count);
            }
        }
        repeated.finish()
    }

    /// Returns the index of each row's value, relative to the first value to repeat.
    fn indices(&self) -> UInt32Array {
        let counts = (0..).zip(&self.counts);
        counts
            .flat_map(|(at, &count)| repeat_n(at, count))
            .collect::<Vec<u32>>()
            .into()
    }

    fn len(&self) -> usize {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        BinaryArray, BooleanArray, Int64Array, StringArray, TimestampNanosecondArray, UInt8Array,
    };

    use super::*;

    #[test]
    fn values_are_repeated_as_taking_each_of_them_would() {
        let texts = [Some("a"), None, Some(""), Some("many letters")];
        let numbers = [Some(-1), None, Some(7), Some(i64::MAX)];
        let arrays: [ArrayRef; 6] = [
            Arc::new(StringArray::from_iter(texts)),
            Arc::new(BinaryArray::from_iter(texts)),
            Arc::new(Int64Array::from_iter(numbers)),
            Arc::new(UInt8Array::from(vec![1, 2, 3, 4])),
            Arc::new(TimestampNanosecondArray::from_iter(numbers).with_timezone("UTC")),
            Arc::new(BooleanArray::from(vec![true, false, true, true])),
        ];
        // In these ends, the second value has no rows.
        let ends = [3, 3, 4, 9];
        let of_rows = [0, 0, 0, 2, 3, 3, 3, 3, 3];
        for (start, end) in [(0, 9), (1, 4), (3, 3), (4, 8), (2, 6)] {
            let repeats = Repeats::new(&ends, &(start..end));
            let indices = UInt32Array::from(of_rows[start..end].to_vec());
            for array in &arrays {
                let repeated = repeats.of(array).unwrap();
                let expected = take(array, &indices, None).unwrap();
                assert_eq!(&repeated, &expected, "rows {start}..{end}");
            }
        }
    }
}
