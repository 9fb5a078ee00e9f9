//! `protosplit recompress` and `protosplit replace`.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use proto_splitter::atomic::AtomicFile;
use proto_splitter::container::ChunkedFile;
use proto_splitter::directory::rebuild;
use proto_splitter::record_file::ReadAt;
use proto_splitter::rewrite::{RewriteOptions, Rewritten, recompress, replace, replace_plain};
use proto_splitter::{Error, SaveOptions};
use serde::Serialize;

use crate::Exit;
use crate::args::{RecompressArgs, ReplaceArgs, RewriteArgs};
use crate::failure::Failure;
use crate::fingerprint::note_refusal;
use crate::get;
use crate::input::{self, CHUNKED, Form, Input, PLAIN, with_extension};
use crate::merge;
use crate::output::{Output, one_line};
use crate::size;
use crate::source::{self, Source, other_files};
use crate::types::SAVED_MODEL_STEM;

/// How much is gathered for a write to a file.
const GATHER: usize = 256 << 10;

#[derive(Debug, Serialize)]
struct Report {
    output: String,
    input: String,
    output_bytes: u64,
    /// None if the message isn't in chunks.
    chunk_count: Option<usize>,
    /// How many chunks were copied as they are stored.
    copied_chunks: Option<usize>,
}

/// What was written.
#[derive(Clone, Copy)]
enum Made {
    Chunked(Rewritten),
    Plain(u64),
}

pub(crate) fn run_recompress(
    args: &RecompressArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let input = input::find(&args.file)?;
    if input.form == Form::Plain {
        let name = input.file.display();
        return Err(Failure::usage(format!(
            "{name}: one message, not in chunks: `protosplit split` makes them"
        )));
    }
    let options = RewriteOptions::new()
        .compression(args.compression)
        .progress(output.writing("recompressing"));
    let file = source::chunked(&input, &args.parts.limits())?;
    check_apart(&args.output, &input, Some(&file))?;
    let make = |target: &Path, force: bool| {
        let make = || -> Result<Made, Error> {
            let out = AtomicFile::create(target, force)?;
            let rewritten = recompress(&file, out.as_file(), &options)?;
            out.commit()?;
            Ok(Made::Chunked(rewritten))
        };
        make().map_err(|error| Failure::of(&input.file, &error))
    };
    write(&input, &args.output, &args.out, CHUNKED, make, output)
}

pub(crate) fn run_replace(args: &ReplaceArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    input::check_single_standard([&args.file, &args.with])?;
    let input = input::find(&args.file)?;
    let reading = merge::options(&input, &args.reading)?;
    let failed = |error: &Error| get::failure(&input.file, &args.path, &reading, error);
    let path =
        get::parse(&args.path, reading.descriptor.as_ref()).map_err(|error| failed(&error))?;
    let value = value(&args.with)?;
    let source = Source::open(&input, &reading.limits)?;
    check_apart(
        &args.output,
        &input,
        match &source {
            Source::Chunked(file) => Some(file),
            Source::Plain(_) => None,
        },
    )?;
    let progress = output.writing("replacing");
    let options = RewriteOptions::new()
        .compression(args.compression)
        .progress(progress.clone());
    let make = |target: &Path, force: bool| {
        let replace = || -> Result<Made, Error> {
            let mut out = AtomicFile::create(target, force)?;
            let made = match &source {
                Source::Chunked(file) => {
                    let (value, target) = (value.as_ref(), out.as_file());
                    let rewritten = replace(file, &path, value, target, &reading, &options)?;
                    Made::Chunked(rewritten)
                }
                Source::Plain(file) => {
                    let reading = reading.clone().progress(progress.clone());
                    let mut sink = BufWriter::with_capacity(GATHER, out.as_file_mut());
                    let size = replace_plain(file, &path, value.as_ref(), &mut sink, &reading)?;
                    sink.flush()?;
                    Made::Plain(size)
                }
            };
            out.commit()?;
            Ok(made)
        };
        replace().map_err(|error| failed(&error))
    };
    let extension = match input.form {
        Form::Chunked => CHUNKED,
        Form::Plain => PLAIN,
    };
    write(&input, &args.output, &args.out, extension, make, output)
}

/// The new value: a file, or all of standard input.
fn value(with: &Path) -> Result<Box<dyn ReadAt>, Failure> {
    if with == Path::new("-") {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        read.map_err(|error| Failure::usage(format!("standard input: {error}")))?;
        return Ok(Box::new(bytes));
    }
    let failed = |error| Failure::io(with, &error);
    input::check_file(with, &fs::metadata(with).map_err(failed)?)?;
    Ok(Box::new(File::open(with).map_err(failed)?))
}

/// Fails if the target is one of the files that are read.
fn check_apart(target: &Path, input: &Input, chunked: Option<&ChunkedFile>) -> Result<(), Failure> {
    let Ok(real) = fs::canonicalize(target) else {
        return Ok(());
    };
    let others = chunked.map_or_else(Vec::new, |file| other_files(input, file));
    let mut read = std::iter::once(&input.file).chain(&others);
    if read.any(|file| fs::canonicalize(file).is_ok_and(|file| file == real)) {
        let name = target.display();
        return Err(Failure::usage(format!(
            "{name} is what is read, and is not overwritten"
        )));
    }
    Ok(())
}

/// Has a file made, by itself or in a copy of the folder around it, and reports it.
fn write(
    input: &Input,
    target: &Path,
    args: &RewriteArgs,
    extension: &str,
    make: impl Fn(&Path, bool) -> Result<Made, Failure>,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let (path, made): (PathBuf, Made) = match &input.folder {
        Some(folder) => {
            let saving = SaveOptions::new()
                .force(args.force)
                .keep_fingerprint(args.keep_fingerprint)
                .progress(output.line().copies())
                .cancelled_by(output.interrupt().heed());
            let fill = |prefix: &Path| make(&with_extension(prefix, extension), false);
            let rebuilt = rebuild(folder, target, &saving, fill)?;
            note_refusal(&rebuilt.fingerprint, output);
            let path = with_extension(&target.join(SAVED_MODEL_STEM), extension);
            (path, rebuilt.filled)
        }
        None => (target.to_owned(), make(target, args.force)?),
    };
    let rewritten = match made {
        Made::Chunked(rewritten) => Some(rewritten),
        Made::Plain(_) => None,
    };
    let report = Report {
        output: path.display().to_string(),
        input: input.file.display().to_string(),
        output_bytes: match made {
            Made::Chunked(rewritten) => rewritten.size,
            Made::Plain(size) => size,
        },
        chunk_count: rewritten.map(|rewritten| rewritten.chunks),
        copied_chunks: rewritten.map(|rewritten| rewritten.copied),
    };
    output.report(args.json, &report, |report, _| report.text())?;
    Ok(Exit::Done)
}

impl Report {
    fn text(&self) -> String {
        let (name, bytes) = (one_line(&self.output), size::show(self.output_bytes));
        match (self.chunk_count, self.copied_chunks) {
            (Some(chunks), Some(0)) => {
                let chunks = size::count(chunks, "chunk");
                format!("{name}: {bytes}: {chunks}, all written anew\n")
            }
            (Some(chunks), Some(copied)) => {
                let chunks = size::count(chunks, "chunk");
                format!("{name}: {bytes}: {chunks}, {copied} of them copied as they are stored\n")
            }
            _ => format!("{name}: {bytes}\n"),
        }
    }
}
