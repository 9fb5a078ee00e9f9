//! Measuring how long it takes to write millions of elements to a Parquet file: `cargo bench -p
//! proto-splitter-columns --bench columns`. With `-- PACKETS`, the number of packets is PACKETS
//! instead of 20 million. With `-- --quick`, it is 100,000, to check that the benchmark runs.
//!
//! The benchmark converts a trace on disk to a Parquet file, on all cores. The time is compared
//! with two others: the time for skipping over the fields of the trace, and the time that Parquet's
//! writer needs to write the same columns from memory with the same number of threads. Then this is
//! repeated with the same number of elements in 100 traces, and with columns for each element's
//! trace. All measurements take turns. The first turn isn't counted. The last line is the peak
//! memory of a process that only writes the first file.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write, sink};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use proto_splitter_columns::arrow_array::RecordBatch;
use proto_splitter_columns::{Table, TableOptions};
use proto_splitter_core::ReadOptions;
use proto_splitter_core::path::PathQuery;
use proto_splitter_core::threads;
use proto_splitter_core::view::MessageView;
use proto_splitter_core::wire::{SourceInput, WireCursor, put_varint};
use proto_splitter_testkit::memory::watch;
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::traces::{trace, trace_type, traces_type, write_trace};
use proto_splitter_testkit::turns::{Contestant, in_turns};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: u64 = 5;
const PACKETS: u64 = 20_000_000;

/// Maximum time in addition to that of Parquet's writer, as a multiple of the time for skipping
/// fields.
const AIM: f64 = 3.0;

/// Maximum memory of the process that only writes the first file, in MiB.
const MEMORY_AIM: u64 = 256;

/// Number of traces in the message with several traces.
const TRACES: u64 = 100;

/// Number of batches in a row group that only Parquet's writer writes. With this number, row groups
/// have as many rows as those of the table.
const BATCHES: usize = 8;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("--child") {
        let (source, target) = (
            args.next().unwrap_or_default(),
            args.next().unwrap_or_default(),
        );
        return to_parquet(Path::new(&source), Path::new(&target)).map(drop);
    }
    let packets = std::env::args().find_map(|arg| arg.parse().ok());
    let packets = packets.unwrap_or(PACKETS / scale(200));
    let folder = scratch_folder()?;
    let (source, target) = (
        folder.path().join("trace.pb"),
        folder.path().join("trace.parquet"),
    );
    let traces = folder.path().join("traces.pb");
    let mut out = BufWriter::new(File::create(&source)?);
    write_trace(packets, &mut out)?;
    out.flush()?;
    write_traces(packets, &traces)?;

    let mut child = Command::new(std::env::current_exe()?);
    let (status, peak) = watch(child.arg("--child").arg(&source).arg(&target))?;
    if !status.success() {
        return Err("the table was not written".into());
    }

    let alone = batches(&source, false)?;
    let with_parents = batches(&traces, true)?;
    let mut table = || check(to_parquet(&source, &target)?, packets);
    let mut hop = || bare_hop(&source);
    let mut writer = || writer_alone(&alone);
    let mut parents_table = || check(parents_to_parquet(&traces)?, packets);
    let mut parents_writer = || writer_alone(&with_parents);
    let mut turns = [
        Contestant::new("table", &mut table),
        Contestant::new("hop", &mut hop),
        Contestant::new("writer", &mut writer),
        Contestant::new("table with parents", &mut parents_table),
        Contestant::new("writer with parents", &mut parents_writer),
    ];
    let times = in_turns(ROUNDS, &mut turns)?;
    let median = |at: usize| times[at].median();
    let (table, hop, writer) = (median(0), median(1), median(2));
    println!(
        "| {packets} elements, {} bytes | median s |\n| --- | --- |",
        source.metadata()?.len()
    );
    println!(
        "| to a Parquet file of {} bytes | {table:.3} |",
        target.metadata()?.len()
    );
    println!("| a bare hop | {hop:.3} |\n| Parquet's writer alone | {writer:.3} |");
    let over = (table - writer) / hop;
    println!("| beside the writer, bare hops (aim, at most: {AIM}) | {over:.2} |");
    let (table, writer) = (median(3), median(4));
    println!("| with parents, to Parquet | {table:.3} |");
    println!("| with parents, Parquet's writer alone | {writer:.3} |");
    let over = (table - writer) / hop;
    println!("| with parents, beside the writer, bare hops | {over:.2} |");
    let mib = peak.resident >> 20;
    println!("| the most memory, MiB (aim, at most: {MEMORY_AIM}) | {mib} |");
    Ok(())
}

/// Writes a message with [`TRACES`] traces, which have `packets` elements in total.
fn write_traces(packets: u64, target: &Path) -> Outcome<()> {
    let mut out = BufWriter::new(File::create(target)?);
    for at in 0..TRACES {
        let trace = trace(packets * (at + 1) / TRACES - packets * at / TRACES);
        let mut head = vec![0x0a];
        put_varint(&mut head, trace.len() as u64);
        out.write_all(&head)?;
        out.write_all(&trace)?;
    }
    Ok(out.flush()?)
}

/// Passes a table to `work`. Its rows are the elements of a trace or, if `with_parents` is true,
/// the elements of several traces, with columns for their parents.
fn with_table<T>(
    source: &Path,
    with_parents: bool,
    work: impl FnOnce(&Table<'_>) -> Outcome<T>,
) -> Outcome<T> {
    let (descriptor, query) = if with_parents {
        (traces_type(), "trace[*].packet[*]")
    } else {
        (trace_type(), "packet[*]")
    };
    let file = File::open(source)?;
    let view = MessageView::of_plain(&file, ReadOptions::new().descriptor(descriptor))?;
    let query = PathQuery::parse(query, view.descriptor())?;
    let options = TableOptions::new().with_parent(with_parents);
    work(&Table::new(view, &query, &[], &options)?)
}

fn to_parquet(source: &Path, target: &Path) -> Outcome<u64> {
    with_table(source, false, |table| write(table, target))
}

/// Writes the elements of several traces, with columns for their parents, to a file next to the
/// source.
fn parents_to_parquet(source: &Path) -> Outcome<u64> {
    with_table(source, true, |table| {
        write(table, &source.with_extension("parquet"))
    })
}

fn write(table: &Table<'_>, target: &Path) -> Outcome<u64> {
    let mut out = BufWriter::new(File::create(target)?);
    let rows = table.write_parquet(&mut out)?;
    out.flush()?;
    Ok(rows)
}

fn batches(source: &Path, with_parents: bool) -> Outcome<Vec<RecordBatch>> {
    with_table(source, with_parents, |table| {
        let mut batches = Vec::new();
        table.for_each_batch(|batch| {
            batches.push(batch);
            Ok(())
        })?;
        Ok(batches)
    })
}

fn bare_hop(source: &Path) -> Outcome<()> {
    let file = File::open(source)?;
    let size = file.metadata()?.len();
    let mut cursor = WireCursor::new(SourceInput::new(&file, size));
    let mut sum = 0;
    while let Some(field) = cursor.next()? {
        sum += field.value.end - field.value.start;
    }
    black_box(sum);
    Ok(())
}

/// Writes the batches as Parquet, and discards the output. Each thread writes one row group at a
/// time.
fn writer_alone(batches: &[RecordBatch]) -> Outcome<()> {
    let groups = Mutex::new(batches.chunks(BATCHES));
    let next = || groups.lock().ok()?.next();
    let work = || -> Result<(), parquet::errors::ParquetError> {
        while let Some(group) = next() {
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                .build();
            let mut writer = ArrowWriter::try_new(sink(), group[0].schema(), Some(properties))?;
            for batch in group {
                writer.write(batch)?;
            }
            writer.close()?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads = (0..threads::count(None).get()).map(|_| scope.spawn(work));
        let threads: Vec<_> = threads.collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })
}

fn check(rows: u64, expected: u64) -> Outcome<()> {
    if rows == expected {
        Ok(())
    } else {
        Err(format!("{rows} rows, not {expected}").into())
    }
}
