//! Slices of tensors, and their keys in the index.
//!
//! Each slice has an entry in the index, whose key is in TensorFlow's ordered code. The key
//! consists of a zero byte; the tensor's name, with `00` encoded as `00 ff` and `ff` as `ff 00`;
//! the bytes `00 01`; the number of dimensions; and, for each dimension, the slice's first index
//! and length. The length is -1 if the slice spans the whole dimension.

use proto_splitter_core::{Error, Result};

use crate::proto::TensorSliceProto;
use crate::proto::tensor_slice_proto::extent::HasLength;

/// First byte of the key of a slice. No other keys begin with this byte.
pub(crate) const FIRST_BYTE: u8 = 0;

/// Length that means the whole dimension.
const ALL_OF_IT: i64 = -1;

fn length(extent: &crate::proto::tensor_slice_proto::Extent) -> i64 {
    match extent.has_length {
        Some(HasLength::Length(length)) => length,
        None => ALL_OF_IT,
    }
}

/// Returns the approximate size of the key that [`slice_key`] returns, in bytes.
pub(crate) fn key_len(name: &[u8], slice: &TensorSliceProto) -> u64 {
    /// Maximum size of a key without the name and the extents, in bytes.
    const FIXED: u64 = 5;
    /// Maximum size of an encoded extent, in bytes: two numbers.
    const EXTENT: u64 = 20;
    FIXED + name.len() as u64 + EXTENT.saturating_mul(slice.extent.len() as u64)
}

/// Returns the key of the index entry for a slice of the tensor `name`.
pub(crate) fn slice_key(name: &[u8], slice: &TensorSliceProto) -> Result<Vec<u8>> {
    let mut key = vec![FIRST_BYTE];
    for &byte in name {
        key.push(byte);
        match byte {
            0 => key.push(0xff),
            0xff => key.push(0),
            _ => {}
        }
    }
    key.extend_from_slice(&[0, 1]);
    // A tensor has few dimensions, so their number is encoded in two bytes: its length and its
    // value.
    match u8::try_from(slice.extent.len()) {
        Ok(0) => key.push(0),
        Ok(rank) => key.extend_from_slice(&[1, rank]),
        Err(_) => return Err(Error::invalid("a slice has over 255 dimensions")),
    }
    for extent in &slice.extent {
        put_signed(&mut key, extent.start);
        put_signed(&mut key, length(extent));
    }
    Ok(key)
}

/// Appends a signed number, encoded so that the bytes sort like the numbers. The encoding begins
/// with a `1` bit for each of its bytes, followed by the number in two's complement. For a negative
/// number, the leading bits are `0` instead.
fn put_signed(out: &mut Vec<u8>, value: i64) {
    let magnitude = if value < 0 { !value } else { value };
    let bits = (i64::BITS - magnitude.leading_zeros()) as usize;
    let len = bits / 7 + 1;
    let mut bytes = [if value < 0 { 0xff } else { 0 }; 10];
    bytes[2..].copy_from_slice(&value.to_be_bytes());
    let number = &mut bytes[10 - len..];
    let ones = !(u16::MAX
        .checked_shr(u32::try_from(len).unwrap_or(16))
        .unwrap_or(0));
    let [high, low] = ones.to_be_bytes();
    number[0] ^= high;
    if let Some(second) = number.get_mut(1) {
        *second ^= low;
    }
    out.extend_from_slice(number);
}

/// Returns the first index and the length of a slice in each dimension of a tensor of this shape.
pub(crate) fn bounds(slice: &TensorSliceProto, shape: &[u64]) -> Result<(Vec<u64>, Vec<u64>)> {
    if slice.extent.len() != shape.len() {
        let message = format!(
            "a slice has {} dimensions, unlike its tensor of {shape:?}",
            slice.extent.len()
        );
        return Err(Error::invalid(message));
    }
    let bounds = slice.extent.iter().zip(shape).map(|(extent, &dim)| {
        let start = u64::try_from(extent.start).ok();
        let len = match length(extent) {
            ALL_OF_IT => start.and_then(|start| dim.checked_sub(start)),
            length => u64::try_from(length).ok(),
        };
        match (start, len) {
            (Some(start), Some(len)) if start.checked_add(len).is_some_and(|end| end <= dim) => {
                Ok((start, len))
            }
            _ => Err(Error::invalid(format!("a slice reaches out of {shape:?}"))),
        }
    });
    bounds
        .collect::<Result<Vec<_>>>()
        .map(|bounds| bounds.into_iter().unzip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_order_as_bytes() {
        let numbers = [
            i64::MIN,
            -(1 << 40),
            -8193,
            -8192,
            -65,
            -64,
            -1,
            0,
            1,
            63,
            64,
            8191,
            8192,
            1 << 40,
            i64::MAX,
        ];
        let encoded = numbers.map(|number| {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, number);
            bytes
        });
        assert!(encoded.is_sorted());
        assert_eq!(encoded[6], [0x7f], "-1");
        assert_eq!(encoded[7], [0x80], "0");
        assert_eq!(encoded[10], [0xc0, 0x40], "64");
        assert_eq!(encoded[14].len(), 10);
    }
}
