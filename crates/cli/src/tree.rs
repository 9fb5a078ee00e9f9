//! The `protosplit tree` command.

mod changes;
mod diff_page;
mod page;
mod picture;
mod squarify;
mod text;

use std::path::Path;

use prost_reflect::MessageDescriptor;
use proto_splitter::atomic::AtomicFile;
use proto_splitter::ops::{
    LeastSize, MeasuredTree, TreeLimits, TreeOptions, TreeOrder, TreeReport, tree_diff,
};
use proto_splitter::path::PathQuery;
use proto_splitter::size_tree::{NAMED, TreePlace, largest_named};
use proto_splitter::{Error, ErrorKind};

use crate::Exit;
use crate::args::TreeArgs;
use crate::display_name;
use crate::failure::Failure;
use crate::get;
use crate::input::Input;
use crate::opening::Opening;
use crate::output::Output;
use crate::output_file::made_from;
use crate::place;
use crate::size;
use crate::suggest;
use text::Look;

/// Default limits for a table: the maximum number of elements to list for each field and of fields
/// to list for each message, and the minimum size of a listed part.
const TEXT: (usize, LeastSize) = (10, LeastSize::Millionths(10_000));
/// Default limits for a picture. [`TEXT`] explains the two values.
const PICTURE: (usize, LeastSize) = (200, LeastSize::Bytes(0));
/// Default limits for a page. [`TEXT`] explains the two values. If a page becomes too large, fewer
/// elements and fields are shown.
const PAGE: (usize, LeastSize) = (5_000, LeastSize::Bytes(0));

pub(crate) fn run(args: &TreeArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    if let Some(old) = &args.diff {
        return run_diff(args, old, output);
    }
    let input = Opening::of(&args.reading, output.objects())
        .looked_at(true)
        .progress(output.reading("reading"))
        .open(&args.file)?;
    output.reads(input.files())?;
    let options = TreeOptions::new()
        .start(path(args))
        .limits(limits(args, largest(args)))
        .enter_members(args.html.is_some() && args.depth.is_none());
    let tree = if input.is_archive() {
        MeasuredTree::of(&input, &options).map_err(|error| Failure::of(input.path(), &error))?
    } else {
        check(&input, input.descriptor(), args)?;
        let measured = MeasuredTree::of(&input, &options);
        measured.map_err(|error| failure(&input, args, input.descriptor(), error))?
    };
    let done = show(args, output, |limits| {
        let mut report = tree.report(limits);
        if input.is_archive() {
            report.file = input.path().to_owned();
        }
        report
    })?;
    match args.limit {
        Some(limit) if tree.size() > limit && !input.is_archive() => {
            let name = display_name::shown(input.file());
            let failure = Failure::bad(format!("{name}: {}", over(&tree, limit)));
            Ok(output.fail(&failure))
        }
        _ => Ok(done),
    }
}

/// Returns the path of the part to measure; empty for the whole input.
fn path(args: &TreeArgs) -> &str {
    args.path.as_deref().unwrap_or_default()
}

fn run_diff(args: &TreeArgs, old: &Path, output: &mut Output<'_>) -> Result<Exit, Failure> {
    place::check_single_standard(&[old, &args.file])?;
    let [old, new] = Opening::of(&args.reading, output.objects())
        .progress(output.reading("reading"))
        .open_both([old, &args.file])?;
    output.reads(old.files().iter().chain(new.files()))?;
    let old_type = old.descriptor().or(new.descriptor());
    check(&old, old_type, args)?;
    check(&new, new.descriptor(), args)?;
    let options = TreeOptions::new()
        .start(path(args))
        .limits(limits(args, TEXT));
    let report = tree_diff(&old, &new, &options).map_err(|error| {
        if error.file() == Some(old.file()) {
            failure(&old, args, old_type, error)
        } else {
            failure(&new, args, new.descriptor(), error)
        }
    })?;
    if let Some(target) = &args.html {
        write(args, target, &diff_page::page(&report), output)?;
    }
    if args.html.is_none() || args.json {
        let full_paths = args.full_paths;
        output.report(args.json, &report, |report, width| {
            changes::text(report, width, full_paths)
        })?;
    }
    Ok(Exit::Done)
}

/// Returns the text of the error about a protobuf message that is larger than `limit` bytes. The
/// text lists the largest parts of the protobuf message.
fn over(tree: &MeasuredTree, limit: u64) -> String {
    let size = tree.size();
    let (shown, limit, more) = (size::show(size), size::show(limit), size - limit);
    let largest = largest_named(&tree.largest(NAMED));
    format!("{shown} are {more} bytes over the limit of {limit}{largest}")
}

/// Writes the report in the formats that the arguments request.
fn show(
    args: &TreeArgs,
    output: &mut Output<'_>,
    report: impl Fn(&TreeLimits) -> TreeReport,
) -> Result<Exit, Failure> {
    if let Some(target) = &args.html {
        let page = page::page(limits(args, PAGE), &report)?;
        write(args, target, &page, output)?;
    }
    if let Some(target) = &args.svg {
        let picture = picture::svg(&report(&limits(args, PICTURE)));
        write(args, target, &picture, output)?;
    }
    let is_text = args.html.is_none() && args.svg.is_none();
    let limits = limits(args, if is_text { TEXT } else { PICTURE });
    if args.json {
        output.json(&report(&limits))?;
    } else if is_text {
        let look = Look {
            width: output.width(),
            full_paths: args.full_paths,
            bars: output.terminal().is_there(),
            color: output.terminal().is_colored(),
        };
        output.print(&text::text(&report(&limits), look))?;
    }
    Ok(Exit::Done)
}

/// The limits that the user requested. A limit that is `None` has the output format's default.
#[derive(Clone, Copy, Default)]
pub(crate) struct AskedLimits {
    pub(crate) depth: Option<usize>,
    pub(crate) top: Option<usize>,
    pub(crate) min_size: Option<LeastSize>,
    pub(crate) order: TreeOrder,
}

impl AskedLimits {
    /// Returns the limits for a table, with the table's defaults for limits that weren't requested.
    pub(crate) fn of_table(self) -> TreeLimits {
        self.or(TEXT)
    }

    /// Returns the limits for a page, with the page's defaults for limits that weren't requested.
    pub(crate) fn of_page(self) -> TreeLimits {
        self.or(PAGE)
    }

    /// Returns the limits, with the given defaults for limits that weren't requested. If the user
    /// requested a maximum number of parts, or an order other than by size, the default minimum
    /// size is 0.
    fn or(self, (top, least): (usize, LeastSize)) -> TreeLimits {
        let is_asked_for = self.top.is_some() || self.order != TreeOrder::Size;
        let least = if is_asked_for {
            LeastSize::Bytes(0)
        } else {
            least
        };
        TreeLimits::new()
            .depth(self.depth.unwrap_or(usize::MAX))
            .top(self.top.unwrap_or(top))
            .min_size(self.min_size.unwrap_or(least))
            .order(self.order)
    }
}

/// Returns the requested limits, with the given defaults for limits that weren't requested.
fn limits(args: &TreeArgs, defaults: (usize, LeastSize)) -> TreeLimits {
    let asked = AskedLimits {
        depth: args.depth,
        top: args.top,
        min_size: args.min_size,
        order: TreeOrder::from(args.sort),
    };
    asked.or(defaults)
}

/// Formats a tree as a table of unlimited width, without colors.
pub(crate) fn plain_text(report: &TreeReport) -> String {
    text::text(report, Look::default())
}

/// Returns a page that shows the largest parts of a tree: all parts within the limits or, if those
/// are too many for a page, fewer.
pub(crate) fn page(tree: &MeasuredTree, limits: TreeLimits) -> Result<String, Failure> {
    page::page(limits, |limits| tree.report(limits))
}

/// Returns the default limits of the output format that shows the most parts, among the requested
/// formats.
fn largest(args: &TreeArgs) -> (usize, LeastSize) {
    match (&args.html, &args.svg) {
        (Some(_), _) => PAGE,
        (None, Some(_)) => PICTURE,
        (None, None) => TEXT,
    }
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
    let made_from = made_from(read.into_iter().flatten(), output.read_files());
    let file = AtomicFile::create(target, &made_from, args.force).map_err(failed)?;
    let written = file.write(|sink| Ok(sink.write_all(text.as_bytes())?));
    written.map_err(failed)
}

/// Fails if the path can't be parsed, the input has no message, or an output is one of the input's
/// files.
fn check(input: &Input, root: Option<&MessageDescriptor>, args: &TreeArgs) -> Result<(), Failure> {
    if query(path(args), root).is_none() {
        TreePlace::parse(path(args), root)
            .map_err(|error| failure(input, args, root, error).into_usage())?;
    }
    input.check_message()?;
    for target in args.html.iter().chain(&args.svg) {
        input.check_apart(target)?;
    }
    Ok(())
}

/// Returns the path as a query, if the values that it selects depend on the message's contents;
/// otherwise `None`.
fn query(path: &str, root: Option<&MessageDescriptor>) -> Option<PathQuery> {
    let query = PathQuery::parse(path, root).ok();
    query.filter(|query| query.singular().0.as_path().is_none())
}

/// Converts an error about a path to a failure. If possible, the failure suggests a similar path.
fn failure(
    input: &Input,
    args: &TreeArgs,
    root: Option<&MessageDescriptor>,
    error: Error,
) -> Failure {
    let error = match query(path(args), root) {
        Some(query) => get::with_meant_in(input, query.singular().0.as_str(), error),
        None => error,
    };
    let failure = Failure::of(input.file(), &error);
    match (error.kind(), root) {
        (ErrorKind::InvalidPath, None) => get::untyped(input, &failure),
        (ErrorKind::InvalidPath, Some(root)) => match suggest::place(path(args), root) {
            Some(meant) => Failure::bad(format!("{}; did you mean `{meant}`?", failure.message())),
            None => failure,
        },
        _ => failure,
    }
}
