//! Writes an ONNX model in another form: `onnx_convert IN.onnx OUT.onnx auto|onnx|external`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its results"
)]

use std::path::Path;

use proto_splitter_onnx::external::{ExternalOptions, Form};
use proto_splitter_onnx::{OnnxOptions, OnnxSource};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, form] = &arguments[..] else {
        return Err("usage: onnx_convert IN.onnx OUT.onnx auto|onnx|external".into());
    };
    let form = match form.as_str() {
        "auto" => Form::Auto,
        "onnx" => Form::OnePiece,
        "external" => Form::External,
        other => return Err(format!("there is no form {other:?}").into()),
    };
    let model = OnnxSource::open(input, &OnnxOptions::new())?;
    for warning in model.warnings() {
        eprintln!("warning: {warning}");
    }
    let written = model.write(Path::new(output), form, &ExternalOptions::new())?;
    println!(
        "{}: {} bytes, and {} tensors with {} bytes next to it",
        written.path.display(),
        written.model_size,
        written.tensors,
        written.data_size
    );
    Ok(())
}
