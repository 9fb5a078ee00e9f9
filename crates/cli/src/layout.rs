//! `protosplit layout`.

use std::collections::HashMap;
use std::fs::File;

use proto_splitter::container::ChunkedFile;
use proto_splitter::record_file::{Chunk, ChunkKind, ChunkLayout, ReaderOptions, RecordFile};
use serde::Serialize;

use crate::Exit;
use crate::args::LayoutArgs;
use crate::failure::Failure;
use crate::input::{self, Form, Input};
use crate::output::{Output, one_line};
use crate::size;
use crate::table::{Align, Table, facts};

/// Where the chunks of a record file are cut into blocks.
const BLOCK: u64 = 64 << 10;

#[derive(Debug, Default, Serialize)]
struct Report {
    file: String,
    file_bytes: u64,
    regions: Vec<Region>,
    /// Of the regions by what they are, in the order of the file.
    totals: Vec<Total>,
    blocks: u64,
    /// Bytes of records, as stored: not of the trailer's.
    data_bytes: u64,
    /// All other bytes, but for those that can't be read.
    overhead_bytes: u64,
}

/// A run of the file's bytes.
#[derive(Debug, Serialize)]
struct Region {
    begin: u64,
    end: u64,
    what: What,
    /// The chunks of the message that are in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    chunks: Vec<usize>,
    records: u64,
    header_bytes: u64,
    block_header_bytes: u64,
    data_bytes: u64,
    fill_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<String>,
}

/// What a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Signature,
    FileMetadata,
    Padding,
    Records,
    TransposedRecords,
    Trailer,
    Unknown,
    /// What is behind damage.
    Unreadable,
    /// A file that is no record file: all of it.
    Message,
}

#[derive(Debug, Serialize)]
struct Total {
    what: What,
    regions: u64,
    bytes: u64,
}

pub(crate) fn run(args: &LayoutArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let input = input::find(&args.file)?;
    let mut report = Report {
        file: input.file.display().to_string(),
        ..Report::default()
    };
    let walked = match input.form {
        Form::Plain => report.message(&input),
        Form::Chunked => report.walk(&input),
    };
    if report.regions.is_empty() {
        walked?;
        return Ok(Exit::Done);
    }
    // What was seen before the damage is what one looks for when there is some.
    report.sum();
    if args.json {
        output.json(&report)
    } else {
        let width = output.width();
        output.print(&report.text(width))
    }?;
    walked.map(|()| Exit::Done)
}

impl Report {
    fn message(&mut self, input: &Input) -> Result<(), Failure> {
        let metadata = std::fs::metadata(&input.file);
        self.file_bytes = metadata
            .map_err(|error| Failure::io(&input.file, &error))?
            .len();
        let message = Region::plain(0, self.file_bytes, What::Message);
        self.regions.push(message);
        Ok(())
    }

    fn walk(&mut self, input: &Input) -> Result<(), Failure> {
        let failed =
            |error: proto_splitter::record_file::Error| Failure::of(&input.file, &error.into());
        let file = File::open(&input.file).map_err(|error| Failure::io(&input.file, &error))?;
        let file = RecordFile::open(file, ReaderOptions::new()).map_err(failed)?;
        self.file_bytes = file.size();
        self.blocks = file.size().div_ceil(BLOCK);
        // Any record file has a layout; only one of ours has a trailer.
        let chunked = ChunkedFile::open(&input.file).ok();
        let mut named: HashMap<u64, Vec<usize>> = HashMap::new();
        for (index, position) in chunked
            .iter()
            .flat_map(|file| (0..).map_while(|index| Some((index, file.position(index)?))))
        {
            let begin = position.chunk_begin().0;
            named.entry(begin).or_default().push(index);
        }
        let trailer = match &chunked {
            Some(_) => file.last_record().map_err(failed)?,
            None => None,
        };
        for chunk in file.chunks() {
            let chunk = chunk.map_err(failed)?;
            let has_trailer = trailer.is_some_and(|trailer| trailer.chunk_begin() == chunk.begin());
            let mut region = Region::of(&chunk, has_trailer);
            region.chunks = named.remove(&chunk.begin().0).unwrap_or_default();
            if chunk.header.num_records > 0 {
                let compression = file.compression(&chunk).ok();
                region.compression = compression.map(|compression| compression.to_string());
            }
            self.regions.push(region);
        }
        Ok(())
    }

    fn sum(&mut self) {
        let seen = self.regions.last().map_or(0, |last| last.end);
        if seen < self.file_bytes {
            let rest = Region::plain(seen, self.file_bytes, What::Unreadable);
            self.regions.push(rest);
        }
        for region in &self.regions {
            let bytes = region.end - region.begin;
            match self.totals.iter_mut().find(|t| t.what == region.what) {
                Some(total) => {
                    total.regions += 1;
                    total.bytes += bytes;
                }
                None => self.totals.push(Total {
                    what: region.what,
                    regions: 1,
                    bytes,
                }),
            }
            if region.what.is_content() {
                self.data_bytes += region.data_bytes;
            }
        }
        let of = |region: &Region| match region.what {
            What::Unreadable => 0,
            what if what.is_content() => region.end - region.begin - region.data_bytes,
            _ => region.end - region.begin,
        };
        self.overhead_bytes = self.regions.iter().map(of).sum();
    }

    fn text(&self, width: Option<usize>) -> String {
        let mut table = Table::new([
            ("begin", Align::Right),
            ("end", Align::Right),
            ("bytes", Align::Right),
            ("header", Align::Right),
            ("blocks", Align::Right),
            ("data", Align::Right),
            ("fill", Align::Right),
            ("what", Align::Left),
        ]);
        for region in &self.regions {
            table.row([
                region.begin.to_string(),
                region.end.to_string(),
                (region.end - region.begin).to_string(),
                region.header_bytes.to_string(),
                region.block_header_bytes.to_string(),
                region.data_bytes.to_string(),
                region.fill_bytes.to_string(),
                region.said(),
            ]);
        }
        let mut totals = vec![("file", one_line(&self.file))];
        totals.push((
            "size",
            format!(
                "{} ({} bytes)",
                size::show(self.file_bytes),
                self.file_bytes
            ),
        ));
        for total in &self.totals {
            let name = total.what.name();
            let regions = if total.regions > 1 {
                format!("{} regions, ", total.regions)
            } else {
                String::new()
            };
            totals.push((name, format!("{regions}{} bytes", total.bytes)));
        }
        let sum = |of: fn(&Region) -> u64| self.regions.iter().map(of).sum::<u64>();
        if self.blocks > 0 {
            let bytes = sum(|region| region.block_header_bytes);
            totals.push((
                "blocks",
                format!("{}, their headers {bytes} bytes", self.blocks),
            ));
        }
        totals.push(("data", format!("{} bytes", self.data_bytes)));
        totals.push((
            "overhead",
            format!(
                "{} bytes, {}",
                self.overhead_bytes,
                percent(self.overhead_bytes, self.file_bytes)
            ),
        ));
        format!("{}\n{}", table.render_within(width), facts(&totals))
    }
}

impl Region {
    /// One without headers.
    fn plain(begin: u64, end: u64, what: What) -> Self {
        Region {
            begin,
            end,
            what,
            chunks: Vec::new(),
            records: 0,
            header_bytes: 0,
            block_header_bytes: 0,
            data_bytes: end - begin,
            fill_bytes: 0,
            compression: None,
        }
    }

    fn of(chunk: &Chunk, has_trailer: bool) -> Self {
        let ChunkLayout {
            header,
            block_headers,
            data,
            fill,
            ..
        } = chunk.layout();
        Region {
            begin: chunk.begin().0,
            end: chunk.end().0,
            what: match chunk.header.kind {
                _ if has_trailer => What::Trailer,
                ChunkKind::Signature => What::Signature,
                ChunkKind::Metadata => What::FileMetadata,
                ChunkKind::Padding => What::Padding,
                ChunkKind::Simple => What::Records,
                ChunkKind::Transposed => What::TransposedRecords,
                _ => What::Unknown,
            },
            chunks: Vec::new(),
            records: chunk.header.num_records,
            header_bytes: header,
            block_header_bytes: block_headers,
            data_bytes: data,
            fill_bytes: fill,
            compression: None,
        }
    }

    fn said(&self) -> String {
        let mut said = self.what.name().to_owned();
        match self.chunks.as_slice() {
            [] if self.records > 1 => said = format!("{} {said}", self.records),
            [] => {}
            [one] => said = format!("chunk {one}"),
            [first, others @ ..] => said = format!("chunk {first} and {} others", others.len()),
        }
        if self.what == What::Trailer && !self.chunks.is_empty() {
            said.push_str(", and the trailer");
        }
        match self.compression.as_deref() {
            Some(compression) if compression != "none" => format!("{said}, {compression}"),
            _ => said,
        }
    }
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Signature => "signature",
            What::FileMetadata => "file metadata",
            What::Padding => "padding",
            What::Records => "records",
            What::TransposedRecords => "transposed records",
            What::Trailer => "trailer",
            What::Unknown => "unknown",
            What::Unreadable => "unreadable",
            What::Message => "message",
        }
    }

    fn is_content(self) -> bool {
        matches!(
            self,
            What::Records | What::TransposedRecords | What::Message
        )
    }
}

fn percent(part: u64, of: u64) -> String {
    let hundredths = u128::from(part) * 10_000 / u128::from(of.max(1));
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}
