//! How tensors are stored in messages, as data.

use super::{ByteOrder, DType};

/// How a tensor is stored in a message of one type: which fields have its type, its shape and its
/// elements. A format has one for each type of message that holds a tensor.
///
/// The elements are either all in one bytes field, as they are in memory, or one by one in a
/// repeated field that their type says ([`ElementRule::field`]).
///
/// ```
/// use proto_splitter_core::tensor::{DType, ElementRule, ShapeRule, TensorRule};
///
/// /// message Array { string name = 1; int32 kind = 2; repeated int64 size = 3; bytes data = 4;
/// ///                 repeated float floats = 5; }
/// const ARRAY: TensorRule = TensorRule {
///     names: &[("toy.Array", &[1])],
///     shape: ShapeRule::Sizes(3),
///     content: 4,
///     elements: &[ElementRule::new(1, DType::F32, 5)],
///     ..TensorRule::new("toy.Array", 2)
/// };
/// assert_eq!(ARRAY.element(1).map(|element| element.dtype), Some(DType::F32));
/// assert!(ARRAY.element(2).is_none());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TensorRule {
    /// The full name of the message's type.
    pub message: &'static str,
    /// What the tensor is called: the names of these messages around it, the outermost first,
    /// joined by `/`. The message itself may be the last. Each is a type's full name and the
    /// numbers of the fields that lead to its name. Where none has a name, the tensor is called by
    /// its path.
    pub names: &'static [(&'static str, &'static [u32])],
    /// The field with the number of the element type, a varint.
    pub dtype: u32,
    /// Where the sizes of the dimensions are.
    pub shape: ShapeRule,
    /// The bytes field that has all elements as they are in memory.
    pub content: u32,
    /// The order of the bytes of an element there.
    pub byte_order: ByteOrder,
    /// The element types that there are.
    pub elements: &'static [ElementRule],
    /// Whether elements of less than 8 bits share their bytes.
    pub is_packed: bool,
    /// Whether elements that are not there are the last one again, or 0 if there is none.
    pub fills_up: bool,
    /// A varint field that says, if it isn't 0, that the elements are in another file.
    pub elsewhere: Option<u32>,
}

/// Where the sizes of a tensor's dimensions are in its message.
#[derive(Clone, Copy, Debug)]
pub enum ShapeRule {
    /// In this field, a message like `TensorShapeProto`: field 2 is a dimension, whose field 1 is
    /// its size.
    Dimensions(u32),
    /// Right in this field, a repeated number.
    Sizes(u32),
}

/// An element type of a format.
#[derive(Clone, Copy, Debug)]
pub struct ElementRule {
    /// The format's number for it.
    pub number: u64,
    /// What it is.
    pub dtype: DType,
    /// The repeated field that has elements one by one. Complex numbers are two elements each. Of
    /// integers that are wider there, the low bytes count.
    pub field: u32,
}

impl ElementRule {
    /// The type with this number, whose elements are one by one in this field.
    pub const fn new(number: u64, dtype: DType, field: u32) -> ElementRule {
        ElementRule {
            number,
            dtype,
            field,
        }
    }
}

impl TensorRule {
    /// A rule for messages of this type, to be completed by struct update: `dtype` is the field
    /// with the number of the element type. Sizes are in field 1, the content is in field 9, no
    /// element type is known, and nothing is packed, filled up or elsewhere.
    pub const fn new(message: &'static str, dtype: u32) -> TensorRule {
        TensorRule {
            message,
            names: &[],
            dtype,
            shape: ShapeRule::Sizes(1),
            content: 9,
            byte_order: ByteOrder::Little,
            elements: &[],
            is_packed: false,
            fills_up: false,
            elsewhere: None,
        }
    }

    /// The element type with this number; none if the format doesn't know it.
    pub fn element(&self, number: u64) -> Option<&'static ElementRule> {
        self.elements.iter().find(|known| known.number == number)
    }
}
