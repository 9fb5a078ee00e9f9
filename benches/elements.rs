//! A benchmark of processing millions of elements one by one: `cargo bench --bench elements`. `--
//! PACKETS` sets the number of elements (default: 20 million); `-- --quick` uses 200 times fewer,
//! to check that the benchmark runs.
//!
//! - A splitter that iterates over all elements, or slices them by their number, is compared with
//!   `SizeSplitter`, which skips over the elements and slices them by size.
//! - Queries over all elements of a message in memory, over the elements with a certain name, and
//!   over pieces with many elements each, are compared with only skipping over the elements.
//! - Reading one element by its index, from a sliced file on disk, uncompressed or with zstd, is
//!   compared with the target of a tenth of a second.
//!
//! The compared functions run alternately, after one run that isn't counted, and each checks its
//! result. The last line of the output is the peak memory of the process, and the size of the
//! trace.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io;

use bytes::Bytes;
use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::ReadOptions;
use proto_splitter::path::PathQuery;
use proto_splitter::record_file::Compression;
use proto_splitter::split::{
    ComposableSplitter, SizeSplitter, Source, SplitContext, SplitExt, SplitOptions, SplitPlan,
};
use proto_splitter::view::{MessageView, PieceOptions};
use proto_splitter::wire::WireCursor;
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::traces::{trace, trace_type};
use proto_splitter_testkit::turns::{Contestant, in_turns};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: u64 = 5;
const PACKETS: u64 = 20_000_000;

/// Number of slices that the splitters make.
const SLICES: u64 = 20;

/// Maximum time for planning with a custom splitter, relative to `SizeSplitter`.
const SPLITTER_AIM: f64 = 1.5;

/// Maximum time for iterating over all elements, relative to only skipping over them.
const HOP_AIM: f64 = 3.0;

/// Maximum time, relative to only skipping over the elements, if two or three fields in each
/// element are also skipped.
const INSIDE_AIM: f64 = 5.0;

/// Maximum time for reading one element by its index, in seconds.
const AIM: f64 = 0.1;

/// A splitter that iterates over all packets, and slices them. Each slice has the given number of
/// packets.
struct ByNumber(u64);

impl ComposableSplitter for ByNumber {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> proto_splitter::Result<()> {
        let mut bytes = 0;
        for (at, packet) in cx.message().repeated("packet")?.enumerate() {
            let packet = packet?;
            bytes += packet.size();
            if (at as u64).is_multiple_of(self.0) && at > 0 {
                cx.slice_at(&packet)?;
            }
        }
        black_box(bytes);
        Ok(())
    }
}

/// A splitter that iterates over all packets, and cuts nothing.
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
    let packets = packets.unwrap_or(PACKETS / scale(200));
    let bytes = Bytes::from(trace(packets));
    println!(
        "| work on {packets} elements, {} bytes | median s | reference | median s | ratio | aim, at most |",
        bytes.len()
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    splitting(&bytes, packets)?;
    going_through(&bytes, packets)?;
    seeking(&bytes, packets)?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!(
        "\npeak resident: {}, the trace: {} kB",
        peak.unwrap_or("?").trim(),
        bytes.len() >> 10
    );
    Ok(())
}

fn splitting(bytes: &Bytes, packets: u64) -> Outcome<()> {
    let source = Source::from_bytes(bytes.clone(), trace_type());
    let options = SplitOptions::new().max_chunk_size(bytes.len() as u64 / SLICES);
    let by_size = || -> Outcome<()> {
        let plan = SizeSplitter.plan(&source, &options)?;
        check("slices", plan.chunks().len() as u64 > SLICES)
    };
    let planned = |plan: SplitPlan, chunks: u64| {
        check("chunks", black_box(&plan).chunks().len() as u64 == chunks)
    };
    let look = || planned(Look.plan(&source, &SplitOptions::new())?, 1);
    let by_number = ByNumber(packets.div_ceil(SLICES));
    let by_number = || planned(by_number.plan(&source, &SplitOptions::new())?, SLICES);
    row(
        ("a splitter looks at each", &mut { look }),
        ("SizeSplitter plans", &mut { by_size }),
        SPLITTER_AIM,
    )?;
    row(
        ("a splitter slices by number", &mut { by_number }),
        ("SizeSplitter plans", &mut { by_size }),
        SPLITTER_AIM,
    )
}

fn going_through(bytes: &Bytes, packets: u64) -> Outcome<()> {
    let reading = ReadOptions::new().descriptor(trace_type());
    let view = MessageView::of_plain(bytes, reading)?;
    let mut hop = || -> Outcome<()> {
        let mut cursor = WireCursor::new(&bytes[..]);
        let mut sum = 0;
        while let Some(field) = cursor.next()? {
            sum += field.value.end - field.value.start;
        }
        black_box(sum);
        Ok(())
    };
    let named = packets.saturating_sub(8).div_ceil(1000);
    for (what, query, expected, aim) in [
        ("a query goes through all", "packet[*]", packets, HOP_AIM),
        (
            "a query gives a field of all",
            "packet[*].timestamp",
            packets,
            INSIDE_AIM,
        ),
        (
            "a query finds all with a name",
            "packet[\"event 8\"]",
            named,
            INSIDE_AIM,
        ),
    ] {
        let query = PathQuery::parse(query, view.descriptor())?;
        let mut all = || {
            let (mut sum, mut count) = (0, 0);
            for size in view.select(&query, &[])? {
                sum += size?;
                count += 1;
            }
            black_box(sum);
            check(what, count == expected)
        };
        row((what, &mut all), ("a bare hop", &mut hop), aim)?;
    }
    let field = "packet";
    let field = proto_splitter::path::FieldPath::parse(field, &trace_type())?;
    let options = PieceOptions::new().max_count(packets.div_ceil(SLICES));
    let mut pieces = || {
        let mut pieces = view.pieces(&field, &options)?;
        let mut count = 0;
        while pieces.next().transpose()?.is_some() {
            pieces.write_to(&mut io::sink())?;
            count += 1;
        }
        check("pieces", count == SLICES)
    };
    row(
        ("pieces are written to nowhere", &mut pieces),
        ("a bare hop", &mut hop),
        HOP_AIM,
    )
}

fn seeking(bytes: &Bytes, packets: u64) -> Outcome<()> {
    let folder = scratch_folder()?;
    let source = Source::from_bytes(bytes.clone(), trace_type());
    let reading = ReadOptions::new().descriptor(trace_type());
    let plain = MessageView::of_plain(bytes, reading.clone())?;
    for (name, compression) in [("as it is", Compression::None), ("zstd", Compression::ZSTD)] {
        let options = SplitOptions::new()
            .max_chunk_size((bytes.len() as u64 / 4).max(1))
            .compression(compression);
        let written =
            SizeSplitter.write_with(source.clone(), folder.path().join(name), &options)?;
        for (place, index) in [("middle", packets / 2), ("end", packets - 1)] {
            let path = format!("2[{index}]").parse()?;
            let expected = plain.get(&path)?;
            let mut seek = || {
                let file = ChunkedFile::<File>::open(&written.path)?;
                let found = file.view(reading.clone()).get(&path)?;
                check("the element", found == expected)
            };
            let what = format!("element {index} of a file, {name}");
            let mut turns = [Contestant::new(what.as_str(), &mut seek)];
            let median = in_turns(ROUNDS, &mut turns)?[0].median();
            let (aim, ratio) = (AIM, median / AIM);
            println!("| {what}, the {place} | {median:.4} | the aim | {aim} | {ratio:.2} | 1 |");
        }
    }
    Ok(())
}

fn check(what: &str, holds: bool) -> Outcome<()> {
    if holds {
        Ok(())
    } else {
        Err(format!("{what}: not what was expected").into())
    }
}

/// A name in the table, and the function to time.
type Work<'a> = (&'a str, &'a mut dyn FnMut() -> Outcome<()>);

fn row(work: Work<'_>, reference: Work<'_>, aim: f64) -> Outcome<()> {
    let ((what, work), (to, refer)) = (work, reference);
    let mut turns = [Contestant::new(what, work), Contestant::new(to, refer)];
    let times = in_turns(ROUNDS, &mut turns)?;
    let [work, refer] = [times[0].median(), times[1].median()];
    let ratio = work / refer;
    println!("| {what} | {work:.4} | {to} | {refer:.4} | {ratio:.2} | {aim} |");
    Ok(())
}
