//! `protosplit tensors`.

use proto_splitter::Error;
use proto_splitter::tensor::TensorInfo;
use serde::Serialize;

use crate::Exit;
use crate::args::TensorsArgs;
use crate::failure::Failure;
use crate::input::{Opening, shown};
use crate::output::Output;
use crate::size;
use crate::table::{Align, BLOCK, Columns, cell};

/// The report besides the list of tensors.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    format: Option<&'static str>,
    /// Size of all tensors.
    bytes: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Tensor {
    name: String,
    dtype: String,
    shape: Vec<u64>,
    bytes: u64,
    /// A path in the message, or a file or entry and the offset within it.
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

const COLUMNS: [(&str, Align); 5] = [
    ("size", Align::Right),
    ("type", Align::Left),
    ("shape", Align::Left),
    ("name", Align::Left),
    ("where", Align::Left),
];

fn row(tensor: &Tensor) -> [String; 5] {
    let sizes: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
    let is_path = tensor.location == tensor.name;
    let location = if is_path { "" } else { &tensor.location };
    [
        size::show(tensor.bytes),
        tensor.dtype.clone(),
        format!("[{}]", sizes.join(", ")),
        cell(&tensor.name),
        cell(location),
    ]
}

pub(crate) fn run(args: &TensorsArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let input = Opening::of(&args.reading, output.objects())
        .looked_at(true)
        .progress(output.reading("reading"))
        .open(&args.file)?;
    let failed = |error: &Error| Failure::of(input.path(), error);
    let tensors = || -> Result<_, Failure> {
        let tensors = input.tensor_iter().map_err(|error| failed(&error))?;
        Ok(tensors.map(|tensor| match tensor {
            Ok(tensor) => Ok(Tensor::of(&tensor)),
            Err(error) => Err(failed(&error)),
        }))
    };
    // The list is visited twice, in blocks, as a model may have millions of tensors.
    let (mut columns, mut block) = (Columns::new(COLUMNS), Vec::new());
    let (mut count, mut bytes) = (0, 0_u64);
    for tensor in tensors()? {
        let tensor = tensor?;
        (count, bytes) = (count + 1, bytes.saturating_add(tensor.bytes));
        if !args.json {
            block.push(row(&tensor));
        }
        if block.len() >= BLOCK {
            columns.widen(&block);
            block.clear();
        }
    }
    columns.widen(&block);
    block.clear();
    let report = Report {
        file: shown(input.path()),
        format: input.format().map(|format| format.name()),
        bytes,
    };
    if count == 0 && input.archive().is_none() && input.descriptor().is_none() {
        output.note(format_args!(
            "{}: the message's type is unknown: name it with --message TYPE",
            report.file
        ));
    }
    if args.json {
        output.json_with_list(&report, "tensors", |print| {
            tensors()?.try_for_each(|tensor| print(tensor?))
        })?;
        return Ok(Exit::Done);
    }
    let summary = size::count(count, "tensor");
    if count == 0 {
        output.text(&format!("{summary}\n"))?;
        return Ok(Exit::Done);
    }
    output.text(&columns.fit(output.width()))?;
    for tensor in tensors()? {
        block.push(row(&tensor?));
        if block.len() >= BLOCK {
            output.text(&columns.lines(&mut block))?;
            block.clear();
        }
    }
    output.text(&columns.lines(&mut block))?;
    output.text(&format!("{summary}, {} in all\n", size::show(bytes)))?;
    Ok(Exit::Done)
}
