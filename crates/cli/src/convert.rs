//! The `protosplit convert` command.

mod forms;

use std::path::Path;

use proto_splitter::merge::Limits;
use proto_splitter::ops::{
    self, CHUNKS, ConversionOptions, ConvertReport, ConvertSavedModelReport, targets,
};
use proto_splitter::split::SplitOptions;
use proto_splitter::{Error, ErrorKind, Opened, SaveOptions};

use crate::Exit;
use crate::args::{ConvertArgs, SchemaArgs};
use crate::display_name::shown;
use crate::failure::Failure;
use crate::fingerprint::note_refusal;
use crate::input::Input;
use crate::open_objects::OpenObjects;
use crate::opening::Opening;
use crate::output::Output;
use crate::place::{self, check_named};
use crate::sanitize::one_line;
use crate::size;
use crate::split::note_removed;

/// Value of `--to` that requests the list of forms.
const HELP: &str = "help";

pub(crate) fn run(args: &ConvertArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let target = args.output.as_deref().or(args.named.as_deref());
    if args.to == HELP {
        return forms::run(args, output);
    }
    if target.is_none() && !args.in_place {
        let message = "name the folder or file to write with -o, or convert a folder --in-place";
        return Err(Failure::usage(message));
    }
    let split = SplitOptions::new()
        .max_chunk_size(args.max_chunk_size)
        .value_chunk_size(args.value_chunk_size.0)
        .compression(args.compression)
        .force(args.force)
        .threads(args.threads.threads)
        .progress(output.writing("converting"));
    let mut options = ConversionOptions::new()
        .to(&args.to)
        .max_file_size(args.max_file_size)
        .split(split);
    for (name, value) in &args.set {
        options = options.setting(name, value);
    }
    if let Some(target) = target {
        check_named(target)?;
        if let Some(input) = open(&args.input, &args.schema, &options, output.objects())? {
            let report = to_form(&input, target, &options)?;
            for note in &report.notes {
                output.note(note);
            }
            note_removed(&report.removed_files, output);
            return output.done(args.json, &report, |report, _| text(report));
        }
    }
    let saving = output.saving(args.keep_fingerprint);
    let report = saved_model(&args.input, target, &options, &saving)?;
    note_refusal(&report.fingerprint, output);
    output.done(args.json, &report, |report, _| saved_model_text(report))
}

/// Opens the input. Returns `None` for a SavedModel folder. Also returns `None` for a folder of
/// unknown format, so that [`saved_model`] reports the error.
pub(crate) fn open(
    name: &Path,
    schema: &SchemaArgs,
    options: &ConversionOptions,
    objects: &OpenObjects,
) -> Result<Option<Input>, Failure> {
    let companion = &schema.companion;
    let is_said = schema.message.is_some() || schema.delimited.is_some() || companion.is_named();
    let place = match place::locate(name, companion) {
        Ok(place) => place,
        Err(failure) if is_said || failure.exit() == Exit::Bad => return Err(failure),
        Err(_) => return Ok(None),
    };
    if place.folder.is_some() {
        return Ok(None);
    }
    let input = Opening::new(schema, Limits::new(), objects)
        .with(|opening| {
            let settings = options.get_settings().iter();
            settings.fold(opening, |opening, (name, value)| {
                opening.setting(name, value)
            })
        })
        .open_at(place)?;
    let to = options.get_to();
    let has_own = |input: &Input| input.format().is_some_and(|own| !own.targets().is_empty());
    let has_named = |input: &Input| to == CHUNKS || targets(input).any(|(_, form)| form.name == to);
    let lists = to == HELP;
    Ok(Some(input).filter(|input| lists || has_own(input) || has_named(input)))
}

/// Writes an input in the form that the options name.
pub(crate) fn to_form(
    input: &Opened,
    target: &Path,
    options: &ConversionOptions,
) -> Result<ConvertReport, Failure> {
    ops::convert(input, target, options).map_err(|error| failure(input, target, &error))
}

/// Converts a conversion's error to a failure about the input. An I/O error about a parent folder
/// of the output becomes a failure about this folder.
fn failure(opened: &Opened, target: &Path, error: &Error) -> Failure {
    let about = error.file().filter(|_| error.kind() == ErrorKind::Io);
    let folder = about.filter(|about| target.ancestors().skip(1).any(|folder| folder == *about));
    Failure::of(folder.unwrap_or(opened.input()), error)
}

/// Converts a SavedModel folder to another form. Writes the result to the folder `target`. If
/// `target` is `None`, converts the folder in place.
pub(crate) fn saved_model(
    folder: &Path,
    target: Option<&Path>,
    options: &ConversionOptions,
    saving: &SaveOptions,
) -> Result<ConvertSavedModelReport, Failure> {
    check_folder(folder)?;
    ops::convert_saved_model(folder, target, options, saving)
        .map_err(|error| Failure::of(folder, &error))
}

/// Fails if the input is missing or a file. Must be called before the conversion, since the
/// conversion would report errors about options before it notices that the input isn't a folder.
fn check_folder(input: &Path) -> Result<(), Failure> {
    let name = shown(input);
    let why = match std::fs::metadata(input) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "no such file or folder",
        Ok(found) if found.is_file() => {
            "a file, not the folder of a SavedModel; use `protosplit split` to make a .cpb, or \
             `protosplit merge` to make a .pb"
        }
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("{name}: {why}")))
}

fn text(report: &ConvertReport) -> String {
    let main = report.files.first();
    let main = main.map_or(String::new(), |file| one_line(&shown(file)));
    let others = match report.files.len() {
        0 | 1 => String::new(),
        files => format!(", {files} files"),
    };
    format!("{main}: {}{others}\n", size::show(report.output_bytes))
}

fn saved_model_text(report: &ConvertSavedModelReport) -> String {
    let (output, bytes) = (shown(&report.output), size::show(report.message_bytes));
    match (report.changed, report.split) {
        (false, _) => format!("{output}: {bytes}: nothing to do\n"),
        (true, false) => format!("{output}: {bytes}, in one piece\n"),
        (true, true) => {
            let file = size::show(report.output_bytes);
            format!("{output}: {bytes} in chunks, a file of {file}\n")
        }
    }
}
