//! A map from pairs of numbers that are nearly always those asked for shortly before.
use std::collections::HashMap;

const SLOTS_LOG: u32 = 9;
const SLOTS: usize = 1 << SLOTS_LOG;
/// 2^64 over the golden ratio: spreads what differs in few bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Not a pair: neither number is ever this large.
const EMPTY: u64 = u64::MAX;

/// A direct-mapped cache in front of a map whose hashing no input can outwit.
#[derive(Debug)]
pub(crate) struct Pairs {
    recent: Box<[(u64, u32); SLOTS]>,
    all: HashMap<u64, u32>,
}

impl Default for Pairs {
    fn default() -> Self {
        Pairs {
            recent: Box::new([(EMPTY, 0); SLOTS]),
            all: HashMap::new(),
        }
    }
}

impl Pairs {
    pub(crate) fn clear(&mut self) {
        self.recent.fill((EMPTY, 0));
        self.all.clear();
    }

    /// The number of a pair: `fresh`, the next one, if it is new.
    #[inline]
    pub(crate) fn number(&mut self, high: u32, low: u32, fresh: u32) -> u32 {
        let key = u64::from(high) << 32 | u64::from(low);
        let slot = &mut self.recent[slot(key)];
        if slot.0 != key {
            *slot = (key, *self.all.entry(key).or_insert(fresh));
        }
        slot.1
    }
}

#[inline]
fn slot(key: u64) -> usize {
    // The upper half folded in, as a product's upper bits depend on the lower half only weakly otherwise.
    let folded = key ^ key >> 29;
    usize::try_from(folded.wrapping_mul(SPREAD) >> (u64::BITS - SLOTS_LOG)).unwrap_or(0)
}
