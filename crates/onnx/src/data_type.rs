//! Sizes of ONNX's element types.

use crate::proto::tensor_proto::DataType;

/// Returns the size of an element in raw data, in bits; `None` for strings and the undefined type.
///
/// ```
/// use proto_splitter_onnx::element_bits;
/// use proto_splitter_onnx::proto::tensor_proto::DataType;
///
/// assert_eq!(element_bits(DataType::Bfloat16), Some(16));
/// assert_eq!(element_bits(DataType::Int4), Some(4));
/// assert_eq!(element_bits(DataType::String), None);
/// ```
pub fn element_bits(data_type: DataType) -> Option<u32> {
    use DataType as D;
    Some(match data_type {
        D::Undefined | D::String => return None,
        D::Uint2 | D::Int2 => 2,
        D::Uint4 | D::Int4 | D::Float4e2m1 => 4,
        D::Float6e2m3 | D::Float6e3m2 => 6,
        D::Uint8
        | D::Int8
        | D::Bool
        | D::Float8e4m3fn
        | D::Float8e4m3fnuz
        | D::Float8e5m2
        | D::Float8e5m2fnuz
        | D::Float8e8m0 => 8,
        D::Uint16 | D::Int16 | D::Float16 | D::Bfloat16 => 16,
        D::Float | D::Int32 | D::Uint32 => 32,
        D::Double | D::Int64 | D::Uint64 | D::Complex64 => 64,
        D::Complex128 => 128,
    })
}

/// Returns the size of a tensor's raw data, in bytes. Elements narrower than a byte are packed.
/// Returns `None` for types without raw data, for a negative dimension, and if the size exceeds
/// 2^64 bytes.
///
/// ```
/// use proto_splitter_onnx::raw_len;
/// use proto_splitter_onnx::proto::tensor_proto::DataType;
///
/// assert_eq!(raw_len(DataType::Float, &[2, 3]), Some(24));
/// assert_eq!(raw_len(DataType::Int4, &[5]), Some(3));
/// assert_eq!(raw_len(DataType::Float, &[]), Some(4));
/// assert_eq!(raw_len(DataType::Float, &[i64::MAX, i64::MAX]), None);
/// ```
pub fn raw_len(data_type: DataType, dims: &[i64]) -> Option<u64> {
    let bits = element_bits(data_type)?;
    let elements = element_count(dims)?;
    let bits = u128::from(elements) * u128::from(bits);
    u64::try_from(bits.div_ceil(8)).ok()
}

/// Returns the number of elements in a tensor of shape `dims`, which is 0 if any dimension is 0.
/// Returns `None` if a dimension is negative, or the number is 2^64 or more.
pub(crate) fn element_count(dims: &[i64]) -> Option<u64> {
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(1u64, |count, &dim| {
        count.checked_mul(u64::try_from(dim).ok()?)
    })
}

/// Returns the type's name in lower case, such as `float16`.
pub(crate) fn type_name(data_type: DataType) -> String {
    data_type.as_str_name().to_lowercase()
}
