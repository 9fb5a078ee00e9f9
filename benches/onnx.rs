//! Writing ONNX models of 3 GiB, and listing the tensors of one with 100,000: `cargo bench --bench
//! onnx`.
//!
//! The model has twelve tensors of 256 MiB that are not zeros. The peers are `cp` and `sync` of the
//! same bytes, and, if `ONNX_PYTHON` names a Python that has the package `onnx`, `onnx.load` with
//! `onnx.save`, which takes the memory of the whole model twice. It needs 9 GiB of disk; `--
//! --quick` makes it 16 times smaller, to see that it runs.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// The command that does the work, to this output.
type Make<'a> = dyn Fn(&Path) -> Command + 'a;

const QUICK: u64 = 16;
const ROUNDS: u64 = 3;
const TENSORS: u64 = 12;
const TENSOR_BYTES: u64 = 256 << 20;
const SMALL_TENSORS: u32 = 100_000;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    // This program again, to have its memory watched.
    if let Some(at) = arguments
        .iter()
        .position(|argument| argument == "--convert")
    {
        let [input, output, form] = [1, 2, 3].map(|by| arguments.get(at + by).cloned());
        let (input, output) = (input.ok_or("an input")?, output.ok_or("an output")?);
        return convert(
            input.as_ref(),
            output.as_ref(),
            form.as_deref() == Some("pair"),
        );
    }
    listing()?;
    println!();
    writing(scale(QUICK))
}

fn convert(input: &Path, output: &Path, to_pair: bool) -> Outcome<()> {
    let form = match to_pair {
        true => Form::External,
        false => Form::OnePiece,
    };
    let model = OnnxSource::open(input, &OnnxOptions::new())?;
    model.write(output, form, &ExternalOptions::new())?;
    Ok(())
}

/// All tensors of a model, beside the hops that it takes at the least.
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

/// To one file and to a pair, beside copying the bytes, and beside onnx.
fn writing(scale: u64) -> Outcome<()> {
    let folder = scratch_folder()?;
    let at = |name: &str| folder.path().join(name);
    make_model(&at("one.onnx"), TENSOR_BYTES / scale)?;
    let this = std::env::current_exe()?;
    let ours = |input: &Path, output: &Path, form: &str| {
        let mut command = Command::new(&this);
        command.arg("--convert").args([input, output]).arg(form);
        command
    };
    run(&mut ours(&at("one.onnx"), &at("pair.onnx"), "pair"))?;
    let mut peaks: Vec<(String, u64)> = Vec::new();
    let mut rows: Vec<(String, Vec<Duration>)> = Vec::new();
    let script = "import sys, onnx\n\
                  m = onnx.load(sys.argv[1])\n\
                  onnx.save(m, sys.argv[2], save_as_external_data=True, location='w.data')";
    let python = std::env::var_os("ONNX_PYTHON");
    let mut work: Vec<(String, Box<Make<'_>>)> = vec![
        (
            "cp of the one file, and sync".into(),
            Box::new(|out| {
                let mut command = Command::new("sh");
                let script = "cp \"$1\" \"$2\" && sync \"$2\"";
                command
                    .args(["-c", script, "sh"])
                    .args([&at("one.onnx"), out]);
                command
            }),
        ),
        (
            "one file to a pair".into(),
            Box::new(|out| ours(&at("one.onnx"), out, "pair")),
        ),
        (
            "a pair to one file".into(),
            Box::new(|out| ours(&at("pair.onnx"), out, "one")),
        ),
    ];
    if let Some(python) = python {
        let input = at("pair.onnx");
        work.push((
            "onnx.load and onnx.save of the pair".into(),
            Box::new(move |out| {
                let mut command = Command::new(&python);
                command.args(["-c", script]).args([&input, out]);
                command
            }),
        ));
    }
    for round in 0..=ROUNDS {
        for (name, command) in &work {
            let target = folder.path().join("out");
            fs::create_dir(&target)?;
            let start = Instant::now();
            let (status, peak) = watch(&mut command(&target.join("out.onnx")))?;
            let took = start.elapsed();
            fs::remove_dir_all(&target)?;
            if !status.success() {
                return Err(format!("{name}: {status}").into());
            }
            match rows.iter_mut().find(|(known, _)| known == name) {
                // The first is to fill the page cache.
                None if round == 0 => rows.push((name.clone(), Vec::new())),
                None => {}
                Some((_, times)) => times.push(took),
            }
            match peaks.iter_mut().find(|(known, _)| known == name) {
                None => peaks.push((name.clone(), peak.anonymous)),
                Some((_, most)) => *most = peak.anonymous.max(*most),
            }
        }
    }
    let best = |times: &[Duration]| {
        times
            .iter()
            .min()
            .copied()
            .unwrap_or_default()
            .as_secs_f64()
    };
    let copy = rows.first().map_or(0.0, |(_, times)| best(times));
    println!(
        "| {} MiB | best s | of cp and sync | peak anonymous MiB |",
        (TENSORS * TENSOR_BYTES / scale) >> 20
    );
    println!("| --- | --- | --- | --- |");
    for ((name, times), (_, peak)) in rows.iter().zip(&peaks) {
        let best = best(times);
        println!(
            "| {name} | {best:.2} | {:.2} | {} |",
            best / copy,
            peak >> 20
        );
    }
    Ok(())
}

fn run(command: &mut Command) -> Outcome<()> {
    let status = command.stdout(Stdio::null()).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {status}").into()),
    }
}

/// A model in one file, of tensors that are all different.
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
