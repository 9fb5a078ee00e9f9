use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::error::ChunkIndex;
use crate::spans::{SourceId, SpanList};

/// A store of equal chunks that can only be read sequentially. Concatenated, they are the message.
struct Store {
    chunk: Vec<u8>,
    count: usize,
    opened: AtomicUsize,
    /// Index of the chunk whose stream ends with an error, as after a failed checksum.
    damaged: Option<usize>,
}

impl Store {
    fn new(size: usize) -> Self {
        Store {
            chunk: (0..size).map(|at| at.to_le_bytes()[at % 3]).collect(),
            count: 1,
            opened: AtomicUsize::new(0),
            damaged: None,
        }
    }

    fn input(&self) -> PlanReader<'_, Store> {
        let size = self.chunk.len() as u64;
        let mut spans = SpanList::new();
        for chunk in 0..self.count {
            spans.push_span(SourceId::new(chunk).unwrap(), 0..size);
        }
        PlanReader::new(MergePlan::new(spans, self.count), self)
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }
}

/// A reader that always fails, for the end of a stream with damaged bytes.
struct Damage;

impl Read for Damage {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("damaged"))
    }
}

impl ChunkStore for Store {
    fn len(&self) -> usize {
        self.count
    }

    fn size(&self, _: usize) -> u64 {
        self.chunk.len() as u64
    }

    fn stored_len(&self) -> u64 {
        (self.chunk.len() * self.count) as u64
    }

    fn stream(&self, chunk: usize) -> Result<Box<dyn Read + '_>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let bytes = Cursor::new(&self.chunk);
        Ok(if self.damaged == Some(chunk) {
            Box::new(bytes.chain(Damage))
        } else {
            Box::new(bytes)
        })
    }
}

fn check(store: &Store, input: &mut PlanReader<'_, Store>, at: usize, want: usize) {
    let bytes = input.fetch(at as u64, want).unwrap();
    assert!(
        bytes.len() >= want && store.chunk[at..].starts_with(bytes),
        "{at}"
    );
}

#[test]
fn a_walk_forward_reads_a_chunk_once_however_its_windows_fall() {
    let store = Store::new(5 << 20);
    let mut input = store.input();
    let mut at = 0;
    while at + 5000 < store.chunk.len() {
        check(&store, &mut input, at, [1, 20, 4090, 5000][at % 4]);
        at += [3, 40, 4000, 977][at % 4];
    }
    assert_eq!(store.opened(), 1);
}

#[test]
fn a_chunk_that_is_gone_back_in_again_and_again_is_unpacked() {
    let store = Store::new(5 << 20);
    let mut input = store.input();
    for at in 0..500 {
        check(&store, &mut input, (at * 999_983) % (5_000_000), 100);
    }
    assert!(store.opened() < 20, "{}", store.opened());
}

#[test]
fn going_back_to_the_front_is_cheap_and_unpacks_nothing() {
    let store = Store::new(5 << 20);
    let mut input = store.input();
    for at in [0, 10_000, 0, 20_000, 0] {
        check(&store, &mut input, at, 100);
    }
    assert!(input.unpacked.file.is_none());
}

#[test]
fn a_chunk_that_was_looked_into_is_checked_from_where_it_was_read_to() {
    for damaged in [None, Some(0)] {
        let store = Store {
            damaged,
            ..Store::new(5 << 20)
        };
        let mut input = store.input();
        check(&store, &mut input, 10_000, 100);
        let checked = input.check();
        assert_eq!(
            checked.err().and_then(|e| e.chunk()),
            damaged.map(|_| ChunkIndex::BASE)
        );
        assert_eq!(store.opened(), 1);
    }
}

#[test]
fn a_chunk_that_others_took_the_place_of_is_checked_too() {
    let store = Store {
        count: MAX_OPEN + 2,
        damaged: Some(1),
        ..Store::new(2 << 20)
    };
    let mut input = store.input();
    for chunk in 0..store.count {
        let bytes = input.fetch((chunk * store.chunk.len()) as u64, 100);
        assert_eq!(bytes.unwrap()[..100], store.chunk[..100]);
    }
    let damage = input.check().unwrap_err();
    assert_eq!(damage.chunk(), Some(ChunkIndex::new(1)));
    // Each chunk is opened on its first use. Two that were dropped are opened again; the second of
    // these is the damaged one.
    assert_eq!(store.opened(), store.count + 2);
}
