//! A benchmark of reading all tensors of a model whose tensors are separate chunks, compared with
//! the same model in one piece: `cargo bench --bench tensors`.
//!
//! The model is an ONNX model with 12,000 tensors of 4 KiB each, which are read one by one by name,
//! and all at once. If `PROTOSPLIT` names the `protosplit` command, it also exports both models, and
//! if `PYTHON` names a Python with the wheel, so does the command in the wheel.
//! `-- --quick` uses 750 tensors, to check that the benchmark runs.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::process::Command;

use proto_splitter::formats::OpenOptions;
use proto_splitter::onnx::OnnxSplitter;
use proto_splitter::onnx::proto::{GraphProto, ModelProto, TensorProto};
use proto_splitter::progress::Progress;
use proto_splitter::prost::Message;
use proto_splitter::split::{Source, SplitExt, SplitOptions};
use proto_splitter::{Opened, formats};
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::turns::{Contestant, in_turns};

type Outcome<T> = Result<T, Box<dyn Error>>;

const QUICK: u64 = 16;
const ROUNDS: u64 = 7;
const TENSORS: u64 = 12_000;
const TENSOR_BYTES: usize = 4 << 10;
/// Maximum time for reading the chunked model, relative to reading the model in one piece.
const AIM: f64 = 1.5;

fn main() -> Outcome<()> {
    let count = TENSORS / scale(QUICK);
    let folder = scratch_folder()?;
    let at = |name: &str| folder.path().join(name);
    let (piece, chunks) = (at("model.onnx"), at("model.cpb"));
    let model = model(count);
    fs::write(&piece, model.encode_to_vec())?;
    let options = SplitOptions::new()
        .max_chunk_size(8 << 20)
        .value_chunk_size(Some(1 << 10));
    let written = OnnxSplitter.write_with(Source::from(&model), at("model"), &options)?;
    if (written.chunks.len() as u64) < count {
        return Err("not every tensor is a chunk of its own".into());
    }
    println!("| {count} tensors | one piece ms | chunks ms | times (aim {AIM}) |");
    println!("| --- | --- | --- | --- |");
    row("each by its name", &piece, &chunks, &by_name)?;
    row("all at once", &piece, &chunks, &at_once)?;
    let wheel = ["-m", "proto_splitter"].as_slice();
    for (by, variable, arguments) in [
        ("command", "PROTOSPLIT", [].as_slice()),
        ("wheel", "PYTHON", wheel),
    ] {
        let Some(program) = std::env::var_os(variable) else {
            continue;
        };
        let export = |path: &Path| -> Outcome<()> {
            let mut export = Command::new(&program);
            export.args(arguments).arg("export").arg(path);
            export.arg("--force").arg("-q").arg("-o");
            let status = export.arg(at("out.safetensors")).status()?;
            status.success().then_some(()).ok_or("export failed".into())
        };
        row(&format!("exported by the {by}"), &piece, &chunks, &export)?;
    }
    Ok(())
}

fn model(count: u64) -> ModelProto {
    let tensor = |at: u64| {
        // The tensors have different, incompressible bytes.
        let mut state = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let bytes = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        TensorProto {
            dims: vec![i64::try_from(TENSOR_BYTES / 4).unwrap_or(0)],
            data_type: Some(1),
            name: Some(format!("layer.{at}.weight")),
            raw_data: Some(
                bytes
                    .take(TENSOR_BYTES / 8)
                    .flatten()
                    .collect::<Vec<u8>>()
                    .into(),
            ),
            ..Default::default()
        }
    };
    let graph = GraphProto {
        initializer: (0..count).map(tensor).collect(),
        ..Default::default()
    };
    ModelProto {
        graph: Some(graph),
        ..Default::default()
    }
}

fn opened(path: &Path) -> Outcome<Opened> {
    Ok(formats::ALL.open(path, &OpenOptions::new())?)
}

fn by_name(path: &Path) -> Outcome<()> {
    let opened = opened(path)?;
    for info in opened.tensors()? {
        opened.tensor(&info.name)?.write_to(&mut io::sink())?;
    }
    Ok(())
}

fn at_once(path: &Path) -> Outcome<()> {
    let opened = opened(path)?;
    let tensors = opened.tensors()?;
    let mut buffers = vec![vec![0; TENSOR_BYTES]; tensors.len()];
    let buffers_mut = buffers.iter_mut().map(Vec::as_mut_slice);
    let wanted = tensors.iter().zip(buffers_mut).collect();
    opened.read_tensors_into(wanted, &Progress::default())?;
    black_box(buffers);
    Ok(())
}

fn row(
    name: &str,
    piece: &Path,
    chunks: &Path,
    read: &dyn Fn(&Path) -> Outcome<()>,
) -> Outcome<()> {
    let mut turns = [
        Contestant::new("one piece", || read(piece)),
        Contestant::new("chunks", || read(chunks)),
    ];
    let times = in_turns(ROUNDS, &mut turns)?;
    let [piece, chunks] = [times[0].best(), times[1].best()];
    let (piece_ms, chunks_ms) = (piece * 1e3, chunks * 1e3);
    let ratio = chunks / piece;
    println!("| {name} | {piece_ms:.1} | {chunks_ms:.1} | {ratio:.2} |");
    Ok(())
}
