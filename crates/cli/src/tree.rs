//! `protosplit tree`.

mod diff;
mod shown;
mod text;

use std::fs::File;
use std::path::Path;

use prost_reflect::MessageDescriptor;
use proto_splitter::container::ChunkedFile;
use proto_splitter::lazy::MessageView;
use proto_splitter::merge::MergeOptions;
use proto_splitter::tree::{SizeTree, TreeOptions, TreePlace};
use proto_splitter::{Error, ErrorKind, member_names};

use crate::Exit;
use crate::args::TreeArgs;
use crate::failure::Failure;
use crate::input::{self, Form, Input};
use crate::merge;
use crate::output::Output;
use crate::suggest;
use shown::Report;

/// How many members of a field a comparison knows. Each takes some hundred bytes.
const COMPARED: usize = 10_000;

pub(crate) fn run(args: &TreeArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    if let Some(old) = &args.diff {
        return diff::run(args, old, output);
    }
    let input = input::find(&args.file)?;
    let options = merge::options(&input, &args.reading)?;
    let least = |whole| args.min_size.of(whole);
    let tree = measure(&input, &options, args, |whole| {
        TreeOptions::new()
            .top(args.top)
            .min_member_size(least(whole))
    })?;
    let report = Report::new(&input, &options, &tree, args);
    if args.json {
        output.json(&report)
    } else {
        let width = output.width();
        output.print(&report.text(width))
    }?;
    Ok(Exit::Done)
}

/// Walks the message, or the part of it that is asked for. What is kept may depend on how large that is.
fn measure(
    input: &Input,
    options: &MergeOptions,
    args: &TreeArgs,
    keep: impl Fn(u64) -> TreeOptions,
) -> Result<SizeTree, Failure> {
    let text = args.path.as_deref().unwrap_or_default();
    let root = options.descriptor.as_ref();
    let failed = |error: &Error| failure(&input.file, text, root, error);
    let place = TreePlace::parse(text, root);
    let place = place.map_err(|error| failed(&error))?;
    let tree = match input.form {
        Form::Chunked => ChunkedFile::open(&input.file)
            .and_then(|file| walk(&file.view(options.clone()), &place, keep)),
        Form::Plain => {
            let file = open(&input.file)?;
            MessageView::of_plain(&file, options.clone()).and_then(|view| walk(&view, &place, keep))
        }
    };
    tree.map_err(|error| failed(&error))
}

/// What the library says about a path that was typed, with the one that was meant if that can be told.
fn failure(file: &Path, typed: &str, root: Option<&MessageDescriptor>, error: &Error) -> Failure {
    let failure = Failure::of(file, error);
    match (error.kind(), root) {
        (ErrorKind::InvalidPath, None) => Failure::bad(format!(
            "{} (without --message TYPE a path is in numbers)",
            failure.message()
        )),
        (ErrorKind::InvalidPath, Some(root)) => match suggest::place(typed, root) {
            Some(meant) => Failure::bad(format!("{}; did you mean `{meant}`?", failure.message())),
            None => failure,
        },
        _ => failure,
    }
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| Failure::io(path, &error))
}

fn walk(
    view: &MessageView<'_, File>,
    place: &TreePlace,
    keep: impl Fn(u64) -> TreeOptions,
) -> Result<SizeTree, Error> {
    let whole = view.size(&place.path)?.unwrap_or(0);
    let options = keep(whole).names(&member_names());
    view.tree(&place.path, &options)?.focus(&place.below)
}
