//! `protosplit layout`.

mod text;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use proto_splitter::formats::ALL;
use proto_splitter::progress::Progress;
use proto_splitter::record_file::{
    Chunk, ChunkLayout, ChunkPart, ChunkType, PartKind, ReadAt, ReaderOptions, RecordFile,
};
use proto_splitter::{Error, OpenOptions, Opened};
use serde::Serialize;

use crate::Exit;
use crate::args::{CompanionArgs, LayoutArgs};
use crate::failure::Failure;
use crate::input::{self, Chunked, Shared};
use crate::output::Output;

/// Where the chunks of a record file are cut into blocks.
const BLOCK: u64 = 64 << 10;

/// A file, and the other files that have chunks of it.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    main: Regions,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_files: Vec<Regions>,
}

#[derive(Debug, Default, Serialize)]
struct Regions {
    file: String,
    #[serde(skip)]
    path: PathBuf,
    file_bytes: u64,
    regions: Vec<Region>,
    /// Of the regions by what they are, in the order of the file.
    totals: Vec<Total>,
    blocks: u64,
    /// Bytes of records, as stored: not of the trailer's.
    data_bytes: u64,
    /// All other bytes, but for those that can't be read.
    overhead_bytes: u64,
    /// Those that can't be read.
    unreadable_bytes: u64,
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
    /// What is in it, if that is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part>,
}

#[derive(Debug, Serialize)]
struct Part {
    begin: u64,
    end: u64,
    what: &'static str,
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
    /// A file that is not a record file: all of it.
    Message,
}

#[derive(Debug, Serialize)]
struct Total {
    what: What,
    regions: u64,
    bytes: u64,
}

pub(crate) fn run(args: &LayoutArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    // Of a damaged message, too, the bytes in front of the damage are explained.
    let input = input::locate(&args.file, &CompanionArgs::default())?;
    let candidate = input.candidate(output.objects())?;
    let failed = |error: Error| Failure::of(&input.file, &error);
    let options = OpenOptions::new().limits(args.parts.limits());
    let is_chunked = candidate.is_chunked().map_err(failed)?;
    let format = ALL.recognize(&candidate).filter(|_| !is_chunked);
    let opened = match format {
        Some(format) => Some(ALL.open_input_as(format, &candidate, &options)),
        None if is_chunked => Some(ALL.open_input(&candidate, &options)),
        None => None,
    };
    if let Some(Err(error)) = opened.as_ref().filter(|_| !is_chunked) {
        return Err(Failure::of(&input.file, error));
    }
    // Any record file has a layout; only one of ours has a trailer.
    let opened = opened.and_then(Result::ok);
    let is_special = |opened: &&Opened| !is_chunked && !opened.is_single();
    if let Some(opened) = opened.as_ref().filter(is_special) {
        let title = opened.format().map_or("archive", |format| format.title());
        let name = input::shown(input.path());
        return Err(Failure::usage(format!(
            "{name}: {title}, and not a record file: `protosplit ls` says where its parts are"
        )));
    }
    let mut report = Report {
        main: Regions::of(&input.file),
        other_files: Vec::new(),
    };
    let walked = if is_chunked {
        let chunked = opened.as_ref().and_then(Opened::chunked);
        let source = candidate.source().map_err(failed)?;
        report.chunked(chunked, source, args, output)
    } else {
        report.main.message(candidate.size());
        Ok(())
    };
    if report.main.regions.is_empty() {
        // Nor is there anything to be seen of an empty file but its size.
        walked?;
        output.report(args.json, &report, Report::text)?;
        return Ok(Exit::Done);
    }
    // What was seen before the damage is what one looks for when there is some.
    output.report(args.json, &report, Report::text)?;
    walked.map(|()| Exit::Done)
}

impl Report {
    fn chunked(
        &mut self,
        chunked: Option<&Chunked>,
        source: Shared,
        args: &LayoutArgs,
        output: &Output<'_>,
    ) -> Result<(), Failure> {
        let walk = Walk {
            chunked,
            blocks: args.blocks,
            progress: output.reading("reading"),
        };
        let Some(chunked) = chunked else {
            let path = &self.main.path;
            let file = RecordFile::open(source, ReaderOptions::new());
            let file = file.map_err(|error| Failure::of(path, &error.into()))?;
            return walk.file(0, &file, &mut self.main);
        };
        let mut files = chunked.record_files();
        if let Some(main) = files.next() {
            walk.file(0, main, &mut self.main)?;
        }
        // Beside the file itself, not beside a link to it.
        let main = &self.main.path;
        let real = main
            .is_symlink()
            .then(|| main.canonicalize().ok())
            .flatten();
        let folder = real.as_ref().unwrap_or(main).parent();
        let folder = folder.unwrap_or(Path::new("")).to_owned();
        let named = &chunked.trailer().metadata().files;
        for ((number, file), named) in (1..).zip(files).zip(named) {
            let mut regions = Regions::of(&folder.join(&named.path));
            let walked = walk.file(number, file, &mut regions);
            self.other_files.push(regions);
            walked?;
        }
        Ok(())
    }

    fn text(&self, width: Option<usize>) -> String {
        let files = std::iter::once(&self.main).chain(&self.other_files);
        let texts: Vec<String> = files.map(|file| file.text(width)).collect();
        texts.join("\n")
    }
}

/// What is known of a file while its chunks are gone through.
struct Walk<'a> {
    chunked: Option<&'a Chunked>,
    blocks: bool,
    progress: Progress,
}

impl Walk<'_> {
    /// Goes through one of the files, up to its end or to what can't be read.
    fn file<S: ReadAt>(
        &self,
        number: usize,
        file: &RecordFile<S>,
        regions: &mut Regions,
    ) -> Result<(), Failure> {
        let walked = self.regions(number, file, regions);
        regions.sum();
        walked
    }

    fn regions<S: ReadAt>(
        &self,
        number: usize,
        file: &RecordFile<S>,
        regions: &mut Regions,
    ) -> Result<(), Failure> {
        let path = regions.path.clone();
        let failed = |error: proto_splitter::record_file::Error| Failure::of(&path, &error.into());
        regions.file_bytes = file.size();
        regions.blocks = file.size().div_ceil(BLOCK);
        let mut named = self.chunks_by_begin(number);
        let trailer = match self.chunked {
            Some(_) => file.last_record().map_err(failed)?,
            None => None,
        };
        let meter = self.progress.meter(file.size());
        for chunk in file.chunks() {
            let chunk = chunk.map_err(failed)?;
            meter.advance(chunk.end().0 - chunk.begin().0)?;
            let has_trailer = trailer.is_some_and(|trailer| trailer.chunk_begin() == chunk.begin());
            let mut region = Region::of(&chunk, has_trailer);
            region.chunks = named.remove(&chunk.begin().0).unwrap_or_default();
            if chunk.header.num_records > 0 {
                let compression = file.compression(&chunk).ok();
                region.compression = compression.map(|compression| compression.to_string());
            }
            if self.blocks {
                region.parts = chunk.parts().map(Part::of).collect();
            }
            regions.regions.push(region);
        }
        Ok(())
    }

    /// The message's chunks in a file, by where their record chunks begin.
    fn chunks_by_begin(&self, number: usize) -> HashMap<u64, Vec<usize>> {
        let mut named: HashMap<u64, Vec<usize>> = HashMap::new();
        let Some(chunked) = self.chunked else {
            return named;
        };
        for index in 0..chunked.trailer().kinds().len() {
            if let Some((file, position)) = chunked.place(index)
                && file == number
            {
                named
                    .entry(position.chunk_begin().0)
                    .or_default()
                    .push(index);
            }
        }
        named
    }
}

impl Part {
    fn of(part: ChunkPart) -> Part {
        Part {
            begin: part.begin,
            end: part.end,
            what: match part.kind {
                PartKind::BlockHeader => "block header",
                PartKind::Header => "chunk header",
                PartKind::Data => "data",
                PartKind::Fill => "fill",
                _ => "unknown",
            },
        }
    }
}

impl Regions {
    fn of(file: &Path) -> Self {
        Regions {
            file: input::shown(file),
            path: file.to_owned(),
            ..Regions::default()
        }
    }

    fn message(&mut self, size: u64) {
        self.file_bytes = size;
        let message = Region::plain(0, self.file_bytes, What::Message);
        self.regions.push(message);
        self.sum();
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
        let unreadable = self.totals.iter().find(|t| t.what == What::Unreadable);
        self.unreadable_bytes = unreadable.map_or(0, |total| total.bytes);
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
            parts: Vec::new(),
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
                ChunkType::Signature => What::Signature,
                ChunkType::Metadata => What::FileMetadata,
                ChunkType::Padding => What::Padding,
                ChunkType::Simple => What::Records,
                ChunkType::Transposed => What::TransposedRecords,
                _ => What::Unknown,
            },
            chunks: Vec::new(),
            records: chunk.header.num_records,
            header_bytes: header,
            block_header_bytes: block_headers,
            data_bytes: data,
            fill_bytes: fill,
            compression: None,
            parts: Vec::new(),
        }
    }
}

impl What {
    fn is_content(self) -> bool {
        matches!(
            self,
            What::Records | What::TransposedRecords | What::Message
        )
    }
}
