use super::super::test_store::Store;
use super::*;
use crate::error::ChunkIndex;

fn input(store: &Store) -> PlanReader<'_, Store> {
    let chunks = (0..store.count).map(|chunk| (chunk, 0..store.chunk.len()));
    PlanReader::new(store.plan(chunks), store)
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
    let mut input = input(&store);
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
    let mut input = input(&store);
    for at in 0..500 {
        check(&store, &mut input, (at * 999_983) % (5_000_000), 100);
    }
    assert!(store.opened() < 20, "{}", store.opened());
}

#[test]
fn chunks_that_are_read_in_turns_are_each_unpacked_or_read_a_few_times() {
    for size in [1 << 19, 2 << 20] {
        let store = Store {
            count: MAX_OPEN + 2,
            ..Store::new(size)
        };
        let mut input = input(&store);
        for turn in 0..40 {
            let at = turn * size / 50;
            for chunk in 0..store.count {
                let bytes = input.fetch((chunk * size + at) as u64, 100);
                assert_eq!(bytes.unwrap()[..100], store.chunk[at..at + 100]);
            }
        }
        assert!(store.opened() <= 12 * store.count, "{}", store.opened());
    }
}

#[test]
fn going_back_to_the_front_is_cheap_and_unpacks_nothing() {
    let store = Store::new(5 << 20);
    let mut input = input(&store);
    for at in [0, 10_000, 0, 20_000, 0] {
        check(&store, &mut input, at, 100);
    }
    assert_eq!(input.unpacked.len(), 0);
}

#[test]
fn a_chunk_that_was_looked_into_is_checked_from_where_it_was_read_to() {
    for damaged in [None, Some(0)] {
        let store = Store {
            damaged,
            ..Store::new(5 << 20)
        };
        let mut input = input(&store);
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
    let mut input = input(&store);
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
