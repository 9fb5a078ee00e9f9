//! The rule that describes how ONNX stores a tensor.

use proto_splitter_core::tensor::{DType, ElementForm, ElementRule, ShapeRule, TensorRule};
use proto_splitter_core::wire::WireType;

use crate::proto::tensor_proto::DataType;

const FLOAT_DATA: u32 = 4;
const INT32_DATA: u32 = 5;
const STRING_DATA: u32 = 6;
const INT64_DATA: u32 = 7;
const DOUBLE_DATA: u32 = 10;
const UINT64_DATA: u32 = 11;

/// The rule that describes how `onnx.TensorProto` stores a tensor.
pub const TENSOR: TensorRule = TensorRule {
    names: &[("onnx.TensorProto", &[8])],
    shape: ShapeRule::Sizes(1),
    content: 9,
    elements: &[
        ElementRule::new(1, DType::F32, FLOAT_DATA),
        ElementRule::new(2, DType::U8, INT32_DATA),
        ElementRule::new(3, DType::I8, INT32_DATA),
        ElementRule::new(4, DType::U16, INT32_DATA),
        ElementRule::new(5, DType::I16, INT32_DATA),
        ElementRule::new(6, DType::I32, INT32_DATA),
        ElementRule::new(7, DType::I64, INT64_DATA),
        ElementRule::new(8, DType::String, STRING_DATA),
        ElementRule::new(9, DType::Bool, INT32_DATA),
        ElementRule::new(10, DType::F16, INT32_DATA),
        ElementRule::new(11, DType::F64, DOUBLE_DATA),
        ElementRule::new(12, DType::U32, UINT64_DATA),
        ElementRule::new(13, DType::U64, UINT64_DATA),
        ElementRule::new(14, DType::C64, FLOAT_DATA),
        ElementRule::new(15, DType::C128, DOUBLE_DATA),
        ElementRule::new(16, DType::BF16, INT32_DATA),
        ElementRule::new(17, DType::F8E4M3, INT32_DATA),
        ElementRule::new(18, DType::F8E4M3Fnuz, INT32_DATA),
        ElementRule::new(19, DType::F8E5M2, INT32_DATA),
        ElementRule::new(20, DType::F8E5M2Fnuz, INT32_DATA),
        ElementRule::new(21, DType::U4, INT32_DATA),
        ElementRule::new(22, DType::I4, INT32_DATA),
        ElementRule::new(23, DType::F4E2M1, INT32_DATA),
        ElementRule::new(24, DType::F8E8M0, INT32_DATA),
        ElementRule::new(25, DType::U2, INT32_DATA),
        ElementRule::new(26, DType::I2, INT32_DATA),
        ElementRule::new(27, DType::F6E2M3, INT32_DATA),
        ElementRule::new(28, DType::F6E3M2, INT32_DATA),
    ],
    is_packed: true,
    elsewhere: Some(14),
    ..TensorRule::new("onnx.TensorProto", 2)
};

/// Returns the form of elements of a type in their typed field, such as `float_data`; `None` if they
/// have no fixed width.
///
/// The comments in `onnx.proto` define how the elements of each type are stored in its field: half
/// and 8-bit floats are stored as their bits in an `int32`, two 4-bit or four 2-bit elements share
/// one entry, and a complex number takes two entries.
pub(crate) fn typed_form(data_type: DataType) -> Option<ElementForm> {
    let element = TENSOR.element(u64::from(i32::from(data_type).unsigned_abs()))?;
    let whole = usize::try_from(element.dtype.width()?).ok()?;
    let (wire, width) = match element.field {
        FLOAT_DATA => (WireType::Fixed32, 4),
        DOUBLE_DATA => (WireType::Fixed64, 8),
        _ => (WireType::Varint, whole),
    };
    let narrow = element.dtype.bits().filter(|bits| *bits == 6);
    Some(ElementForm::new(element.field, wire, width).narrow(narrow))
}
