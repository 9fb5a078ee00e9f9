//! Runs the fuzz target with the same pseudorandom bytes each time.

use crate::targets::{receiver, seeds};

/// Number of mutated inputs for each seed.
const CHANGES: u64 = 150;

#[test]
fn nothing_breaks_the_target_of_the_fuzzer() {
    receiver(b"");
    for (number, seed) in seeds().iter().enumerate() {
        receiver(seed);
        let mut state = number as u64;
        let mut below = |most: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % most
        };
        for _ in 0..CHANGES {
            let mut data = seed.clone();
            for _ in 0..=below(3) {
                let at = below(data.len());
                match below(4) {
                    0 => data[at] ^= 1 << below(8),
                    1 => data[at] = [0, 1, 0x7f, 0x80, 0xff][below(5)],
                    2 => data.insert(at, 0x0a),
                    _ => drop(data.remove(at)),
                }
            }
            receiver(&data);
        }
    }
}

#[test]
fn the_seeds_are_complete_transfers() {
    use bytes::Bytes;
    use proto_splitter_transfer::{ReceiveOptions, Receiver, decode_frame};

    for seed in seeds() {
        let mut receiver = Receiver::in_memory(&ReceiveOptions::new());
        let mut data = Bytes::from(seed);
        while !data.is_empty() {
            let len = usize::from(u16::from_le_bytes([data[0], data[1]]));
            let _ = data.split_to(2);
            if len == usize::from(u16::MAX) {
                assert!(receiver.end().is_err());
                continue;
            }
            receiver
                .push(decode_frame(data.split_to(len)).unwrap())
                .unwrap();
        }
        assert!(receiver.is_complete());
    }
}
