//! Tests that iterating over hundreds of thousands of elements needs a constant amount of memory.
//! The test runs in a separate process, since it measures the memory that the process allocates.

use std::hint::black_box;

use bytes::Bytes;
use peak_alloc::PeakAlloc;
use proto_splitter::merge::ReadOptions;
use proto_splitter::path::{FieldPath, PathQuery};
use proto_splitter::split::{
    ComposableSplitter, MAP_KEYS_HELD, Source, SplitContext, SplitExt, SplitOptions,
};
use proto_splitter::view::{MessageView, PieceOptions};
use proto_splitter::wire::put_varint;
use proto_splitter_testkit::generate::kitchen_sink;
use proto_splitter_testkit::own_process::in_own_process;
use proto_splitter_testkit::traces::{trace, trace_type};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Maximum additional memory, in bytes, whatever the number of elements.
const MOST: usize = 1 << 20;

const PACKETS: u64 = 300_000;

/// A splitter that iterates over all packets and begins a slice at some of them.
struct Look;

impl ComposableSplitter for Look {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> proto_splitter::Result<()> {
        let mut seen = 0;
        for packet in cx.message().repeated("packet")? {
            let packet = packet?;
            black_box(packet.size());
            seen += 1;
            if seen % 100_000 == 0 {
                cx.slice_at(&packet)?;
            }
        }
        assert_eq!(seen, PACKETS);
        Ok(())
    }
}

const ENTRIES: u64 = 10_000_000;

/// A splitter that iterates over all entries of a map.
struct LookUp;

impl ComposableSplitter for LookUp {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> proto_splitter::Result<()> {
        let (mut seen, mut sum) = (0, 0);
        for entry in cx.message().map("blob_by_number")? {
            let (_, value) = entry?;
            seen += 1;
            sum += value.size();
        }
        // The first ten keys are repeated at the end. The last entry for a key counts.
        assert_eq!((seen, sum), (ENTRIES, 10));
        Ok(())
    }
}

/// Returns a message with a map of [`ENTRIES`] small entries. Some keys occur twice.
fn large_map() -> Vec<u8> {
    let mut map = Vec::new();
    let mut entry = Vec::new();
    let again = (0..10).map(|at| (at, "x"));
    for (at, value) in (0..ENTRIES).map(|at| (at, "")).chain(again) {
        entry.clear();
        entry.push(8);
        // The keys aren't sorted.
        put_varint(&mut entry, at * 7_654_321 % 10_000_019);
        entry.extend([0x12, u8::try_from(value.len()).unwrap()]);
        entry.extend(value.bytes());
        map.extend([0x72, u8::try_from(entry.len()).unwrap()]);
        map.extend(&entry);
    }
    map
}

/// Returns the largest amount of memory that is allocated during `work`, in bytes. Memory that was
/// allocated before isn't counted.
fn taken(work: impl FnOnce()) -> usize {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    work();
    MEMORY.peak_usage().saturating_sub(before)
}

#[test]
fn elements_are_gone_through_in_memory_that_does_not_grow_with_their_number() {
    in_own_process(|| {
        let bytes = Bytes::from(trace(PACKETS));
        let source = Source::from_bytes(bytes.clone(), trace_type());
        let plan = taken(|| {
            let plan = Look.plan(&source, &SplitOptions::new()).unwrap();
            assert_eq!(plan.chunks().len(), 4);
        });
        assert!(plan < MOST, "a splitter of one's own: {plan}");

        let map = Source::from_bytes(large_map(), kitchen_sink());
        let looked_up = taken(|| {
            LookUp.plan(&map, &SplitOptions::new()).unwrap();
        });
        assert!(
            looked_up < 2 * MAP_KEYS_HELD,
            "the entries of a map: {looked_up}"
        );

        let view =
            MessageView::of_plain(&bytes, ReadOptions::new().descriptor(trace_type())).unwrap();
        for query in [
            "packet[*].timestamp",
            "packet[track=1]",
            "packet[\"event 8\"]",
        ] {
            let query = PathQuery::parse(query, view.descriptor()).unwrap();
            let selected = taken(|| {
                let mut selected = view.select(&query, &[]).unwrap();
                let mut count = 0;
                while selected.next().transpose().unwrap().is_some() {
                    black_box(selected.value().unwrap());
                    count += 1;
                }
                assert!(count > 100);
            });
            assert!(selected < MOST, "{query:?}: {selected}");
        }
        let field = FieldPath::parse("packet", &trace_type()).unwrap();
        let pieces = taken(|| {
            let options = PieceOptions::new().max_count(100_000).with_rest(true);
            let mut pieces = view.pieces(&field, &options).unwrap();
            while let Some(piece) = pieces.next().transpose().unwrap() {
                assert_eq!(piece.count, 100_000);
                pieces.write_to(&mut std::io::sink()).unwrap();
            }
        });
        assert!(pieces < MOST, "pieces: {pieces}");
    });
}
