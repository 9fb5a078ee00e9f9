//! The commands `protosplit externalize` and `protosplit internalize`.

use proto_splitter::externalize::ExternalizeOptions;
use proto_splitter::ops::{Constant, ExternalizeReport, ExternalizeTo, externalize, internalize};

use crate::Exit;
use crate::args::{ExternalizeArgs, InternalizeArgs};
use crate::display_name::shown;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::check_named;
use crate::sanitize::one_line;
use crate::size;

pub(crate) fn run_externalize(
    args: &ExternalizeArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    if let Some(folder) = &args.output {
        check_named(folder)?;
    }
    let options = ExternalizeOptions::new()
        .min_size(args.min_size)
        .force(args.force)
        .mapped(args.mmap)
        .threads(args.threads.threads)
        .progress(output.writing("externalizing"));
    let to = match &args.output {
        _ if args.dry_run => ExternalizeTo::Nowhere,
        Some(folder) => ExternalizeTo::Folder(folder),
        None if args.in_place => ExternalizeTo::InPlace,
        None => ExternalizeTo::Nowhere,
    };
    let report = externalize(&args.input, to, &options);
    let report = report.map_err(|error| Failure::of(&args.input, &error))?;
    output.done(args.json, &report, |report, _| text(report))?;
    let is_mapped = report.mapped && report.output.is_some();
    if is_mapped && !report.moved.is_empty() {
        output.note("warning: the model maps its constants from absolute paths: it can't be moved or copied elsewhere");
    }
    Ok(Exit::Done)
}

fn constant_text(constant: &Constant) -> String {
    let name = match &constant.function {
        Some(function) => format!("{function}/{}", constant.node),
        None => constant.node.clone(),
    };
    let (name, bytes) = (one_line(&name), size::show(constant.bytes));
    format!(
        "{bytes:>10}  {name}  {}{:?}",
        constant.dtype, constant.shape
    )
}

fn text(report: &ExternalizeReport) -> String {
    let mut text = String::new();
    for constant in &report.moved {
        text += &format!("{}\n", constant_text(constant));
    }
    for left in &report.left_in {
        text += &format!("{}  left in: {}\n", constant_text(&left.constant), left.why);
    }
    for file in &report.stale {
        let file = shown(file);
        text += &format!("{file}: left out, as it belongs to a model that was here before\n");
    }
    let was = size::show(report.message_bytes);
    let constants = size::count(report.moved.len(), "constant");
    let stored = size::show(report.stored_bytes);
    let output = report.output.as_ref().map(|output| shown(output));
    text += &match (output, report.model_bytes) {
        (Some(output), Some(model)) if report.already => {
            let model = size::show(model);
            format!(
                "{output}: already externalized: the model of {was} is now {model}, plus constants of {stored}\n"
            )
        }
        (Some(output), _) if report.moved.is_empty() => {
            format!("{output}: nothing moved out of a model of {was}\n")
        }
        (Some(output), Some(model)) => {
            let model = size::show(model);
            format!(
                "{output}: a model of {was} is now one of {model} and {constants} of {stored}\n"
            )
        }
        _ => format!("{constants} of {stored} would move out of a model of {was}\n"),
    };
    text
}

pub(crate) fn run_internalize(
    args: &InternalizeArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    check_named(&args.output)?;
    let options = ExternalizeOptions::new()
        .force(args.force)
        .progress(output.writing("internalizing"));
    let report = internalize(&args.input, &args.output, &options)
        .map_err(|error| Failure::of(&args.input, &error))?;
    output.done(args.json, &report, |report, _| {
        let form = if report.split {
            "in chunks"
        } else {
            "in one piece"
        };
        let (output, bytes) = (shown(&report.output), size::show(report.message_bytes));
        format!("{output}: {bytes}, {form}\n")
    })
}
