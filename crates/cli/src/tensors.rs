//! `protosplit tensors`.

use proto_splitter::tensor::TensorInfo;
use serde::Serialize;

use crate::Exit;
use crate::args::TensorsArgs;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::input::{self, shown};
use crate::output::Output;
use crate::size;
use crate::source;
use crate::table::{Align, Table};

#[derive(Debug, Serialize)]
struct Report {
    file: String,
    format: Option<&'static str>,
    tensors: Vec<Tensor>,
    /// Of all tensors.
    bytes: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Tensor {
    name: String,
    dtype: String,
    shape: Vec<u64>,
    bytes: u64,
    /// A path in the message, or a file or entry and the offset in it.
    location: String,
}

impl Tensor {
    fn of(info: &TensorInfo) -> Tensor {
        Tensor {
            name: info.name.clone(),
            dtype: info.dtype.to_string(),
            shape: info.shape.clone(),
            bytes: info.bytes,
            location: info.location.to_string(),
        }
    }
}

pub(crate) fn run(args: &TensorsArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let input = input::find_with(&args.file, &args.reading.schema.companion)?.looked_at();
    let opened = source::opened(
        &input,
        &args.reading.schema,
        args.reading.limits(),
        output.reading("reading"),
    )?;
    let tensors = opened.tensors();
    let tensors = tensors.map_err(|error| Failure::of(input.path(), &error))?;
    let report = Report {
        file: shown(input.path()),
        format: opened.format().map(|format| format.name()),
        bytes: tensors.iter().map(|tensor| tensor.bytes).sum(),
        tensors: tensors.iter().map(Tensor::of).collect(),
    };
    if report.tensors.is_empty() && opened.archive().is_none() && opened.descriptor().is_none() {
        output.note(format_args!(
            "{}: nothing is known of the message's type: --message TYPE says it",
            report.file
        ));
    }
    output.report(args.json, &report, Report::text)?;
    Ok(Exit::Done)
}

impl Report {
    fn text(&self, width: Option<usize>) -> String {
        let count = size::count(self.tensors.len(), "tensor");
        if self.tensors.is_empty() {
            return format!("{count}\n");
        }
        let mut table = Table::new([
            ("size", Align::Right),
            ("type", Align::Left),
            ("shape", Align::Left),
            ("name", Align::Left),
            ("where", Align::Left),
        ]);
        for tensor in &self.tensors {
            let sizes: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
            let is_path = tensor.location == tensor.name;
            table.row([
                size::show(tensor.bytes),
                tensor.dtype.clone(),
                format!("[{}]", sizes.join(", ")),
                one_line(&tensor.name),
                if is_path {
                    String::new()
                } else {
                    one_line(&tensor.location)
                },
            ]);
        }
        let table = table.render_within(width);
        format!("{table}{count}, {} in all\n", size::show(self.bytes))
    }
}
