//! Tests that `record-file` and the `riegeli` crate read each other's files, and write identical
//! uncompressed files.
use std::io::Cursor;

use proptest::collection::vec;
use proptest::prelude::*;
use record_file::{Compression, ReaderOptions, RecordReader};
use record_file_peers::records::{self, Random};
use record_file_peers::{Positioned, Settings, read_ours, read_theirs, write_ours, write_theirs};

/// Number of cases in a normal run. `PROPTEST_CASES` overrides it.
const CASES: u32 = 64;

fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok();
    let cases = asked.and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

fn codec() -> impl Strategy<Value = Compression> {
    prop_oneof![
        2 => Just(Compression::None),
        2 => (-7..=6i32).prop_map(Compression::zstd),
        1 => (0..=6u32).prop_map(Compression::brotli),
        1 => Just(Compression::SNAPPY),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let chunk_size = prop_oneof![1..300u64, 300..20_000u64, Just(1 << 20)];
    let padding =
        prop_oneof![3 => Just(1), 1 => prop::sample::select(vec![40, 100, 1000, 1 << 16])];
    let bucket_fraction = prop::sample::select(vec![0.0, 0.1, 0.5, 1.0]);
    (codec(), chunk_size, any::<bool>(), bucket_fraction, padding).prop_map(
        |(codec, chunk_size, transpose, bucket_fraction, final_padding)| Settings {
            codec,
            chunk_size,
            transpose,
            bucket_fraction,
            final_padding,
        },
    )
}

/// Returns a message with fields of all kinds, groups and nested messages.
fn message(random: &mut Random, depth: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..random.below(8) {
        let field = match random.below(20) {
            0 => 1 + random.below((1 << 29) - 1),
            1 => 1 + random.below(100),
            _ => 1 + random.below(6),
        };
        match random.below(if depth > 4 { 5 } else { 8 }) {
            0 => records::varint_field(&mut out, field, random.below(200)),
            1 => {
                let bits = random.below(64);
                records::varint_field(&mut out, field, random.draw() >> bits);
            }
            2 => {
                records::tag(&mut out, field, 1);
                out.extend(random.draw().to_le_bytes());
            }
            3 => {
                records::tag(&mut out, field, 5);
                out.extend(&random.draw().to_le_bytes()[..4]);
            }
            4 => {
                let len = random.below(40);
                let bytes: Vec<u8> = (0..len).map(|_| random.draw() as u8).collect();
                records::bytes_field(&mut out, field, &bytes);
            }
            5 | 6 => records::bytes_field(&mut out, field, &message(random, depth + 1)),
            _ => {
                records::tag(&mut out, field, 3);
                out.extend(message(random, depth + 1));
                records::tag(&mut out, field, 4);
            }
        }
    }
    out
}

fn record() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => any::<u64>().prop_map(|seed| message(&mut Random::new(seed), 0)),
        // A message with one wrong byte.
        1 => (any::<u64>(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(seed, at, byte)| {
            let mut message = message(&mut Random::new(seed), 0);
            if !message.is_empty() {
                let at = at.index(message.len());
                message[at] = byte;
            }
            message
        }),
        2 => vec(any::<u8>(), 0..100),
        1 => (any::<u8>(), 0..5000usize).prop_map(|(byte, len)| vec![byte; len]),
        1 => (any::<u64>(), 60_000..140_000u64).prop_map(|(seed, len)| {
            let mut random = Random::new(seed);
            (0..len).map(|_| random.draw() as u8).collect()
        }),
    ]
}

/// Generates lists of records. Most lists consist of different records, and some of many similar
/// records, which benefit from transposing.
fn some_records() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop_oneof![
        4 => vec(record(), 0..40),
        1 => (record(), 1..200usize).prop_map(|(record, count)| vec![record; count]),
        1 => (1..300usize).prop_map(records::messages),
    ]
}

fn check(records: &[Vec<u8>], read: &[Positioned]) {
    assert!(read.iter().map(|(_, _, record)| record).eq(records));
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn each_reads_what_the_other_writes(
        records in some_records(),
        settings in settings(),
        flush_every in prop_oneof![3 => Just(usize::MAX), 1 => 1..20usize],
    ) {
        let theirs = write_theirs(&records, settings.theirs(), flush_every).unwrap();
        let read = read_ours(&theirs).unwrap();
        check(&records, &read);
        prop_assert!(read == read_theirs(&theirs).unwrap());

        let ours = write_ours(&records, settings.ours(), flush_every).unwrap();
        let read = read_theirs(&ours).unwrap();
        check(&records, &read);
        prop_assert!(read == read_ours(&ours).unwrap());

        if settings.codec == Compression::None {
            prop_assert!(ours == theirs, "{} bytes, not {}", ours.len(), theirs.len());
        }
    }

    #[test]
    fn metadata_is_the_same_both_ways(
        metadata in vec(record(), 1).prop_map(|mut records| records.remove(0)),
        settings in settings(),
        records in vec(record(), 0..3),
    ) {
        let theirs = settings.theirs().set_serialized_metadata(metadata.clone());
        let theirs = write_theirs(&records, theirs, usize::MAX).unwrap();
        let ours = settings.ours().serialized_metadata(metadata.clone());
        let ours = write_ours(&records, ours, usize::MAX).unwrap();
        for file in [&ours, &theirs] {
            let mut reader = RecordReader::new(file, ReaderOptions::new());
            let read = reader.read_metadata().unwrap();
            prop_assert!(read.as_deref() == Some(&metadata[..]));
            let mut reader = riegeli::RecordReader::new(Cursor::new(file), riegeli::ReaderOptions::new()).unwrap();
            prop_assert!(reader.read_serialized_metadata().unwrap() == Some(metadata.clone()));
            check(&records, &read_ours(file).unwrap());
            check(&records, &read_theirs(file).unwrap());
        }
        if settings.codec == Compression::None {
            prop_assert!(ours == theirs);
        }
    }

    #[test]
    fn of_a_damaged_file_both_keep_the_same_records(
        records in some_records(),
        settings in settings(),
        flips in vec((any::<prop::sample::Index>(), 1..=255u8), 1..4),
    ) {
        let mut file = write_ours(&records, settings.ours(), usize::MAX).unwrap();
        for (at, with) in flips {
            let at = at.index(file.len());
            file[at] ^= with;
        }
        let mut ours = Vec::new();
        let mut reader = RecordReader::new(&file, ReaderOptions::new()).on_damage(|_| true);
        while let Some(record) = reader.read_record().unwrap() {
            let record = record.to_vec();
            ours.push((reader.last_position().unwrap().numeric(), record));
        }
        let mut theirs = Vec::new();
        let recover = riegeli::ReaderOptions::new().recovery(|_| true);
        let mut reader = riegeli::RecordReader::new(Cursor::new(&file), recover).unwrap();
        while let Some(record) = reader.read_record().unwrap() {
            theirs.push((reader.last_pos().numeric(), record));
        }
        prop_assert!(ours == theirs, "{} records, not {}", ours.len(), theirs.len());
    }
}
