//! The messages that tensors are in.

use std::fs::File;

use prost_reflect::MessageDescriptor;
use proto_splitter::lazy::MessageView;
use proto_splitter::path::FieldPath;
use proto_splitter::wire::{WireCursor, WireType, decode_varint};
use proto_splitter::{Error, ErrorKind};

/// A message that holds a tensor, and by which fields.
pub(super) struct Kind {
    message: &'static str,
    element_type: u32,
    shape: Shape,
    /// Its elements as they are in memory.
    pub(super) content: u32,
    /// Says, if it isn't 0, that the elements are in another file.
    elsewhere: Option<u32>,
    types: &'static [ElementType],
    /// Whether elements that aren't there are the last one again.
    pub(super) fills_up: bool,
}

/// Where the sizes of the dimensions are.
enum Shape {
    /// In the `dim { size }` of a `TensorShapeProto`, which is this field.
    Message(u32),
    /// Right in this field.
    Numbers(u32),
}

/// What the elements of a tensor are.
pub(super) struct ElementType {
    number: u64,
    /// NumPy's name.
    pub(super) name: &'static str,
    /// Bytes of an element.
    pub(super) width: u64,
    /// The field that has elements one by one.
    pub(super) one_by_one: &'static str,
}

const fn of(number: u64, name: &'static str, width: u64, one_by_one: &'static str) -> ElementType {
    ElementType {
        number,
        name,
        width,
        one_by_one,
    }
}

/// The kinds that are known.
const KINDS: [Kind; 2] = [
    Kind {
        message: "tensorflow.TensorProto",
        element_type: 1,
        shape: Shape::Message(2),
        content: 4,
        elsewhere: None,
        types: &[
            of(1, "<f4", 4, "float_val"),
            of(2, "<f8", 8, "double_val"),
            of(3, "<i4", 4, "int_val"),
            of(4, "|u1", 1, "int_val"),
            of(5, "<i2", 2, "int_val"),
            of(6, "|i1", 1, "int_val"),
            of(8, "<c8", 8, "scomplex_val"),
            of(9, "<i8", 8, "int64_val"),
            of(10, "|b1", 1, "bool_val"),
            of(17, "<u2", 2, "int_val"),
            of(18, "<c16", 16, "dcomplex_val"),
            of(19, "<f2", 2, "half_val"),
            of(22, "<u4", 4, "uint32_val"),
            of(23, "<u8", 8, "uint64_val"),
            // Without a type of NumPy's own: as two bytes each, as ml_dtypes has it.
            of(14, "<V2", 2, "half_val"),
        ],
        fills_up: true,
    },
    Kind {
        message: "onnx.TensorProto",
        element_type: 2,
        shape: Shape::Numbers(1),
        content: 9,
        elsewhere: Some(14),
        types: &[
            of(1, "<f4", 4, "float_data"),
            of(2, "|u1", 1, "int32_data"),
            of(3, "|i1", 1, "int32_data"),
            of(4, "<u2", 2, "int32_data"),
            of(5, "<i2", 2, "int32_data"),
            of(6, "<i4", 4, "int32_data"),
            of(7, "<i8", 8, "int64_data"),
            of(9, "|b1", 1, "int32_data"),
            of(10, "<f2", 2, "int32_data"),
            of(11, "<f8", 8, "double_data"),
            of(12, "<u4", 4, "uint64_data"),
            of(13, "<u8", 8, "uint64_data"),
            of(14, "<c8", 8, "float_data"),
            of(15, "<c16", 16, "double_data"),
            of(16, "<V2", 2, "int32_data"),
        ],
        fills_up: false,
    },
];

/// What a tensor says about its elements.
pub(super) struct Head {
    pub(super) element_type: u64,
    pub(super) shape: Vec<i64>,
    /// Whether its elements are in another file.
    pub(super) elsewhere: bool,
}

impl Kind {
    /// The kind of this message, if it is one.
    pub(super) fn of(message: &MessageDescriptor) -> Option<&'static Kind> {
        let mut kinds = KINDS.iter();
        kinds.find(|kind| kind.message == message.full_name())
    }

    /// The names of all of them.
    pub(super) fn names() -> String {
        KINDS.map(|kind| kind.message).join(" or ")
    }

    /// What NumPy has for this type, if it has anything.
    pub(super) fn element_type(&self, head: &Head) -> Option<&'static ElementType> {
        let mut types = self.types.iter();
        types.find(|known| known.number == head.element_type)
    }

    /// Reads what is small of the tensor at a path.
    pub(super) fn head(
        &self,
        view: &MessageView<'_, File>,
        path: &FieldPath,
    ) -> Result<Head, Error> {
        let mut head = Head {
            element_type: 0,
            shape: Vec::new(),
            elsewhere: false,
        };
        let mut fields = view.fields(path)?;
        while let Some(field) = fields.next().transpose()? {
            let number = field.step.field.0;
            match (&self.shape, field.wire) {
                (_, WireType::Varint) if number == self.element_type => {
                    head.element_type = varint(&fields.value()?);
                }
                (_, WireType::Varint) if self.elsewhere == Some(number) => {
                    head.elsewhere = varint(&fields.value()?) != 0;
                }
                (Shape::Message(shape), WireType::Len) if number == *shape => {
                    dimensions(&fields.value()?, &mut head.shape)?;
                }
                (Shape::Numbers(sizes), WireType::Varint) if number == *sizes => {
                    head.shape.push(varint(&fields.value()?).cast_signed());
                }
                (Shape::Numbers(sizes), WireType::Len) if number == *sizes => {
                    packed(&fields.value()?, &mut head.shape)?;
                }
                _ => {}
            }
        }
        Ok(head)
    }
}

fn varint(bytes: &[u8]) -> u64 {
    decode_varint(bytes).map_or(0, |(value, _)| value)
}

/// The sizes in a packed run.
fn packed(mut run: &[u8], sizes: &mut Vec<i64>) -> Result<(), Error> {
    while !run.is_empty() {
        let Some((size, len)) = decode_varint(run) else {
            let message = "the sizes of the tensor's dimensions end inside a number";
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        };
        sizes.push(size.cast_signed());
        run = &run[len..];
    }
    Ok(())
}

/// The sizes in a `TensorShapeProto`.
fn dimensions(shape: &[u8], sizes: &mut Vec<i64>) -> Result<(), Error> {
    let mut shape = WireCursor::new(shape);
    while let Some(field) = shape.next()? {
        if (field.number.0, field.wire_type) != (2, WireType::Len) {
            continue;
        }
        let mut size = 0;
        let mut dimension = WireCursor::new(shape.bytes(field.value)?);
        while let Some(field) = dimension.next()? {
            if (field.number.0, field.wire_type) == (1, WireType::Varint) {
                size = varint(dimension.bytes(field.value)?);
            }
        }
        sizes.push(size.cast_signed());
    }
    Ok(())
}
