//! A planned message as input, without it being merged.

use std::io::Read;

use super::plan::{MergePlan, SegmentSource};
use super::store::ChunkStore;
use crate::wire::Input;
use crate::{Error, ErrorKind, Result};

/// Chunks up to this size are read as a whole when they are first looked into: a walk along a path goes back at every step.
const WHOLE_UP_TO: u64 = 1 << 20;

/// How many chunks are open at once.
const MAX_OPEN: usize = 4;

const WINDOW: usize = 4 << 10;

/// Hops through the message that a plan describes. Only the chunks that are looked into are read.
pub(crate) struct PlanInput<'a, S: ?Sized> {
    plan: MergePlan,
    store: &'a S,
    /// The one used last is at the end.
    open: Vec<(usize, Open<'a>)>,
    window: Vec<u8>,
    start: u64,
}

enum Open<'a> {
    Whole(Vec<u8>),
    Stream(Box<dyn Read + 'a>, u64),
}

impl<'a, S: ChunkStore + ?Sized> PlanInput<'a, S> {
    pub(crate) fn new(plan: MergePlan, store: &'a S) -> Self {
        PlanInput {
            plan,
            store,
            open: Vec::new(),
            window: Vec::new(),
            start: 0,
        }
    }

    pub(crate) fn plan(&self) -> &MergePlan {
        &self.plan
    }

    /// Makes the window begin at `position` and hold `want` bytes, and more if they are at hand.
    fn refill(&mut self, position: u64, want: usize) -> Result<()> {
        self.window.clear();
        self.start = position;
        let mut at = self
            .plan
            .segments()
            .partition_point(|segment| segment.offset <= position)
            .saturating_sub(1);
        while self.window.len() < want
            && let Some(segment) = self.plan.segments().get(at).cloned()
        {
            let skip = position + self.window.len() as u64 - segment.offset;
            match &segment.source {
                SegmentSource::Literal(range) => {
                    let literal = self.plan.literal(range.clone());
                    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                    self.window
                        .extend_from_slice(literal.get(skip..).unwrap_or_default());
                }
                SegmentSource::Chunk { chunk, range } => {
                    let most = WINDOW.max(want) - self.window.len();
                    let start = range.start + skip;
                    let len = (range.end - start).min(most as u64);
                    self.read(*chunk, start, len)
                        .map_err(|error| error.in_chunk(*chunk as u64))?;
                }
            }
            at += 1;
        }
        Ok(())
    }

    /// Adds bytes of a chunk to the window.
    fn read(&mut self, chunk: usize, start: u64, len: u64) -> Result<()> {
        let known = self.open.iter().position(|(open, _)| *open == chunk);
        let goes_on = known
            .map(|at| self.open.remove(at).1)
            .filter(|open| !matches!(open, Open::Stream(_, position) if *position > start));
        let mut open = match goes_on {
            Some(open) => open,
            None => self.open(chunk)?,
        };
        let before = self.window.len() as u64;
        match &mut open {
            Open::Whole(bytes) => {
                let range = usize::try_from(start)
                    .ok()
                    .zip(usize::try_from(start + len).ok());
                let bytes = range.and_then(|(start, end)| bytes.get(start..end));
                self.window.extend_from_slice(bytes.unwrap_or_default());
            }
            Open::Stream(stream, position) => {
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

    fn open(&self, chunk: usize) -> Result<Open<'a>> {
        let mut stream = self.store.stream(chunk)?;
        if self.store.size(chunk) > WHOLE_UP_TO {
            return Ok(Open::Stream(stream, 0));
        }
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        Ok(Open::Whole(bytes))
    }
}

impl<S: ChunkStore + ?Sized> Input for PlanInput<'_, S> {
    fn size(&self) -> u64 {
        self.plan.total_len()
    }

    fn fetch(&mut self, position: u64, want: usize) -> Result<&[u8]> {
        let left = self.plan.total_len().saturating_sub(position);
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(want);
        let have = position
            .checked_sub(self.start)
            .and_then(|skip| usize::try_from(skip).ok())
            .filter(|&skip| skip <= self.window.len() && self.window.len() - skip >= want);
        let skip = match have {
            Some(skip) => skip,
            None => {
                self.refill(position, want)?;
                0
            }
        };
        Ok(&self.window[skip..])
    }
}
