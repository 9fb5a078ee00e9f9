//! Reading a planned message as the input of a parser, without merging the message.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::Range;

use record_file::ReadAt;

use super::unpacked_chunks::UnpackedChunks;
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

/// An input over the message that a plan describes. Reads only the chunks that are accessed.
///
/// To go back in a chunk, or to go on in a chunk that others took the place of, the input reads the
/// chunk again from its beginning. Once the bytes read again would exceed the chunk's size, the
/// chunk is unpacked to a temporary file.
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
        let known = self.open.iter().position(|(open, _)| *open == chunk);
        let goes_on = known.map(|at| self.open.remove(at).1).filter(
            |open| !matches!(open, DecodingChunk::Stream(_, position) if *position > start),
        );
        let before = self.window.len();
        let mut open = match goes_on {
            Some(open) => open,
            None => {
                let size = self.store.size(chunk);
                let skipped = if size > WHOLE_UP_TO { start } else { size };
                let unpacked = &mut self.unpacked;
                if let Some((file, at)) = unpacked.instead_of_opening(self.store, chunk, skipped)? {
                    self.partly.remove(&chunk);
                    let len = usize::try_from(len).unwrap_or(usize::MAX);
                    self.window.resize(before + len, 0);
                    return Ok(file.read_exact_at(at + start, &mut self.window[before..])?);
                }
                self.open(chunk)?
            }
        };
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
        if ((self.window.len() - before) as u64) < len {
            let message = "the chunk is shorter than the file says";
            return Err(Error::new(ErrorKind::InvalidTrailer, message));
        }
        if self.open.len() >= MAX_OPEN {
            self.open.remove(0);
        }
        self.open.push((chunk, open));
        Ok(())
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
