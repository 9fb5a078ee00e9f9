//! The commands `protosplit recompress` and `protosplit replace`.

use std::path::Path;
use std::sync::Arc;

use proto_splitter::edit::RewriteOptions;
use proto_splitter::formats::ConvertTarget;
use proto_splitter::ops::{ReplaceOptions, RewriteReport, recompress, replace};
use proto_splitter::record_file::ReadAt;
use proto_splitter::{Error, ErrorKind};

use crate::Exit;
use crate::args::{RecompressArgs, ReplaceArgs, RewriteArgs, SchemaArgs};
use crate::display_name::shown;
use crate::failure::Failure;
use crate::get;
use crate::input::Input;
use crate::new_value;
use crate::opening::Opening;
use crate::output::Output;
use crate::place::{self, CHUNKED, PLAIN};
use crate::sanitize::one_line;
use crate::saving::Saving;
use crate::size;
use crate::split::note_removed;
use crate::target_form;

pub(crate) fn run_recompress(
    args: &RecompressArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    place::check_named(&args.output)?;
    let schema = SchemaArgs::default();
    let input = Opening::new(&schema, args.shards.limits(), output.objects()).open(&args.file)?;
    if let Err(failure) = input.require_chunks() {
        let how = match input.format() {
            Some(_) => "use `protosplit convert -o NAME.cpb` to make chunks",
            None => "use `protosplit split` to make chunks",
        };
        return Err(Failure::usage(format!("{}: {how}", failure.message())));
    }
    check_several(&args.out, &input, input.extension(), None)?;
    let options = RewriteOptions::new()
        .compression(args.compression)
        .max_file_size(args.out.max_file_size)
        .progress(output.writing("recompressing"));
    let make = |target: &Path, force: bool| {
        recompress(&input, target, &options.clone().force(force))
            .map_err(|error| Failure::of(input.file(), &error))
    };
    write(&input, &args.output, &args.out, CHUNKED, make, output)
}

pub(crate) fn run_replace(args: &ReplaceArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let with = args.value.with.as_deref();
    place::check_single_standard(&[&args.file, with.unwrap_or(Path::new(""))])?;
    place::check_named(&args.output)?;
    let input = Opening::of(&args.reading, output.objects()).open(&args.file)?;
    let input = input.reading(with.and_then(new_value::file));
    input.check_message()?;
    let asked = target_form::requested(args.form.to.as_deref(), &input, &args.output)?;
    check_several(&args.out, &input, input.extension(), asked)?;
    let failed = |error: &Error| get::failure(&input, &args.path, error);
    let query = get::query(&input, &args.path)?;
    let value: Arc<dyn ReadAt> = match (&args.value.value, with) {
        (Some(text), _) => {
            let bytes = new_value::encode(text, &query, input.descriptor());
            Arc::new(bytes.map_err(|error| failed(&error).into_usage())?)
        }
        (None, with) => new_value::read(with.unwrap_or(Path::new("")))?.into(),
    };
    input.check_apart(&args.output)?;
    let options = ReplaceOptions::new()
        .compression(args.compression)
        .max_file_size(args.out.max_file_size)
        .form(asked)
        .progress(output.writing("replacing"));
    let make = |target: &Path, force: bool| {
        let options = options.clone().force(force);
        let replaced = replace(&input, &query, Arc::clone(&value), target, &options);
        replaced.map_err(|error| match error.kind() {
            ErrorKind::InvalidPath if asked.is_none() => {
                failed(&get::with_meant_in(&input, &args.path, error))
            }
            _ => failed(&error),
        })
    };
    let extension = input.extension();
    write(&input, &args.output, &args.out, extension, make, output)
}

/// Fails if the arguments limit the size of files, but the output has the form that `--to` names, or
/// can only be a single file.
pub(crate) fn check_several(
    args: &RewriteArgs,
    input: &Input,
    extension: &str,
    form: Option<&ConvertTarget>,
) -> Result<(), Failure> {
    if args.max_file_size.is_none() {
        return Ok(());
    }
    if let Some(form) = form {
        let message = format!("--max-file-size: doesn't apply to the form {}", form.name);
        return Err(Failure::usage(message));
    }
    let why = match input.folder() {
        Some(_) => {
            "TensorFlow reads a SavedModel from a single file; to write several files, name the .cpb file instead of the folder"
        }
        None if extension == PLAIN => "one message, not in chunks",
        None => return Ok(()),
    };
    let name = shown(input.path());
    Err(Failure::usage(format!("--max-file-size: {name}: {why}")))
}

/// Writes the changed message and prints a report. If the input is a folder, the output is a copy
/// of the folder.
fn write(
    input: &Input,
    target: &Path,
    args: &RewriteArgs,
    extension: &str,
    make: impl Fn(&Path, bool) -> Result<RewriteReport, Failure>,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let saving = saving(args, target);
    let (path, mut report) = saving.place(input.folder(), extension, make, output)?;
    if let Some(path) = path {
        report.output = path;
    }
    for note in &report.notes {
        output.note(note);
    }
    note_removed(&report.removed_files, output);
    output.done(args.json, &report, |report, _| text(report))
}

/// Returns how a rewritten model is saved.
pub(crate) fn saving<'a>(args: &RewriteArgs, target: &'a Path) -> Saving<'a> {
    Saving {
        target,
        force: args.force,
        keep_fingerprint: args.keep_fingerprint,
    }
}

fn text(report: &RewriteReport) -> String {
    let name = one_line(&shown(&report.output));
    let bytes = match report.files.len() {
        0 => size::show(report.output_bytes),
        others => format!(
            "{} files, together {}",
            others + 1,
            size::show(report.output_bytes)
        ),
    };
    match (report.chunk_count, report.copied_chunks) {
        (Some(chunks), Some(0)) => {
            let chunks = size::count(chunks, "chunk");
            format!("{name}: {bytes}: {chunks}, all rewritten\n")
        }
        (Some(chunks), Some(copied)) => {
            let chunks = size::count(chunks, "chunk");
            format!("{name}: {bytes}: {chunks}, {copied} of them copied as they are stored\n")
        }
        _ => format!("{name}: {bytes}\n"),
    }
}
