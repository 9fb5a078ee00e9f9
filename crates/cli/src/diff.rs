//! `protosplit diff`.

use proto_splitter::compare::{Comparison, Difference, compare};
use proto_splitter::merge::ReadOptions;
use serde::Serialize;

use crate::Exit;
use crate::archive;
use crate::args::DiffArgs;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::input::{self, Input, Opening};
use crate::output::{Output, shown_path};

#[derive(Debug, Serialize)]
struct Report {
    first: String,
    second: String,
    /// The full name of the type by which they were compared, if one is known.
    message: Option<String>,
    result: Outcome,
    /// The first differences.
    differences: Vec<Shown>,
    /// Whether there may be more than these.
    limited: bool,
}

/// How the two compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    /// The same bytes.
    Identical,
    /// Equal as messages.
    Equal,
    Different,
}

#[derive(Debug, Serialize)]
struct Shown {
    path: String,
    /// What the element there is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    how: String,
}

pub(crate) fn run(args: &DiffArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    input::check_single_standard([&args.first, &args.second])?;
    let inputs =
        Opening::of(&args.reading, output.objects()).open_both([&args.first, &args.second])?;
    if inputs.iter().any(Input::is_archive) {
        return archive::diff(inputs.each_ref(), args.limit, args.json, output);
    }
    let [a, b] = of_one_type(&inputs)?;
    // Of the two only the first is followed.
    let a = a.progress(output.reading("comparing"));
    let report = compared(&inputs, [a, b], args.limit)?;
    match report.result {
        Outcome::Different => {
            output.report(args.json, &report, |report, _| report.text())?;
            Ok(Exit::Bad)
        }
        Outcome::Identical | Outcome::Equal => {
            output.done(args.json, &report, |report, _| report.text())?;
            Ok(Exit::Done)
        }
    }
}

/// How both are read: by the type that one of them says. Refuses two that say different ones.
fn of_one_type(inputs: &[Input; 2]) -> Result<[ReadOptions; 2], Failure> {
    let types = inputs.each_ref().map(|input| input.descriptor());
    if let [Some(a), Some(b)] = types
        && a.full_name() != b.full_name()
    {
        let [first, second] = inputs.each_ref().map(|input| input::shown(input.file()));
        let (a, b) = (a.full_name(), b.full_name());
        let message = format!("{first} holds {a}, {second} {b}");
        return Err(Failure::usage(message));
    }
    let either = types[0].or(types[1]).cloned();
    let options = inputs.each_ref().map(|input| input.reading_options());
    Ok(options.map(|options| options.descriptor(either.clone())))
}

/// Compares two messages, up to so many differences.
fn compared(
    inputs: &[Input; 2],
    options: [ReadOptions; 2],
    limit: usize,
) -> Result<Report, Failure> {
    let [a, b] = options;
    let message = a.descriptor.clone();
    let failed = |side: usize| {
        let file = inputs[side].file();
        move |error| Failure::of(file, &error)
    };
    let first_view = inputs[0].typed_view_with(a).map_err(failed(0))?;
    let second_view = inputs[1].typed_view_with(b).map_err(failed(1))?;
    let files = inputs.each_ref().map(Input::file);
    let compared = compare(&first_view, &second_view, limit);
    let (result, differences) = match compared.map_err(|error| Failure::of_either(files, &error))? {
        Comparison::Identical => (Outcome::Identical, Vec::new()),
        Comparison::Equal => (Outcome::Equal, Vec::new()),
        Comparison::Different(differences) => {
            // What is said of messages of another type would mislead.
            for (side, view) in [&first_view, &second_view].into_iter().enumerate() {
                view.check_whole_type().map_err(failed(side))?;
            }
            (Outcome::Different, differences)
        }
    };
    let show = |difference: &Difference| Shown {
        path: difference.path.display(message.as_ref()),
        name: difference.name.clone(),
        how: difference.how.said("the first", "the second").to_string(),
    };
    let [first, second] = inputs.each_ref().map(|input| input::shown(input.file()));
    Ok(Report {
        first,
        second,
        differences: differences.iter().map(show).collect(),
        message: message.map(|message| message.full_name().to_owned()),
        result,
        limited: differences.len() >= limit.max(1),
    })
}

impl Report {
    fn text(&self) -> String {
        let [first, second] = [&self.first, &self.second].map(|name| one_line(name));
        let mut text = match self.result {
            Outcome::Identical => format!("{first} and {second} have the same bytes\n"),
            Outcome::Equal => {
                format!("{first} and {second} are equal as messages, their bytes differ\n")
            }
            Outcome::Different => format!("{first} and {second} differ:\n"),
        };
        for Shown { path, name, how } in &self.differences {
            let name = name
                .as_ref()
                .map_or(String::new(), |name| format!(" ({})", one_line(name)));
            let (path, how) = (shown_path(path), one_line(how));
            text.push_str(&format!("  {path}{name}: {how}\n"));
        }
        if self.limited {
            text.push_str("  there may be more: --limit tells them\n");
        }
        if self.message.is_none() && !self.differences.is_empty() {
            text.push_str(
                "compared as they are written: --message TYPE compares them by their type\n",
            );
        }
        text
    }
}
