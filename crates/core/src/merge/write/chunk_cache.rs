//! A cache of the chunks that other chunks are spliced into. They are read once, before planning
//! parses them, and kept for the merge.

use std::io::Read;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use super::buffer::Buffer;
use crate::Result;
use crate::container::{Trailer, with_largest_chunks};
use crate::io::threads;
use crate::merge::plan::build::plan;
use crate::merge::plan::merge_plan::MergePlan;
use crate::merge::read::chunk_store::{ChunkStore, Places};
use crate::merge::read_options::ReadOptions;

/// Maximum total size of the chunks to keep: 32 MiB. Further chunks are read twice: for the plan
/// and for the merge.
const MOST_KEPT: u64 = 32 << 20;

/// Minimum number of chunks whose records are checked while the merge is planned: 1,024. Checking
/// fewer takes less time than starting a thread.
const LEAST_BESIDE: usize = 1024;

/// Plans the merge of the chunks in `store`, and calls `execute` with the plan.
///
/// Planning parses the chunks that other chunks are spliced into, one after the other, while other
/// threads read ahead and check the records of all chunks. Up to 32 MiB of the parsed chunks are
/// kept until the merge is complete; all other chunks are read as streams.
///
/// # Errors
///
/// Any error from planning or from `execute`.
pub fn with_plan<S: ChunkStore + ?Sized, T>(
    trailer: &Trailer,
    store: &S,
    options: &ReadOptions,
    execute: impl FnOnce(&ChunkCache<'_, S>, &MergePlan) -> Result<T>,
) -> Result<T> {
    let threads = options.thread_count();
    let beside = NonZeroUsize::new(threads.get() - 1);
    let beside = beside.filter(|_| store.len() >= LEAST_BESIDE);
    if beside.is_none() {
        store.prepare(threads)?;
    }
    let done = with_walked(trailer, store, |walked| {
        let plan = match beside {
            Some(beside) => walked.plan_while_preparing(trailer, options, beside)?,
            None => walked.plan(trailer, options)?,
        };
        execute(walked, &plan)
    });
    done.map_err(|error| with_largest_chunks(error, trailer, options.descriptor.as_ref()))
}

/// Calls `work` with a cache of the chunks in `store`, like [`with_plan`], but leaves the planning
/// to `work`.
pub(in crate::merge) fn with_walked<S: ChunkStore + ?Sized, T>(
    trailer: &Trailer,
    store: &S,
    work: impl FnOnce(&ChunkCache<'_, S>) -> Result<T>,
) -> Result<T> {
    let chunks = chosen(trailer, store);
    store.prefetch(&chunks);
    let size = chunks.iter().map(|&chunk| store.size(chunk)).sum();
    let mut memory = Buffer::of(size)?;
    work(&ChunkCache::new(store, &chunks, &mut memory))
}

/// Returns the chunks to keep, in the order in which planning parses them.
fn chosen<S: ChunkStore + ?Sized>(trailer: &Trailer, store: &S) -> Vec<usize> {
    let mut left = MOST_KEPT;
    let mut seen = vec![false; store.len()];
    let mut chosen = Vec::new();
    for chunk in trailer.spliced_into() {
        let size = store.size(chunk);
        let is_kept = size <= left && store.as_slice(chunk).is_none();
        if is_kept && !std::mem::replace(&mut seen[chunk], true) {
            left -= size;
            chosen.push(chunk);
        }
    }
    chosen
}

/// A wrapper around a store. Chunks that other chunks are spliced into are read only once and kept
/// in memory, up to 32 MiB in total.
pub struct ChunkCache<'a, S: ?Sized> {
    store: &'a S,
    /// Index of each chunk in `kept`; `None` for a chunk that isn't cached.
    numbers: Vec<Option<u32>>,
    kept: Vec<CachedChunk<'a>>,
    /// Index in `kept` of the next chunk that no thread has begun to read.
    next: AtomicUsize,
}

struct CachedChunk<'a> {
    chunk: usize,
    /// Buffer for the chunk's bytes.
    place: Mutex<&'a mut [u8]>,
    /// The chunk's bytes, once they have been read; `None` if the chunk can't be read. The store
    /// reports the error when the chunk is read again.
    bytes: OnceLock<Option<&'a [u8]>>,
}

impl<S: ?Sized> std::fmt::Debug for ChunkCache<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkCache").finish_non_exhaustive()
    }
}

impl<'a, S: ChunkStore + ?Sized> ChunkCache<'a, S> {
    fn new(store: &'a S, chunks: &[usize], memory: &'a mut Buffer) -> Self {
        let mut numbers = vec![None; store.len()];
        let mut kept = Vec::with_capacity(chunks.len());
        let mut rest = memory.as_mut_slice();
        for &chunk in chunks {
            let size = usize::try_from(store.size(chunk)).unwrap_or(usize::MAX);
            let Some((place, behind)) = std::mem::take(&mut rest).split_at_mut_checked(size) else {
                break;
            };
            rest = behind;
            numbers[chunk] = u32::try_from(kept.len()).ok();
            kept.push(CachedChunk {
                chunk,
                place: Mutex::new(place),
                bytes: OnceLock::new(),
            });
        }
        ChunkCache {
            store,
            numbers,
            kept,
            next: AtomicUsize::new(0),
        }
    }

    /// Plans a merge, while other threads read ahead.
    pub(in crate::merge) fn plan(
        &self,
        trailer: &Trailer,
        options: &ReadOptions,
    ) -> Result<MergePlan> {
        let others = (options.thread_count().get() - 1).min(self.kept.len() / 2);
        thread::scope(|scope| {
            threads::spawn_up_to(scope, others, || while self.read_next() {});
            let plan = plan(trailer, self, options);
            // Chunks that planning didn't need are no longer read ahead.
            self.next.store(self.kept.len(), Ordering::Relaxed);
            plan
        })
    }

    /// Plans a merge, while up to `beside` other threads prepare the store, and read ahead before.
    fn plan_while_preparing(
        &self,
        trailer: &Trailer,
        options: &ReadOptions,
        beside: NonZeroUsize,
    ) -> Result<MergePlan> {
        let prepare = || {
            while self.read_next() {}
            self.store.prepare(beside)
        };
        thread::scope(|scope| {
            let preparing = thread::Builder::new().spawn_scoped(scope, prepare);
            let plan = self.plan(trailer, options);
            let prepared = match preparing.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(prepared)) => prepared,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                // The system allows no further thread.
                Err(_) => self.store.prepare(beside),
            };
            // A record that doesn't match the trailer explains why a plan failed.
            prepared.and(plan)
        })
    }

    /// Reads the next chunk that no thread has begun to read. Returns false if there is none.
    fn read_next(&self) -> bool {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let kept = self.kept.get(next);
        kept.map(|kept| self.read(kept)).is_some()
    }

    fn bytes(&self, chunk: usize) -> Option<&[u8]> {
        let number = (*self.numbers.get(chunk)?)?;
        let kept = self.kept.get(number as usize)?;
        // While another thread reads this chunk, reads the following ones.
        while kept.bytes.get().is_none() && self.read_next() {}
        self.read(kept)
    }

    /// Returns a chunk's bytes; `None` if they can't be read. Waits if another thread is reading
    /// them.
    fn read(&self, kept: &CachedChunk<'a>) -> Option<&'a [u8]> {
        let read = || {
            let mut place = kept.place.lock().unwrap_or_else(PoisonError::into_inner);
            let place = std::mem::take(&mut *place);
            let (chunk, bytes) = (kept.chunk, place.len());
            let _span = tracing::trace_span!("read", chunk, bytes).entered();
            self.store.read_into(kept.chunk, place).ok()?;
            Some(&*place)
        };
        *kept.bytes.get_or_init(read)
    }
}

impl<S: ChunkStore + ?Sized> ChunkStore for ChunkCache<'_, S> {
    fn len(&self) -> usize {
        self.store.len()
    }

    fn size(&self, chunk: usize) -> u64 {
        self.store.size(chunk)
    }

    fn stream(&self, chunk: usize) -> Result<Box<dyn Read + '_>> {
        match self.bytes(chunk) {
            Some(bytes) => Ok(Box::new(bytes)),
            None => self.store.stream(chunk),
        }
    }

    fn read_into(&self, chunk: usize, buffer: &mut [u8]) -> Result<()> {
        match self.bytes(chunk) {
            Some(bytes) if bytes.len() == buffer.len() => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            _ => self.store.read_into(chunk, buffer),
        }
    }

    fn read_each<'b>(&self, places: &mut dyn Places<'b>) -> Result<()> {
        self.store.read_each(places)
    }

    fn prepare(&self, threads: NonZeroUsize) -> Result<()> {
        self.store.prepare(threads)
    }

    fn prefetch(&self, chunks: &[usize]) {
        let is_kept = |chunk: usize| self.numbers.get(chunk).is_some_and(Option::is_some);
        let chunks = chunks.iter().copied().filter(|&chunk| !is_kept(chunk));
        self.store.prefetch(&chunks.collect::<Vec<_>>());
    }

    fn checked_crc32c(&self, chunk: usize) -> Option<u32> {
        self.store.checked_crc32c(chunk)
    }

    fn stored_len(&self) -> u64 {
        self.store.stored_len()
    }

    fn as_slice(&self, chunk: usize) -> Option<&[u8]> {
        self.bytes(chunk).or_else(|| self.store.as_slice(chunk))
    }
}
