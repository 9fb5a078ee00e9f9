//! Which arguments of each command name inputs and outputs.

use std::path::PathBuf;

use proto_splitter::container::is_chunked;

use super::is_url;
use crate::args::Command;

/// The arguments of a command that may be URLs.
pub(super) struct Arguments<'a> {
    /// What it reads.
    pub(super) inputs: Vec<&'a mut PathBuf>,
    /// What it writes, unless it writes to a store as it goes.
    pub(super) outputs: Vec<&'a mut PathBuf>,
    /// Whether it reads a file in chunks where it is.
    pub(super) reads_in_place: bool,
    /// Whether it replaces what is there.
    pub(super) force: bool,
}

/// The arguments of a command that name inputs and outputs.
pub(super) fn arguments(command: &mut Command) -> Arguments<'_> {
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let (mut reads_in_place, mut replaces) = (false, false);
    match command {
        Command::Ls(args) => {
            inputs.push(&mut args.file);
            reads_in_place = true;
        }
        Command::Info(args) => {
            inputs.push(&mut args.file);
            reads_in_place = true;
        }
        Command::Cat(args) => {
            inputs.push(&mut args.file);
            reads_in_place = true;
        }
        Command::Get(args) => {
            inputs.push(&mut args.file);
            outputs.extend(&mut args.output);
            reads_in_place = true;
        }
        Command::Tree(args) => {
            reads_in_place = args.diff.is_none();
            inputs.push(&mut args.file);
            inputs.extend(&mut args.diff);
            outputs.extend(&mut args.html);
            outputs.extend(&mut args.svg);
        }
        Command::Verify(args) => {
            inputs.extend(&mut args.file);
            inputs.extend(&mut args.against);
            reads_in_place = true;
        }
        Command::Merge(args) => {
            replaces = args.force;
            reads_in_place = true;
            // Only then: looking into a pipe would empty it.
            let goes_there = is_url(args.output()) && !is_url(args.input());
            if goes_there && !is_chunked(args.input()).unwrap_or(false) {
                outputs.extend(&mut args.output);
            }
            inputs.extend(&mut args.input);
        }
        Command::Split(args) => {
            replaces = args.force;
            if args.max_file_size.is_some() || args.input().is_dir() {
                outputs.extend(&mut args.output);
            }
            inputs.extend(&mut args.input);
        }
        Command::Tensors(args) => inputs.push(&mut args.file),
        Command::Layout(args) => inputs.push(&mut args.file),
        Command::Schema(args) => {
            inputs.push(&mut args.file);
            outputs.extend(&mut args.output);
        }
        Command::Export(args) => {
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
            inputs.push(&mut args.input);
            outputs.extend(&mut args.output);
        }
        Command::Internalize(args) => {
            inputs.push(&mut args.input);
            outputs.push(&mut args.output);
        }
        Command::Fingerprint(args) => inputs.push(&mut args.folder),
        Command::Diff(args) => inputs.extend([&mut args.first, &mut args.second]),
        Command::Recompress(args) => {
            inputs.push(&mut args.file);
            outputs.push(&mut args.output);
        }
        Command::Replace(args) => {
            inputs.push(&mut args.file);
            inputs.extend(&mut args.value.with);
            outputs.push(&mut args.output);
        }
        Command::Remove(args) => {
            inputs.push(&mut args.file);
            outputs.push(&mut args.editing.output);
        }
        Command::Insert(args) => {
            inputs.push(&mut args.file);
            inputs.extend(&mut args.value.with);
            outputs.push(&mut args.editing.output);
        }
        Command::Strip(args) => {
            inputs.push(&mut args.file);
            outputs.push(&mut args.editing.output);
        }
        Command::Edit(args) => {
            inputs.push(&mut args.file);
            outputs.push(&mut args.editing.output);
        }
        Command::SameDiff(_) | Command::Completions(_) | Command::Man(_) => {}
    }
    outputs.retain(|output| is_url(output));
    Arguments {
        inputs,
        outputs,
        reads_in_place,
        force: replaces,
    }
}
