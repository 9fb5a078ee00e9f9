//! Data types of tensors. They are values of the enum `VarType.Type`, whose other values are kinds
//! of variables.

use proto_splitter_core::tensor::element_count;
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::proto::framework::var_type::Type;

/// Returns the size in bytes of an element of this type; `None` if elements have no fixed size.
///
/// ```
/// use proto_splitter_paddle::{element_size, proto::framework::var_type::Type};
///
/// assert_eq!(element_size(Type::Bf16), Some(2));
/// assert_eq!(element_size(Type::Strings), None);
/// ```
#[must_use]
pub const fn element_size(dtype: Type) -> Option<u64> {
    Some(match dtype {
        Type::Bool | Type::Uint8 | Type::Int8 | Type::Fp8E4m3fn | Type::Fp8E5m2 => 1,
        Type::Int16 | Type::Fp16 | Type::Bf16 | Type::Uint16 => 2,
        Type::Int32 | Type::Fp32 | Type::Uint32 => 4,
        Type::Int64 | Type::Fp64 | Type::SizeT | Type::Complex64 | Type::Uint64 => 8,
        Type::Complex128 => 16,
        _ => return None,
    })
}

/// Returns the data type with this number in `VarType.Type`, and the size of its elements in bytes.
pub(crate) fn element_type(number: i64) -> Result<(Type, u64)> {
    let unknown = || {
        let message = format!("data type {number} is unknown to Paddle");
        Error::new(ErrorKind::InvalidMessage, message)
    };
    let dtype = i32::try_from(number).map_err(|_| unknown())?;
    let dtype = Type::try_from(dtype).map_err(|_| unknown())?;
    match element_size(dtype) {
        Some(size) => Ok((dtype, size)),
        None => {
            let name = dtype.as_str_name();
            let message = format!("data type {name} has no elements of a fixed size");
            Err(Error::new(ErrorKind::InvalidMessage, message))
        }
    }
}

/// Returns the size in bytes of a tensor with these dims, whose elements have `element` bytes.
/// Returns `None` if the size doesn't fit in a signed 64-bit number.
pub(crate) fn data_size(dims: &[u64], element: u64) -> Option<u64> {
    let size = element_count(dims)?.checked_mul(element)?;
    i64::try_from(size).is_ok().then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_up_to_the_largest_signed_number() {
        assert_eq!(data_size(&[], 4), Some(4));
        assert_eq!(data_size(&[0, u64::MAX], 4), Some(0));
        assert_eq!(data_size(&[1 << 60], 4), Some(1 << 62));
        assert_eq!(data_size(&[1 << 61], 4), None);
        assert_eq!(data_size(&[1 << 40, 1 << 40], 1), None);
    }

    #[test]
    fn kinds_of_variables_are_no_data_types() {
        assert_eq!(element_type(5).unwrap(), (Type::Fp32, 4));
        let kind = element_type(7).unwrap_err();
        assert!(kind.to_string().contains("LOD_TENSOR"), "{kind}");
        assert!(element_type(-1).is_err());
        assert!(element_type(1 << 40).is_err());
    }
}
