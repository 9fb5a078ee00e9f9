//! Parsing the `TensorDesc` of a stream.

use proto_splitter_core::wire::{SourceInput, WireCursor, WireType, decode_varint};
use proto_splitter_core::{Error, Result};

use crate::dtype::element_type;
use crate::proto::framework::var_type::Type;

/// Number of the field for a tensor's data, in a message whose other fields are those of a
/// `TensorDesc`. No valid `TensorDesc` has a field with this number.
pub(crate) const DATA_FIELD: u32 = 100;

/// A parsed `TensorDesc`, whose dims are all known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Desc {
    pub(crate) dtype: Type,
    /// Size of an element, in bytes.
    pub(crate) element: u64,
    pub(crate) dims: Vec<u64>,
    /// Number and offset of the first field that a model's message can't represent: a group, or a
    /// field with the number [`DATA_FIELD`]. `None` if there is no such field.
    pub(crate) misfit: Option<(u32, u64)>,
}

/// Parses a serialized `TensorDesc`. Accepts packed dims and unknown fields, as Paddle does.
pub(crate) fn read_desc(bytes: &[u8]) -> Result<Desc> {
    let mut cursor = WireCursor::new(SourceInput::new(bytes, bytes.len() as u64));
    let (mut dtype, mut dims, mut misfit) = (None, Vec::new(), None);
    while let Some(field) = cursor.next()? {
        if field.number.0 == DATA_FIELD || field.wire_type == WireType::StartGroup {
            misfit.get_or_insert((field.number.0, field.start));
        }
        let value = cursor.bytes(field.value)?;
        match (field.number.0, field.wire_type) {
            (1, WireType::Varint) => dtype = Some(number(value, 0)?.0),
            (2, WireType::Varint) => dims.push(number(value, 0)?.0),
            (2, WireType::Len) => {
                let mut at = 0;
                while at < value.len() {
                    let (dim, len) = number(value, at)?;
                    dims.push(dim);
                    at += len;
                }
            }
            _ => {}
        }
    }
    let dtype = dtype.ok_or_else(|| Error::invalid("the tensor's description has no data type"))?;
    let (dtype, element) = element_type(dtype)?;
    let known = |(at, &dim): (usize, &i64)| {
        u64::try_from(dim).map_err(|_| Error::invalid(format!("dim {at} is negative: {dim}")))
    };
    let dims = dims.iter().enumerate().map(known).collect::<Result<_>>()?;
    Ok(Desc {
        dtype,
        element,
        dims,
        misfit,
    })
}

/// Parses the varint at `at` as an int64. Returns its value, and its length in bytes.
fn number(bytes: &[u8], at: usize) -> Result<(i64, usize)> {
    let number = bytes.get(at..).and_then(decode_varint);
    let (number, len) = number
        .ok_or_else(|| Error::invalid("a number in the tensor's description is truncated"))?;
    Ok((number.cast_signed(), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desc(bytes: &[u8]) -> Result<(Type, Vec<u64>)> {
        read_desc(bytes).map(|desc| (desc.dtype, desc.dims))
    }

    #[test]
    fn dims_are_read_packed_and_one_by_one() {
        let plain = [8, 5, 16, 6, 16, 2];
        let packed = [8, 5, 18, 2, 6, 2];
        for bytes in [&plain, &packed] {
            assert_eq!(desc(bytes).unwrap(), (Type::Fp32, vec![6, 2]));
        }
        assert_eq!(desc(&[8, 5]).unwrap(), (Type::Fp32, vec![]), "a scalar");
        let unknown = [8, 5, 0x98, 6, 1, 16, 7];
        assert_eq!(desc(&unknown).unwrap(), (Type::Fp32, vec![7]));
    }

    #[test]
    fn what_is_no_description_of_a_tensor_is_refused() {
        for (bytes, said) in [
            (&[16, 6][..], "no data type"),
            (&[8, 25], "STRING"),
            (&[8, 34], "data type 34 is unknown"),
            (
                &[8, 5, 16, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
                "dim 0 is negative: -1",
            ),
            (&[8, 5, 18, 2, 6, 0x80], "truncated"),
            (&[8, 5, 16], ""),
        ] {
            let error = desc(bytes).unwrap_err();
            assert!(error.to_string().contains(said), "{bytes:?}: {error}");
        }
    }
}
