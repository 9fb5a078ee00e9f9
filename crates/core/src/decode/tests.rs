use prost::Message;

use super::*;
use crate::wire::put_varint;

/// A message that has itself in all ways, as a part and not.
#[derive(Clone, PartialEq, Message)]
struct Tree {
    #[prost(message, repeated, tag = "1")]
    children: Vec<Tree>,
    #[prost(message, optional, boxed, tag = "2")]
    trunk: Option<Box<Tree>>,
    #[prost(bytes = "bytes", tag = "3")]
    bark: Bytes,
    #[prost(string, repeated, tag = "4")]
    names: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    leaves: Vec<Leaf>,
    #[prost(message, optional, boxed, tag = "6")]
    whole: Option<Box<Tree>>,
}

#[derive(Clone, PartialEq, Message)]
struct Leaf {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, boxed, tag = "2")]
    below: Option<Box<Leaf>>,
}

impl InParts for Tree {
    fn parts(parts: &mut Parts<Self>) {
        parts.repeated(1, |tree| &mut tree.children);
        parts.singular(2, |tree| &mut **tree.trunk.get_or_insert_default());
        parts.repeated(5, |tree| &mut tree.leaves);
    }
}

impl InParts for Leaf {
    fn parts(_: &mut Parts<Self>) {}
}

fn leaves(count: usize) -> Vec<Leaf> {
    let leaf = |at: usize| Leaf {
        name: format!("leaf {at}"),
        below: None,
    };
    (0..count).map(leaf).collect()
}

fn tree(depth: usize) -> Tree {
    let children = match depth {
        0 => Vec::new(),
        _ => (0..3).map(|_| tree(depth - 1)).collect(),
    };
    Tree {
        trunk: children.first().cloned().map(Box::new),
        whole: children.last().cloned().map(Box::new),
        children,
        bark: Bytes::from(vec![7; 9 * depth]),
        names: vec!["oak".into(); depth],
        leaves: leaves(5 * depth),
    }
}

/// `tag LEN value`.
fn field(number: u64, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, number << 3 | 2);
    put_varint(&mut out, value.len() as u64);
    out.extend_from_slice(value);
    out
}

/// What decoding in parts makes of it, if it can.
fn in_parts<M: InParts + PartialEq>(bytes: &[u8], block_size: usize) -> Option<M> {
    let bytes = Bytes::copy_from_slice(bytes);
    let two = run::decode(&bytes, 2, block_size);
    let five = run::decode(&bytes, 5, block_size);
    assert!(two == five);
    two
}

fn options(block_size: usize) -> DecodeOptions {
    let threads = NonZeroUsize::new(3).unwrap();
    DecodeOptions::new().threads(threads).block_size(block_size)
}

#[test]
fn parts_within_parts_are_put_together_whatever_a_block_holds() {
    let tree = tree(4);
    let bytes = tree.encode_to_vec();
    for block_size in [1, 2, 30, 100, 1000, bytes.len()] {
        assert!(
            in_parts(&bytes, block_size).as_ref() == Some(&tree),
            "{block_size}"
        );
    }
    assert_eq!(in_parts::<Tree>(&[], 1), Some(Tree::default()));
}

#[test]
fn occurrences_of_one_field_are_merged_in_their_order() {
    let few = |names: [&str; 2], count| Tree {
        names: names.map(str::to_owned).into(),
        leaves: leaves(count),
        ..Tree::default()
    };
    let [one, two] = [few(["a", "b"], 4), few(["c", "d"], 3)].map(|tree| tree.encode_to_vec());
    let message = [
        field(2, &one),
        field(5, &leaves(1)[0].encode_to_vec()),
        field(99, b"of nobody"),
        field(2, &two),
        field(2, b""),
        field(1, &one),
        field(4, b"name"),
        field(1, &two),
        field(5, b""),
    ]
    .concat();
    let expected = Tree::decode(&message[..]).unwrap();
    assert_eq!(expected.trunk.as_ref().unwrap().names.len(), 4);
    for block_size in [1, 20, 1000] {
        assert!(
            in_parts(&message, block_size).as_ref() == Some(&expected),
            "{block_size}"
        );
    }
}

#[test]
fn messages_nest_as_deep_as_prost_lets_them() {
    for number in [1, 2, 6] {
        for leaf_depth in [0, 3] {
            for depth in 90..=103 {
                let leaf = (0..leaf_depth).fold(Vec::new(), |leaf, _| field(2, &leaf));
                let deepest = field(5, &leaf);
                let message = (0..depth).fold(deepest, |message, _| field(number, &message));
                let expected = Tree::decode(&message[..]);
                let found: Option<Tree> = in_parts(&message, 1);
                let what = format!("field {number}, {depth} and {leaf_depth} deep");
                assert!(found == expected.ok(), "{what}");
            }
        }
    }
}

#[test]
fn values_of_bytes_share_the_memory_that_is_decoded() {
    let bytes = Bytes::from(field(1, &tree(2).encode_to_vec()));
    let found: Tree = run::decode(&bytes, 2, 1).unwrap();
    let value = &found.children[0].bark;
    assert_eq!(value.len(), 18);
    assert!(bytes.as_ptr_range().contains(&value.as_ptr()));
}

#[test]
fn pieces_too_small_to_be_worth_it_are_decoded_whole() {
    // None of these has more than three bytes, and each stands alone.
    let message = [field(5, b""), field(4, b"n")].concat().repeat(10_000);
    assert_eq!(in_parts::<Tree>(&message, 1 << 10), None);
    let expected = Tree::decode(&message[..]).unwrap();
    assert!(decode_with::<Tree>(message, &options(1 << 10)).unwrap() == expected);
}

#[test]
fn what_is_no_message_is_refused_as_prost_does() {
    let good = tree(2).encode_to_vec();
    let bad = [
        ("a string that is no text", field(5, &field(1, b"\xff"))),
        ("an element that isn't length-delimited", vec![5 << 3, 0]),
        ("an element that ends in a tag", field(5, b"\x0a")),
        ("a field past the end of its element", field(5, b"\x0a\x09")),
        ("no tag", vec![0]),
        ("a length past the end", vec![0x2a, 0x7f]),
        ("a group that isn't ended", vec![0x73]),
        ("an end of a group", vec![0x74]),
    ];
    for (what, bad) in bad {
        let within = field(2, &[field(1, &bad), good.clone()].concat());
        for message in [
            [&good[..], &bad].concat(),
            [&good[..], &within, &good].concat(),
        ] {
            let expected = Tree::decode(&message[..]).expect_err(what);
            assert_eq!(in_parts::<Tree>(&message, 8), None, "{what}");
            let found = decode_with::<Tree>(message, &options(8)).expect_err(what);
            assert_eq!(found.kind(), ErrorKind::InvalidMessage, "{what}");
            assert!(
                found.to_string().ends_with(&expected.to_string()),
                "{found}"
            );
        }
    }
}
