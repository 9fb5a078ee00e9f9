//! `protosplit get`.

mod npy;
mod value;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use prost_reflect::MessageDescriptor;
use proto_splitter::atomic::{AtomicFile, at_target};
use proto_splitter::lazy::MessageView;
use proto_splitter::merge::MergeOptions;
use proto_splitter::path::FieldPath;
use proto_splitter::{Error, ErrorKind};

use crate::Exit;
use crate::args::{GetArgs, GetFormat};
use crate::failure::Failure;
use crate::input::{self, STANDARD};
use crate::merge;
use crate::output::Output;
use crate::source::Source;
use crate::suggest;
use crate::types::{SCHEMA_NEEDED, said_by};

/// How much is gathered for a write to a file.
const GATHER: usize = 256 << 10;

pub(crate) fn run(args: &GetArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let input = input::find(&args.file)?;
    let options = merge::options(&input, &args.reading)?;
    let options = options.progress(match target(args) {
        None => output.reading("reading"),
        Some(_) => output.writing("reading"),
    });
    let failed = |error: &Error| failure(&input.file, &args.path, &options, error);
    let path =
        parse(&args.path, options.get_descriptor()).map_err(|error| failed(&error).into_usage())?;
    let source = Source::open(&input, options.get_limits())?;
    if let Some(target) = target(args) {
        source.check_apart(target, &input, None)?;
    }
    let view = source.view(options.clone());
    view.and_then(|view| get(&view, &path, args, output))
        .map_err(|error| failed(&error))?;
    Ok(Exit::Done)
}

pub(crate) fn parse(text: &str, root: Option<&MessageDescriptor>) -> Result<FieldPath, Error> {
    match root {
        // As reports show it.
        _ if text == "." => Ok(FieldPath::root()),
        Some(root) => FieldPath::parse(text, root),
        None => text.parse(),
    }
}

/// What went wrong with a path in a file, and what was meant, if that can be guessed.
pub(crate) fn failure(file: &Path, path: &str, options: &MergeOptions, error: &Error) -> Failure {
    let failure = Failure::of(file, error);
    match (error.kind(), options.get_descriptor()) {
        (ErrorKind::InvalidPath, None) => untyped(file, &failure),
        (ErrorKind::InvalidPath, Some(root)) => match suggest::path(path, root) {
            Some(meant) => Failure::bad(format!("{}; did you mean `{meant}`?", failure.message())),
            None => failure,
        },
        _ => failure,
    }
}

/// What went wrong with a path in a file of which the type isn't known, and how it would be.
pub(crate) fn untyped(file: &Path, failure: &Failure) -> Failure {
    let message = failure.message();
    Failure::bad(match said_by(file) {
        Some(said) => format!("{message} (of {said}: {SCHEMA_NEEDED})"),
        None => format!("{message} (without --message TYPE a path is in numbers)"),
    })
}

/// The file that is written; none if it is standard output.
fn target(args: &GetArgs) -> Option<&Path> {
    let named = args.output.as_deref();
    named.filter(|target| *target != Path::new(STANDARD))
}

fn get(
    view: &MessageView<'_, File>,
    path: &FieldPath,
    args: &GetArgs,
    output: &mut Output<'_>,
) -> Result<(), Error> {
    match target(args) {
        None => write(view, path, args.format, output),
        Some(target) => {
            let mut file = AtomicFile::create(target, args.force)?;
            let mut buffered = BufWriter::with_capacity(GATHER, file.as_file_mut());
            write(view, path, args.format, &mut buffered)
                .and_then(|()| Ok(buffered.flush()?))
                .map_err(|error| at_target(error, target))?;
            drop(buffered);
            file.commit()
        }
    }
}

fn write(
    view: &MessageView<'_, File>,
    path: &FieldPath,
    format: GetFormat,
    sink: &mut impl Write,
) -> Result<(), Error> {
    match format {
        GetFormat::Binary => view.get_to(path, sink).map(drop),
        GetFormat::Json => {
            let json = value::json(view, path)?;
            serde_json::to_writer_pretty(&mut *sink, &json).map_err(std::io::Error::from)?;
            Ok(sink.write_all(b"\n")?)
        }
        GetFormat::Text => value::text(view, path, sink),
        GetFormat::Npy => npy::write(view, path, sink),
    }
}
