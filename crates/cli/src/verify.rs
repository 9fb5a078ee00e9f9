//! `protosplit verify`.

mod against;
mod deep;
mod pass;
mod several;

use std::path::Path;

use prost_reflect::MessageDescriptor;
use proto_splitter::compare::{Comparison, compare};
use proto_splitter::merge::{MergeCheck, ReadOptions, SourceCheck};
use proto_splitter::parts::PartsPlan;
use proto_splitter::view::MessageView;
use proto_splitter::wire::{SourceInput, WireCursor};
use serde::Serialize;

use crate::Exit;
use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::in_parts;
use crate::input::{self, Form, Input, Opening, Shared};
use crate::output::{Output, hex};
use crate::size;
use crate::table::facts;
use crate::types::SCHEMA_NEEDED;
use against::Original;
use deep::Parsed;

/// What the checks showed.
#[derive(Debug, Default, Serialize)]
struct Report {
    file: String,
    /// Whether nothing is wrong, and nothing differs.
    ok: bool,
    split: bool,
    /// Whether there are checksums that the content was checked against. A message that isn't in
    /// chunks has none.
    checksums: bool,
    message: Option<String>,
    /// Of the file, the trailer included.
    records: Option<u64>,
    chunk_count: usize,
    /// Of the chunks, uncompressed.
    chunk_bytes: u64,
    merged_bytes: Option<u64>,
    merged_crc32c: Option<String>,
    /// Whether a merge gives the bytes that were split; none if the file doesn't say what those
    /// were.
    byte_exact: Option<bool>,
    deep: Option<Parsed>,
    against: Option<Against>,
    problems: Vec<String>,
}

/// How a merge compares with the original.
#[derive(Debug, Serialize)]
struct Against {
    original: String,
    /// `byte-exact`, `equal` as a message, or `different`.
    result: &'static str,
    /// The first byte that differs.
    byte: Option<u64>,
    /// The first field that differs, and how.
    path: Option<String>,
    how: Option<String>,
}

pub(crate) fn run(args: &VerifyArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let (in_parts, threads, limits) = (&args.in_parts, &args.threads, args.reading.limits());
    if let Some(ended) = in_parts::run(in_parts, "verify", threads, limits, args.json, output) {
        return ended;
    }
    let place = input::locate(args.file(), &args.reading.schema.companion)?;
    let file = place.file.clone();
    let opened = Opening::of(&args.reading, output.objects())
        .threads(&args.threads)
        .progress(output.reading("verifying"))
        .open_at(place);
    let input = match opened {
        Ok(input) => input,
        // A file that can't be opened was looked at all the same, and this is what came out.
        Err(failure) if failure.exit() == Exit::Bad && input::is_chunked_at(&file) => {
            return unopened(&file, failure, args, output);
        }
        Err(failure) => return Err(failure),
    };
    // What a format checks of its own stands in for neither of the other ways.
    let is_checked_by_format = if args.deep || args.against.is_some() {
        input.is_special()
    } else {
        input.is_told()
    };
    if is_checked_by_format {
        if in_parts.plan_only.is_some() {
            return Err(in_parts::only_chunked("verification"));
        }
        return several::run(&input, args, output);
    }
    let original = Original::find(args, output)?;
    let original = original.as_ref();
    if let Some(path) = &in_parts.plan_only {
        let plan = plan(args, &input)?;
        return in_parts::write_plan(&plan, path, args.json, output);
    }
    let deep = deep_type(args, &input)?;
    let mut report = Report::of(&input);
    let mut failures = report.read(&input, deep.is_some());
    if deep.is_some() || args.against.is_some() {
        failures.extend(report.read_merged(&input, deep, original)?);
    }
    report.told(&failures, args, output)
}

/// The type by which all of the message is parsed, if `--deep` asks for that.
fn deep_type<'a>(
    args: &VerifyArgs,
    input: &'a Input,
) -> Result<Option<&'a MessageDescriptor>, Failure> {
    let known = input.descriptor();
    if !args.deep || known.is_some() {
        return Ok(known.filter(|_| args.deep));
    }
    let name = input::shown(input.file());
    let how = match input.said_type() {
        Some(said) => format!("the type {said}: {SCHEMA_NEEDED}"),
        None => "the message's type: --message TYPE says it".to_owned(),
    };
    Err(Failure::usage(format!("{name}: --deep needs {how}")))
}

/// Reports a file that is in chunks and can't be opened: one that was cut, or whose trailer is
/// damaged.
fn unopened(
    file: &Path,
    failure: Failure,
    args: &VerifyArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    if args.json {
        let report = Report {
            file: input::shown(file),
            split: true,
            checksums: true,
            problems: vec![failure.message().to_owned()],
            ..Report::default()
        };
        output.json(&report)?;
    }
    Err(failure)
}

/// The plan of a verification by several hosts.
fn plan(args: &VerifyArgs, input: &Input) -> Result<PartsPlan, Failure> {
    if input.form() == Form::Plain || input::is_stream(args.file()) {
        return Err(in_parts::only_chunked("verification"));
    }
    if args.deep || args.against.is_some() {
        let message = "--plan-only: parts check checksums, and not what --deep and --against do";
        return Err(Failure::usage(message));
    }
    let planner = in_parts::planner(args.in_parts.count(None));
    let plan = planner.verify(input.file(), &input.reading_options());
    plan.map_err(|error| Failure::of(input.file(), &error))
}

impl Report {
    /// What is known before anything is read.
    fn of(input: &Input) -> Self {
        let known = input.descriptor();
        Report {
            file: input::shown(input.file()),
            split: input.form() == Form::Chunked,
            checksums: input.form() == Form::Chunked,
            message: known.map(|known| known.full_name().to_owned()),
            ..Report::default()
        }
    }

    /// Reads all of the file, and gives all that is wrong with it.
    fn read(&mut self, input: &Input, deep: bool) -> Vec<Failure> {
        let failed = |error: &_| Failure::of(input.file(), error);
        if let Some((file, size)) = input.plain() {
            self.merged_bytes = Some(size);
            // To parse all of it says the same, and more.
            let walked = if deep { Ok(()) } else { walk(file, size) };
            let malformed = walked.err().map(|error| failed(&error));
            return malformed.into_iter().collect();
        }
        let Some(file) = input.chunked() else {
            return Vec::new();
        };
        if self.message.is_none() {
            self.message = file.trailer().message_type().map(str::to_owned);
        }
        let verified = file.verify(&input.reading_options());
        self.records = Some(verified.records());
        self.chunk_count = file.trailer().kinds().len();
        self.chunk_bytes = verified.bytes();
        let mut failures: Vec<Failure> = verified.problems().iter().map(failed).collect();
        match verified.merge() {
            MergeCheck::Merged {
                size,
                crc32c,
                source,
                ..
            } => {
                self.merged_bytes = Some(*size);
                self.merged_crc32c = Some(hex(*crc32c));
                self.byte_exact = source.map(|source| source == SourceCheck::Same);
            }
            MergeCheck::NeedsType(error) => failures.push(failed(error)),
            _ => {}
        }
        failures
    }

    /// Parses the merged message, compares it with the original, or both; gives all that is wrong with
    /// it. Does nothing where no merged message came out.
    fn read_merged(
        &mut self,
        input: &Input,
        deep: Option<&MessageDescriptor>,
        original: Option<&Original>,
    ) -> Result<Vec<Failure>, Failure> {
        let Some(size) = self.merged_bytes else {
            return Ok(Vec::new());
        };
        let mut failures = Vec::new();
        let found = pass::go(input, size, deep, original)?;
        match found.parsed {
            Some(Ok(parsed)) => self.deep = Some(parsed),
            Some(Err(failure)) => failures.push(failure),
            None => {}
        }
        if let (Some(different), Some(original)) = (found.different, original) {
            let against = Against::new(input, original, different)?;
            failures.extend(against.failure(&self.file));
            self.against = Some(against);
        }
        Ok(failures)
    }

    /// Tells what was found, and what exit that is.
    fn told(
        mut self,
        failures: &[Failure],
        args: &VerifyArgs,
        output: &mut Output<'_>,
    ) -> Result<Exit, Failure> {
        self.ok = failures.is_empty();
        let messages = failures.iter().map(|failure| failure.message().to_owned());
        self.problems = messages.collect();
        if self.ok {
            output.done(args.json, &self, |report, _| report.text())?;
        } else {
            output.report(args.json, &self, |report, _| report.text())?;
        }
        for failure in failures {
            output.error(failure.message());
        }
        // What can't be read outweighs what was read and is bad.
        let worst = failures.iter().map(Failure::exit);
        let worst = worst.max_by_key(|exit| exit.code());
        Ok(worst.unwrap_or(Exit::Done))
    }

    fn text(&self) -> String {
        let mut lines = vec![("file", crate::harmless::one_line(&self.file))];
        lines.push((
            "message",
            self.message
                .as_deref()
                .map_or("not known".into(), crate::harmless::one_line),
        ));
        match self.records {
            Some(records) => {
                let bytes = size::show(self.chunk_bytes);
                lines.push(("chunks", format!("{}, {bytes} in all", self.chunk_count)));
                lines.push(("records", format!("{records}, with the trailer")));
            }
            None => {
                lines.push(("chunks", "none: the message was not split".into()));
                let form = "none: only its form as a message is checked";
                lines.push(("checksums", form.into()));
            }
        }
        if let (Some(bytes), true) = (self.merged_bytes, self.split) {
            let what = match self.byte_exact {
                Some(true) => "the bytes that were split",
                Some(false) => "equal to what was split as a message, not byte-exact",
                None => "the file doesn't say what was split",
            };
            lines.push(("merge", format!("{}, {what}", size::show(bytes))));
        }
        lines.extend(self.deep.map(|parsed| ("parsed", parsed.text())));
        if let Some(against) = &self.against {
            lines.push(("against", against.text()));
        }
        let result = match self.problems.len() {
            0 => "ok".into(),
            problems => size::count(problems, "problem"),
        };
        lines.push(("result", result));
        facts(&lines)
    }
}

/// Walks over the fields of a message, which is all that can be said of one whose type needn't be
/// known.
fn walk(file: &Shared, size: u64) -> proto_splitter::Result<()> {
    let mut cursor = WireCursor::new(SourceInput::new(file, size));
    while cursor.next()?.is_some() {}
    Ok(())
}

impl Parsed {
    fn text(self) -> String {
        let Parsed {
            messages,
            fields,
            unknown_fields,
        } = self;
        format!("{messages} messages, {fields} fields, {unknown_fields} of them unknown")
    }
}

impl Against {
    fn new(input: &Input, original: &Original, different: Option<u64>) -> Result<Self, Failure> {
        let mut against = Against {
            original: input::shown(&original.path),
            result: "byte-exact",
            byte: different,
            path: None,
            how: None,
        };
        if different.is_none() {
            return Ok(against);
        }
        against.result = "different";
        let merged = input.typed_view();
        let merged = merged.map_err(|error| Failure::of(input.file(), &error))?;
        let known = input.descriptor();
        let reading = match known {
            Some(known) => ReadOptions::new().descriptor(known.clone()),
            None => ReadOptions::new(),
        };
        let view = MessageView::of_plain(&original.bytes, reading);
        let view = view.map_err(|error| Failure::of(&original.path, &error))?;
        let compared = compare(&merged, &view, 1);
        let files = [input.file(), &original.path];
        match compared.map_err(|error| Failure::of_either(files, &error))? {
            Comparison::Identical | Comparison::Equal => against.result = "equal",
            Comparison::Different(differences) => {
                if let [first, ..] = differences.as_slice() {
                    against.path = Some(first.path.display(known));
                    let how = first.how.said("the merge", "the original");
                    against.how = Some(how.to_string());
                }
            }
        }
        Ok(against)
    }

    fn failure(&self, file: &str) -> Option<Failure> {
        (self.result == "different").then(|| Failure::bad(format!("{file} {}", self.difference())))
    }

    fn difference(&self) -> String {
        let Against {
            original,
            byte,
            path,
            how,
            ..
        } = self;
        let place = match (path.as_deref(), byte) {
            (Some(""), _) => " in the message itself".into(),
            (Some(path), _) => format!(" at {path}"),
            (None, Some(byte)) => format!(" from byte {byte} on"),
            (None, None) => String::new(),
        };
        let how = how.as_ref().map_or(String::new(), |how| format!(": {how}"));
        format!("differs from {original}{place}{how}")
    }

    fn text(&self) -> String {
        match (self.result, self.byte) {
            ("equal", Some(byte)) => {
                format!(
                    "equal to {} as a message; the bytes differ from byte {byte} on",
                    self.original
                )
            }
            ("byte-exact", _) => format!("byte-exact: {} has the same bytes", self.original),
            _ => self.difference(),
        }
    }
}
