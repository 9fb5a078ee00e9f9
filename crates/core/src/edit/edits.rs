//! Replacing one value in a range of bytes.

use std::io::{self, Read};

use record_file::ReadAt;

use crate::spans::{SourceId, SpanList, SpanListBuilder, SpanSource};
use crate::wire::{Field, WireType};
use crate::{Error, ErrorKind, Result};

/// ID of the source of the old bytes. The only other source is the new value.
const BASE: SourceId = SourceId::FIRST;

/// The edited bytes, as spans of the old bytes and of the new value.
#[derive(Clone, Debug)]
pub(super) struct Edits(SpanList);

impl Edits {
    /// Creates the edits that replace the value of the last field in `chain` with a value of `size`
    /// bytes, and update the lengths of the enclosing fields. `chain` lists the fields from the
    /// outermost field to the field with the replaced value; `all` is the number of bytes before
    /// the edits.
    pub(super) fn replace(chain: &[Field], all: u64, size: u64) -> Result<Edits> {
        let is_len = |field: &&Field| field.wire_type == WireType::Len;
        let (mut list, mut copied) = (SpanListBuilder::default(), 0);
        for field in chain.iter().filter(is_len) {
            list.push_span(BASE, copied..field.tag_end);
            list.begin_length();
            copied = field.value.start;
        }
        if let Some(field) = chain.last() {
            list.push_span(BASE, copied..field.value.start);
            list.push_span(SourceId::new(1)?, 0..size);
            copied = field.value.end;
        }
        for field in chain.iter().rev().filter(is_len) {
            list.push_span(BASE, copied..field.value.end);
            list.end_length()?;
            copied = field.value.end;
        }
        list.push_span(BASE, copied..all);
        Ok(Edits(list.finish()?))
    }

    /// Returns the total number of bytes after the edits.
    pub(super) fn size(&self) -> u64 {
        self.0.len()
    }

    /// Returns a reader for the bytes of `base`, with the value replaced.
    pub(super) fn reader<'a>(
        self,
        base: Box<dyn Read + 'a>,
        value: &'a (dyn ReadAt + 'a),
    ) -> Spliced<'a> {
        Spliced {
            base,
            passed: 0,
            value,
            list: self.0,
            position: 0,
        }
    }
}

/// The edited bytes, as a stream.
pub(super) struct Spliced<'a> {
    base: Box<dyn Read + 'a>,
    /// Number of bytes already read from `base`.
    passed: u64,
    value: &'a (dyn ReadAt + 'a),
    list: SpanList,
    position: u64,
}

impl Spliced<'_> {
    fn read_base(&mut self, at: u64, place: &mut [u8]) -> io::Result<usize> {
        let gap = at - self.passed;
        let mut skipped = self.base.by_ref().take(gap);
        if io::copy(&mut skipped, &mut io::sink())? < gap {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let read = self.base.read(place)?;
        self.passed = at + read as u64;
        Ok(read)
    }
}

impl Read for Spliced<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let Some(span) = self.list.locate(self.position) else {
            // Reads `base` to its end, so that its checks run.
            return io::copy(&mut self.base, &mut io::sink()).map(|_| 0);
        };
        let len = usize::try_from(span.len).unwrap_or(usize::MAX);
        let len = len.min(buffer.len());
        let place = &mut buffer[..len];
        let read = match span.source {
            SpanSource::Literal(bytes) => {
                place.copy_from_slice(&bytes[..len]);
                len
            }
            SpanSource::Stored(BASE, at) => self.read_base(at, place)?,
            SpanSource::Stored(_, at) => self.value.read_at(at, place)?,
        };
        if read == 0 {
            return Err(shorter());
        }
        self.position += read as u64;
        Ok(read)
    }
}

#[cold]
fn shorter() -> io::Error {
    let message = "a file became shorter while it was being read";
    Error::new(ErrorKind::SourceChanged, message).into()
}

/// A sequential reader for the first bytes of a source.
pub(super) struct Sequence<'a, S: ?Sized> {
    source: &'a S,
    position: u64,
    end: u64,
}

impl<'a, S: ReadAt + ?Sized> Sequence<'a, S> {
    pub(super) fn new(source: &'a S, size: u64) -> Self {
        Sequence {
            source,
            position: 0,
            end: size,
        }
    }
}

impl<S: ReadAt + ?Sized> Read for Sequence<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let want = left.min(buffer.len());
        if want == 0 {
            return Ok(0);
        }
        let read = self.source.read_at(self.position, &mut buffer[..want])?;
        if read == 0 {
            return Err(shorter());
        }
        self.position += read as u64;
        Ok(read)
    }
}
