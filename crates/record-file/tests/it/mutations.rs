//! Tests that run the fuzz targets with reproducible mutations.
use record_file::{ReaderOptions, RecordFile};

use crate::support::frame::mend;
use crate::support::{dir, noise, valid};
use crate::targets::{TARGETS, seeds};

const MUTATIONS: usize = 100;

/// A reproducible sequence of random numbers.
struct Random(std::vec::IntoIter<u8>);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        let byte = |_| usize::from(self.0.next().unwrap_or(0));
        (0..4).map(byte).fold(0, |sum, byte| sum << 8 | byte) % bound.max(1)
    }
}

/// Changes `data` in some of the ways in which fuzzers typically change their input.
fn mutate(data: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    const EDGES: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, 0x3f, 0x40, 0xfe];
    for _ in 0..=random.below(4) {
        let at = random.below(data.len());
        let len = random.below(1 + (data.len() - at).min(16));
        match random.below(8) {
            0 if !data.is_empty() => data[at] ^= 1 << random.below(8),
            1 if !data.is_empty() => data[at] = EDGES[random.below(EDGES.len())],
            2 if !data.is_empty() => data[at] = data[at].wrapping_add(1),
            3 => data.truncate(at),
            4 => drop(data.drain(at..at + len)),
            5 => {
                let part = data[at..at + len].to_vec();
                data.splice(at..at, part);
            }
            6 => {
                let from = random.below(other.len());
                let part = other[from..(from + 24).min(other.len())].to_vec();
                data.splice(at..at + len, part);
            }
            _ => data[at..at + len].fill(EDGES[random.below(EDGES.len())]),
        }
    }
}

#[test]
fn nothing_breaks_the_targets_of_the_fuzzer() {
    for (name, target) in TARGETS {
        let seeds = seeds(name, &dir());
        assert!(seeds.len() > 1, "{name}");
        let largest = seeds.iter().map(Vec::len).max().unwrap_or(0);
        assert!(largest > 1 && largest < 10_000, "{name}");
        target(b"");
        for (index, seed) in seeds.iter().enumerate() {
            target(seed);
            let mut random = Random(noise(MUTATIONS * 200, index as u64 + 1).into_iter());
            for _ in 0..MUTATIONS {
                let mut data = seed.clone();
                let other = &seeds[random.below(seeds.len())];
                mutate(&mut data, other, &mut random);
                target(&data);
            }
        }
    }
}

#[test]
fn mending_changes_nothing_of_a_whole_file() {
    let options = ReaderOptions::new();
    for fixture in valid() {
        let mut mended = fixture.bytes.clone();
        mend(&mut mended);
        assert!(mended == fixture.bytes, "{}", fixture.name);
        // Mending corrects a damaged hash of a chunk's data.
        let last = fixture.open().last_record().unwrap();
        let Some(last) = last.filter(|_| fixture.bytes.len() < 1 << 16) else {
            continue;
        };
        let begin = usize::try_from(last.chunk_begin().0).unwrap();
        mended[begin + 16..begin + 24].fill(7);
        mend(&mut mended);
        assert!(mended == fixture.bytes, "{}", fixture.name);
        let file = RecordFile::open(&mended, options).unwrap();
        assert!(file.read_record(last).is_ok(), "{}", fixture.name);
    }
}
