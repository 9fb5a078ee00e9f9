//! A tensor as a NumPy file.
//!
//! ```text
//! | 93 "NUMPY" 01 00 | length of the header, u16 LE | header, padded to 64 bytes in all | elements, C order |
//! ```

mod kinds;

use std::fs::File;
use std::io::{self, Write};

use prost_reflect::{DynamicMessage, Value};
use proto_splitter::lazy::MessageView;
use proto_splitter::path::{FieldPath, Step};
use proto_splitter::{Error, ErrorKind};

use kinds::{Head, Kind};

/// Writes the tensor at a path. Its content is copied as it is read.
pub(super) fn write(
    view: &MessageView<'_, File>,
    path: &FieldPath,
    sink: &mut impl Write,
) -> Result<(), Error> {
    let fail = |kind: ErrorKind, message: String| {
        Error::new(kind, message).at_path(path.display(view.descriptor()))
    };
    let bad = |message: String| Err(fail(ErrorKind::InvalidMessage, message));
    let target = path.resolve(super::value::typed(view)?)?;
    let kind = target.kind.message().and_then(Kind::of);
    let Some(kind) = kind else {
        let message = format!("only a {} can be given as npy", Kind::names());
        return Err(fail(ErrorKind::InvalidPath, message));
    };
    let head = kind.head(view, path)?;
    let Some(element) = kind.element_type(&head) else {
        let number = head.element_type;
        return bad(format!(
            "NumPy has no type for a tensor of data type {number}"
        ));
    };
    if head.elsewhere {
        return bad("the tensor's elements are in another file".into());
    }
    let elements = head.elements();
    let Some(bytes) = elements.and_then(|elements| elements.checked_mul(element.width)) else {
        return bad(format!(
            "a tensor of the shape {:?} has no size",
            head.shape
        ));
    };
    let differs = |there: u64| {
        bad(format!(
            "a tensor of {bytes} bytes by its shape has {there}"
        ))
    };
    let content = path.join(Step::field(kind.content));
    if let Some(size) = view.size(&content)?.filter(|&size| size > 0) {
        if size != bytes {
            return differs(size);
        }
        head.write(element.name, sink)?;
        return view.get_to(&content, sink).map(drop);
    }
    let tensor = view.message_dynamic(path)?;
    let Some(values) = values(&tensor, element.one_by_one, element.width) else {
        let field = element.one_by_one;
        return bad(format!("{field} is not what the tensor's type says"));
    };
    if !kind.fills_up && values.len() as u64 != bytes {
        return differs(values.len() as u64);
    }
    head.write(element.name, sink)?;
    Ok(fill(&values, element.width, bytes, sink)?)
}

impl Head {
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
    let width = usize::try_from(width).ok()?;
    let mut bytes = Vec::new();
    for value in list.as_list()? {
        match value {
            Value::F32(value) => bytes.extend(value.to_le_bytes()),
            Value::F64(value) => bytes.extend(value.to_le_bytes()),
            Value::I64(value) => bytes.extend(value.to_le_bytes()),
            Value::U32(value) => bytes.extend(value.to_le_bytes()),
            Value::Bool(value) => bytes.push(u8::from(*value)),
            // Narrower integers are stored as wider ones: their low bytes are theirs.
            Value::I32(value) => bytes.extend_from_slice(value.to_le_bytes().get(..width)?),
            Value::U64(value) => bytes.extend_from_slice(value.to_le_bytes().get(..width)?),
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
