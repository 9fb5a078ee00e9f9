use prost::Message;
use prost_reflect::DynamicMessage;
use proto_splitter::compare::{Comparison, DifferenceKind, compare};
use proto_splitter::container::ChunkedFile;
use proto_splitter::edit::replace_plain;
use proto_splitter::merge::{Limits, ReadOptions};
use proto_splitter::split::{SizeSplitter, SplitExt, SplitOptions};
use proto_splitter::view::MessageView;
use proto_splitter::{ErrorKind, Result};
use proto_splitter_testkit::generate::{Habits, Order, Random, kitchen_sink, message};
use proto_splitter_testkit::splits::canonical;

use crate::rewriting::{reading, targets, values};

fn habits(order: Order, odd: bool, size: u64) -> Habits {
    Habits {
        order,
        odd_wire: odd,
        repeats: odd,
        size,
    }
}

fn compared(a: &Vec<u8>, b: &Vec<u8>, limit: usize) -> Result<Comparison> {
    let view = |bytes| MessageView::of_plain(bytes, reading());
    compare(&view(a)?, &view(b)?, limit)
}

#[test]
fn messages_are_equal_exactly_if_a_reader_can_not_tell_them_apart() {
    let (mut equal, mut different) = (0, 0);
    for seed in 0..40 {
        let orders = [Order::Ascending, Order::Descending, Order::Shuffled];
        let order = orders[usize::try_from(seed).unwrap() % 3];
        let a = message(
            &kitchen_sink(),
            &mut Random::new(seed),
            &habits(order, seed % 2 == 1, 2500),
        );
        let read = |bytes: &[u8]| DynamicMessage::decode(kitchen_sink(), bytes).unwrap();
        // `again` is an equal message with another field order and packing, and without superseded
        // values. `other` is a different message.
        let again = read(&a).encode_to_vec();
        let other = message(
            &kitchen_sink(),
            &mut Random::new(seed + 1000),
            &habits(order, false, 40),
        );
        for b in [a.clone(), again, other] {
            let same = canonical(&read(&a)) == canonical(&read(&b));
            let said = compared(&a, &b, 5).unwrap();
            match &said {
                Comparison::Identical => assert!(a == b),
                Comparison::Equal => assert!(same && a != b, "seed {seed}"),
                Comparison::Different(found) => {
                    assert!(!same, "seed {seed}: {found:?}");
                    assert!((1..=5).contains(&found.len()));
                }
            }
            equal += usize::from(said == Comparison::Equal);
            different += usize::from(matches!(said, Comparison::Different(_)));
        }
    }
    assert!(equal > 10 && different > 20, "{equal} {different}");
}

#[test]
fn the_place_of_a_change_is_told_in_chunks_or_in_one_piece() {
    let model = message(
        &kitchen_sink(),
        &mut Random::new(3),
        &habits(Order::Ascending, false, 6000),
    );
    let options = SplitOptions::new().max_chunk_size(3000);
    let folder = tempfile::tempdir().unwrap();
    let dynamic = DynamicMessage::decode(kitchen_sink(), &model[..]).unwrap();
    let written = SizeSplitter
        .write_with(&dynamic, folder.path().join("a"), &options)
        .unwrap();
    assert!(written.is_split);
    let chunked = ChunkedFile::open(&written.path).unwrap();
    let canonical_bytes: Vec<u8> = chunked.merge_to_bytes(&reading()).unwrap().into();
    let mut told = 0;
    for target in targets(&model) {
        for new in values(&target) {
            let mut changed = Vec::new();
            replace_plain(&model, &target.path, &new, &mut changed, &reading()).unwrap();
            let said = compared(&model, &changed, 1).unwrap();
            let view = MessageView::of_plain(&changed, reading()).unwrap();
            let across = compare(&chunked.view(reading()), &view, 1).unwrap();
            assert_eq!(across, compared(&canonical_bytes, &changed, 1).unwrap());
            let Comparison::Different(found) = said else {
                continue;
            };
            let path = &found[0].path;
            let near = path.strip_prefix(&target.path).is_some()
                || target.path.strip_prefix(path).is_some();
            assert!(near, "{path} for {}", target.path);
            told += 1;
        }
    }
    assert!(told > 50, "{told}");
}

#[test]
fn without_a_type_fields_are_compared_as_they_are_written() {
    let untyped = |a: &[u8], b: &[u8]| {
        let (a, b) = (a.to_vec(), b.to_vec());
        let view = |bytes| MessageView::of_plain(bytes, ReadOptions::new());
        compare(&view(&a).unwrap(), &view(&b).unwrap(), 10).unwrap()
    };
    assert_eq!(
        untyped(b"\x08\x01\x10\x02", b"\x10\x02\x08\x01"),
        Comparison::Equal
    );
    let Comparison::Different(found) = untyped(b"\x0a\x03abc\x10\x02", b"\x0a\x04abde\x18\x02")
    else {
        panic!("they differ")
    };
    let said: Vec<_> = found
        .iter()
        .map(|d| format!("{}: {}", d.path, d.how.said("a", "b")))
        .collect();
    assert_eq!(
        said,
        [
            "1: 3 bytes in a, 4 in b, different from byte 2 on",
            "2: only in a",
            "3: only in b"
        ]
    );
}

#[test]
fn messages_are_compared_as_deep_as_the_limit_says_and_never_end_the_stack() {
    let len = |number: u32, content: &[u8]| {
        let mut field = Vec::new();
        proto_splitter::wire::put_varint(&mut field, u64::from(number) << 3 | 2);
        proto_splitter::wire::put_varint(&mut field, content.len() as u64);
        field.extend(content);
        field
    };
    let around = |number, inner: &[u8]| match number {
        // Field 11 is a map, so `inner` is the value of a map entry.
        11 => len(11, &len(2, inner)),
        _ => len(number, inner),
    };
    // Tests both ways to compare: only messages of at most 1 MiB are compared in memory.
    for size in [1, (1 << 20) + 1] {
        for (step, number) in [("child", 4), ("children[0]", 5), ("by_name[\"\"]", 11)] {
            let nested = |levels, byte| {
                let innermost = len(2, &vec![byte; size]);
                (0..levels).fold(innermost, |inner, _| around(number, &inner))
            };
            for (levels, limit, fits) in [
                (100, 100, true),
                (101, 100, false),
                (101, 101, true),
                (200, usize::MAX, true),
                (201, usize::MAX, false),
            ] {
                let (a, b) = (nested(levels, b'a'), nested(levels, b'b'));
                let limits = Limits::new().max_message_depth(limit);
                let view =
                    |bytes| MessageView::of_plain(bytes, reading().limits(limits.clone())).unwrap();
                let said = compare(&view(&a), &view(&b), 1);
                let case = format!("{levels} of {step} with {limit}");
                match said {
                    Ok(Comparison::Different(found)) if fits => {
                        let path = found[0].path.display(Some(&kitchen_sink()));
                        assert_eq!(path.matches(step).count(), levels, "{case}");
                    }
                    Err(error) if !fits => {
                        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{case}");
                    }
                    other => panic!("{case}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn large_values_are_compared_to_their_last_byte() {
    let large = |last: u8| {
        let mut bytes = Vec::new();
        for _ in 0..3 {
            let field = kitchen_sink().get_field_by_name("blobs").unwrap().number();
            proto_splitter::wire::put_varint(&mut bytes, u64::from(field) << 3 | 2);
            proto_splitter::wire::put_varint(&mut bytes, 3_000_000);
            bytes.resize(bytes.len() + 2_999_999, 7);
            bytes.push(last);
        }
        bytes
    };
    let Comparison::Different(found) = compared(&large(1), &large(2), 2).unwrap() else {
        panic!("they differ")
    };
    assert_eq!(found.len(), 2);
    let how = DifferenceKind::Bytes {
        first: 3_000_000,
        second: 3_000_000,
        at: 2_999_999,
    };
    assert_eq!(found[1].how, how);
}
