//! What an input says of itself, without its content being read.

use std::cmp::Reverse;
use std::path::PathBuf;

use prost_reflect::MessageDescriptor;
use proto_splitter_core::Result;
use proto_splitter_core::container::{ChunkKind, ChunkSummary, ChunkedFile};
use proto_splitter_core::formats::{Entry, Opened};
use proto_splitter_core::tensor::TensorInfo;
use record_file::{CompressionKind, ReadAt};

use crate::error_place::at;

/// The number of chunks that are listed for each that shares a record chunk. A million may share
/// one, and each has all others.
const MOST_LISTED: usize = 100;

/// The result of [`info`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
#[non_exhaustive]
pub enum Info {
    /// A message in one file.
    Message(MessageInfo),
    /// An input that its format describes: an archive of tensors, a message that several files
    /// make, or one with named tensors.
    Format(FormatInfo),
}

/// A message in one file, as its trailer describes it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MessageInfo {
    /// The path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// True if the message is in chunks.
    pub split: bool,
    /// The full name of the message's type, if it is known.
    pub message: Option<String>,
    /// The size of the file and of the other files that have chunks.
    pub file_bytes: u64,
    /// The other files that have chunks.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub files: Vec<OtherFile>,
    /// The size of the message that was split, if the file says it.
    pub source_bytes: Option<u64>,
    /// The checksum of the message that was split, if the file says it.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::crc32c"))]
    pub source_crc32c: Option<u32>,
    /// The size of the chunks, each as often as it belongs somewhere, if the file doesn't say the
    /// size of the message.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub merged_bytes: Option<u64>,
    /// True if a merge gives the bytes that were split; `None` if that may depend on the message's
    /// type.
    pub byte_exact: Option<bool>,
    /// True if what was cut left placeholders, so that a merge needs no type.
    pub placeholders: bool,
    /// The version of the splitter.
    pub splitter_version: Option<i32>,
    /// The version that a reader has to have.
    pub join_version: Option<i32>,
    /// The versions of readers that can't read the file.
    pub bad_consumers: Vec<i32>,
    /// What the message says of itself, by name.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub properties: Vec<(String, String)>,
    /// The chunks by index.
    pub chunks: Vec<ChunkInfo>,
}

/// A file with chunks, which another names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct OtherFile {
    /// The path, relative to the folder of the file that names it.
    pub file: String,
    /// The size.
    pub bytes: u64,
}

/// A chunk, as the trailer and the headers describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ChunkInfo {
    /// The index.
    pub index: u64,
    /// What the chunk has, as `message` or `bytes`.
    pub kind: String,
    /// The path that it belongs at; `None` if it belongs nowhere.
    pub path: Option<String>,
    /// The other paths that it belongs at.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub other_paths: Vec<String>,
    /// The size, uncompressed.
    pub size: u64,
    /// The size in the file; `None` if other records share its record chunk, or its header wasn't
    /// read.
    pub stored_size: Option<u64>,
    /// The first of the chunks in the same record chunk, or that are the very same record.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub shared_with: Vec<u64>,
    /// The number of those that are not listed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_zero"))]
    pub shared_with_more: usize,
    /// The compression; `None` if its header wasn't read.
    pub compression: Option<String>,
    /// The number of the file that it is in among the `files`, from 1; 0 for the file itself.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_zero"))]
    pub file: usize,
    /// The position of its record.
    pub position: u64,
    /// The checksum, if the file says it.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::crc32c"))]
    pub crc32c: Option<u32>,
}

#[cfg(feature = "serde")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// An input as its format describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FormatInfo {
    /// The path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// The name of the format.
    pub format: &'static str,
    /// The full name of the message's type, if there is a message.
    pub message: Option<String>,
    /// The size of the message, if there is one in one piece.
    pub message_bytes: Option<u64>,
    /// The number of tensors.
    pub tensors: usize,
    /// The size of all tensors.
    pub tensor_bytes: u64,
    /// The tensors with the most bytes, the largest first.
    pub largest: Vec<LargeTensor>,
    /// The files that it is read from.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::paths"))]
    pub files: Vec<PathBuf>,
    /// What the input says of itself, by name.
    pub properties: Vec<(String, String)>,
}

/// A tensor with many bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LargeTensor {
    /// The name.
    pub name: String,
    /// The type and shape.
    pub what: Option<String>,
    /// The size.
    pub bytes: u64,
}

/// The number of the largest tensors that are listed.
const LARGEST: usize = 5;

/// Returns the largest tensors, of equals the first.
fn largest(tensors: &[TensorInfo]) -> Vec<LargeTensor> {
    let mut all: Vec<&TensorInfo> = tensors.iter().collect();
    all.sort_by_key(|tensor| Reverse(tensor.bytes));
    all.truncate(LARGEST);
    let entries = all.into_iter().map(Entry::of_tensor);
    let large = entries.map(|entry| LargeTensor {
        name: entry.name,
        what: entry.detail,
        bytes: entry.bytes,
    });
    large.collect()
}

/// Describes an input: of a file in chunks, every chunk with its place and sizes; of an input that
/// its format describes, what the format knows.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Opened};
/// use proto_splitter_ops::{Info, info};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("message.pb");
/// std::fs::write(&path, b"\x08\x01")?;
/// let Info::Message(found) = info(&Opened::of_file(&path, None, &OpenOptions::new())?)? else {
///     panic!("it is one message");
/// };
/// assert_eq!((found.split, found.file_bytes), (false, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If headers can't be read or are damaged.
pub fn info(input: &Opened) -> Result<Info> {
    if input.is_described_by_format() {
        let described = of_format(input).map_err(|error| at(input, error));
        return described.map(Info::Format);
    }
    let described = match input.chunked() {
        Some(file) => of_chunks(input, file).map_err(|error| at(input, error))?,
        None => of_one_piece(input),
    };
    Ok(Info::Message(described))
}

fn of_format(input: &Opened) -> Result<FormatInfo> {
    let tensors = input.tensors()?;
    Ok(FormatInfo {
        file: input.input().to_owned(),
        format: format_name(input),
        message: type_name(input),
        message_bytes: input.plain().map(|(_, size)| size),
        tensors: tensors.len(),
        tensor_bytes: tensors.iter().map(|tensor| tensor.bytes).sum(),
        largest: largest(&tensors),
        files: input.files().to_vec(),
        properties: input.properties()?,
    })
}

/// Returns what a message says of itself. One that is damaged has chunks to be listed all the same.
fn own_properties(input: &Opened) -> Vec<(String, String)> {
    let said = input.properties();
    said.unwrap_or_else(|error| vec![("unreadable".to_owned(), error.to_string())])
}

fn of_one_piece(input: &Opened) -> MessageInfo {
    let bytes = input.plain().map_or(0, |(_, size)| size);
    MessageInfo {
        file: input.input().to_owned(),
        split: false,
        message: type_name(input),
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
        properties: own_properties(input),
        chunks: Vec::new(),
    }
}

fn of_chunks<S: ReadAt>(input: &Opened, file: &ChunkedFile<S>) -> Result<MessageInfo> {
    let trailer = file.trailer();
    let metadata = trailer.metadata();
    let version = metadata.version.clone().unwrap_or_default();
    let summaries = file.summaries()?;
    let merged = summaries.iter().fold(0, |sum: u64, chunk| {
        sum.saturating_add(chunk.size.saturating_mul(chunk.places.len() as u64))
    });
    let known = input.descriptor();
    let said = trailer.message_type().map(str::to_owned);
    Ok(MessageInfo {
        file: input.input().to_owned(),
        split: true,
        message: said.or_else(|| type_name(input)),
        file_bytes: file.record_files().map(|file| file.size()).sum(),
        files: OtherFile::all_of(file),
        source_bytes: metadata.source_size,
        source_crc32c: metadata.source_crc32c,
        merged_bytes: metadata.source_size.is_none().then_some(merged),
        byte_exact: trailer.is_marked().then_some(trailer.is_byte_exact()),
        placeholders: trailer.is_marked(),
        splitter_version: Some(version.splitter_version),
        join_version: Some(version.join_version),
        bad_consumers: version.bad_consumers,
        properties: own_properties(input),
        chunks: summaries
            .into_iter()
            .map(|summary| ChunkInfo::of(summary, known))
            .collect(),
    })
}

fn type_name(input: &Opened) -> Option<String> {
    let known = input.descriptor()?;
    Some(known.full_name().to_owned())
}

pub(crate) fn format_name(input: &Opened) -> &'static str {
    input.format().map_or("unknown", |format| format.name())
}

impl OtherFile {
    fn all_of<S: ReadAt>(file: &ChunkedFile<S>) -> Vec<OtherFile> {
        let named = file.trailer().metadata().files.iter();
        let others = named.map(|file| OtherFile {
            file: file.path.clone(),
            bytes: file.size,
        });
        others.collect()
    }
}

impl ChunkInfo {
    fn of(summary: ChunkSummary, known: Option<&MessageDescriptor>) -> ChunkInfo {
        let shared = &summary.shared_with;
        let mut paths = summary.places.iter().map(|place| place.path.display(known));
        ChunkInfo {
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
            crc32c: summary.crc32c,
        }
    }

    /// Describes a message in one piece as if it were a chunk.
    fn whole(bytes: u64) -> ChunkInfo {
        ChunkInfo {
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
}

/// Options for [`list`].
#[derive(Clone, Debug)]
pub struct ListOptions {
    read_headers: bool,
}

impl Default for ListOptions {
    fn default() -> Self {
        ListOptions { read_headers: true }
    }
}

impl ListOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        ListOptions::default()
    }

    /// Sets whether the header of every chunk is read, which takes a request each of an object in a
    /// store, and tells how chunks are stored. Default: true.
    #[must_use]
    pub fn read_headers(mut self, read_headers: bool) -> Self {
        self.read_headers = read_headers;
        self
    }
}

/// The result of [`list`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
#[non_exhaustive]
pub enum Listing {
    /// The chunks of a message in one file; a message in one piece is listed as one.
    #[non_exhaustive]
    Chunks {
        /// The path or URL of the input.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
        file: PathBuf,
        /// True if the message is in chunks.
        split: bool,
        /// The size of the file itself.
        file_bytes: u64,
        /// The other files that have chunks.
        #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
        files: Vec<OtherFile>,
        /// The chunks by index.
        chunks: Vec<ListedChunk>,
    },
    /// What takes up space in an archive, or in a message that several files make.
    #[non_exhaustive]
    Entries {
        /// The path or URL of the input.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
        file: PathBuf,
        /// The name of the format.
        format: &'static str,
        /// The entries, in the order of the input.
        entries: Vec<ListedEntry>,
        /// The size of all entries.
        bytes: u64,
    },
}

/// A chunk of a [`Listing`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ListedChunk {
    /// The chunk.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub chunk: ChunkInfo,
    /// The stored size as a part of the size, in thousandths; `None` if other records share its
    /// record chunk, it is empty, or its header wasn't read.
    pub ratio: Option<f64>,
}

/// An entry of a [`Listing`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ListedEntry {
    /// The name.
    pub name: String,
    /// What it is, as `float32[4, 2]`.
    pub what: Option<String>,
    /// The size.
    pub bytes: u64,
    /// The file or entry that it is in, and its offset there; or its path in the message.
    pub location: String,
}

/// Lists what takes up space in an input: the chunks of a file in chunks, else the tensors or what
/// its archive says.
///
/// # Errors
///
/// If headers can't be read or are damaged.
pub fn list(input: &Opened, options: &ListOptions) -> Result<Listing> {
    let failed = |error| at(input, error);
    let file = input.input().to_owned();
    if !input.is_single() {
        let entries = entries(input).map_err(failed)?;
        return Ok(Listing::Entries {
            file,
            format: format_name(input),
            bytes: entries.iter().map(|entry| entry.bytes).sum(),
            entries: entries.iter().map(ListedEntry::of).collect(),
        });
    }
    let Some(chunked) = input.chunked() else {
        let bytes = input.plain().map_or(0, |(_, size)| size);
        return Ok(Listing::Chunks {
            file,
            split: false,
            file_bytes: bytes,
            files: Vec::new(),
            chunks: vec![ListedChunk::of(ChunkInfo::whole(bytes))],
        });
    };
    let summaries = if options.read_headers {
        chunked.summaries().map_err(failed)?
    } else {
        chunked.listed()
    };
    let chunks = summaries
        .into_iter()
        .map(|summary| ListedChunk::of(ChunkInfo::of(summary, input.descriptor())));
    Ok(Listing::Chunks {
        file,
        split: true,
        file_bytes: chunked.record_file().size(),
        files: OtherFile::all_of(chunked),
        chunks: chunks.collect(),
    })
}

/// Returns all that takes up space in an archive, or else the tensors.
///
/// # Errors
///
/// As [`list`].
pub fn entries(input: &Opened) -> Result<Vec<Entry>> {
    match input.archive() {
        Some(archive) => archive.entries(),
        None => Ok(input.tensors()?.iter().map(Entry::of_tensor).collect()),
    }
}

impl ListedEntry {
    fn of(entry: &Entry) -> ListedEntry {
        ListedEntry {
            name: entry.name.clone(),
            what: entry.detail.clone(),
            bytes: entry.bytes,
            location: entry.location.to_string(),
        }
    }
}

impl ListedChunk {
    fn of(chunk: ChunkInfo) -> ListedChunk {
        #[allow(
            clippy::cast_precision_loss,
            reason = "rounded to thousandths right after"
        )]
        let ratio = |stored: u64| (stored as f64 * 1000.0 / chunk.size as f64).round() / 1000.0;
        let ratio = chunk.stored_size.filter(|_| chunk.size > 0).map(ratio);
        ListedChunk { chunk, ratio }
    }
}
