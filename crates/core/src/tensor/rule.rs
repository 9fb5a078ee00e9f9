//! Rules, as data, that describe how tensors are stored in messages.

use super::{ByteOrder, DType};

/// A description of tensors in messages of one type: the fields that contain the element type, the
/// shape and the elements. A format has one rule for each message type that contains a tensor.
///
/// The elements are either all in one bytes field, with their in-memory layout, or one by one in a
/// repeated field that depends on their type ([`ElementRule::field`]).
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
    /// Full name of the message's type.
    pub message: &'static str,
    /// Sources of the tensor's name: the names of these enclosing messages, the outermost first,
    /// are joined by `/`. The message itself may be the last. Each entry consists of a type's full
    /// name and the numbers of the fields that lead to the name in a message of that type. If none
    /// has a name, the tensor is named by its path.
    pub names: &'static [(&'static str, &'static [u32])],
    /// Varint field with the number of the element type.
    pub dtype: u32,
    /// Location of the sizes of the dimensions.
    pub shape: ShapeRule,
    /// Bytes field with all elements in their in-memory layout.
    pub content: u32,
    /// Byte order of the elements in the field `content`.
    pub byte_order: ByteOrder,
    /// Supported element types.
    pub elements: &'static [ElementRule],
    /// True if elements of less than 8 bits share bytes.
    pub is_packed: bool,
    /// True if missing elements repeat the last one, or are 0 if there is none.
    pub fills_up: bool,
    /// Varint field that is not 0 if the elements are in another file.
    pub elsewhere: Option<u32>,
}

/// The location of the sizes of a tensor's dimensions in its message.
#[derive(Clone, Copy, Debug)]
pub enum ShapeRule {
    /// A field with a message like `TensorShapeProto`: its field 2 is a dimension, and field 1 of a
    /// dimension is the size.
    Dimensions(u32),
    /// A repeated number field with the sizes.
    Sizes(u32),
}

/// An element type in a format.
#[derive(Clone, Copy, Debug)]
pub struct ElementRule {
    /// The format's number for the type.
    pub number: u64,
    /// The element type.
    pub dtype: DType,
    /// Repeated field with single elements. A complex number takes two of them. Integers that are
    /// wider than the type are truncated to their low bytes.
    pub field: u32,
}

/// A rule that locates the LoD (level of detail) of tensors in messages of one type. Each level is
/// a message, next to its tensor in the same parent message.
#[derive(Clone, Copy, Debug)]
pub struct LodRule {
    /// Full name of the type of the whole message.
    pub message: &'static str,
    /// [Query](crate::path::PathQuery) for all levels. The levels of one tensor are in order, the
    /// coarsest first.
    pub levels: &'static str,
    /// Field that contains the tensor, in the parent message of the tensor's levels.
    pub tensor: u32,
    /// Field of a level that contains the offsets: repeated 64-bit numbers of fixed size.
    pub offsets: u32,
}

impl ElementRule {
    /// Creates a rule for the element type with this number. Its single elements are in `field`.
    pub const fn new(number: u64, dtype: DType, field: u32) -> ElementRule {
        ElementRule {
            number,
            dtype,
            field,
        }
    }
}

impl TensorRule {
    /// Creates a rule for messages of this type, to complete by struct update: `dtype` is the field
    /// that contains the number of the element type. Sizes are in field 1, the content is in field
    /// 9, no element type is known, and elements are neither packed, nor filled up, nor in another
    /// file.
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

    /// Returns the element type with this number; `None` if the format doesn't know it.
    pub fn element(&self, number: u64) -> Option<&'static ElementRule> {
        self.elements.iter().find(|known| known.number == number)
    }
}
