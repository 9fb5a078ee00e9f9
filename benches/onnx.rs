//! A benchmark of writing ONNX models of 3 GiB and of 300 MiB, and of listing the 100,000 tensors
//! of a model: `cargo bench --bench onnx`.
//!
//! The models to write have twelve tensors of 256 MiB or 25 MiB, whose bytes aren't zeros. Writing
//! is compared with `cp` and `sync` for the same bytes. If `ONNX_PYTHON` names a Python with the
//! package `onnx`, it is also compared with `onnx.load` and `onnx.save`, which need twice the
//! model's size in memory. The benchmark needs 12 GiB of disk; `-- --quick` makes the models 16
//! times smaller, to check that the benchmark runs.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::cell::Cell;
use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use proto_splitter::onnx::external::{ExternalOptions, Form};
use proto_splitter::onnx::proto::{GraphProto, ModelProto, TensorProto};
use proto_splitter::onnx::{ModelTensors, OnnxOptions, OnnxSource};
use proto_splitter::prost::Message;
use proto_splitter::record_file::ReadAt;
use proto_splitter::wire::{FieldNumber, SourceInput, WireCursor, WireType, put_varint, tag};
use proto_splitter_testkit::memory::watch;
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::turns::{Contestant, in_turns};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A function that returns the command to time. Its argument is the path to which the command
/// writes.
type Make<'a> = dyn Fn(&Path) -> Command + 'a;

const QUICK: u64 = 16;
const ROUNDS: u64 = 5;
const TENSORS: u64 = 12;

/// Size of each tensor in the two models to write, in bytes.
const TENSOR_BYTES: [u64; 2] = [256 << 20, 25 << 20];
const SMALL_TENSORS: u32 = 100_000;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    // The benchmark starts this program again with these arguments, to measure the memory of a
    // conversion in a separate process.
    if let Some(at) = arguments
        .iter()
        .position(|argument| argument == "--convert")
    {
        let [input, output, form] = [1, 2, 3].map(|by| arguments.get(at + by).cloned());
        let (input, output) = (input.ok_or("an input")?, output.ok_or("an output")?);
        return convert(
            input.as_ref(),
            output.as_ref(),
            form.as_deref().unwrap_or_default(),
        );
    }
    listing()?;
    for tensor_bytes in TENSOR_BYTES {
        println!();
        writing(tensor_bytes / scale(QUICK))?;
    }
    Ok(())
}

fn convert(input: &Path, output: &Path, form: &str) -> Outcome<()> {
    let (form, options) = match form {
        "pair" => (Form::External, ExternalOptions::new()),
        // As in the pairs that other programs write, tensors don't begin at page boundaries.
        "dense pair" => (Form::External, ExternalOptions::new().alignment(1)),
        _ => (Form::OnePiece, ExternalOptions::new()),
    };
    let model = OnnxSource::open(input, &OnnxOptions::new())?;
    model.write(output, form, &options)?;
    Ok(())
}

/// Compares listing all tensors in a model with only skipping over the same fields.
fn listing() -> Outcome<()> {
    let tensor = |at: u32| TensorProto {
        dims: vec![3, 3],
        data_type: Some(1),
        name: Some(format!("layer.{at}.weight")),
        raw_data: Some(vec![at.to_le_bytes()[0]; 36].into()),
        ..Default::default()
    };
    let graph = GraphProto {
        initializer: (0..SMALL_TENSORS).map(tensor).collect(),
        ..Default::default()
    };
    let model = ModelProto {
        graph: Some(graph),
        ..Default::default()
    };
    let bytes: Arc<dyn ReadAt> = Arc::new(model.encode_to_vec());
    let size = bytes.size()?;
    let options = OnnxOptions::new();
    let listed = ModelTensors::read(Arc::clone(&bytes), size, &options)?.len();
    // A tensor has four fields, one of which, `dims`, occurs twice.
    let (tensors, fields) = (u64::from(SMALL_TENSORS), hop(&*bytes, size)?);
    if (listed as u64, fields) != (tensors, 5 * tensors) {
        return Err(format!("{listed} tensors are listed, and {fields} fields hopped over").into());
    }
    let mut turns = [
        Contestant::new("a hop over every field of every tensor", || {
            Ok(black_box(hop(&*bytes, size)?))
        }),
        Contestant::new("names, types, shapes and places of all tensors", || {
            let options = OnnxOptions::new();
            Ok(black_box(ModelTensors::read(
                Arc::clone(&bytes),
                size,
                &options,
            )?))
        }),
    ];
    let times = in_turns(9, &mut turns)?;
    println!("| {SMALL_TENSORS} tensors | best ms | median ms | of the hop |");
    println!("| --- | --- | --- | --- |");
    for one in &times {
        println!(
            "| {} | {:.1} | {:.1} | {:.2} |",
            one.name,
            one.best() * 1e3,
            one.median() * 1e3,
            one.best() / times[0].best()
        );
    }
    Ok(())
}

fn hop(bytes: &dyn ReadAt, size: u64) -> Outcome<u64> {
    let mut cursor = WireCursor::new(SourceInput::new(bytes, size));
    let mut fields = 0;
    while let Some(graph) = cursor.next()? {
        let model = graph.end..size;
        cursor.set_range(graph.value.clone());
        while let Some(tensor) = cursor.next()? {
            cursor.set_range(tensor.value.clone());
            while cursor.next()?.is_some() {
                fields += 1;
            }
            cursor.set_range(tensor.end..graph.value.end);
        }
        cursor.set_range(model);
    }
    Ok(fields)
}

/// Compares converting between one file and a pair of files with copying the bytes, and with the
/// package `onnx`.
fn writing(tensor_bytes: u64) -> Outcome<()> {
    let folder = scratch_folder()?;
    let at = |name: &str| folder.path().join(name);
    make_model(&at("one.onnx"), tensor_bytes)?;
    let this = std::env::current_exe()?;
    let ours = |input: &Path, output: &Path, form: &str| {
        let mut command = Command::new(&this);
        command.arg("--convert").args([input, output]).arg(form);
        command
    };
    run(&mut ours(&at("one.onnx"), &at("pair.onnx"), "pair"))?;
    run(&mut ours(&at("one.onnx"), &at("dense.onnx"), "dense pair"))?;
    for pair in ["pair.onnx", "dense.onnx"] {
        run(&mut ours(&at(pair), &at("back.onnx"), "one"))?;
        same_bytes(&at("one.onnx"), &at("back.onnx"))?;
        fs::remove_file(at("back.onnx"))?;
    }

    let copy = |out: &Path| {
        let mut command = Command::new("sh");
        command.args(["-c", "cp \"$1\" \"$2\" && sync \"$2\"", "sh"]);
        command.args([&at("one.onnx"), out]);
        command
    };
    // The baseline for reading a pair: a copy of the same files, which are just as likely to be in
    // the page cache.
    let copy_of = |name: &str, out: &Path| {
        let data = format!("{name}.data");
        let mut command = Command::new("sh");
        let script = "cp \"$1\" \"$3\" && cp \"$2\" \"$3.data\" && sync \"$3\" \"$3.data\"";
        command.args(["-c", script, "sh"]);
        command.args([&at(name), &at(&data), out]);
        command
    };
    let copy_pair = |out: &Path| copy_of("pair.onnx", out);
    let copy_dense = |out: &Path| copy_of("dense.onnx", out);
    let to_pair = |out: &Path| ours(&at("one.onnx"), out, "pair");
    let to_one = |out: &Path| ours(&at("pair.onnx"), out, "one");
    let dense_to_one = |out: &Path| ours(&at("dense.onnx"), out, "one");
    let python = std::env::var_os("ONNX_PYTHON");
    let onnx = |out: &Path| {
        let mut command = Command::new(python.as_deref().unwrap_or_default());
        command.args(["-c", LOAD_AND_SAVE]);
        command.args([&at("pair.onnx"), out]);
        command
    };
    // Each operation, with the index of its baseline.
    let mut work: Vec<(&str, &Make<'_>, usize)> = vec![
        ("cp of the one file, and sync", &copy, 0),
        ("one file to a pair", &to_pair, 0),
        ("cp of the pair, and sync", &copy_pair, 2),
        ("a pair to one file", &to_one, 2),
        ("cp of a dense pair, and sync", &copy_dense, 4),
        ("a dense pair to one file", &dense_to_one, 4),
    ];
    if python.is_some() {
        work.push(("onnx.load and onnx.save of the pair", &onnx, 2));
    }
    let peaks: Vec<Cell<u64>> = work.iter().map(|_| Cell::new(0)).collect();
    let target = folder.path().join("out");
    let mut turns: Vec<Contestant<'_>> = Vec::new();
    for ((name, command, _), peak) in work.iter().zip(&peaks) {
        let target = target.clone();
        turns.push(Contestant::timed([*name], move || {
            fs::create_dir(&target)?;
            let start = Instant::now();
            let (status, found) = watch(&mut command(&target.join("out.onnx")))?;
            let took = start.elapsed();
            fs::remove_dir_all(&target)?;
            if !status.success() {
                return Err(format!("{name}: {status}").into());
            }
            peak.set(peak.get().max(found.anonymous));
            Ok(vec![took])
        }));
    }
    let times = in_turns(ROUNDS, &mut turns)?;
    println!(
        "| {} MiB | best s | median s | of its cp and sync | by medians | peak anonymous MiB |",
        (TENSORS * tensor_bytes) >> 20
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for ((one, peak), (_, _, reference)) in times.iter().zip(&peaks).zip(&work) {
        let reference = &times[*reference];
        println!(
            "| {} | {:.2} | {:.2} | {:.2} | {:.2} | {} |",
            one.name,
            one.best(),
            one.median(),
            one.best() / reference.best(),
            one.median() / reference.median(),
            peak.get() >> 20
        );
    }
    Ok(())
}

/// Python script that loads and saves a model with external data, using the package `onnx`.
const LOAD_AND_SAVE: &str = "import sys, onnx
m = onnx.load(sys.argv[1])
onnx.save(m, sys.argv[2], save_as_external_data=True, location='w.data')";

fn same_bytes(a: &Path, b: &Path) -> Outcome<()> {
    let status = Command::new("cmp").args([a, b]).status()?;
    if status.success() {
        Ok(())
    } else {
        Err("the model isn't the same after it was a pair".into())
    }
}

fn run(command: &mut Command) -> Outcome<()> {
    let status = command.stdout(Stdio::null()).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {status}").into())
    }
}

/// Writes a single-file model whose tensors all have different bytes.
fn make_model(path: &PathBuf, tensor_bytes: u64) -> Outcome<()> {
    let mut heads = Vec::new();
    for at in 0..TENSORS {
        let tensor = TensorProto {
            dims: vec![i64::try_from(tensor_bytes)?],
            data_type: Some(2),
            name: Some(format!("t{at}")),
            ..Default::default()
        };
        let mut head = tensor.encode_to_vec();
        put_varint(&mut head, tag(FieldNumber(9), WireType::Len));
        put_varint(&mut head, tensor_bytes);
        let mut front = Vec::new();
        put_varint(&mut front, tag(FieldNumber(5), WireType::Len));
        put_varint(&mut front, head.len() as u64 + tensor_bytes);
        front.extend(head);
        heads.push(front);
    }
    let graph: u64 = heads
        .iter()
        .map(|head| head.len() as u64 + tensor_bytes)
        .sum();
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut front = ModelProto {
        ir_version: Some(9),
        ..Default::default()
    }
    .encode_to_vec();
    put_varint(&mut front, tag(FieldNumber(7), WireType::Len));
    put_varint(&mut front, graph);
    out.write_all(&front)?;
    let mut state = 1u64;
    let mut block = vec![0; 1 << 20];
    for head in heads {
        out.write_all(&head)?;
        let mut left = tensor_bytes;
        while left > 0 {
            for word in block.chunks_exact_mut(8) {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                word.copy_from_slice(&state.to_be_bytes());
            }
            let len = left.min(block.len() as u64);
            out.write_all(&block[..usize::try_from(len)?])?;
            left -= len;
        }
    }
    out.flush()?;
    Ok(())
}
