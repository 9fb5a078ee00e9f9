//! Rules, as data, that describe how tensors are stored in messages.

use super::{ByteOrder, DType};

/// A description of the tensors in messages of one type: the fields that contain the element type,
/// the shape and the elements. A format has one rule for each message type that contains a tensor.
///
/// A tensor's elements are either all in one bytes field, in their in-memory layout, or one by one
/// in a repeated field that depends on the element type ([`ElementRule::field`]).
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
    /// Full name of the message type that contains a tensor.
    pub message: &'static str,
    /// Types of the messages that contribute to the name of a tensor. Each entry consists of a
    /// type's full name, and the field numbers that lead to the name in a message of that type. The
    /// names in the messages that enclose the tensor, the outermost first, and in the tensor's own
    /// message are joined by `/`. Without any of these names, the tensor is named by its path.
    pub names: &'static [(&'static str, &'static [u32])],
    /// Number of the varint field that contains the format's number for the element type.
    pub dtype: u32,
    /// Location of the dimensions' sizes.
    pub shape: ShapeRule,
    /// Number of the bytes field that contains all elements in their in-memory layout.
    pub content: u32,
    /// Byte order of the elements in the field `content`.
    pub byte_order: ByteOrder,
    /// The element types that the format supports.
    pub elements: &'static [ElementRule],
    /// True if elements of less than 8 bits share bytes.
    pub is_packed: bool,
    /// True if elements may be missing at the end. The missing elements are copies of the last
    /// element present, or 0 if there is none.
    pub fills_up: bool,
    /// Number of the varint field whose value is not 0 if the elements are in another file; `None`
    /// if the format has no such field.
    pub elsewhere: Option<u32>,
}

/// The field of a tensor's message that contains the sizes of the dimensions.
#[derive(Clone, Copy, Debug)]
pub enum ShapeRule {
    /// Number of a field that contains a message like `TensorShapeProto`. Each occurrence of field
    /// 2 in that message is a dimension, whose field 1 contains the size.
    Dimensions(u32),
    /// Number of a repeated integer field that contains the sizes.
    Sizes(u32),
}

/// An element type that a format supports.
#[derive(Clone, Copy, Debug)]
pub struct ElementRule {
    /// The format's number for the type.
    pub number: u64,
    /// The element type.
    pub dtype: DType,
    /// Number of the repeated field that contains elements one by one. A complex number is two
    /// consecutive values of this field. Integers that are wider than the element type are
    /// truncated to their low bytes.
    pub field: u32,
}

/// A rule that locates the LoD (level of detail) of tensors in messages of one type. Each level of
/// a tensor is a message in the tensor's parent message.
#[derive(Clone, Copy, Debug)]
pub struct LodRule {
    /// Full name of the type of the messages that [`levels`](Self::levels) queries.
    pub message: &'static str,
    /// [Query](crate::path::PathQuery) that selects all levels of all tensors. The levels of a
    /// tensor are in order, the coarsest first.
    pub levels: &'static str,
    /// Number of the field that contains the tensor, in the message that also contains the tensor's
    /// levels.
    pub tensor: u32,
    /// Number of the field that contains a level's offsets: repeated 64-bit numbers of fixed size.
    pub offsets: u32,
}

impl ElementRule {
    /// Creates a rule for the element type with this number. `field` is the number of the repeated
    /// field that contains elements one by one.
    pub const fn new(number: u64, dtype: DType, field: u32) -> ElementRule {
        ElementRule {
            number,
            dtype,
            field,
        }
    }
}

impl TensorRule {
    /// Creates a rule for tensors in messages of the type `message`, whose field `dtype` contains
    /// the number of the element type. Set other members with struct update syntax. By default, the
    /// sizes of the dimensions are in field 1 and all elements in field 9, no element type is
    /// supported, elements of less than 8 bits don't share bytes, no elements may be missing, and
    /// all elements are in the message itself.
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

    /// Returns the rule for the element type with this number; `None` if the format doesn't support
    /// it.
    pub fn element(&self, number: u64) -> Option<&'static ElementRule> {
        self.elements.iter().find(|known| known.number == number)
    }
}
