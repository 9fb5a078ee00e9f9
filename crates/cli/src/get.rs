//! The `protosplit get` command.

mod elements;
mod sorted_json;
mod value;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use proto_splitter::atomic::{AtomicFile, MadeFrom};
use proto_splitter::formats::ALL;
use proto_splitter::merge::ChunkStore;
use proto_splitter::ops::write_npy;
use proto_splitter::path::{FieldPath, PathQuery};
use proto_splitter::tensor::{DType, Location, TensorReader, strings_at, tensor_at};
use proto_splitter::view::MessageView;
use proto_splitter::{Error, ErrorKind, Opened, member_names};
use serde_json::Value;

use crate::Exit;
use crate::args::{GetArgs, GetFormat, Rows};
use crate::display_name;
use crate::failure::Failure;
use crate::input::Input;
use crate::opening::Opening;
use crate::output::Output;
use crate::place;
use crate::sanitize::JsonWriter;
use crate::suggest;
use crate::types::SCHEMA_NEEDED;

use elements::write_all;

pub(crate) fn run(args: &GetArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    // Writing a whole message in binary form requires all of its files.
    let is_whole = args
        .path
        .as_deref()
        .is_none_or(|path| matches!(path, "" | "."));
    let is_looked_at = args.tensor.is_some() || !is_whole || args.format() != GetFormat::Binary;
    // The input is opened before anything is written, so that a signal can end the process at once
    // if the input is a pipe that blocks.
    let place = place::locate(&args.file, &args.reading.schema.companion)?;
    let input = Opening::of(&args.reading, output.objects())
        .looked_at(is_looked_at)
        .with(|options| options.root(args.root))
        .progress(match target(args) {
            None if args.tensor.is_none() => output.reading("reading"),
            _ => output.writing("reading"),
        })
        .open_at(place)?;
    if let Some(name) = &args.tensor {
        return get_tensor(&input, name, args, output);
    }
    if let Some(chunk) = args.chunk {
        return get_chunk(&input, chunk, args, output);
    }
    let text = args.path.as_deref().unwrap_or_default();
    if input.is_archive() {
        // In an input without a message, the path is the name of a tensor.
        return get_tensor(&input, text, args, output);
    }
    let failed = |error: &Error| failure(&input, text, error);
    let query = query(&input, text)?;
    if let Some(target) = target(args) {
        input.check_apart(target)?;
    }
    let view = input.typed_view();
    view.and_then(|view| {
        let write = |sink: &mut dyn Write| write(&view, &query, args, sink);
        to_target(target(args), args.force, output, input.files(), write)
    })
    .map_err(|error| failed(&input.placed(error)))?;
    Ok(Exit::Done)
}

/// Writes the bytes of the chunk with the index `chunk`.
fn get_chunk(
    input: &Input,
    chunk: usize,
    args: &GetArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let file = input.require_chunks()?;
    if args.format() != GetFormat::Binary {
        return Err(Failure::usage("--format: a chunk is written as binary"));
    }
    let failed = |error: &Error| Failure::of(input.file(), error);
    if chunk >= file.len() {
        let (name, count) = (display_name::shown(input.file()), file.len());
        return Err(Failure::bad(format!(
            "{name}: it has {count} chunks, counted from 0, and no chunk {chunk}"
        )));
    }
    if let Some(target) = target(args) {
        input.check_apart(target)?;
    }
    let write = |sink: &mut dyn Write| {
        let copied = file
            .stream(chunk)
            .and_then(|mut stream| Ok(io::copy(&mut stream, sink)?));
        copied.map(drop).map_err(|error| error.in_chunk(chunk))
    };
    to_target(target(args), args.force, output, input.files(), write)
        .map_err(|error| failed(&error))?;
    Ok(Exit::Done)
}

/// Returns a reader for the requested rows of a tensor; `None` requests all rows.
fn some_rows<'a>(reader: TensorReader<'a>, rows: Option<Rows>) -> Result<TensorReader<'a>, Error> {
    let Some(Rows { start, end }) = rows else {
        return Ok(reader);
    };
    let end = end.or(reader.info().shape.first().copied());
    reader.rows(start..end.unwrap_or(start))
}

/// Writes the tensor with the given name.
fn get_tensor(
    input: &Input,
    name: &str,
    args: &GetArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    if !matches!(args.format(), GetFormat::Npy | GetFormat::Binary) {
        return Err(Failure::usage(
            "--format: a tensor is written as npy or binary",
        ));
    }
    let failed = |error: Error| Failure::of(input.path(), &error);
    if let Some(target) = target(args) {
        input.check_apart(target)?;
    }
    let found = match args.format() {
        GetFormat::Npy => array(input, name),
        _ => input.tensor(name),
    };
    let reader = match found {
        Ok(reader) => reader,
        Err(error) if error.kind() == ErrorKind::InvalidPath => {
            let tensors = input.tensors().map_err(failed)?;
            let known = tensors.iter().take(MOST_NAMES);
            let near = suggest::nearest(name, known.map(|tensor| tensor.name.as_str()));
            let hint = match near {
                Some(near) => format!("; did you mean {near:?}?"),
                None if tensors.is_empty() => "; the model has none".to_owned(),
                None => "; `protosplit tensors` lists the model's tensors".to_owned(),
            };
            let message = failed(error);
            return Err(Failure::bad(format!("{}{hint}", message.message())));
        }
        Err(error) => return Err(failed(error)),
    };
    let reader = some_rows(reader, args.rows).map_err(failed)?;
    let write = |sink: &mut dyn Write| match args.format() {
        GetFormat::Npy => write_npy(reader, sink),
        _ => reader.write_to(sink),
    };
    to_target(target(args), args.force, output, input.files(), write).map_err(failed)?;
    Ok(Exit::Done)
}

/// Returns the path of the value that a query selects. Fails if the query doesn't select exactly
/// one value.
pub(crate) fn find_one(view: &MessageView<'_>, query: &PathQuery) -> Result<FieldPath, Error> {
    let found = view.select_one(query, &member_names());
    found.map_err(|error| with_meant(view, query, error))
}

/// Maximum number of existing names to compare with a name that wasn't found.
const MOST_NAMES: usize = 100_000;

/// Adds a suggestion to an error if the query contains the name of a list element that doesn't
/// exist.
fn with_meant(view: &MessageView<'_>, query: &PathQuery, error: Error) -> Error {
    if error.kind() != ErrorKind::InvalidPath {
        return error;
    }
    let unknown = view.unknown_name(query, &member_names(), MOST_NAMES);
    let Ok(Some((wanted, there))) = unknown else {
        return error;
    };
    // The replacement must concern the unknown name, since the query may also contain names that
    // exist.
    if let Ok(Some(valued)) = view.named_by_value(query)
        && valued.as_str().contains(&format!("{wanted:?}"))
    {
        let hint = format!("did you mean `{}`?", valued.as_str());
        let message = format!("{error}: nothing is named {wanted:?}; {hint}");
        return Error::new(error.kind(), message);
    }
    let hint = match suggest::nearest(&wanted, there.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near:?}?"),
        None => match there.len() {
            0 => "nothing there has a name".to_owned(),
            count => format!("there are {count} others, for example {:?}", there[0]),
        },
    };
    Error::new(
        error.kind(),
        format!("{error}: there is no {wanted:?}; {hint}"),
    )
}

/// Adds a suggestion, as [`with_meant`] does, to an error about a path in an input.
pub(crate) fn with_meant_in(input: &Input, path: &str, error: Error) -> Error {
    match (PathQuery::parse(path, input.descriptor()), input.view()) {
        (Ok(query), Ok(view)) => with_meant(&view, &query, error),
        _ => error,
    }
}

/// Parses a query of an input's message.
pub(crate) fn query(input: &Input, path: &str) -> Result<PathQuery, Failure> {
    PathQuery::parse(path, input.descriptor())
        .map_err(|error| failure(input, path, &error).into_usage())
}

/// Converts an error about a path in an input to a failure. If possible, the failure suggests a
/// similar path.
pub(crate) fn failure(input: &Input, path: &str, error: &Error) -> Failure {
    let failure = Failure::of(input.file(), error);
    match (error.kind(), input.descriptor()) {
        (ErrorKind::InvalidPath, None) => untyped(input, &failure),
        (ErrorKind::InvalidPath, Some(root)) => match suggest::path(path, root) {
            Some(meant) => Failure::bad(format!("{}; did you mean `{meant}`?", failure.message())),
            None => failure,
        },
        _ => failure,
    }
}

/// Returns the failure for a path in a message of unknown type, with a hint about the options that
/// specify the type.
pub(crate) fn untyped(input: &Input, failure: &Failure) -> Failure {
    let message = failure.message();
    Failure::bad(match input.recorded_type() {
        Some(said) => format!("{message} (of {said}: {SCHEMA_NEEDED})"),
        None => format!("{message} (without --message TYPE, a path consists of field numbers)"),
    })
}

/// Returns the file to write; `None` for standard output.
fn target(args: &GetArgs) -> Option<&Path> {
    place::target(args.output.as_deref())
}

/// Writes to the file `target`, which appears complete or not at all, or to standard output if
/// there is none. The file's permissions aren't wider than those of the files in `read`.
pub(crate) fn to_target<T>(
    target: Option<&Path>,
    force: bool,
    output: &mut Output<'_>,
    read: &[PathBuf],
    write: impl FnOnce(&mut dyn Write) -> Result<T, Error>,
) -> Result<T, Error> {
    let Some(target) = target else {
        return write(output);
    };
    AtomicFile::create(target, &MadeFrom::files(read), force)?.write(|sink| write(sink))
}

fn write(
    view: &MessageView<'_>,
    query: &PathQuery,
    args: &GetArgs,
    mut sink: &mut dyn Write,
) -> Result<(), Error> {
    let format = args.format();
    let is_shown = matches!(format, GetFormat::Text | GetFormat::Json | GetFormat::Jsonl);
    if is_shown && let Some(elements) = elements_of_whole(view, query) {
        return write_all(view, &elements, args, true, sink).map(drop);
    }
    if query.is_plural() || format == GetFormat::Jsonl || (is_shown && query.picks_several()) {
        let count = write_all(view, query, args, false, sink)?;
        if count == 0 && !query.is_plural() {
            // If the query selects a value of the wrong kind, `view.get` fails with a description
            // of that value.
            view.get(&find_one(view, query)?)?;
        }
        return Ok(());
    }
    let path = &find_one(view, query)?;
    let most = shown_up_to(args);
    let written = match format {
        GetFormat::Binary if args.rows.is_some() => {
            let some = tensor(view, path).and_then(|reader| some_rows(reader, args.rows));
            some.and_then(|reader| reader.write_to(sink))
        }
        GetFormat::Binary => view.get_to(path, &mut sink).map(drop),
        GetFormat::Json | GetFormat::Jsonl => {
            let json = value::json(view, path, most)?;
            write_json(&json, format, sink)
        }
        GetFormat::Text => value::text(view, path, most, &mut sink),
        GetFormat::Npy => {
            let some = tensor(view, path).and_then(|reader| some_rows(reader, args.rows));
            some.and_then(|reader| write_npy(reader, sink))
        }
    };
    written.map_err(|error| with_meant(view, query, error))
}

/// Returns a query that selects each element, if `query` selects a whole repeated field that isn't
/// a map; otherwise `None`.
pub(crate) fn elements_of_whole(view: &MessageView<'_>, query: &PathQuery) -> Option<PathQuery> {
    let target = query.resolve(view.descriptor()?).ok()?;
    let message = target.kind.message();
    let is_map = message.is_some_and(|message| message.is_map_entry());
    (target.whole_field && !is_map).then(|| query.clone().each_element())
}

/// Writes a value as JSON, on one line or indented.
fn write_json(json: &Value, format: GetFormat, sink: &mut dyn Write) -> Result<(), Error> {
    let written = match format {
        GetFormat::Jsonl => serde_json::to_writer(JsonWriter(&mut *sink), json),
        _ => serde_json::to_writer_pretty(JsonWriter(&mut *sink), json),
    };
    written.map_err(io::Error::from)?;
    Ok(sink.write_all(b"\n")?)
}

/// Returns the number of bytes after which a string or bytes value is cut.
fn shown_up_to(args: &GetArgs) -> usize {
    let most = args.max_value.and_then(|most| usize::try_from(most).ok());
    most.unwrap_or(usize::MAX)
}

/// Returns a reader for the tensor at a path. Fails if the value at the path isn't a tensor.
fn tensor<'a>(view: &MessageView<'a>, path: &FieldPath) -> Result<TensorReader<'a>, Error> {
    let root = value::typed(view)?;
    let target = path.resolve(root)?;
    let message = target.kind.message();
    let rule = message.and_then(|message| ALL.tensor_rule(message.full_name()));
    let text = path.display(Some(root));
    let Some(rule) = rule else {
        let rules = ALL.tensor_rules();
        let known: Vec<&str> = rules.iter().map(|rule| rule.message).collect();
        let message = format!("only a {} can be written as npy", known.join(" or "));
        return Err(Error::new(ErrorKind::InvalidPath, message).at_path(text));
    };
    if let Some(strings) = strings_at(view.clone(), path, text.clone(), rule)? {
        return Ok(strings);
    }
    tensor_at(view.clone(), path, text, rule)
}

/// Returns a reader for the tensor with this name. Strings are padded to the length of the longest
/// one, as NumPy requires.
fn array<'a>(opened: &'a Opened, name: &str) -> Result<TensorReader<'a>, Error> {
    let path = match opened.archive() {
        Some(_) => None,
        None => opened.tensors()?.into_iter().find_map(|info| {
            let of_strings = info.name == name && info.dtype == DType::String;
            match info.location {
                Location::Message { path, .. } if of_strings => Some(path),
                _ => None,
            }
        }),
    };
    match path {
        Some(path) => tensor(&opened.view()?, &path),
        None => opened.tensor(name),
    }
}
