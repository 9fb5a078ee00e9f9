//! A `TensorProto` as a NumPy file.
//!
//! ```text
//! | 93 "NUMPY" 01 00 | length of the header, u16 LE | header, padded to 64 bytes in all | elements, C order |
//! ```

use std::fs::File;
use std::io::{self, Write};

use prost_reflect::{DynamicMessage, Value};
use proto_splitter::lazy::MessageView;
use proto_splitter::path::{FieldPath, Step, TargetKind};
use proto_splitter::{Error, ErrorKind};

/// The fields of `tensorflow.TensorProto`.
const DTYPE: u32 = 1;
const SHAPE: u32 = 2;
const CONTENT: u32 = 4;

/// The name that protobuf has for a tensor's type, NumPy's, bytes of an element, and the field that
/// has elements one by one.
const TYPES: [(i32, &str, u64, &str); 15] = [
    (1, "<f4", 4, "float_val"),
    (2, "<f8", 8, "double_val"),
    (3, "<i4", 4, "int_val"),
    (4, "|u1", 1, "int_val"),
    (5, "<i2", 2, "int_val"),
    (6, "|i1", 1, "int_val"),
    (8, "<c8", 8, "scomplex_val"),
    (9, "<i8", 8, "int64_val"),
    (10, "|b1", 1, "bool_val"),
    (17, "<u2", 2, "int_val"),
    (18, "<c16", 16, "dcomplex_val"),
    (19, "<f2", 2, "half_val"),
    (22, "<u4", 4, "uint32_val"),
    (23, "<u8", 8, "uint64_val"),
    // Without a type of NumPy's own: as two bytes each, as ml_dtypes has it.
    (14, "<V2", 2, "half_val"),
];

/// Writes the tensor at a path. Its content is copied as it is read.
pub(super) fn write(
    view: &MessageView<'_, File>,
    path: &FieldPath,
    sink: &mut impl Write,
) -> Result<(), Error> {
    let fail = |kind: ErrorKind, message: String| {
        Error::new(kind, message).at_path(path.display(view.descriptor()))
    };
    if let Some(root) = view.descriptor() {
        let target = path.resolve(root)?;
        if !matches!(&target.kind, TargetKind::Message(message) if message.full_name() == "tensorflow.TensorProto")
        {
            let message = "only a tensorflow.TensorProto can be given as npy";
            return Err(fail(ErrorKind::InvalidPath, message.into()));
        }
    } else {
        let message =
            "without the message's type there is only --format binary; --message TYPE says it";
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    let head = Head::read(view, path)?;
    let Some((_, name, width, one_by_one)) = TYPES.iter().find(|(dtype, ..)| *dtype == head.dtype)
    else {
        let message = format!("NumPy has no type for a tensor of data type {}", head.dtype);
        return Err(fail(ErrorKind::InvalidMessage, message));
    };
    let elements = head.elements();
    let Some(bytes) = elements.and_then(|elements| elements.checked_mul(*width)) else {
        let message = format!("a tensor of the shape {:?} has no size", head.shape);
        return Err(fail(ErrorKind::InvalidMessage, message));
    };
    let content = path.join(Step::field(CONTENT));
    match view.size(&content)?.filter(|&size| size > 0) {
        Some(size) if size == bytes => {
            head.write(name, sink)?;
            view.get_to(&content, sink).map(drop)
        }
        Some(size) => {
            let message = format!("a tensor of {bytes} bytes by its shape has {size}");
            Err(fail(ErrorKind::InvalidMessage, message))
        }
        None => {
            let tensor = view.message_dynamic(path)?;
            let values = values(&tensor, one_by_one, *width).ok_or_else(|| {
                let message = format!("{one_by_one} is not what the tensor's type says");
                fail(ErrorKind::InvalidMessage, message)
            })?;
            head.write(name, sink)?;
            Ok(fill(&values, *width, bytes, sink)?)
        }
    }
}

struct Head {
    dtype: i32,
    shape: Vec<i64>,
}

impl Head {
    fn read(view: &MessageView<'_, File>, path: &FieldPath) -> Result<Head, Error> {
        let dtype = path.join(Step::field(DTYPE));
        let dtype = match view.size(&dtype)? {
            Some(_) => proto_splitter::wire::decode_varint(&view.get(&dtype)?)
                .and_then(|(value, _)| i32::try_from(value).ok())
                .unwrap_or(0),
            None => 0,
        };
        let shape = path.join(Step::field(SHAPE));
        let mut dimensions = Vec::new();
        if view.size(&shape)?.is_some() {
            let shape = view.message_dynamic(&shape)?;
            if let Some(Value::List(list)) = shape.get_field_by_name("dim").as_deref() {
                let sizes = list.iter().filter_map(Value::as_message).map(|dimension| {
                    let size = dimension.get_field_by_name("size");
                    size.and_then(|size| size.as_i64()).unwrap_or(0)
                });
                dimensions.extend(sizes);
            }
        }
        Ok(Head {
            dtype,
            shape: dimensions,
        })
    }

    fn elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1u64, |elements, &size| {
            elements.checked_mul(u64::try_from(size).ok()?)
        })
    }

    fn write(&self, name: &str, sink: &mut impl Write) -> io::Result<()> {
        let mut shape: String = self.shape.iter().map(|size| format!("{size}, ")).collect();
        if self.shape.len() > 1 {
            shape.truncate(shape.len() - 2);
        }
        let shape = shape.trim_end();
        let mut header =
            format!("{{'descr': '{name}', 'fortran_order': False, 'shape': ({shape}), }}");
        // The header ends with a line feed, and the elements begin at a multiple of 64.
        let front = 10;
        let padded = (front + header.len() + 1).next_multiple_of(64) - front;
        header.extend(std::iter::repeat_n(' ', padded - 1 - header.len()));
        header.push('\n');
        let len = u16::try_from(header.len()).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "a shape of too many dimensions")
        })?;
        sink.write_all(b"\x93NUMPY\x01\x00")?;
        sink.write_all(&len.to_le_bytes())?;
        sink.write_all(header.as_bytes())
    }
}

/// The elements that are there one by one, as NumPy stores them. Complex numbers are two each.
fn values(tensor: &DynamicMessage, field: &str, width: u64) -> Option<Vec<u8>> {
    let list = tensor.get_field_by_name(field)?;
    let mut bytes = Vec::new();
    for value in list.as_list()? {
        match value {
            Value::F32(value) => bytes.extend(value.to_le_bytes()),
            Value::F64(value) => bytes.extend(value.to_le_bytes()),
            Value::I64(value) => bytes.extend(value.to_le_bytes()),
            Value::U64(value) => bytes.extend(value.to_le_bytes()),
            Value::U32(value) => bytes.extend(value.to_le_bytes()),
            Value::Bool(value) => bytes.push(u8::from(*value)),
            // Narrower integers are stored as int32: their low bytes are theirs.
            Value::I32(value) => {
                let low = value.to_le_bytes();
                bytes.extend_from_slice(low.get(..usize::try_from(width).ok()?)?);
            }
            _ => return None,
        }
    }
    Some(bytes)
}

/// Writes `bytes` bytes of elements: those there are, and the last again and again; zeros if there
/// is none.
fn fill(values: &[u8], width: u64, bytes: u64, sink: &mut impl Write) -> io::Result<()> {
    let there = values
        .len()
        .min(usize::try_from(bytes).unwrap_or(usize::MAX));
    sink.write_all(&values[..there])?;
    let width = usize::try_from(width).unwrap_or(1);
    let zeros = [0; 16];
    let last = match there.checked_sub(width) {
        Some(start) => &values[start..there],
        None => &zeros[..width],
    };
    let block = last.repeat(4096);
    let mut left = bytes - there as u64;
    while left > 0 {
        let step = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        sink.write_all(&block[..step])?;
        left -= step as u64;
    }
    Ok(())
}
