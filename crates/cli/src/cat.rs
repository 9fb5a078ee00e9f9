//! `protosplit cat`: prints values as text, like `protosplit get` with a text format.

use crate::Exit;
use crate::args::{CatArgs, CatFormat, GetArgs, GetFormat};
#[cfg(feature = "columns")]
use crate::columns;
use crate::failure::Failure;
use crate::get;
use crate::output::Output;

pub(crate) fn run(args: &CatArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    if args.tally.is_asked() {
        return crate::tally::run(args, output);
    }
    #[cfg(feature = "columns")]
    match args.format {
        CatFormat::Parquet => {
            return columns::run(args, |table, to| table.write_parquet(to), output);
        }
        CatFormat::Arrow => return columns::run(args, |table, to| table.write_arrow(to), output),
        CatFormat::Csv => return columns::run(args, |table, to| table.write_csv(to), output),
        _ => {}
    }
    #[cfg(feature = "columns")]
    if let Some(option) = args.columns.asked() {
        let message = format!("{option} is for tables: --format parquet, arrow or csv");
        return Err(Failure::usage(message));
    }
    let part = GetArgs {
        root: None,
        file: args.file.clone(),
        path: Some(args.path.clone()),
        tensor: None,
        chunk: None,
        rows: None,
        output: args.output_file.output.clone(),
        format: Some(match args.format {
            CatFormat::Text => GetFormat::Text,
            CatFormat::Json => GetFormat::Json,
            CatFormat::Jsonl => GetFormat::Jsonl,
            _ => GetFormat::Binary,
        }),
        reading: args.reading.clone(),
        force: args.output_file.force,
        max_value: args.max_value.0,
    };
    get::run(&part, output)
}
