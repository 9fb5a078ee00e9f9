//! Chunks that other threads verify and decode before the reader needs them.
use std::collections::VecDeque;

use super::{Loaded, RecordReader};
use crate::chunk::{Chunk, ChunkType};
use crate::codec::Decoders;
use crate::decode_chunk::decode_chunk;
use crate::decoded::DecodedChunk;
use crate::error::Result;
use crate::fault::{Fault, FaultPlace};
use crate::hash::hash;
use crate::input::RecordInput;
use crate::options::ReaderOptions;
use crate::payload::Payload;
use crate::stored::Stored;
use crate::threads::Threads;
use crate::transpose::FieldProjection;

/// A chunk and its stored data. The data is `None` if it contains no records and is already
/// verified.
type Job = (Chunk, Option<Stored>);
type Decoded = Result<DecodedChunk, Fault>;

/// The chunks that were read ahead, starting at the reader's position, at most one per thread.
#[derive(Debug)]
pub(super) struct Ahead {
    threads: Threads<Decoders, Job, Decoded>,
    chunks: VecDeque<Chunk>,
    /// Start of the chunk after `chunks`.
    next: u64,
    /// True if the chunk at `next` is left to the reader, because it is too large to hold together
    /// with other chunks.
    is_left: bool,
    /// The fault found at `next`, if any, and the chunk whose header was read before the fault was
    /// found.
    fault: Option<(Fault, Option<Chunk>)>,
}

/// The result of reading ahead at the reader's position.
pub(super) enum AtHand {
    Chunk(Chunk),
    Fault,
}

impl Ahead {
    pub(super) fn new(options: ReaderOptions, projection: FieldProjection) -> Self {
        let decode = move |decoders: &mut Decoders, (chunk, data): Job| {
            let Some(data) = data else {
                return Ok(DecodedChunk::default());
            };
            Payload::check_hash(&chunk, hash(data.as_slice()))?;
            decode_chunk(&chunk, data, decoders, &options, &projection)
                .map_err(|error| Fault::in_data(&chunk, error))
        };
        Ahead {
            threads: Threads::new(options.threads, decode),
            chunks: VecDeque::new(),
            next: 0,
            is_left: false,
            fault: None,
        }
    }

    /// Makes the chunk at `begin` the first chunk. If another chunk was first, discards everything
    /// that was read ahead.
    fn begin_at(&mut self, begin: u64) {
        let first = self.chunks.front().map_or(self.next, |chunk| chunk.begin);
        if first != begin {
            self.threads.clear();
            self.chunks.clear();
            self.fault = None;
            self.is_left = false;
            self.next = begin;
        }
    }
}

impl<I: RecordInput> RecordReader<I> {
    /// Returns the chunk at the reader's position if it was read ahead, or [`AtHand::Fault`] if
    /// reading ahead failed there and the input is a plain stream, which can't be read again.
    /// Otherwise returns `None`.
    pub(super) fn at_hand(&self) -> Option<AtHand> {
        let ahead = self.ahead.as_ref()?;
        match ahead.chunks.front() {
            Some(chunk) => (chunk.begin == self.begin).then_some(AtHand::Chunk(*chunk)),
            None if ahead.next != self.begin || self.input.goes_back() => None,
            None => ahead.fault.as_ref().map(|_| AtHand::Fault),
        }
    }

    /// Discards the chunk at the reader's position if it was read ahead.
    pub(super) fn drop_at_hand(&mut self) {
        if let Some(AtHand::Chunk(_)) = self.at_hand()
            && let Some(ahead) = &mut self.ahead
        {
            ahead.chunks.pop_front();
            ahead.threads.next();
        }
    }

    /// Loads a chunk like [`load`](Self::load), and also reads later chunks and hands small chunks
    /// to threads. The reader itself loads a large chunk once it reaches that chunk.
    pub(super) fn load_ahead(&mut self) -> Result<bool, Fault> {
        let mut ahead = self
            .ahead
            .take()
            .unwrap_or_else(|| Ahead::new(self.options, self.projection.clone()));
        let loaded = self.load_from(&mut ahead);
        self.ahead = Some(ahead);
        loaded
    }

    fn load_from(&mut self, ahead: &mut Ahead) -> Result<bool, Fault> {
        ahead.begin_at(self.begin);
        while ahead.fault.is_none() && !ahead.is_left && !ahead.threads.is_full() {
            match self.hand_over(ahead) {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => ahead.fault = Some((fault, self.head)),
            }
        }
        let Some(chunk) = ahead.chunks.pop_front() else {
            if let Some((fault, chunk)) = ahead.fault.take() {
                self.head = chunk;
                return Err(fault);
            }
            if std::mem::take(&mut ahead.is_left) {
                return self.load();
            }
            self.index = 0;
            return Ok(false);
        };
        let stopped = |error| Fault {
            error,
            place: FaultPlace::Io,
        };
        let Some(decoded) = ahead.threads.next() else {
            return Ok(false);
        };
        self.head = Some(chunk);
        let records = decoded.map_err(stopped)??;
        self.index = self.index.min(records.len());
        self.loaded = Some(Loaded {
            end: chunk.end,
            records,
        });
        Ok(true)
    }

    /// Reads one more chunk and hands it to a thread. Returns false if the file has ended or the
    /// next chunk is large.
    fn hand_over(&mut self, ahead: &mut Ahead) -> Result<bool, Fault> {
        let Some(chunk) = self.header_at(ahead.next)? else {
            return Ok(false);
        };
        let header = &chunk.header;
        if header.data_size.max(header.decoded_data_size) > self.options.stream_from {
            ahead.is_left = true;
            return Ok(false);
        }
        let data = match chunk.header.kind {
            ChunkType::Simple | ChunkType::Transposed => {
                Some(self.read_data(Payload::unhashed(chunk))?)
            }
            _ => {
                self.check_data(chunk)?;
                None
            }
        };
        ahead.threads.submit((chunk, data)).map_err(|error| Fault {
            error,
            place: FaultPlace::Io,
        })?;
        ahead.next = chunk.end;
        ahead.chunks.push_back(chunk);
        Ok(true)
    }
}
