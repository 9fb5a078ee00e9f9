//! A chunked file that is open, and all that can be done with it.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use record_file::{ReadAt, RecordFile, RecordPosition};

use crate::container::{Limits, Trailer};
use crate::merge::plan;
use crate::merge::{
    ChunkStore, ChunkSummary, FileSource, MergePlan, Merged, Places, ReadOptions, RecordStore,
    Verification, execute_into, listed, no_way_to_others, open_given, open_path, open_path_as,
    open_path_with, open_sources, open_sources_with, read_schema, summaries, to_bytes, to_sink,
    verify, with_plan,
};
use crate::newtypes::ChunkIndex;
use crate::path::FieldPath;
use crate::proto::ChunkMetadata;
use crate::proto::chunk_metadata::ExternalFile;
use crate::view::{Fields, MessageView};
use crate::{Error, ErrorKind, Result};

/// A chunked message in a `.cpb` file, or in any other source of bytes. Its chunks are read when
/// they are asked for.
///
/// Opening one reads both ends of the file, and checks that the trailer doesn't contradict itself.
/// Whether a chunk is the record that the trailer says is checked when it is first read, and before
/// a merge begins; where reads are [told in advance](ReadAt::is_prefetched), because each takes
/// long, a merge leaves that to the reading of each chunk, too.
#[derive(Debug)]
pub struct ChunkedFile<S = File> {
    store: RecordStore<S>,
}

impl ChunkedFile<File> {
    /// Opens a `.cpb` file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be opened, and what
    /// [`from_source`](ChunkedFile::from_source) finds wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        ChunkedFile::open_with(path, &Limits::default())
    }

    /// Opens a `.cpb` file within `limits`.
    ///
    /// # Errors
    ///
    /// As [`open`](ChunkedFile::open).
    pub fn open_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        let store = open_path(path.as_ref(), limits)?;
        Ok(ChunkedFile { store })
    }

    /// Opens a `.cpb` file whose chunks are those that `metadata` says, whatever its own trailer
    /// is: to read a part of it.
    ///
    /// # Errors
    ///
    /// As [`open`](ChunkedFile::open), but for the file's own trailer, which isn't read.
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
    /// Opens a `.cpb` file within `limits`, as a source of the same type as any other: for programs
    /// that read files and other sources alike.
    ///
    /// # Errors
    ///
    /// As [`open`](ChunkedFile::open).
    pub fn open_shared(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        let shared = |file: File| Arc::new(file) as Arc<dyn ReadAt>;
        let store = open_path_as(path.as_ref(), limits, shared)?;
        Ok(ChunkedFile { store })
    }

    /// A `.cpb` file at this path that is open already.
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
    /// [`ErrorKind::NotChunked`] if it is not a record file, or its last record is not a trailer;
    /// [`ErrorKind::InvalidTrailer`] if the trailer contradicts itself;
    /// [`ErrorKind::UnsupportedVersion`]; [`ErrorKind::LimitExceeded`].
    pub fn from_source(source: S, limits: &Limits) -> Result<Self> {
        ChunkedFile::from_sources(source, limits, |_| no_way_to_others())
    }

    /// Opens a chunked message in any source of bytes, some of whose chunks may be in others;
    /// `open` opens one of those.
    ///
    /// Whether it is the one that is meant is checked here: [`ErrorKind::ChecksumMismatch`] if it
    /// isn't.
    ///
    /// # Errors
    ///
    /// As [`from_source`](Self::from_source), and what `open` reports.
    pub fn from_sources(
        source: S,
        limits: &Limits,
        open: impl FnMut(&ExternalFile) -> Result<S>,
    ) -> Result<Self> {
        let store = open_sources(source, limits, open)?;
        Ok(ChunkedFile { store })
    }

    /// Opens a source whose chunks are those that `metadata` says, whatever its own trailer is: to
    /// read a part of it.
    ///
    /// # Errors
    ///
    /// As [`from_source`](Self::from_source), but for the file's own trailer, which isn't read.
    pub fn with_metadata(source: S, metadata: ChunkMetadata, limits: &Limits) -> Result<Self> {
        ChunkedFile::with_metadata_and(source, metadata, limits, |_| no_way_to_others())
    }

    /// [`with_metadata`](Self::with_metadata), some of whose chunks may be in other sources.
    pub(crate) fn with_metadata_and(
        source: S,
        metadata: ChunkMetadata,
        limits: &Limits,
        open: impl FnMut(&ExternalFile) -> Result<S>,
    ) -> Result<Self> {
        let store = open_sources_with(source, metadata, limits, open)?;
        Ok(ChunkedFile { store })
    }

    /// The trailer.
    pub fn trailer(&self) -> &Trailer {
        self.store.trailer()
    }

    /// The record file below: the one with the trailer.
    pub fn record_file(&self) -> &RecordFile<FileSource<S>> {
        self.store.record_file()
    }

    /// All record files, the one with the trailer first; the others in the order of `files` in the
    /// trailer.
    pub fn record_files(&self) -> impl Iterator<Item = &RecordFile<FileSource<S>>> {
        self.store.record_files()
    }

    /// The position of a chunk's record, if that is in the file with the trailer, and is what the
    /// trailer says.
    pub fn position(&self, chunk: impl Into<ChunkIndex>) -> Option<RecordPosition> {
        self.store.position(chunk.into().to_usize())
    }

    /// Which file a chunk's record is in, counted as [`record_files`](Self::record_files) does, and
    /// its position there; none if its record isn't what the trailer says.
    pub fn place(&self, chunk: impl Into<ChunkIndex>) -> Option<(usize, RecordPosition)> {
        self.store.place(chunk.into().to_usize())
    }

    /// What there is to know about every chunk without reading it.
    ///
    /// # Errors
    ///
    /// If the headers of the records can't be read.
    pub fn summaries(&self) -> Result<Vec<ChunkSummary>> {
        summaries(&self.store)
    }

    /// Describes every chunk as [`summaries`](Self::summaries) does, by the trailer alone: how a
    /// chunk is stored is left out. Nothing is read.
    pub fn listed(&self) -> Vec<ChunkSummary> {
        listed(&self.store)
    }

    /// The types that the file brings along; none if it brings no schema.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSchema`] if they contradict each other, [`ErrorKind::LimitExceeded`] if
    /// there are very many, and [`ErrorKind::Record`] if the file is damaged there.
    pub fn schema(&self) -> Result<Option<DescriptorPool>> {
        read_schema(self.record_file())
    }

    /// The type of the message, if the file says it and brings its schema.
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
    /// As [`schema`](Self::schema), and [`ErrorKind::InvalidSchema`] if the type isn't in it.
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
    /// As [`merge::plan`](crate::merge::plan).
    pub fn plan(&self, options: &ReadOptions) -> Result<MergePlan> {
        plan(self.trailer(), &self.store, options)
    }

    /// Merges the file to memory.
    ///
    /// # Errors
    ///
    /// As [`Merger::merge_to_bytes`](crate::merge::Merger::merge_to_bytes).
    pub fn merge_to_bytes(&self, options: &ReadOptions) -> Result<Bytes> {
        to_bytes(self.trailer(), &self.store, options)
    }

    /// Merges the file into the front of `buffer`, on [several threads](ReadOptions::threads).
    ///
    /// Memory that was touched before is filled several times faster than fresh memory is.
    ///
    /// # Errors
    ///
    /// As [`Merger::merge_to_bytes`](crate::merge::Merger::merge_to_bytes), and [`ErrorKind::InvalidConfig`] if the buffer is smaller
    /// than the message. The buffer's content is then unspecified.
    pub fn merge_into(&self, buffer: &mut [u8], options: &ReadOptions) -> Result<Merged> {
        let trailer = self.trailer();
        with_plan(trailer, &self.store, options, |chunks, plan| {
            execute_into(trailer, chunks, plan, buffer, options)
        })
    }

    /// Merges the file to `sink`.
    ///
    /// # Errors
    ///
    /// As [`Merger::merge_to`](crate::merge::Merger::merge_to).
    pub fn merge_to(&self, sink: &mut impl Write, options: &ReadOptions) -> Result<Merged> {
        to_sink(&self.store, sink, options)
    }

    /// Reads all of the file: every header, every chunk with its hashes, sizes and checksums, and
    /// compares what a merge would be with what was split. Each chunk is read once, but for large
    /// ones that others are spliced into; on several threads, which the result doesn't depend on.
    ///
    /// Problems are collected, so that one damaged chunk doesn't hide another. What
    /// [`open`](ChunkedFile::open) refuses doesn't get here: without a sound trailer there is
    /// nothing to compare with.
    pub fn verify(&self, options: &ReadOptions) -> Verification {
        verify(&self.store, options)
    }

    /// The message in this file, to be read in parts. What the options say of its type is needed
    /// where a merge needs it, and to tell a message in several pieces from a value that occurs
    /// several times.
    pub fn view(&self, options: ReadOptions) -> MessageView<'_> {
        MessageView::of_chunks(&self.store, options)
    }

    /// The value at a path, of a message whose type need not be known: [`view`](Self::view) has
    /// more.
    ///
    /// # Errors
    ///
    /// As [`MessageView::get`].
    pub fn get(&self, path: &FieldPath) -> Result<Bytes> {
        self.view(ReadOptions::new()).get(path)
    }

    /// [`get`](Self::get), to the front of a buffer; says how many bytes the value has.
    ///
    /// # Errors
    ///
    /// As [`MessageView::get_into`].
    pub fn get_into(&self, path: &FieldPath, buffer: &mut [u8]) -> Result<usize> {
        self.view(ReadOptions::new()).get_into(path, buffer)
    }

    /// The message at a path, of a type known to the program.
    ///
    /// # Errors
    ///
    /// As [`MessageView::message`].
    pub fn message<M: Message + Default>(&self, path: &FieldPath) -> Result<M> {
        self.view(ReadOptions::new()).message(path)
    }

    /// The fields of the message at a path, one after the other as they stand there. No value is
    /// read.
    ///
    /// # Errors
    ///
    /// As [`MessageView::fields`].
    pub fn fields(&self, path: &FieldPath) -> Result<Fields<'_>> {
        self.view(ReadOptions::new()).fields(path)
    }

    /// The files that it was opened from, without symbolic links: the one with the trailer, and the
    /// others that have chunks, in the order of `files` in the trailer. None if it wasn't opened by
    /// a path.
    pub fn paths(&self) -> &[PathBuf] {
        self.store.paths()
    }

    /// The chunks and the files that they are in.
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

    fn prepare(&self) -> Result<()> {
        self.store.prepare()
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
