//! An open chunked file, and the operations on it.

mod merkle_root;

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use record_file::{ReadAt, RecordFile, RecordPosition};

use crate::container::{Limits, Trailer, TrailerUse};
use crate::error::ChunkIndex;
use crate::merge::plan;
use crate::merge::{
    ChunkStore, ChunkSummary, FileSource, MergePlan, Merged, Places, ReadOptions, RecordStore,
    Verification, execute_into, listed, merge_to_sink, no_way_to_others, open_given, open_path,
    open_path_as, open_path_with, open_sources, open_sources_with, read_schema, summaries,
    to_bytes, verify, with_plan,
};
use crate::path::FieldPath;
use crate::proto::ChunkMetadata;
use crate::proto::chunk_metadata::ExternalFile;
use crate::view::{Fields, MessageView};
use crate::{Error, ErrorKind, Result};

/// A chunked message in a `.cpb` file, or in any other source of bytes. Its chunks are read on
/// demand.
///
/// Opening reads both ends of the file and checks that the trailer is consistent. The record of
/// each chunk is compared with the trailer before a merge begins, or when the chunk is first read.
/// For slow sources that [prefetch](ReadAt::is_prefetched), a merge compares each record only when
/// it reads the chunk.
#[derive(Debug)]
pub struct ChunkedFile<S = File> {
    store: RecordStore<S>,
}

impl ChunkedFile<File> {
    /// Opens a `.cpb` file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be opened; otherwise the errors of
    /// [`from_source`](ChunkedFile::from_source).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        ChunkedFile::open_with(path, &Limits::default())
    }

    /// Opens a `.cpb` file, which must not exceed `limits`.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](ChunkedFile::open).
    pub fn open_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        let store = open_path(path.as_ref(), limits)?;
        Ok(ChunkedFile { store })
    }

    /// Opens a `.cpb` file with `metadata` in place of the stored trailer, to read only a part of
    /// the message.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](ChunkedFile::open), except errors about the file's own trailer, which
    /// isn't read.
    pub fn open_with_metadata(
        path: impl AsRef<Path>,
        metadata: ChunkMetadata,
        limits: &Limits,
    ) -> Result<Self> {
        let store = open_path_with(path.as_ref(), metadata, limits)?;
        Ok(ChunkedFile { store })
    }
}

impl ChunkedFile<Arc<dyn ReadAt>> {
    /// Opens a `.cpb` file, which must not exceed `limits`, as a source whose type is erased. This
    /// lets programs handle files and other sources alike.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](ChunkedFile::open).
    pub fn open_shared(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        let shared = |file: File| Arc::new(file) as Arc<dyn ReadAt>;
        let store = open_path_as(path.as_ref(), limits, shared)?;
        Ok(ChunkedFile { store })
    }

    /// Opens the message in `file`, which is the already open `.cpb` file at `path`.
    pub(crate) fn of_opened(path: &Path, file: Arc<dyn ReadAt>, limits: &Limits) -> Result<Self> {
        let store = open_given(path, file, limits)?;
        Ok(ChunkedFile { store })
    }
}

impl<S: ReadAt> ChunkedFile<S> {
    /// Opens a chunked message in any source of bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotChunked`] if the source is not a record file, or its last record is not a
    /// trailer; [`ErrorKind::InvalidTrailer`] if the trailer is inconsistent;
    /// [`ErrorKind::UnsupportedVersion`] if the file's version excludes this reader;
    /// [`ErrorKind::LimitExceeded`] if the file exceeds a limit.
    pub fn from_source(source: S, limits: &Limits) -> Result<Self> {
        ChunkedFile::from_sources(source, limits, |_| no_way_to_others())
    }

    /// Opens a chunked message whose chunks may be in several sources. `source` is the main file;
    /// `open` opens each other file that the main file's trailer names.
    ///
    /// Fails with [`ErrorKind::ChecksumMismatch`] if a source isn't the file that the trailer
    /// describes.
    ///
    /// # Errors
    ///
    /// The errors of [`from_source`](Self::from_source), and any error from `open`.
    pub fn from_sources(
        source: S,
        limits: &Limits,
        open: impl FnMut(&ExternalFile) -> Result<S>,
    ) -> Result<Self> {
        let store = open_sources(source, limits, open)?;
        Ok(ChunkedFile { store })
    }

    /// Opens a source with `metadata` in place of the stored trailer, to read only a part of the
    /// message.
    ///
    /// # Errors
    ///
    /// The errors of [`from_source`](Self::from_source), except errors about the file's own
    /// trailer, which isn't read.
    pub fn with_metadata(source: S, metadata: ChunkMetadata, limits: &Limits) -> Result<Self> {
        let none = |_: &ExternalFile| no_way_to_others();
        ChunkedFile::with_metadata_and(source, metadata, TrailerUse::Part, limits, none)
    }

    /// Opens a source like [`with_metadata`](Self::with_metadata). The chunks may be in several
    /// sources, and `metadata` may describe the whole message instead of a part.
    pub(crate) fn with_metadata_and(
        source: S,
        metadata: ChunkMetadata,
        purpose: TrailerUse,
        limits: &Limits,
        open: impl FnMut(&ExternalFile) -> Result<S>,
    ) -> Result<Self> {
        let store = open_sources_with(source, metadata, purpose, limits, open)?;
        Ok(ChunkedFile { store })
    }

    /// Returns the trailer.
    pub fn trailer(&self) -> &Trailer {
        self.store.trailer()
    }

    /// Returns the record file that contains the trailer.
    pub fn record_file(&self) -> &RecordFile<FileSource<S>> {
        self.store.record_file()
    }

    /// Returns all record files: first the one with the trailer, then the others in the order of
    /// the trailer's `files`.
    pub fn record_files(&self) -> impl Iterator<Item = &RecordFile<FileSource<S>>> {
        self.store.record_files()
    }

    /// Returns the position of a chunk's record, if that record is in the file that contains the
    /// trailer, and matches the trailer.
    pub fn position(&self, chunk: impl Into<ChunkIndex>) -> Option<RecordPosition> {
        self.store.position(chunk.into().to_usize())
    }

    /// Returns the location of a chunk's record: the index of the file in
    /// [`record_files`](Self::record_files), and the record's position in that file; `None` if the
    /// record can't be found or doesn't match the trailer.
    pub fn place(&self, chunk: impl Into<ChunkIndex>) -> Option<(usize, RecordPosition)> {
        self.store.place(chunk.into().to_usize())
    }

    /// Summarizes every chunk without reading its content.
    ///
    /// # Errors
    ///
    /// If the headers of the records can't be read.
    pub fn summaries(&self) -> Result<Vec<ChunkSummary>> {
        summaries(&self.store)
    }

    /// Summarizes every chunk like [`summaries`](Self::summaries), but only from the trailer, so
    /// the summaries lack the stored sizes and the compression of the chunks. Reads nothing.
    pub fn listed(&self) -> Vec<ChunkSummary> {
        listed(&self.store)
    }

    /// Returns the types in the schema that the file embeds; `None` if it embeds no schema.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSchema`] if the types are inconsistent, [`ErrorKind::LimitExceeded`] if
    /// there are too many, and [`ErrorKind::Record`] if the file's metadata is damaged.
    pub fn schema(&self) -> Result<Option<DescriptorPool>> {
        read_schema(self.record_file(), self.store.required_root())
    }

    /// Returns the type of the message; `None` if the file doesn't name the type, or embeds no
    /// schema.
    ///
    /// ```
    /// use proto_splitter_core::container::ChunkedFile;
    /// use proto_splitter_core::split::{SplitExt, SizeSplitter, SplitOptions};
    /// # use prost_reflect::prost_types::FileDescriptorProto;
    ///
    /// # let message = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
    /// # let folder = tempfile::tempdir()?;
    /// let options = SplitOptions::new().max_chunk_size(1000).embed_schema(true);
    /// let written = SizeSplitter.write_with(&message, folder.path().join("file"), &options)?;
    ///
    /// let file = ChunkedFile::open(written.path)?;
    /// let descriptor = file.descriptor()?.ok_or("it is in the file")?;
    /// assert_eq!(descriptor.full_name(), "google.protobuf.FileDescriptorProto");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`schema`](Self::schema), and [`ErrorKind::InvalidSchema`] if the schema lacks
    /// the type.
    pub fn descriptor(&self) -> Result<Option<MessageDescriptor>> {
        let Some(name) = self.trailer().message_type() else {
            return Ok(None);
        };
        let Some(pool) = self.schema()? else {
            return Ok(None);
        };
        pool.get_message_by_name(name).map(Some).ok_or_else(|| {
            let message = format!("the file's schema lacks the type of its message, {name}");
            Error::new(ErrorKind::InvalidSchema, message)
        })
    }

    /// Plans the merge of the file's chunks.
    ///
    /// # Errors
    ///
    /// The errors of [`merge::plan`](crate::merge::plan).
    pub fn plan(&self, options: &ReadOptions) -> Result<MergePlan> {
        plan(self.trailer(), &self.store, options)
    }

    /// Merges the file into memory.
    ///
    /// # Errors
    ///
    /// The errors of [`Merger::merge_to_bytes`](crate::merge::Merger::merge_to_bytes).
    pub fn merge_to_bytes(&self, options: &ReadOptions) -> Result<Bytes> {
        to_bytes(self.trailer(), &self.store, options)
    }

    /// Merges the file into the beginning of `buffer`, on [several threads](ReadOptions::threads).
    ///
    /// Filling memory that was used before is several times faster than filling fresh memory.
    ///
    /// # Errors
    ///
    /// The errors of [`Merger::merge_to_bytes`](crate::merge::Merger::merge_to_bytes), and
    /// [`ErrorKind::InvalidConfig`] if the buffer is smaller than the message. After an error the
    /// buffer's content is unspecified.
    pub fn merge_into(&self, buffer: &mut [u8], options: &ReadOptions) -> Result<Merged> {
        let trailer = self.trailer();
        with_plan(trailer, &self.store, options, |chunks, plan| {
            execute_into(trailer, chunks, plan, buffer, options)
        })
    }

    /// Merges the file into `sink`.
    ///
    /// # Errors
    ///
    /// The errors of [`Merger::merge_to`](crate::merge::Merger::merge_to).
    pub fn merge_to(&self, sink: &mut impl Write, options: &ReadOptions) -> Result<Merged> {
        merge_to_sink(&self.store, sink, options)
    }

    /// Verifies the whole file: reads every header and every chunk, verifies all hashes, sizes and
    /// checksums, and compares the merged message with the stored size and checksum of the original
    /// message. Reads each chunk once, except large chunks that other chunks are spliced into. If
    /// the file has a [Merkle root](crate::container::MerkleRoot), reads each chunk once more to
    /// verify the hashes. Uses several threads; the result doesn't depend on their number.
    ///
    /// Collects all problems, so that one damaged chunk doesn't hide another. A file that
    /// [`open`](ChunkedFile::open) refuses can't be verified: without a sound trailer there is
    /// nothing to compare with.
    pub fn verify(&self, options: &ReadOptions) -> Verification {
        verify(&self.store, options)
    }

    /// Returns a view of the message for random access. `options` must have the message's type if a
    /// merge depends on the type. The type is also needed to distinguish a message in several
    /// pieces from a value that occurs several times.
    pub fn view(&self, options: ReadOptions) -> MessageView<'_> {
        MessageView::of_chunks(&self.store, options)
    }

    /// Returns the value at a path. The message's type need not be known. [`view`](Self::view)
    /// returns a view with more methods and options.
    ///
    /// # Errors
    ///
    /// The errors of [`MessageView::get`].
    pub fn get(&self, path: &FieldPath) -> Result<Bytes> {
        self.view(ReadOptions::new()).get(path)
    }

    /// Copies the value at a path to the beginning of a buffer and returns the value's size in
    /// bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`MessageView::get_into`].
    pub fn get_into(&self, path: &FieldPath, buffer: &mut [u8]) -> Result<usize> {
        self.view(ReadOptions::new()).get_into(path, buffer)
    }

    /// Decodes the message at a path as a generated type.
    ///
    /// # Errors
    ///
    /// The errors of [`MessageView::message`].
    pub fn message<M: Message + Default>(&self, path: &FieldPath) -> Result<M> {
        self.view(ReadOptions::new()).message(path)
    }

    /// Returns an iterator over the fields of the message at a path, in wire order. Reads no
    /// values.
    ///
    /// # Errors
    ///
    /// The errors of [`MessageView::fields`].
    pub fn fields(&self, path: &FieldPath) -> Result<Fields<'_>> {
        self.view(ReadOptions::new()).fields(path)
    }

    /// Returns the paths of the open files, without symbolic links: the file with the trailer, then
    /// the others in the order of the trailer's `files`. Empty if the source wasn't opened by a
    /// path.
    pub fn paths(&self) -> &[PathBuf] {
        self.store.paths()
    }

    /// Returns the store that reads the chunks from the files.
    pub(crate) fn store(&self) -> &RecordStore<S> {
        &self.store
    }
}

impl<S: ReadAt> ChunkStore for ChunkedFile<S> {
    fn len(&self) -> usize {
        self.store.len()
    }

    fn size(&self, chunk: usize) -> u64 {
        self.store.size(chunk)
    }

    fn stream(&self, chunk: usize) -> Result<Box<dyn Read + '_>> {
        self.store.stream(chunk)
    }

    fn read_into(&self, chunk: usize, buffer: &mut [u8]) -> Result<()> {
        self.store.read_into(chunk, buffer)
    }

    fn read_each<'b>(&self, places: &mut dyn Places<'b>) -> Result<()> {
        self.store.read_each(places)
    }

    fn prepare(&self, threads: NonZeroUsize) -> Result<()> {
        self.store.prepare(threads)
    }

    fn prefetch(&self, chunks: &[usize]) {
        self.store.prefetch(chunks);
    }

    fn checked_crc32c(&self, chunk: usize) -> Option<u32> {
        self.store.checked_crc32c(chunk)
    }

    fn stored_len(&self) -> u64 {
        self.store.stored_len()
    }
}
