//! The stored form of string and variant tensors in a bundle: lengths, checksums, and content.

use proto_splitter_core::wire::decode_varint;
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::checksum::unmask_crc;

/// Maximum length of a varint, in bytes.
const MOST_VARINT: u32 = 10;

/// A calculator for the checksum of a string or variant tensor, whose bytes arrive in order.
///
/// A string tensor is stored as the lengths of all strings, a checksum of the lengths, and the
/// bytes of all strings. Each element of a variant tensor is stored as its length, its bytes, and a
/// checksum of everything so far. The checksum of the whole tensor covers all of this, with each
/// length as a number of 4 or 8 bytes instead of a varint.
#[derive(Clone, Debug)]
pub(crate) struct ElementsCrc {
    is_strings: bool,
    /// Number of elements whose lengths haven't arrived yet.
    left: u64,
    /// Total size of the elements whose lengths have arrived, in bytes.
    total: u64,
    crc32c: u32,
    next: Part,
    /// Offset of the next byte in the data file.
    position: u64,
}

/// The part of a tensor's stored form to which the next byte belongs.
#[derive(Clone, Debug)]
enum Part {
    /// A length, as a varint of which some bytes may have arrived.
    Length {
        value: u64,
        bytes: u32,
    },
    /// A checksum, of which some bytes may have arrived.
    Checksum {
        bytes: [u8; 4],
        have: usize,
    },
    /// The content of elements. The value is the number of bytes that haven't arrived yet.
    Content(u64),
    End,
}

impl Part {
    const LENGTH: Part = Part::Length { value: 0, bytes: 0 };

    const CHECKSUM: Part = Part::Checksum {
        bytes: [0; 4],
        have: 0,
    };
}

impl ElementsCrc {
    /// Creates a calculator for `count` strings or variants, which are stored in `size` bytes at
    /// the offset `position` of the data file.
    pub(crate) fn new(is_strings: bool, count: u64, position: u64, size: u64) -> Self {
        let next = match count {
            0 if size == 0 || !is_strings => Part::End,
            0 => Part::CHECKSUM,
            _ => Part::LENGTH,
        };
        ElementsCrc {
            is_strings,
            left: count,
            total: 0,
            crc32c: 0,
            next,
            position,
        }
    }

    /// Adds the next bytes of the tensor.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if the bytes can't be part of a string or variant tensor;
    /// [`ErrorKind::ChecksumMismatch`] if a checksum among the bytes is wrong.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) -> Result<()> {
        while let Some(&byte) = bytes.first() {
            let taken = match &mut self.next {
                Part::Length { value, bytes } => {
                    let shift = *bytes * 7;
                    *bytes += 1;
                    *value |= u64::from(byte & 0x7f) << shift.min(63);
                    if byte & 0x80 == 0 {
                        let length = *value;
                        self.length(length);
                    } else if *bytes == MOST_VARINT {
                        return Err(self.bad("a length has more than ten bytes"));
                    }
                    1
                }
                Part::Checksum { bytes: sum, have } => {
                    sum[*have] = byte;
                    *have += 1;
                    if *have == sum.len() {
                        let stored = u32::from_le_bytes(*sum);
                        self.checksum(stored)?;
                    }
                    1
                }
                Part::Content(left) => {
                    let len = usize::try_from(*left).map_or(bytes.len(), |n| n.min(bytes.len()));
                    *left -= len as u64;
                    let is_over = *left == 0;
                    let content = &bytes[..len];
                    self.crc32c = crc32c::crc32c_append(self.crc32c, content);
                    if is_over {
                        self.content_ended();
                    }
                    len
                }
                Part::End => return Err(self.bad("there are bytes after the last element")),
            };
            bytes = &bytes[taken..];
            self.position += taken as u64;
        }
        Ok(())
    }

    /// Returns the checksum of the whole tensor. All bytes must have been added.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if bytes are missing.
    pub(crate) fn finish(&self) -> Result<u32> {
        match self.next {
            Part::End => Ok(self.crc32c),
            Part::Length { .. } => Err(self.bad("the tensor ends within a length")),
            Part::Checksum { .. } => Err(self.bad("the tensor ends within a checksum")),
            Part::Content(_) => Err(self.bad("the tensor ends within an element")),
        }
    }

    fn length(&mut self, length: u64) {
        self.left -= 1;
        self.total = self.total.saturating_add(length);
        self.crc32c = match u32::try_from(length) {
            Ok(short) if self.is_strings => {
                crc32c::crc32c_append(self.crc32c, &short.to_le_bytes())
            }
            _ => crc32c::crc32c_append(self.crc32c, &length.to_le_bytes()),
        };
        self.next = match length {
            _ if self.is_strings && self.left > 0 => Part::LENGTH,
            _ if self.is_strings => Part::CHECKSUM,
            0 => Part::CHECKSUM,
            length => Part::Content(length),
        };
    }

    fn checksum(&mut self, stored: u32) -> Result<()> {
        if unmask_crc(stored) != self.crc32c {
            let what = if self.is_strings {
                "the lengths"
            } else {
                "the elements"
            };
            let message = format!("the crc32c of {what} differs from the one stored after them");
            let error = Error::new(ErrorKind::ChecksumMismatch, message);
            return Err(error.at_offset(self.position.saturating_sub(3)));
        }
        self.crc32c = crc32c::crc32c_append(self.crc32c, &stored.to_le_bytes());
        self.next = match self.total {
            0 if self.is_strings => Part::End,
            total if self.is_strings => Part::Content(total),
            _ if self.left > 0 => Part::LENGTH,
            _ => Part::End,
        };
        Ok(())
    }

    fn content_ended(&mut self) {
        self.next = if self.is_strings {
            Part::End
        } else {
            Part::CHECKSUM
        };
    }

    fn bad(&self, what: &str) -> Error {
        Error::new(ErrorKind::InvalidMessage, what).at_offset(self.position)
    }
}

/// Returns the `count` strings in the stored form of a string tensor. The caller has already
/// verified the checksum.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if the bytes don't contain `count` strings.
pub(crate) fn strings(bytes: &[u8], count: u64) -> Result<Vec<Vec<u8>>> {
    let bad = || Error::new(ErrorKind::InvalidMessage, "the strings end early");
    let (mut lengths, mut rest) = (Vec::new(), bytes);
    for _ in 0..count {
        let (length, taken) = decode_varint(rest).ok_or_else(bad)?;
        lengths.push(usize::try_from(length).map_err(|_| bad())?);
        rest = rest.get(taken..).ok_or_else(bad)?;
    }
    // Skips the checksum of the lengths, which is before the strings.
    let mut rest = rest.get(4..).unwrap_or_default();
    let mut strings = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (string, behind) = rest.split_at_checked(length).ok_or_else(bad)?;
        strings.push(string.to_vec());
        rest = behind;
    }
    Ok(strings)
}
