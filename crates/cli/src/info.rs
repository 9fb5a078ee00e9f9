//! `protosplit info`.

use prost_reflect::MessageDescriptor;
use proto_splitter::container::{ChunkKind, ChunkSummary};
use proto_splitter::proto::proto_splitter::chunk_metadata::ExternalFile;
use proto_splitter::record_file::CompressionKind;
use serde::Serialize;

use crate::Exit;
use crate::archive;
use crate::args::InfoArgs;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::input::{Chunked, Input, Opening, shown};
use crate::output::{Output, hex, shown_path};
use crate::size;
use crate::table::{Align, Table, facts};

/// What there is to know about a file without reading its chunks.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    split: bool,
    /// The full name of the message's type, if it is known.
    message: Option<String>,
    /// With those of the other files that have chunks.
    file_bytes: u64,
    /// The other files that have chunks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<OtherFile>,
    /// Of the message that was split, if the file says it.
    source_bytes: Option<u64>,
    source_crc32c: Option<String>,
    /// What the chunks come to, each as often as it belongs somewhere, where the file doesn't say
    /// how large the message is.
    #[serde(skip_serializing_if = "Option::is_none")]
    merged_bytes: Option<u64>,
    byte_exact: Option<bool>,
    /// Whether what was cut left placeholders, so that a merge needs no type.
    placeholders: bool,
    splitter_version: Option<i32>,
    join_version: Option<i32>,
    bad_consumers: Vec<i32>,
    chunks: Vec<Chunk>,
}

#[derive(Debug, Serialize)]
pub(crate) struct OtherFile {
    /// As the file names it: relative to its own folder.
    pub(crate) file: String,
    pub(crate) bytes: u64,
}

impl OtherFile {
    /// The files that a file says chunks are in.
    pub(crate) fn all_of(file: &Chunked) -> Vec<OtherFile> {
        let named = file.trailer().metadata().files.iter();
        let of = |file: &ExternalFile| OtherFile {
            file: file.path.clone(),
            bytes: file.size,
        };
        named.map(of).collect()
    }
}

/// A table of the files that chunks are in, counted as the chunks say it; nothing if there is one.
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

#[derive(Debug, Serialize)]
pub(crate) struct Chunk {
    pub(crate) index: u64,
    pub(crate) kind: String,
    /// None if the chunk belongs nowhere.
    pub(crate) path: Option<String>,
    /// Where else it belongs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_paths: Vec<String>,
    pub(crate) size: u64,
    /// None if other records share its record chunk, or its header wasn't read.
    pub(crate) stored_size: Option<u64>,
    /// The chunks in the same record chunk, or that are the very same record.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shared_with: Vec<u64>,
    /// How many more of them there are than are listed.
    #[serde(skip_serializing_if = "is_zero")]
    shared_with_more: usize,
    /// None if its header wasn't read.
    pub(crate) compression: Option<String>,
    /// Which of `files` it is in, counted from 1; 0: the file itself.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) file: usize,
    pub(crate) position: u64,
    pub(crate) crc32c: Option<String>,
}

/// A line for each chunk; its ratio only in `detail`.
pub(crate) fn chunks_table<'a>(
    chunks: impl Iterator<Item = (&'a Chunk, String)>,
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
            chunk.stored(),
            ratio,
            chunk.compression.clone().unwrap_or_else(|| "-".into()),
            chunk.file.to_string(),
            chunk.position.to_string(),
            chunk.crc32c.clone().unwrap_or_else(|| "-".into()),
            path,
        ]);
    }
    table.render_within(width)
}

/// How many other chunks are listed for each that shares a record chunk. A million may share one,
/// and each has all others.
const MOST_LISTED: usize = 100;

fn is_zero(count: &usize) -> bool {
    *count == 0
}

pub(crate) fn run(args: &InfoArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let input = Opening::of_parts(&args.schema, args.parts, output.objects())
        .looked_at(true)
        .progress(output.reading("reading"))
        .open(&args.file)?;
    if input.is_told() {
        return archive::info(&input, args.json, output);
    }
    let report = match (input.chunked(), input.plain()) {
        (Some(file), _) => chunked(&input, file)?,
        (None, plain) => whole(&input, plain.map_or(0, |(_, size)| size)),
    };
    output.report(args.json, &report, Report::text)?;
    Ok(Exit::Done)
}

fn whole(input: &Input, bytes: u64) -> Report {
    let known = input.descriptor();
    Report {
        file: shown(input.file()),
        split: false,
        message: known.map(|known| known.full_name().to_owned()),
        file_bytes: bytes,
        files: Vec::new(),
        source_bytes: Some(bytes),
        source_crc32c: None,
        merged_bytes: None,
        byte_exact: None,
        placeholders: false,
        splitter_version: None,
        join_version: None,
        bad_consumers: Vec::new(),
        chunks: Vec::new(),
    }
}

fn chunked(input: &Input, file: &Chunked) -> Result<Report, Failure> {
    let failed = |error| Failure::of(input.file(), &error);
    let trailer = file.trailer();
    let metadata = trailer.metadata();
    let known = input.descriptor();
    let version = metadata.version.clone().unwrap_or_default();
    let summaries = file.summaries().map_err(failed)?;
    let name = known.map(|known| known.full_name());
    let merged = summaries.iter().fold(0, |sum: u64, chunk| {
        sum.saturating_add(chunk.size.saturating_mul(chunk.places.len() as u64))
    });
    Ok(Report {
        file: shown(input.file()),
        split: true,
        message: trailer.message_type().or(name).map(str::to_owned),
        file_bytes: file.record_files().map(|file| file.size()).sum(),
        files: OtherFile::all_of(file),
        source_bytes: metadata.source_size,
        source_crc32c: metadata.source_crc32c.map(hex),
        merged_bytes: metadata.source_size.is_none().then_some(merged),
        byte_exact: trailer.is_marked().then_some(trailer.is_byte_exact()),
        placeholders: trailer.is_marked(),
        splitter_version: Some(version.splitter_version),
        join_version: Some(version.join_version),
        bad_consumers: version.bad_consumers,
        chunks: summaries
            .into_iter()
            .map(|summary| chunk(summary, known))
            .collect(),
    })
}

pub(crate) fn chunk(summary: ChunkSummary, known: Option<&MessageDescriptor>) -> Chunk {
    let shared = &summary.shared_with;
    let mut paths = summary.places.iter().map(|place| place.path.display(known));
    Chunk {
        index: summary.index.get(),
        kind: summary.kind.to_string(),
        path: paths.next(),
        other_paths: paths.collect(),
        size: summary.size,
        stored_size: summary.stored_size,
        shared_with: shared
            .iter()
            .take(MOST_LISTED)
            .map(|chunk| chunk.get())
            .collect(),
        shared_with_more: shared.len().saturating_sub(MOST_LISTED),
        compression: summary.compression.map(|kind| kind.to_string()),
        file: summary.file,
        position: summary.position.numeric(),
        crc32c: summary.crc32c.map(hex),
    }
}

impl Chunk {
    /// A message in one piece, as if it were a chunk.
    pub(crate) fn whole(bytes: u64) -> Self {
        Chunk {
            index: 0,
            kind: ChunkKind::Message.to_string(),
            path: Some(String::new()),
            other_paths: Vec::new(),
            size: bytes,
            stored_size: Some(bytes),
            shared_with: Vec::new(),
            shared_with_more: 0,
            compression: Some(CompressionKind::None.to_string()),
            file: 0,
            position: 0,
            crc32c: None,
        }
    }

    /// Bytes in the file, or the chunk that it is stored with.
    pub(crate) fn stored(&self) -> String {
        match (self.stored_size, self.shared_with.as_slice()) {
            // The very same record, which is stored once.
            (Some(_), [first, ..]) if *first < self.index => format!("as {first}"),
            (Some(bytes), _) => size::show(bytes),
            (None, []) if self.compression.is_none() => "-".into(),
            (None, []) => "shared".into(),
            (None, [other]) => format!("with {other}"),
            (None, [first, others @ ..]) => {
                format!("with {first} +{}", others.len() + self.shared_with_more)
            }
        }
    }
}

impl Report {
    fn text(&self, width: Option<usize>) -> String {
        let mut known = vec![("file", one_line(&self.file))];
        known.push((
            "message",
            self.message.as_deref().map_or("not known".into(), one_line),
        ));
        if !self.split {
            known.push(("size", exactly(self.file_bytes)));
            known.push(("chunks", "none: the message was not split".into()));
            return facts(&known);
        }
        known.push(("size", exactly(self.file_bytes)));
        if !self.files.is_empty() {
            let files = self.files.len() + 1;
            known.push(("files", format!("{files}, which belong together")));
        }
        if let Some(bytes) = self.source_bytes {
            let crc32c = self
                .source_crc32c
                .as_ref()
                .map_or(String::new(), |crc| format!(", crc32c {crc}"));
            known.push(("source", format!("{}{crc32c}", exactly(bytes))));
        }
        if let Some(bytes) = self.merged_bytes {
            known.push(("merged", format!("about {}", exactly(bytes))));
        }
        let merge = match self.byte_exact {
            Some(true) => "gives the same bytes",
            Some(false) => "gives an equal message, not the same bytes",
            None => "may depend on the message's type",
        };
        known.push(("merge", merge.into()));
        let versions = [
            ("splitter", self.splitter_version),
            ("join", self.join_version),
        ];
        let versions = versions
            .into_iter()
            .filter_map(|(of, version)| Some(format!("{of} {}", version?)));
        known.push(("version", versions.collect::<Vec<_>>().join(", ")));
        known.push(("chunks", self.chunks.len().to_string()));
        let others = self.files.iter().map(|file| file.bytes);
        let main = self.file_bytes.saturating_sub(others.sum());
        let files = files_table(main, &self.files, width);
        let chunks = self.chunks.iter().map(|chunk| (chunk, String::new()));
        let chunks = chunks_table(chunks, self.files.is_empty(), false, width);
        format!("{}\n{chunks}{files}", facts(&known))
    }
}

fn exactly(bytes: u64) -> String {
    let shown = size::show(bytes);
    if bytes < 1024 {
        shown
    } else {
        format!("{shown} ({bytes} bytes)")
    }
}
