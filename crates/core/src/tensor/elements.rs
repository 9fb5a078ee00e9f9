//! Converting elements that a field stores one by one to their in-memory layout.

use std::io::Write;
use std::ops::Range;

use crate::wire::{Input, MAX_VARINT_LEN, WireCursor, WireType, decode_varint, unzigzag};
use crate::{Error, ErrorKind, Result};

/// Number of converted bytes to collect for a write: a multiple of every element width.
const GATHER: usize = 64 << 10;

/// Maximum number of bytes of fixed-size numbers to copy at once. An input in memory passes a whole
/// run at once.
const AT_ONCE: usize = 1 << 20;

/// The encoding of elements that a field stores one by one, as numbers, and the width of the
/// numbers in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementForm {
    field: u32,
    wire: WireType,
    width: usize,
    is_zigzag: bool,
    narrow: Option<u32>,
}

impl ElementForm {
    /// Creates the form of numbers in the field `field`. `wire` is the wire type of one number that
    /// isn't packed. A number has `width` bytes in memory, at most 8: varints are truncated to
    /// their low bytes, and numbers of a fixed size have this size.
    pub const fn new(field: u32, wire: WireType, width: usize) -> ElementForm {
        ElementForm {
            field,
            wire,
            width,
            is_zigzag: false,
            narrow: None,
        }
    }

    /// Sets whether varints are zigzag-encoded. Default: false.
    #[must_use]
    pub const fn zigzag(mut self, is_zigzag: bool) -> Self {
        self.is_zigzag = is_zigzag;
        self
    }

    /// Sets the width in bits of elements that are stored as separate varints but share bytes in
    /// memory, such as 6-bit floats. Default: `None`, for other elements.
    #[must_use]
    pub const fn narrow(mut self, bits: Option<u32>) -> Self {
        self.narrow = bits;
        self
    }
}

/// Writes the elements of a tensor, which the ranges `pieces` of a message contain one by one, in
/// their in-memory layout. Returns the number of bytes written.
///
/// ```
/// use proto_splitter_core::tensor::{ElementForm, write_elements};
/// use proto_splitter_core::wire::{WireCursor, WireType};
///
/// // Field 5: the packed varints 1 and 258.
/// let mut cursor = WireCursor::new(&b"\x2a\x03\x01\x82\x02"[..]);
/// let form = ElementForm::new(5, WireType::Varint, 2);
/// let mut bytes = Vec::new();
/// assert_eq!(write_elements(&mut cursor, &[0..5], form, &mut bytes)?, 4);
/// assert_eq!(bytes, [1, 0, 2, 1]);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if the bytes break the wire format; any error from reading or from
/// `sink`.
pub fn write_elements<I: Input>(
    cursor: &mut WireCursor<I>,
    pieces: &[Range<u64>],
    form: ElementForm,
    sink: &mut dyn Write,
) -> Result<u64> {
    let mut packer = Packer {
        form,
        gathered: Vec::new(),
        pending: (0, 0),
        bytes: 0,
        sink,
    };
    for piece in pieces {
        cursor.set_range(piece.clone());
        while let Some(field) = cursor.next()? {
            if field.number.0 != form.field {
                continue;
            }
            if field.wire_type != WireType::Len && field.wire_type != form.wire {
                continue;
            }
            match form.wire {
                WireType::Varint => packer.varints(cursor.input_mut(), field.value)?,
                _ => packer.fixed(cursor.input_mut(), field.value)?,
            }
        }
    }
    packer.finish()
}

struct Packer<'a> {
    form: ElementForm,
    gathered: Vec<u8>,
    /// Bits that don't fill a byte yet, and the number of these bits.
    pending: (u32, u32),
    /// Number of bytes written or gathered so far.
    bytes: u64,
    sink: &'a mut dyn Write,
}

impl Packer<'_> {
    /// Writes the varints in a range, which contains one varint or a packed run.
    fn varints(&mut self, input: &mut impl Input, range: Range<u64>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let bytes = input.fetch(at, MAX_VARINT_LEN)?;
            let mut rest = &bytes[..bytes.len().min(left(at, &range))];
            let len = rest.len();
            while let Some((value, len)) = decode_varint(rest) {
                self.varint(value)?;
                rest = &rest[len..];
            }
            if rest.len() == len {
                return Err(cut(at));
            }
            at += (len - rest.len()) as u64;
        }
        Ok(())
    }

    /// Writes the numbers of a fixed size in a range, which contains one number or a packed run.
    fn fixed(&mut self, input: &mut impl Input, range: Range<u64>) -> Result<()> {
        let width = self.form.width as u64;
        let whole = (range.end - range.start) / width * width;
        let end = range.start + whole;
        let mut at = range.start;
        while at < end {
            let bytes = input.fetch(at, 1)?;
            let most = left(at, &(at..end)).min(AT_ONCE);
            let bytes = &bytes[..bytes.len().min(most)];
            if bytes.is_empty() {
                return Err(cut(at));
            }
            self.put(bytes)?;
            at += bytes.len() as u64;
        }
        if end < range.end {
            return Err(cut(end));
        }
        Ok(())
    }

    fn varint(&mut self, value: u64) -> Result<()> {
        let value = if self.form.is_zigzag {
            unzigzag(value).cast_unsigned()
        } else {
            value
        };
        let bytes = value.to_le_bytes();
        let Some(bits) = self.form.narrow else {
            return self.put(&bytes[..self.form.width.min(bytes.len())]);
        };
        let (mut all, mut count) = self.pending;
        all |= (u32::from(bytes[0]) & ((1 << bits) - 1)) << count;
        count += bits;
        if count >= 8 {
            self.put(&all.to_le_bytes()[..1])?;
            (all, count) = (all >> 8, count - 8);
        }
        self.pending = (all, count);
        Ok(())
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.gathered.extend_from_slice(bytes);
        self.bytes += bytes.len() as u64;
        if self.gathered.len() >= GATHER {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.sink.write_all(&self.gathered)?;
        self.gathered.clear();
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

/// Returns the number of bytes of `range` from `at` on.
fn left(at: u64, range: &Range<u64>) -> usize {
    usize::try_from(range.end - at).unwrap_or(usize::MAX)
}

#[cold]
fn cut(at: u64) -> Error {
    let message = "a packed run of elements ends inside an element";
    Error::new(ErrorKind::InvalidMessage, message).at_offset(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::put_varint;

    /// A sink that keeps only the number of bytes, and the size of the largest write.
    #[derive(Default)]
    struct Largest(u64, usize);

    impl Write for Largest {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            self.1 = self.1.max(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_long_run_in_memory_is_copied_in_pieces() {
        const RUN: usize = 5 << 20;
        let mut message = vec![0x2a];
        put_varint(&mut message, RUN as u64);
        message.resize(message.len() + RUN, 0);
        let (size, mut sink) = (message.len() as u64, Largest::default());
        let mut cursor = WireCursor::new(&message[..]);
        let form = ElementForm::new(5, WireType::Fixed32, 4);
        let ranges = vec![0..size; 1];
        let written = write_elements(&mut cursor, &ranges, form, &mut sink).unwrap();
        assert_eq!((written, sink.0), (RUN as u64, RUN as u64));
        assert!(sink.1 <= AT_ONCE + GATHER, "{}", sink.1);
    }
}
