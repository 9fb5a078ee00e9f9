//! Reading a planned message as the input of a parser, without merging the message.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;

use record_file::ReadAt;

use crate::merge::plan::merge_plan::{MergePlan, chunk_of};
use crate::merge::read::chunk_store::{ChunkStore, NoChunks, OnePiece, may_be_led_to, read_to_end};
use crate::spans::SpanSource;
use crate::wire::{Input, SourceInput, at_hand, part_at_hand};
use crate::{Error, ErrorKind, Result};

/// Maximum size of a chunk to read as a whole on first use: 1 MiB. Chunks up to this size are kept
/// in memory, since following a field path goes back to earlier bytes at every step.
const WHOLE_UP_TO: u64 = 1 << 20;

/// Maximum number of chunks that are open at the same time.
const MAX_OPEN: usize = 4;

const WINDOW: usize = 4 << 10;

/// Number of bytes to copy at a time to the file of unpacked chunks: 256 KiB.
const COPY_LEN: usize = 256 << 10;

/// An input over the message that a plan describes. Reads only the chunks that are accessed.
///
/// To go back in a chunk, the input reads the chunk again from its beginning. Once the bytes read
/// again would exceed the chunk's size, the chunk is unpacked to a temporary file.
pub(crate) struct PlanReader<'a, S: ?Sized> {
    plan: MergePlan,
    store: &'a S,
    /// Random-access source of a message in one piece; `None` if the message is in chunks.
    at_random: Option<SourceInput<'a, dyn ReadAt + 'a>>,
    /// Open chunks, the most recently used last.
    open: Vec<(usize, DecodingChunk<'a>)>,
    /// Chunks that may not have been read to their ends yet, and thus may not have been checked.
    partly: BTreeSet<usize>,
    unpacked: UnpackedChunks,
    window: Vec<u8>,
    start: u64,
}

/// Chunks that were unpacked to a temporary file, since the reader went back in them repeatedly.
#[derive(Default)]
struct UnpackedChunks {
    file: Option<File>,
    len: u64,
    /// Offset of each chunk in the temporary file.
    at: HashMap<usize, u64>,
    /// Number of bytes of each chunk that were read again, by the chunk's index.
    again: HashMap<usize, u64>,
    /// True if no temporary file can be written, so that chunks are read again instead.
    impossible: bool,
}

enum DecodingChunk<'a> {
    Whole(Vec<u8>),
    Stream(Box<dyn Read + 'a>, u64),
}

impl<'a> PlanReader<'a, dyn ChunkStore + 'a> {
    /// Creates an input over a message in one piece.
    pub(crate) fn of_piece(piece: OnePiece<'a>) -> Result<Self> {
        let size = ChunkStore::size(&piece, 0);
        let mut input = PlanReader::new(MergePlan::of_chunk(0, size, 1)?, &NoChunks as _);
        input.at_random = Some(SourceInput::new(piece.source(), size));
        Ok(input)
    }
}

impl<'a, S: ChunkStore + ?Sized> PlanReader<'a, S> {
    pub(crate) fn new(plan: MergePlan, store: &'a S) -> Self {
        PlanReader {
            plan,
            store,
            at_random: None,
            open: Vec::new(),
            partly: BTreeSet::new(),
            unpacked: UnpackedChunks::default(),
            window: Vec::new(),
            start: 0,
        }
    }

    pub(crate) fn plan(&self) -> &MergePlan {
        &self.plan
    }

    /// Returns the plan if the message is in chunks; `None` if it is in one piece.
    pub(crate) fn plan_of_chunks(&self) -> Option<&MergePlan> {
        Some(&self.plan).filter(|_| self.at_random.is_none())
    }

    /// Reads all accessed chunks to their ends, so that they are checked.
    pub(crate) fn check(&mut self) -> Result<()> {
        for (chunk, open) in std::mem::take(&mut self.open) {
            if let DecodingChunk::Stream(mut stream, _) = open {
                let read = std::io::copy(&mut stream, &mut std::io::sink());
                read.map_err(|error| Error::from(error).in_chunk(chunk))?;
                self.partly.remove(&chunk);
            }
        }
        while let Some(chunk) = self.partly.pop_first() {
            read_to_end(self.store, chunk)?;
        }
        Ok(())
    }

    /// Returns the error to report after parsing the message failed with `error`. Damage in an
    /// accessed chunk takes precedence.
    #[cold]
    pub(crate) fn damage_first(&mut self, error: Error) -> Error {
        if !may_be_led_to(&error) {
            return error;
        }
        match self.check() {
            Ok(()) => error,
            Err(damage) => damage.at_path(error.path().unwrap_or_default()),
        }
    }

    /// Converts an error at an offset in the message to an error at an offset in a chunk, and adds
    /// the name of the chunk's file.
    pub(crate) fn in_chunk(&self, error: Error) -> Error {
        let offset = error.offset().filter(|_| error.chunk().is_none());
        let span = self.plan_of_chunks().zip(offset);
        let span = span.and_then(|(plan, offset)| plan.spans().locate(offset));
        let Some((chunk, range)) = span.as_ref().and_then(chunk_of) else {
            return error;
        };
        let error = error.in_chunk(chunk).with_offset(range.start);
        match self.store.file_name(chunk) {
            Some(name) => error.context(name.escape_debug()),
            None => error,
        }
    }

    /// Returns the bytes at `range`, if they are in memory.
    #[inline]
    pub(crate) fn part_at_hand(&self, range: &Range<u64>) -> Option<&[u8]> {
        match &self.at_random {
            Some(input) => input.part_at_hand(range),
            None => part_at_hand(&self.window, self.start, range),
        }
    }

    /// Moves the window to `position`, and fills it with at least `want` bytes, unless the message
    /// ends before.
    fn refill(&mut self, position: u64, want: usize) -> Result<()> {
        // Bytes already in the window are kept, since a chunk can't be read backwards.
        let skip = position.checked_sub(self.start);
        let skip = skip.and_then(|skip| usize::try_from(skip).ok());
        let passed = skip.unwrap_or(usize::MAX).min(self.window.len());
        self.window.drain(..passed);
        self.start = position;
        let filled = self.fill(position, want);
        if filled.is_err() {
            self.window.clear();
        }
        filled
    }

    fn fill(&mut self, position: u64, want: usize) -> Result<()> {
        while self.window.len() < want {
            let at = position + self.window.len() as u64;
            let Some(span) = self.plan.spans().locate(at) else {
                break;
            };
            match span.source {
                SpanSource::Literal(bytes) => self.window.extend_from_slice(bytes),
                SpanSource::Stored(chunk, start) => {
                    let most = WINDOW.max(want) - self.window.len();
                    let (chunk, len) = (chunk.index(), span.len.min(most as u64));
                    self.read(chunk, start, len)
                        .map_err(|error| error.in_chunk(chunk))?;
                }
            }
        }
        Ok(())
    }

    /// Adds bytes of a chunk to the window.
    fn read(&mut self, chunk: usize, start: u64, len: u64) -> Result<()> {
        if self.unpacked(chunk, start)? {
            return self.read_unpacked(chunk, start, len);
        }
        let known = self.open.iter().position(|(open, _)| *open == chunk);
        let goes_on = known.map(|at| self.open.remove(at).1).filter(
            |open| !matches!(open, DecodingChunk::Stream(_, position) if *position > start),
        );
        let mut open = match goes_on {
            Some(open) => open,
            None => self.open(chunk)?,
        };
        let before = self.window.len() as u64;
        match &mut open {
            DecodingChunk::Whole(bytes) => {
                let range = usize::try_from(start)
                    .ok()
                    .zip(usize::try_from(start + len).ok());
                let bytes = range.and_then(|(start, end)| bytes.get(start..end));
                self.window.extend_from_slice(bytes.unwrap_or_default());
            }
            DecodingChunk::Stream(stream, position) => {
                let gap = start - *position;
                std::io::copy(&mut stream.by_ref().take(gap), &mut std::io::sink())?;
                stream.by_ref().take(len).read_to_end(&mut self.window)?;
                *position = start + len;
            }
        }
        if self.window.len() as u64 - before < len {
            let message = "the chunk is shorter than the file says";
            return Err(Error::new(ErrorKind::InvalidTrailer, message));
        }
        if self.open.len() >= MAX_OPEN {
            self.open.remove(0);
        }
        self.open.push((chunk, open));
        Ok(())
    }

    /// Returns true if a chunk is in the temporary file of unpacked chunks. Unpacks a chunk once
    /// reading it again has cost as much as unpacking it.
    fn unpacked(&mut self, chunk: usize, start: u64) -> Result<bool> {
        if self.unpacked.at.contains_key(&chunk) {
            return Ok(true);
        }
        let goes_back = self.open.iter().any(|(open, how)| {
            *open == chunk && matches!(how, DecodingChunk::Stream(_, position) if *position > start)
        });
        if !goes_back || self.unpacked.impossible {
            return Ok(false);
        }
        let again = self.unpacked.again.entry(chunk).or_default();
        *again = again.saturating_add(start);
        if *again <= self.store.size(chunk) {
            return Ok(false);
        }
        self.open.retain(|(open, _)| *open != chunk);
        self.unpack(chunk)
    }

    fn unpack(&mut self, chunk: usize) -> Result<bool> {
        let _span = tracing::trace_span!("unpack", chunk, bytes = self.store.size(chunk)).entered();
        let unpacked = &mut self.unpacked;
        if unpacked.file.is_none() {
            unpacked.file = tempfile::tempfile().ok();
        }
        if let Some(file) = &mut unpacked.file
            && file.seek(SeekFrom::Start(unpacked.len)).is_err()
        {
            unpacked.file = None;
        }
        let mut stream = self.store.stream(chunk)?;
        let mut buffer = vec![0; COPY_LEN];
        let mut end = unpacked.len;
        loop {
            let read = stream.read(&mut buffer)?;
            let Some(file) = unpacked.file.as_mut().filter(|_| read > 0) else {
                break;
            };
            if file.write_all(&buffer[..read]).is_err() {
                unpacked.file = None;
                break;
            }
            end += read as u64;
        }
        if unpacked.file.is_none() {
            unpacked.at.clear();
            unpacked.impossible = true;
            return Ok(false);
        }
        self.partly.remove(&chunk);
        unpacked.at.insert(chunk, unpacked.len);
        unpacked.len = end;
        Ok(true)
    }

    fn read_unpacked(&mut self, chunk: usize, start: u64, len: u64) -> Result<()> {
        let (Some(file), Some(at)) = (&self.unpacked.file, self.unpacked.at.get(&chunk)) else {
            return Ok(());
        };
        let before = self.window.len();
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.window.resize(before + len, 0);
        Ok(file.read_exact_at(at + start, &mut self.window[before..])?)
    }

    fn open(&mut self, chunk: usize) -> Result<DecodingChunk<'a>> {
        let mut stream = self.store.stream(chunk)?;
        if self.store.size(chunk) > WHOLE_UP_TO {
            self.partly.insert(chunk);
            return Ok(DecodingChunk::Stream(stream, 0));
        }
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        Ok(DecodingChunk::Whole(bytes))
    }
}

impl<S: ChunkStore + ?Sized> Input for PlanReader<'_, S> {
    fn size(&self) -> u64 {
        self.plan.total_len()
    }

    #[inline]
    fn fetch(&mut self, position: u64, want: usize) -> Result<&[u8]> {
        // `ref mut` borrows the input only in the branch that returns from it.
        if let Some(ref mut input) = self.at_random {
            return input.fetch(position, want);
        }
        let left = self.plan.total_len().saturating_sub(position);
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(want);
        let skip = match at_hand(&self.window, self.start, position, want) {
            Some(skip) => skip,
            None => {
                self.refill(position, want)?;
                0
            }
        };
        Ok(&self.window[skip..])
    }
}
