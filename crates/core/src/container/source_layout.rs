//! Source layouts, which describe the origin of every byte of the source message. A trailer has a
//! layout if merging by the placeholders alone would produce an equal message with different bytes.
//!
//! ```text
//! run of a chunk:  varint CHUNK + 1, varint bytes of the chunk to pass over, varint LENGTH
//! literal run:     varint 0, varint LENGTH, the bytes
//! ```
//!
//! The runs are in source order. Each run of a chunk starts after the chunk's previous run, so no
//! byte of a chunk is used twice.

use std::ops::Range;

use crate::error::ChunkIndex;
use crate::wire::{decode_varint, put_varint};
use crate::{Error, ErrorKind, Result};

/// Maximum number of runs in a written layout: 4 Mi, which readers with default limits accept.
pub(crate) const MOST_RUNS: usize = 4 << 20;

/// Maximum size of a written layout, in bytes: 32 MiB, half of the maximum size of a trailer.
pub(crate) const MOST_BYTES: usize = 32 << 20;

/// Memory that a reader assumes for each run, in bytes. Covers the run's segment in the merge plan
/// and the segment's entry in the list of the chunk's segments, including unused capacity.
const RUN_MEMORY: u64 = 128;

/// A run of bytes of the source message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Run<'a> {
    /// A range of a chunk's bytes.
    Chunk { chunk: usize, range: Range<u64> },
    /// Bytes that no chunk contains in their original form: tags and lengths.
    Literal(&'a [u8]),
}

/// A writer of layouts, run by run.
#[derive(Debug)]
pub(crate) struct LayoutWriter {
    bytes: Vec<u8>,
    runs: usize,
    /// For each chunk, the number of bytes that earlier runs used or skipped.
    used: Vec<u64>,
}

impl LayoutWriter {
    pub(crate) fn new(chunks: usize) -> Self {
        LayoutWriter {
            bytes: Vec::new(),
            runs: 0,
            used: vec![0; chunks],
        }
    }

    /// Appends a run of a chunk's bytes. The range must start after the chunk's previous runs.
    pub(crate) fn chunk(&mut self, chunk: usize, range: Range<u64>) {
        let Some(used) = self.used.get_mut(chunk) else {
            return;
        };
        self.runs += 1;
        put_varint(&mut self.bytes, chunk as u64 + 1);
        put_varint(&mut self.bytes, range.start.saturating_sub(*used));
        put_varint(&mut self.bytes, range.end - range.start);
        *used = range.end;
    }

    /// Appends a run of literal bytes.
    pub(crate) fn literal(&mut self, bytes: &[u8]) {
        self.runs += 1;
        put_varint(&mut self.bytes, 0);
        put_varint(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns true if readers with the default limits would refuse the layout.
    pub(crate) fn is_too_large(&self) -> bool {
        self.runs > MOST_RUNS || self.bytes.len() > MOST_BYTES
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// A reader of layouts, run by run.
pub(crate) struct LayoutReader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// For each chunk, the number of bytes that earlier runs used or skipped.
    used: Vec<u64>,
    /// Remaining memory for more runs, in bytes.
    left: u64,
}

impl<'a> LayoutReader<'a> {
    /// Creates a reader whose runs may use at most `most` bytes of memory.
    pub(crate) fn new(bytes: &'a [u8], chunks: usize, most: u64) -> Self {
        LayoutReader {
            bytes,
            position: 0,
            used: vec![0; chunks],
            left: most,
        }
    }

    /// Returns the next run, if there is one. `size` returns the size of a chunk.
    pub(crate) fn next(&mut self, size: impl Fn(usize) -> u64) -> Result<Option<Run<'a>>> {
        if self.position == self.bytes.len() {
            return Ok(None);
        }
        let start = self.position;
        let run = self.run(size);
        run.map(Some).map_err(|error| match error.chunk() {
            // The offset would be taken for one in the chunk.
            Some(_) => error,
            None => error.at_offset(start as u64),
        })
    }

    fn run(&mut self, size: impl Fn(usize) -> u64) -> Result<Run<'a>> {
        self.left = self.left.checked_sub(RUN_MEMORY).ok_or_else(|| {
            let message = "the source layout has more runs than the memory for trailers allows";
            Error::new(ErrorKind::LimitExceeded, message)
        })?;
        let Some(chunk) = self.varint()?.checked_sub(1) else {
            let len = self.varint()?;
            let end = usize::try_from(len).ok();
            let end = end.and_then(|len| self.position.checked_add(len));
            let bytes = end.and_then(|end| self.bytes.get(self.position..end));
            let bytes = bytes.ok_or_else(cut_short)?;
            self.position += bytes.len();
            return Ok(Run::Literal(bytes));
        };
        let index = usize::try_from(chunk).unwrap_or(usize::MAX);
        let (passed, len) = (self.varint()?, self.varint()?);
        let Some(used) = self.used.get_mut(index) else {
            let message = format!(
                "the source layout refers to chunk {chunk}, but the file has only {}",
                self.used.len()
            );
            return Err(Error::new(ErrorKind::InvalidTrailer, message));
        };
        let size = size(index);
        let start = used.checked_add(passed);
        let end = start.and_then(|start| start.checked_add(len));
        let (Some(start), Some(end)) = (start, end.filter(|&end| end <= size)) else {
            let message = format!(
                "the source layout uses {len} bytes after {used} and {passed} of a chunk of {size}"
            );
            return Err(
                Error::new(ErrorKind::InvalidTrailer, message).in_chunk(ChunkIndex::new(chunk))
            );
        };
        *used = end;
        Ok(Run::Chunk {
            chunk: index,
            range: start..end,
        })
    }

    fn varint(&mut self) -> Result<u64> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let (value, len) = decode_varint(rest).ok_or_else(cut_short)?;
        self.position += len;
        Ok(value)
    }
}

#[cold]
fn cut_short() -> Error {
    let message = "the source layout ends within a run";
    Error::new(ErrorKind::InvalidTrailer, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], sizes: &[u64], most: u64) -> Result<usize> {
        let mut reader = LayoutReader::new(bytes, sizes.len(), most);
        let mut runs = 0;
        while reader.next(|chunk| sizes[chunk])?.is_some() {
            runs += 1;
        }
        Ok(runs)
    }

    #[test]
    fn runs_come_back_as_they_were_written() {
        let mut writer = LayoutWriter::new(2);
        writer.chunk(1, 3..10);
        writer.literal(b"tag");
        writer.chunk(0, 0..4);
        writer.chunk(1, 10..12);
        let bytes = writer.finish();
        let mut reader = LayoutReader::new(&bytes, 2, 1 << 20);
        let mut next = || reader.next(|_| 12).unwrap();
        let of = |chunk, range| Some(Run::Chunk { chunk, range });
        assert_eq!(next(), of(1, 3..10));
        assert_eq!(next(), Some(Run::Literal(b"tag")));
        assert_eq!(next(), of(0, 0..4));
        assert_eq!(next(), of(1, 10..12));
        assert_eq!(next(), None);
    }

    #[test]
    fn a_layout_that_cannot_be_is_refused() {
        let far = [&[1][..], &[0xff; 9], &[1, 5]].concat();
        for (bytes, most, expected) in [
            (&[3, 0, 1][..], 1 << 20, "chunk 2, but the file has only 2"),
            (&[1, 0, 11], 1 << 20, "of a chunk of 10"),
            (&[1, 0, 6, 1, 0, 5], 1 << 20, "5 bytes after 6 and 0"),
            (&far, 1 << 20, "of a chunk of 10"),
            (&[0, 3, 1, 2], 1 << 20, "ends within a run"),
            (&[0], 1 << 20, "ends within a run"),
            (&[1, 0x80], 1 << 20, "ends within a run"),
            (&[0, 0, 0, 0], 128, "more runs than the memory"),
        ] {
            let error = read(bytes, &[10, 10], most).unwrap_err();
            // A position in the layout isn't one in a chunk.
            assert_eq!(error.chunk().is_some(), error.offset().is_none());
            let error = error.to_string();
            assert!(error.contains(expected), "{bytes:?}: {error}");
        }
    }
}
