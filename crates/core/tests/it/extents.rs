//! Tests with sources that have extents, which are ranges that are best read with one call.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use proto_splitter_core::formats::{OpenOptions, Opened};
use proto_splitter_core::spans::SpansBuilder;
use record_file::ReadAt;

/// A source that divides its bytes into extents, and records every call of `read_at`.
struct InExtents {
    bytes: Vec<u8>,
    ends: Vec<u64>,
    calls: Mutex<Vec<Range<u64>>>,
}

impl InExtents {
    fn new(lens: &[usize]) -> Arc<InExtents> {
        let mut ends = Vec::new();
        let mut bytes = Vec::new();
        for (value, &len) in (1..).zip(lens) {
            bytes.resize(bytes.len() + len, value);
            ends.push(bytes.len() as u64);
        }
        let calls = Mutex::default();
        Arc::new(InExtents { bytes, ends, calls })
    }

    fn extents(&self) -> impl Iterator<Item = Range<u64>> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| start..end)
    }
}

impl ReadAt for InExtents {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        // A call ends at the end of an extent, as it would in a source that decodes extents.
        let extent = self.extents().find(|extent| extent.contains(&offset));
        let Some(extent) = extent else { return Ok(0) };
        let len = usize::try_from(extent.end - offset).unwrap().min(buf.len());
        let start = usize::try_from(offset).unwrap();
        buf[..len].copy_from_slice(&self.bytes[start..start + len]);
        self.calls.lock().unwrap().push(offset..offset + len as u64);
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn extent(&self, offset: u64) -> Option<Range<u64>> {
        self.extents().find(|extent| extent.contains(&offset))
    }
}

/// Returns an opened message with a bytes field whose value comes from this source, and the
/// message's bytes.
fn message_of(value: &Arc<InExtents>) -> (Opened, Vec<u8>) {
    let mut head = vec![0x0a];
    proto_splitter_core::wire::put_varint(&mut head, value.bytes.len() as u64);
    let mut builder = SpansBuilder::new();
    let source: Arc<dyn ReadAt> = Arc::clone(value) as _;
    let file = builder.reader("value", source).unwrap();
    builder.literal(&head).unwrap();
    builder.span(file, 0..value.bytes.len() as u64).unwrap();
    let message = [head, value.bytes.clone()].concat();
    let spans: Arc<dyn ReadAt> = Arc::new(builder.finish().unwrap());
    let opened = Opened::of_reader(spans, None, &OpenOptions::new()).unwrap();
    (opened, message)
}

#[test]
fn a_message_in_memory_is_read_extent_by_extent() {
    const LENS: [usize; 8] = [3 << 20, 1, 5, 200_000, 4 << 20, 900_000, 900_000, 2 << 20];
    let value = InExtents::new(&LENS);
    let (opened, message) = message_of(&value);
    assert_eq!(opened.bytes().unwrap(), message);

    let mut calls = value.calls.lock().unwrap().clone();
    calls.sort_by_key(|call| call.start);
    assert_eq!(calls, value.extents().collect::<Vec<_>>());
}

#[test]
fn a_part_that_begins_inside_an_extent_is_read_to_its_ends() {
    let value = InExtents::new(&[2 << 20, 2 << 20]);
    let (opened, message) = message_of(&value);
    let part = opened.get("1").unwrap();
    assert_eq!(part, message[message.len() - value.bytes.len()..]);
}

#[test]
fn an_extent_that_lies_about_its_range_is_not_believed() {
    struct Lying(Vec<u8>, Range<u64>);
    impl ReadAt for Lying {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read_at(offset, buf)
        }

        fn size(&self) -> io::Result<u64> {
            ReadAt::size(&self.0)
        }

        fn extent(&self, _: u64) -> Option<Range<u64>> {
            Some(self.1.clone())
        }
    }
    let message = [&[0x0a, 0x80, 0x08][..], &[7; 1024]].concat();
    for (start, end) in [
        (0, 0),
        (0, 1),
        (5, 2),
        (2, u64::MAX),
        (u64::MAX - 1, u64::MAX),
    ] {
        let lie = start..end;
        let source = Arc::new(Lying(message.clone(), lie.clone()));
        let opened = Opened::of_reader(source, None, &OpenOptions::new()).unwrap();
        assert_eq!(opened.bytes().unwrap(), message, "{lie:?}");
    }
}
