//! `protosplit recompress` and `protosplit replace`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter::atomic::{AtomicFile, FileSink, MadeFrom};
use proto_splitter::directory::{MODEL_STEM, rebuild};
use proto_splitter::edit::{
    Changes, RewriteOptions, Rewritten, recompress_to_file, replace_plain, replace_to_file,
};
use proto_splitter::formats::Converted;
use proto_splitter::path::PathQuery;
use proto_splitter::record_file::ReadAt;
use proto_splitter::{Error, ErrorKind, SaveOptions, member_names};
use serde::Serialize;

use crate::Exit;
use crate::args::{RecompressArgs, ReplaceArgs, RewriteArgs, SchemaArgs};
use crate::failure::Failure;
use crate::fingerprint::note_refusal;
use crate::get;
use crate::harmless::one_line;
use crate::in_form::{InForm, Writing};
use crate::input::{self, CHUNKED, Form, Input, Opening, PLAIN, shown, with_extension};
use crate::new_value;
use crate::output::Output;
use crate::size;
use crate::split::{OtherFile, note_removed};

#[derive(Debug, Serialize)]
struct Report {
    output: String,
    input: String,
    output_bytes: u64,
    /// `None` if the message isn't in chunks.
    chunk_count: Option<usize>,
    /// Number of chunks copied unchanged.
    copied_chunks: Option<usize>,
    /// Files of an earlier split that were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed_files: Vec<String>,
    /// The other files that contain chunks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<OtherFile>,
}

/// The report of a written file.
enum Made {
    Chunked(Rewritten),
    Plain(u64),
    InForm(Converted),
}

pub(crate) fn run_recompress(
    args: &RecompressArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    input::check_named(&args.output)?;
    let schema = SchemaArgs::default();
    let input = Opening::of_parts(&schema, args.parts, output.objects()).open(&args.file)?;
    let Some(file) = input.chunked() else {
        let name = shown(input.file());
        let how = match input.format() {
            Some(_) => "`protosplit convert -o NAME.cpb` makes them",
            None => "`protosplit split` makes them",
        };
        return Err(Failure::usage(format!(
            "{name}: one message, not in chunks: {how}"
        )));
    };
    check_several(&args.out, &input, input.form())?;
    let options = RewriteOptions::new()
        .compression(args.compression)
        .max_file_size(args.out.max_file_size)
        .progress(output.writing("recompressing"));
    let make = |target: &Path, force: bool| {
        recompress_to_file(file, target, &options.clone().force(force))
            .map(Made::Chunked)
            .map_err(|error| Failure::of(input.file(), &error))
    };
    write(&input, &args.output, &args.out, CHUNKED, make, output)
}

pub(crate) fn run_replace(args: &ReplaceArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let with = args.value.with.as_deref();
    input::check_single_standard([&args.file, with.unwrap_or(Path::new(""))])?;
    input::check_named(&args.output)?;
    let input = Opening::of(&args.reading, output.objects()).open(&args.file)?;
    input.check_message()?;
    check_several(&args.out, &input, input.form())?;
    let reading = input.reading_options();
    let failed = |error: &Error| get::failure(&input, &args.path, error);
    let query = PathQuery::parse(&args.path, reading.descriptor.as_ref());
    let query = query.map_err(|error| failed(&error).into_usage())?;
    let value: Arc<dyn ReadAt> = match (&args.value.value, with) {
        (Some(text), _) => {
            let bytes = new_value::encode(text, &query, reading.descriptor.as_ref());
            Arc::new(bytes.map_err(|error| failed(&error).into_usage())?)
        }
        (None, with) => new_value::read(with.unwrap_or(Path::new("")))?.into(),
    };
    input.check_apart(&args.output, with)?;
    let asked = args.form.to.as_deref();
    if let Some(in_form) = InForm::of(asked, &input, &args.output)? {
        let Some((message, _)) = input.plain() else {
            let message =
                "--to: FILE is in chunks: `protosplit edit --replace` writes it in a form";
            return Err(Failure::usage(message));
        };
        let changes = Changes::new().names(member_names()).replace(query, value);
        let changed = changes.apply(Arc::clone(message), &reading);
        let changed = changed.map_err(|error| failed(&error))?;
        let progress = output.writing("replacing");
        let make = |target: &Path, force: bool| {
            let writing = Writing {
                read: input.files(),
                force,
                threads: None,
                progress: &progress,
            };
            in_form
                .write(&changed, reading.descriptor.as_ref(), target, &writing)
                .map(Made::InForm)
                .map_err(|error| failed(&error))
        };
        return write(&input, &args.output, &args.out, PLAIN, make, output);
    }
    let view = input.typed_view();
    let path = view.and_then(|view| get::find_one(&view, &query));
    let path = path.map_err(|error| failed(&error))?;
    let progress = output.writing("replacing");
    let options = RewriteOptions::new()
        .compression(args.compression)
        .max_file_size(args.out.max_file_size)
        .progress(progress.clone());
    let make = |target: &Path, force: bool| {
        let value = value.as_ref();
        let replace = || -> Result<Made, Error> {
            match (input.chunked(), input.plain()) {
                (Some(file), _) => {
                    let options = options.clone().force(force);
                    replace_to_file(file, &path, value, target, &reading, &options)
                        .map(Made::Chunked)
                }
                (None, Some((file, _))) if !input.is_special() => {
                    let reading = reading.clone().progress(progress.clone());
                    let made_from = MadeFrom::files(input.files());
                    let out = AtomicFile::create(target, &made_from, force)?;
                    let replaced = |mut sink: &mut dyn FileSink| {
                        replace_plain(file, &path, value, &mut sink, &reading)
                    };
                    out.write(replaced).map(Made::Plain)
                }
                _ => {
                    let message = "several files make this message: `protosplit convert` makes one .cpb of them, in which a value can be replaced";
                    Err(Error::new(ErrorKind::InvalidConfig, message))
                }
            }
        };
        replace().map_err(|error| failed(&error))
    };
    let extension = match input.form() {
        Form::Chunked => CHUNKED,
        Form::Plain => PLAIN,
    };
    write(&input, &args.output, &args.out, extension, make, output)
}

/// Fails if several files are requested for an output that is always one file.
pub(crate) fn check_several(args: &RewriteArgs, input: &Input, form: Form) -> Result<(), Failure> {
    let why = match (args.max_file_size, input.folder()) {
        (None, _) => return Ok(()),
        (_, Some(_)) => {
            "the folder of a SavedModel is for TensorFlow, which reads a single file: give its file"
        }
        (_, None) if form == Form::Plain => "one message, not in chunks",
        (_, None) => return Ok(()),
    };
    let name = shown(input.path());
    Err(Failure::usage(format!("--max-file-size: {name}: {why}")))
}

/// Writes a file, alone or in a copy of its folder, and reports it.
fn write(
    input: &Input,
    target: &Path,
    args: &RewriteArgs,
    extension: &str,
    make: impl Fn(&Path, bool) -> Result<Made, Failure>,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let (path, made) = place(input, target, args, extension, make, output)?;
    let path = path.unwrap_or_else(|| target.to_owned());
    if let Made::InForm(converted) = &made {
        for note in &converted.notes {
            output.note(note);
        }
    }
    let report = Report::new(&path, input.file(), made);
    note_removed(&report.removed_files, output);
    output.done(args.json, &report, |report, _| report.text())?;
    Ok(Exit::Done)
}

/// Writes a file, alone or in a copy of its folder. Returns its path there.
pub(crate) fn place<T>(
    input: &Input,
    target: &Path,
    args: &RewriteArgs,
    extension: &str,
    make: impl Fn(&Path, bool) -> Result<T, Failure>,
    output: &mut Output<'_>,
) -> Result<(Option<PathBuf>, T), Failure> {
    let Some(folder) = input.folder() else {
        return Ok((None, make(target, args.force)?));
    };
    let saving = SaveOptions::new()
        .force(args.force)
        .keep_fingerprint(args.keep_fingerprint)
        .on_copy(output.line().copies())
        .progress(output.interruptible());
    let fill = |prefix: &Path| make(&with_extension(prefix, extension), false);
    let rebuilt = rebuild(folder, target, &saving, fill)?;
    note_refusal(&rebuilt.fingerprint, output);
    let path = with_extension(&target.join(MODEL_STEM), extension);
    Ok((Some(path), rebuilt.filled))
}

impl Report {
    fn new(path: &Path, read: &Path, made: Made) -> Self {
        let mut report = Report {
            output: shown(path),
            input: shown(read),
            output_bytes: 0,
            chunk_count: None,
            copied_chunks: None,
            removed_files: Vec::new(),
            files: Vec::new(),
        };
        match made {
            Made::Plain(size) => report.output_bytes = size,
            Made::InForm(converted) => report.output_bytes = converted.bytes,
            Made::Chunked(rewritten) => {
                report.output_bytes = rewritten.size;
                report.chunk_count = Some(rewritten.chunks);
                report.copied_chunks = Some(rewritten.copied);
                let removed = rewritten.removed_files.iter();
                report.removed_files = removed.map(|file| shown(file)).collect();
                report.files = rewritten.files.iter().map(OtherFile::from).collect();
            }
        }
        report
    }

    fn text(&self) -> String {
        let name = one_line(&self.output);
        let bytes = match self.files.len() {
            0 => size::show(self.output_bytes),
            others => format!(
                "{} files, together {}",
                others + 1,
                size::show(self.output_bytes)
            ),
        };
        match (self.chunk_count, self.copied_chunks) {
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
}
