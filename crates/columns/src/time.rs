//! Converting protobuf's timestamps and durations to numbers, and to columns of numbers.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, Int64Array, make_array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use proto_splitter_core::wire::{WireType, low_32};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::source::Source;

/// Converts a `google.protobuf.Timestamp` to a number of units since 1970, rounded towards the
/// past.
pub(crate) fn timestamp<'p>(
    source: Source<'_>,
    pieces: impl Iterator<Item = &'p Range<usize>>,
    unit: TimeUnit,
) -> Result<i64> {
    count(source, pieces, unit, i32::div_euclid, "timestamp")
}

/// Converts a `google.protobuf.Duration` to a number of units, rounded towards 0.
pub(crate) fn duration<'p>(
    source: Source<'_>,
    pieces: impl Iterator<Item = &'p Range<usize>>,
    unit: TimeUnit,
) -> Result<i64> {
    count(source, pieces, unit, |nanos, by| nanos / by, "duration")
}

fn count<'p>(
    source: Source<'_>,
    pieces: impl Iterator<Item = &'p Range<usize>>,
    unit: TimeUnit,
    cut: impl Fn(i32, i32) -> i32,
    what: &str,
) -> Result<i64> {
    let (mut seconds, mut nanos, mut at) = (0_i64, 0_i32, 0);
    for piece in pieces {
        at = piece.start;
        let mut fields = source.fields(piece);
        while let Some(met) = fields.next()? {
            match (met.number, met.wire) {
                (1, WireType::Varint) => seconds = met.bits.cast_signed(),
                (2, WireType::Varint) => nanos = low_32(met.bits).cast_signed(),
                _ => {}
            }
        }
    }
    let (each, nanos_each) = match unit {
        TimeUnit::Second => (1, 1_000_000_000),
        TimeUnit::Millisecond => (1_000, 1_000_000),
        TimeUnit::Microsecond => (1_000_000, 1_000),
        TimeUnit::Nanosecond => (1_000_000_000, 1),
    };
    // The sum is computed in 128 bits, since the seconds of a time before 1970 may be out of range
    // until the nanoseconds are added.
    let all = i128::from(seconds) * each + i128::from(cut(nanos, nanos_each));
    i64::try_from(all).map_err(|_| {
        let message = format!(
            "a {what} of {seconds} s is out of range for 64 bits of {unit:?}s: use a coarser time unit, or its fields seconds and nanos"
        );
        let place = source.origin.broken("", at);
        Error::new(ErrorKind::LimitExceeded, message)
            .at_offset(place.offset().unwrap_or_default())
    })
}

/// Converts numbers of time units to an array of the type `data_type`, which is a timestamp or a
/// duration.
pub(crate) fn counted(
    values: ScalarBuffer<i64>,
    nulls: Option<NullBuffer>,
    data_type: DataType,
) -> Result<ArrayRef, ArrowError> {
    let numbers = Int64Array::try_new(values, nulls)?.into_data();
    let data = numbers.into_builder().data_type(data_type).build()?;
    Ok(make_array(data))
}
