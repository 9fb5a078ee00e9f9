//! A map whose keys are pairs of numbers. The map is fast if the same pairs recur at short
//! intervals.
use std::collections::HashMap;

/// 2^64 divided by the golden ratio, a factor that spreads keys that differ in few bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Key of an empty slot. No pair has this key, since neither number of a pair is ever `u32::MAX`.
const EMPTY: u64 = u64::MAX;
const LEAST_SLOTS_LOG: u32 = 6;
const MOST_SLOTS_LOG: u32 = 12;
/// Maximum capacity of a map that is cleared for reuse. A larger map is replaced, since clearing it
/// would take too long.
const LARGE: usize = 1 << 13;

/// A map from pairs to numbers, with a collision-resistant hash and a direct-mapped cache.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    recent: Vec<(u64, u32)>,
    /// Number of bits by which the product of a folded key and [`SPREAD`] is shifted right to get
    /// the index of the key's slot in `recent`.
    shift: u32,
    all: HashMap<u64, u32>,
}

impl Pairs {
    /// Removes all pairs, and chooses a cache size for about `questions` lookups.
    pub(crate) fn clear(&mut self, questions: usize) {
        // Clearing more slots would take longer than the slots save.
        let log = (questions / 4).max(1).ilog2();
        let log = log.clamp(LEAST_SLOTS_LOG, MOST_SLOTS_LOG);
        self.recent.clear();
        self.recent.resize(1 << log, (EMPTY, 0));
        self.shift = u64::BITS - log;
        if self.all.capacity() > LARGE {
            self.all = HashMap::new();
        }
        self.all.clear();
    }

    /// Returns the number of a pair. A new pair gets the number `fresh`.
    #[inline]
    pub(crate) fn number(&mut self, high: u32, low: u32, fresh: u32) -> u32 {
        let key = u64::from(high) << 32 | u64::from(low);
        // The product is folded, since its upper bits depend on all lower bits, but not vice versa.
        let slot = (key ^ key >> 29).wrapping_mul(SPREAD) >> (self.shift & 63);
        let all = &mut self.all;
        let Some(slot) = usize::try_from(slot)
            .ok()
            .and_then(|slot| self.recent.get_mut(slot))
        else {
            return *all.entry(key).or_insert(fresh);
        };
        if slot.0 != key {
            *slot = (key, *all.entry(key).or_insert(fresh));
        }
        slot.1
    }
}
