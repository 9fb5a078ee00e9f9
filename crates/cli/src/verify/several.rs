//! Verifying what is more than a message in one file: archives of tensors, and messages that several
//! files make.

use proto_splitter::formats::Checks;
use serde::Serialize;

use super::Against;
use super::against::Original;
use super::deep::Parsed;
use super::pass;
use crate::Exit;
use crate::archive::format_of;
use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::input::{Input, shown};
use crate::output::Output;
use crate::size;
use crate::table::facts;

#[derive(Debug, Default, Serialize)]
struct Report {
    file: String,
    ok: bool,
    format: &'static str,
    /// Whether there are checksums that the content was checked against.
    checksums: Option<bool>,
    tensors: Option<u64>,
    bytes: Option<u64>,
    /// What was parsed of the message, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    deep: Option<Parsed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<Against>,
    problems: Vec<String>,
    /// What is odd, but harms nobody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

pub(super) fn run(
    input: &Input,
    args: &VerifyArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let mut report = Report {
        file: shown(input.path()),
        format: format_of(input),
        ..Report::default()
    };
    let asks_for_message = args.deep || args.against.is_some();
    if asks_for_message && input.is_archive() {
        let (name, title) = (&report.file, input.title());
        return Err(Failure::usage(format!(
            "{name}: {title}: tensors, and no message that could be parsed or compared; `protosplit diff` compares tensors"
        )));
    }
    let original = Original::find(args, output)?;
    let original = original.as_ref();
    let mut failures = Vec::new();
    match input.verify() {
        Ok(found) => {
            report.checksums = Some(found.checks == Checks::Checksums);
            (report.tensors, report.bytes) = (Some(found.tensors), Some(found.bytes));
            report.warnings = found.warnings;
        }
        Err(error) => failures.push(Failure::of(input.path(), &error)),
    }
    if asks_for_message {
        failures.extend(report.message(input, original, args)?);
    }
    report.ok = failures.is_empty();
    report.problems = failures
        .iter()
        .map(|failure| failure.message().to_owned())
        .collect();
    if report.ok {
        output.done(args.json, &report, |report, _| report.text())?
    } else {
        output.report(args.json, &report, |report, _| report.text())?
    }
    for warning in &report.warnings {
        output.note(format_args!("{}: {warning}", report.file));
    }
    failures
        .iter()
        .for_each(|failure| output.error(failure.message()));
    let worst = failures.iter().map(Failure::exit);
    Ok(worst.max_by_key(|exit| exit.code()).unwrap_or(Exit::Done))
}

impl Report {
    /// Parses and compares the message as asked, and gives all that is wrong with it.
    fn message(
        &mut self,
        input: &Input,
        original: Option<&Original>,
        args: &VerifyArgs,
    ) -> Result<Vec<Failure>, Failure> {
        let size = input.plain().map_or(0, |(_, size)| size);
        let deep = input.descriptor().filter(|_| args.deep);
        let found = pass::go(input, size, deep, original)?;
        let mut failures = Vec::new();
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

    fn text(&self) -> String {
        let mut lines = vec![
            ("file", one_line(&self.file)),
            ("format", self.format.to_owned()),
        ];
        if let (Some(tensors), Some(bytes)) = (self.tensors, self.bytes) {
            let bytes = size::show(bytes);
            lines.push(("tensors", format!("{tensors}, {bytes} read")));
        }
        if self.checksums == Some(false) {
            let form = "none: only the structure is checked";
            lines.push(("checksums", form.into()));
        }
        lines.extend(self.deep.map(|parsed| ("parsed", parsed.text())));
        lines.extend(
            self.against
                .iter()
                .map(|against| ("against", against.text())),
        );
        let result = match self.problems.len() {
            0 => "ok".into(),
            problems => size::count(problems, "problem"),
        };
        lines.push(("result", result));
        facts(&lines)
    }
}
