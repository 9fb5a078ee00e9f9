//! Writing a new `.cpb` file from the chunks of an old one.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};

use record_file::{ChunkOffset, ReadAt, RecordFile, RecordPosition, WriterOptions};

use super::edits::{Edits, Sequence};
use super::files::check_max_size;
use super::options::{RewriteOptions, Rewritten};
use crate::container::{Hash, Hashing, Limits, TrailerUse};
use crate::io::{AtomicFile, threads};
use crate::merge::{ChunkStore, FileSource, ReadOptions};
use crate::message::ChunkedFile;
use crate::progress::Meter;
use crate::proto::{ChunkInfo, ChunkMetadata};
use crate::split::{
    ChunkCompression, ChunkFile, ChunkFiles, DonePart, LARGEST_MAX_CHUNK_SIZE, decide_stream,
    most_of_tree, most_stored,
};
use crate::{Error, ErrorKind, Result};

/// The content of a chunk in the new file.
pub(super) enum Content<'a> {
    /// A chunk in the old file, copied as stored.
    Stored(usize),
    /// The decoded bytes of a chunk in the old file.
    Recompressed(usize),
    /// A chunk in the old file, edits to its bytes, the new value, and the size of the edited chunk
    /// in bytes.
    Spliced(usize, Edits, &'a dyn ReadAt, u64),
    /// The new value as a whole chunk, and the value's size in bytes.
    Value(&'a dyn ReadAt, u64),
}

impl Content<'_> {
    /// Returns the chunk's uncompressed size, in bytes.
    pub(super) fn size<S: ReadAt>(&self, file: &ChunkedFile<S>) -> u64 {
        match self {
            Content::Stored(chunk) | Content::Recompressed(chunk) => file.size(*chunk),
            Content::Spliced(.., size) | Content::Value(_, size) => *size,
        }
    }
}

/// A new file to write from an old file's chunks.
pub(super) struct Rewrite<'a, S> {
    file: &'a ChunkedFile<S>,
    target: &'a File,
    /// The target file, with its final path; `None` if no other files may be written next to the
    /// target.
    main: Option<&'a AtomicFile>,
    options: &'a RewriteOptions,
}

impl<'a, S: ReadAt> Rewrite<'a, S> {
    pub(super) fn new(
        file: &'a ChunkedFile<S>,
        target: &'a File,
        main: Option<&'a AtomicFile>,
        options: &'a RewriteOptions,
    ) -> Self {
        Rewrite {
            file,
            target,
            main,
            options,
        }
    }

    /// Writes the chunks and then the trailer, which is `metadata` with updated chunk entries.
    /// `kept` contains a flag for each old chunk: true if the chunk remains. If the message has
    /// changed, `changed` contains the options for reading it. Returns a report, and the files
    /// other than the main file; these have no names yet.
    pub(super) fn run(
        self,
        contents: &[Content<'_>],
        kept: &[bool],
        mut metadata: ChunkMetadata,
        changed: Option<&ReadOptions>,
    ) -> Result<(Rewritten, Vec<DonePart>)> {
        let Rewrite { file, options, .. } = self;
        options.compression.validate()?;
        let has_tree = metadata.merkle_tree.is_some();
        let hashing = has_tree.then(Hashing::new).transpose()?;
        file.prepare(threads::count(None))?;
        file.store().check_merged_size()?;
        if let Some(max) = options.max_file_size {
            check_max_size(file, self.main, max)?;
        }
        let about = file.record_file().metadata()?;
        let front = match about.clone() {
            Some(metadata) => WriterOptions::new().serialized_metadata(metadata),
            None => WriterOptions::new(),
        };
        let folder = match self.main {
            Some(main) => main.folder().to_owned(),
            None => std::env::temp_dir(),
        };
        let main = ChunkFile::on(self.target, folder, front)?;
        let mut writing = Writing::begin(file, options.compression, main);
        writing.copy_unnamed()?;
        if let (Some(max), Some(main)) = (options.max_file_size, self.main) {
            let most = writing.most_in_one(contents, kept, &metadata)?;
            if most > max {
                writing.files.go_beside(main, max);
            }
        }
        let sizes = contents.iter().map(|content| content.size(file));
        let sizes: u64 = sizes.fold(0, u64::saturating_add);
        // Every byte is written once and read once. It is read once more for hashes if the new
        // message is also merged.
        let is_merged = changed.is_some() || is_whole_compared(&metadata);
        let is_hashed = is_merged && hashing.is_some();
        let passes = 2 + u64::from(is_hashed);
        let meter = options.progress.meter(sizes.saturating_mul(passes));
        let span = tracing::debug_span!("write", chunks = contents.len(), bytes = sizes).entered();
        let mut copied = 0;
        for (content, info) in contents.iter().zip(&mut metadata.chunks) {
            let most = writing.most_to_add(content)?;
            writing.files.make_room(most)?;
            copied += usize::from(writing.write(content, info, &meter)?);
            if writing.noted.insert((info.file, info.offset)) {
                writing.files.note(info);
            }
        }
        writing.files.complete()?;
        writing.files.main().flush()?;
        drop(span);
        let others = writing.files.done();
        metadata.files = others.iter().map(|part| part.named.clone()).collect();
        if changed.is_some() {
            // The source layout describes the old message.
            metadata.source_layout.clear();
        }
        // The Merkle tree describes the old file.
        metadata.merkle_tree = None;
        let leaves = writing.check(self.target, &mut metadata, changed, hashing, &meter)?;
        let (mut main, parts) = writing.files.into_parts();
        if let Some(leaves) = leaves {
            let tree = main.add_tree(&leaves, about.as_deref().unwrap_or_default())?;
            metadata.merkle_tree = Some(tree);
        }
        let others: u64 = metadata.files.iter().map(|file| file.size).sum();
        let trailer = file.trailer().encode_changed(metadata, kept)?;
        if trailer.len() as u64 > LARGEST_MAX_CHUNK_SIZE {
            let message = format!(
                "its trailer would have {} bytes in one piece: merge the file, and split it again",
                trailer.len()
            );
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let compression = options.compression.for_trailer();
        main.finish_with(&trailer, compression, options.max_file_size)?;
        options.progress.check()?;
        let rewritten = Rewritten {
            chunks: contents.len(),
            copied,
            size: self.target.metadata()?.len() + others,
            files: Vec::new(),
            removed_files: Vec::new(),
        };
        Ok((rewritten, parts))
    }
}

/// The origin of a chunk with unchanged content: the number of the old file and the offset in that
/// file. Chunks with the same origin are written once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    /// A record chunk, which is copied as stored.
    RecordChunk(usize, u64),
    /// A record, which is decoded and encoded again.
    Record(usize, u64),
}

/// The state of a rewrite in progress.
struct Writing<'a, S> {
    file: &'a ChunkedFile<S>,
    /// The old files.
    records: Vec<&'a RecordFile<FileSource<S>>>,
    /// The old files' record chunks that contain trailers, by file number and offset. These chunks
    /// aren't copied.
    trailer_chunks: HashSet<(usize, u64)>,
    compression: ChunkCompression,
    files: ChunkFiles<'a>,
    /// For every origin written so far, the number of the new file and the offset in that file.
    written: HashMap<Origin, (u32, u64)>,
    /// The file numbers and offsets of the chunks already passed to [`ChunkFiles::note`]. Several
    /// chunks may share a record.
    noted: HashSet<(u32, u64)>,
}

impl<'a, S: ReadAt> Writing<'a, S> {
    fn begin(file: &'a ChunkedFile<S>, compression: ChunkCompression, main: ChunkFile) -> Self {
        let records: Vec<_> = file.record_files().collect();
        let of_file = |number| {
            file.store()
                .trailer_chunks(number)
                .into_iter()
                .map(move |at| (number, at))
        };
        Writing {
            file,
            trailer_chunks: (0..records.len()).flat_map(of_file).collect(),
            records,
            compression,
            files: ChunkFiles::new(main),
            written: HashMap::new(),
            noted: HashSet::new(),
        }
    }

    /// Returns an upper bound for the size of a single file with all chunks, in bytes.
    fn most_in_one(
        &mut self,
        contents: &[Content<'_>],
        kept: &[bool],
        metadata: &ChunkMetadata,
    ) -> Result<u64> {
        let mut largest = metadata.clone();
        for (info, content) in largest.chunks.iter_mut().zip(contents) {
            info.size = content.size(self.file);
            (info.offset, info.crc32c) = (u64::MAX, Some(u32::MAX));
        }
        largest.files.clear();
        let trailer = self.file.trailer().encode_changed(largest, kept)?.len();
        // The trailer may still grow by the message's new size and checksum, and the Merkle tree is
        // added.
        let of_message = 32
            + match &metadata.merkle_tree {
                Some(_) => most_of_tree(contents.len()),
                None => 0,
            };
        let front = self.files.main().end();
        let mut most = front.saturating_add(most_stored(trailer as u64 + of_message));
        let mut counted = HashSet::new();
        for content in contents {
            let from = self.origin(content)?;
            // A record that several chunks share is written once.
            if from.is_none_or(|from| counted.insert(from)) {
                most = most.saturating_add(self.most_of(content, from)?);
            }
        }
        Ok(most)
    }

    /// Returns an upper bound on the number of bytes that a chunk adds to a file; 0 if the chunk's
    /// origin was already written.
    fn most_to_add(&self, content: &Content<'_>) -> Result<u64> {
        let from = self.origin(content)?;
        if from.is_some_and(|from| self.written.contains_key(&from)) {
            Ok(0)
        } else {
            self.most_of(content, from)
        }
    }

    /// Returns an upper bound for the number of bytes that a new record with this content and
    /// origin adds to a file.
    fn most_of(&self, content: &Content<'_>, from: Option<Origin>) -> Result<u64> {
        let size = match (content, from) {
            (_, Some(Origin::RecordChunk(number, begin))) => {
                let stored = self.records[number].chunk_header_at(ChunkOffset(begin))?;
                stored.header.data_size
            }
            _ => content.size(self.file),
        };
        Ok(most_stored(size))
    }

    /// Returns the origin of a chunk; `None` if the chunk's content is new or edited.
    fn origin(&self, content: &Content<'_>) -> Result<Option<Origin>> {
        let (Content::Stored(chunk) | Content::Recompressed(chunk)) = content else {
            return Ok(None);
        };
        let (number, position) = self.place(*chunk)?;
        let begin = position.chunk_begin().0;
        let is_copied = matches!(content, Content::Stored(_))
            // Chunks are compared with a required Merkle root only when they are decoded.
            && !self.file.requires_root()
            && !self.trailer_chunks.contains(&(number, begin));
        Ok(Some(if is_copied {
            Origin::RecordChunk(number, begin)
        } else {
            Origin::Record(number, position.numeric())
        }))
    }

    /// Copies records that are not chunks of the message, since other programs may need them.
    fn copy_unnamed(&mut self) -> Result<()> {
        let mut named = self.trailer_chunks.clone();
        let places = (0..self.file.len()).filter_map(|chunk| self.file.place(chunk));
        named.extend(places.map(|(number, position)| (number, position.chunk_begin().0)));
        for (number, records) in self.records.iter().enumerate() {
            for chunk in records.chunks() {
                let chunk = chunk?;
                if chunk.header.num_records > 0 && !named.contains(&(number, chunk.begin().0)) {
                    self.files.main().copy(records, &chunk)?;
                }
            }
        }
        Ok(())
    }

    /// Writes a chunk, and returns true if it was copied as stored.
    fn write(
        &mut self,
        content: &Content<'_>,
        info: &mut ChunkInfo,
        meter: &Meter,
    ) -> Result<bool> {
        let file = self.file;
        match content {
            Content::Stored(chunk) | Content::Recompressed(chunk) => {
                let from = self.origin(content)?;
                let copied = from.map_or(Ok(false), |from| self.take(*chunk, from, info, meter));
                copied.map_err(|error| error.in_chunk(*chunk))
            }
            Content::Spliced(chunk, edits, value, size) => {
                let open = || -> Result<Box<dyn Read + '_>> {
                    let base = file.stream(*chunk)?;
                    let reader = edits.clone().reader(base, *value);
                    Ok(Box::new(reader))
                };
                *info = self.write_anew(&open, *size, info, meter)?;
                Ok(false)
            }
            Content::Value(value, size) => {
                let open =
                    || -> Result<Box<dyn Read + '_>> { Ok(Box::new(Sequence::new(*value, *size))) };
                *info = self.write_anew(&open, *size, info, meter)?;
                Ok(false)
            }
        }
    }

    /// Copies a chunk from the old files, and returns true if it was copied as stored. Chunks that
    /// share a record in the old files also share one in the new files.
    fn take(
        &mut self,
        chunk: usize,
        from: Origin,
        info: &mut ChunkInfo,
        meter: &Meter,
    ) -> Result<bool> {
        let file = self.file;
        let is_copied = matches!(from, Origin::RecordChunk(..));
        let there = match (self.written.get(&from), from) {
            (Some(there), _) => {
                meter.advance(file.size(chunk))?;
                *there
            }
            (None, Origin::RecordChunk(number, begin)) => {
                let records = self.records[number];
                let stored = records.chunk_header_at(ChunkOffset(begin))?;
                let (of, to) = self.files.current()?;
                let there = (of, to.copy(records, &stored)?);
                meter.advance(file.size(chunk))?;
                there
            }
            (None, Origin::Record(..)) => {
                // The stream compares its bytes with the trailer's crc32c.
                let written =
                    self.write_anew(&|| file.stream(chunk), file.size(chunk), info, meter)?;
                // The name of an additional file is a hash of its content, including this checksum
                // in its last record.
                info.crc32c = written.crc32c;
                (written.file, written.offset)
            }
        };
        self.written.insert(from, there);
        let in_chunk = if is_copied {
            self.place(chunk)?.1.record_index()
        } else {
            0
        };
        (info.file, info.offset) = (there.0, there.1 + in_chunk);
        Ok(is_copied)
    }

    /// Writes `size` bytes as a new record. Each call of `open` returns a reader for these bytes.
    /// Returns the new chunk's entry in the trailer, based on the old entry `info`.
    fn write_anew<'r>(
        &mut self,
        open: &dyn Fn() -> Result<Box<dyn Read + 'r>>,
        size: u64,
        info: &ChunkInfo,
        meter: &Meter,
    ) -> Result<ChunkInfo> {
        let compression = decide_stream(self.compression, size, open)?;
        let mut stream = meter.read(open()?);
        let _span = tracing::trace_span!("write", bytes = size, %compression).entered();
        let (file, to) = self.files.current()?;
        let record = to.add(&mut stream, size, compression)?;
        // Reading past the last byte runs the stream's checks.
        if stream.read(&mut [0])? != 0 {
            let message = "a chunk became longer while it was being read";
            return Err(Error::new(ErrorKind::SourceChanged, message));
        }
        Ok(ChunkInfo {
            size,
            offset: record.position.numeric(),
            crc32c: Some(record.crc32c),
            file,
            ..*info
        })
    }

    /// Returns the number of the old file that contains a chunk's record, and the record's position
    /// in that file.
    fn place(&self, chunk: usize) -> Result<(usize, RecordPosition)> {
        let none = || Error::new(ErrorKind::InvalidTrailer, "there is no such chunk");
        self.file.place(chunk).ok_or_else(none)
    }

    /// Reads the new files and verifies all checksums. Also verifies the checksum of an unchanged
    /// message, or computes the size and checksum of a changed message. If `hashing` is given,
    /// returns the hashes of the chunks.
    fn check(
        &self,
        target: &File,
        metadata: &mut ChunkMetadata,
        changed: Option<&ReadOptions>,
        hashing: Option<Hashing>,
        meter: &Meter,
    ) -> Result<Option<Vec<Hash>>> {
        let _span = tracing::debug_span!("check", chunks = metadata.chunks.len()).entered();
        // The size of an unchanged message was checked in the old file.
        let unchanged = ReadOptions::new().limits(Limits::new().max_merged_size(u64::MAX));
        let limits = &changed.unwrap_or(&unchanged).limits;
        let purpose = match changed {
            Some(_) => TrailerUse::Part,
            None => TrailerUse::Whole,
        };
        let others = self.files.done();
        let file =
            ChunkedFile::with_metadata_and(target, metadata.clone(), purpose, limits, |named| {
                let part = others.iter().find(|part| part.named == *named);
                part.map(|part| part.file.as_file())
                    .ok_or_else(|| Error::new(ErrorKind::InvalidTrailer, "there is no such file"))
            })?;
        let read = |chunk: usize, sink: &mut dyn io::Write| {
            let read = file
                .stream(chunk)
                .and_then(|stream| Ok(io::copy(&mut meter.read(stream), sink)?));
            read.map(drop).map_err(|error| error.in_chunk(chunk))
        };
        let mut leaves = None;
        if let Some(hashing) = hashing {
            let leaf = |chunk| {
                let mut leaf = hashing.leaf();
                read(chunk, &mut leaf).map(|()| leaf.finish())
            };
            leaves = Some((0..file.len()).map(leaf).collect::<Result<Vec<Hash>>>()?);
        }
        let merge = |options| file.merge_to(&mut meter.written_to(io::sink()), options);
        let Some(options) = changed else {
            if is_whole_compared(metadata) {
                merge(&unchanged)?;
            } else if leaves.is_none() {
                (0..file.len()).try_for_each(|chunk| read(chunk, &mut io::sink()))?;
            }
            return Ok(leaves);
        };
        let merged = merge(options)?;
        metadata.source_size = Some(merged.size);
        metadata.source_crc32c = Some(merged.crc32c);
        metadata.byte_exact = true;
        Ok(leaves)
    }
}

/// Returns true if the checksum of the whole message can be verified without the message's type.
fn is_whole_compared(metadata: &ChunkMetadata) -> bool {
    let is_exact = metadata.byte_exact || !metadata.source_layout.is_empty();
    metadata.source_crc32c.is_some() && metadata.splice_marker && is_exact
}
