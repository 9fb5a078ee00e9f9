//! Comparing a merged message with its supposed original.

use std::io::{self, Write};
use std::sync::Arc;

use proto_splitter_core::Result;
use proto_splitter_core::formats::Opened;
use record_file::ReadAt;

/// Number of bytes of the original to read at a time.
const LARGEST_READ: usize = 1 << 20;

/// The original message that a merged message is compared with.
pub(super) struct Original<'a> {
    pub(super) input: &'a Opened,
    /// Bytes of the message, from one file or assembled from several files.
    pub(super) bytes: &'a Arc<dyn ReadAt>,
    size: u64,
}

impl<'a> Original<'a> {
    /// Returns the message of `input`. Fails if the message is in chunks, or there is no message.
    /// To report this error early, call this function before reading the merged message.
    pub(super) fn of(input: &'a Opened) -> Result<Original<'a>> {
        let plain = input.require_plain();
        let (bytes, size) = plain.map_err(|error| error.in_file(input.input()))?;
        Ok(Original { input, bytes, size })
    }
}

/// A writer that compares the bytes written to it with the original message.
pub(super) struct Compare<'a> {
    original: &'a Original<'a>,
    position: u64,
    buffer: Vec<u8>,
    different: Option<u64>,
}

impl<'a> Compare<'a> {
    pub(super) fn with(original: &'a Original<'a>) -> Self {
        Compare {
            original,
            position: 0,
            buffer: Vec::new(),
            different: None,
        }
    }

    /// Returns the offset of the first difference; `None` if there is no difference. Must be called
    /// after the whole message was written. If one message is a prefix of the other, the offset is
    /// the end of the shorter one.
    pub(super) fn finish(self) -> Option<u64> {
        let goes_on = self.position < self.original.size;
        self.different.or(goes_on.then_some(self.position))
    }
}

impl Write for Compare<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.different.is_some() || bytes.is_empty() {
            return Ok(bytes.len());
        }
        let left = self.original.size.saturating_sub(self.position);
        let there = usize::try_from(left).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(LARGEST_READ)];
        self.buffer.resize(bytes.len().min(there), 0);
        let position = self.position;
        self.original
            .bytes
            .read_exact_at(position, &mut self.buffer)?;
        let equal = bytes
            .iter()
            .zip(&self.buffer)
            .take_while(|(a, b)| a == b)
            .count();
        self.position += equal as u64;
        if equal < bytes.len() {
            self.different = Some(self.position);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proto_splitter_core::formats::OpenOptions;

    use super::*;

    #[test]
    fn bytes_are_compared_up_to_the_end_of_both() {
        let bytes = Arc::new(b"0123456789".to_vec());
        let input = Opened::of_reader(bytes, None, &OpenOptions::new()).unwrap();
        let original = Original::of(&input).unwrap();
        let compare = |written: &[&[u8]]| {
            let mut compare = Compare::with(&original);
            for piece in written {
                compare.write_all(piece).unwrap();
            }
            compare.finish()
        };
        assert_eq!(compare(&[b"01234", b"56789"]), None);
        assert_eq!(compare(&[b"01234", b"5x789", b"abc"]), Some(6));
        assert_eq!(compare(&[b"01234"]), Some(5));
        assert_eq!(compare(&[b"0123456789", b"x"]), Some(10));
    }
}
