//! The rule that describes how ONNX stores a tensor.

use proto_splitter_core::tensor::{DType, ElementRule, ShapeRule, TensorRule};

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
