//! Writing chunks at their offsets in a file, on several threads.
//!
//! Records are in the order of the chunks, so each record begins at the end of the previous one.
//! The end of an uncompressed chunk is known immediately, but the end of any other chunk only after
//! compressing it. So there is a frontier: the first chunk whose end isn't known. Chunks before the
//! frontier are written at their offsets in any order. Compressed chunks after the frontier are
//! kept until their offsets are known, small ones in memory and others in a temporary file;
//! uncompressed chunks are read later. The number of kept chunks is bounded. The bytes of the file
//! don't depend on the order of the work.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use record_file::{Compression, CompressionKind, EncodedRecord, RecordWriter, plain_record_end};
use tempfile::SpooledTempFile;

use super::chunk_reader::{ChunkReader, Span};
use super::probe::decide;
use super::sink::{Chunks, Record, Taken};
use crate::container::Hash;
use crate::io::FileAt;
use crate::io::threads;
use crate::split::plan::split_plan::PlannedChunk;
use crate::{Error, ErrorKind, Result};

/// Maximum total size of compressed chunks to keep in memory, over all threads, in bytes: 32 MiB.
pub(in crate::split) const SPILL_ABOVE: usize = 32 << 20;

/// Number of chunks per thread that may be prepared ahead of the frontier.
pub(in crate::split) const AHEAD: usize = 2;

/// Maximum size of a chunk to write together with its neighbors, in bytes.
const SMALL: u64 = 64 << 10;

/// Maximum total size of the chunks to write together, in bytes.
const BATCH: u64 = 1 << 20;

/// Writes chunks to a file, starting at the offset `begin`. Temporary files are in `folder`. Also
/// returns the offset at which the next record can be written.
pub(in crate::split) fn fill(
    chunks: Chunks<'_>,
    file: &File,
    folder: &Path,
    begin: u64,
) -> Result<(Taken, u64)> {
    let count = chunks.indices.len();
    let threads = chunks.threads.get().min(count.max(1));
    let filling = ParallelWriter {
        ahead: AHEAD * threads,
        spill_above: SPILL_ABOVE / (AHEAD * threads),
        chunks,
        file,
        folder,
        state: Mutex::new(State {
            next: 0,
            frontier: 0,
            begin,
            waiting: BTreeMap::new(),
            ready: VecDeque::new(),
            records: vec![None; count],
            spans: Vec::new(),
            failed: None,
        }),
        changed: Condvar::new(),
    };
    threads::run(threads, || filling.work());
    let state = filling.state.into_inner();
    let state = state.unwrap_or_else(PoisonError::into_inner);
    if let Some((_, error)) = state.failed {
        return Err(error);
    }
    let taken = Taken {
        records: state.records.into_iter().flatten().collect(),
        spans: state.spans,
    };
    Ok((taken, state.begin))
}

struct ParallelWriter<'a> {
    chunks: Chunks<'a>,
    file: &'a File,
    folder: &'a Path,
    ahead: usize,
    spill_above: usize,
    state: Mutex<State>,
    changed: Condvar,
}

/// The state that threads share. Chunks are identified by their index among the chunks to write.
struct State {
    /// Index of the next chunk to prepare.
    next: usize,
    /// Index of the first chunk whose end in the file isn't known.
    frontier: usize,
    /// Offset in the file of the chunk at the frontier.
    begin: u64,
    /// Chunks after the frontier whose stored length is known, by index.
    waiting: BTreeMap<usize, ChunkForm>,
    /// Chunks before the frontier that are still to be written, each with its index, its offset in
    /// the file, and its stored form.
    ready: VecDeque<(usize, u64, ChunkForm)>,
    records: Vec<Option<Record>>,
    spans: Vec<Span>,
    /// The error of the first failing chunk in file order, with the chunk's index.
    failed: Option<(usize, Error)>,
}

/// A chunk whose stored length is known.
enum ChunkForm {
    /// An uncompressed chunk, which is read when it is written.
    Plain,
    Encoded(Box<Encoded>),
}

struct Encoded {
    record: EncodedRecord,
    data: SpooledTempFile,
    crc32c: u32,
    leaf: Option<Hash>,
    compression: CompressionKind,
}

enum Task {
    /// Writes neighboring chunks, from the offset of the first.
    Write(u64, Vec<(usize, ChunkForm)>),
    Look(usize),
}

/// A guard that makes the other threads stop if this thread panics.
struct PanicGuard<'a>(&'a ParallelWriter<'a>);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = Error::new(ErrorKind::Io, "a thread panicked");
            self.0.fail(0, error);
        }
    }
}

impl ParallelWriter<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chunk(&self, at: usize) -> &PlannedChunk {
        &self.chunks.plan.chunks[self.chunks.indices[at]]
    }

    fn work(&self) {
        let _alarm = PanicGuard(self);
        while let Some(task) = self.task() {
            let (first, result) = match task {
                Task::Write(begin, chunks) => (chunks[0].0, self.write(begin, chunks)),
                Task::Look(at) => (at, self.look(at)),
            };
            if let Err(error) = result {
                self.fail(first, error);
            }
        }
    }

    fn fail(&self, at: usize, error: Error) {
        let mut state = self.lock();
        if state.failed.as_ref().is_none_or(|(first, _)| at < *first) {
            state.failed = Some((at, error));
        }
        self.changed.notify_all();
    }

    /// Returns the next task; `None` if there is no more work, or a chunk has failed.
    fn task(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            if let Some((first, begin, form)) = state.ready.pop_front() {
                return Some(self.batch(&mut state, first, begin, form));
            }
            let at = state.next;
            if at < self.chunks.indices.len() && at - state.frontier < self.ahead {
                state.next += 1;
                return Some(Task::Look(at));
            }
            if state.frontier == self.chunks.indices.len() {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns a task that writes a ready chunk, and the ready neighbors that follow it if they are
    /// small.
    fn batch(&self, state: &mut State, first: usize, begin: u64, form: ChunkForm) -> Task {
        let mut bytes = self.chunk(first).size;
        let mut chunks = vec![(first, form)];
        while let Some((at, ..)) = state.ready.front()
            && *at == first + chunks.len()
            && bytes + self.chunk(*at).size <= BATCH
            && let Some((at, _, form)) = state.ready.pop_front()
        {
            bytes += self.chunk(at).size;
            chunks.push((at, form));
        }
        Task::Write(begin, chunks)
    }

    /// Determines the stored length of a chunk, compressing it if necessary.
    fn look(&self, at: usize) -> Result<()> {
        let chunk = self.chunk(at);
        let compression = decide(self.chunks.compression, chunk, self.chunks.source)?;
        if compression == Compression::None {
            return self.known(at, ChunkForm::Plain);
        }
        let begin = {
            let state = self.lock();
            (state.frontier == at).then_some(state.begin)
        };
        let index = self.chunks.indices[at];
        let _span = tracing::trace_span!("compress", chunk = index, bytes = chunk.size).entered();
        let mut reader = self.reader(at);
        let Some(begin) = begin else {
            let mut data = tempfile::spooled_tempfile_in(self.spill_above, self.folder);
            let record = EncodedRecord::encode(&mut reader, chunk.size, compression, &mut data)?;
            let (crc32c, leaf) = (reader.crc32c(), reader.leaf());
            self.lock().spans.append(&mut reader.spans);
            return self.known(
                at,
                ChunkForm::Encoded(Box::new(Encoded {
                    record,
                    data,
                    crc32c,
                    leaf,
                    compression: compression.kind(),
                })),
            );
        };
        let mut writer = RecordWriter::starting_at(FileAt::new(self.file, begin), begin)?;
        let position = writer.write_record_from(&mut reader, chunk.size, compression)?;
        writer.flush()?;
        let mut state = self.lock();
        state.records[at] = Some(Record {
            file: 0,
            position,
            crc32c: reader.crc32c(),
            leaf: reader.leaf(),
            stored_size: writer.last_data_size(),
            compression: compression.kind(),
        });
        state.spans.append(&mut reader.spans);
        state.begin = writer.position().numeric();
        state.frontier += 1;
        self.advance(&mut state)
    }

    /// Records the stored length of a chunk.
    fn known(&self, at: usize, form: ChunkForm) -> Result<()> {
        let mut state = self.lock();
        state.waiting.insert(at, form);
        self.advance(&mut state)
    }

    /// Moves the frontier to the first chunk whose stored length isn't known.
    fn advance(&self, state: &mut State) -> Result<()> {
        while let Some(form) = state.waiting.remove(&state.frontier) {
            let (at, begin) = (state.frontier, state.begin);
            state.begin = match &form {
                ChunkForm::Plain => plain_record_end(begin, self.chunk(at).size)?,
                ChunkForm::Encoded(encoded) => encoded.record.end(begin)?,
            };
            state.frontier += 1;
            state.ready.push_back((at, begin, form));
        }
        self.changed.notify_all();
        Ok(())
    }

    fn reader(&self, at: usize) -> ChunkReader<'_> {
        let chunk = self.chunk(at);
        let span =
            tracing::trace_span!("read", chunk = self.chunks.indices[at], bytes = chunk.size);
        ChunkReader::new(chunk, self.chunks.source)
            .metered(self.chunks.meter)
            .timed(span)
            .hashed(self.chunks.hashing)
    }

    /// Writes neighboring chunks, starting at the offset of the first.
    fn write(&self, begin: u64, chunks: Vec<(usize, ChunkForm)>) -> Result<()> {
        let chunk = self.chunks.indices[chunks[0].0];
        let bytes: u64 = chunks.iter().map(|(at, _)| self.chunk(*at).size).sum();
        let _span = tracing::trace_span!("write", chunk, bytes).entered();
        let mut writer = RecordWriter::starting_at(FileAt::new(self.file, begin), begin)?;
        let mut records = Vec::with_capacity(chunks.len());
        let mut spans = Vec::new();
        for (at, form) in chunks {
            let (position, (crc32c, leaf), compression) = match form {
                ChunkForm::Encoded(mut encoded) => {
                    encoded.data.seek(SeekFrom::Start(0))?;
                    let data: &mut dyn Read = &mut encoded.data;
                    let position = writer.write_encoded_record(&encoded.record, data)?;
                    let hashes = (encoded.crc32c, encoded.leaf);
                    (position, hashes, encoded.compression)
                }
                ChunkForm::Plain => {
                    let size = self.chunk(at).size;
                    let mut reader = self.reader(at);
                    let position = if size <= SMALL {
                        let mut record = Vec::new();
                        reader.read_to_end(&mut record)?;
                        writer.write_record_alone(&record, Compression::None)?
                    } else {
                        writer.write_record_from(&mut reader, size, Compression::None)?
                    };
                    let hashes = (reader.crc32c(), reader.leaf());
                    spans.append(&mut reader.spans);
                    (position, hashes, CompressionKind::None)
                }
            };
            let record = Record {
                file: 0,
                position,
                crc32c,
                leaf,
                stored_size: writer.last_data_size(),
                compression,
            };
            records.push((at, record));
        }
        writer.finish()?;
        let mut state = self.lock();
        for (at, record) in records {
            state.records[at] = Some(record);
        }
        state.spans.append(&mut spans);
        Ok(())
    }
}
