//! Writing a record file: chunks are appended one by one, copied from another file, or written by
//! several threads at once.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use prost::Message;
use record_file::{Chunk, Compression, ReadAt, RecordFile, RecordWriter, WriterOptions};

use super::beside::{DonePart, check_size, done_part};
use super::merkle::write_tree;
use super::one_by_one::write_one_by_one;
use super::parallel::fill;
use super::sink::{ChunkSink, Chunks, Record, Taken};
use super::trailer::write_trailer;
use crate::Result;
use crate::container::Hash;
use crate::io::{AtomicFile, FileAt, Summed};
use crate::proto::chunk_metadata::MerkleTree;
use crate::proto::{ChunkInfo, ChunkMetadata};
use crate::split::options::SplitOptions;
use crate::split::plan::metadata::{chunk_info, part_trailer};

/// A file with chunks, under construction. Tracks the position, size and checksum of each chunk.
#[derive(Debug)]
pub struct ChunkFile {
    /// Writer at the end of the file.
    writer: RecordWriter<FileAt<File>>,
    /// Folder for temporary files.
    folder: PathBuf,
    /// The chunks in this file, for the record at the file's end that lists them.
    chunks: Vec<ChunkInfo>,
}

impl ChunkFile {
    /// Begins an empty file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if writing fails.
    pub fn begin(file: &AtomicFile, options: WriterOptions) -> Result<ChunkFile> {
        ChunkFile::on(file.as_file(), file.folder().to_owned(), options)
    }

    /// Begins an empty record file in `file`, which may have no name. Temporary files are in
    /// `folder`.
    pub(crate) fn on(file: &File, folder: PathBuf, options: WriterOptions) -> Result<ChunkFile> {
        let at = FileAt::new(file.try_clone()?, 0);
        let mut writer = RecordWriter::new(at, options)?.seekable();
        // Writes the signature now, even if no record follows.
        writer.flush()?;
        Ok(ChunkFile {
            writer,
            folder,
            chunks: Vec::new(),
        })
    }

    /// Returns the offset of the next record.
    pub(crate) fn end(&mut self) -> u64 {
        self.writer.position().numeric()
    }

    /// Returns the list of chunks in this file, including those added with [`note`](Self::note).
    pub fn chunks(&self) -> &[ChunkInfo] {
        &self.chunks
    }

    /// Adds a chunk to the list of chunks in this file, without writing the chunk.
    pub fn note(&mut self, info: ChunkInfo) {
        self.chunks.push(ChunkInfo { file: 0, ..info });
    }

    /// Appends a chunk of `size` bytes as a separate record, by streaming it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if reading or writing fails, or `content` is shorter
    /// than `size`.
    pub fn add(
        &mut self,
        content: &mut dyn Read,
        size: u64,
        compression: Compression,
    ) -> Result<Record> {
        let mut content = Summed::new(content);
        let writer = &mut self.writer;
        let position = writer.write_record_from(&mut content, size, compression)?;
        Ok(Record {
            file: 0,
            position,
            crc32c: content.crc32c(),
            leaf: None,
            stored_size: writer.last_data_size(),
            compression: compression.kind(),
        })
    }

    /// Appends a Riegeli chunk from another record file without changing its stored bytes. Returns
    /// its new offset.
    pub(crate) fn copy<S: ReadAt>(
        &mut self,
        records: &RecordFile<S>,
        chunk: &Chunk,
    ) -> Result<u64> {
        Ok(self.writer.copy_chunk(records, chunk)?.0)
    }

    /// Writes all buffered bytes to the file.
    pub(crate) fn flush(&mut self) -> Result<()> {
        Ok(self.writer.flush()?)
    }

    /// Appends the nodes of the Merkle tree over a message's chunks, and returns the trailer's
    /// field for them. `metadata` is the file's metadata.
    pub(crate) fn add_tree(&mut self, leaves: &[Hash], metadata: &[u8]) -> Result<MerkleTree> {
        write_tree(&mut self.writer, leaves, metadata)
    }

    /// Completes the file: writes the message's trailer, divided into chunks if it is too large.
    pub(crate) fn finish(mut self, trailer: ChunkMetadata, options: &SplitOptions) -> Result<()> {
        let end = self.end();
        write_trailer(&mut self.writer, trailer, options)?;
        self.end_at(end, options.max_file_size)
    }

    /// Completes the file: writes a serialized trailer as one record. Fails if the file exceeds
    /// `max` bytes.
    pub(crate) fn finish_with(
        mut self,
        trailer: &[u8],
        compression: Compression,
        max: Option<u64>,
    ) -> Result<()> {
        let end = self.end();
        self.writer.write_record_alone(trailer, compression)?;
        self.end_at(end, max)
    }

    fn end_at(mut self, trailer: u64, max: Option<u64>) -> Result<()> {
        self.writer.flush()?;
        check_size(self.writer.get_ref().file(), trailer, max)
    }

    /// Completes `file`, to which this `ChunkFile` wrote chunks, by appending a record that lists
    /// the chunks. `count` is the number of files next to `main` that are numbered before this one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if writing fails.
    pub fn complete(mut self, file: AtomicFile, main: &Path, count: usize) -> Result<DonePart> {
        let chunk_count = self.chunks.len();
        let trailer = part_trailer(std::mem::take(&mut self.chunks)).encode_to_vec();
        self.finish_with(&trailer, Compression::None, None)?;
        done_part(file, (main, count), &trailer, chunk_count)
    }
}

impl ChunkSink for ChunkFile {
    fn take(&mut self, chunks: Chunks<'_>) -> Result<Taken> {
        let taken = if chunks.one_by_one {
            write_one_by_one(chunks, &mut self.writer)?
        } else {
            let begin = self.end();
            let file = self.writer.get_ref().file();
            let (taken, end) = fill(chunks, file, &self.folder, begin)?;
            let at = FileAt::new(file.try_clone()?, end);
            self.writer = RecordWriter::starting_at(at, end)?.seekable();
            taken
        };
        let records = taken.records.iter().zip(chunks.indices);
        let infos =
            records.map(|(record, &at)| chunk_info(&chunks.plan.chunks[at], &record.info()));
        self.chunks.extend(infos);
        Ok(taken)
    }
}
