//! SameDiff models of 3 GiB and of 100,000 entries: `cargo bench --bench samediff`.
//!
//! It needs 10 GiB of disk; `-- --quick` makes it 16 times smaller, to see that it runs.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use proto_splitter::record_file::ReadAt;
use proto_splitter_samediff::{
    Array, ArrayInfo, DType, Draft, Graph, Model, ModelOptions, TagContent, VarType, Variable,
    WriteOptions, write_safetensors,
};
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::sources::Watched;
use proto_splitter_testkit::turns::{Contestant, in_turns};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: u64 = 5;
const QUICK: u64 = 16;
const PARAMETERS: u64 = 12;
const PARAMETER: u64 = 256 << 20;
const ENTRIES: u64 = 100_000;

/// The most that writing and reading large parameters may take of the heap.
const MOST_MIB: f32 = 64.0;

#[global_allocator]
static MEMORY: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

fn main() -> Outcome<()> {
    let scale = scale(QUICK);
    let folder = scratch_folder()?;
    large(folder.path(), PARAMETER / scale)?;
    println!();
    many(folder.path(), ENTRIES / scale)
}

fn name(number: u64) -> String {
    format!("layer{number}/weights")
}

fn content(count: u64, array: impl Fn(u64) -> Outcome<Array>) -> Outcome<TagContent> {
    let mut graph = Graph::default();
    let mut arrays = Vec::new();
    for number in 0..count {
        let (name, array) = (name(number), array(number)?);
        let shape: Result<Vec<i64>, _> = array
            .info()
            .shape()
            .iter()
            .map(|&dim| dim.try_into())
            .collect();
        let dtype = array.info().dtype();
        graph
            .variables
            .push(Variable::new(&*name, VarType::Variable, dtype, shape?));
        arrays.push((name, array));
    }
    let content = TagContent::new(graph);
    Ok(arrays.into_iter().fold(content, |content, (name, array)| {
        content.parameter(name, array)
    }))
}

/// Writing and reading large parameters, beside `cp`, `sync` and `mv` of as many bytes.
fn large(folder: &Path, len: u64) -> Outcome<()> {
    let data = folder.join("data");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&data)?);
    let mut word = 1_u64;
    for _ in 0..PARAMETERS * len / 8 {
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ 0x5bd1;
        out.write_all(&word.to_le_bytes())?;
    }
    out.flush()?;
    let source: Arc<dyn ReadAt> = Arc::new(File::open(&data)?);
    let content = content(PARAMETERS, |number| {
        let info = ArrayInfo::new(DType::Float, [len / 4])?;
        Ok(Array::from_source(
            info,
            Arc::clone(&source),
            number * len,
            len,
        )?)
    })?;
    let (model, copy) = (folder.join("model.zip"), folder.join("copy"));
    let mut draft = Draft::new();
    draft.add_tag("only".parse()?, content)?;
    let write = || -> Outcome<()> {
        draft.write(&model, &WriteOptions::new().force(true))?;
        Ok(())
    };
    write()?;
    // All three put a new file in the place of an old one, since writers of models do.
    let fresh = folder.join("fresh");
    let read = || -> Outcome<()> {
        let opened = Model::open(&model)?;
        let options = WriteOptions::new().force(true);
        write_safetensors(&opened.default_tag(), &copy, &options)?;
        Ok(())
    };
    let cp = || -> Outcome<()> {
        let script = "cp --reflink=never \"$0\" \"$1\" && sync \"$1\" && mv \"$1\" \"$2\"";
        let done = Command::new("sh")
            .args(["-c", script])
            .args([&data, &fresh, &copy])
            .status()?;
        done.success()
            .then_some(())
            .ok_or_else(|| "cp failed".into())
    };
    cp()?;
    MEMORY.reset_peak_usage();
    let mut turns = [
        Contestant::new("cp, sync and mv", cp),
        Contestant::new("write a model", write),
        Contestant::new("read all parameters to a safetensors file", read),
    ];
    let times = in_turns(ROUNDS, &mut turns)?;
    let peak = MEMORY.peak_usage_as_mb();
    println!(
        "{} MiB of parameters; peak of the heap {peak:.1} MiB",
        (PARAMETERS * len) >> 20,
    );
    if peak > MOST_MIB {
        return Err(format!("more than {MOST_MIB} MiB of heap").into());
    }
    println!("| work | best s | median s | of cp's best |");
    println!("| --- | --- | --- | --- |");
    for time in &times {
        let ratio = time.best() / times[0].best();
        println!(
            "| {} | {:.2} | {:.2} | {ratio:.2} |",
            time.name,
            time.best(),
            time.median()
        );
    }
    check_last(&model, &data)?;
    std::fs::remove_file(&data)?;
    std::fs::remove_file(&copy)?;
    std::fs::remove_file(&model)?;
    Ok(())
}

/// Fails unless the last parameter of a model has the last bytes of a file.
fn check_last(model: &Path, data: &Path) -> Outcome<()> {
    let model = Model::open(model)?;
    let array = model.default_tag().parameter(&name(PARAMETERS - 1))?;
    let len = array.data_len();
    let data = File::open(data)?;
    let start = data.metadata()?.len() - len;
    let mut values = array.values()?;
    let (mut found, mut expected) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut at = 0;
    while at < len {
        let step = usize::try_from(len - at)?.min(found.len());
        values.read_exact(&mut found[..step])?;
        data.read_exact_at(start + at, &mut expected[..step])?;
        if found[..step] != expected[..step] {
            return Err(format!("other values from byte {at} on").into());
        }
        at += step as u64;
    }
    Ok(())
}

/// Opening a model of many entries, and reading one parameter of it.
fn many(folder: &Path, count: u64) -> Outcome<()> {
    let path = folder.join("many.zip");
    let content = content(count, |number| {
        let info = ArrayInfo::new(DType::UInt64, [1])?;
        Ok(Array::from_bytes(info, number.to_le_bytes().to_vec())?)
    })?;
    let mut draft = Draft::new();
    draft.add_tag("only".parse()?, content)?;
    draft.write(&path, &WriteOptions::new())?;
    let model = Model::open(&path)?;
    let name = name(count / 2);
    let mut turns = [
        Contestant::new("open", || Ok(black_box(Model::open(&path)?))),
        Contestant::new("read the list of its parameters", || {
            Ok(black_box(model.default_tag().parameters()?.len()))
        }),
    ];
    println!("{count} entries of arrays");
    println!("| work | best ms | median ms |");
    println!("| --- | --- | --- |");
    for time in in_turns(ROUNDS, &mut turns)? {
        println!(
            "| {} | {:.1} | {:.1} |",
            time.name,
            time.best() * 1e3,
            time.median() * 1e3
        );
    }
    let (source, reads) = Watched::new(File::open(&path)?);
    let model = Model::from_source(Arc::new(source), &ModelOptions::new())?;
    let parameters = model.default_tag().parameters()?;
    let file = &parameters.get(&name).ok_or("a parameter is missing")?[0];
    reads.take();
    black_box(parameters.open(file)?.values()?.read_to_vec(1 << 10)?);
    let reads = reads.take().len();
    println!("reads for one parameter: {reads}");
    if reads > 2 {
        return Err("more than two reads for one parameter".into());
    }
    Ok(())
}
