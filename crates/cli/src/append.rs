//! `protosplit append`: tensors of Paddle's sized layout.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use proto_splitter::ops::read_npy_header;
use proto_splitter::paddle::stream::TensorSpec;
use proto_splitter::paddle::{Appended, PaddleOpenOptions, append_to_model, type_of};
use proto_splitter::tensor::{ByteOrder, DType, TensorInfo};
use proto_splitter::{Error, ErrorKind};
use serde::Serialize;

use crate::Exit;
use crate::args::AppendArgs;
use crate::failure::Failure;
use crate::input::{self, shown};
use crate::output::Output;
use crate::remote::is_url;
use crate::sanitize::one_line;
use crate::size;

#[derive(Debug, Serialize)]
struct Report {
    /// The file that the tensor was appended to.
    file: String,
    /// Counter of the tensor in the file.
    counter: u64,
    /// Name of the tensor in the program.
    name: Option<String>,
    dtype: String,
    shape: Vec<u64>,
    bytes: u64,
}

pub(crate) fn run(args: &AppendArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    if is_url(&args.file) {
        let message = format!("{}: an object can't be appended to", shown(&args.file));
        return Err(Failure::usage(message));
    }
    let mut data = open(&args.tensor)?;
    let info = described(args, &mut data)?;
    let Some(dtype) = type_of(info.dtype) else {
        let message = format!("Paddle has no elements of the type {}", info.dtype);
        return Err(Failure::usage(message));
    };
    let levels = args.lod.iter().map(|level| numbers("--lod", level));
    let levels = levels.collect::<Result<Vec<_>, _>>()?;
    let spec = TensorSpec::dense(dtype, info.shape.clone()).lod(levels);
    let mut options = PaddleOpenOptions::new();
    if let Some(program) = &args.program {
        options = options.program(program);
        if args.file.is_file() {
            options = options.parameters(&args.file);
        }
    }
    let meter = output.writing("appending").meter(info.bytes);
    let appended = append_to_model(&args.file, &options, &spec, &mut meter.read(data));
    let appended = appended.map_err(|error| Failure::of(&args.file, &error))?;
    let report = Report::of(&appended, &info);
    output.done(args.json, &report, |report, _| text(report))?;
    Ok(Exit::Done)
}

impl Report {
    fn of(appended: &Appended, info: &TensorInfo) -> Report {
        Report {
            file: shown(&appended.file),
            counter: appended.counter,
            name: appended.name.clone(),
            dtype: info.dtype.to_string(),
            shape: info.shape.clone(),
            bytes: appended.bytes,
        }
    }
}

fn text(report: &Report) -> String {
    let name = report
        .name
        .as_deref()
        .map(|name| format!(", {}", one_line(name)));
    let sizes: Vec<String> = report.shape.iter().map(u64::to_string).collect();
    format!(
        "{}: tensor {}{} is appended: {}[{}], {}\n",
        one_line(&report.file),
        report.counter,
        name.unwrap_or_default(),
        report.dtype,
        sizes.join(", "),
        size::show(report.bytes)
    )
}

/// Opens a file, or standard input.
fn open(tensor: &Path) -> Result<Box<dyn Read>, Failure> {
    if input::is_standard(tensor) {
        return Ok(Box::new(io::stdin()));
    }
    let failed = |error| Failure::io(tensor, &error);
    if !input::is_stream(tensor) {
        input::check_file(tensor, &fs::metadata(tensor).map_err(failed)?)?;
    }
    let file = File::open(tensor).map_err(failed)?;
    Ok(Box::new(BufReader::new(file)))
}

/// Returns the header of the tensor, after which `data` is at the first element.
fn described(args: &AppendArgs, data: &mut dyn Read) -> Result<TensorInfo, Failure> {
    let failed = |error: Error| Failure::of(&args.tensor, &error);
    let invalid = |message: String| failed(Error::new(ErrorKind::InvalidConfig, message));
    let named = args.dtype.as_deref().map(|name| {
        let dtype = DType::named(name);
        dtype.ok_or_else(|| Failure::usage(format!("--dtype {name}: there is no such type")))
    });
    let named = named.transpose()?;
    if let (Some(shape), Some(dtype)) = (&args.shape, named) {
        return Ok(TensorInfo::new("", dtype, numbers("--shape", shape)?));
    }
    let info = read_npy_header(data).map_err(failed)?;
    let info = match named {
        Some(dtype) => {
            let typed = TensorInfo::new("", dtype, info.shape.clone()).ordered(info.byte_order);
            if typed.bytes != info.bytes
                || !matches!(info.dtype, DType::Other(_)) && info.dtype != dtype
            {
                return Err(invalid(format!(
                    "{}: its elements have the type {}, not {dtype}",
                    shown(&args.tensor),
                    info.dtype
                )));
            }
            typed
        }
        None if matches!(info.dtype, DType::Other(_)) => {
            return Err(invalid(format!(
                "{}: its elements have a type that NumPy lacks: --dtype TYPE is needed",
                shown(&args.tensor)
            )));
        }
        None => info,
    };
    if info.byte_order == ByteOrder::Big && info.dtype.width() != Some(1) {
        return Err(invalid(format!(
            "{}: its elements are big-endian, where Paddle's are little-endian",
            shown(&args.tensor)
        )));
    }
    Ok(info)
}

/// Parses numbers between commas.
fn numbers(option: &str, text: &str) -> Result<Vec<u64>, Failure> {
    let parse = |number: &str| {
        let parsed = number.trim().parse();
        parsed.map_err(|_| Failure::usage(format!("{option} {text}: {number:?} isn't a number")))
    };
    match text.trim() {
        "" => Ok(Vec::new()),
        text => text.split(',').map(parse).collect(),
    }
}
