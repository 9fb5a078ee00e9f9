//! The `protosplit verify` command.

use std::path::Path;

use proto_splitter::ops::{
    Against, Agreement, Checked, Parsed, VerifyOptions, VerifyReport, verify,
};
use proto_splitter::parts::PartsPlan;
use proto_splitter::{Error, ErrorKind};

use crate::Exit;
use crate::args::{CompanionArgs, VerifyArgs};
use crate::display_name;
use crate::failure::Failure;
use crate::input::Input;
use crate::opening::{self, Opening};
use crate::output::Output;
use crate::parts;
use crate::place;
use crate::sanitize::one_line;
use crate::sign;
use crate::size;
use crate::table::facts;
use crate::types::SCHEMA_NEEDED;

pub(crate) fn run(args: &VerifyArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    if let Some(signature) = &args.signature {
        return sign::run_verify(args, signature, output);
    }
    let (parts, threads, limits) = (&args.parts, &args.threads, args.reading.limits());
    if let Some(ended) = parts::run(parts, "verify", threads, limits, args.json, output) {
        return ended;
    }
    let against = args.against.as_deref().unwrap_or(Path::new(""));
    place::check_single_standard(&[args.file(), against])?;
    let place = place::locate(args.file(), &args.reading.schema.companion)?;
    let file = place.file.clone();
    let opened = Opening::of(&args.reading, output.objects())
        .with(|options| options.threads(args.threads.threads))
        .progress(output.reading("verifying"))
        .open_at(place);
    let input = match opened {
        Ok(input) => input,
        Err(failure) => {
            if args.json
                && let Some(report) = unreadable(&file, &failure)
            {
                output.keeps_records()?;
                output.json(&report)?;
                return Ok(output.fail(&failure));
            }
            return Err(failure);
        }
    };
    output.reads(input.files())?;
    check_message(args, &input)?;
    let original = original(args, output)?;
    output.reads(original.iter().flat_map(|original| original.files()))?;
    if let Some(path) = &parts.plan_only {
        let plan = || plan(args, &input);
        return parts::write_plan(plan, path, args.json, output);
    }
    let options = VerifyOptions::new()
        .deep(args.deep)
        .against(original.as_deref())
        .root(args.root)
        .folder(input.folder().map(Path::to_owned));
    let report = verify(&input, &options).map_err(|error| Failure::of(input.path(), &error))?;
    told(report, &input, args, output)
}

/// Returns a report with `failure` as its problem, if the file is a chunked file that is too
/// damaged to be opened. For any other failure, returns `None`, since nothing was verified.
pub(crate) fn unreadable(file: &Path, failure: &Failure) -> Option<VerifyReport> {
    let is_damaged = failure.exit() == Exit::Bad && place::is_chunked_at(file);
    let problem = || Error::new(ErrorKind::Record, failure.message());
    is_damaged.then(|| VerifyReport::of_unreadable(file, problem()))
}

/// Returns the path of the file or folder that the report is about.
pub(crate) fn file_of<'a>(report: &VerifyReport, input: &'a Input) -> &'a Path {
    match report.checked {
        Checked::Format { .. } => input.path(),
        _ => input.file(),
    }
}

/// Fails if the arguments require a message, or a known message type, that the input doesn't have.
fn check_message(args: &VerifyArgs, input: &Input) -> Result<(), Failure> {
    let name = display_name::shown(input.path());
    if (args.deep || args.against.is_some()) && !input.has_message() {
        let title = input.title();
        return Err(Failure::usage(format!(
            "{name}: {title}: has tensors but no message to parse or compare; use `protosplit diff` to compare tensors"
        )));
    }
    if !args.deep || input.descriptor().is_some() {
        return Ok(());
    }
    let name = display_name::shown(input.file());
    let how = match input.recorded_type() {
        Some(said) => format!("the type {said}: {SCHEMA_NEEDED}"),
        None => "the message's type (--message TYPE)".to_owned(),
    };
    Err(Failure::usage(format!("{name}: --deep needs {how}")))
}

/// Opens the original message that `--against` names; returns `None` if the option isn't given.
fn original(args: &VerifyArgs, output: &Output<'_>) -> Result<Option<Input>, Failure> {
    let opening =
        Opening::of(&args.reading, output.objects()).progress(output.reading("verifying"));
    let named = args.against.as_deref();
    named.map(|named| open_original(named, opening)).transpose()
}

/// Opens an original message to compare with. Fails if the message isn't in one piece.
pub(crate) fn open_original(named: &Path, opening: Opening<'_>) -> Result<Input, Failure> {
    let place = place::locate(named, &CompanionArgs::default())?;
    let path = place.file.clone();
    let in_chunks = || {
        let name = display_name::shown(&path);
        Failure::usage(format!(
            "{name}: in chunks, but --against expects a message in one piece; `protosplit diff` compares any two"
        ))
    };
    let objects = opening.objects().clone();
    let input = match opening.alone().open_at(place.clone()) {
        Ok(input) => input,
        Err(_) if path.is_file() && place::is_chunked_at(&path) => return Err(in_chunks()),
        // If the contents don't match the format implied by the name, the file is read as a plain
        // message.
        Err(_) if path.is_file() => opening::open_bytes(place, &objects)?,
        Err(failure) => return Err(failure),
    };
    if input.chunked().is_some() {
        return Err(in_chunks());
    }
    if !input.has_message() {
        let (name, title) = (display_name::shown(input.path()), input.title());
        return Err(Failure::usage(format!(
            "{name}: {title}: has tensors but no message to compare with; use `protosplit diff` to compare tensors"
        )));
    }
    Ok(input)
}

/// Plans a verification in parts, which several hosts can run.
fn plan(args: &VerifyArgs, input: &Input) -> Result<PartsPlan, Failure> {
    if place::is_stream(args.file()) {
        return Err(parts::only_chunked("verification"));
    }
    if args.deep || args.against.is_some() {
        let message = "--plan-only: parts only verify checksums, without --deep and --against";
        return Err(Failure::usage(message));
    }
    parts::plan_verify(input, args.parts.parts)
}

/// Prints the report, and returns the exit status.
fn told(
    mut report: VerifyReport,
    input: &Input,
    args: &VerifyArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let path = file_of(&report, input);
    report.file = path.to_owned();
    let problems = report.problems.iter();
    let failures: Vec<Failure> = problems.map(|error| Failure::of(path, error)).collect();
    output.verdict(report.ok, args.json, &report, |report, _| text(report))?;
    for warning in &report.warnings {
        output.note(format_args!("{}: {warning}", display_name::shown(path)));
    }
    for failure in &failures {
        output.error(failure.message());
    }
    // If one file can't be read and another is damaged, the exit status is that for the unreadable
    // file.
    let worst = failures.iter().map(Failure::exit);
    let worst = worst.max_by_key(|exit| exit.code());
    Ok(worst.unwrap_or(Exit::Done))
}

fn text(report: &VerifyReport) -> String {
    let mut lines = vec![("file", one_line(&display_name::shown(&report.file)))];
    match &report.checked {
        Checked::Format {
            format,
            checksums,
            tensors,
            bytes,
            ..
        } => {
            lines.push(("format", (*format).to_owned()));
            if let (Some(tensors), Some(bytes)) = (tensors, bytes) {
                let bytes = size::show(*bytes);
                lines.push(("tensors", format!("{tensors}, {bytes} read")));
            }
            if *checksums == Some(false) {
                let form = "none: only the structure is checked";
                lines.push(("checksums", form.into()));
            }
        }
        Checked::Message {
            split,
            message,
            records,
            chunk_count,
            chunk_bytes,
            merged_bytes,
            byte_exact,
            ..
        } => {
            let message = message.as_deref();
            lines.push(("message", message.map_or("not known".into(), one_line)));
            match records {
                Some(records) => {
                    let bytes = size::show(*chunk_bytes);
                    lines.push(("chunks", format!("{chunk_count}, {bytes} in all")));
                    lines.push(("records", format!("{records}, with the trailer")));
                }
                None => {
                    lines.push(("chunks", "none: the message was not split".into()));
                    let form = "none: only its form as a message is checked";
                    lines.push(("checksums", form.into()));
                }
            }
            if let (Some(bytes), true) = (merged_bytes, split) {
                let what = match byte_exact {
                    Some(true) => "the bytes that were split",
                    Some(false) => "equal to the original message, but not byte-exact",
                    None => "the file doesn't describe the original",
                };
                lines.push(("merge", format!("{}, {what}", size::show(*bytes))));
            }
        }
        _ => {}
    }
    lines.extend(report.deep.map(|parsed| ("parsed", parsed_text(parsed))));
    let against = report.against.as_ref();
    lines.extend(against.map(|against| ("against", against_text(against))));
    lines.extend(report.variables.map(|variables| {
        let bytes = size::show(variables.bytes);
        ("variables", format!("{}, {bytes} read", variables.tensors))
    }));
    if let Some(root) = report.root.filter(|_| report.ok) {
        lines.push(("root", format!("{root}, computed from all data read")));
    }
    let result = match report.problems.len() {
        0 => "ok".into(),
        problems => size::count(problems, "problem"),
    };
    lines.push(("result", result));
    facts(&lines)
}

fn parsed_text(parsed: Parsed) -> String {
    let Parsed {
        messages,
        fields,
        unknown_fields,
        ..
    } = parsed;
    format!("{messages} messages, {fields} fields, {unknown_fields} of them unknown")
}

fn against_text(against: &Against) -> String {
    let original = against.original.display();
    match (against.result, against.byte) {
        (Agreement::Equal, Some(byte)) => {
            format!("equal to {original} as a message; the bytes differ from byte {byte} on")
        }
        (Agreement::ByteExact, _) => format!("byte-exact: {original} has the same bytes"),
        _ => against.difference(),
    }
}
