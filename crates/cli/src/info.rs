//! The `protosplit info` command.

use proto_splitter::ops::{ChunkInfo, FormatInfo, Info, MessageInfo, OtherFile, info};

use crate::Exit;
use crate::args::InfoArgs;
use crate::display_name::shown;
use crate::failure::Failure;
use crate::opening::Opening;
use crate::output::{Output, hex, shown_path};
use crate::sanitize::{one_line, shorten};
use crate::size;
use crate::table::{Align, Table, facts};

pub(crate) fn run(args: &InfoArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let input = Opening::new(&args.schema, args.shards.limits(), output.objects())
        .looked_at(true)
        .progress(output.reading("reading"))
        .open(&args.file)?;
    output.reads(input.files())?;
    let mut report = info(&input).map_err(|error| Failure::of(input.path(), &error))?;
    if let Info::Format(found) = &mut report {
        found.file = input.path().to_owned();
    }
    output.report(args.json, &report, |report, width| match report {
        Info::Message(found) => message(found, width),
        Info::Format(found) => format_text(found),
        _ => String::new(),
    })
}

/// Returns a table of the files that contain chunks; empty if there is only the main file.
pub(crate) fn files_table(main: u64, others: &[OtherFile], width: Option<usize>) -> String {
    if others.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        ("file", Align::Right),
        ("size", Align::Right),
        ("name", Align::Left),
    ]);
    table.row(["0".into(), size::show(main), "this one".into()]);
    for (number, other) in (1..).zip(others) {
        let number: u64 = number;
        let size = size::show(other.bytes);
        table.row([number.to_string(), size, one_line(&other.file)]);
    }
    format!("\n{}", table.render_within(width))
}

/// Returns a table with a line for each chunk. The column `ratio` is shown only if `detail` is
/// true.
pub(crate) fn chunks_table<'a>(
    chunks: impl Iterator<Item = (&'a ChunkInfo, String)>,
    in_one_file: bool,
    detail: bool,
    width: Option<usize>,
) -> String {
    let mut table = Table::new([
        ("index", Align::Right),
        ("kind", Align::Left),
        ("size", Align::Right),
        ("stored", Align::Right),
        ("ratio", Align::Right),
        ("compression", Align::Left),
        ("file", Align::Right),
        ("position", Align::Right),
        ("crc32c", Align::Left),
        ("path", Align::Left),
    ]);
    if in_one_file {
        table.hide("file");
    }
    if !detail {
        table.hide("ratio");
    }
    for (chunk, ratio) in chunks {
        let path = match (&chunk.path, chunk.other_paths.len()) {
            (None, _) => "nowhere".into(),
            (Some(path), 0) => shown_path(path),
            (Some(path), others) => format!("{} +{others}", shown_path(path)),
        };
        table.row([
            chunk.index.to_string(),
            chunk.kind.clone(),
            size::show(chunk.size),
            stored(chunk),
            ratio,
            chunk.compression.clone().unwrap_or_else(|| "-".into()),
            chunk.file.to_string(),
            chunk.position.to_string(),
            chunk.crc32c.map_or("-".into(), hex),
            path,
        ]);
    }
    table.render_within(width)
}

/// Returns the stored size of a chunk or, if the chunk shares a record with other chunks, a
/// reference to another chunk in this record.
fn stored(chunk: &ChunkInfo) -> String {
    match (chunk.stored_size, chunk.shared_with.as_slice()) {
        // The record is stored only once, and the earlier chunk is listed with its size.
        (Some(_), [first, ..]) if *first < chunk.index => format!("as {first}"),
        (Some(bytes), _) => size::show(bytes),
        (None, []) if chunk.compression.is_none() => "-".into(),
        (None, []) => "shared".into(),
        (None, [other]) => format!("with {other}"),
        (None, [first, others @ ..]) => {
            format!("with {first} +{}", others.len() + chunk.shared_with_more)
        }
    }
}

fn message(info: &MessageInfo, width: Option<usize>) -> String {
    let mut known = vec![("file", one_line(&shown(&info.file)))];
    known.push((
        "message",
        info.message.as_deref().map_or("not known".into(), one_line),
    ));
    if !info.split {
        known.push(("size", exactly(info.file_bytes)));
        known.push(("chunks", "none: the message was not split".into()));
        known.extend(said(&info.properties, width));
        return facts(&known);
    }
    known.push(("size", exactly(info.file_bytes)));
    if !info.files.is_empty() {
        let files = info.files.len() + 1;
        known.push(("files", format!("{files}, which belong together")));
    }
    if let Some(bytes) = info.source_bytes {
        let crc32c = info
            .source_crc32c
            .map_or(String::new(), |crc| format!(", crc32c {}", hex(crc)));
        known.push(("source", format!("{}{crc32c}", exactly(bytes))));
    }
    if let Some(bytes) = info.merged_bytes {
        known.push(("merged", format!("about {}", exactly(bytes))));
    }
    let merge = match info.byte_exact {
        Some(true) => "gives the same bytes",
        Some(false) => "gives an equal message, not the same bytes",
        None => "may depend on the message's type",
    };
    known.push(("merge", merge.into()));
    let versions = [
        ("splitter", info.splitter_version),
        ("join", info.join_version),
    ];
    let versions = versions
        .into_iter()
        .filter_map(|(of, version)| Some(format!("{of} {}", version?)));
    known.push(("version", versions.collect::<Vec<_>>().join(", ")));
    let root = info.merkle_root;
    known.extend(root.map(|root| ("Merkle root", root.to_string())));
    known.push(("chunks", info.chunks.len().to_string()));
    known.extend(said(&info.properties, width));
    let others = info.files.iter().map(|file| file.bytes);
    let main = info.file_bytes.saturating_sub(others.sum());
    let files = files_table(main, &info.files, width);
    let chunks = info.chunks.iter().map(|chunk| (chunk, String::new()));
    let chunks = chunks_table(chunks, info.files.is_empty(), false, width);
    format!("{}\n{chunks}{files}", facts(&known))
}

fn format_text(info: &FormatInfo) -> String {
    let mut lines = vec![
        ("file", one_line(&shown(&info.file))),
        ("format", info.format.to_owned()),
    ];
    if let Some(message) = &info.message {
        let bytes = info.message_bytes.map(size::show).unwrap_or_default();
        lines.push(("message", format!("{}, {bytes}", one_line(message))));
    }
    if info.tensors > 0 || info.message.is_none() {
        let bytes = size::show(info.tensor_bytes);
        lines.push(("tensors", format!("{}, {bytes} in all", info.tensors)));
    }
    lines.extend(info.largest.iter().map(|large| {
        let what = large.what.as_deref().unwrap_or_default();
        let (name, what) = (one_line(&large.name), one_line(what));
        (
            "largest",
            format!("{name} {what}, {}", size::show(large.bytes)),
        )
    }));
    lines.extend(
        info.files
            .iter()
            .map(|file| ("read from", one_line(&shown(file)))),
    );
    let properties = info.properties.iter();
    let properties: Vec<(String, String)> = properties
        .map(|(name, value)| (one_line(name), one_line(value)))
        .collect();
    let more = properties
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()));
    lines.extend(more);
    facts(&lines)
}

/// Returns the metadata of a message as text, with lines of at most `width` columns.
fn said(
    properties: &[(String, String)],
    width: Option<usize>,
) -> impl Iterator<Item = (&str, String)> {
    let names = properties.iter().map(|(name, _)| name.len());
    // Each name is followed by at least two spaces. The names that the command adds to these
    // properties are at most as long as `version`, except for `Merkle root`.
    let column = names.max().unwrap_or(0).max("version".len()) + 2;
    let most = width.map_or(usize::MAX, |width| width.saturating_sub(column));
    let said = properties.iter();
    said.map(move |(name, value)| (name.as_str(), shorten(&one_line(value), most)))
}

fn exactly(bytes: u64) -> String {
    let shown = size::show(bytes);
    if bytes < 1024 {
        shown
    } else {
        format!("{shown} ({bytes} bytes)")
    }
}
