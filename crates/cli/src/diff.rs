//! `protosplit diff`.

use prost_reflect::MessageDescriptor;
use proto_splitter::Opened;
use proto_splitter::compare::{Comparison, Difference, compare};
use proto_splitter::progress::Progress;
use serde::Serialize;

use crate::Exit;
use crate::archive;
use crate::args::DiffArgs;
use crate::failure::Failure;
use crate::input;
use crate::merge::options;
use crate::output::{Output, one_line, shown_path};
use crate::source::{self, Source};

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
    let inputs = input::find_both([&args.first, &args.second], &args.reading.schema.companion)?;
    let special = |input| {
        source::special(
            input,
            &args.reading.schema,
            args.reading.limits(),
            Progress::none(),
        )
    };
    let [first, second] = [special(&inputs[0])?, special(&inputs[1])?];
    let no_message = |opened: &Option<Opened>| {
        let opened = opened.as_ref();
        opened.is_some_and(|opened| opened.plain().is_none())
    };
    if no_message(&first) || no_message(&second) {
        let open = |opened, input| match opened {
            Some(opened) => Ok(opened),
            None => source::opened(
                input,
                &args.reading.schema,
                args.reading.limits(),
                Progress::none(),
            ),
        };
        let opened = [&open(first, &inputs[0])?, &open(second, &inputs[1])?];
        let inputs = [&inputs[0], &inputs[1]];
        return archive::diff(inputs, opened, args.limit, args.json, output);
    }
    let known = [
        options(&inputs[0], &args.reading)?,
        options(&inputs[1], &args.reading)?,
    ];
    let name = |message: &MessageDescriptor| message.full_name().to_owned();
    let names = [0, 1].map(|side| known[side].descriptor.as_ref().map(name));
    if let [Some(a), Some(b)] = &names
        && a != b
    {
        let [first, second] =
            [&inputs[0], &inputs[1]].map(|input| crate::input::shown(&input.file));
        let message = format!("{first} holds {a}, {second} {b}");
        return Err(Failure::usage(message));
    }
    // What one says goes for both.
    let [a, b] = known;
    let message = a.descriptor.as_ref().or(b.descriptor.as_ref()).cloned();
    let [a, b] = [a, b].map(|options| options.descriptor(message.clone()));
    let sources = [Source::open(&inputs[0], &a)?, Source::open(&inputs[1], &b)?];
    // Of the two only the first is followed.
    let a = a.progress(output.reading("comparing"));
    let failed = |side: usize| {
        let file = &inputs[side].file;
        move |error| Failure::of(file, &error)
    };
    let first = sources[0].view(a).map_err(failed(0))?;
    let second = sources[1].view(b).map_err(failed(1))?;
    let files = [&inputs[0], &inputs[1]].map(|input| input.file.as_path());
    let compared = compare(&first, &second, args.limit);
    let compared = compared.map_err(|error| Failure::of_either(files, &error))?;
    let [first, second] = [&inputs[0], &inputs[1]].map(|input| crate::input::shown(&input.file));
    let (result, differences) = match compared {
        Comparison::Identical => (Outcome::Identical, Vec::new()),
        Comparison::Equal => (Outcome::Equal, Vec::new()),
        Comparison::Different(differences) => (Outcome::Different, differences),
    };
    let show = |difference: &Difference| Shown {
        path: difference.path.display(message.as_ref()),
        name: difference.name.clone(),
        how: difference.how.said("the first", "the second").to_string(),
    };
    let report = Report {
        first,
        second,
        message: message.as_ref().map(name),
        result,
        differences: differences.iter().map(show).collect(),
        limited: differences.len() >= args.limit.max(1),
    };
    match report.result {
        Outcome::Different => output.report(args.json, &report, |report, _| report.text())?,
        Outcome::Identical | Outcome::Equal => {
            output.done(args.json, &report, |report, _| report.text())?;
        }
    }
    Ok(match report.result {
        Outcome::Different => Exit::Bad,
        Outcome::Identical | Outcome::Equal => Exit::Done,
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
