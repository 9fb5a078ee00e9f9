//! `protosplit cat --count`: counts and sums of the values that a query selects.

use std::path::Path;

use proto_splitter::Error;
use proto_splitter::atomic::{AtomicFile, MadeFrom};
use proto_splitter::member_names;
use proto_splitter::ops::{Tally, TallyOptions, Total, tally};
use proto_splitter::path::PathQuery;

use crate::Exit;
use crate::args::{CatArgs, CatFormat, TallyArgs};
use crate::failure::Failure;
use crate::get::{elements_of_whole, failure};
use crate::opening::Opening;
use crate::output::Output;
use crate::place::{self, STANDARD};
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
    let target = args.output_file.output.as_deref();
    let target = target.filter(|target| *target != Path::new(STANDARD));
    let place = place::locate(&args.file, &args.reading.schema.companion)?;
    let input = Opening::of(&args.reading, output.objects())
        .looked_at(true)
        .progress(output.reading("reading"))
        .open_at(place)?;
    let failed = |error: &Error| failure(&input, &args.path, error);
    let query = PathQuery::parse(&args.path, input.descriptor());
    let query = query.map_err(|error| failed(&error).into_usage())?;
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
    let Some(target) = target else {
        output.report(is_json, &report, |report, width| {
            text(report, &args.tally, width)
        })?;
        return Ok(Exit::Done);
    };
    let written = if is_json {
        let json = serde_json::to_string(&report);
        json.map_err(|error| failed(&std::io::Error::from(error).into()))? + "\n"
    } else {
        text(&report, &args.tally, None)
    };
    AtomicFile::create(
        target,
        &MadeFrom::files(input.files()),
        args.output_file.force,
    )
    .and_then(|file| file.write(|sink| Ok(sink.write_all(written.as_bytes())?)))
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
