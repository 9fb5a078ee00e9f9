//! Converts a single-file ONNX model over 2 GiB, which no reader accepts, to a pair of files that
//! onnxruntime reads: a small model and its external data. Then compares both as one message.
//!
//!     cargo run --release --example onnx_external_data
//!     cargo run --release --example onnx_external_data -- path/to/model.onnx
//!
//! Without a path, the example creates a model of 2.5 GiB. It needs about twice the model's size in
//! a folder under `target/`, which it removes at the end.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use proto_splitter::onnx::external::{ExternalOptions, Form};
use proto_splitter::onnx::proto::{GraphProto, ModelProto, NodeProto, TensorProto};
use proto_splitter::onnx::{OnnxOptions, OnnxSource};
use proto_splitter::prost::Message;
use proto_splitter::spans::{Spans, SpansBuilder};
use proto_splitter::wire::FieldNumber;
use proto_splitter_testkit::scratch::scratch_folder;

/// Number of tensors in the created model. The next constant is the size of each tensor in bytes.
const TENSORS: u64 = 10;
const TENSOR_BYTES: u64 = 256 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = scratch_folder()?;
    let one_piece = match std::env::args().nth(1) {
        Some(path) => PathBuf::from(path),
        None => timed("make", || make_model(folder.path()))?,
    };
    println!("model      {}", size(fs::metadata(&one_piece)?.len()));

    let model = OnnxSource::open(&one_piece, &OnnxOptions::new())?;
    println!("tensors    {}", model.tensors()?.len());

    let pair = folder.path().join("rescued.onnx");
    let options = ExternalOptions::new();
    let written = timed("to a pair", || {
        Ok(model.write(&pair, Form::External, &options)?)
    })?;
    println!(
        "           {} and {} beside it, for {} tensors",
        size(written.model_size),
        size(written.data_size),
        written.tensors
    );

    // Reads the pair as one message, without copying anything.
    let back = OnnxSource::open(&pair, &OnnxOptions::new())?;
    println!("           {} as one message", size(back.size()));
    let same = timed("compare", || are_equal(&one_piece, &back))?;
    println!("           the same bytes: {same}");
    if same {
        Ok(())
    } else {
        // This is expected for a model whose tensors had typed elements, which are raw data now.
        Err("the model has changed".into())
    }
}

/// Writes a model that adds constants, piece by piece, and returns its path.
fn make_model(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let zeros = folder.join("zeros");
    File::create(&zeros)?.set_len(TENSOR_BYTES)?;
    let spans = model(&zeros)?;
    let path = folder.join("model.onnx");
    let mut file = File::create(&path)?;
    let mut reader = BufReader::with_capacity(1 << 20, Sequential(&spans, 0));
    io::copy(&mut reader, &mut file)?;
    file.flush()?;
    Ok(path)
}

/// Returns the model as a message made of spans. The data of each tensor is its first element,
/// followed by a span of the file `zeros`.
fn model(zeros: &Path) -> Result<Spans, Box<dyn Error>> {
    let mut spans = SpansBuilder::new();
    let zeros = spans.open(zeros)?;
    let front = ModelProto {
        ir_version: Some(9),
        producer_name: Some("onnx_external_data".into()),
        ..Default::default()
    };
    spans.literal(&front.encode_to_vec())?;
    spans.begin_field(FieldNumber(7))?;
    let sum = NodeProto {
        input: (0..TENSORS).map(|at| format!("t{at}")).collect(),
        output: vec!["sum".into()],
        op_type: Some("Sum".into()),
        ..Default::default()
    };
    let graph = GraphProto {
        node: vec![sum],
        name: Some("g".into()),
        ..Default::default()
    };
    spans.literal(&graph.encode_to_vec())?;
    for at in 0..TENSORS {
        spans.begin_field(FieldNumber(5))?;
        let tensor = TensorProto {
            dims: vec![i64::try_from(TENSOR_BYTES / 4)?],
            data_type: Some(1),
            name: Some(format!("t{at}")),
            ..Default::default()
        };
        spans.literal(&tensor.encode_to_vec())?;
        spans.begin_field(FieldNumber(9))?;
        spans.literal(&u32::try_from(at)?.to_le_bytes())?;
        spans.span(zeros, 4..TENSOR_BYTES)?;
        spans.end_field()?;
        spans.end_field()?;
    }
    spans.end_field()?;
    Ok(spans.finish()?)
}

/// A sequential reader for a random-access source.
struct Sequential<'a>(&'a dyn proto_splitter::record_file::ReadAt, u64);

impl Read for Sequential<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(self.1, buf)?;
        self.1 += read as u64;
        Ok(read)
    }
}

fn are_equal(file: &Path, model: &OnnxSource) -> Result<bool, Box<dyn Error>> {
    if fs::metadata(file)?.len() != model.size() {
        return Ok(false);
    }
    let mut file = File::open(file)?;
    let mut other = Sequential(&**model.reader(), 0);
    let (mut a, mut b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let read = file.read(&mut a)?;
        if read == 0 {
            return Ok(true);
        }
        other.read_exact(&mut b[..read])?;
        if a[..read] != b[..read] {
            return Ok(false);
        }
    }
}

fn timed<T>(
    what: &str,
    work: impl FnOnce() -> Result<T, Box<dyn Error>>,
) -> Result<T, Box<dyn Error>> {
    let start = Instant::now();
    let done = work()?;
    println!("{what:<10} {:.1} s", start.elapsed().as_secs_f64());
    Ok(done)
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{bytes} B"),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}
