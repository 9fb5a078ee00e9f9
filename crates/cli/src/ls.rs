//! The `protosplit ls` command.

use proto_splitter::ops::{ListOptions, ListedChunk, ListedEntry, Listing, list};

use crate::Exit;
use crate::args::LsArgs;
use crate::failure::Failure;
use crate::info::{chunks_table, files_table};
use crate::opening::Opening;
use crate::output::Output;
use crate::remote;
use crate::sanitize::one_line;
use crate::size;
use crate::table::{Align, Table};

pub(crate) fn run(args: &LsArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let input = Opening::new(&args.schema, args.shards.limits(), output.objects())
        .looked_at(true)
        .progress(output.reading("reading"))
        .open(&args.file)?;
    output.reads(input.files())?;
    // For an object in a store, reading each chunk's header would take a request.
    let options = ListOptions::new().read_headers(!remote::is_url(input.file()));
    let mut report = list(&input, &options).map_err(|error| Failure::of(input.path(), &error))?;
    if let Listing::Entries { file, .. } = &mut report {
        *file = input.path().to_owned();
    }
    output.report(args.json, &report, |report, width| match report {
        Listing::Chunks {
            file_bytes,
            files,
            chunks,
            ..
        } => {
            let listed = chunks.iter().map(|listed| (&listed.chunk, percent(listed)));
            let chunks = chunks_table(listed, files.is_empty(), true, width);
            chunks + &files_table(*file_bytes, files, width)
        }
        Listing::Entries { entries, .. } => entries_table(entries, width),
        _ => String::new(),
    })
}

fn percent(listed: &ListedChunk) -> String {
    match listed.ratio {
        Some(ratio) => format!("{:.1}%", ratio * 100.0),
        None => "-".into(),
    }
}

fn entries_table(entries: &[ListedEntry], width: Option<usize>) -> String {
    let mut table = Table::new([
        ("size", Align::Right),
        ("what", Align::Left),
        ("name", Align::Left),
        ("where", Align::Left),
    ]);
    for entry in entries {
        table.row([
            size::show(entry.bytes),
            one_line(entry.what.as_deref().unwrap_or("-")),
            one_line(&entry.name),
            one_line(&entry.location),
        ]);
    }
    table.render_within(width)
}
