//! The `protosplit diff` command.

use proto_splitter::ops::{DiffDetails, DiffOptions, DiffReport, MessageDifference, Outcome, diff};

use crate::Exit;
use crate::args::DiffArgs;
use crate::display_name;
use crate::failure::Failure;
use crate::input::Input;
use crate::opening::Opening;
use crate::output::{Output, shown_path};
use crate::place;
use crate::sanitize::one_line;

pub(crate) fn run(args: &DiffArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    place::check_single_standard(&[&args.first, &args.second])?;
    let [first, second] =
        Opening::of(&args.reading, output.objects()).open_both([&args.first, &args.second])?;
    output.reads(first.files().iter().chain(second.files()))?;
    let options = DiffOptions::new()
        .limit(args.limit)
        .progress(output.reading("comparing"));
    let files = [&first, &second].map(Input::path);
    let report = diff(&first, &second, &options);
    let report = report.map_err(|error| Failure::of_either(files, &error))?;
    let is_equal = matches!(report.result(), Outcome::Identical | Outcome::Equal);
    match report.details {
        DiffDetails::Messages { .. } => {
            output.verdict(is_equal, args.json, &report, |report, _| text(report))
        }
        // A report about equal tensors contains their number, so it is printed even with `--quiet`.
        _ => {
            output.report(args.json, &report, |report, _| text(report))?;
            Ok(Exit::of(is_equal))
        }
    }
}

fn text(report: &DiffReport) -> String {
    let [first, second] =
        [&report.first, &report.second].map(|name| one_line(&display_name::shown(name)));
    let mut text = match (report.result(), &report.details) {
        (Outcome::Identical, DiffDetails::Tensors { equal, .. }) => {
            return format!("{first} and {second} have the same {equal} tensors\n");
        }
        (Outcome::Identical, _) => format!("{first} and {second} have the same bytes\n"),
        (Outcome::Equal, _) => {
            format!("{first} and {second} are equal as messages, but their bytes differ\n")
        }
        _ => format!("{first} and {second} differ:\n"),
    };
    let mut is_by_number = false;
    match &report.details {
        DiffDetails::Messages {
            message,
            differences,
            ..
        } => {
            is_by_number = message.is_none() && !differences.is_empty();
            differences.iter().for_each(|one| text += &line(one));
        }
        DiffDetails::Tensors { differences, .. } => {
            for one in differences {
                text += &format!("  {}: {}\n", one_line(&one.tensor), one_line(&one.how));
            }
        }
        _ => {}
    }
    if report.limited {
        text.push_str("  there may be more: raise --limit to see them\n");
    }
    if is_by_number {
        text.push_str("compared without the type: use --message TYPE to compare by type\n");
    }
    text
}

fn line(difference: &MessageDifference) -> String {
    let name = difference.name.as_ref();
    let name = name.map_or(String::new(), |name| format!(" ({})", one_line(name)));
    let (path, how) = (shown_path(&difference.path), one_line(&difference.how));
    format!("  {path}{name}: {how}\n")
}
