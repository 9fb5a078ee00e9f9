//! A byte range of a source, which can be read in any order or as a stream.

use std::io::{self, Read};
use std::sync::Arc;

use record_file::ReadAt;

/// A byte range of a source, which can be read in any order or as a stream.
#[derive(Clone)]
pub(crate) struct Section<S = Arc<dyn ReadAt>> {
    pub(super) source: S,
    pub(super) start: u64,
    pub(super) len: u64,
    /// Position of the stream, relative to the start of the range.
    at: u64,
    /// Bytes at the beginning of the range, if they were already read.
    pub(super) head: Vec<u8>,
}

impl<S> Section<S> {
    pub(crate) fn new(source: S, start: u64, len: u64) -> Section<S> {
        Section {
            source,
            start,
            len,
            at: 0,
            head: Vec::new(),
        }
    }
}

impl<'a> Section<&'a dyn ReadAt> {
    pub(crate) fn of(source: &'a dyn ReadAt, start: u64, len: u64) -> Self {
        Section::new(source, start, len)
    }
}

impl<S: ReadAt> ReadAt for Section<S> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.len.saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let buf = &mut buf[..len];
        match self.head.read_at(offset, buf)? {
            0 if len > 0 => self.source.read_at(self.start + offset, buf),
            known => Ok(known),
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len)
    }
}

impl<S: ReadAt> Read for Section<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.read_at(self.at, buf)?;
        if len == 0 && self.at < self.len && !buf.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += len as u64;
        Ok(len)
    }
}
