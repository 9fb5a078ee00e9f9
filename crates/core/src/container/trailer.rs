//! The trailer of a `.cpb` file: the list of chunks, and their places in the message.

use prost::Message;

use super::chunk_tree::ChunkTree;
use super::kind::ChunkKind;
use super::limits::Limits;
use super::merkle::{MerkleRoot, subtrees};
use super::trailer_memory;
use super::unknown_fields::Unknown;
use crate::container::chunk_tree::ChunkTreeOptions;
use crate::path::FieldPath;
use crate::proto::chunk_info;
use crate::proto::{ChunkMetadata, ChunkedMessage, VersionDef};
use crate::wire::FieldNumber;
use crate::{Error, ErrorKind, Result};

/// Highest join version that this reader supports. It is also the consumer version that the reader
/// compares with `bad_consumers`.
pub const MAX_JOIN_VERSION: i32 = 1;

/// The scope of a trailer: the whole message, or a part of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrailerUse {
    /// The whole message. In a file with placeholders, every chunk must have a place.
    Whole,
    /// A part of the message. The caller reduced the metadata to this part, so some chunks may be
    /// unused.
    Part,
}

/// A place in the message for a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkPlace {
    /// Path from the root of the message.
    pub path: FieldPath,
    /// True if the chunk continues the packed values of the field at `path`.
    pub packed: bool,
}

/// Checked metadata of a chunked message: the version is supported, indices and kinds are in range,
/// and paths are well-formed and of bounded depth.
///
/// ```text
/// ChunkMetadata                         the last record of a .cpb file
///   version                             of the splitter, and what a reader has to know (join version)
///   chunks[i]: ChunkInfo                type, size in bytes, offset of its record, crc32c
///   message: ChunkedMessage             where chunks belong
///     chunk_index                       the chunk that is merged here first; at the root chunk 0, the base
///     chunked_fields[]: ChunkedField    then these, in their order
///       field_tag[]: FieldIndex         a path from the message around: field numbers, map keys, indices
///       message: ChunkedMessage         what is merged there; and so on, down
///   source_size, source_crc32c, message_type, and all others from field 1000 on: additions that
///                                       TensorFlow's reader skips
/// ```
///
/// With join version 1, the tree of `ChunkedMessage`s is in `extended_message` instead of
/// `message`. TensorFlow's `chunk.proto` is the source of the format;
/// `proto/tensorflow/proto_splitter/chunk.proto` is a copy with this project's additions.
///
/// ```
/// use prost_reflect::prost_types::FileDescriptorProto;
/// use proto_splitter_core::container::{Trailer, TrailerUse};
/// use proto_splitter_core::merge::Limits;
/// use proto_splitter_core::proto::field_index::Kind;
/// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
///
/// let file = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
/// let split = SizeSplitter.split_with(&file, &SplitOptions::new().max_chunk_size(1000))?;
///
/// // Chunk 0 is the base, with a placeholder: the tag of field 1 and a length of 0.
/// let metadata = &split.metadata;
/// assert_eq!((metadata.chunks[0].size, metadata.chunks[1].size), (2, 5000));
/// let tree = metadata.message.as_ref().ok_or("no tree")?;
/// assert_eq!(tree.chunk_index, Some(0));
/// // Chunk 1 belongs at field 1, `name`.
/// let name = &tree.chunked_fields[0];
/// assert_eq!(name.field_tag[0].kind, Some(Kind::Field(1)));
/// assert_eq!(name.message.as_ref().and_then(|message| message.chunk_index), Some(1));
///
/// let trailer = Trailer::from_metadata(metadata.clone(), TrailerUse::Whole, &Limits::new())?;
/// assert_eq!(trailer.metadata().source_size, Some(5003));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Trailer {
    metadata: ChunkMetadata,
    purpose: TrailerUse,
    kinds: Vec<ChunkKind>,
    tree: ChunkTree,
    unknown: Unknown,
}

impl Trailer {
    /// Parses the last record of a file, which must be a trailer in one piece.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotChunked`] if the record is not a trailer; otherwise the same errors as
    /// [`from_metadata`](Self::from_metadata).
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Trailer> {
        Trailer::parse_level(bytes, limits)?.in_one_piece()
    }

    /// Parses the last record of a file, whose trailer may itself be in chunks. In that case, the
    /// metadata in the record describes the chunks of the trailer.
    pub(crate) fn parse_level(bytes: &[u8], limits: &Limits) -> Result<Trailer> {
        let no_trailer = |error: &dyn std::fmt::Display| {
            let message = format!("the last record is not a trailer: {error}");
            Error::new(ErrorKind::NotChunked, message)
        };
        if let Err(error) = trailer_memory::check(bytes, limits.max_trailer_memory)
            && error.kind() == ErrorKind::LimitExceeded
        {
            return Err(error);
        }
        let metadata = ChunkMetadata::decode(bytes).map_err(|error| no_trailer(&error))?;
        if metadata.is_part {
            let message = "the file only has chunks of a message whose trailer is in another file: open that file";
            return Err(Error::new(ErrorKind::NotChunked, message));
        }
        // Nearly any bytes parse as a message with only unknown fields.
        if metadata.message.is_none() && metadata.extended_message.is_none() {
            let message = "the last record is not a trailer: it has no chunked message";
            return Err(Error::new(ErrorKind::NotChunked, message));
        }
        let unknown = Unknown::of(bytes, &metadata);
        let trailer = Trailer::checked(metadata, TrailerUse::Whole, limits)?;
        Ok(Trailer { unknown, ..trailer })
    }

    /// Returns the number of times that the trailer is itself split into chunks; 0 if it is in one
    /// piece.
    pub(crate) fn level(&self) -> u32 {
        self.metadata.trailer_level
    }

    fn in_one_piece(self) -> Result<Trailer> {
        match self.level() {
            0 => Ok(self),
            level => Err(invalid(format!(
                "a trailer that is itself in chunks, {level} times"
            ))),
        }
    }

    /// Checks metadata and builds a trailer from it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnsupportedVersion`] if this reader doesn't support the metadata's version;
    /// [`ErrorKind::InvalidTrailer`] if the metadata is inconsistent; [`ErrorKind::LimitExceeded`]
    /// if it exceeds a limit, for example by nesting too deeply.
    pub fn from_metadata(
        metadata: ChunkMetadata,
        purpose: TrailerUse,
        limits: &Limits,
    ) -> Result<Trailer> {
        Trailer::checked(metadata, purpose, limits)?.in_one_piece()
    }

    fn checked(metadata: ChunkMetadata, purpose: TrailerUse, limits: &Limits) -> Result<Trailer> {
        let join_version = check_version(&metadata.version.clone().unwrap_or_default())?;
        check_names(&metadata)?;
        check_extensions(&metadata, join_version, limits)?;
        let mut kinds = Vec::with_capacity(metadata.chunks.len());
        for (at, chunk) in metadata.chunks.iter().enumerate() {
            kinds.push(match chunk_info::Type::try_from(chunk.r#type) {
                Ok(chunk_info::Type::Message) => ChunkKind::Message,
                Ok(chunk_info::Type::Bytes) => ChunkKind::Bytes,
                Ok(chunk_info::Type::Unset) | Err(_) => {
                    let message = format!("type {} is neither MESSAGE nor BYTES", chunk.r#type);
                    return Err(invalid(message).in_chunk(at));
                }
            });
        }
        if let Some(tree) = &metadata.merkle_tree {
            subtrees(tree)?;
        }
        let nothing = ChunkedMessage::default();
        let message = match &metadata.extended_message {
            Some(extended) if join_version >= 1 => extended,
            Some(_) => {
                let message = "an extended message, not allowed in join version 0";
                return Err(invalid(message));
            }
            None if join_version >= 1 => {
                return Err(invalid(
                    "there is no extended message, which join version 1 requires",
                ));
            }
            None => metadata.message.as_ref().unwrap_or(&nothing),
        };
        if purpose == TrailerUse::Whole
            && message.chunk_index.is_none()
            && message.chunked_fields.is_empty()
        {
            return Err(invalid("the chunked message names no chunk"));
        }
        let options = ChunkTreeOptions {
            kinds: &kinds,
            marked: metadata.splice_marker,
            concatenates: join_version >= 1,
            limits,
        };
        let tree = ChunkTree::build(message, options)?;
        if purpose == TrailerUse::Whole
            && metadata.splice_marker
            && let Some(unused) = tree.first_unused(kinds.len())
        {
            return Err(invalid("no path refers to the chunk").in_chunk(unused));
        }
        Ok(Trailer {
            metadata,
            purpose,
            kinds,
            tree,
            unknown: Unknown::default(),
        })
    }

    /// Encodes the edited trailer `metadata`, with the unknown fields from all unchanged parts of
    /// this trailer. `kept` contains a flag for each chunk of this trailer: true if the chunk
    /// remains.
    pub(crate) fn encode_changed(&self, metadata: ChunkMetadata, kept: &[bool]) -> Result<Vec<u8>> {
        self.unknown.encode(&self.metadata, metadata, kept)
    }

    /// Computes the Merkle root from the hashes in the trailer; `None` if the trailer has no
    /// hashes. Doesn't check that the chunks have this root; call
    /// [`ChunkedFile::verify`](crate::ChunkedFile::verify) for that.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if this build lacks the feature `merkle`.
    pub fn merkle_root(&self) -> Result<Option<MerkleRoot>> {
        let Some(tree) = &self.metadata.merkle_tree else {
            return Ok(None);
        };
        let root = match self.unknown.bytes() {
            Some(bytes) => MerkleRoot::of(bytes, tree),
            None => MerkleRoot::of(&self.metadata.encode_to_vec(), tree),
        };
        root.map(Some)
    }

    /// Compares the Merkle root computed from the hashes in the trailer with the expected root.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ChecksumMismatch`] if the roots differ, or the trailer has no hashes;
    /// [`ErrorKind::InvalidConfig`] if this build lacks the feature `merkle`.
    pub fn check_root(&self, expected: &MerkleRoot) -> Result<()> {
        let message = match self.merkle_root()? {
            Some(root) if root == *expected => return Ok(()),
            Some(root) => format!("its Merkle root is {root}, where {expected} is expected"),
            None => format!("it has no Merkle root, where {expected} is expected"),
        };
        Err(Error::new(ErrorKind::ChecksumMismatch, message))
    }

    /// Returns the metadata as it was read.
    pub fn metadata(&self) -> &ChunkMetadata {
        &self.metadata
    }

    /// Returns true if the trailer covers the whole message.
    pub fn is_whole(&self) -> bool {
        self.purpose == TrailerUse::Whole
    }

    /// Returns the kinds of all chunks, by index.
    pub fn kinds(&self) -> &[ChunkKind] {
        &self.kinds
    }

    /// Returns true if the file's chunks have placeholders where other chunks belong, so that
    /// merging doesn't need the message's type.
    pub fn is_marked(&self) -> bool {
        self.metadata.splice_marker
    }

    /// Returns true if a merge reproduces the bytes of the original message.
    pub fn is_byte_exact(&self) -> bool {
        let ChunkMetadata {
            byte_exact,
            source_layout,
            ..
        } = &self.metadata;
        self.metadata.splice_marker && (*byte_exact || !source_layout.is_empty())
    }

    /// Returns the crc32c of the merged message, if the file stores it and a merge reproduces the
    /// original bytes.
    pub(crate) fn merged_crc32c(&self) -> Option<u32> {
        let is_known = self.is_whole() && self.is_byte_exact();
        self.metadata.source_crc32c.filter(|_| is_known)
    }

    /// Returns the encoded source layout; `None` if a merge reproduces the original bytes without a
    /// layout, or can't reproduce them.
    pub(crate) fn source_layout(&self) -> Option<&[u8]> {
        let layout = &self.metadata.source_layout;
        let counts = self.is_marked() && self.is_whole() && !layout.is_empty();
        counts.then_some(&layout[..])
    }

    /// Returns the full name of the message's type, if the trailer contains it.
    pub fn message_type(&self) -> Option<&str> {
        Some(self.metadata.message_type.as_str()).filter(|name| !name.is_empty())
    }

    /// Returns the list of places of each chunk, by chunk index. Usually a chunk has one place.
    pub fn places(&self) -> Vec<Vec<ChunkPlace>> {
        let mut places = vec![Vec::new(); self.kinds.len()];
        for id in self.tree.ids() {
            for c in self.tree.chunks(id) {
                places[c.chunk].push(ChunkPlace {
                    path: self.tree.path(id),
                    packed: c.packed,
                });
            }
        }
        places
    }

    /// Returns the declared slices. For each slice, returns the index of its chunk, its field, and
    /// its number of elements, which is 0 if undeclared.
    pub(crate) fn slices(&self) -> impl Iterator<Item = (usize, FieldNumber, u64)> {
        let chunks = self.tree.ids().flat_map(|id| self.tree.chunks(id));
        chunks.filter_map(|c| {
            let number = c.slice_of.filter(|_| self.is_marked())?;
            Some((c.chunk, number, c.elements))
        })
    }

    /// Returns true if a chunk begins within a field that starts in another chunk. Neither of these
    /// two chunks can then be parsed without the other.
    pub(crate) fn cuts_within_fields(&self) -> bool {
        let mut chunks = self.tree.ids().flat_map(|id| self.tree.chunks(id));
        chunks.any(|c| c.within)
    }

    /// Returns the indices of the MESSAGE chunks into which other chunks are spliced according to
    /// their paths. The MESSAGE chunks are in the order in which a merge plan reads them.
    pub(crate) fn spliced_into(&self) -> impl Iterator<Item = usize> {
        let chunks = self.tree.ids_in_depth().flat_map(|id| {
            let chunks = self.tree.chunks(id);
            let walked = match chunks.len() {
                _ if !self.tree.children(id).is_empty() => chunks.len(),
                0 | 1 => 0,
                // A tail is appended to the end of the preceding chunks, so nothing is spliced into
                // these chunks.
                _ if chunks[1..].iter().all(|c| c.tail) => 0,
                // A slice is inserted after the last element in the first chunk.
                _ => 1,
            };
            &chunks[..walked]
        });
        let chunks = chunks.map(|c| c.chunk);
        chunks.filter(|&chunk| self.kinds[chunk] == ChunkKind::Message)
    }

    /// Returns the places of the chunks, as a tree.
    pub(crate) fn chunk_tree(&self) -> &ChunkTree {
        &self.tree
    }
}

/// Checks the parts of the metadata that only join version 1 has.
fn check_extensions(metadata: &ChunkMetadata, join_version: i32, limits: &Limits) -> Result<()> {
    let ChunkMetadata {
        files,
        trailer_level,
        ..
    } = metadata;
    let only_in_1 = |what: &str| Err(invalid(format!("{what}, not allowed in join version 0")));
    if join_version < 1 && *trailer_level > 0 {
        return only_in_1("a trailer in chunks");
    }
    if join_version < 1 && !files.is_empty() {
        return only_in_1("other files with chunks");
    }
    if *trailer_level > limits.max_trailer_levels {
        let most = limits.max_trailer_levels;
        let message =
            format!("the trailer is split {trailer_level} times; at most {most} are allowed");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    if *trailer_level > 0 && !metadata.splice_marker {
        return Err(invalid("the trailer is in chunks, but has no placeholders"));
    }
    if *trailer_level > 0 && !files.is_empty() {
        return Err(invalid("the chunks of the trailer are in other files"));
    }
    if files.len() > limits.max_files {
        let message = format!(
            "the chunks are in {} other files; at most {} are allowed",
            files.len(),
            limits.max_files
        );
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    for (at, chunk) in metadata.chunks.iter().enumerate() {
        if chunk.file as usize > files.len() {
            let message = format!(
                "file {} is out of range: there are {} other files",
                chunk.file,
                files.len()
            );
            return Err(invalid(message).in_chunk(at));
        }
    }
    Ok(())
}

/// Maximum length of the name of a type or a file, in bytes.
const LONGEST_NAME: usize = 64 << 10;

/// Fails if a name is longer than [`LONGEST_NAME`], since every error about the file would repeat
/// the name.
fn check_names(metadata: &ChunkMetadata) -> Result<()> {
    let files = metadata.files.iter().map(|file| &file.path);
    let mut names = files.chain([&metadata.message_type]);
    match names.find(|name| name.len() > LONGEST_NAME) {
        None => Ok(()),
        Some(name) => Err(invalid(format!(
            "a name has {} bytes; at most {LONGEST_NAME} are allowed",
            name.len()
        ))),
    }
}

/// Returns the join version of a file, or an error if this reader must not read it.
pub(crate) fn check_version(version: &VersionDef) -> Result<i32> {
    if !(0..=MAX_JOIN_VERSION).contains(&version.join_version) {
        let message = format!(
            "join version {} is not known to this reader, which knows 0 to {MAX_JOIN_VERSION}",
            version.join_version
        );
        return Err(Error::new(ErrorKind::UnsupportedVersion, message));
    }
    // This reader's consumer version is the highest join version that it supports. A file that bars
    // its join version bars every reader.
    let barred = [MAX_JOIN_VERSION, version.join_version];
    if let Some(bad) = version
        .bad_consumers
        .iter()
        .find(|bad| barred.contains(bad))
    {
        let message = format!("the file says that readers of join version {bad} must not read it");
        return Err(Error::new(ErrorKind::UnsupportedVersion, message));
    }
    Ok(version.join_version)
}

#[cold]
fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidTrailer, message)
}
