//! `protosplit export`.

mod npz;
mod safetensors;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

use proto_splitter::atomic::{AtomicFile, MadeFrom};
use proto_splitter::progress::Meter;
use proto_splitter::tensor::TensorInfo;
use proto_splitter::{Error, ErrorKind, Opened};
use serde::Serialize;

use crate::Exit;
use crate::args::{ExportArgs, ExportFormat};
use crate::failure::Failure;
use crate::input::{Opening, check_named, shown};
use crate::output::Output;
use crate::size;

#[derive(Debug, Serialize)]
struct Report {
    output: String,
    tensors: usize,
    output_bytes: u64,
    /// The tensors that the format has no type for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

pub(crate) fn run(args: &ExportArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    check_named(&args.output)?;
    let format = match args.format {
        Some(format) => format,
        None => of_name(&args.output)?,
    };
    let input = Opening::of(&args.reading, output.objects()).open(&args.file)?;
    let failed = |error: Error| Failure::of(input.path(), &error);
    input.check_apart(&args.output, None)?;
    let tensors = input.tensors().map_err(failed)?;
    let (tensors, left_out): (Vec<_>, Vec<_>) = tensors
        .into_iter()
        .partition(|tensor| has_type(format, tensor));
    if tensors.is_empty() {
        let name = shown(input.path());
        return Err(Failure::bad(format!(
            "{name}: there are no tensors to export; `protosplit tensors` lists what is known"
        )));
    }
    check_names(&tensors).map_err(failed)?;
    let total = tensors.iter().map(|tensor| tensor.bytes).sum();
    let meter = output.writing("exporting").meter(total);
    let output_bytes = write(&input, &tensors, format, args, &meter).map_err(failed)?;
    for tensor in &left_out {
        output.note(format_args!(
            "left out {tensor}: the format has no type for it"
        ));
    }
    for tensor in &tensors {
        if let (ExportFormat::Npz, Cow::Owned(safe)) = (format, npz::safe_name(&tensor.name)) {
            output.note(format_args!(
                "tensor {:?} is called {safe:?}: its name would lead out of the archive",
                tensor.name
            ));
        }
    }
    let report = Report {
        output: shown(&args.output),
        tensors: tensors.len(),
        output_bytes,
        left_out: left_out.into_iter().map(|tensor| tensor.name).collect(),
    };
    output.done(args.json, &report, |report, _| report.text())?;
    Ok(Exit::Done)
}

/// Fails if two tensors have one name: the formats find tensors by their names.
fn check_names(tensors: &[TensorInfo]) -> Result<(), Error> {
    let mut names = HashSet::new();
    match tensors.iter().find(|tensor| !names.insert(&tensor.name)) {
        None => Ok(()),
        Some(tensor) => {
            let message = format!("two tensors are called {:?}", tensor.name);
            Err(Error::new(ErrorKind::InvalidMessage, message))
        }
    }
}

fn of_name(output: &Path) -> Result<ExportFormat, Failure> {
    match output.extension().and_then(|extension| extension.to_str()) {
        Some("safetensors") => Ok(ExportFormat::Safetensors),
        Some("npz") => Ok(ExportFormat::Npz),
        _ => Err(Failure::usage(format!(
            "{}: the name says no format: --format safetensors or npz",
            shown(output)
        ))),
    }
}

fn has_type(format: ExportFormat, tensor: &TensorInfo) -> bool {
    match format {
        ExportFormat::Safetensors => safetensors::has_type(tensor),
        ExportFormat::Npz => tensor.dtype.npy().is_some(),
    }
}

fn write(
    opened: &Opened,
    tensors: &[TensorInfo],
    format: ExportFormat,
    args: &ExportArgs,
    meter: &Meter,
) -> Result<u64, Error> {
    let made_from = MadeFrom::files(opened.files());
    let file = AtomicFile::create(&args.output, &made_from, args.force)?;
    file.check_space(tensors.iter().map(|tensor| tensor.bytes).sum())?;
    file.write(|mut sink| {
        match format {
            ExportFormat::Safetensors => safetensors::write(opened, tensors, &mut sink, meter),
            ExportFormat::Npz => npz::write(opened, tensors, &mut sink, meter),
        }?;
        meter.check()?;
        Ok(sink.stream_position()?)
    })
}

/// Counts what is written through it as done.
struct Metered<'a> {
    sink: &'a mut dyn Write,
    meter: &'a Meter,
}

impl Write for Metered<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        self.meter.advance(written as u64)?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl Report {
    fn text(&self) -> String {
        let tensors = size::count(self.tensors, "tensor");
        let bytes = size::show(self.output_bytes);
        format!("{}: {tensors}, {bytes}\n", self.output)
    }
}
