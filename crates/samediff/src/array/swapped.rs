//! Reading array elements that are stored with their bytes in reverse order.

use std::io::{self, Read};

/// A reader that reverses the bytes of each element.
pub(super) struct Swapped<R> {
    inner: R,
    width: usize,
    buf: Vec<u8>,
    at: usize,
}

/// Number of bytes swapped at once: 64 KiB, a multiple of the width of every element type.
const SWAPPED: usize = 64 << 10;

impl<R: Read> Swapped<R> {
    pub(super) fn new(inner: R, width: usize) -> Swapped<R> {
        Swapped {
            inner,
            width,
            buf: Vec::new(),
            at: 0,
        }
    }

    fn refill(&mut self) -> io::Result<()> {
        self.at = 0;
        self.buf.clear();
        (&mut self.inner)
            .take(SWAPPED as u64)
            .read_to_end(&mut self.buf)?;
        for element in self.buf.chunks_exact_mut(self.width) {
            element.reverse();
        }
        Ok(())
    }
}

impl<R: Read> Read for Swapped<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.buf.len() {
            self.refill()?;
        }
        let len = buf.len().min(self.buf.len() - self.at);
        buf[..len].copy_from_slice(&self.buf[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_swapped_whatever_is_read_at_once() {
        let bytes: Vec<u8> = (0..=255).cycle().take(200_000).collect();
        let mut swapped = Swapped::new(&bytes[..], 8);
        let mut read: Vec<u8> = Vec::new();
        let mut buf = [0; 1001];
        loop {
            match swapped.read(&mut buf).unwrap() {
                0 => break,
                len => read.extend(&buf[..len]),
            }
        }
        let expected: Vec<u8> = bytes
            .chunks(8)
            .flat_map(|word| word.iter().rev().copied())
            .collect();
        assert_eq!(read, expected);
    }
}
