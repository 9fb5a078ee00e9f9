//! Inputs of formats that know themselves how they are converted.

use std::path::Path;

use proto_splitter::formats::{ConvertOptions, ConvertTarget, Format};
use proto_splitter::{Error, Opened};
use serde::Serialize;

use crate::Exit;
use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::input::{self, Form, shown};
use crate::output::Output;
use crate::size;
use crate::source;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) format: &'static str,
    pub(super) to: &'static str,
    /// The main one first.
    pub(super) files: Vec<String>,
    pub(super) output_bytes: u64,
    pub(super) notes: Vec<String>,
}

/// The input, if it is of a format with forms of its own.
pub(super) fn open(args: &ConvertArgs) -> Result<Option<Opened>, Failure> {
    let companion = &args.schema.companion;
    let is_said = args.schema.message.is_some() || companion.input_format.is_some();
    let input = match input::find_with(&args.input, companion) {
        Ok(input) => input,
        Err(failure) if companion.program.is_some() || is_said || failure.exit() == Exit::Bad => {
            return Err(failure);
        }
        // What is wrong with a SavedModel's folder, its own code says.
        Err(_) => return Ok(None),
    };
    let has_targets = |format: &dyn Format| !format.targets().is_empty();
    let known = input.format();
    if input.folder.is_some() || (known.is_none() && !is_said && input.form == Form::Plain) {
        return Ok(None);
    }
    if known.is_some_and(|format| !has_targets(format)) {
        return Ok(None);
    }
    let settings = args.set.iter().filter(|(name, _)| {
        known.is_some_and(|format| format.open_settings().contains(&name.as_str()))
    });
    let opened = source::opened_with(&input, &args.schema, settings)?;
    Ok(Some(opened).filter(|opened| opened.format().is_some_and(has_targets)))
}

/// Whether a setting is one of how the input is opened.
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
    let Some(format) = opened.format() else {
        return Err(Failure::usage("no format is known for it"));
    };
    let form = form(format, &args.to)?;
    let mut options = ConvertOptions::new()
        .force(args.force)
        .threads(args.threads.threads)
        .progress(output.writing("converting"));
    for (name, value) in args.set.iter().filter(|(name, _)| !is_read(opened, name)) {
        options = options.setting(name, value);
    }
    if let Some(bytes) = args.max_file_size {
        options = options.setting("max-file-size", bytes.to_string());
    }
    let failed = |error: Error| Failure::of(&args.input, &error);
    let converted = format.convert(opened, form, target, &options);
    let converted = converted.map_err(failed)?;
    for note in &converted.notes {
        output.note(note);
    }
    let report = Report {
        format: format.name(),
        to: form.name,
        files: converted.files.iter().map(|file| shown(file)).collect(),
        output_bytes: converted.bytes,
        notes: converted.notes,
    };
    output.done(args.json, &report, |report, _| report.text())?;
    Ok(Exit::Done)
}

/// The form of this name; the usual one for `auto`, if the format has none that is called so.
pub(crate) fn form(
    format: &'static dyn Format,
    name: &str,
) -> Result<&'static ConvertTarget, Failure> {
    let targets = format.targets();
    let named = targets.iter().find(|target| target.name == name);
    let usual = || targets.first().filter(|_| name == "auto");
    named.or_else(usual).ok_or_else(|| {
        let forms = targets
            .iter()
            .map(|target| format!("{} ({})", target.name, target.title));
        let forms: Vec<String> = forms.collect();
        let title = format.title();
        let forms = forms.join(", ");
        Failure::usage(format!(
            "--to {name}: the forms of a file of the kind {title}: {forms}"
        ))
    })
}

impl Report {
    pub(super) fn text(&self) -> String {
        let main = self
            .files
            .first()
            .map_or(String::new(), |file| one_line(file));
        let others = match self.files.len() {
            0 | 1 => String::new(),
            files => format!(", {files} files"),
        };
        format!("{main}: {}{others}\n", size::show(self.output_bytes))
    }
}
