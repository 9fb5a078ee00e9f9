//! The rules for tensors in the messages of Paddle's models, and its data types.

use proto_splitter_core::tensor::{DType, ElementRule, LodRule, ShapeRule, TensorRule};

use crate::model::{MODEL, field};
use crate::proto::framework::var_type::Type;

/// Rule for tensors in `proto_splitter.paddle.Tensor` messages. The field `data` always contains
/// the elements.
pub const TENSOR: TensorRule = TensorRule {
    names: &[("proto_splitter.paddle.Parameter", &[1])],
    shape: ShapeRule::Sizes(2),
    content: 100,
    elements: &ELEMENTS,
    ..TensorRule::new("proto_splitter.paddle.Tensor", 1)
};

/// Rule for finding the LoD of tensors in a message of type [`MODEL`].
pub const LOD: LodRule = LodRule {
    message: MODEL,
    levels: "parameter_files[*].parameters[*].lod[*]",
    tensor: field::parameter::TENSOR,
    offsets: field::lod_level::OFFSETS,
};

/// The data types with their numbers in `VarType.Type`. The field `data` contains the elements of
/// every type, so no type has a field of its own.
const ELEMENTS: [ElementRule; 18] = [
    element(Type::Bool, DType::Bool),
    element(Type::Int16, DType::I16),
    element(Type::Int32, DType::I32),
    element(Type::Int64, DType::I64),
    element(Type::Fp16, DType::F16),
    element(Type::Fp32, DType::F32),
    element(Type::Fp64, DType::F64),
    element(Type::SizeT, DType::U64),
    element(Type::Uint8, DType::U8),
    element(Type::Int8, DType::I8),
    element(Type::Bf16, DType::BF16),
    element(Type::Complex64, DType::C64),
    element(Type::Complex128, DType::C128),
    element(Type::Fp8E4m3fn, DType::F8E4M3),
    element(Type::Fp8E5m2, DType::F8E5M2),
    element(Type::Uint16, DType::U16),
    element(Type::Uint32, DType::U32),
    element(Type::Uint64, DType::U64),
];

const fn element(number: Type, dtype: DType) -> ElementRule {
    ElementRule::new(number as u64, dtype, NO_FIELD)
}

/// A field number that the message of a tensor doesn't use.
const NO_FIELD: u32 = 99;

/// Converts Paddle's data type to a [`DType`]; unknown types become [`DType::Unknown`].
pub(super) fn dtype(of: Type) -> DType {
    let number = u64::try_from(of as i32).unwrap_or_default();
    TENSOR
        .element(number)
        .map_or(DType::Unknown(i64::from(of as i32)), |element| {
            element.dtype
        })
}

/// Returns Paddle's data type for an element type; `None` if Paddle has no such type.
///
/// ```
/// use proto_splitter_core::tensor::DType;
/// use proto_splitter_paddle::{proto::framework::var_type::Type, type_of};
///
/// assert_eq!(type_of(DType::U64), Some(Type::Uint64));
/// assert_eq!(type_of(DType::I4), None);
/// ```
#[must_use]
pub fn type_of(dtype: DType) -> Option<Type> {
    // If several of Paddle's types have this element type, uses the last. It is never `SIZE_T`,
    // whose size depends on the machine.
    let element = ELEMENTS.iter().rfind(|element| element.dtype == dtype)?;
    Type::try_from(i32::try_from(element.number).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_data_type_has_a_name_in_the_workspace_and_the_same_size() {
        for number in 0..64 {
            let Ok(of) = Type::try_from(number) else {
                continue;
            };
            if let Some(size) = crate::element_size(of) {
                let bits = dtype(of).bits().map(u64::from);
                assert_eq!(bits, Some(8 * size), "{}", of.as_str_name());
            }
        }
    }
}
