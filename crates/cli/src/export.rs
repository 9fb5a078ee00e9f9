//! The `protosplit export` command.

use proto_splitter::ops::{self, ExportOptions, ExportReport};

use crate::Exit;
use crate::args::{ExportArgs, ExportFormat};
use crate::display_name::shown;
use crate::failure::Failure;
use crate::opening::Opening;
use crate::output::Output;
use crate::place::check_named;
use crate::size;

pub(crate) fn run(args: &ExportArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    check_named(&args.output)?;
    let format = match args.format {
        Some(ExportFormat::Safetensors) => ops::ExportFormat::Safetensors,
        Some(ExportFormat::Npz) => ops::ExportFormat::Npz,
        None => ops::ExportFormat::of_name(&args.output).map_err(|_| {
            let name = shown(&args.output);
            let message = "the name implies no format: use --format safetensors or npz";
            Failure::usage(format!("{name}: {message}"))
        })?,
    };
    let input = Opening::of(&args.reading, output.objects()).open(&args.file)?;
    let options = ExportOptions::new()
        .format(format)
        .force(args.force)
        .progress(output.writing("exporting"));
    let report = ops::export(&input, &args.output, &options);
    let report = report.map_err(|error| Failure::of(input.path(), &error))?;
    for tensor in &report.left_out {
        output.note(format_args!(
            "left out {tensor}: the format has no type for it"
        ));
    }
    for (name, safe) in &report.renamed {
        output.note(format_args!(
            "tensor {name:?} is stored as {safe:?}: its name would lead out of the archive"
        ));
    }
    output.done(args.json, &report, |report, _| text(report))
}

fn text(report: &ExportReport) -> String {
    let tensors = size::count(report.tensors, "tensor");
    let (output, bytes) = (shown(&report.output), size::show(report.output_bytes));
    format!("{output}: {tensors}, {bytes}\n")
}
