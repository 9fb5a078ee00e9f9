//! `protosplit append`: appends tensors to a file of Paddle parameters in the `sized` layout.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use proto_splitter::ops::{AppendOptions, AppendReport, append};
use proto_splitter::tensor::DType;

use crate::Exit;
use crate::args::AppendArgs;
use crate::display_name::shown;
use crate::failure::Failure;
use crate::output::Output;
use crate::place;
use crate::remote::is_url;
use crate::sanitize::one_line;
use crate::size;

pub(crate) fn run(args: &AppendArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    if is_url(&args.file) {
        let message = format!("{}: an object can't be appended to", shown(&args.file));
        return Err(Failure::usage(message));
    }
    let mut data = open(&args.tensor)?;
    let options = options(args)?.progress(output.writing("appending"));
    let report = append(&args.file, shown(&args.tensor), &mut data, &options);
    let report = report.map_err(|error| Failure::from_error(&error))?;
    output.done(args.json, &report, |report, _| text(report))
}

fn options(args: &AppendArgs) -> Result<AppendOptions, Failure> {
    let dtype = args.dtype.as_deref().map(|name| {
        let dtype = DType::named(name);
        dtype.ok_or_else(|| Failure::usage(format!("--dtype {name}: there is no such type")))
    });
    let shape = args.shape.as_deref().map(|sizes| numbers("--shape", sizes));
    let levels = args.lod.iter().map(|level| numbers("--lod", level));
    Ok(AppendOptions::new()
        .dtype(dtype.transpose()?)
        .shape(shape.transpose()?)
        .lod(levels.collect::<Result<_, _>>()?)
        .program(args.program.clone()))
}

fn text(report: &AppendReport) -> String {
    let name = report
        .name
        .as_deref()
        .map(|name| format!(", {}", one_line(name)));
    let sizes: Vec<String> = report.shape.iter().map(u64::to_string).collect();
    format!(
        "{}: tensor {}{} is appended: {}[{}], {}\n",
        one_line(&shown(&report.file)),
        report.counter,
        name.unwrap_or_default(),
        report.dtype,
        sizes.join(", "),
        size::show(report.bytes)
    )
}

/// Opens the file with a tensor, or standard input.
fn open(tensor: &Path) -> Result<Box<dyn Read>, Failure> {
    if place::is_standard(tensor) {
        return Ok(Box::new(io::stdin()));
    }
    let failed = |error| Failure::io(tensor, &error);
    if !place::is_stream(tensor) {
        place::check_file(tensor, &fs::metadata(tensor).map_err(failed)?)?;
    }
    let file = File::open(tensor).map_err(failed)?;
    Ok(Box::new(BufReader::new(file)))
}

/// Parses the value of an option that consists of numbers separated by commas.
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
