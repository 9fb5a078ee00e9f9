//! Describing an input without reading all of its contents.

use std::cmp::Reverse;
use std::path::PathBuf;

use prost_reflect::MessageDescriptor;
use proto_splitter_core::Result;
use proto_splitter_core::container::{ChunkKind, ChunkSummary, ChunkedFile, MerkleRoot};
use proto_splitter_core::formats::{Entry, Opened};
use proto_splitter_core::tensor::TensorInfo;
use record_file::{CompressionKind, ReadAt};

use crate::error_place::at;

/// Maximum number of other chunks in the same record chunk that are listed for each chunk. Without
/// this limit, a record chunk with a million chunks would need a million lists of a million chunks.
const MOST_LISTED: usize = 100;

/// The result of [`info`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
#[non_exhaustive]
pub enum Info {
    /// A message in chunks or in one piece.
    Message(MessageInfo),
    /// An archive of tensors, a message in several files, or a message with named tensors. The
    /// input's format provides the description.
    Format(FormatInfo),
}

/// The description of a message in chunks or in one piece. If the message is in chunks, the file's
/// trailer provides the description.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MessageInfo {
    /// Path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// True if the message is in chunks.
    pub split: bool,
    /// Full name of the message's type; `None` if unknown.
    pub message: Option<String>,
    /// Total size of the main file and the other files with chunks, in bytes.
    pub file_bytes: u64,
    /// Files with chunks of the message, except the main file.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub files: Vec<OtherFile>,
    /// Size of the original message, in bytes; `None` if not recorded.
    pub source_bytes: Option<u64>,
    /// CRC-32C of the original message; `None` if not recorded.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::crc32c"))]
    pub source_crc32c: Option<u32>,
    /// Total size of the chunks, in bytes. A chunk used at several paths counts once for each path.
    /// `None` if the size of the original message is known.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub merged_bytes: Option<u64>,
    /// True if a merge restores the original bytes; `None` if the result of a merge may depend on
    /// the message's type.
    pub byte_exact: Option<bool>,
    /// True if a placeholder marks the position of each chunk, so that a merge doesn't need the
    /// message's type.
    pub placeholders: bool,
    /// Version of the splitter that wrote the file; `None` if the message isn't in chunks.
    pub splitter_version: Option<i32>,
    /// Minimum version of readers that can read the file; `None` if the message isn't in chunks.
    pub join_version: Option<i32>,
    /// Versions of readers that can't read the file.
    pub bad_consumers: Vec<i32>,
    /// Merkle root computed from the hashes in the trailer; `None` without hashes. Only `verify`
    /// compares the chunks with it.
    #[cfg_attr(
        feature = "serde",
        serde(
            skip_serializing_if = "Option::is_none",
            serialize_with = "crate::as_text::optional"
        )
    )]
    pub merkle_root: Option<MerkleRoot>,
    /// Names and values of metadata that the message contains.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub properties: Vec<(String, String)>,
    /// Chunks of the message, in the order of their indices.
    pub chunks: Vec<ChunkInfo>,
}

/// A file, other than the main file, that contains chunks of a message. The main file contains the
/// path of each such file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct OtherFile {
    /// Path of the file, relative to the folder of the main file.
    pub file: String,
    /// Size of the file, in bytes.
    pub bytes: u64,
}

/// The description of a chunk in the file's trailer and record headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ChunkInfo {
    /// Index of the chunk.
    pub index: u64,
    /// Kind of contents, such as `message` or `bytes`.
    pub kind: String,
    /// Path of the chunk's value in the message; `None` for an unused chunk.
    pub path: Option<String>,
    /// Additional paths in the message that use the same chunk.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub other_paths: Vec<String>,
    /// Uncompressed size, in bytes.
    pub size: u64,
    /// Stored size, in bytes; `None` if the record chunk that contains the chunk has other records,
    /// or the record chunk's header wasn't read.
    pub stored_size: Option<u64>,
    /// Indices of the first few other chunks in the same record or record chunk.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub shared_with: Vec<u64>,
    /// Number of other chunks in the same record or record chunk, beyond those in `shared_with`.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_zero"))]
    pub shared_with_more: usize,
    /// Compression of the chunk; `None` if the record chunk's header wasn't read.
    pub compression: Option<String>,
    /// Number of the file that contains the chunk: 0 for the main file, otherwise the index in
    /// `files` plus 1.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_zero"))]
    pub file: usize,
    /// Position of the chunk's record in the file.
    pub position: u64,
    /// CRC-32C of the chunk; `None` if not recorded.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::crc32c"))]
    pub crc32c: Option<u32>,
}

#[cfg(feature = "serde")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A description of an input, provided by the input's format.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FormatInfo {
    /// Path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// Name of the format.
    pub format: &'static str,
    /// Full name of the message's type; `None` if there is no message, or its type is unknown.
    pub message: Option<String>,
    /// Size of the message, in bytes; `None` if the message isn't in one piece.
    pub message_bytes: Option<u64>,
    /// Number of tensors.
    pub tensors: usize,
    /// Total size of all tensors, in bytes.
    pub tensor_bytes: u64,
    /// Largest tensors, in descending order of size.
    pub largest: Vec<LargeTensor>,
    /// Files of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::paths"))]
    pub files: Vec<PathBuf>,
    /// Names and values of the input's metadata.
    pub properties: Vec<(String, String)>,
}

/// One of the largest tensors of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LargeTensor {
    /// Name of the tensor.
    pub name: String,
    /// Type and shape of the tensor, such as `float32[4, 2]`; `None` if unknown.
    pub what: Option<String>,
    /// Size of the tensor, in bytes.
    pub bytes: u64,
}

/// Number of tensors in a list of the largest tensors.
const LARGEST: usize = 5;

/// Returns the [`LARGEST`] largest tensors, in descending order of size. Tensors of equal size keep
/// their order.
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

/// Describes an input without reading all of its contents. For a chunked file, lists every chunk
/// with its path and sizes. For an input of another format, returns the information that the format
/// provides.
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
/// Fails if the input's headers can't be read or are damaged.
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

/// Returns the names and values of metadata that the message contains. If the message is damaged,
/// returns the error under the name `unreadable` instead of failing, since the message's chunks can
/// still be listed.
fn own_properties(input: &Opened) -> Vec<(String, String)> {
    let said = input.properties();
    said.unwrap_or_else(|error| vec![("unreadable".to_owned(), error.to_string())])
}

fn of_one_piece(input: &Opened) -> MessageInfo {
    let bytes = input.known_size().unwrap_or(0);
    MessageInfo {
        file: input.input().to_owned(),
        message: type_name(input),
        file_bytes: bytes,
        source_bytes: Some(bytes),
        properties: own_properties(input),
        ..MessageInfo::default()
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
        // Without the feature for hash functions, the root can't be computed, and is omitted.
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

    /// Returns the description of a message in one piece, as a single chunk of `bytes` bytes.
    fn whole(bytes: u64) -> ChunkInfo {
        ChunkInfo {
            kind: ChunkKind::Message.to_string(),
            path: Some(String::new()),
            size: bytes,
            stored_size: Some(bytes),
            compression: Some(CompressionKind::None.to_string()),
            ..ChunkInfo::default()
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

    proto_splitter_core::options! {
        /// Sets whether to read the header of every record chunk, which contains the compression
        /// and the stored size. In an object store, reading a header requires a request. Default:
        /// true.
        const read_headers, get_read_headers: bool;
    }
}

/// The result of [`list`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
#[non_exhaustive]
pub enum Listing {
    /// Chunks of a message. A message in one piece is listed as one chunk.
    #[non_exhaustive]
    Chunks {
        /// Path or URL of the input.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
        file: PathBuf,
        /// True if the message is in chunks.
        split: bool,
        /// Size of the main file, in bytes.
        file_bytes: u64,
        /// Files with chunks of the message, except the main file.
        #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
        files: Vec<OtherFile>,
        /// Chunks of the message, in the order of their indices.
        chunks: Vec<ListedChunk>,
    },
    /// Entries of an archive, or tensors of a message in several files.
    #[non_exhaustive]
    Entries {
        /// Path or URL of the input.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
        file: PathBuf,
        /// Name of the format.
        format: &'static str,
        /// Entries or tensors, in their order in the input.
        entries: Vec<ListedEntry>,
        /// Total size of the entries or tensors, in bytes.
        bytes: u64,
    },
}

/// A chunk in a [`Listing`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ListedChunk {
    /// Description of the chunk.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub chunk: ChunkInfo,
    /// Ratio of the stored size to the uncompressed size, rounded to thousandths; `None` if the
    /// stored size is unknown, or the chunk is empty.
    pub ratio: Option<f64>,
}

/// An archive entry or a tensor in a [`Listing`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ListedEntry {
    /// Name of the entry or tensor.
    pub name: String,
    /// Description, such as `float32[4, 2]`; `None` if there is none.
    pub what: Option<String>,
    /// Size in bytes.
    pub bytes: u64,
    /// Location of the bytes: a file or archive entry with an offset, or a path in the message.
    pub location: String,
}

/// Lists the contents of an input: the chunks of a chunked file, the entries of an archive, or the
/// tensors of a message in several files. Any other message is listed as one chunk.
///
/// # Errors
///
/// Fails if the input's headers can't be read or are damaged.
pub fn list(input: &Opened, options: &ListOptions) -> Result<Listing> {
    let failed = |error| at(input, error);
    let file = input.input().to_owned();
    if !input.is_single() {
        let entries = entries(input).map_err(failed)?;
        // If the input has a message without entries or tensors, the message is listed as one chunk
        // below.
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
