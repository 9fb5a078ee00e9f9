//! Describing an input without reading its contents.

use std::cmp::Reverse;
use std::path::PathBuf;

use prost_reflect::MessageDescriptor;
use proto_splitter_core::Result;
use proto_splitter_core::container::{ChunkKind, ChunkSummary, ChunkedFile, MerkleRoot};
use proto_splitter_core::formats::{Entry, Opened};
use proto_splitter_core::tensor::TensorInfo;
use record_file::{CompressionKind, ReadAt};

use crate::error_place::at;

/// Maximum number of other chunks to list for a chunk in a shared record chunk. A million chunks
/// may share a record chunk, and each would list all the others.
const MOST_LISTED: usize = 100;

/// The result of [`info`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
#[non_exhaustive]
pub enum Info {
    /// A message in one file.
    Message(MessageInfo),
    /// An input described by its format: an archive of tensors, or a message in several files or
    /// with named tensors.
    Format(FormatInfo),
}

/// A message in one file, as its trailer describes it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MessageInfo {
    /// Path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// True if the message is in chunks.
    pub split: bool,
    /// Full name of the message's type, if known.
    pub message: Option<String>,
    /// Total size of the file and of the other files with chunks, in bytes.
    pub file_bytes: u64,
    /// Other files with chunks.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub files: Vec<OtherFile>,
    /// Size of the original message, if recorded.
    pub source_bytes: Option<u64>,
    /// Checksum of the original message, if recorded.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::crc32c"))]
    pub source_crc32c: Option<u32>,
    /// Total size of the chunks, in bytes, if the file doesn't record the message's size. A chunk
    /// used at several paths counts once for each path.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub merged_bytes: Option<u64>,
    /// True if a merge restores the original bytes; `None` if that may depend on the message's
    /// type.
    pub byte_exact: Option<bool>,
    /// True if the chunks were replaced by placeholders, so that a merge needs no type.
    pub placeholders: bool,
    /// Version of the splitter.
    pub splitter_version: Option<i32>,
    /// Minimum version that a reader must have.
    pub join_version: Option<i32>,
    /// Versions of readers that can't read the file.
    pub bad_consumers: Vec<i32>,
    /// Merkle root that follows from the hashes in the trailer, if there are any. Only `verify`
    /// compares the chunks with it.
    #[cfg_attr(
        feature = "serde",
        serde(
            skip_serializing_if = "Option::is_none",
            serialize_with = "crate::as_text::optional"
        )
    )]
    pub merkle_root: Option<MerkleRoot>,
    /// Metadata in the message, by name.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub properties: Vec<(String, String)>,
    /// Chunks by index.
    pub chunks: Vec<ChunkInfo>,
}

/// A file with chunks of a message, named by the message's main file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct OtherFile {
    /// Path relative to the folder of the main file.
    pub file: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// A chunk, as the trailer and the headers describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ChunkInfo {
    /// Index.
    pub index: u64,
    /// Kind of contents, such as `message` or `bytes`.
    pub kind: String,
    /// Path in the message; `None` for an unused chunk.
    pub path: Option<String>,
    /// Other paths at which the same chunk is used.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub other_paths: Vec<String>,
    /// Uncompressed size, in bytes.
    pub size: u64,
    /// Size in the file, in bytes; `None` if other records share the record chunk, or its header
    /// wasn't read.
    pub stored_size: Option<u64>,
    /// The first few chunks that share a record chunk or a record with this chunk.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub shared_with: Vec<u64>,
    /// Number of additional chunks that share a record chunk or a record with this chunk, but
    /// aren't listed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_zero"))]
    pub shared_with_more: usize,
    /// Compression; `None` if the chunk's header wasn't read.
    pub compression: Option<String>,
    /// Index in `files`, counted from 1; 0 for the main file.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_zero"))]
    pub file: usize,
    /// Position of the chunk's record.
    pub position: u64,
    /// Checksum, if recorded.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::crc32c"))]
    pub crc32c: Option<u32>,
}

#[cfg(feature = "serde")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A description that an input's format provides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FormatInfo {
    /// Path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// Name of the format.
    pub format: &'static str,
    /// Full name of the message's type, if there is a message.
    pub message: Option<String>,
    /// Size of the message, if it is in one piece.
    pub message_bytes: Option<u64>,
    /// Number of tensors.
    pub tensors: usize,
    /// Total size of all tensors, in bytes.
    pub tensor_bytes: u64,
    /// Largest tensors, in descending order.
    pub largest: Vec<LargeTensor>,
    /// Files of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::paths"))]
    pub files: Vec<PathBuf>,
    /// Metadata of the input, by name.
    pub properties: Vec<(String, String)>,
}

/// A large tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LargeTensor {
    /// Name.
    pub name: String,
    /// Type and shape.
    pub what: Option<String>,
    /// Size in bytes.
    pub bytes: u64,
}

/// Number of tensors to list, starting with the largest.
const LARGEST: usize = 5;

/// Returns the largest tensors. Tensors of equal size keep their order.
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

/// Describes an input. For a chunked file, lists every chunk with its path and sizes. For an input
/// of another format, returns the information that the format provides.
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
/// Fails if headers can't be read or are damaged.
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
        message_bytes: input.known_size(),
        tensors: tensors.len(),
        tensor_bytes: tensors.iter().map(|tensor| tensor.bytes).sum(),
        largest: largest(&tensors),
        files: input.files().to_vec(),
        properties: input.properties()?,
    })
}

/// Returns the metadata in a message. Empty for a damaged message, whose chunks can still be
/// listed.
fn own_properties(input: &Opened) -> Vec<(String, String)> {
    let said = input.properties();
    said.unwrap_or_else(|error| vec![("unreadable".to_owned(), error.to_string())])
}

fn of_one_piece(input: &Opened) -> MessageInfo {
    let bytes = input.known_size().unwrap_or(0);
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
        merkle_root: None,
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
        // A build without hash functions leaves out the root.
        merkle_root: trailer.merkle_root().unwrap_or_default(),
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
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Self {
        ListOptions::default()
    }

    /// Sets whether to read the header of every chunk, which contains the compression and the
    /// stored size. For an object in a store, each header requires a request. Default: true.
    #[must_use]
    pub fn read_headers(mut self, read_headers: bool) -> Self {
        self.read_headers = read_headers;
        self
    }

    /// Returns whether to read the header of every chunk.
    pub const fn get_read_headers(&self) -> bool {
        self.read_headers
    }
}

/// The result of [`list`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
#[non_exhaustive]
pub enum Listing {
    /// The chunks of a message in one file; a message in one piece is listed as one chunk.
    #[non_exhaustive]
    Chunks {
        /// Path or URL of the input.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
        file: PathBuf,
        /// True if the message is in chunks.
        split: bool,
        /// Size of the main file, in bytes.
        file_bytes: u64,
        /// Other files with chunks.
        #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
        files: Vec<OtherFile>,
        /// Chunks by index.
        chunks: Vec<ListedChunk>,
    },
    /// The contents of an archive, or of a message in several files.
    #[non_exhaustive]
    Entries {
        /// Path or URL of the input.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
        file: PathBuf,
        /// Name of the format.
        format: &'static str,
        /// Entries in the order of the input.
        entries: Vec<ListedEntry>,
        /// Size of all entries, in bytes.
        bytes: u64,
    },
}

/// A chunk in a [`Listing`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ListedChunk {
    /// The chunk.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub chunk: ChunkInfo,
    /// Ratio of the stored size to the uncompressed size, rounded to thousandths; `None` if other
    /// records share its record chunk, the chunk is empty, or its header wasn't read.
    pub ratio: Option<f64>,
}

/// An entry in a [`Listing`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ListedEntry {
    /// Name.
    pub name: String,
    /// Description, such as `float32[4, 2]`.
    pub what: Option<String>,
    /// Size in bytes.
    pub bytes: u64,
    /// The item's file or archive entry and its offset there, or its path in the message.
    pub location: String,
}

/// Lists the contents of an input: the chunks of a chunked file, or the entries or tensors of an
/// archive or of a message in several files. Any other message is listed as one chunk.
///
/// # Errors
///
/// Fails if headers can't be read or are damaged.
pub fn list(input: &Opened, options: &ListOptions) -> Result<Listing> {
    let failed = |error| at(input, error);
    let file = input.input().to_owned();
    if !input.is_single() {
        let entries = entries(input).map_err(failed)?;
        // A message without entries or tensors is listed as a whole.
        if !entries.is_empty() || !input.has_message() {
            return Ok(Listing::Entries {
                file,
                format: format_name(input),
                bytes: entries.iter().map(|entry| entry.bytes).sum(),
                entries: entries.iter().map(ListedEntry::of).collect(),
            });
        }
    }
    let Some(chunked) = input.chunked() else {
        let bytes = input.known_size().unwrap_or(0);
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

/// Returns the entries of an archive, or the tensors of any other input.
///
/// # Errors
///
/// The errors of [`list`].
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
