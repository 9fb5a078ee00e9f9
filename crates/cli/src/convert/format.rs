//! Converting inputs of formats that have their own conversions.

use std::path::Path;

use proto_splitter::formats::{ConvertOptions, ConvertTarget, Format};
use proto_splitter::merge::Limits;
use proto_splitter::ops::{CHUNKS, ConvertReport, convert, targets};
use proto_splitter::{Error, ErrorKind, Opened};

use crate::Exit;
use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::input::{self, Input, Opening, shown};
use crate::output::Output;
use crate::sanitize::one_line;
use crate::size;

/// Value of `--to` that requests the list of forms.
pub(super) const HELP: &str = "help";

/// Opens the input if its format has its own forms.
pub(super) fn open(args: &ConvertArgs, output: &Output<'_>) -> Result<Option<Input>, Failure> {
    let companion = &args.schema.companion;
    let schema = &args.schema;
    let is_said = schema.message.is_some() || schema.delimited.is_some() || companion.is_named();
    let place = match input::locate(&args.input, companion) {
        Ok(place) => place,
        Err(failure) if is_said || failure.exit() == Exit::Bad => return Err(failure),
        // For the folder of a SavedModel, the code for SavedModels reports the error.
        Err(_) => return Ok(None),
    };
    if place.folder.is_some() {
        return Ok(None);
    }
    let input = Opening::new(&args.schema, Limits::new(), output.objects())
        .settings(&args.set)
        .open_at(place)?;
    let has_own = |input: &Input| input.format().is_some_and(|own| !own.targets().is_empty());
    let has_named =
        |input: &Input| args.to == CHUNKS || targets(input).any(|(_, form)| form.name == args.to);
    let lists = args.to == HELP;
    Ok(Some(input).filter(|input| lists || has_own(input) || has_named(input)))
}

/// Returns true if a setting affects how the input is opened.
pub(super) fn is_read(opened: &Opened, name: &str) -> bool {
    let settings = opened.format().map(|format| format.open_settings());
    opened.chunked().is_none() && settings.unwrap_or_default().contains(&name)
}

pub(super) fn run(
    opened: &Opened,
    args: &ConvertArgs,
    target: &Path,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let (format, form) = form(opened, &args.to)?;
    let mut options = ConvertOptions::new()
        .force(args.force)
        .threads(args.threads.threads)
        .progress(output.writing("converting"));
    for (name, value) in args.set.iter().filter(|(name, _)| !is_read(opened, name)) {
        options = options.setting(name, setting(format, form, name, value)?);
    }
    if let Some(bytes) = args.max_file_size {
        let name = "max-file-size";
        options = options.setting(name, setting(format, form, name, &bytes.to_string())?);
    }
    let report = convert(opened, form, target, &options);
    let report = report.map_err(|error| failure(opened, target, &error))?;
    for note in &report.notes {
        output.note(note);
    }
    output.done(args.json, &report, |report, _| text(report))?;
    Ok(Exit::Done)
}

/// Returns the error of a conversion, which may concern a folder that leads to the output.
pub(super) fn failure(opened: &Opened, target: &Path, error: &Error) -> Failure {
    let about = error.file().filter(|_| error.kind() == ErrorKind::Io);
    let folder = about.filter(|about| target.ancestors().skip(1).any(|folder| folder == *about));
    Failure::of(folder.unwrap_or(opened.input()), error)
}

/// Returns the form with this name and the format that writes it. For `auto`, returns the default
/// form of the input's own format, unless a form is named `auto`.
pub(crate) fn form(
    opened: &Opened,
    name: &str,
) -> Result<(&'static dyn Format, &'static ConvertTarget), Failure> {
    let named = targets(opened).find(|(_, target)| target.name == name);
    let usual = || {
        let format = opened.format().filter(|_| name == "auto")?;
        Some((format, format.targets().first()?))
    };
    named.or_else(usual).ok_or_else(|| {
        let forms = targets(opened).map(|(_, form)| format!("{} ({})", form.name, form.title));
        let forms: Vec<String> = forms.collect();
        let title = opened.format().map_or("message", |format| format.title());
        let forms = forms.join(", ");
        Failure::usage(format!(
            "--to {name}: the forms of a file of the kind {title}: {forms}"
        ))
    })
}

/// Returns the value of a setting as the format expects it: a size in bytes.
fn setting(
    format: &dyn Format,
    form: &ConvertTarget,
    name: &str,
    value: &str,
) -> Result<String, Failure> {
    let known = format.convert_settings();
    let Some(known) = known.iter().find(|known| known.name == name) else {
        // The format's own error lists its settings.
        return Ok(value.to_owned());
    };
    if !known.forms.contains(&form.name) {
        let forms = known.forms.join(", ");
        let message = format!("{name}: --to {} ignores it; it is for {forms}", form.name);
        return Err(Failure::usage(message));
    }
    if !known.is_size {
        return Ok(value.to_owned());
    }
    size::parse(value)
        .map(|bytes| bytes.to_string())
        .map_err(|why| Failure::usage(format!("{name} must be a number of bytes: {why}")))
}

pub(super) fn text(report: &ConvertReport) -> String {
    let main = report.files.first();
    let main = main.map_or(String::new(), |file| one_line(&shown(file)));
    let others = match report.files.len() {
        0 | 1 => String::new(),
        files => format!(", {files} files"),
    };
    format!("{main}: {}{others}\n", size::show(report.output_bytes))
}
