//! Tests that run the fuzz targets with the same inputs each time.

use crate::merge_support::random::Random;
use crate::targets::{TARGETS, seeds};

/// Number of mutations of each seed.
const MUTATIONS: usize = 10;

fn mutate(data: &mut Vec<u8>, random: &mut Random<'_>) {
    for _ in 0..=random.below(3) {
        let at = usize::try_from(random.below(data.len() as u64 + 1)).unwrap();
        let value = random.one_of(&[0, 1, 2, 0x0a, 0x7f, 0x80, 0xff]);
        let end = data.len().min(at + 4);
        match random.below(5) {
            0 if at < data.len() => data[at] ^= 1 << random.below(8),
            1 if at < data.len() => data[at] = value,
            2 => data.insert(at, value),
            3 => drop(data.drain(at..end)),
            _ => data.truncate(at.max(1)),
        }
    }
}

#[test]
fn nothing_breaks_the_targets_of_the_fuzzer() {
    for (name, target) in TARGETS {
        target(b"");
        let seeds = seeds(name);
        assert!(seeds.len() > 2, "{name}");
        for (number, seed) in seeds.iter().enumerate() {
            target(seed);
            let random = &mut Random::of_seed(number as u64);
            for _ in 0..MUTATIONS {
                let mut data = seed.clone();
                mutate(&mut data, random);
                let said = std::panic::catch_unwind(|| target(&data));
                assert!(said.is_ok(), "{name}: {data:?}");
            }
        }
    }
}
