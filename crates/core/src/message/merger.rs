//! The merger, which turns chunks or files into a message, bytes, or a file.

use std::io::Write;
use std::path::Path;

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use record_file::ReadAt;

use super::chunked_file::ChunkedFile;
use super::find::{find, open};
use super::stored::StoredMessage;
use crate::container::{Limits, Trailer, TrailerUse, is_chunked};
use crate::error::undecodable;
use crate::features::decode_dynamic;
use crate::io::{AtomicFile, MadeFrom};
use crate::merge::{MergeOptions, Merged, Placement, check_chunk, to_bytes};
use crate::proto::ChunkMetadata;
use crate::{Error, ErrorKind, Result};

/// A merger that turns chunks into the message they were cut from. It works by reflection: it finds
/// the chunks' places by descriptors or placeholders, and needs no generated code for the message's
/// type.
///
/// A merger has [options](MergeOptions), and can merge several messages.
///
/// Files are named by their prefix. A merger reads `PREFIX.cpb` if it exists, else `PREFIX.pb`,
/// which is the message itself. The name of an existing `.cpb` or `.pb` file always means that
/// file, even if the name is also the prefix of another file: `x.pb` doesn't mean `x.pb.cpb`. If
/// neither `PREFIX.cpb` nor `PREFIX.pb` exists, a file with exactly the given name, such as
/// `x.onnx`, is read; [`is_chunked`] detects how that file is stored.
///
/// ```
/// use proto_splitter_core::merge::Merger;
/// use proto_splitter_core::split::{SplitExt, SizeSplitter, SplitOptions};
/// use prost_reflect::prost_types::FileDescriptorProto;
/// use prost::Message;
///
/// let file = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
/// let folder = tempfile::tempdir()?;
/// let (prefix, target) = (folder.path().join("file"), folder.path().join("merged.pb"));
/// SizeSplitter.write_with(&file, &prefix, &SplitOptions::new().max_chunk_size(1000))?;
///
/// let merger = Merger::new();
/// let typed: FileDescriptorProto = merger.read(&prefix)?;
/// assert_eq!(typed, file);
/// let merged = merger.merge_to_file(&prefix, &target)?;
/// assert_eq!((merged.size, merged.byte_exact), (5003, Some(true)));
/// assert_eq!(std::fs::read(&target)?, file.encode_to_vec());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Merger {
    options: MergeOptions,
}

impl Merger {
    /// Creates a merger with the default options.
    pub fn new() -> Merger {
        Merger::default()
    }

    /// Sets the options for reading and writing messages.
    pub fn options(mut self, options: impl Into<MergeOptions>) -> Merger {
        self.options = options.into();
        self
    }

    /// Sets the limits on untrusted input, keeping the other options.
    pub fn limits(mut self, limits: Limits) -> Merger {
        self.options.reading = self.options.reading.limits(limits);
        self
    }

    /// Merges chunks in memory, like TensorFlow's `Merger::Merge`. `placement` is a
    /// [`ChunkMetadata`], whose offsets are ignored, or only a
    /// [`ChunkedMessage`](crate::proto::ChunkedMessage).
    ///
    /// With only a `ChunkedMessage`, the options must set the message's type, the chunks must be in
    /// TensorFlow's [profile](crate::container::Profile), and there are no checksums to compare.
    ///
    /// ```
    /// use prost::Message;
    /// use prost_reflect::ReflectMessage;
    /// use prost_reflect::prost_types::FileDescriptorProto;
    /// use proto_splitter_core::merge::{Merger, ReadOptions};
    /// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
    ///
    /// let file = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
    /// let split = SizeSplitter.split_with(&file, &SplitOptions::new().max_chunk_size(1000))?;
    /// let chunks = split.bytes();
    ///
    /// assert_eq!(Merger::new().merge(&chunks, &split.metadata)?, file.encode_to_vec());
    /// let merger = Merger::new().options(ReadOptions::new().descriptor(file.descriptor()));
    /// assert_eq!(merger.merge(&chunks, &split.message())?, file.encode_to_vec());
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Any error from [`Trailer::from_metadata`]; [`ErrorKind::InvalidTrailer`] if the number or
    /// the size of the chunks differs from the metadata; [`ErrorKind::SchemaNeeded`] if the merge
    /// depends on the type, which is unknown; [`ErrorKind::ChecksumMismatch`] if the checksum of a
    /// chunk or of the merged message differs.
    pub fn merge<'a>(
        &self,
        chunks: &[Bytes],
        placement: impl Into<Placement<'a>>,
    ) -> Result<Bytes> {
        let limits = &self.options.reading.limits;
        let descriptor = self.options.reading.descriptor.as_ref();
        let metadata = placement.into().metadata(chunks, descriptor)?;
        let trailer = Trailer::from_metadata(metadata.clone(), TrailerUse::Whole, limits)?;
        let (given, expected) = (chunks.len(), metadata.chunks.len());
        if given != expected {
            let message = format!("{given} chunks, where the trailer has {expected}");
            return Err(Error::new(ErrorKind::InvalidTrailer, message));
        }
        for (at, (chunk, info)) in chunks.iter().zip(&metadata.chunks).enumerate() {
            check_chunk(chunk, info.size, info.crc32c).map_err(|error| error.in_chunk(at))?;
        }
        to_bytes(&trailer, chunks, &self.options.reading)
    }

    /// Reads a message as a generated type.
    ///
    /// The merge itself doesn't use the type `M`. For a file without placeholders, also [set the
    /// type](crate::merge::ReadOptions::for_message) in the options. Fields that the type lacks,
    /// from a newer schema or extensions, are lost, since prost doesn't store them.
    /// [`read_dynamic`](Self::read_dynamic) keeps these fields, and [`merge_to`](Self::merge_to)
    /// returns the original bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`merge_to`](Self::merge_to); [`ErrorKind::InvalidMessage`] if the bytes are
    /// not a message of that type.
    pub fn read<M: Message + Default>(&self, prefix: impl AsRef<Path>) -> Result<M> {
        decode(self.merge_to_bytes(prefix)?)
    }

    /// Merges a message into an existing one, generated or dynamic, with protobuf's semantics:
    /// appends to repeated fields, merges submessages, and sets other fields.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read). If the bytes are not a message of the type `M`, some
    /// fields may already have been merged.
    pub fn merge_into<M: Message>(&self, prefix: impl AsRef<Path>, message: &mut M) -> Result<()> {
        let bytes = self.merge_to_bytes(prefix)?;
        message.merge(bytes).map_err(undecodable)
    }

    /// Appends the bytes of a message to `bytes`. If `bytes` already contains a message of the same
    /// type, the result is the encoding of both messages merged.
    ///
    /// # Errors
    ///
    /// The errors of [`merge_to_bytes`](Self::merge_to_bytes). After an error the bytes are
    /// unchanged.
    pub fn append_to(&self, prefix: impl AsRef<Path>, bytes: &mut Vec<u8>) -> Result<Merged> {
        let before = bytes.len();
        let left = self.options.reading.limits.max_message_size;
        let merged = self.merge_to(prefix, &mut Bounded { bytes, left });
        merged.inspect_err(|_| bytes.truncate(before))
    }

    /// Reads a message as a dynamic message of the type `descriptor`.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read).
    pub fn read_dynamic(
        &self,
        prefix: impl AsRef<Path>,
        descriptor: MessageDescriptor,
    ) -> Result<DynamicMessage> {
        let reading = self.options.reading.clone().descriptor(descriptor.clone());
        let merger = Merger::new().options(reading);
        let bytes = merger.merge_to_bytes(prefix)?;
        decode_dynamic(descriptor, bytes).map_err(undecodable)
    }

    /// Reads a part of a chunked message, with `metadata` in place of the file's own trailer. If
    /// the file has placeholders, omitted parts become empty values.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read); [`ErrorKind::NotChunked`] if the file is the message in
    /// one piece.
    pub fn read_partial<M: Message + Default>(
        &self,
        prefix: impl AsRef<Path>,
        metadata: &ChunkMetadata,
    ) -> Result<M> {
        let path = find(prefix.as_ref())?;
        if !is_chunked(&path)? {
            let message = format!("{} is a message in one piece", path.display());
            return Err(Error::new(ErrorKind::NotChunked, message));
        }
        let (metadata, options) = (metadata.clone(), &self.options.reading);
        let file = ChunkedFile::open_with_metadata(path, metadata, &options.limits)?;
        decode(file.merge_to_bytes(options)?)
    }

    /// Reads a message from the bytes of a `.cpb` file.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read).
    pub fn read_chunked_from_bytes<M: Message + Default>(&self, bytes: impl ReadAt) -> Result<M> {
        let options = &self.options.reading;
        let file = ChunkedFile::from_source(bytes, &options.limits)?;
        decode(file.merge_to_bytes(options)?)
    }

    /// Reads a message into memory, as bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`merge_to`](Self::merge_to), and [`ErrorKind::LimitExceeded`] if the
    /// message doesn't fit in memory.
    pub fn merge_to_bytes(&self, prefix: impl AsRef<Path>) -> Result<Bytes> {
        let message = self.open(&find(prefix.as_ref())?)?;
        message.check()?;
        message.bytes(&self.options.reading)
    }

    /// Writes a message of any size to `sink`. The memory used doesn't depend on the message's
    /// size.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if neither `PREFIX.cpb` nor `PREFIX.pb` nor `PREFIX` exists, or if reading
    /// or writing fails; any error that reports damage in the file; [`ErrorKind::InvalidMessage`]
    /// if the file is neither in chunks nor a message, in which case nothing is written;
    /// [`ErrorKind::SchemaNeeded`] if the merge depends on the type, which is unknown;
    /// [`ErrorKind::ChecksumMismatch`] if the written bytes differ from the original message. After
    /// an error, discard the bytes that `sink` received.
    pub fn merge_to(&self, prefix: impl AsRef<Path>, sink: &mut impl Write) -> Result<Merged> {
        let message = self.open(&find(prefix.as_ref())?)?;
        message.merge_to(sink, &self.options.reading)
    }

    /// Writes a message of any size to the file `target`, which appears only once it is complete
    /// and correct.
    ///
    /// # Errors
    ///
    /// The errors of [`merge_to`](Self::merge_to); [`ErrorKind::AlreadyExists`] if the target
    /// exists and the options don't [`force`](MergeOptions::force); [`ErrorKind::InvalidConfig`] if
    /// the target is the input or isn't a regular file (for example, if it is a device).
    pub fn merge_to_file(
        &self,
        prefix: impl AsRef<Path>,
        target: impl AsRef<Path>,
    ) -> Result<Merged> {
        self.merge_file_to_file(find(prefix.as_ref())?, target)
    }

    /// Writes the message in the file `input` to the file `target`. Tries no other names for the
    /// input, which may have any name; [`is_chunked`] detects how it is stored.
    ///
    /// # Errors
    ///
    /// The errors of [`merge_to_file`](Self::merge_to_file).
    pub fn merge_file_to_file(
        &self,
        input: impl AsRef<Path>,
        target: impl AsRef<Path>,
    ) -> Result<Merged> {
        let message = self.open(input.as_ref())?;
        let made_from = MadeFrom::files(message.paths());
        let out = AtomicFile::create(target, &made_from, self.options.force)?;
        message.merge_to_file(out, &self.options.reading)
    }

    fn open(&self, path: &Path) -> Result<Box<dyn StoredMessage>> {
        open(path, &self.options.reading.limits)
    }
}

/// A writer that appends to a byte vector, and fails if more than `left` bytes would be added.
struct Bounded<'a> {
    bytes: &'a mut Vec<u8>,
    left: u64,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let too_large = || {
            let message = "the message doesn't fit in memory";
            let error = Error::new(ErrorKind::LimitExceeded, message);
            std::io::Error::from(error.refusing_size())
        };
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(too_large)?;
        let reserved = self.bytes.try_reserve(bytes.len());
        reserved.map_err(|_| too_large())?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn decode<M: Message + Default>(bytes: Bytes) -> Result<M> {
    M::decode(bytes).map_err(undecodable)
}
