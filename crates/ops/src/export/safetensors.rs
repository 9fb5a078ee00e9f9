//! Writing tensors to a safetensors file.

use std::io::{self, Write};

use proto_splitter_core::formats::Opened;
use proto_splitter_core::progress::Meter;
use proto_splitter_core::tensor::safetensors::{METADATA, start_of_file};
use proto_splitter_core::tensor::{ByteOrder, TensorInfo};
use proto_splitter_core::{Error, ErrorKind};
use safetensors::tensor::{Dtype, Metadata, TensorInfo as Listed};

/// Returns true if safetensors supports the tensor's element type and shape.
pub(super) fn has_type(tensor: &TensorInfo) -> bool {
    // If elements are narrower than a byte, the format requires that they fill the last byte.
    let bits = tensor
        .elements()
        .zip(tensor.dtype.bits())
        .map(|(elements, bits)| u128::from(elements) * u128::from(bits));
    dtype(tensor).is_some() && bits == Some(u128::from(tensor.bytes) * 8)
}

fn dtype(tensor: &TensorInfo) -> Option<Dtype> {
    let name = tensor.dtype.safetensors()?;
    serde_json::from_value(name.into()).ok()
}

pub(super) fn write(
    opened: &Opened,
    tensors: &[TensorInfo],
    sink: &mut dyn Write,
    meter: &Meter,
) -> Result<(), Error> {
    // Tensors are written in descending order of element width, so that each is aligned to its
    // elements.
    let mut tensors: Vec<&TensorInfo> = tensors.iter().collect();
    tensors.sort_by_key(|tensor| (std::cmp::Reverse(tensor.dtype.bits()), &tensor.name));
    let header = header(&tensors)?;
    sink.write_all(&header)?;
    let mut sink = meter.written_to(sink);
    for tensor in tensors {
        let at_tensor = |error: Error| error.context(format!("tensor {:?}", tensor.name));
        let reader = opened.read_tensor(tensor).map_err(at_tensor)?;
        let written = match (tensor.byte_order, tensor.dtype.swapped_width()) {
            (ByteOrder::Big, Some(width @ 2..)) => {
                let mut swapping = Swapping {
                    sink: &mut sink,
                    width,
                    begun: Vec::with_capacity(width),
                };
                reader.write_to(&mut swapping)
            }
            _ => reader.write_to(&mut sink),
        };
        written.map_err(at_tensor)?;
    }
    Ok(())
}

/// Returns the bytes before the first tensor.
fn header(tensors: &[&TensorInfo]) -> Result<Vec<u8>, Error> {
    let wrong = |message: String| Error::new(ErrorKind::InvalidMessage, message);
    let mut start = 0;
    let mut listed = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        if tensor.name == METADATA {
            let message = format!("tensor {METADATA:?}: safetensors reserves this name");
            return Err(wrong(message));
        }
        let fits = |size: u64| {
            let message = || {
                wrong(format!(
                    "tensor {:?}: too large for this computer",
                    tensor.name
                ))
            };
            usize::try_from(size).map_err(|_| message())
        };
        let dtype = dtype(tensor).ok_or_else(|| wrong(format!("no type {}", tensor.dtype)))?;
        let end = fits(tensor.bytes)?.checked_add(start);
        let end = end.ok_or_else(|| wrong("the tensors have too many bytes".into()))?;
        let shape: Result<Vec<usize>, Error> =
            tensor.shape.iter().map(|&size| fits(size)).collect();
        let info = Listed {
            dtype,
            shape: shape?,
            data_offsets: (start, end),
        };
        listed.push((tensor.name.clone(), info));
        start = end;
    }
    let metadata = Metadata::new(None, listed).map_err(|error| wrong(error.to_string()))?;
    start_of_file(serde_json::to_vec(&metadata).map_err(io::Error::from)?)
}

/// A writer that reverses the byte order of each number.
struct Swapping<'a> {
    sink: &'a mut dyn Write,
    width: usize,
    /// Bytes of the last number, if it is still incomplete.
    begun: Vec<u8>,
}

impl Write for Swapping<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut numbers = std::mem::take(&mut self.begun);
        numbers.extend_from_slice(bytes);
        self.begun = numbers.split_off(numbers.len() - numbers.len() % self.width);
        for number in numbers.chunks_exact_mut(self.width) {
            number.reverse();
        }
        self.sink.write_all(&numbers)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use proto_splitter_core::tensor::DType;

    use super::*;

    /// Returns the kind of the error about a tensor's name.
    fn refused(name: &str) -> ErrorKind {
        let tensor = TensorInfo::new(name, DType::U8, vec![1]);
        let header = header(&[&tensor]).map(|header| header.len());
        header.unwrap_err().kind()
    }

    #[test]
    fn a_tensor_is_not_written_under_the_name_of_the_metadata() {
        assert_eq!(refused("__metadata__"), ErrorKind::InvalidMessage);
    }

    #[test]
    fn a_header_that_no_reader_accepts_is_not_written() {
        // In JSON, each of these characters takes six bytes.
        let name = "\u{1}".repeat(17_000_000);
        assert_eq!(refused(&name), ErrorKind::LimitExceeded);
    }

    #[test]
    fn numbers_are_turned_around_however_they_come() {
        for step in 1..=8 {
            let mut out = Vec::new();
            let mut swapping = Swapping {
                sink: &mut out,
                width: 4,
                begun: Vec::new(),
            };
            for piece in [1u8, 2, 3, 4, 5, 6, 7, 8].chunks(step) {
                swapping.write_all(piece).unwrap();
            }
            assert_eq!(out, [4, 3, 2, 1, 8, 7, 6, 5]);
        }
    }
}
