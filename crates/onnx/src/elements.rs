//! Writing the elements of a tensor as raw data. They are copied if they are stored as raw data,
//! and converted if they are stored in a typed field.
//!
//! The comments in `onnx.proto` define how the elements of each type are stored in its field: half
//! and 8-bit floats are stored as their bits in an `int32`, two 4-bit or four 2-bit elements share
//! one entry, and a complex number takes two entries.

use std::io::Write;
use std::ops::Range;

use proto_splitter_core::spans::copy_range;
use proto_splitter_core::wire::{Input, SourceInput, WireCursor, WireType, decode_varint};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::data_type::TypedField;

/// Number of converted bytes to buffer before they are written: 64 KiB.
const CONVERTED_LEN: usize = 64 << 10;

/// Length of the longest varint, in bytes.
const VARINT_LEN: usize = 10;

/// Copies the bytes at `range`, and returns the number of bytes copied.
pub(crate) fn copy(source: &dyn ReadAt, range: Range<u64>, sink: &mut dyn Write) -> Result<u64> {
    let bytes = range.end.saturating_sub(range.start);
    copy_range(source, range, sink).map(|()| bytes)
}

/// Converts the elements in a typed field of the tensor at `tensor` to raw data, in which each
/// element has `bits` bits. Returns the number of bytes written.
pub(crate) fn convert(
    source: &dyn ReadAt,
    tensor: Range<u64>,
    typed: TypedField,
    bits: u32,
    sink: &mut dyn Write,
) -> Result<u64> {
    let mut cursor = WireCursor::new(SourceInput::new(source, tensor.end));
    cursor.set_range(tensor.clone());
    let mut packer = Packer::new(typed, bits, sink);
    while let Some(field) = cursor.next()? {
        if field.number.0 != typed.number() {
            continue;
        }
        match (typed, field.wire_type) {
            (TypedField::Float | TypedField::Double, WireType::Len) => {
                // Writes the buffered elements first, to keep the order of elements.
                packer.flush()?;
                packer.bytes += copy(source, field.value.clone(), packer.sink)?;
            }
            (TypedField::Float, WireType::Fixed32) | (TypedField::Double, WireType::Fixed64) => {
                packer.put(cursor.bytes(field.value.clone())?)?;
            }
            (
                TypedField::Int32 | TypedField::Int64 | TypedField::Uint64,
                WireType::Len | WireType::Varint,
            ) => {
                varints(cursor.input_mut(), &field.value, &mut packer)?;
            }
            _ => {
                let message = "the elements are not of their field's type";
                return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(field.start));
            }
        }
        cursor.set_range(field.end..tensor.end);
    }
    packer.finish()
}

/// Converts the varints at `range`, which follow one another without tags.
fn varints(input: &mut impl Input, range: &Range<u64>, packer: &mut Packer<'_>) -> Result<()> {
    let mut at = range.start;
    while at < range.end {
        let bytes = input.fetch(at, VARINT_LEN)?;
        let most = usize::try_from(range.end - at).unwrap_or(usize::MAX);
        let mut rest = &bytes[..bytes.len().min(most)];
        // A varint that is cut off by the end of the fetched bytes is read again with the next
        // bytes.
        while let Some((value, len)) = decode_varint(rest) {
            packer.element(value)?;
            rest = &rest[len..];
            at += len as u64;
        }
        let is_cut = rest.len() < VARINT_LEN && at + (rest.len() as u64) < range.end;
        if !rest.is_empty() && !is_cut {
            let message = "an element is truncated or too long";
            return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(at));
        }
    }
    Ok(())
}

/// A buffer that packs elements into bytes.
struct Packer<'a> {
    sink: &'a mut dyn Write,
    out: Vec<u8>,
    /// Size of the raw data of one entry in the typed field, in bytes. An entry can have several
    /// elements that are narrower than a byte.
    width: usize,
    six_bits: bool,
    /// Bits of the last byte, which isn't complete yet, and their number.
    pending: (u32, u32),
    bytes: u64,
}

impl<'a> Packer<'a> {
    fn new(typed: TypedField, bits: u32, sink: &'a mut dyn Write) -> Self {
        let width = match typed {
            TypedField::Float => 4,
            TypedField::Double | TypedField::Int64 => 8,
            // An `int32_data` entry of narrow elements is already a byte of raw data, except for
            // six-bit elements.
            _ => bits.div_ceil(8) as usize,
        };
        Packer {
            sink,
            out: Vec::new(),
            width,
            six_bits: bits == 6,
            pending: (0, 0),
            bytes: 0,
        }
    }

    fn element(&mut self, value: u64) -> Result<()> {
        let bytes = value.to_le_bytes();
        if !self.six_bits {
            return self.put(&bytes[..self.width.min(bytes.len())]);
        }
        let (mut bits, mut count) = self.pending;
        bits |= u32::from(bytes[0] & 0x3f) << count;
        count += 6;
        if count >= 8 {
            self.put(&bits.to_le_bytes()[..1])?;
            (bits, count) = (bits >> 8, count - 8);
        }
        self.pending = (bits, count);
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.extend_from_slice(bytes);
        self.bytes += bytes.len() as u64;
        if self.out.len() >= CONVERTED_LEN {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.sink.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<u64> {
        let (bits, count) = self.pending;
        if count > 0 {
            self.put(&bits.to_le_bytes()[..1])?;
        }
        self.flush()?;
        Ok(self.bytes)
    }
}
