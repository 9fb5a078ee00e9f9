//! Elements in another order than they are stored in.

use std::io::{self, Read};
use std::sync::Arc;

use record_file::ReadAt;

/// Swaps the bytes of each element.
pub(super) struct Swapped<R> {
    inner: R,
    width: usize,
    buf: Vec<u8>,
    at: usize,
}

/// What is swapped at once: 64 KiB, a multiple of every width.
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

/// How many bytes in C's order are gathered at once: 16 MiB.
const BLOCK: usize = 16 << 20;

/// What is read at once of elements in Fortran's order: 256 KiB.
const WINDOW: usize = 256 << 10;

/// Elements that are stored in Fortran's order, in C's.
///
/// It gathers a block at a time. The elements that differ in the first index only are side by side
/// in the source, and as far apart as can be in the block; for each such column, the part that the
/// block wants is read.
pub(super) struct Transposed {
    source: Arc<dyn ReadAt>,
    offset: u64,
    /// The dimensions without those of one: the first, and the others.
    first: u64,
    others: Vec<u64>,
    width: usize,
    count: u64,
    /// The first element that isn't in a block yet.
    next: u64,
    block: Vec<u8>,
    at: usize,
    window: Vec<u8>,
    window_at: u64,
}

impl Transposed {
    /// The data at `offset`, of a shape that has at least two dimensions that aren't one.
    pub(super) fn new(source: Arc<dyn ReadAt>, offset: u64, shape: &[u64], width: usize) -> Self {
        // Others than nothing were multiplied when the shape was checked.
        let count = match shape.contains(&0) {
            true => 0,
            false => shape.iter().product(),
        };
        let mut dims = shape.iter().copied().filter(|&dim| dim != 1);
        Transposed {
            source,
            offset,
            first: dims.next().unwrap_or(1),
            others: dims.collect(),
            width,
            count,
            next: 0,
            block: Vec::new(),
            at: 0,
            window: Vec::new(),
            window_at: 0,
        }
    }

    fn gather(&mut self) -> io::Result<()> {
        let room = (BLOCK / self.width) as u64;
        let (start, end) = (self.next, self.count.min(self.next.saturating_add(room)));
        let count = usize::try_from(end - start).map_err(io::Error::other)?;
        self.block.resize(count * self.width, 0);
        self.window.clear();
        // How many elements of C's order one step of the first index is.
        let row: u64 = self.others.iter().product();
        let mut index = vec![0; self.others.len()];
        for column in 0..row {
            let place = index
                .iter()
                .zip(&self.others)
                .fold(0, |at, (i, dim)| at * dim + i);
            // The first indices whose elements are in the block.
            let from = start.saturating_sub(place).div_ceil(row);
            let to = end.saturating_sub(place).div_ceil(row).min(self.first);
            for first in from..to {
                self.pick(column * self.first + first, first * row + place - start)?;
            }
            for (i, dim) in index.iter_mut().zip(&self.others) {
                *i += 1;
                if *i < *dim {
                    break;
                }
                *i = 0;
            }
        }
        self.next = end;
        self.at = 0;
        Ok(())
    }

    /// Puts an element of the source at its place in the block.
    fn pick(&mut self, element: u64, place: u64) -> io::Result<()> {
        let width = self.width as u64;
        let wanted = element * width;
        let known = wanted.checked_sub(self.window_at);
        let known = known.filter(|at| at + width <= self.window.len() as u64);
        let at = match known {
            Some(at) => at,
            None => {
                let left = (self.count - element) * width;
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(WINDOW);
                self.window.resize(len, 0);
                self.source
                    .read_exact_at(self.offset + wanted, &mut self.window)?;
                self.window_at = wanted;
                0
            }
        };
        let at = usize::try_from(at).map_err(io::Error::other)?;
        let place = usize::try_from(place).map_err(io::Error::other)? * self.width;
        let element = &self.window[at..at + self.width];
        self.block[place..place + self.width].copy_from_slice(element);
        Ok(())
    }
}

impl Read for Transposed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() {
            if self.next == self.count {
                return Ok(0);
            }
            self.gather()?;
        }
        let len = buf.len().min(self.block.len() - self.at);
        buf[..len].copy_from_slice(&self.block[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements of an array, each its own index in C's order, stored in Fortran's.
    fn stored(shape: &[u64]) -> Vec<u8> {
        let count: u64 = shape.iter().product();
        let mut bytes = vec![0; usize::try_from(4 * count).unwrap()];
        for element in 0..count {
            let mut index = Vec::new();
            let mut rest = element;
            for dim in shape.iter().rev() {
                index.push(rest % dim);
                rest /= dim;
            }
            // `index` has the last dimension first.
            let place = index
                .iter()
                .zip(shape.iter().rev())
                .fold(0, |at, (i, dim)| at * dim + i);
            let place = usize::try_from(4 * place).unwrap();
            let value = u32::try_from(element).unwrap();
            bytes[place..place + 4].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn elements_in_fortrans_order_come_out_in_cs() {
        for shape in [
            &[2, 3][..],
            &[3, 1, 2],
            &[2, 3, 4, 5],
            &[7, 0],
            &[2, 3 << 20],
            &[3 << 20, 2],
        ] {
            let bytes = stored(shape);
            let mut read = Vec::new();
            let mut transposed = Transposed::new(Arc::new(bytes), 0, shape, 4);
            transposed.read_to_end(&mut read).unwrap();
            let (words, _) = read.as_chunks::<4>();
            let in_order = words
                .iter()
                .zip(0_u32..)
                .all(|(word, at)| *word == at.to_le_bytes());
            assert!(in_order, "{shape:?}");
            assert_eq!(words.len() as u64, shape.iter().product::<u64>());
        }
    }

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
