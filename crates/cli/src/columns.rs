//! `protosplit cat --format parquet`: writes a table of the elements that a query selects.

use std::io::Write;

use proto_splitter::Error;
use proto_splitter::atomic::{AtomicFile, MadeFrom};
use proto_splitter::member_names;
use proto_splitter::path::PathQuery;
use proto_splitter_columns::Table;

use crate::Exit;
use crate::args::{CatArgs, TableFormat};
use crate::failure::Failure;
use crate::get::failure;
use crate::opening::Opening;
use crate::output::Output;
use crate::place::{self, STANDARD};

/// Writes a table to standard output or, with `-o`, to a file, which appears complete or not at
/// all.
pub(crate) fn run(
    args: &CatArgs,
    format: TableFormat,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let target = args.output_file.output.as_deref();
    let target = target.filter(|target| *target != std::path::Path::new(STANDARD));
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
    let query = PathQuery::parse(&args.path, input.descriptor());
    let query = query.map_err(|error| failed(&error).into_usage())?;
    if let Some(target) = target {
        input.check_apart(target)?;
    }
    let view = input.typed_view().map_err(|error| failed(&error))?;
    let table = Table::new(view, &query, &member_names(), &args.columns.options());
    let table = table.map_err(|error| Failure::of(input.file(), &error).into_usage())?;
    let write = |sink: &mut dyn Write| match format {
        TableFormat::Parquet => table.write_parquet(sink),
        TableFormat::Arrow => table.write_arrow(sink),
        TableFormat::Csv => table.write_csv(sink),
    };
    let written = match target {
        None => write(output),
        Some(target) => {
            let made_from = MadeFrom::files(input.files());
            AtomicFile::create(target, &made_from, args.output_file.force)
                .and_then(|file| file.write(|sink| write(sink)))
        }
    };
    written.map_err(|error| failed(&input.placed(error)))?;
    Ok(Exit::Done)
}
