//! Inputs of formats that have their own conversions.

use std::path::Path;

use proto_splitter::formats::{ConvertOptions, ConvertTarget, Format};
use proto_splitter::merge::Limits;
use proto_splitter::{Error, Opened};
use serde::Serialize;

use super::folders::MadeFolders;
use crate::Exit;
use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::input::{self, Input, Opening, shown};
use crate::output::Output;
use crate::size;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) format: &'static str,
    pub(super) to: &'static str,
    /// Files written, the main one first.
    pub(super) files: Vec<String>,
    pub(super) output_bytes: u64,
    pub(super) notes: Vec<String>,
}

/// Opens the input if its format has its own forms.
pub(super) fn open(args: &ConvertArgs, output: &Output<'_>) -> Result<Option<Input>, Failure> {
    let companion = &args.schema.companion;
    let is_said = args.schema.message.is_some() || companion.is_named();
    let place = match input::locate(&args.input, companion) {
        Ok(place) => place,
        Err(failure) if is_said || failure.exit() == Exit::Bad => return Err(failure),
        // The code for SavedModels reports the error of a SavedModel's folder.
        Err(_) => return Ok(None),
    };
    if place.folder.is_some() {
        return Ok(None);
    }
    let input = Opening::new(&args.schema, Limits::new(), output.objects())
        .settings(&args.set)
        .open_at(place)?;
    let has_targets = |format: &dyn Format| !format.targets().is_empty();
    Ok(Some(input).filter(|input| input.format().is_some_and(has_targets)))
}

/// Returns true if a setting applies to opening the input.
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
        options = options.setting(name, setting(format, form, name, value)?);
    }
    if let Some(bytes) = args.max_file_size {
        let name = "max-file-size";
        options = options.setting(name, setting(format, form, name, &bytes.to_string())?);
    }
    let failed = |error: Error| Failure::of(&args.input, &error);
    let folders = MadeFolders::around(target)?;
    let converted = format.convert(opened, form, target, &options);
    let converted = converted.map_err(failed)?;
    folders.keep();
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

/// Returns the form of this name, or for `auto` the usual form, unless the format has one named `auto`.
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
