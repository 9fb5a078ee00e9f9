//! From the chunks of one file to another.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};

use prost::Message;
use record_file::{Chunk, Compression, ReadAt, RecordWriter, WriterOptions};

use super::Rewritten;
use super::edits::{Edits, Sequence};
use crate::container::ChunkedFile;
use crate::merge::{ChunkStore, Limits, MergeOptions};
use crate::proto::{ChunkInfo, ChunkMetadata};
use crate::split::ChunkCompression;
use crate::{Error, ErrorKind, Result};

/// What a chunk of the new file consists of.
pub(super) enum Content<'a> {
    /// A chunk of the old file, as it is stored there.
    Stored(usize),
    /// The bytes of a chunk of the old file.
    Recompressed(usize),
    /// Those of a chunk with edits; of how many bytes.
    Spliced(usize, Edits, &'a dyn ReadAt, u64),
    /// A value of so many bytes.
    Value(&'a dyn ReadAt, u64),
}

/// The writing of a file from another.
pub(super) struct Copy<'a, S> {
    file: &'a ChunkedFile<S>,
    target: &'a File,
    compression: ChunkCompression,
    writer: Option<RecordWriter<&'a File>>,
    /// Where the old file's record chunks, or single records, are now.
    moved: HashMap<u64, u64>,
    /// Records of the old file that were written anew, by their positions.
    anew: HashMap<u64, ChunkInfo>,
}

impl<'a, S: ReadAt> Copy<'a, S> {
    pub(super) fn new(
        file: &'a ChunkedFile<S>,
        target: &'a File,
        compression: ChunkCompression,
    ) -> Self {
        Copy {
            file,
            target,
            compression,
            writer: None,
            moved: HashMap::new(),
            anew: HashMap::new(),
        }
    }

    /// Writes the chunks and then the trailer, which `metadata` is but for what is new of its chunks. With options, the message is
    /// another one than before.
    pub(super) fn run(
        mut self,
        contents: Vec<Content<'_>>,
        mut metadata: ChunkMetadata,
        changed: Option<&MergeOptions>,
    ) -> Result<Rewritten> {
        let options = match self.file.record_file().metadata()? {
            Some(metadata) => WriterOptions::new().serialized_metadata(metadata),
            None => WriterOptions::new(),
        };
        self.writer = Some(RecordWriter::new(self.target, options)?);
        self.copy_unnamed()?;
        let mut copied = 0;
        for (content, info) in contents.iter().zip(&mut metadata.chunks) {
            copied += usize::from(self.write(content, info)?);
        }
        self.writer()?.flush()?;
        self.check(&mut metadata, changed)?;
        let compression = self.compression.for_trailer();
        let writer = self.writer()?;
        writer.write_record_alone(&metadata.encode_to_vec(), compression)?;
        writer.flush()?;
        Ok(Rewritten {
            chunks: contents.len(),
            copied,
            size: self.target.metadata()?.len(),
        })
    }

    fn writer(&mut self) -> Result<&mut RecordWriter<&'a File>> {
        let begun = "nothing was begun to be written";
        self.writer
            .as_mut()
            .ok_or_else(|| Error::new(ErrorKind::InvalidConfig, begun))
    }

    /// Copies the records that are no chunks of the message: they are someone's.
    fn copy_unnamed(&mut self) -> Result<()> {
        let file = self.file;
        let records = file.record_file();
        let named: HashSet<u64> = (0..file.len())
            .filter_map(|chunk| Some(file.position(chunk)?.chunk_begin().0))
            .chain(records.last_record()?.map(|last| last.chunk_begin().0))
            .collect();
        for chunk in records.chunks() {
            let chunk = chunk?;
            if chunk.header.num_records > 0 && !named.contains(&chunk.begin().0) {
                self.writer()?.copy_chunk(records, &chunk)?;
            }
        }
        Ok(())
    }

    /// Writes a chunk, and says whether it was copied as it is stored.
    fn write(&mut self, content: &Content<'_>, info: &mut ChunkInfo) -> Result<bool> {
        match content {
            Content::Stored(chunk) => {
                let copied = self.store(*chunk, info);
                copied.map_err(|error| error.in_chunk(*chunk as u64))
            }
            Content::Recompressed(chunk) => {
                let written = self.recompress(*chunk, info);
                written.map_err(|error| error.in_chunk(*chunk as u64))?;
                Ok(false)
            }
            Content::Spliced(chunk, edits, value, size) => {
                let open = || -> Result<Box<dyn Read + '_>> {
                    let base = self.file.stream(*chunk)?;
                    let reader = edits.clone().reader(base, self.file.size(*chunk), *value);
                    Ok(Box::new(reader))
                };
                let compression = self.compression.decide_stream(*size, &open)?;
                let stream = open()?;
                *info = self.write_stream(stream, *size, compression, info)?;
                Ok(false)
            }
            Content::Value(value, size) => {
                let open =
                    || -> Result<Box<dyn Read + '_>> { Ok(Box::new(Sequence::new(*value, *size))) };
                let compression = self.compression.decide_stream(*size, &open)?;
                let stream = open()?;
                *info = self.write_stream(stream, *size, compression, info)?;
                Ok(false)
            }
        }
    }

    fn store(&mut self, chunk: usize, info: &mut ChunkInfo) -> Result<bool> {
        let (position, records) = (self.position(chunk)?, self.file.record_file());
        let begin = position.chunk_begin();
        let at = records.chunk_header_at(begin)?;
        if self.has_trailer(&at)? {
            self.recompress(chunk, info)?;
            return Ok(false);
        }
        let moved = match self.moved.get(&begin.0) {
            Some(moved) => *moved,
            None => {
                let moved = self.writer()?.copy_chunk(records, &at)?.0;
                self.moved.insert(begin.0, moved);
                moved
            }
        };
        info.offset = moved + position.record_index();
        Ok(true)
    }

    /// Writes a chunk's record anew; chunks that were one record stay one.
    fn recompress(&mut self, chunk: usize, info: &mut ChunkInfo) -> Result<()> {
        let position = self.position(chunk)?.numeric();
        if let Some(written) = self.anew.get(&position) {
            info.offset = written.offset;
            return Ok(());
        }
        let file = self.file;
        let size = file.size(chunk);
        let compression = self
            .compression
            .decide_stream(size, &|| file.stream(chunk))?;
        let written = self.write_stream(file.stream(chunk)?, size, compression, info)?;
        if info.crc32c.is_some_and(|was| written.crc32c != Some(was)) {
            let message = "the chunk's bytes are not those that the trailer has the crc32c of";
            return Err(Error::new(ErrorKind::ChecksumMismatch, message));
        }
        info.offset = written.offset;
        self.anew.insert(position, written);
        Ok(())
    }

    fn write_stream(
        &mut self,
        stream: Box<dyn Read + '_>,
        size: u64,
        compression: Compression,
        info: &ChunkInfo,
    ) -> Result<ChunkInfo> {
        let mut summed = Summed { stream, crc32c: 0 };
        let position = self
            .writer()?
            .write_record_from(&mut summed, size, compression)?;
        // What is behind the last byte: the checks of the stream.
        if summed.stream.read(&mut [0])? != 0 {
            let message = "a chunk became longer while it was being read";
            return Err(Error::new(ErrorKind::SourceChanged, message));
        }
        Ok(ChunkInfo {
            size,
            offset: position.numeric(),
            crc32c: Some(summed.crc32c),
            ..*info
        })
    }

    fn position(&self, chunk: usize) -> Result<record_file::RecordPosition> {
        let none = || Error::new(ErrorKind::InvalidTrailer, "there is no such chunk");
        self.file.position(chunk).ok_or_else(none)
    }

    /// Whether the old trailer is in this record chunk.
    fn has_trailer(&self, chunk: &Chunk) -> Result<bool> {
        let last = self.file.record_file().last_record()?;
        Ok(last.is_some_and(|last| last.chunk_begin() == chunk.begin()))
    }

    /// Reads what was written, with all checksums; where the message is another one, to say its size and checksum.
    fn check(&self, metadata: &mut ChunkMetadata, changed: Option<&MergeOptions>) -> Result<()> {
        let limits = changed.map_or_else(Limits::default, |options| options.limits.clone());
        let file = ChunkedFile::with_metadata(self.target, metadata.clone(), &limits)?;
        let Some(options) = changed else {
            for chunk in 0..file.len() {
                let mut stream = file.stream(chunk)?;
                io::copy(&mut stream, &mut io::sink())
                    .map_err(|error| Error::from(error).in_chunk(chunk as u64))?;
            }
            return Ok(());
        };
        let merged = file.merge_to(&mut io::sink(), options)?;
        metadata.source_size = Some(merged.size);
        metadata.source_crc32c = Some(merged.crc32c);
        metadata.byte_exact = true;
        Ok(())
    }
}

/// Sums up what it reads.
struct Summed<'a> {
    stream: Box<dyn Read + 'a>,
    crc32c: u32,
}

impl Read for Summed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.crc32c = crc32c::crc32c_append(self.crc32c, &buffer[..read]);
        Ok(read)
    }
}
