//! Elements by the million, one by one: `cargo bench --bench elements`, or `-- PACKETS` for another
//! number than 20 million.
//!
//! A splitter that looks at every element is beside `SizeSplitter`, which hops over all of them and
//! slices them by size; a query that goes through all elements is beside a bare hop over them. They
//! take turns, after one turn that isn't counted. The last line is the most memory that the process
//! had beside the trace itself.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::hint::black_box;

use bytes::Bytes;
use proto_splitter::merge::MergeOptions;
use proto_splitter::path::PathQuery;
use proto_splitter::split::{
    ComposableSplitter, SizeSplitter, Source, SplitContext, SplitExt, SplitOptions, SplitPlan,
};
use proto_splitter::view::MessageView;
use proto_splitter::wire::WireCursor;
use proto_splitter_testkit::traces::{trace, trace_type};
use proto_splitter_testkit::turns::{Contestant, in_turns};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: u64 = 5;
const PACKETS: u64 = 20_000_000;

/// How many elements a slice has.
const IN_A_SLICE: u64 = 1_000_000;

/// Looks at every packet, and slices them by their number.
struct ByNumber;

impl ComposableSplitter for ByNumber {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> proto_splitter::Result<()> {
        let mut bytes = 0;
        for (at, packet) in cx.message().repeated("packet")?.enumerate() {
            let packet = packet?;
            bytes += packet.size();
            if (at as u64).is_multiple_of(IN_A_SLICE) {
                cx.slice_at(&packet)?;
            }
        }
        black_box(bytes);
        Ok(())
    }
}

/// Looks at every packet, and cuts nothing.
struct Look;

impl ComposableSplitter for Look {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> proto_splitter::Result<()> {
        for packet in cx.message().repeated("packet")? {
            black_box(packet?.size());
        }
        Ok(())
    }
}

fn main() -> Outcome<()> {
    let packets = std::env::args().find_map(|arg| arg.parse().ok());
    let packets = packets.unwrap_or(PACKETS);
    let bytes = Bytes::from(trace(packets));
    let size = bytes.len() as u64;
    let source = Source::from_bytes(bytes.clone(), trace_type());
    let options = SplitOptions::new().max_chunk_size(size / 20);
    let plan = |splitter: &dyn Fn() -> proto_splitter::Result<SplitPlan>| -> Outcome<()> {
        black_box(splitter()?);
        Ok(())
    };
    let by_size = || SizeSplitter.plan(&source, &options);
    let look = || Look.plan(&source, &SplitOptions::new());
    let by_number = || ByNumber.plan(&source, &SplitOptions::new());

    println!("| work on {packets} elements | bytes | median s | reference | median s | ratio |");
    println!("| --- | --- | --- | --- | --- | --- |");
    row(
        "a splitter looks at each",
        size,
        &mut || plan(&look),
        "SizeSplitter plans",
        &mut || plan(&by_size),
    )?;
    row(
        "a splitter slices by number",
        size,
        &mut || plan(&by_number),
        "SizeSplitter plans",
        &mut || plan(&by_size),
    )?;
    let reading = MergeOptions::new().descriptor(trace_type());
    let view = MessageView::of_plain(&bytes, reading)?;
    let query = PathQuery::parse("packet[*]", view.descriptor())?;
    row(
        "a query goes through all",
        size,
        &mut || {
            let mut sum = 0;
            for size in view.select(&query, &[])? {
                sum += size?;
            }
            black_box(sum);
            Ok(())
        },
        "a bare hop",
        &mut || {
            let mut cursor = WireCursor::new(&bytes[..]);
            let mut sum = 0;
            while let Some(field) = cursor.next()? {
                sum += field.value.end - field.value.start;
            }
            black_box(sum);
            Ok(())
        },
    )?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!(
        "peak resident: {}, the trace: {} kB",
        peak.unwrap_or("?").trim(),
        size >> 10
    );
    Ok(())
}

fn row(
    what: &str,
    size: u64,
    work: &mut dyn FnMut() -> Outcome<()>,
    reference: &str,
    refer: &mut dyn FnMut() -> Outcome<()>,
) -> Outcome<()> {
    let mut turns = [
        Contestant::new(what, work),
        Contestant::new(reference, refer),
    ];
    let times = in_turns(ROUNDS, &mut turns)?;
    let [work, refer] = [times[0].median(), times[1].median()];
    println!(
        "| {what} | {size} | {work:.4} | {reference} | {refer:.4} | {:.2} |",
        work / refer
    );
    Ok(())
}
