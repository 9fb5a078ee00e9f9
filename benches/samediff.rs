//! A benchmark of SameDiff models, one with 3 GiB of parameters and one with 100,000 entries:
//! `cargo bench --bench samediff`.
//!
//! The benchmark needs 10 GiB of disk; `-- --quick` makes the models 16 times smaller, to check
//! that it runs.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::ffi::OsStr;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use proto_splitter::record_file::ReadAt;
use proto_splitter_samediff::{
    Array, ArrayInfo, Draft, Graph, Model, ModelOptions, Nd4jType, Order, SameDiffVariable,
    SameDiffWriteOptions, TagContent, VarType, write_safetensors,
};
use proto_splitter_testkit::memory::watch;
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::sources::Watched;
use proto_splitter_testkit::turns::{Contestant, in_turns};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: u64 = 5;
const QUICK: u64 = 16;
const PARAMETERS: u64 = 12;
const PARAMETER: u64 = 256 << 20;
const ENTRIES: u64 = 100_000;

/// Maximum anonymous memory for writing or reading large parameters, in bytes.
const MOST_MEMORY: u64 = 64 << 20;

/// Maximum time for opening the model with many entries, in seconds.
const MOST_TO_OPEN: f64 = 0.2;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--child") {
        return child(&args[at + 1..]);
    }
    let scale = scale(QUICK);
    let folder = scratch_folder()?;
    large(folder.path(), PARAMETER / scale)?;
    println!();
    many(folder.path(), ENTRIES / scale)
}

/// Runs the operation that the arguments specify. Called in a separate process, to measure its
/// memory.
fn child(args: &[String]) -> Outcome<()> {
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", data, model, len, ..] => write_model(data.as_ref(), model.as_ref(), len.parse()?),
        ["read", model, copy, ..] => read_model(model.as_ref(), copy.as_ref()),
        _ => Err("what is the child to do?".into()),
    }
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
        graph.variables.push(SameDiffVariable::new(
            &*name,
            VarType::Variable,
            dtype,
            shape?,
        ));
        arrays.push((name, array));
    }
    let content = TagContent::new(graph);
    Ok(arrays.into_iter().fold(content, |content, (name, array)| {
        content.parameter(name, array)
    }))
}

/// Returns the content of a tag whose parameters are consecutive parts of `source`, of `len` bytes
/// each. The parameter number `other`, if any, has the values of the next parameter instead.
fn parts_of(source: &Arc<dyn ReadAt>, len: u64, other: Option<u64>) -> Outcome<TagContent> {
    content(PARAMETERS, |number| {
        let info = ArrayInfo::new(Nd4jType::Float, [len / 4])?;
        let part = if other == Some(number) {
            number + 1
        } else {
            number
        };
        let source = Arc::clone(source);
        Ok(Array::from_source(info, source, part * len, len)?)
    })
}

fn write_model(data: &Path, model: &Path, len: u64) -> Outcome<()> {
    let source: Arc<dyn ReadAt> = Arc::new(File::open(data)?);
    let mut draft = Draft::new();
    draft.add_tag("only".parse()?, parts_of(&source, len, None)?)?;
    draft.write(model, &SameDiffWriteOptions::new().force(true))?;
    Ok(())
}

fn read_model(model: &Path, copy: &Path) -> Outcome<()> {
    let opened = Model::open(model)?;
    let options = SameDiffWriteOptions::new().force(true);
    write_safetensors(&opened.default_tag(), copy, &options)?;
    Ok(())
}

/// Compares writing and reading parameters of `len` bytes each with `cp`, `sync` and `mv` for the
/// same number of bytes.
fn large(folder: &Path, len: u64) -> Outcome<()> {
    let data = folder.join("data");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&data)?);
    let mut word = 1_u64;
    for _ in 0..PARAMETERS * len / 8 {
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ 0x5bd1;
        out.write_all(&word.to_le_bytes())?;
    }
    out.flush()?;
    let (model, copy) = (folder.join("model.zip"), folder.join("copy"));
    write_model(&data, &model, len)?;
    // All three operations replace an existing file with a new one, as programs that write models
    // do.
    let fresh = folder.join("fresh");
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
    let mut turns = [
        Contestant::new("cp, sync and mv", cp),
        Contestant::new("write a model", || write_model(&data, &model, len)),
        Contestant::new("read all parameters to a safetensors file", || {
            read_model(&model, &copy)
        }),
    ];
    let times = in_turns(ROUNDS, &mut turns)?;
    let [data_arg, model_arg, copy_arg] = [&data, &model, &copy].map(|path| path.as_os_str());
    let len_arg = len.to_string();
    let memory = [
        memory_of(&["write".as_ref(), data_arg, model_arg, len_arg.as_ref()])?,
        memory_of(&["read".as_ref(), model_arg, copy_arg])?,
    ];
    println!(
        "| {} MiB of parameters | best s | median s | of cp's best | anonymous MiB |",
        (PARAMETERS * len) >> 20
    );
    println!("| --- | --- | --- | --- | --- |");
    let memory = [None].into_iter().chain(memory.map(Some));
    for (time, memory) in times.iter().zip(memory) {
        let ratio = time.best() / times[0].best();
        let (best, median) = (time.best(), time.median());
        let memory = memory.map_or(String::new(), |bytes| {
            format!("{:.1}", bytes as f64 / f64::from(1 << 20))
        });
        println!(
            "| {} | {best:.2} | {median:.2} | {ratio:.2} | {memory} |",
            time.name
        );
    }
    check_last(&model, &data)?;
    std::fs::remove_file(&copy)?;
    println!();
    checkpoint(&data, &model, len)?;
    println!();
    in_another_order(&data, len)?;
    std::fs::remove_file(&data)?;
    std::fs::remove_file(&model)?;
    Ok(())
}

/// Runs an operation in a separate process, and returns its peak anonymous memory in bytes. Fails
/// if this exceeds [`MOST_MEMORY`].
fn memory_of(args: &[&OsStr]) -> Outcome<u64> {
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

/// Measures adding a checkpoint that shares all parameters but one with the previous checkpoint.
/// Fails if a shared parameter is read twice.
fn checkpoint(data: &Path, model: &Path, len: u64) -> Outcome<()> {
    let both = model.with_file_name("both.zip");
    let (all, slack) = (PARAMETERS * len, 1 << 20);
    let start = Instant::now();
    let (base, of_base) = Watched::new(File::open(model)?);
    let (new, of_new) = Watched::new(File::open(data)?);
    let base = Model::from_source(Arc::new(base), &ModelOptions::new())?;
    let new: Arc<dyn ReadAt> = Arc::new(new);
    let mut draft = Draft::open(&base)?;
    draft.add_tag("next".parse()?, parts_of(&new, len, Some(3))?)?;
    let written = draft.write(&both, &SameDiffWriteOptions::new().force(true))?;
    let took = start.elapsed().as_secs_f64();
    if (written.arrays, written.shared) != (PARAMETERS + 1, PARAMETERS - 1) {
        return Err(format!("the wrong arrays are shared: {written:?}").into());
    }
    println!("| a checkpoint that shares all but one parameter | MiB read | of those there are |");
    println!("| --- | --- | --- |");
    for (name, reads, most) in [
        ("of the older one", of_base, all + slack),
        // The array that differs is read up to the first difference, and again when it is written.
        ("of the new one", of_new, all + slack),
    ] {
        let read: u64 = reads
            .take()
            .iter()
            .map(|range| range.end - range.start)
            .sum();
        println!("| {name} | {} | {} |", read >> 20, all >> 20);
        if read > most {
            return Err(format!("{name}, {read} bytes were read, more than {most}").into());
        }
    }
    println!("\nit took {took:.2} s for {} MiB", written.size >> 20);
    Ok(std::fs::remove_file(&both)?)
}

/// Compares the speed of reading a wide array stored in column-major order and in row-major order.
fn in_another_order(data: &Path, len: u64) -> Outcome<()> {
    let source: Arc<dyn ReadAt> = Arc::new(File::open(data)?);
    let array = |order| -> Outcome<Array> {
        let info = ArrayInfo::new(Nd4jType::Float, [1024, len / 4096])?.with_order(order);
        Ok(Array::from_source(info, Arc::clone(&source), 0, len)?)
    };
    let read = |order| {
        let array = array(order)?;
        Ok(std::io::copy(&mut array.values()?, &mut std::io::sink())?)
    };
    let mut turns = [
        Contestant::new("row by row", || read(Order::C)),
        Contestant::new("column by column", || read(Order::F)),
    ];
    println!(
        "| a wide array of {} MiB is read | best s | median s |",
        len >> 20
    );
    println!("| --- | --- | --- |");
    for time in in_turns(ROUNDS, &mut turns)? {
        let (best, median) = (time.best(), time.median());
        println!("| {} | {best:.2} | {median:.2} |", time.name);
    }
    Ok(())
}

/// Fails unless the last parameter of a model has the last bytes of the file `data`.
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

/// Measures opening a model with `count` entries, and counts the reads for one of its parameters.
fn many(folder: &Path, count: u64) -> Outcome<()> {
    let path = folder.join("many.zip");
    let content = content(count, |number| {
        let info = ArrayInfo::new(Nd4jType::UInt64, [1])?;
        Ok(Array::from_bytes(info, number.to_le_bytes().to_vec())?)
    })?;
    let mut draft = Draft::new();
    draft.add_tag("only".parse()?, content)?;
    draft.write(&path, &SameDiffWriteOptions::new())?;
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
    let times = in_turns(ROUNDS, &mut turns)?;
    for time in &times {
        println!(
            "| {} | {:.1} | {:.1} |",
            time.name,
            time.best() * 1e3,
            time.median() * 1e3
        );
    }
    if times[0].best() > MOST_TO_OPEN {
        return Err(format!("opening takes more than {MOST_TO_OPEN} s").into());
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
