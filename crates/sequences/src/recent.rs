//! A cache for recently used parts of a source.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_splitter_core::Result;

/// A trait for parts, which may take memory.
pub(crate) trait Costly {
    /// Returns true if the part takes memory in proportion to its size.
    fn is_costly(&self) -> bool;
}

/// A part, once it has been made. The thread that makes the part holds the lock.
type Slot<T> = Arc<Mutex<Option<Arc<T>>>>;

/// Recently used parts, by their index.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    most: u64,
    /// Parts in the order of their last use, the most recent one last.
    recent: Mutex<VecDeque<(usize, u64, Slot<T>)>>,
    /// Parts that take almost no memory.
    settled: Mutex<BTreeMap<usize, Arc<T>>>,
}

impl<T: Costly> Recent<T> {
    /// Creates an empty cache for parts of at most `most` bytes in total.
    pub(crate) fn new(most: u64) -> Recent<T> {
        Recent {
            most,
            recent: Mutex::default(),
            settled: Mutex::default(),
        }
    }

    /// Returns the part with this index, whose size is `size` bytes. Calls `make` unless the part
    /// is cached. Other threads that need the same part wait, while threads that need other parts
    /// can make them at the same time.
    pub(crate) fn get_or_make(
        &self,
        index: usize,
        size: u64,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        if let Some(part) = lock(&self.settled).get(&index) {
            return Ok(Arc::clone(part));
        }
        let slot = self.slot(index, size);
        let mut slot = lock(&slot);
        if let Some(part) = &*slot {
            return Ok(Arc::clone(part));
        }
        let part = Arc::new(make()?);
        if !part.is_costly() {
            lock(&self.settled).insert(index, Arc::clone(&part));
            lock(&self.recent).retain(|(at, ..)| *at != index);
        }
        *slot = Some(Arc::clone(&part));
        Ok(part)
    }

    /// Returns true if a part was made, and takes almost no memory.
    pub(crate) fn is_settled(&self, index: usize) -> bool {
        lock(&self.settled).contains_key(&index)
    }

    fn slot(&self, index: usize, size: u64) -> Slot<T> {
        let mut recent = lock(&self.recent);
        if let Some(at) = recent.iter().rposition(|(known, ..)| *known == index)
            && let Some(found) = recent.remove(at)
        {
            let slot = Arc::clone(&found.2);
            recent.push_back(found);
            return slot;
        }
        let mut total: u64 = recent.iter().map(|(_, size, _)| size).sum();
        while total.saturating_add(size) > self.most
            && let Some((_, dropped, _)) = recent.pop_front()
        {
            total -= dropped;
        }
        let slot = Slot::default();
        recent.push_back((index, size, Arc::clone(&slot)));
        slot
    }
}

/// Locks a mutex. Its content stays valid even if a thread panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
