//! Finding the arguments that name a command's inputs and outputs.

use std::path::{Path, PathBuf};

use proto_splitter::container::is_chunked;
use proto_splitter::directory::MODEL_STEM;

use super::{is_url, unknown_scheme};
use crate::args::{Command, SameDiffCommand, SchemaArgs};

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

/// Returns the arguments that name the command's inputs and outputs.
pub(super) fn arguments(command: &mut Command) -> Arguments<'_> {
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let (mut in_place, mut replaces) = (InPlace::Nothing, false);
    match command {
        Command::Ls(args) => {
            inputs.push(&mut args.file);
            in_place = InPlace::Chunked;
        }
        Command::Info(args) => {
            inputs.push(&mut args.file);
            in_place = InPlace::Chunked;
        }
        Command::Cat(args) => {
            inputs.push(&mut args.file);
            in_place = InPlace::Chunked;
        }
        Command::Get(args) => {
            replaces = args.force;
            in_place = opened(&args.reading.schema);
            inputs.push(&mut args.file);
            outputs.extend(&mut args.output);
        }
        Command::Tree(args) => {
            replaces = args.force;
            if args.diff.is_none() {
                in_place = InPlace::Chunked;
            }
            inputs.push(&mut args.file);
            inputs.extend(&mut args.diff);
            outputs.extend(&mut args.html);
            outputs.extend(&mut args.svg);
        }
        Command::Verify(args) => {
            inputs.extend(&mut args.file);
            inputs.extend(&mut args.against);
            // A signature is compared with the hashes of local files.
            if args.signature.is_none() {
                in_place = InPlace::Chunked;
            }
        }
        Command::Merge(args) => {
            replaces = args.force;
            // The input is only examined if the output is an object, since examining a pipe would
            // consume it.
            let goes_there = is_url(args.output()) && !is_url(args.input());
            // A plan must refer to the object, since other hosts couldn't write a local copy.
            let is_planned = args.parts.plan_only.is_some();
            // Recovering what is intact reads and writes local files.
            if args.skip_damaged {
                outputs.extend(&mut args.output);
            } else {
                in_place = InPlace::Chunked;
                if goes_there && !is_planned && !is_chunked(args.input()).unwrap_or(false) {
                    outputs.extend(&mut args.output);
                }
            }
            inputs.extend(&mut args.input);
        }
        Command::Split(args) => {
            replaces = args.force;
            // If the message's type is known from the arguments, or from the name of a SavedModel,
            // the input needs no other files.
            let schema = &args.schema;
            let is_typed = schema.message.is_some() || schema.delimited.is_some();
            if is_typed || is_model(args.input()) {
                in_place = InPlace::Message;
            }
            let is_planned = args.parts.plan_only.is_some();
            if !is_planned && (args.max_file_size.is_some() || args.input().is_dir()) {
                outputs.extend(&mut args.output);
            }
            inputs.extend(&mut args.input);
        }
        Command::Tensors(args) => {
            in_place = opened(&args.reading.schema);
            inputs.push(&mut args.file);
        }
        Command::Layout(args) => inputs.push(&mut args.file),
        Command::Schema(args) => {
            inputs.push(&mut args.file);
            outputs.extend(&mut args.output);
        }
        Command::Export(args) => {
            replaces = args.force;
            in_place = opened(&args.reading.schema);
            inputs.push(&mut args.file);
            outputs.push(&mut args.output);
        }
        Command::Pieces(args) => {
            inputs.push(&mut args.file);
            outputs.push(&mut args.output);
        }
        Command::Convert(args) => {
            replaces = args.force;
            inputs.push(&mut args.input);
            outputs.extend(&mut args.output);
            outputs.extend(&mut args.named);
        }
        Command::Externalize(args) => {
            replaces = args.force;
            inputs.push(&mut args.input);
            outputs.extend(&mut args.output);
        }
        Command::Internalize(args) => {
            replaces = args.force;
            inputs.push(&mut args.input);
            outputs.push(&mut args.output);
        }
        Command::Fingerprint(args) => inputs.push(&mut args.folder),
        Command::Sign(args) => {
            replaces = args.force;
            inputs.push(&mut args.model);
            outputs.extend(&mut args.output);
        }
        Command::Diff(args) => inputs.extend([&mut args.first, &mut args.second]),
        Command::Recompress(args) => {
            replaces = args.out.force;
            inputs.push(&mut args.file);
            outputs.push(&mut args.output);
        }
        Command::Replace(args) => {
            replaces = args.out.force;
            inputs.push(&mut args.file);
            inputs.extend(&mut args.value.with);
            outputs.push(&mut args.output);
        }
        Command::Remove(args) => {
            replaces = args.editing.out.force;
            inputs.push(&mut args.file);
            outputs.push(&mut args.editing.output);
        }
        Command::Insert(args) => {
            replaces = args.editing.out.force;
            inputs.push(&mut args.file);
            inputs.extend(&mut args.value.with);
            outputs.push(&mut args.editing.output);
        }
        Command::Strip(args) => {
            replaces = args.editing.out.force;
            inputs.push(&mut args.file);
            outputs.push(&mut args.editing.output);
        }
        Command::Edit(args) => {
            replaces = args.editing.out.force;
            inputs.push(&mut args.file);
            outputs.push(&mut args.editing.output);
        }
        Command::Append(args) => inputs.push(&mut args.tensor),
        Command::SameDiff(args) => {
            let out = match &mut args.command {
                SameDiffCommand::Tags(args) => {
                    inputs.push(&mut args.file);
                    None
                }
                SameDiffCommand::Extract(args) => {
                    inputs.push(&mut args.file);
                    Some(&mut args.out)
                }
                SameDiffCommand::Drop(args) => {
                    inputs.push(&mut args.file);
                    Some(&mut args.out)
                }
                SameDiffCommand::Rename(args) => {
                    inputs.push(&mut args.file);
                    Some(&mut args.out)
                }
                SameDiffCommand::Dedup(args) | SameDiffCommand::Gc(args) => {
                    inputs.push(&mut args.file);
                    Some(&mut args.out)
                }
                SameDiffCommand::Add(args) => {
                    inputs.push(&mut args.input);
                    inputs.extend(&mut args.onto);
                    Some(&mut args.out)
                }
                SameDiffCommand::Merge(args) => {
                    inputs.extend(&mut args.files);
                    Some(&mut args.out)
                }
            };
            if let Some(out) = out {
                replaces = out.force;
                outputs.push(&mut out.output);
            }
        }
        Command::Completions(_) | Command::Man(_) => {}
    }
    outputs.retain(|output| is_url(output) || unknown_scheme(output).is_some());
    Arguments {
        inputs,
        outputs,
        in_place,
        force: replaces,
    }
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
