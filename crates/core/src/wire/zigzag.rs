//! Zigzag encoding, with which `sint32` and `sint64` fields store small negative numbers in few
//! bytes.

/// Encodes a signed number as an unsigned number, to be written as a varint.
///
/// ```
/// use proto_splitter_core::wire::zigzag;
/// assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
/// assert_eq!(zigzag(i64::MIN), u64::MAX);
/// ```
#[must_use]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// Decodes a signed number from the value of a varint.
///
/// ```
/// use proto_splitter_core::wire::{unzigzag, zigzag};
/// assert_eq!([0, 1, 2, 3].map(unzigzag), [0, -1, 1, -2]);
/// for value in [i64::MIN, -300, 0, i64::MAX] {
///     assert_eq!(unzigzag(zigzag(value)), value);
/// }
/// ```
#[must_use]
pub const fn unzigzag(varint: u64) -> i64 {
    (varint >> 1).cast_signed() ^ -(varint & 1).cast_signed()
}
