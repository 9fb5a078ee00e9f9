//! `protosplit cat --format parquet`: writes a table of the elements that a query selects.

use std::io::Write;

use proto_splitter::Error;
use proto_splitter::member_names;
use proto_splitter_columns::Table;

use crate::Exit;
use crate::args::CatArgs;
use crate::failure::Failure;
use crate::get::{failure, query, to_target};
use crate::opening::Opening;
use crate::output::Output;
use crate::place;

/// Writes a table to standard output or, with `-o`, to a file, which appears complete or not at
/// all. `write` writes the table in the requested format.
pub(crate) fn run(
    args: &CatArgs,
    write: fn(&Table<'_>, &mut dyn Write) -> proto_splitter::Result<u64>,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let target = place::target(args.output_file.output.as_deref());
    let place = place::locate(&args.file, &args.reading.schema.companion)?;
    let progress = match target {
        Some(_) => output.writing("reading"),
        None => output.reading("reading"),
    };
    let opening = Opening::of(&args.reading, output.objects())
        .looked_at(true)
        .progress(progress);
    let input = opening.open_at(place)?;
    let failed = |error: &Error| failure(&input, &args.path, error);
    let query = query(&input, &args.path)?;
    if let Some(target) = target {
        input.check_apart(target)?;
    }
    let view = input.typed_view().map_err(|error| failed(&error))?;
    let table = Table::new(view, &query, &member_names(), &args.columns.options());
    let table = table.map_err(|error| Failure::of(input.file(), &error).into_usage())?;
    let write = |sink: &mut dyn Write| write(&table, sink);
    let written = to_target(target, args.output_file.force, output, input.files(), write);
    written.map_err(|error| failed(&input.placed(error)))?;
    Ok(Exit::Done)
}
