//! Finding the arguments that name a command's inputs and outputs.

use std::path::{Path, PathBuf};

use proto_splitter::container::is_chunked;
use proto_splitter::directory::MODEL_STEM;

use super::{is_url, unknown_scheme};
use crate::args::{Command, EditingArgs, SameDiffCommand, SchemaArgs};

/// The arguments of a command that can be URLs of objects.
pub(super) struct Arguments<'a> {
    /// Arguments that name inputs.
    pub(super) inputs: Vec<&'a mut PathBuf>,
    /// Arguments that name outputs, except for outputs that the command writes to a store without a
    /// local copy.
    pub(super) outputs: Vec<&'a mut PathBuf>,
    /// Kind of input that the command reads from a store without a local copy.
    pub(super) in_place: InPlace,
    /// True if the command may overwrite existing outputs.
    pub(super) force: bool,
}

/// The kind of input that a command reads directly from a store, rather than from a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InPlace {
    Nothing,
    /// Chunked files only.
    Chunked,
    /// Chunked files, and files whose format doesn't require local files.
    Opened,
    /// Any file. A file that isn't chunked is read as a message in one piece.
    Message,
}

impl<'a> Arguments<'a> {
    fn reading(inputs: impl IntoIterator<Item = &'a mut PathBuf>) -> Self {
        Arguments {
            inputs: inputs.into_iter().collect(),
            outputs: Vec::new(),
            in_place: InPlace::Nothing,
            force: false,
        }
    }

    fn in_place(self, in_place: InPlace) -> Self {
        Arguments { in_place, ..self }
    }

    fn writing(self, outputs: impl IntoIterator<Item = &'a mut PathBuf>, force: bool) -> Self {
        Arguments {
            outputs: outputs.into_iter().collect(),
            force,
            ..self
        }
    }
}

/// Returns the arguments that name the command's inputs and outputs.
pub(super) fn arguments(command: &mut Command) -> Arguments<'_> {
    let mut found = all(command);
    let may_be_remote = |output: &Path| is_url(output) || unknown_scheme(output).is_some();
    found.outputs.retain(|output| may_be_remote(output));
    found
}

fn all(command: &mut Command) -> Arguments<'_> {
    let reading = |input| Arguments::reading([input]);
    match command {
        Command::Ls(args) => reading(&mut args.file).in_place(InPlace::Chunked),
        Command::Info(args) => reading(&mut args.file).in_place(InPlace::Chunked),
        Command::Cat(args) => reading(&mut args.file).in_place(InPlace::Chunked),
        Command::Get(args) => reading(&mut args.file)
            .in_place(opened(&args.reading.schema))
            .writing(&mut args.output, args.force),
        Command::Tree(args) => {
            let in_place = match args.diff {
                Some(_) => InPlace::Nothing,
                None => InPlace::Chunked,
            };
            Arguments::reading([&mut args.file].into_iter().chain(&mut args.diff))
                .in_place(in_place)
                .writing(args.html.iter_mut().chain(&mut args.svg), args.force)
        }
        Command::Verify(args) => {
            // A signature is compared with the hashes of local files.
            let in_place = match args.signature {
                Some(_) => InPlace::Nothing,
                None => InPlace::Chunked,
            };
            Arguments::reading(args.file.iter_mut().chain(&mut args.against)).in_place(in_place)
        }
        Command::Merge(args) => {
            // The input is only examined if the output is an object, since examining a pipe would
            // consume it.
            let goes_there = is_url(args.output()) && !is_url(args.input());
            // A plan must refer to the object, since other hosts couldn't write a local copy.
            let is_planned = args.parts.plan_only.is_some();
            // Recovering what is intact reads and writes local files.
            let in_place = if args.skip_damaged {
                InPlace::Nothing
            } else {
                InPlace::Chunked
            };
            let is_copied = args.skip_damaged
                || (goes_there && !is_planned && !is_chunked(args.input()).unwrap_or(false));
            let output = args.output.as_mut().filter(|_| is_copied);
            Arguments::reading(&mut args.input)
                .in_place(in_place)
                .writing(output, args.force)
        }
        Command::Split(args) => {
            // If the message's type is known from the arguments, or from the name of a SavedModel,
            // the input needs no other files.
            let schema = &args.schema;
            let is_typed = schema.message.is_some() || schema.delimited.is_some();
            let in_place = if is_typed || is_model(args.input()) {
                InPlace::Message
            } else {
                InPlace::Nothing
            };
            let is_planned = args.parts.plan_only.is_some();
            let is_copied = !is_planned && (args.max_file_size.is_some() || args.input().is_dir());
            let output = args.output.as_mut().filter(|_| is_copied);
            Arguments::reading(&mut args.input)
                .in_place(in_place)
                .writing(output, args.force)
        }
        Command::Tensors(args) => reading(&mut args.file).in_place(opened(&args.reading.schema)),
        Command::Layout(args) => reading(&mut args.file),
        Command::Schema(args) => reading(&mut args.file).writing(&mut args.output, false),
        Command::Export(args) => reading(&mut args.file)
            .in_place(opened(&args.reading.schema))
            .writing([&mut args.output], args.force),
        Command::Pieces(args) => reading(&mut args.file).writing([&mut args.output], false),
        Command::Convert(args) => {
            let outputs = args.output.iter_mut().chain(&mut args.named);
            reading(&mut args.input).writing(outputs, args.force)
        }
        Command::Externalize(args) => {
            reading(&mut args.input).writing(&mut args.output, args.force)
        }
        Command::Internalize(args) => {
            reading(&mut args.input).writing([&mut args.output], args.force)
        }
        Command::Fingerprint(args) => reading(&mut args.folder),
        Command::Sign(args) => reading(&mut args.model).writing(&mut args.output, args.force),
        Command::Diff(args) => Arguments::reading([&mut args.first, &mut args.second]),
        Command::Recompress(args) => {
            reading(&mut args.file).writing([&mut args.output], args.out.force)
        }
        Command::Replace(args) => {
            Arguments::reading([&mut args.file].into_iter().chain(&mut args.value.with))
                .writing([&mut args.output], args.out.force)
        }
        Command::Remove(args) => edited([&mut args.file], &mut args.editing),
        Command::Insert(args) => {
            let inputs = [&mut args.file].into_iter().chain(&mut args.value.with);
            edited(inputs, &mut args.editing)
        }
        Command::Strip(args) => edited([&mut args.file], &mut args.editing),
        Command::Edit(args) => edited([&mut args.file], &mut args.editing),
        Command::Append(args) => reading(&mut args.tensor),
        Command::SameDiff(args) => of_samediff(&mut args.command),
        Command::Completions(_) | Command::Man(_) => Arguments::reading([]),
    }
}

fn edited<'a>(
    inputs: impl IntoIterator<Item = &'a mut PathBuf>,
    args: &'a mut EditingArgs,
) -> Arguments<'a> {
    Arguments::reading(inputs).writing([&mut args.output], args.out.force)
}

fn of_samediff(command: &mut SameDiffCommand) -> Arguments<'_> {
    let reading = |input| Arguments::reading([input]);
    let (arguments, out) = match command {
        SameDiffCommand::Tags(args) => return reading(&mut args.file),
        SameDiffCommand::Extract(args) => (reading(&mut args.file), &mut args.out),
        SameDiffCommand::Drop(args) => (reading(&mut args.file), &mut args.out),
        SameDiffCommand::Rename(args) => (reading(&mut args.file), &mut args.out),
        SameDiffCommand::Dedup(args) | SameDiffCommand::Gc(args) => {
            (reading(&mut args.file), &mut args.out)
        }
        SameDiffCommand::Add(args) => {
            let inputs = [&mut args.input].into_iter().chain(&mut args.onto);
            (Arguments::reading(inputs), &mut args.out)
        }
        SameDiffCommand::Merge(args) => (Arguments::reading(&mut args.files), &mut args.out),
    };
    arguments.writing([&mut out.output], out.force)
}

/// Returns the kind of remote input that a command that supports all formats reads in place. With
/// `--program` or `--input-format`, only chunked files are read in place. Other inputs are first
/// copied to local files, since a companion has to be next to the input, and the format may require
/// local files.
fn opened(schema: &SchemaArgs) -> InPlace {
    let companion = &schema.companion;
    match (&companion.program, &companion.input_format) {
        (None, None) => InPlace::Opened,
        _ => InPlace::Chunked,
    }
}

/// Returns true if a file has the name of a SavedModel's message.
fn is_model(file: &Path) -> bool {
    file.file_stem().is_some_and(|stem| stem == MODEL_STEM)
}
