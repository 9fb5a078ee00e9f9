//! NumPy's file format.
//!
//! ```text
//! | 93 "NUMPY" 01 00 | length of the header, u16 LE | header, padded to 64 bytes in all | elements, C order |
//! ```

use std::io::{self, Write};

use proto_splitter_core::tensor::{ByteOrder, DType, TensorInfo, TensorReader};
use proto_splitter_core::{Error, ErrorKind};

/// Number of bytes to unpack at a time.
const STEP: usize = 64 << 10;

/// Writes a tensor as a NumPy file, streaming its elements.
///
/// ```
/// use proto_splitter_core::tensor::{DType, TensorInfo, TensorReader};
///
/// let tensor = TensorInfo::new("t", DType::U8, vec![3]);
/// let mut file = Vec::new();
/// proto_splitter_ops::write_npy(TensorReader::of_bytes(tensor, vec![1, 2, 3]), &mut file)?;
/// assert!(file.starts_with(b"\x93NUMPY") && file.ends_with(&[1, 2, 3]));
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if NumPy has no type for the elements. Also fails if the elements
/// can't be read, or writing to the sink fails.
pub fn write_npy(reader: TensorReader<'_>, sink: &mut dyn Write) -> Result<(), Error> {
    let info = reader.info().clone();
    sink.write_all(&header(&info)?)?;
    match packed(&info) {
        None => reader.write_to(sink),
        Some(bits) => {
            let mut unpacking = Unpacking {
                sink,
                bits,
                pending: (0, 0),
                left: info.elements().unwrap_or(0),
            };
            reader.write_to(&mut unpacking)
        }
    }
}

/// Returns the size of a tensor's NumPy file, in bytes.
pub(crate) fn size(info: &TensorInfo) -> Result<u64, Error> {
    let elements = match packed(info) {
        Some(_) => info.elements().unwrap_or(0),
        None => info.bytes,
    };
    Ok(header(info)?.len() as u64 + elements)
}

/// Returns the width of an element in bits, if several elements share a byte; otherwise `None`. In
/// a NumPy file, each of these elements needs a byte.
fn packed(info: &TensorInfo) -> Option<u32> {
    info.dtype.bits().filter(|_| info.is_packed())
}

/// Returns the NumPy file's header for a tensor.
fn header(info: &TensorInfo) -> Result<Vec<u8>, Error> {
    // NumPy pads all strings to the length of the longest.
    let strings = (info.dtype == DType::String).then(|| {
        let width = info.bytes.checked_div(info.elements().unwrap_or(0));
        format!("S{}", width.unwrap_or(1).max(1))
    });
    let Some(name) = strings.as_deref().or(info.dtype.npy()) else {
        let message = format!("NumPy has no type for elements of the type {}", info.dtype);
        return Err(Error::new(ErrorKind::InvalidMessage, message));
    };
    let order = match info.byte_order {
        // Byte order doesn't apply to elements of a single byte.
        _ if info.dtype.width() == Some(1) || info.dtype == DType::String => '|',
        ByteOrder::Little => '<',
        ByteOrder::Big => '>',
    };
    let sizes = info.shape.iter().map(|size| format!("{size}, "));
    let mut shape: String = sizes.collect();
    if info.shape.len() > 1 {
        shape.truncate(shape.len() - 2);
    }
    let shape = shape.trim_end();
    let mut text =
        format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The header ends with a line feed, and the elements begin at a multiple of 64.
    let front = 10;
    let padded = (front + text.len() + 1).next_multiple_of(64) - front;
    text.extend(std::iter::repeat_n(' ', padded - 1 - text.len()));
    text.push('\n');
    let len = u16::try_from(text.len()).map_err(|_| {
        let message = "the shape has too many dimensions for a NumPy file";
        Error::new(ErrorKind::LimitExceeded, message)
    })?;
    Ok([
        b"\x93NUMPY\x01\x00",
        &len.to_le_bytes()[..],
        text.as_bytes(),
    ]
    .concat())
}

/// A writer that converts elements narrower than a byte, several of which are packed in each byte,
/// to one byte each. The first element in a packed byte is in the lowest bits.
struct Unpacking<'a> {
    sink: &'a mut dyn Write,
    bits: u32,
    /// Bits that don't complete an element yet, and their number.
    pending: (u16, u32),
    left: u64,
}

impl Write for Unpacking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = &bytes[..bytes.len().min(STEP)];
        let mut elements = Vec::with_capacity(taken.len() * 4);
        let mask = (1u16 << self.bits) - 1;
        let (mut all, mut count) = self.pending;
        for byte in taken {
            all |= u16::from(*byte) << count;
            count += 8;
            while count >= self.bits {
                if self.left > 0 {
                    self.left -= 1;
                    elements.push((all & mask).to_le_bytes()[0]);
                }
                (all, count) = (all >> self.bits, count - self.bits);
            }
        }
        self.pending = (all, count);
        self.sink.write_all(&elements)?;
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use proto_splitter_core::tensor::DType;

    use super::*;

    fn file(info: TensorInfo, bytes: &[u8]) -> (String, Vec<u8>) {
        let size = size(&info).unwrap();
        let mut file = Vec::new();
        write_npy(TensorReader::of_bytes(info, bytes.to_vec()), &mut file).unwrap();
        assert_eq!(file.len() as u64, size);
        let header = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
        assert_eq!((header % 64, &file[..8]), (0, &b"\x93NUMPY\x01\x00"[..]));
        let text = String::from_utf8(file[10..header].to_vec()).unwrap();
        (text.trim_end().to_owned(), file[header..].to_vec())
    }

    #[test]
    fn a_header_says_the_type_the_order_and_the_shape() {
        for (info, descr, shape) in [
            (
                TensorInfo::new("t", DType::F32, vec![1, 1]),
                "<f4",
                "(1, 1)",
            ),
            (TensorInfo::new("t", DType::U8, vec![4]), "|u1", "(4,)"),
            (TensorInfo::new("t", DType::BF16, vec![2]), "<V2", "(2,)"),
            (
                TensorInfo::new("t", DType::F32, vec![]).ordered(ByteOrder::Big),
                ">f4",
                "()",
            ),
        ] {
            let (text, elements) = file(info, &[0; 4]);
            let wanted =
                format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
            assert_eq!((text, elements), (wanted, vec![0; 4]));
        }
    }

    #[test]
    fn elements_that_share_a_byte_get_one_each() {
        let info = TensorInfo::new("t", DType::I4, vec![3]);
        assert_eq!(file(info, b"\x21\x43").1, [1, 2, 3]);
        let info = TensorInfo::new("t", DType::U2, vec![5]);
        assert_eq!(file(info, b"\xe4\x01").1, [0, 1, 2, 3, 1]);
        // Since each element has six bits, four elements share three bytes.
        let info = TensorInfo::new("t", DType::F6E2M3, vec![5]);
        assert_eq!(file(info, b"\x81\x30\x10\x05").1, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_numpy_has_no_type_for_is_refused() {
        let info = TensorInfo::new("t", DType::Other("resource"), vec![1]);
        let error = header(&info).unwrap_err().to_string();
        assert_eq!(error, "NumPy has no type for elements of the type resource");
    }
}
