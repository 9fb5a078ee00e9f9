//! `protosplit tree`.

mod archive;
mod changes;
mod diff;
mod diff_page;
mod page;
mod picture;
mod shown;
mod squarify;
mod text;

use std::collections::{BinaryHeap, HashSet};
use std::path::Path;

use prost_reflect::MessageDescriptor;
use proto_splitter::atomic::AtomicFile;
use proto_splitter::ops::entries;
use proto_splitter::path::PathQuery;
use proto_splitter::size_tree::{
    self, DEFAULT_TOP, SizeTree, TreeOptions, TreePlace, largest_named,
};
use proto_splitter::view::MessageView;
use proto_splitter::{Error, ErrorKind, member_names};

use crate::Exit;
use crate::args::{MinSize, TreeArgs};
use crate::failure::Failure;
use crate::get;
use crate::input::{Input, Opening};
use crate::output::Output;
use crate::printed::made_from;
use crate::size;
use crate::suggest;
use shown::{Entered, Limits, NAMED, Report};
use text::Look;

/// Default number of members and fields, and smallest size to show, in a table, a picture and, as far as there is space, a page.
const TEXT: (usize, MinSize) = (10, MinSize::Millionths(10_000));
const PICTURE: (usize, MinSize) = (200, MinSize::Bytes(0));
const PAGE: (usize, MinSize) = (5_000, MinSize::Bytes(0));

/// Largest number of members that a page can zoom into, each of which is measured separately, and the smallest share of the whole for each.
const MOST_ENTERED: usize = 200;
const LEAST_ENTERED: u64 = 1_000;

/// Largest number of members of a field to compare. Each takes some hundred bytes.
const COMPARED: usize = 10_000;

pub(crate) fn run(args: &TreeArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    if let Some(old) = &args.diff {
        return diff::run(args, old, output);
    }
    let input = Opening::of(&args.reading, output.objects())
        .looked_at(true)
        .progress(output.reading("reading"))
        .open(&args.file)?;
    if input.is_archive() {
        return of_archive(&input, args, output);
    }
    let (tree, entered) = measure(&input, input.descriptor(), args, |whole| {
        let limits = limits(args, whole, largest(args));
        TreeOptions::new()
            .top(limits.top.max(DEFAULT_TOP))
            .min_member_size(limits.min_size)
    })?;
    let done = show(args, output, tree.root.size, |limits| {
        Report::new(&input, &tree, &entered, limits)
    })?;
    match args.limit {
        Some(limit) if tree.root.size > limit => Err(Failure::bad(format!(
            "{}: {}",
            crate::input::shown(input.file()),
            over(&tree, limit)
        ))),
        _ => Ok(done),
    }
}

/// Says by how much a message is over a limit, and which parts of it are the largest.
fn over(tree: &SizeTree, limit: u64) -> String {
    let size = tree.root.size;
    let (shown, limit, more) = (size::show(size), size::show(limit), size - limit);
    let largest = largest_named(&tree.largest(NAMED));
    format!("{shown} are {more} bytes over the limit of {limit}{largest}")
}

/// Writes the report in the requested format.
fn show(
    args: &TreeArgs,
    output: &mut Output<'_>,
    whole: u64,
    report: impl Fn(Limits) -> Report,
) -> Result<Exit, Failure> {
    if let Some(target) = &args.html {
        let page = page::page(limits(args, whole, PAGE), &report)?;
        write(args, target, &page, output)?;
    }
    if let Some(target) = &args.svg {
        let picture = picture::svg(&report(limits(args, whole, PICTURE)));
        write(args, target, &picture, output)?;
    }
    let is_text = args.html.is_none() && args.svg.is_none();
    let limits = limits(args, whole, if is_text { TEXT } else { PICTURE });
    if args.json {
        output.json(&report(limits))?;
    } else if is_text {
        let look = Look {
            width: output.width(),
            full_paths: args.full_paths,
            bars: output.terminal().is_there(),
            colour: output.terminal().is_coloured(),
        };
        output.print(&report(limits).text(look))?;
    }
    Ok(Exit::Done)
}

/// Returns the limits for a format, from the arguments or its defaults.
fn limits(args: &TreeArgs, whole: u64, (top, least): (usize, MinSize)) -> Limits {
    Limits::of(args, whole, top, least)
}

/// Returns the widest limits of the requested formats.
fn largest(args: &TreeArgs) -> (usize, MinSize) {
    match (&args.html, &args.svg) {
        (Some(_), _) => PAGE,
        (None, Some(_)) => PICTURE,
        (None, None) => TEXT,
    }
}

/// Prints the entries of an archive by name.
fn of_archive(input: &Input, args: &TreeArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let entries = entries(input);
    let entries = entries.map_err(|error| Failure::of(input.path(), &error))?;
    let path = args.path.as_deref().unwrap_or_default();
    let file = crate::input::shown(input.path());
    let Some(tree) = archive::measure(&entries, path) else {
        return Err(Failure::bad(format!("{file}: there is no entry {path:?}")));
    };
    let report = |limits| archive::report(file.clone(), input.title(), path, &tree, limits);
    show(args, output, tree.size, report)
}

fn write(
    args: &TreeArgs,
    target: &Path,
    text: &str,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    if target == Path::new("-") {
        return output.print(text);
    }
    let failed = |error: Error| Failure::of(target, &error);
    let read = [Some(args.file.as_path()), args.diff.as_deref()];
    let made_from = made_from(read.into_iter().flatten());
    let file = AtomicFile::create(target, &made_from, args.force).map_err(failed)?;
    let written = file.write(|sink| Ok(sink.write_all(text.as_bytes())?));
    written.map_err(failed)
}

/// Measures the message or the requested part, and for a page its largest members. The limits depend on its size.
fn measure(
    input: &Input,
    root: Option<&MessageDescriptor>,
    args: &TreeArgs,
    keep: impl Fn(u64) -> TreeOptions,
) -> Result<(SizeTree, Entered), Failure> {
    let text = args.path.as_deref().unwrap_or_default();
    let failed = |error: &Error| failure(input, text, root, error);
    let query = PathQuery::parse(text, root).ok();
    let query = query.filter(|query| query.singular().0.as_path().is_none());
    let place = match &query {
        Some(_) => None,
        None => {
            let place = TreePlace::parse(text, root);
            Some(place.map_err(|error| failed(&error).into_usage())?)
        }
    };
    input.check_message()?;
    for target in args.html.iter().chain(&args.svg) {
        input.check_apart(target, None)?;
    }
    let view = input.typed_view_with(input.reading_options().descriptor(root.cloned()));
    let tree = view.and_then(|view| {
        let place = match (place, &query) {
            (None, Some(query)) => found(&view, query)?,
            (place, _) => place.unwrap_or(TreePlace::parse("", root)?),
        };
        let tree = walk(&view, &place, &keep)?;
        let entered = match (&args.html, args.depth) {
            (Some(_), None) => enter(&view, &tree, &keep)?,
            _ => Entered::new(),
        };
        Ok((tree, entered))
    });
    tree.map_err(|error| failed(&error))
}

/// Measures the largest members, and the largest within them, each separately.
fn enter(
    view: &MessageView<'_>,
    tree: &SizeTree,
    keep: impl Fn(u64) -> TreeOptions,
) -> Result<Entered, Error> {
    let whole = tree.root.size;
    let mut entered = Entered::new();
    let mut found = BinaryHeap::new();
    let mut seen = HashSet::new();
    let options = keep(whole).names(&member_names());
    let mut look_into = |tree: &SizeTree, found: &mut BinaryHeap<_>| {
        let mut open = vec![&tree.root];
        while let Some(node) = open.pop() {
            open.extend(&node.children);
            // A node without fields has nothing to zoom into.
            let members = node.members.iter().filter(|_| !node.children.is_empty());
            for member in members {
                let is_large = member.size.saturating_mul(LEAST_ENTERED) >= whole;
                if is_large && seen.insert(member.path.clone()) {
                    found.push((member.size, member.path.clone()));
                }
            }
        }
    };
    look_into(tree, &mut found);
    while let Some((_, path)) = found.pop() {
        if entered.len() >= MOST_ENTERED {
            break;
        }
        let inside = size_tree::measure(view, &path, &options)?;
        look_into(&inside, &mut found);
        entered.push(inside);
    }
    Ok(entered)
}

/// Returns the library's error about a path, with a suggestion if there is one.
fn failure(input: &Input, typed: &str, root: Option<&MessageDescriptor>, error: &Error) -> Failure {
    let failure = Failure::of(input.file(), error);
    match (error.kind(), root) {
        (ErrorKind::InvalidPath, None) => get::untyped(input, &failure),
        (ErrorKind::InvalidPath, Some(root)) => match suggest::place(typed, root) {
            Some(meant) => Failure::bad(format!("{}; did you mean `{meant}`?", failure.message())),
            None => failure,
        },
        _ => failure,
    }
}

/// Resolves a query that depends on the message's contents.
fn found(view: &MessageView<'_>, query: &PathQuery) -> Result<TreePlace, Error> {
    let root = view.descriptor();
    let (front, _) = query.singular();
    let rest = query.as_str().get(front.as_str().len()..);
    let path = get::find_one(view, &front)?.display(root);
    TreePlace::parse(&(path + rest.unwrap_or_default()), root)
}

fn walk(
    view: &MessageView<'_>,
    place: &TreePlace,
    keep: impl Fn(u64) -> TreeOptions,
) -> Result<SizeTree, Error> {
    let whole = view.size(&place.path)?.unwrap_or(0);
    let options = keep(whole).names(&member_names());
    size_tree::measure(view, &place.path, &options)?.focus(&place.below)
}
