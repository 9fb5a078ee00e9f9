//! `protosplit cat --count`: counts and sums of the values that a query selects.

use std::io::Write;

use proto_splitter::Error;
use proto_splitter::member_names;
use proto_splitter::ops::{Tally, TallyOptions, Total, tally};

use crate::Exit;
use crate::args::{CatArgs, CatFormat, TallyArgs};
use crate::failure::Failure;
use crate::get::{elements_of_whole, failure, query, to_target};
use crate::opening::Opening;
use crate::output::Output;
use crate::place;
use crate::table::{Align, Table};

/// Prints counts and sums or, with `-o`, writes them to a file.
pub(crate) fn run(args: &CatArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let is_json = match args.format {
        CatFormat::Text => false,
        CatFormat::Json | CatFormat::Jsonl => true,
        _ => {
            let message = "--count, --sum and --by print text, json or jsonl";
            return Err(Failure::usage(message));
        }
    };
    let target = place::target(args.output_file.output.as_deref());
    let input = Opening::of(&args.reading, output.objects())
        .looked_at(true)
        .progress(output.reading("reading"))
        .open(&args.file)?;
    let failed = |error: &Error| failure(&input, &args.path, error);
    let query = query(&input, &args.path)?;
    if let Some(target) = target {
        input.check_apart(target)?;
    }
    let options = TallyOptions::new().sum(&args.tally.sum).by(&args.tally.by);
    let counted = input.typed_view().and_then(|view| {
        let elements = elements_of_whole(&view, &query);
        let query = elements.as_ref().unwrap_or(&query);
        tally(&view, query, &member_names(), &options)
    });
    let report = counted.map_err(|error| failed(&input.placed(error)))?;
    if target.is_none() {
        return output.report(is_json, &report, |report, width| {
            text(report, &args.tally, width)
        });
    }
    let written = if is_json {
        let json = serde_json::to_string(&report);
        json.map_err(|error| failed(&std::io::Error::from(error).into()))? + "\n"
    } else {
        text(&report, &args.tally, None)
    };
    let write = |sink: &mut dyn Write| Ok(sink.write_all(written.as_bytes())?);
    to_target(target, args.output_file.force, output, input.files(), write)
        .map_err(|error| failed(&error))?;
    Ok(Exit::Done)
}

/// Formats counts and sums as one line or, if there are groups, as a table.
fn text(report: &Tally, args: &TallyArgs, width: Option<usize>) -> String {
    let joined = |sums: &[Total]| {
        let sums: Vec<String> = sums.iter().map(Total::to_string).collect();
        sums.join(", ")
    };
    if args.by.is_empty() {
        return match (args.count || report.sums.is_empty(), report.sums.is_empty()) {
            (true, true) => format!("{}\n", report.count),
            (false, _) => format!("{}\n", joined(&report.sums)),
            (true, false) => format!("{} values, {}\n", report.count, joined(&report.sums)),
        };
    }
    let sum = format!("sum of {}", args.sum.join(", "));
    let by = args.by.join(", ");
    let mut table = Table::new([
        ("count", Align::Right),
        (&sum, Align::Right),
        (&by, Align::Left),
    ]);
    if args.sum.is_empty() {
        table.hide(&sum);
    }
    for group in &report.groups {
        let by: Vec<&str> = group
            .by
            .iter()
            .map(|by| by.as_deref().unwrap_or("-"))
            .collect();
        table.row([group.count.to_string(), joined(&group.sums), by.join(", ")]);
    }
    table.render_within(width)
}
