//! A benchmark that compares merging XLA's split protos of 1 GiB each with only reading their
//! records: `cargo bench --bench xla`.
//!
//! The benchmark needs 4 GiB of disk and of memory; `-- --quick` makes the split protos 16 times
//! smaller, to check that it runs. If `READ_SPLIT_HLO` names XLA's own reader, which
//! `tests/interop/xla/reader/build.sh` builds, that is compared, too.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use proto_splitter::record_file::{Compression, ReadAt, ReaderOptions, RecordReader};
use proto_splitter::xla::{Draft, WriteOptions};
use proto_splitter_testkit::generate::Random;
use proto_splitter_testkit::memory::watch;
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::turns::{Contestant, in_turns};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: u64 = 5;
const QUICK: u64 = 16;
const SIZE: u64 = 1 << 30;

/// Maximum time for a merge to memory, relative to only reading the records.
const MOST_TIME: f64 = 1.3;

/// Maximum anonymous memory for writing a split proto or merging it to a file, in bytes.
const MOST_MEMORY: u64 = 64 << 20;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--child") {
        return child(&args[at + 1..]);
    }
    let scale = scale(QUICK);
    let folder = scratch_folder()?;
    println!(
        "| {} MiB in split protos | computations | work | best s | median s | of bare reading | anonymous MiB |",
        (SIZE / scale) >> 20
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (compression, computations) in [
        ("snappy", 16),
        ("none", 16),
        ("zstd:3", 16),
        ("snappy", 1600),
    ] {
        compare(folder.path(), compression, computations, SIZE / scale)?;
    }
    Ok(())
}

/// Runs the operation that the arguments specify. Called in a separate process, to measure its
/// memory.
fn child(args: &[String]) -> Outcome<()> {
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", module, split, compression, ..] => {
            write(module.as_ref(), split.as_ref(), compression)
        }
        ["merge", split, merged, ..] => {
            proto_splitter::open(split)?.write_file_with(merged, true)?;
            Ok(())
        }
        _ => Err("what is the child to do?".into()),
    }
}

fn write(module: &Path, split: &Path, compression: &str) -> Outcome<()> {
    let message: Arc<dyn ReadAt> = Arc::new(File::open(module)?);
    let options = WriteOptions::new()
        .compression(compression.parse::<Compression>()?)
        .threads(std::num::NonZeroUsize::new(2))
        .force(true);
    Draft::new(message, "xla.HloProto")?.write_file(split, &Default::default(), &options)?;
    Ok(())
}

/// Appends the tag and the length of a length-delimited field.
fn head(out: &mut Vec<u8>, number: u32, len: usize) {
    use proto_splitter::wire::{FieldNumber, WireType, put_varint, tag};
    put_varint(out, tag(FieldNumber(number), WireType::Len));
    put_varint(out, len as u64);
}

/// Returns a length-delimited field with this number and value.
fn field(number: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 10);
    head(&mut out, number, value.len());
    out.extend_from_slice(value);
    out
}

/// Returns a module of about `size` bytes. It consists of `computations` computations, each with
/// one constant of floats.
fn module(size: u64, computations: u64) -> Outcome<Vec<u8>> {
    let mut random = Random::new(7);
    let mut inside = field(1, b"module");
    let len = usize::try_from(size / computations)?;
    for number in 0..computations {
        let mut floats = Vec::with_capacity(len);
        while floats.len() < len {
            // About a fourth of the bits are the same in all floats, so that compression has an
            // effect.
            let bits = (u32::try_from(random.below(1 << 24))? << 7) | 0x3f00_0000;
            floats.extend_from_slice(&bits.to_le_bytes());
        }
        let shape = [&[0x10, 11][..], &field(3, &[1])].concat();
        let literal = [field(1, &shape), field(8, &floats)].concat();
        let name = field(1, format!("constant.{number}").as_bytes());
        let instruction = [name, field(2, b"constant"), field(8, &literal)].concat();
        let name = field(1, format!("computation.{number}").as_bytes());
        let computation = [name, field(2, &instruction)].concat();
        head(&mut inside, 3, computation.len());
        inside.extend_from_slice(&computation);
    }
    Ok(field(1, &inside))
}

fn compare(folder: &Path, compression: &str, computations: u64, size: u64) -> Outcome<()> {
    let (plain, split, merged) = (
        folder.join("module.hlo.pb"),
        folder.join("module.riegeli"),
        folder.join("merged.pb"),
    );
    std::fs::write(&plain, module(size, computations)?)?;
    let [plain_arg, split_arg, merged_arg] =
        [&plain, &split, &merged].map(|path| path.to_string_lossy().into_owned());
    let written = memory_of(&["write", &plain_arg, &split_arg, compression])?;
    let bare = || -> Outcome<Vec<proto_splitter::bytes::Bytes>> {
        let mut reader = RecordReader::new(File::open(&split)?, ReaderOptions::new());
        let mut records = Vec::new();
        while let Some(record) = reader.read_record_bytes()? {
            records.push(record);
        }
        Ok(records)
    };
    let mut turns = vec![
        Contestant::new("bare reading of all records", bare),
        Contestant::new("merge to memory", || {
            Ok(proto_splitter::open(&split)?.bytes()?)
        }),
        Contestant::new("merge to a file", || {
            Ok(proto_splitter::open(&split)?.write_file_with(&merged, true)?)
        }),
        Contestant::new("write", || write(&plain, &split, compression)),
    ];
    if let Some(reader) = std::env::var_os("READ_SPLIT_HLO") {
        let split = split.clone();
        turns.push(Contestant::new("XLA's reader", move || {
            let done = Command::new(&reader)
                .arg(&split)
                .stdout(Stdio::null())
                .status()?;
            done.success()
                .then_some(())
                .ok_or_else(|| "it failed".into())
        }));
    }
    let times = in_turns(ROUNDS, &mut turns)?;
    drop(turns);
    let in_file = memory_of(&["merge", &split_arg, &merged_arg])?;
    for (number, time) in times.iter().enumerate() {
        let (best, median) = (time.best(), time.median());
        let memory = match number {
            2 => format!("{:.1}", in_file as f64 / f64::from(1 << 20)),
            3 => format!("{:.1}", written as f64 / f64::from(1 << 20)),
            _ => String::new(),
        };
        println!(
            "| {compression} | {computations} | {} | {best:.2} | {median:.2} | {:.2} | {memory} |",
            time.name,
            best / times[0].best()
        );
    }
    let ratio = times[1].best() / times[0].best();
    if ratio > MOST_TIME {
        return Err(format!("a merge to memory took {ratio:.2} times bare reading").into());
    }
    if proto_splitter::open(&split)?.canonical()?.bytes()? != std::fs::read(&plain)? {
        return Err("other bytes came back".into());
    }
    for path in [&plain, &split, &merged] {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Runs an operation in a separate process, and returns its peak anonymous memory in bytes. Fails
/// if this exceeds [`MOST_MEMORY`].
fn memory_of(args: &[&str]) -> Outcome<u64> {
    let mut command = Command::new(std::env::current_exe()?);
    let (status, peak) = watch(command.arg("--child").args(args))?;
    if !status.success() {
        return Err(format!("{args:?}: {status}").into());
    }
    if peak.anonymous > MOST_MEMORY {
        let found = peak.anonymous;
        return Err(format!("{args:?}: {found} bytes of memory, more than {MOST_MEMORY}").into());
    }
    Ok(peak.anonymous)
}
