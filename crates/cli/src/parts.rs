//! `--plan-only`, `--plan --part` and `--plan --commit`, which divide work among several hosts.

use std::num::NonZeroUsize;
use std::path::Path;

use proto_splitter::formats::ALL;
use proto_splitter::merge::{DEFAULT_MAX_FILES, Limits, MergeOptions};
use proto_splitter::parts::{
    CommitReport, FinishedPart, PartOptions, PartsPlan, PlanFile, PlanReport, Planner,
};
use proto_splitter::split::{Source, SplitOptions};

use crate::Exit;
use crate::args::{PartsArgs, ThreadsArgs};
use crate::display_name::shown;
use crate::failure::Failure;
use crate::input::Input;
use crate::output::Output;
use crate::remote;
use crate::sanitize::one_line;
use crate::size;

/// Default for the maximum number of parts in a plan.
const DEFAULT_PARTS: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// Creates the error for an input that can't be processed in parts, since it isn't a chunked file.
pub(crate) fn only_chunked(verb: &str) -> Failure {
    Failure::usage(format!("hosts can only share the {verb} of a .cpb file"))
}

/// Returns a planner for at most the given number of parts. If no number is given, the maximum is
/// [`DEFAULT_PARTS`].
fn planner(parts: Option<NonZeroUsize>) -> Planner {
    Planner::new(parts.unwrap_or(DEFAULT_PARTS)).objects(remote::stores())
}

/// Plans the split of a file or object into `PREFIX.cpb`, in parts that several hosts can run.
pub(crate) fn plan_split(
    (input, source): (&Input, &Source),
    prefix: &Path,
    options: &SplitOptions,
    parts: Option<NonZeroUsize>,
) -> Result<PartsPlan, Failure> {
    // With a limit on the size of files, one part is enough to start with: the planner adds a part
    // for each file that is needed.
    let one = options.get_max_file_size().map(|_| NonZeroUsize::MIN);
    let planner = planner(parts.or(one));
    let splitter = ALL.splitter(source.descriptor().full_name());
    let file = input.file();
    let plan = match file.to_str().filter(|_| remote::is_url(file)) {
        Some(name) => {
            let object = (name, source.descriptor().clone());
            planner.split_object(splitter, object, prefix, options)
        }
        None => planner.split(splitter, source, prefix, options),
    };
    plan.map_err(|error| Failure::of(file, &error))
}

/// Plans the merge of a chunked file or object, in parts that several hosts can run.
pub(crate) fn plan_merge(
    input: &Input,
    target: &Path,
    force: bool,
    parts: Option<NonZeroUsize>,
) -> Result<PartsPlan, Failure> {
    if input.is_special() {
        return Err(only_chunked("merge"));
    }
    input.require_chunks()?;
    let options = MergeOptions::from(input.reading_options()).force(force);
    let plan = planner(parts).merge(input.file(), target, options);
    plan.map_err(|error| Failure::of(input.file(), &error))
}

/// Plans the verification of a chunked file or object, in parts that several hosts can run.
pub(crate) fn plan_verify(
    input: &Input,
    parts: Option<NonZeroUsize>,
) -> Result<PartsPlan, Failure> {
    if input.is_told() {
        return Err(only_chunked("verification"));
    }
    input.require_chunks()?;
    let plan = planner(parts).verify(input.file(), &input.reading_options());
    plan.map_err(|error| Failure::of(input.file(), &error))
}

/// Makes a plan, writes it to a file, and prints a report about it. Fails before planning if the
/// file is there and isn't a plan, since planning a merge takes space on the disk.
pub(crate) fn write_plan(
    plan: impl FnOnce() -> Result<PartsPlan, Failure>,
    path: &Path,
    json: bool,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let options = PartOptions::new().objects(remote::stores());
    PlanFile::check_place(path, &options)?;
    let report = PlanFile::write(path, plan()?, &options)?.report();
    output.report(json, &report, |report, _| planned_text(report))?;
    if report.verb == "split" && report.parts > DEFAULT_MAX_FILES {
        let parts = report.parts;
        output.note(format_args!(
            "by default, readers open at most {DEFAULT_MAX_FILES} files: use --max-files {parts}"
        ));
    }
    Ok(Exit::Done)
}

/// Runs one part of the plan in `args`, or commits the plan. Returns `None` if `args` contains no
/// plan.
pub(crate) fn run(
    args: &PartsArgs,
    verb: &'static str,
    threads: &ThreadsArgs,
    limits: Limits,
    json: bool,
    output: &mut Output<'_>,
) -> Option<Result<Exit, Failure>> {
    let path = args.plan.as_deref()?;
    let options = PartOptions::new()
        .threads(threads.threads)
        .limits(limits)
        .objects(remote::stores())
        .reread(!args.no_reread)
        .progress(output.writing(match verb {
            "split" => "splitting",
            "merge" => "merging",
            _ => "verifying",
        }));
    Some(execute(args, path, verb, &options, json, output))
}

fn execute(
    args: &PartsArgs,
    path: &Path,
    verb: &'static str,
    options: &PartOptions,
    json: bool,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let file = PlanFile::read(path, options)?;
    file.check_verb(verb).map_err(|error| {
        let other = file.plan().verb();
        Failure::usage(format!("{error}: use `protosplit {other}`"))
    })?;
    match (args.part, &args.commit) {
        (Some(part), _) => {
            let done = file.run(part, args.report.as_deref(), options)?;
            output.report(json, &done, |done, _| part_text(done))?;
            for problem in &done.problems {
                output.note(problem);
            }
            Ok(Exit::Done)
        }
        (None, Some(reports)) => {
            let done = file.commit(reports, options)?;
            output.report(json, &done, |done, _| committed_text(done))?;
            for problem in &done.problems {
                output.error(problem);
            }
            Ok(Exit::of(done.problems.is_empty()))
        }
        (None, None) => {
            let message = "--plan: use --part K to run a part, or --commit to combine the parts";
            Err(Failure::usage(message))
        }
    }
}

fn planned_text(report: &PlanReport) -> String {
    let (plan, input) = (shown(&report.plan), shown(&report.input));
    let (verb, parts) = (report.verb, size::count(report.parts, "part"));
    format!("{plan}: {verb} {input} in {parts}\n")
}

fn part_text(done: &FinishedPart) -> String {
    let FinishedPart { part, parts, .. } = done;
    let to = match &done.file {
        Some(file) => format!(" to {}", one_line(file)),
        None => String::new(),
    };
    let (bytes, report) = (size::show(done.bytes), shown(&done.report));
    format!("part {part} of {parts}: {bytes}{to}; report: {report}\n")
}

fn committed_text(done: &CommitReport) -> String {
    let (bytes, parts) = (size::show(done.bytes), size::count(done.parts, "part"));
    let exact = match done.byte_exact {
        Some(true) => "byte-exact",
        Some(false) => "equal as a message, not byte-exact",
        None => "not known to be byte-exact",
    };
    let before = if done.was_there {
        ", committed before"
    } else {
        ""
    };
    match &done.output {
        Some(file) if done.verb == "split" => {
            let file = one_line(&shown(file));
            let root = done.merkle_root.map(|root| format!("; Merkle root {root}"));
            let root = root.unwrap_or_default();
            format!("{file}: {bytes} by {parts}{before}; a merge is {exact}{root}\n")
        }
        Some(file) => format!("{}: {bytes} by {parts}, {exact}\n", one_line(&shown(file))),
        None => match done.problems.len() {
            0 => format!("ok: {bytes} read by {parts}; a merge is {exact}\n"),
            count => format!(
                "{}: {bytes} read by {parts}\n",
                size::count(count, "problem")
            ),
        },
    }
}
