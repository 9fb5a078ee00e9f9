//! Tests with untrusted messages: small ones don't use up time, and different ones aren't taken for
//! equal.

use crate::merge_support::schema::descriptor;
use crate::merge_support::{cat, group, int, len};
use proto_splitter_core::ErrorKind;
use proto_splitter_core::canonical::{Canonical, Edits};
use proto_splitter_core::compare::compare;
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::tensor::{DType, ElementRule, ShapeRule, TensorRule, tensors_in};
use proto_splitter_core::view::MessageView;

/// Number of nested messages. If each level doubled the time, the last would never be reached.
const LEVELS: usize = 40;

const GROUPS: TensorRule = TensorRule {
    shape: ShapeRule::Sizes(12),
    content: 8,
    elements: &[ElementRule::new(1, DType::U8, 12)],
    ..TensorRule::new("t.G", 1)
};

fn view(message: &Vec<u8>) -> MessageView<'_> {
    MessageView::of_plain(message, ReadOptions::new().descriptor(descriptor())).unwrap()
}

#[test]
fn tensors_below_messages_that_each_come_in_two_pieces_are_listed_at_once() {
    let tensor = group(33, cat([int(1, 1), len(8, b"ab"), len(12, [2])]));
    // Each message contains the next as an element, so that the next is in one piece again.
    let listed = |more: &[u8]| {
        let message = (0..LEVELS).fold(tensor.clone(), |below, _| {
            cat([len(9, len(10, below)), more.to_vec()])
        });
        tensors_in(&view(&message), &[&GROUPS]).unwrap()
    };
    let expected = listed(&[]);
    assert_eq!(expected.len(), 1);
    assert_eq!(listed(&len(9, [])), expected);
}

#[test]
fn the_canonical_form_of_messages_that_each_come_in_two_pieces_is_planned_at_once() {
    let more = cat([int(1, 7), len(9, int(1, 5))]);
    let source = (0..LEVELS).fold(int(2, 4), |below, _| cat([len(9, below), more.clone()]));
    let mut canonical = Canonical::new(&source, source.len() as u64);
    let whole = canonical.whole();
    let plan = canonical.message(&descriptor(), &whole, &Edits::none());
    let mut written = Vec::new();
    canonical.write(&plan.unwrap(), &mut written).unwrap();
    // Each nested message has the value from its second piece, and the outermost has its own.
    let innermost = cat([int(1, 5), int(2, 4)]);
    let below = (1..LEVELS).fold(innermost, |below, _| cat([int(1, 5), len(9, below)]));
    assert!(written == cat([int(1, 7), len(9, below)]));
}

#[test]
fn maps_with_keys_that_are_not_text_are_never_equal() {
    for keys in [[&[0xfe][..], &[0xff]], [&[0xfe], &[0xfe, 0x80]]] {
        for field in [13, 21] {
            let [a, b] = keys.map(|key| len(9, len(field, cat([len(1, key), len(2, [])]))));
            for (a, b) in [(&a, &b), (&cat([a.clone(), b.clone()]), &b)] {
                let error = compare(&view(a), &view(b), 10).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidMessage);
                let text = format!("9.{field}: the map has a key that is not UTF-8");
                assert_eq!(error.to_string(), text);
            }
        }
    }
}

#[test]
fn groups_are_put_by_number_and_their_pieces_are_merged() {
    let pieces = [cat([len(8, b"y"), int(1, 5)]), int(1, 6)].map(|piece| group(33, piece));
    let source = cat([int(34, 1), pieces.concat()]);
    let mut canonical = Canonical::new(&source, source.len() as u64);
    let whole = canonical.whole();
    let plan = canonical.message(&descriptor(), &whole, &Edits::none());
    let mut written = Vec::new();
    canonical.write(&plan.unwrap(), &mut written).unwrap();
    let merged = group(33, cat([int(1, 6), len(8, b"y")]));
    assert_eq!(written, cat([merged, int(34, 1)]));
}
