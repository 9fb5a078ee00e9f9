//! Describing the use of every byte in a record file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::formats::{Candidate, OpenOptions, Opened, Registry};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::{
    Chunk, ChunkLayout, ChunkPart, ChunkType, PartKind, ReadAt, ReaderOptions, RecordFile,
};

use crate::error_place::at_path;

/// Size of the blocks in a record file, in bytes.
const BLOCK: u64 = 64 << 10;

/// A chunked file with a reader of any type.
type Chunked = ChunkedFile<Arc<dyn ReadAt>>;

/// Options for [`layout`].
#[derive(Clone, Debug, Default)]
pub struct LayoutOptions {
    parts: bool,
    open: OpenOptions,
    progress: Progress,
}

impl LayoutOptions {
    /// Returns the defaults: regions are listed without their parts.
    #[must_use]
    pub fn new() -> Self {
        LayoutOptions::default()
    }

    proto_splitter_core::options! {
        /// Sets whether to list the parts of each region, including block headers. Default: false.
        const parts, get_parts: bool;

        /// Sets the options for opening the input. Default: [`OpenOptions::new`].
        ref open, get_open: OpenOptions;

        /// Sets progress reporting and cancellation. Default: none.
        ref progress, get_progress: Progress;
    }
}

/// The result of [`layout`].
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Layout {
    /// Layout of the input file.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub main: FileLayout,
    /// Layouts of the other files with chunks of the message.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub other_files: Vec<FileLayout>,
    /// Error that describes the damage at which the layout ends; `None` if no damage was found. The
    /// data of records isn't checked for damage.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub damage: Option<Error>,
}

/// The layout of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FileLayout {
    /// Path or URL of the file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// Size of the file, in bytes.
    pub file_bytes: u64,
    /// Regions in file order, which together cover the whole file.
    pub regions: Vec<Region>,
    /// Number and total size of the regions, for each kind of region in the file.
    pub totals: Vec<RegionTotal>,
    /// Number of blocks of 64 KiB in the file, the last of which may be incomplete.
    pub blocks: u64,
    /// Stored size of all records except the trailer, in bytes.
    pub data_bytes: u64,
    /// Number of readable bytes that `data_bytes` doesn't count.
    pub overhead_bytes: u64,
    /// Number of unreadable bytes.
    pub unreadable_bytes: u64,
}

/// A range of bytes in a file, such as a record chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Region {
    /// Offset of the first byte.
    pub begin: u64,
    /// Offset just past the last byte.
    pub end: u64,
    /// Kind of region.
    pub what: RegionKind,
    /// Indices of the message's chunks that this region contains.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub chunks: Vec<usize>,
    /// Number of records in the region.
    pub records: u64,
    /// Size of the region's header, in bytes.
    pub header_bytes: u64,
    /// Total size of the block headers in the region, in bytes.
    pub block_header_bytes: u64,
    /// Stored size of the region's data, in bytes.
    pub data_bytes: u64,
    /// Number of padding bytes in the region.
    pub fill_bytes: u64,
    /// Compression of the region's records; `None` if there are no records, or the compression is
    /// unknown.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub compression: Option<String>,
    /// Parts of the region, if [requested](LayoutOptions::parts).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub parts: Vec<RegionPart>,
}

/// A part of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RegionPart {
    /// Offset of the first byte.
    pub begin: u64,
    /// Offset just past the last byte.
    pub end: u64,
    /// Kind of part, such as `block header`.
    pub what: &'static str,
}

/// The kind of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum RegionKind {
    /// The file's signature, which identifies a record file.
    Signature,
    /// The file's metadata.
    FileMetadata,
    /// Padding between or after other regions.
    Padding,
    /// A record chunk in which records are stored one after the other.
    Records,
    /// A record chunk in which records that are messages are stored field by field.
    TransposedRecords,
    /// The trailer of a chunked file.
    Trailer,
    /// A record chunk of unknown type.
    Unknown,
    /// All bytes of the file after damage.
    Unreadable,
    /// All bytes of a file that isn't a record file.
    Message,
}

/// The number and total size of the regions of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RegionTotal {
    /// Kind of the regions.
    pub what: RegionKind,
    /// Number of regions.
    pub regions: u64,
    /// Total size of the regions, in bytes.
    pub bytes: u64,
}

/// Describes the bytes of a record file, and of the other files that contain chunks of its message.
/// The description of a damaged file ends where the damage begins. An input that isn't a record
/// file is described as one region.
///
/// # Errors
///
/// - [`ErrorKind::InvalidConfig`] if the input is an archive, or a message in several files.
/// - Any error if nothing in the input can be read.
pub fn layout(
    formats: &Registry,
    input: &Candidate<'_>,
    options: &LayoutOptions,
) -> Result<Layout> {
    let failed = |error: Error| at_path(input.path(), error);
    let mut layout = Layout {
        main: FileLayout::of(input.path()),
        other_files: Vec::new(),
        damage: None,
    };
    if !input.is_chunked().map_err(failed)? {
        formats.check(input, None)?;
        if let Some(format) = formats.recognize(input) {
            let opened = formats.open_input_as(format, input, &options.open);
            check_single(&opened.map_err(failed)?, input)?;
        }
        layout.main.message(input.size());
        return Ok(layout);
    }
    // Any record file has a layout, but only a chunked message has a trailer.
    let (opened, refused) = match formats.open_input(input, &options.open) {
        Ok(opened) => (Some(opened), None),
        Err(error) => (None, Some(error)),
    };
    let chunked = opened.as_ref().and_then(Opened::chunked);
    let source = input.source().map_err(failed)?;
    if let Err(damage) = layout.chunked(chunked, source, options) {
        if damage.kind() == ErrorKind::Cancelled {
            return Err(damage);
        }
        // If the file is empty or isn't a record file, there are no regions to report.
        if layout.main.regions.is_empty() {
            return Err(refused.map_or(damage, failed));
        }
        layout.damage = Some(damage);
    }
    Ok(layout)
}

/// Fails for an archive and for a message in several files.
fn check_single(opened: &Opened, input: &Candidate<'_>) -> Result<()> {
    if opened.is_single() {
        return Ok(());
    }
    let title = opened.format().map_or("archive", |format| format.title());
    let message = format!("{title}, not a record file");
    Err(Error::new(ErrorKind::InvalidConfig, message).in_file(input.path()))
}

impl Layout {
    fn chunked(
        &mut self,
        chunked: Option<&Chunked>,
        source: Arc<dyn ReadAt>,
        options: &LayoutOptions,
    ) -> Result<()> {
        let walk = Walk { chunked, options };
        let Some(chunked) = chunked else {
            let path = &self.main.file;
            let file = RecordFile::open(source, ReaderOptions::new());
            let file = file.map_err(|error| at_path(path, error.into()))?;
            return walk.file(0, &file, &mut self.main);
        };
        let mut files = chunked.record_files();
        if let Some(main) = files.next() {
            walk.file(0, main, &mut self.main)?;
        }
        // If the main file is a symbolic link, paths of other files are relative to the folder of
        // its target.
        let main = &self.main.file;
        let real = main
            .is_symlink()
            .then(|| main.canonicalize().ok())
            .flatten();
        let folder = real.as_ref().unwrap_or(main).parent();
        let folder = folder.unwrap_or(Path::new("")).to_owned();
        let named = &chunked.trailer().metadata().files;
        for ((number, file), named) in (1..).zip(files).zip(named) {
            let mut regions = FileLayout::of(&folder.join(&named.path));
            let walked = walk.file(number, file, &mut regions);
            self.other_files.push(regions);
            walked?;
        }
        Ok(())
    }
}

/// A pass over the record chunks of one or more files.
struct Walk<'a> {
    chunked: Option<&'a Chunked>,
    options: &'a LayoutOptions,
}

impl Walk<'_> {
    /// Describes the regions of one file, up to the file's end or to any damage.
    fn file<S: ReadAt>(
        &self,
        number: usize,
        file: &RecordFile<S>,
        regions: &mut FileLayout,
    ) -> Result<()> {
        let walked = self.regions(number, file, regions);
        regions.sum();
        walked
    }

    fn regions<S: ReadAt>(
        &self,
        number: usize,
        file: &RecordFile<S>,
        regions: &mut FileLayout,
    ) -> Result<()> {
        let path = regions.file.clone();
        let failed = |error: record_file::Error| at_path(&path, error.into());
        regions.file_bytes = file.size();
        regions.blocks = file.size().div_ceil(BLOCK);
        let mut named = self.chunks_by_begin(number);
        let trailer = match self.chunked {
            Some(_) => file.last_record().map_err(failed)?,
            None => None,
        };
        let meter = self.options.progress.meter(file.size());
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
            if self.options.parts {
                region.parts = chunk.parts().map(RegionPart::of).collect();
            }
            regions.regions.push(region);
        }
        Ok(())
    }

    /// Returns a map from the position of each record chunk in the file with the index `number` to
    /// the indices of the message's chunks in that record chunk.
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

impl RegionPart {
    fn of(part: ChunkPart) -> RegionPart {
        RegionPart {
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

impl FileLayout {
    fn of(file: &Path) -> Self {
        FileLayout {
            file: file.to_owned(),
            ..FileLayout::default()
        }
    }

    fn message(&mut self, size: u64) {
        self.file_bytes = size;
        let message = Region::plain(0, self.file_bytes, RegionKind::Message);
        self.regions.push(message);
        self.sum();
    }

    fn sum(&mut self) {
        let seen = self.regions.last().map_or(0, |last| last.end);
        if seen < self.file_bytes {
            let rest = Region::plain(seen, self.file_bytes, RegionKind::Unreadable);
            self.regions.push(rest);
        }
        for region in &self.regions {
            let bytes = region.end - region.begin;
            match self.totals.iter_mut().find(|t| t.what == region.what) {
                Some(total) => {
                    total.regions += 1;
                    total.bytes += bytes;
                }
                None => self.totals.push(RegionTotal {
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
            RegionKind::Unreadable => 0,
            what if what.is_content() => region.end - region.begin - region.data_bytes,
            _ => region.end - region.begin,
        };
        self.overhead_bytes = self.regions.iter().map(of).sum();
        let unreadable = self
            .totals
            .iter()
            .find(|t| t.what == RegionKind::Unreadable);
        self.unreadable_bytes = unreadable.map_or(0, |total| total.bytes);
    }
}

impl Region {
    /// Creates a region that consists only of data, without headers.
    fn plain(begin: u64, end: u64, what: RegionKind) -> Self {
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
        let what = match chunk.header.kind {
            _ if has_trailer => RegionKind::Trailer,
            ChunkType::Signature => RegionKind::Signature,
            ChunkType::Metadata => RegionKind::FileMetadata,
            ChunkType::Padding => RegionKind::Padding,
            ChunkType::Simple => RegionKind::Records,
            ChunkType::Transposed => RegionKind::TransposedRecords,
            _ => RegionKind::Unknown,
        };
        Region {
            records: chunk.header.num_records,
            header_bytes: header,
            block_header_bytes: block_headers,
            data_bytes: data,
            fill_bytes: fill,
            ..Region::plain(chunk.begin().0, chunk.end().0, what)
        }
    }
}

impl RegionKind {
    fn is_content(self) -> bool {
        matches!(
            self,
            RegionKind::Records | RegionKind::TransposedRecords | RegionKind::Message
        )
    }
}
