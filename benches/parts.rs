//! A benchmark of planning the split of a 3 GiB model, and of reading parts of the model: `cargo
//! bench --bench parts`.
//!
//! The model has twelve constants of 256 MiB (`Workload::W1Large`). It is stored as a `.pb` and as
//! an uncompressed `.cpb`, both in the page cache. The benchmark needs 7 GiB of disk, and 7 GiB of
//! memory for the page cache; `-- --quick` makes the model 16 times smaller, to check that the
//! benchmark runs.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs::File;
use std::hash::Hasher;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use highway::HighwayHasher;
use prost_reflect::MessageDescriptor;
use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::{Limits, ReadOptions};
use proto_splitter::path::FieldPath;
use proto_splitter::record_file::{Compression, ReadAt};
use proto_splitter::split::{Source, SplitExt};
use proto_splitter::view::MessageView;
use proto_splitter::{SAVED_MODEL, SavedModelSplitter};
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::sources::{Reads, Watched};
use proto_splitter_testkit::turns::{Contestant, in_turns};
use proto_splitter_testkit::workloads::Workload;

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: u64 = 9;
const QUICK: u64 = 16;

/// Number of bytes that the reference reads and hashes at once.
const BLOCK: usize = 256 << 10;

/// Field path of a node's name. The next constant is the index of a constant in the middle of the
/// model.
const NAME: &str = "2[0].2.1[3].1";
const CONSTANT: u64 = Workload::W1_SMALL_NODES + 5;

fn main() -> Outcome<()> {
    let scale = scale(QUICK);
    let folder = scratch_folder()?;
    let plain = folder.path().join("saved_model.pb");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&plain)?);
    Workload::W1Large.message(scale).write_to(&mut out)?;
    out.flush()?;
    let prefix = folder.path().join("chunked");
    let options = Workload::W1Large
        .split_options(scale)
        .compression(Compression::None);
    let source = Source::open(&plain, descriptor()?)?;
    let chunked = SavedModelSplitter
        .write_with(source, &prefix, &options)?
        .path;
    few_reads(&plain, &chunked, scale)?;
    println!();
    constants(&plain, &chunked, scale)
}

type Work<'a> = dyn Fn(Watched<File>) -> Outcome<()> + 'a;

/// Measures the number of bytes that planning and reading a name read, and their time.
fn few_reads(plain: &Path, chunked: &Path, scale: u64) -> Outcome<()> {
    let descriptor = descriptor()?;
    let options = Workload::W1Large.split_options(scale);
    let name: FieldPath = NAME.parse()?;
    let plan = |source: Source| -> Outcome<()> {
        black_box(SavedModelSplitter.plan(source, &options)?);
        Ok(())
    };
    let in_chunks = |source: Watched<File>| -> Outcome<()> {
        let file = ChunkedFile::from_source(source, &Limits::default())?;
        black_box(file.get(&name)?);
        Ok(())
    };
    let in_one_piece = |source: Watched<File>| -> Outcome<()> {
        let view = MessageView::of_plain(&source, ReadOptions::new())?;
        black_box(view.get(&name)?);
        Ok(())
    };
    let planned = |source: Watched<File>| {
        let size = source.size()?;
        plan(Source::from_reader(
            Arc::new(source),
            size,
            descriptor.clone(),
        ))
    };
    let work: [(&str, &Path, &Work<'_>); 3] = [
        ("plan the split", plain, &planned),
        ("open the .cpb and get a name", chunked, &in_chunks),
        ("open the .pb and get a name", plain, &in_one_piece),
    ];
    println!("| work | reads | bytes read | best ms | median ms |");
    println!("| --- | --- | --- | --- | --- |");
    for (what, path, run) in work {
        let (source, reads) = watched(path)?;
        run(source)?;
        let reads = reads.take();
        let bytes: u64 = reads.iter().map(|read| read.end - read.start).sum();
        let mut turns = [Contestant::new(what, || run(watched(path)?.0))];
        let times = &in_turns(ROUNDS, &mut turns)?[0];
        println!(
            "| {what} | {} | {bytes} | {:.3} | {:.3} |",
            reads.len(),
            times.best() * 1e3,
            times.median() * 1e3,
        );
    }
    Ok(())
}

fn watched(path: &Path) -> Outcome<(Watched<File>, Reads)> {
    Ok(Watched::new(File::open(path)?))
}

/// Compares reading one constant with only reading and hashing the same number of bytes.
fn constants(plain: &Path, chunked: &Path, scale: u64) -> Outcome<()> {
    let path: FieldPath = format!("2[0].2.1[{CONSTANT}].5[\"value\"].8.4").parse()?;
    let len = usize::try_from(Workload::W1_CONSTANT_BYTES / scale)?;
    let file = ChunkedFile::open(chunked)?;
    let source = File::open(plain)?;
    let view = file.view(ReadOptions::new());
    let whole = MessageView::of_plain(&source, ReadOptions::new())?;
    let buffer = || vec![1; len];
    let (mut touched, mut touched_plain, mut read) = (buffer(), buffer(), buffer());
    if view.get(&path)? != whole.get(&path)? {
        return Err("the constants differ".into());
    }
    let mut contestants = [
        Contestant::new("reading and hashing the bytes, to touched memory", || {
            Ok(black_box(read_and_hash(&source, &mut read)?))
        }),
        Contestant::new("get from the .cpb, to touched memory", || {
            Ok(black_box(view.get_into(&path, &mut touched)?))
        }),
        Contestant::new("get from the .pb, to touched memory", || {
            Ok(black_box(whole.get_into(&path, &mut touched_plain)?))
        }),
        Contestant::new("reading and hashing the bytes, to fresh memory", || {
            let mut fresh = vec![0; len];
            black_box(read_and_hash(&source, &mut fresh)?);
            Ok(fresh)
        }),
        Contestant::new("get from the .cpb, to fresh memory", || {
            Ok(black_box(view.get(&path)?))
        }),
        Contestant::new("get from the .pb, to fresh memory", || {
            Ok(black_box(whole.get(&path)?))
        }),
    ];
    let times = in_turns(ROUNDS, &mut contestants)?;
    println!("| a constant of {len} bytes | best s | median s | times the reading and hashing |");
    println!("| --- | --- | --- | --- |");
    for (at, time) in times.iter().enumerate() {
        let reference = &times[at / 3 * 3];
        println!(
            "| {} | {:.4} | {:.4} | {:.2} |",
            time.name,
            time.best(),
            time.median(),
            time.best() / reference.best(),
        );
    }
    Ok(())
}

/// Fills the buffer with bytes from the middle of the file, and computes the two hashes that are
/// computed for a chunk, on one thread.
fn read_and_hash(source: &File, buffer: &mut [u8]) -> Outcome<(u64, u32)> {
    let mut at = source.size()? / 2;
    let (mut hasher, mut crc32c) = (HighwayHasher::default(), 0);
    for block in buffer.chunks_mut(BLOCK) {
        source.read_exact_at(at, block)?;
        Hasher::write(&mut hasher, block);
        crc32c = crc32c::crc32c_append(crc32c, block);
        at += block.len() as u64;
    }
    Ok((hasher.finish(), crc32c))
}

fn descriptor() -> Outcome<MessageDescriptor> {
    let pool = proto_splitter::proto::saved_model::descriptor_pool();
    Ok(pool
        .get_message_by_name(SAVED_MODEL)
        .ok_or("a type of the schema")?)
}
