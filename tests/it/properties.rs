use prost_reflect::DynamicMessage;
use proto_splitter::ErrorKind;
use proto_splitter::merge::Merger;
use proto_splitter::split::{Profile, SizeSplitter, Source, SplitOptions};
use proto_splitter_testkit::generate::{Habits, Order, Random, cases, kitchen_sink, message};
use proto_splitter_testkit::splits::{self, Outcome};

/// Default number of random messages.
const CASES: u64 = 3000;

/// Number of messages with each outcome.
#[derive(Debug, Default)]
struct Tally {
    cut: u64,
    byte_exact: u64,
    uncuttable: u64,
}

/// Splits random messages and merges them again, with and without the source's layout. `from` is
/// the first seed.
fn round_trips(from: u64, habits: impl Fn(&mut Random) -> Habits) -> Tally {
    round_trips_in(Profile::TensorFlow, from, habits)
}

fn round_trips_in(profile: Profile, from: u64, habits: impl Fn(&mut Random) -> Habits) -> Tally {
    let descriptor = kitchen_sink();
    let mut tally = Tally::default();
    for seed in from..from + cases(CASES) {
        let random = &mut Random::new(seed);
        let habits = habits(random);
        let bytes = message(&descriptor, random, &habits);
        let max = 30 + random.below(bytes.len() as u64 + 10);
        let value = (!random.one_in(2)).then(|| 1 + random.below(400));
        let options = SplitOptions::new()
            .max_chunk_size(max)
            .value_chunk_size(value)
            .profile(profile);
        let source = Source::from_bytes(bytes.clone(), descriptor.clone());
        let Outcome::Split(split) = splits::check(&SizeSplitter, &source, &bytes, &options) else {
            tally.uncuttable += 1;
            continue;
        };
        tally.cut += u64::from(split.chunks.len() > 1);
        tally.byte_exact += u64::from(split.chunks.len() > 1 && split.byte_exact());
        let merged = Merger::new()
            .merge(&split.bytes(), &split.metadata)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        if split.byte_exact() {
            assert!(merged == bytes, "seed {seed}: {habits:?}");
        }
        // Without the source's layout, a merge uses only the placeholders, as it does when only one
        // part of the message is read.
        let mut metadata = split.metadata.clone();
        metadata.source_layout.clear();
        let merged = Merger::new()
            .merge(&split.bytes(), &metadata)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let [merged, original] = [&merged[..], &bytes[..]]
            .map(|bytes| DynamicMessage::decode(descriptor.clone(), bytes).unwrap());
        assert!(merged == original, "seed {seed}: {habits:?}");
    }
    tally
}

#[test]
fn messages_as_most_writers_write_them_come_back_byte_for_byte() {
    let tally = round_trips(1 << 32, |random| Habits::plain(200 + random.below(5000)));
    assert_eq!(tally.cut, tally.byte_exact, "{tally:?}");
    assert!(
        tally.cut > cases(CASES) / 2 && tally.uncuttable < cases(CASES) / 4,
        "{tally:?}"
    );
}

#[test]
fn messages_in_descending_order_come_back_byte_for_byte() {
    let tally = round_trips(2 << 32, |random| Habits {
        order: Order::Descending,
        ..Habits::plain(200 + random.below(5000))
    });
    assert_eq!(tally.cut, tally.byte_exact, "{tally:?}");
}

#[test]
fn messages_with_their_fields_mixed_up_come_back_equal() {
    let tally = round_trips(3 << 32, |random| Habits {
        order: Order::Shuffled,
        ..Habits::plain(200 + random.below(5000))
    });
    assert!(
        tally.byte_exact > cases(CASES) / 20 && tally.byte_exact < tally.cut,
        "{tally:?}"
    );
}

#[test]
fn unknown_fields_and_long_lengths_come_back_equal() {
    let tally = round_trips(4 << 32, |random| Habits {
        order: [Order::Ascending, Order::Descending, Order::Shuffled]
            [usize::try_from(random.below(3)).unwrap()],
        odd_wire: true,
        repeats: false,
        size: 200 + random.below(5000),
    });
    assert!(
        tally.byte_exact > cases(CASES) / 20 && tally.byte_exact < tally.cut,
        "{tally:?}"
    );
}

#[test]
fn superseded_values_duplicate_keys_and_messages_in_pieces_come_back_equal() {
    let tally = round_trips(5 << 32, |random| Habits {
        order: [Order::Ascending, Order::Shuffled][usize::try_from(random.below(2)).unwrap()],
        odd_wire: random.one_in(2),
        repeats: true,
        size: 200 + random.below(5000),
    });
    assert!(tally.byte_exact > cases(CASES) / 20, "{tally:?}");
}

#[test]
fn in_the_extended_profile_every_value_can_be_cut_and_all_comes_back_byte_for_byte() {
    let habits = |odd_wire| {
        move |random: &mut Random| Habits {
            order: [Order::Ascending, Order::Descending, Order::Shuffled]
                [usize::try_from(random.below(3)).unwrap()],
            odd_wire,
            repeats: odd_wire && random.one_in(2),
            size: 200 + random.below(5000),
        }
    };
    let plain = round_trips_in(Profile::Extended, 6 << 32, habits(false));
    assert!(plain.cut > cases(CASES) / 2, "{plain:?}");
    assert_eq!(plain.cut, plain.byte_exact, "{plain:?}");
    let same_in_tensorflow = round_trips(6 << 32, habits(false));
    assert!(
        plain.uncuttable < same_in_tensorflow.uncuttable,
        "{plain:?} {same_in_tensorflow:?}"
    );
    let odd = round_trips_in(Profile::Extended, 7 << 32, habits(true));
    assert!(odd.cut > cases(CASES) / 20, "{odd:?}");
    assert_eq!(odd.cut, odd.byte_exact, "{odd:?}");
}

#[test]
fn a_message_cut_anywhere_is_refused_or_split_but_never_a_panic() {
    let descriptor = kitchen_sink();
    for seed in 0..200 {
        let random = &mut Random::new(seed);
        let habits = Habits {
            order: Order::Shuffled,
            odd_wire: true,
            repeats: true,
            size: 600,
        };
        let bytes = message(&descriptor, random, &habits);
        for _ in 0..10 {
            let mut damaged = bytes.clone();
            if damaged.is_empty() {
                continue;
            }
            let at = usize::try_from(random.below(damaged.len() as u64)).unwrap();
            if random.one_in(2) {
                damaged.truncate(at);
            } else {
                damaged[at] ^= 1 << random.below(8);
            }
            let source = Source::from_bytes(damaged.clone(), descriptor.clone());
            let options = SplitOptions::new()
                .max_chunk_size(60)
                .value_chunk_size(Some(20));
            match proto_splitter::split::SplitExt::split_with(&SizeSplitter, source, &options) {
                Ok(split) => {
                    let merged = Merger::new()
                        .merge(&split.bytes(), &split.metadata)
                        .unwrap();
                    assert!(!split.byte_exact() || merged == damaged, "seed {seed}");
                }
                Err(error) => assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::InvalidMessage
                            | ErrorKind::Uncuttable
                            | ErrorKind::LimitExceeded
                    ),
                    "{error}"
                ),
            }
        }
    }
}
