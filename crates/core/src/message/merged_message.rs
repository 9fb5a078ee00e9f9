//! Random access to a chunked message, without merging all of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use prost_reflect::MessageDescriptor;
use record_file::{Chunk, ChunkType, CompressionKind, ReadAt};

use crate::error::ChunkIndex;
use crate::io::{at_target, threads};
use crate::merge::{
    ChunkStore, FilePlace, MergePlan, ReadOptions, WholeSum, chunk_of, copy_exactly, gather,
    scatter, write_around,
};
use crate::message::ChunkedFile;
use crate::progress::Meter;
use crate::spans::{COPY_LEN, SpanSource};
use crate::{Error, ErrorKind, Result};

/// Maximum total size of decompressed chunks to hold in memory: 16 MiB. Further chunks are held in
/// a temporary file.
const MAX_HELD: u64 = 16 << 20;

/// The bytes that a chunked file merges to, for random access.
///
/// A chunk is read completely, and all its checksums are verified, before its first byte is
/// returned. The bytes of an uncompressed chunk are then read from the chunked file. Other chunks
/// are kept decompressed: up to 16 MiB in memory, and further ones in a temporary file. For
/// copying, [`MessageReader::copy_to_files`](crate::MessageReader::copy_to_files) is faster.
///
/// Once all bytes of the message have been read, in any order, their checksum is compared with the
/// one in the file. If the checksums differ, the last of these reads fails.
///
/// ```
/// use proto_splitter_core::container::ChunkedFile;
/// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
/// use proto_splitter_core::MergedMessage;
/// # use prost::Message;
/// # use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
/// use record_file::ReadAt;
///
/// # let message = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
/// # let folder = tempfile::tempdir()?;
/// let options = SplitOptions::new().max_chunk_size(1000);
/// let written = SizeSplitter.write_with(&message, folder.path().join("file"), &options)?;
///
/// let merged = MergedMessage::new(ChunkedFile::open(written.path)?, message.descriptor())?;
/// let mut last = [0; 4];
/// merged.read_exact_at(merged.total_size() - 4, &mut last)?;
/// assert_eq!(&last, b"nnnn");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MergedMessage<S = File> {
    file: Arc<ChunkedFile<S>>,
    plan: MergePlan,
    chunks: Vec<OnceLock<Access>>,
    max_held: u64,
    unpacked: Mutex<Unpacked>,
    /// A buffer for one small chunk; empty while a thread uses it.
    scratch: Mutex<Vec<u8>>,
    /// The checksum of the whole message; `None` if it isn't verified.
    sum: Option<WholeSum>,
}

/// The location of a chunk's decoded bytes.
enum Access {
    /// In the record file: the record chunk, and the record's offset in the data of the record
    /// chunk.
    Stored(Chunk, u64),
    Held(Bytes),
    /// In the temporary file, from this offset on.
    Spilled(u64),
}

#[derive(Default)]
struct Unpacked {
    held: u64,
    spill: Option<File>,
    spilled: u64,
}

impl<S> std::fmt::Debug for MergedMessage<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergedMessage")
            .field("size", &self.plan.total_len())
            .field("chunks", &self.chunks.len())
            .finish_non_exhaustive()
    }
}

impl<S: ReadAt> MergedMessage<S> {
    /// Opens the message in a chunked file. `descriptor` is the type of the message, if known.
    ///
    /// # Errors
    ///
    /// The errors of [`ChunkedFile::plan`].
    pub fn new(
        file: impl Into<Arc<ChunkedFile<S>>>,
        descriptor: impl Into<Option<MessageDescriptor>>,
    ) -> Result<Self> {
        MergedMessage::with_options(file.into(), &ReadOptions::new().descriptor(descriptor))
    }

    /// Opens the message in a chunked file with these options.
    pub(crate) fn with_options(file: Arc<ChunkedFile<S>>, options: &ReadOptions) -> Result<Self> {
        let plan = file.plan(options)?;
        Ok(MergedMessage::planned(file, plan).summed())
    }

    /// Opens the message that `plan` composes from a file's chunks, to read parts of the message.
    /// The checksum of the whole message isn't computed.
    pub(crate) fn planned(file: Arc<ChunkedFile<S>>, plan: MergePlan) -> Self {
        let chunks = (0..file.len()).map(|_| OnceLock::new()).collect();
        MergedMessage {
            file,
            plan,
            chunks,
            max_held: MAX_HELD,
            unpacked: Mutex::default(),
            scratch: Mutex::default(),
            sum: None,
        }
    }

    /// Adds the checksum of the message, which is compared once all bytes of the message have been
    /// read.
    fn summed(self) -> Self {
        let sum = WholeSum::of(self.file.trailer(), self.total_size());
        MergedMessage { sum, ..self }
    }

    /// Returns the size of the message in bytes.
    pub fn total_size(&self) -> u64 {
        self.plan.total_len()
    }

    /// Returns the chunked file.
    pub fn file(&self) -> &ChunkedFile<S> {
        &self.file
    }

    /// Returns the chunks that a range of the message consists of; `None` if the range doesn't
    /// consist only of whole chunks.
    pub(crate) fn whole_chunks(&self, range: &Range<u64>) -> Option<Vec<ChunkIndex>> {
        let spans = || self.plan.spans().parts(range.clone());
        let chunks = || spans().filter_map(|span| Some(chunk_of(&span)?.0.into()));
        self.is_whole(range).then(|| chunks().collect())
    }

    /// Returns true if a range of the message consists only of whole chunks.
    pub(crate) fn is_whole(&self, range: &Range<u64>) -> bool {
        let mut spans = self.plan.spans().parts(range.clone());
        range.start < range.end
            && range.end <= self.total_size()
            && spans.all(|span| {
                chunk_of(&span).is_some_and(|(chunk, part)| part == (0..self.file.size(chunk)))
            })
    }

    /// Writes a range of the message to `sink`. Streams each chunk, verifies all its checksums, and
    /// keeps nothing in memory.
    pub(crate) fn stream_range(&self, range: Range<u64>, sink: &mut dyn Write) -> Result<()> {
        for span in self.plan.spans().parts(range) {
            match span.source {
                SpanSource::Literal(bytes) => sink.write_all(bytes)?,
                SpanSource::Stored(chunk, start) => self
                    .stream_chunk(chunk.index(), start..start + span.len, sink)
                    .map_err(|error| error.in_chunk(chunk.index()))?,
            }
        }
        Ok(())
    }

    fn stream_chunk(&self, chunk: usize, part: Range<u64>, sink: &mut dyn Write) -> Result<()> {
        let size = self.file.size(chunk);
        if part == (0..size) && size <= COPY_LEN as u64 {
            // A small chunk is read at once, which takes less time than opening a stream.
            let lock = || self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
            let mut bytes = std::mem::take(&mut *lock());
            bytes.resize(usize::try_from(size).unwrap_or(COPY_LEN), 0);
            self.file.read_into(chunk, &mut bytes)?;
            sink.write_all(&bytes)?;
            *lock() = bytes;
            return Ok(());
        }
        let mut stream = self.file.stream(chunk)?;
        io::copy(&mut stream.by_ref().take(part.start), &mut io::sink())?;
        copy_exactly(&mut stream, part.end - part.start, sink)?;
        // Reads the remainder, since a chunk is only checked at its end.
        io::copy(&mut stream, &mut io::sink())?;
        Ok(())
    }

    /// Copies parts of the message to places in files; see
    /// [`MessageReader::copy_to_files`](crate::MessageReader::copy_to_files).
    pub(crate) fn copy_to_files(
        &self,
        places: &[FilePlace<'_>],
        threads: Option<NonZeroUsize>,
        meter: &Meter,
    ) -> Result<()> {
        let threads = threads::count(threads);
        let sum = self.sum.as_ref();
        scatter(&self.plan, &*self.file, sum, places, threads, meter)
    }

    /// Reads parts of the message, each into a buffer of the part's length, on `threads` threads;
    /// `None` means the number of cores.
    ///
    /// Each needed chunk is read once, directly into the buffers, and isn't kept elsewhere. All
    /// checksums of the chunk are verified. Don't use the bytes unless this succeeds. The checksum
    /// of the whole message is verified only if the parts together are at least as long as the
    /// message.
    ///
    /// ```
    /// # use prost::Message;
    /// # use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
    /// # use proto_splitter_core::{MergedMessage, container::ChunkedFile, progress::Progress};
    /// # use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
    /// # let message = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
    /// # let folder = tempfile::tempdir()?;
    /// # let options = SplitOptions::new().max_chunk_size(1000);
    /// # let written = SizeSplitter.write_with(&message, folder.path().join("file"), &options)?;
    /// let merged = MergedMessage::new(ChunkedFile::open(written.path)?, message.descriptor())?;
    /// let (mut front, mut back) = ([0; 4], [0; 2]);
    /// let places = [(0..4, &mut front[..]), (5001..5003, &mut back[..])];
    /// merged.read_parts(places, None, &Progress::default().meter(6))?;
    /// // The tag and the length of the name, and its first and last bytes.
    /// assert_eq!((&front, &back), (b"\x0a\x88\x27n", b"nn"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a chunk can't be read; [`ErrorKind::InvalidConfig`] if a part exceeds the message, or its
    /// buffer has a different length; [`ErrorKind::Cancelled`].
    pub fn read_parts<'b>(
        &self,
        places: impl IntoIterator<Item = (Range<u64>, &'b mut [u8])>,
        threads: Option<NonZeroUsize>,
        meter: &Meter,
    ) -> Result<()> {
        let threads = threads::count(threads);
        let places: Vec<_> = places.into_iter().collect();
        let len: u64 = places.iter().map(|(_, buffer)| buffer.len() as u64).sum();
        let sum = self.sum.as_ref().filter(|_| len >= self.total_size());
        gather(&self.plan, &*self.file, sum, places, threads, meter)
    }

    /// Returns the total size, in bytes, of the chunks that contain these parts and haven't been
    /// read completely yet.
    pub(crate) fn unread_chunks(&self, parts: &[Range<u64>]) -> u64 {
        let spans = self.plan.spans();
        let spans = parts.iter().flat_map(|part| spans.parts(part.clone()));
        let chunks: BTreeSet<usize> = spans
            .filter_map(|span| Some(span.stored()?.0.index()))
            .filter(|&chunk| {
                self.chunks
                    .get(chunk)
                    .is_some_and(|slot| slot.get().is_none())
            })
            .collect();
        let sizes = chunks.into_iter().map(|chunk| self.file.size(chunk));
        sizes.fold(0, u64::saturating_add)
    }

    /// Writes the message in order, except for the bytes of whole chunks that `leave_out` skips:
    /// see [`MessageReader::write_around`](crate::MessageReader::write_around).
    pub(crate) fn write_around<W: Write + ?Sized>(
        &self,
        sink: &mut W,
        leave_out: &mut dyn FnMut(&mut W, Range<u64>) -> Result<u64>,
    ) -> Result<()> {
        let sum = self.sum.as_ref();
        write_around(&self.plan, &*self.file, sum, sink, leave_out)
    }

    fn read_chunk(&self, chunk: usize, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self.access(chunk)? {
            Access::Stored(stored, start) => {
                let (position, left) = stored.data_position(start + offset);
                let n = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let source = self.file.record_file().get_ref();
                source.read_exact_at(position, &mut buf[..n])?;
                Ok(n)
            }
            Access::Held(bytes) => {
                let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                let rest = bytes.get(offset..).unwrap_or_default();
                let n = buf.len().min(rest.len());
                buf[..n].copy_from_slice(&rest[..n]);
                Ok(n)
            }
            Access::Spilled(start) => {
                let unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
                match &unpacked.spill {
                    Some(spill) => Ok(spill.read_at(start + offset, buf)?),
                    None => Ok(0),
                }
            }
        }
    }

    fn access(&self, chunk: usize) -> Result<&Access> {
        let Some(slot) = self.chunks.get(chunk) else {
            let message = "there is no such chunk";
            return Err(Error::new(ErrorKind::InvalidTrailer, message).in_chunk(chunk));
        };
        if let Some(access) = slot.get() {
            return Ok(access);
        }
        let access = self.checked(chunk).map_err(|error| error.in_chunk(chunk))?;
        // Another thread may have stored the same result meanwhile.
        Ok(slot.get_or_init(|| access))
    }

    fn checked(&self, chunk: usize) -> Result<Access> {
        // Bytes that were checked against a Merkle root are kept, and aren't read from the file
        // again.
        let is_read_again = self.file.store().required_root().is_none();
        if let Some(position) = self.file.position(chunk).filter(|_| is_read_again) {
            let records = self.file.record_file();
            let stored = records.stored(position)?;
            let header = stored.chunk.header;
            let plain = stored.compression == CompressionKind::None
                && header.kind == ChunkType::Simple
                && header.num_records == 1;
            // The record's bytes are at the end of its record chunk's data.
            let front = header.data_size.checked_sub(header.decoded_data_size);
            if let (true, Some(front)) = (plain, front) {
                io::copy(&mut self.file.stream(chunk)?, &mut io::sink())?;
                return Ok(Access::Stored(stored.chunk, front));
            }
        }
        let size = self.file.size(chunk);
        let mut stream = self.file.stream(chunk)?;
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if unpacked.held.saturating_add(size) <= self.max_held {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes)?;
            unpacked.held += bytes.len() as u64;
            return Ok(Access::Held(bytes.into()));
        }
        let start = unpacked.spilled;
        let spill = match &mut unpacked.spill {
            Some(spill) => spill,
            none => none.insert(tempfile::tempfile()?),
        };
        // A chunk that couldn't be read to its end may have left bytes at this offset.
        spill.seek(SeekFrom::Start(start))?;
        let written = io::copy(&mut stream, spill)
            .map_err(|error| at_target(error.into(), &std::env::temp_dir()))?;
        unpacked.spilled += written;
        Ok(Access::Spilled(start))
    }
}

impl<S: ReadAt> ReadAt for MergedMessage<S> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        // Stops at the end of the span, since the next one may be in a chunk that wasn't requested.
        let Some(span) = self.plan.spans().locate(offset) else {
            return Ok(0);
        };
        let left = usize::try_from(span.len).unwrap_or(usize::MAX);
        let n = buf.len().min(left);
        let read = match span.source {
            SpanSource::Literal(bytes) => {
                buf[..n].copy_from_slice(&bytes[..n]);
                n
            }
            SpanSource::Stored(chunk, start) => {
                self.read_chunk(chunk.index(), start, &mut buf[..n])?
            }
        };
        if let Some(sum) = &self.sum {
            sum.add(offset, &buf[..read])?;
        }
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.total_size())
    }
}

#[cfg(test)]
mod tests {
    use crate::split::{SizeSplitter, Source, SplitExt, SplitOptions};
    use prost_reflect::ReflectMessage;
    use prost_reflect::prost_types::FileDescriptorProto;
    use record_file::Compression;

    use super::*;

    const CHUNK: usize = 200_000;

    /// Returns a `.cpb` file and its message, which has three strings, each in its own chunk. The
    /// strings compress to half their size.
    fn three_chunks(compression: Compression) -> (Vec<u8>, FileDescriptorProto) {
        let text = |seed: u32| -> String {
            let mut state = seed;
            let mut digit = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                char::from_digit(state >> 28, 16).unwrap()
            };
            (0..CHUNK).map(|_| digit()).collect()
        };
        let message = FileDescriptorProto {
            name: Some(text(1)),
            package: Some(text(2)),
            syntax: Some(text(3)),
            ..Default::default()
        };
        let options = SplitOptions::new()
            .max_chunk_size(2 * CHUNK as u64)
            .value_chunk_size(Some(1000))
            .compression(compression);
        let mut bytes = Vec::new();
        let source = Source::from(&message);
        SizeSplitter
            .write_to_with(source, &mut bytes, &options)
            .unwrap();
        (bytes, message)
    }

    fn opened(bytes: &[u8], max_held: u64) -> MergedMessage<&[u8]> {
        let file = ChunkedFile::from_source(bytes, &Default::default()).unwrap();
        let descriptor = FileDescriptorProto::default().descriptor();
        let merged = MergedMessage::new(file, descriptor).unwrap();
        MergedMessage { max_held, ..merged }
    }

    /// Returns a copy of a file in which a bit in the middle of a chunk's stored bytes is flipped.
    fn damaged(bytes: &[u8], chunk: usize) -> Vec<u8> {
        let file = ChunkedFile::from_source(bytes, &Default::default()).unwrap();
        let position = file.position(chunk).unwrap();
        let stored = file.record_file().stored(position).unwrap();
        let middle = stored.chunk.begin().0 + stored.chunk.header.data_size / 2;
        let mut bytes = bytes.to_vec();
        bytes[usize::try_from(middle).unwrap()] ^= 1;
        bytes
    }

    /// Reads the string in the chunk `chunk` from the merged message.
    fn value<S: ReadAt>(merged: &MergedMessage<S>, chunk: usize) -> io::Result<Vec<u8>> {
        let mut spans = merged.plan.chunk_spans(chunk);
        let span = spans.find(|span| span.len == CHUNK as u64).unwrap();
        let mut value = vec![0; CHUNK];
        merged.read_exact_at(span.offset, &mut value)?;
        Ok(value)
    }

    #[test]
    fn a_chunk_after_one_that_failed_to_spill_has_its_own_bytes() {
        let (bytes, message) = three_chunks("zstd:3".parse().unwrap());
        let bytes = damaged(&bytes, 1);
        let merged = opened(&bytes, 0);
        for _ in 0..2 {
            assert!(value(&merged, 1).is_err());
        }
        assert!(value(&merged, 2).unwrap() == message.package().as_bytes());
        assert!(value(&merged, 3).unwrap() == message.syntax().as_bytes());
    }

    #[test]
    fn a_damaged_chunk_that_is_stored_as_it_is_gives_no_byte() {
        let (bytes, message) = three_chunks(Compression::None);
        let merged = opened(&bytes, MAX_HELD);
        assert!(value(&merged, 1).unwrap() == message.name().as_bytes());
        let bytes = damaged(&bytes, 1);
        let merged = opened(&bytes, MAX_HELD);
        let error = Error::from(value(&merged, 1).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Record, "{error}");
        assert!(value(&merged, 2).unwrap() == message.package().as_bytes());
    }
}
