//! Names and sizes of the element types of tensors.

use proto_splitter_core::tensor::element_count;
use proto_splitter_graph_def::proto::DataType;

/// Returns the size of an element in a bundle, in bytes; `None` for types without a fixed size, and
/// for reference types.
///
/// As in TensorFlow, a 2-bit or 4-bit element occupies a whole byte.
///
/// ```
/// use proto_splitter_graph_def::proto::DataType;
/// use proto_splitter_tensor_bundle::element_size;
///
/// assert_eq!(element_size(DataType::DtBfloat16), Some(2));
/// assert_eq!(element_size(DataType::DtString), None);
/// ```
#[must_use]
pub fn element_size(dtype: DataType) -> Option<u64> {
    Some(match dtype_name(dtype).as_str() {
        "complex128" => 16,
        "double" | "int64" | "uint64" | "complex64" => 8,
        "float" | "int32" | "uint32" | "qint32" => 4,
        "half" | "bfloat16" | "int16" | "uint16" | "qint16" | "quint16" => 2,
        "int8" | "uint8" | "qint8" | "quint8" | "bool" | "int4" | "uint4" | "int2" | "uint2" => 1,
        name if name.starts_with("float8_") || name.starts_with("float4_") => 1,
        _ => return None,
    })
}

/// Returns the name of a type in lower case, without TensorFlow's prefix `DT_`.
///
/// ```
/// use proto_splitter_graph_def::proto::DataType;
/// use proto_splitter_tensor_bundle::dtype_name;
///
/// assert_eq!(dtype_name(DataType::DtFloat), "float");
/// ```
#[must_use]
pub fn dtype_name(dtype: DataType) -> String {
    proto_splitter_graph_def::type_name(dtype)
}

/// Returns the size of a tensor with this type and shape, in bytes; `None` if its elements have no
/// fixed size, or the size overflows 64 bits.
pub(crate) fn tensor_size(dtype: DataType, shape: &[u64]) -> Option<u64> {
    element_count(shape)?.checked_mul(element_size(dtype)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_tensor_is_checked_and_an_empty_one_has_none() {
        let float = DataType::DtFloat;
        assert_eq!(tensor_size(float, &[]), Some(4), "a scalar");
        assert_eq!(tensor_size(float, &[2, 3]), Some(24));
        assert_eq!(tensor_size(float, &[u64::MAX, 0, 9]), Some(0));
        assert_eq!(tensor_size(float, &[1 << 40, 1 << 40]), None);
        assert_eq!(tensor_size(float, &[1 << 62]), None);
    }
}
