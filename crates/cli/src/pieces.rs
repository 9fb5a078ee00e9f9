//! The `protosplit pieces` command.

use proto_splitter::ErrorKind;
use proto_splitter::ops::{PiecesOptions, PiecesReport, pieces};
use proto_splitter::view::PieceOptions;

use crate::Exit;
use crate::args::PiecesArgs;
use crate::display_name::shown;
use crate::failure::Failure;
use crate::get;
use crate::opening::Opening;
use crate::output::Output;
use crate::place;
use crate::sanitize::one_line;
use crate::size;

pub(crate) fn run(args: &PiecesArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    place::check_named(&args.output)?;
    // The input is opened before anything is written, so that a signal can end the process at once
    // if the input is a pipe that blocks.
    let place = place::locate(&args.file, &args.reading.schema.companion)?;
    let input = Opening::of(&args.reading, output.objects())
        .progress(output.writing("writing"))
        .open_at(place)?;
    input.check_message()?;
    get::query(&input, &args.field)?;
    let wanted = PieceOptions::new()
        .max_size(args.max_size.unwrap_or(u64::MAX))
        .max_count(args.count.unwrap_or(u64::MAX))
        .with_rest(args.with_rest);
    let options = PiecesOptions::new().pieces(wanted);
    let report = pieces(&input, &args.field, &args.output, &options);
    let report = report.map_err(|error| match error.kind() {
        // An existing folder can't be overwritten, so the hint about `--force` is omitted.
        ErrorKind::AlreadyExists => Failure::usage(error.to_string()),
        ErrorKind::InvalidPath => {
            let error = get::with_meant_in(&input, &format!("{}[0]", args.field), error);
            Failure::of(input.file(), &error)
        }
        _ => Failure::of(input.file(), &error),
    })?;
    output.done(args.json, &report, |report, _| text(report))
}

fn text(report: &PiecesReport) -> String {
    let [input, output] = [&report.input, &report.output].map(|path| one_line(&shown(path)));
    let count: u64 = report.pieces.iter().map(|piece| piece.count).sum();
    let largest = report.pieces.iter().map(|piece| piece.bytes).max();
    let pieces = size::count(report.pieces.len(), "piece");
    let largest = size::show(largest.unwrap_or(0));
    format!("{output}: {pieces} of {input} with {count} elements, the largest of {largest}\n")
}
