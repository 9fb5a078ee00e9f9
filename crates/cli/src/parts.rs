//! `--plan-only`, `--plan --part` and `--plan --commit`: work divided among several hosts.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;

use proto_splitter::merge::{DEFAULT_MAX_FILES, Limits, MergeCheck, SourceCheck};
use proto_splitter::parts::{Committed, PartOptions, PartReport, PartsPlan, Planner};
use serde::Serialize;

use crate::Exit;
use crate::args::{PartsArgs, ThreadsArgs};
use crate::failure::Failure;
use crate::input::shown;
use crate::output::{Output, hex};
use crate::remote;
use crate::sanitize::one_line;
use crate::size;

/// The report of a written plan.
#[derive(Debug, Serialize)]
struct PlanReport {
    plan: String,
    id: String,
    verb: &'static str,
    input: String,
    output: Option<String>,
    parts: usize,
}

/// The report of a finished part.
#[derive(Debug, Serialize)]
struct DonePart {
    plan_id: String,
    part: usize,
    parts: usize,
    report: String,
    /// The part's own file, if it has one.
    file: Option<String>,
    bytes: u64,
    problems: Vec<String>,
}

/// The report of a commit.
#[derive(Debug, Default, Serialize)]
struct CommitReport {
    verb: &'static str,
    parts: usize,
    /// The file written; `None` for a verification.
    output: Option<String>,
    /// Bytes written or read.
    bytes: u64,
    message_bytes: Option<u64>,
    crc32c: Option<String>,
    byte_exact: Option<bool>,
    chunks: Option<usize>,
    /// True if the same commit was made before.
    was_there: bool,
    removed_files: Vec<String>,
    problems: Vec<String>,
}

/// Creates the error for inputs and outputs of more than one file, which can't be planned.
pub(crate) fn only_chunked(verb: &str) -> Failure {
    Failure::usage(format!(
        "--plan-only: hosts share the {verb} of a .cpb file"
    ))
}

/// Returns a planner for this many parts.
pub(crate) fn planner(parts: NonZeroUsize) -> Planner {
    Planner::new(parts).objects(remote::stores())
}

/// Writes a plan to a file.
pub(crate) fn write_plan(
    plan: &PartsPlan,
    path: &Path,
    json: bool,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    // Reports of an earlier plan in the same place are rejected by the plan's id.
    if remote::is_url(path) {
        remote::write_small(path, &plan.to_bytes())?
    } else {
        plan.write(path, true)
            .map_err(|error| Failure::of(path, &error))?
    }
    let (input, target) = plan.files();
    let report = PlanReport {
        plan: shown(path),
        id: plan.id(),
        verb: plan.verb(),
        input: shown(input),
        output: target.as_deref().map(shown),
        parts: plan.parts(),
    };
    output.report(json, &report, |report, _| {
        let PlanReport {
            plan, verb, input, ..
        } = report;
        let parts = size::count(report.parts, "part");
        format!("{plan}: {verb} {input} in {parts}\n")
    })?;
    if report.verb == "split" && report.parts > DEFAULT_MAX_FILES {
        let parts = report.parts;
        output.note(format_args!(
            "{parts} files are more than readers open unless they are told: --max-files {parts}"
        ));
    }
    Ok(Exit::Done)
}

/// Executes a part of the given plan or commits it. Returns `None` if there is no plan.
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
    let plan = if remote::is_url(path) {
        PartsPlan::from_bytes(read_object(path)?)
    } else {
        PartsPlan::read(path)
    };
    let plan = plan.map_err(|error| Failure::of(path, &error))?;
    if plan.verb() != verb {
        let (name, other) = (shown(path), plan.verb());
        let message = format!("{name}: the plan of a {other}, which `protosplit {other}` does");
        return Err(Failure::usage(message));
    }
    match (args.part, &args.commit) {
        (Some(part), _) => run_part(args, &plan, (path, part), options, json, output),
        (None, Some(reports)) => {
            let reports = match &reports[..] {
                [] => reports_beside(path, plan.parts())?,
                given => read_reports(given, true)?,
            };
            commit(&plan, path, &reports, options, json, output)
        }
        (None, None) => {
            let message = "--plan: --part K does a part of it, and --commit puts the parts commit";
            Err(Failure::usage(message))
        }
    }
}

fn run_part(
    args: &PartsArgs,
    plan: &PartsPlan,
    (path, part): (&Path, usize),
    options: &PartOptions,
    json: bool,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let failed = |error: &_| Failure::of(plan.files().0, error);
    let done = plan.run(part, options).map_err(|error| failed(&error))?;
    let target = match &args.report {
        Some(report) => report.clone(),
        None => report_beside(path, part),
    };
    if remote::is_url(&target) {
        remote::write_small(&target, &done.to_bytes())?
    } else {
        done.write(&target)
            .map_err(|error| Failure::of(&target, &error))?
    }
    let report = DonePart {
        plan_id: plan.id(),
        part,
        parts: plan.parts(),
        report: shown(&target),
        file: done.file().map(|(name, _)| name.to_owned()),
        bytes: done.bytes(),
        problems: done.problems().to_vec(),
    };
    output.report(json, &report, |report, _| {
        let DonePart {
            part, parts, file, ..
        } = report;
        let to = match file {
            Some(file) => format!(" to {}", one_line(file)),
            None => String::new(),
        };
        let bytes = size::show(report.bytes);
        format!(
            "part {part} of {parts}: {bytes}{to}; report: {}\n",
            report.report
        )
    })?;
    for problem in done.problems() {
        output.note(problem);
    }
    Ok(Exit::Done)
}

fn commit(
    plan: &PartsPlan,
    path: &Path,
    reports: &[PartReport],
    options: &PartOptions,
    json: bool,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let committed = plan.commit(reports, options);
    let committed = committed.map_err(|error| Failure::of(path, &error))?;
    let commit = CommitReport::of(plan, &committed);
    output.report(json, &commit, |commit, _| commit.text())?;
    for problem in &commit.problems {
        output.error(problem);
    }
    Ok(if commit.problems.is_empty() {
        Exit::Done
    } else {
        Exit::Bad
    })
}

/// Returns the default path of a part's report.
fn report_beside(plan: &Path, part: usize) -> PathBuf {
    let mut name = plan.as_os_str().to_owned();
    name.push(format!(".{part:05}.report"));
    name.into()
}

/// Reads the existing reports beside a plan; the commit lists those missing.
fn reports_beside(plan: &Path, parts: usize) -> Result<Vec<PartReport>, Failure> {
    let reports: Vec<PathBuf> = (0..parts).map(|part| report_beside(plan, part)).collect();
    read_reports(&reports, false)
}

/// Number of reports to read at once, as each object takes a round trip.
const READ_AT_ONCE: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// Reads reports. If `all`, each must exist.
fn read_reports(reports: &[PathBuf], all: bool) -> Result<Vec<PartReport>, Failure> {
    let read = |report: &PathBuf| -> Result<Option<PartReport>, Failure> {
        let read = match (remote::is_url(report), all) {
            (true, true) => PartReport::from_bytes(&read_object(report)?),
            (true, false) => match remote::read_small(report)? {
                Some(bytes) => PartReport::from_bytes(&bytes),
                None => return Ok(None),
            },
            (false, false) if !report.is_file() => return Ok(None),
            (false, _) => PartReport::read(report),
        };
        read.map(Some).map_err(|error| Failure::of(report, &error))
    };
    let share = reports.len().div_ceil(READ_AT_ONCE.get()).max(1);
    let read = &read;
    let shares: Vec<Result<Vec<_>, Failure>> = thread::scope(|scope| {
        let begun = reports.chunks(share).map(|share| {
            let work = move || share.iter().map(read).collect();
            thread::Builder::new()
                .spawn_scoped(scope, work)
                .map_err(|_| work)
        });
        let begun: Vec<_> = begun.collect();
        let read = begun.into_iter().map(|begun| match begun {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // The system refuses another thread, so this one does the work.
            Err(work) => work(),
        });
        read.collect()
    });
    let mut found = Vec::with_capacity(reports.len());
    for read in shares {
        found.extend(read?.into_iter().flatten());
    }
    Ok(found)
}

/// Reads a small object that must exist.
fn read_object(named: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = remote::read_small(named)?;
    bytes.ok_or_else(|| Failure::usage(format!("{}: no such object", shown(named))))
}

impl CommitReport {
    fn of(plan: &PartsPlan, committed: &Committed) -> CommitReport {
        let target = plan.files().1;
        let commit = CommitReport {
            verb: plan.verb(),
            parts: plan.parts(),
            output: target.as_deref().map(shown),
            ..CommitReport::default()
        };
        match committed {
            Committed::Split(done) => CommitReport {
                bytes: done.output_size,
                message_bytes: Some(done.source_size),
                byte_exact: Some(done.byte_exact),
                chunks: Some(done.chunks),
                was_there: done.was_there,
                removed_files: done.removed.iter().map(|file| shown(file)).collect(),
                ..commit
            },
            Committed::Merge(merged) => CommitReport {
                bytes: merged.size,
                message_bytes: Some(merged.size),
                crc32c: Some(hex(merged.crc32c)),
                byte_exact: merged.byte_exact,
                ..commit
            },
            Committed::Verify(all) => commit.verified(&all.merge, all.bytes, &all.problems),
            _ => commit,
        }
    }

    fn verified(mut self, merge: &MergeCheck, bytes: u64, problems: &[String]) -> CommitReport {
        self.bytes = bytes;
        self.problems = problems.to_vec();
        match merge {
            MergeCheck::Merged {
                size,
                crc32c,
                source,
                ..
            } => {
                self.message_bytes = Some(*size);
                self.crc32c = Some(hex(*crc32c));
                self.byte_exact = source.map(|source| source == SourceCheck::Same);
            }
            MergeCheck::NeedsType(error) => self.problems.push(error.to_string()),
            _ => {}
        }
        self
    }

    fn text(&self) -> String {
        let (bytes, parts) = (size::show(self.bytes), size::count(self.parts, "part"));
        let exact = match self.byte_exact {
            Some(true) => "byte-exact",
            Some(false) => "equal as a message, not byte-exact",
            None => "not compared with what was split",
        };
        let done = if self.was_there {
            ", which was done before"
        } else {
            ""
        };
        match &self.output {
            Some(file) if self.verb == "split" => {
                let file = one_line(file);
                format!("{file}: {bytes} by {parts}{done}; a merge is {exact}\n")
            }
            Some(file) => format!("{}: {bytes} by {parts}, {exact}\n", one_line(file)),
            None => match self.problems.len() {
                0 => format!("ok: {bytes} read by {parts}; a merge is {exact}\n"),
                count => format!(
                    "{}: {bytes} read by {parts}\n",
                    size::count(count, "problem")
                ),
            },
        }
    }
}
