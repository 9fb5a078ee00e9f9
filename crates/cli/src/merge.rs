//! The `protosplit merge` command.

mod multi_file;
mod salvaged;

use std::path::{Path, PathBuf};

use proto_splitter::Error;
use proto_splitter::merge::{MergeOptions, Merged};
use proto_splitter::parts::PartsPlan;
use proto_splitter::path::FieldPath;
use proto_splitter::size_tree::{LargePart, largest, largest_named};
use serde::Serialize;

use crate::Exit;
use crate::args::MergeArgs;
use crate::display_name;
use crate::failure::Failure;
use crate::input::Input;
use crate::opening::Opening;
use crate::output::Output;
use crate::parts;
use crate::place::{self, PLAIN, STANDARD};
use crate::remote;
use crate::saving::Saving;
use crate::size;

/// Maximum size of a message that protobuf's own parsers accept, in bytes.
const LARGEST_FOR_OTHERS: u64 = i32::MAX.unsigned_abs() as u64;

/// The report of a merge, as printed with `--json`.
#[derive(Debug, Serialize)]
struct Report {
    output: String,
    input: String,
    /// Full name of the message's type; `None` if unknown.
    message: Option<String>,
    /// True if the merged bytes are the original bytes; `None` if the file doesn't record a
    /// checksum of the original bytes.
    byte_exact: Option<bool>,
    output_bytes: u64,
    crc32c: String,
    /// True if the input was in chunks.
    split: bool,
}

pub(crate) fn run(args: &MergeArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let (parts, threads, limits) = (&args.parts, &args.threads, args.reading.limits());
    if let Some(ended) = parts::run(parts, "merge", threads, limits, args.json, output) {
        return ended;
    }
    // The input is opened before anything is written, so that a signal can end the process at once
    // if the input is a pipe that blocks.
    let place = place::locate(args.input(), &args.reading.schema.companion)?;
    let streams = args.output() == Path::new(STANDARD);
    if streams && args.json {
        let message = "--json: the message is written to standard output";
        return Err(Failure::usage(message));
    }
    // An interrupted write to a pipe leaves nothing to clean up. Writing to a pipe may also block
    // forever, so a signal has to end the process at once.
    let progress = if streams {
        output.reading("merging")
    } else {
        output.writing("merging")
    };
    if args.skip_damaged {
        return salvaged::run(place, args, progress, output);
    }
    let input = Opening::of(&args.reading, output.objects())
        .with(|options| options.threads(args.threads.threads))
        .progress(progress)
        .open_at(place)?;
    let input = if args.canonical {
        input.canonical()?
    } else {
        input
    };
    if let Some(path) = &parts.plan_only {
        let plan = || plan(args, &input);
        return parts::write_plan(plan, path, args.json, output);
    }
    if input.is_special() {
        return multi_file::run(&input, args, output);
    }
    if streams {
        let written = input.write_to(output);
        written.map_err(|error| Failure::of(input.file(), &error))?;
        return Ok(Exit::Done);
    }
    if remote::is_url(args.output()) {
        return to_store(&input, args, output);
    }
    if place::is_stream(args.input()) {
        input.require_chunks()?;
    }
    let merge = |target: &Path, force: bool| {
        let options = MergeOptions::from(input.reading_options()).force(force);
        let merged = input.merge_to_file(target, &options);
        merged.map_err(|error| Failure::of(input.file(), &error))
    };
    let (path, merged) = save(args, input.folder(), merge, output)?;
    let target = path.unwrap_or_else(|| args.output().to_owned());
    warn(&target, merged.size, &input, output);
    let report = Report::new(&target, &input, merged);
    output.done(args.json, &report, |report, _| report.text())
}

/// Writes the merged message with `merge`: to a copy of the input's folder if there is one, unless
/// the output is named as a file. Returns the path of the file in the copy.
fn save<T>(
    args: &MergeArgs,
    folder: Option<&Path>,
    merge: impl Fn(&Path, bool) -> Result<T, Failure>,
    output: &mut Output<'_>,
) -> Result<(Option<PathBuf>, T), Failure> {
    let saving = Saving {
        target: args.output(),
        force: args.force,
        keep_fingerprint: args.keep_fingerprint,
    };
    let to_file = args.output().extension().is_some_and(|end| end == PLAIN);
    saving.place(folder.filter(|_| !to_file), PLAIN, merge, output)
}

/// Plans a merge in parts, which several hosts can run.
fn plan(args: &MergeArgs, input: &Input) -> Result<PartsPlan, Failure> {
    if place::is_stream(args.input()) || args.output() == Path::new(STANDARD) {
        return Err(parts::only_chunked("merge"));
    }
    parts::plan_merge(input, args.output(), args.force, args.parts.parts)
}

/// Writes the merged message to an object in a store, without a local copy.
fn to_store(input: &Input, args: &MergeArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let failed = |error: Error| Failure::of(input.file(), &error);
    let file = input.require_chunks()?;
    let size = file.trailer().metadata().source_size.unwrap_or(0);
    let merged = remote::write_object(args.output(), args.force, size, |mut target| {
        let merged = file.merge_to(&mut target, &input.reading_options());
        merged.map_err(failed)
    })?;
    warn(args.output(), merged.size, input, output);
    let report = Report::new(args.output(), input, merged);
    output.done(args.json, &report, |report, _| report.text())
}

/// Warns if the merged message is too large for protobuf's own parsers.
fn warn(target: &Path, bytes: u64, input: &Input, output: &mut Output<'_>) {
    if bytes > LARGEST_FOR_OTHERS {
        // The merge has succeeded, so an error here only means that the warning doesn't name the
        // largest parts.
        let view = input.typed_view_with(input.reading_options());
        let parts = view.and_then(|view| largest(&view, &FieldPath::root()));
        output.note(warning(target, bytes, &parts.unwrap_or_default()));
    }
}

/// Returns the warning about a merged message that is too large for protobuf's own parsers.
fn warning(target: &Path, bytes: u64, parts: &[LargePart]) -> String {
    let (target, shown, largest) = (target.display(), size::show(bytes), largest_named(parts));
    format!(
        "warning: {target} has {shown}: other readers refuse a message over 2 GiB in one piece{largest}"
    )
}

impl Report {
    fn new(target: &Path, input: &Input, merged: Merged) -> Self {
        let known = input.descriptor().map(|known| known.full_name().to_owned());
        Report {
            output: target.display().to_string(),
            input: display_name::shown(input.file()),
            message: merged.message_type.or(known),
            byte_exact: merged.byte_exact,
            output_bytes: merged.size,
            crc32c: format!("{:08x}", merged.crc32c),
            split: merged.chunked,
        }
    }

    fn text(&self) -> String {
        let (output, bytes) = (&self.output, size::show(self.output_bytes));
        let what = match (self.split, self.byte_exact) {
            (false, _) => "not split, so it was copied unchanged",
            (true, Some(true)) => "the same bytes that were split",
            (true, Some(false)) => "equal to the original message, but not byte-exact",
            (true, None) => "merged, but not compared: the file doesn't describe the original",
        };
        format!("{output}: {bytes}: {what}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_refuse_is_warned_about() {
        let parts = [LargePart::new("a", 2_147_483_000), LargePart::new("b", 648)];
        assert_eq!(
            warning(Path::new("a.pb"), 2_147_483_648, &parts),
            "warning: a.pb has 2.0 GiB: other readers refuse a message over 2 GiB in one piece; the largest: a 2.0 GiB, b 648 B"
        );
    }
}
