//! Finding hashes that several keys share, in memory that doesn't grow with the number of keys.

use crate::Result;

/// Number of hashes up to which a list grows gradually. A list that exceeds this number gets its
/// maximum size at once.
const GROWN: usize = 1 << 16;

/// Hashes that several keys have in common.
pub(super) enum SharedHashes {
    /// No hash is shared.
    None,
    /// The list of shared hashes, which is sorted and not empty.
    These(Vec<u32>),
    /// Too many hashes are shared to list them: any hash may be shared.
    Any,
}

impl SharedHashes {
    /// Finds shared hashes in passes. Each call of `pass` must call its argument with the hash of
    /// every key. If there are at most `most` hashes, one pass suffices. Otherwise each pass
    /// considers a range of hash values that contains about `most` hashes.
    pub(super) fn find(
        most: usize,
        mut pass: impl FnMut(&mut dyn FnMut(u32)) -> Result<()>,
    ) -> Result<Self> {
        let mut range = HashRange {
            most,
            first: 0,
            last: u32::MAX,
            held: Vec::new(),
            shared: Vec::new(),
        };
        loop {
            let mut count = 0_u64;
            pass(&mut |hash| {
                count += 1;
                range.see(hash);
            })?;
            range.settle();
            if range.is_full() {
                return Ok(SharedHashes::Any);
            }
            let Some(first) = range.last.checked_add(1) else {
                break;
            };
            // Planning each pass for an eighth fewer hashes than fit makes it unlikely that the
            // range has to shrink.
            let share = (most - most / 8) as u64;
            let width = (u64::from(u32::MAX) * share)
                .checked_div(count)
                .map_or(u32::MAX, |width| width.try_into().unwrap_or(u32::MAX));
            range.first = first;
            range.last = first.saturating_add(width);
        }
        Ok(if range.shared.is_empty() {
            SharedHashes::None
        } else {
            SharedHashes::These(range.shared)
        })
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(self, SharedHashes::None)
    }

    pub(super) fn contains(&self, hash: u32) -> bool {
        match self {
            SharedHashes::None => false,
            SharedHashes::These(hashes) => hashes.binary_search(&hash).is_ok(),
            SharedHashes::Any => true,
        }
    }
}

/// The range of hash values that one pass considers.
struct HashRange {
    most: usize,
    first: u32,
    last: u32,
    held: Vec<u32>,
    /// The shared hashes found in all passes.
    shared: Vec<u32>,
}

impl HashRange {
    #[inline]
    fn see(&mut self, hash: u32) {
        if hash < self.first || hash > self.last {
            return;
        }
        if self.held.len() >= self.most {
            self.make_room();
            if hash > self.last {
                return;
            }
        }
        if self.held.len() == self.held.capacity() && self.held.len() >= GROWN {
            // Doubling the capacity could exceed the memory limit.
            self.held.reserve_exact(self.most - self.held.len());
        }
        self.held.push(hash);
    }

    /// Makes room for more hashes by removing duplicates. If more than half of the capacity is
    /// still used, also drops the upper half of the hashes, which another pass finds again.
    fn make_room(&mut self) {
        if self.is_full() {
            // Every hash counts as shared, so the list is no longer needed.
            self.held.clear();
            return;
        }
        self.find_shared();
        self.held.dedup();
        let half = self.most / 2;
        if self.held.len() > half {
            self.held.truncate(half.max(1));
            self.last = self.held.last().copied().unwrap_or(self.last);
        }
    }

    /// Adds to the result the shared hashes that this pass has found.
    fn settle(&mut self) {
        self.find_shared();
        self.held.clear();
    }

    fn find_shared(&mut self) {
        self.held.sort_unstable();
        let pairs = self.held.windows(2).filter(|pair| pair[0] == pair[1]);
        self.shared.extend(pairs.map(|pair| pair[0]));
        self.shared.sort_unstable();
        self.shared.dedup();
    }

    fn is_full(&self) -> bool {
        self.shared.len() > self.most / 2
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_hashes_of_several_keys_are_found_however_few_are_held(
            hashes in prop_oneof![
                prop::collection::vec(any::<u32>(), 0..200),
                prop::collection::vec(0_u32..100, 0..200),
                prop::collection::vec(prop_oneof![Just(0), Just(u32::MAX), any::<u32>()], 0..200),
            ],
            most in 2_usize..100,
        ) {
            let mut times: HashMap<u32, u32> = HashMap::new();
            for hash in &hashes {
                *times.entry(*hash).or_default() += 1;
            }
            let mut passes = 0;
            let shared = SharedHashes::find(most, |see| {
                passes += 1;
                hashes.iter().for_each(|&hash| see(hash));
                Ok(())
            })
            .unwrap();
            let several = times.values().filter(|times| **times > 1).count();
            prop_assert!(passes == 1 || hashes.len() > most);
            prop_assert_eq!(shared.is_none(), several == 0);
            if let SharedHashes::Any = shared {
                prop_assert!(several > most / 2);
            } else {
                for (hash, times) in times {
                    prop_assert_eq!(shared.contains(hash), times > 1, "{}", hash);
                }
            }
        }
    }

    #[test]
    fn few_passes_find_what_is_shared_among_many_times_what_is_held() {
        // Since the factor is odd, each number occurs once, in no particular order.
        let hashes = (0..1_000_000_u32).map(|at| at.wrapping_mul(2_654_435_761));
        let mut passes = 0;
        let shared = SharedHashes::find(100_000, |see| {
            passes += 1;
            hashes.clone().chain([7, 7]).for_each(see);
            Ok(())
        })
        .unwrap();
        assert!(matches!(&shared, SharedHashes::These(hashes) if hashes == &[7]));
        assert!(passes <= 13, "{passes}");
    }
}
