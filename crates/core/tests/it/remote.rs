//! Tests of the reads from a slow source. Opening a file reads both of its ends; afterwards, only
//! the requested data is read.
#![allow(
    clippy::single_range_in_vec_init,
    reason = "lists of ranges, some of them of one"
)]

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::merge_support::file::{ALONE, Layout, cpb_with};
use crate::merge_support::{Chunked, len};
use proto_splitter_core::ChunkIndex;
use proto_splitter_core::ErrorKind;
use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::merge::{ChunkStore, Limits, ReadOptions};
use record_file::{Compression, ReadAt};

const CHUNKS: usize = 40;
const CHUNK: usize = 100_000;
const HEAD: u64 = 64 << 10;
const TAIL: u64 = 256 << 10;

/// A source that records reads, and announcements of the ranges to be read next.
#[derive(Clone)]
struct Noted {
    bytes: Arc<Vec<u8>>,
    is_told: bool,
    reads: Arc<Mutex<Vec<Range<u64>>>>,
    told: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Noted {
    fn new(bytes: Vec<u8>, is_told: bool) -> Noted {
        Noted {
            bytes: Arc::new(bytes),
            is_told,
            reads: Arc::default(),
            told: Arc::default(),
        }
    }

    fn take_reads(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }

    fn forget(&self) {
        self.take_reads();
        self.take_told();
    }

    fn take_told(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

impl ReadAt for Noted {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.bytes.read_at(offset, buf)?;
        self.reads.lock().unwrap().push(offset..offset + n as u64);
        Ok(n)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn prefetch(&self, ranges: &[Range<u64>]) {
        self.told.lock().unwrap().extend_from_slice(ranges);
    }

    fn is_prefetched(&self) -> bool {
        self.is_told
    }
}

fn value(at: usize) -> Vec<u8> {
    (0..CHUNK)
        .map(|i| u8::try_from((i * 31 + at * 7) % 251).unwrap())
        .collect()
}

/// Returns a message with a chunk for the string in field 8 of each element of field 10.
fn sample() -> Chunked {
    let base: Vec<u8> = (0..CHUNKS).flat_map(|_| len(10, len(8, []))).collect();
    (0..CHUNKS).fold(Chunked::marked().base(base), |chunked, at| {
        chunked.bytes(&format!("10[{at}].8"), value(at))
    })
}

fn opened(source: &Noted) -> ChunkedFile<Noted> {
    ChunkedFile::from_source(source.clone(), &Limits::new()).unwrap()
}

fn is_inside(read: &Range<u64>, ranges: &[Range<u64>]) -> bool {
    ranges
        .iter()
        .any(|range| range.start <= read.start && read.end <= range.end)
}

#[test]
fn a_file_is_opened_by_its_tail_and_its_head_alone() {
    for is_told in [false, true] {
        let source = Noted::new(cpb_with(&sample(), ALONE, |_| {}), is_told);
        let size = source.size().unwrap();
        opened(&source);
        assert_eq!(source.take_reads(), [0..HEAD, size - TAIL..size]);
        assert_eq!(source.take_told(), [0..HEAD, size - TAIL..size]);
    }
}

#[test]
fn a_small_file_is_read_once_whatever_is_done_with_it() {
    let chunked = Chunked::marked().base(len(8, [])).bytes("8", "small");
    let source = Noted::new(cpb_with(&chunked, ALONE, |_| {}), true);
    let file = opened(&source);
    assert_eq!(file.get(&"8".parse().unwrap()).unwrap(), "small");
    file.merge_to_bytes(&ReadOptions::new()).unwrap();
    assert_eq!(file.verify(&ReadOptions::new()).problems().len(), 0);
    assert_eq!(source.take_reads(), [0..source.size().unwrap()]);
}

#[test]
fn a_value_is_read_from_its_own_chunk() {
    for is_told in [false, true] {
        let source = Noted::new(cpb_with(&sample(), ALONE, |_| {}), is_told);
        let file = opened(&source);
        let begin = file.position(20).unwrap().chunk_begin().0;
        let end = file.position(21).unwrap().chunk_begin().0;
        source.forget();
        let got = file.get(&"10[19].8".parse().unwrap()).unwrap();
        assert_eq!(got, value(19));
        let block = begin - begin % (64 << 10);
        for read in source.take_reads() {
            assert!(
                is_inside(&read, &[block..end]),
                "{read:?} of {block}..{end}"
            );
        }
        // Exactly the bytes that are read next are announced.
        let told = source.take_told();
        assert_eq!(told.is_empty(), !is_told);
        assert!(told.iter().all(|told| *told == (block..end)), "{told:?}");
    }
}

#[test]
fn all_that_a_merge_reads_was_told_before_in_the_order_of_the_output() {
    for compression in [Compression::None, Compression::ZSTD] {
        let layout = Layout::Alone(compression);
        let source = Noted::new(cpb_with(&sample(), layout, |_| {}), true);
        let size = source.size().unwrap();
        let file = opened(&source);
        let ends = [0..HEAD.min(size), size.saturating_sub(TAIL)..size];
        source.forget();
        let mut merged = Vec::new();
        file.merge_to(&mut merged, &ReadOptions::new()).unwrap();
        let told = source.take_told();
        for read in source.take_reads() {
            assert!(is_inside(&read, &told), "{read:?}");
            assert!(!is_inside(&read, &ends), "{read:?} was at hand");
        }
        let first: Vec<_> = told
            .iter()
            .take(CHUNKS - 10)
            .map(|range| range.start)
            .collect();
        assert!(first.is_sorted(), "{first:?}");
    }
}

#[test]
fn a_verification_tells_what_it_reads() {
    let source = Noted::new(cpb_with(&sample(), ALONE, |_| {}), true);
    let file = opened(&source);
    let found = file.verify(&ReadOptions::new());
    assert!(found.problems().is_empty(), "{:?}", found.problems());
    let told = source.take_told();
    // Bytes that are already in memory aren't announced.
    for chunk in 5..CHUNKS - 5 {
        let begin = file.position(chunk).unwrap().chunk_begin().0;
        assert!(is_inside(&(begin..begin + CHUNK as u64), &told), "{chunk}");
    }
}

#[test]
fn what_the_trailer_says_of_a_chunk_is_checked_when_that_is_read() {
    type Lie = fn(&mut proto_splitter_core::proto::ChunkMetadata);
    let lies: [(&str, Lie); 4] = [
        ("where its record has 100000", |m| m.chunks[5].size -= 1),
        ("where its record has 100000", |m| {
            m.chunks[5].size = if usize::BITS == 32 { 1 << 30 } else { 1 << 40 };
        }),
        ("no record begins at its offset", |m| {
            m.chunks[5].offset += 1
        }),
        // This is the checksum of another chunk with the same size.
        ("crc32c", |m| {
            for info in &mut m.chunks {
                info.crc32c = Some(crc32c::crc32c(&value(4)));
            }
            m.chunks[0].crc32c = None;
            m.chunks[5].offset = m.chunks[9].offset;
        }),
    ];
    for (expected, lie) in lies {
        for is_told in [false, true] {
            let limits = Limits::new().max_merged_size(1 << 50);
            let source = Noted::new(cpb_with(&sample(), ALONE, lie), is_told);
            let file = ChunkedFile::from_source(source, &limits).unwrap();
            let path = "10[4].8".parse().unwrap();
            let options = ReadOptions::new().limits(limits);
            let view = file.view(options.clone());
            let error = view.get(&path).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(error.chunk(), Some(ChunkIndex::new(5)), "{error}");
            if !expected.contains("crc32c") {
                assert_eq!(error.kind(), ErrorKind::InvalidTrailer);
                assert!(view.size(&path).is_err());
                let other = view.get(&"10[30].8".parse().unwrap()).unwrap();
                assert_eq!(other, value(30));
            }
            let mut merged = Vec::new();
            let error = file.merge_to(&mut merged, &options).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            // Wrong sizes and offsets are found before anything is written, unless ranges are
            // announced: then a record is looked up only when it is read. A checksum is always
            // compared later.
            let is_looked = is_told || expected.contains("crc32c");
            assert_eq!(merged.is_empty(), !is_looked, "{expected}");
            let found = file.verify(&options);
            let problems: Vec<_> = found.problems().iter().map(ToString::to_string).collect();
            assert!(
                problems.iter().any(|problem| problem.contains(expected)),
                "{problems:?}"
            );
            assert_eq!(file.len(), CHUNKS + 1);
        }
    }
}
