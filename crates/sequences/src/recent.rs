//! A cache for the recently used parts of a source.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_splitter_core::Result;

/// A trait for cached parts, some of which take almost no memory.
pub(crate) trait Costly {
    /// Returns true if the part takes an amount of memory in proportion to its size.
    fn is_costly(&self) -> bool;
}

/// A cached part; `None` until it has been made. A thread holds the lock while it makes the part.
type Slot<T> = Arc<Mutex<Option<Arc<T>>>>;

/// A cache of the parts of a source. A part is looked up by its index.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    most: u64,
    /// Index, size and slot of each part that takes memory, in the order of last use, the most
    /// recent last.
    recent: Mutex<VecDeque<(usize, u64, Slot<T>)>>,
    /// Parts that take almost no memory, by index. They are never removed from the cache.
    settled: Mutex<BTreeMap<usize, Arc<T>>>,
}

impl<T: Costly> Recent<T> {
    /// Creates an empty cache, which keeps parts with a total size of at most `most` bytes.
    pub(crate) fn new(most: u64) -> Recent<T> {
        Recent {
            most,
            recent: Mutex::default(),
            settled: Mutex::default(),
        }
    }

    /// Returns the part with this index, which takes `size` bytes. If the part isn't cached, calls
    /// `make`. Other threads that need the same part wait for it, but different parts can be made
    /// at the same time.
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

    /// Returns true if the cache contains the part with this index, and the part takes almost no
    /// memory.
    pub(crate) fn is_settled(&self, index: usize) -> bool {
        lock(&self.settled).contains_key(&index)
    }

    /// Returns the total size of the cached parts, in bytes.
    #[cfg(test)]
    pub(crate) fn size(&self) -> u64 {
        lock(&self.recent).iter().map(|(_, size, _)| size).sum()
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

/// Locks a mutex, even if a thread has panicked while holding it, since the contents stay valid.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
