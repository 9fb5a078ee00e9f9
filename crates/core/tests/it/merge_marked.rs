//! Tests of merging handwritten files with placeholders, according to docs/cpb-format.md.

use crate::merge_support::{Chunked, cat, entry, fixed32, group, int, len, padded};

fn ok(what: &str, chunked: &Chunked, expected: &[u8]) {
    let merged = chunked
        .merge()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(merged, expected, "{what}");
}

#[test]
fn a_base_alone_is_the_message() {
    ok("empty", &Chunked::marked().base([]), &[]);
    ok("some", &Chunked::marked().base(int(1, 5)), &int(1, 5));
}

#[test]
fn a_value_goes_where_its_placeholder_stands() {
    let big = vec![7u8; 300];
    let inner = |value: &[u8]| cat([int(9, 1), len(4, value), int(1, 2)]);
    let whole = |value: &[u8]| cat([len(3, inner(value)), int(1, 1)]);
    ok(
        "bytes",
        &Chunked::marked().base(whole(&[])).bytes("3.4", big.clone()),
        &whole(&big),
    );
    ok(
        "nothing",
        &Chunked::marked().base(whole(&[])).bytes("3.4", []),
        &whole(&[]),
    );
    // Tags are copied, but lengths are rewritten.
    let odd = |value: &[u8]| [&[0x9a, 0x80, 0x00][..], &len(3, value)[1..]].concat();
    ok(
        "tags",
        &Chunked::marked().base(odd(&[])).bytes("3", big.clone()),
        &odd(&big),
    );
    let long = cat([padded(3, padded(4, [], 4), 9), padded(5, "x", 10)]);
    let short = cat([len(3, len(4, &big)), padded(5, "x", 10)]);
    ok(
        "lengths",
        &Chunked::marked().base(long).bytes("3.4", big),
        &short,
    );
}

#[test]
fn indices_count_over_the_pieces_of_a_message() {
    // A singular submessage is in two pieces, each with elements, around another field.
    let whole = |a: &[u8], b: &[u8]| {
        cat([
            len(2, cat([len(1, "0"), len(1, a)])),
            int(7, 7),
            len(2, cat([int(3, 3), len(1, b)])),
        ])
    };
    let chunked = Chunked::marked()
        .base(whole(b"", b""))
        .bytes("2.1[2]", "two")
        .bytes("2.1[1]", "one");
    ok("pieces", &chunked, &whole(b"one", b"two"));
    // If a singular value occurs twice, the last occurrence counts.
    let twice = |last: &[u8]| cat([len(5, "superseded"), int(1, 1), len(5, last)]);
    ok(
        "last",
        &Chunked::marked().base(twice(b"")).bytes("5", "wins"),
        &twice(b"wins"),
    );
}

#[test]
fn indices_do_not_count_other_wire_types() {
    let whole = |a: &[u8]| {
        cat([
            int(1, 0),
            len(1, "x"),
            fixed32(1, 0),
            len(1, a),
            group(1, []),
        ])
    };
    ok(
        "mixed",
        &Chunked::marked().base(whole(b"")).bytes("1[1]", "one"),
        &whole(b"one"),
    );
}

#[test]
fn groups_keep_their_tags() {
    let whole = |a: &[u8], b: &[u8]| {
        cat([
            group(2, cat([len(1, a), int(2, 2)])),
            group(2, b),
            len(3, group(4, b)),
        ])
    };
    let b = cat([len(1, "hello"), group(9, int(1, 1))]);
    let chunked = Chunked::marked()
        .base(whole(b"", b""))
        .bytes("2[0].1", "x".repeat(200))
        .message("2[1]", b.clone())
        .message("3.4", b.clone());
    ok("groups", &chunked, &whole(&[b'x'; 200], &b));
}

#[test]
fn map_values_are_found_by_their_keys() {
    let whole = |a: &[u8], b: &[u8]| {
        cat([
            entry(5, "other", len(2, int(1, 1))),
            entry(5, "value", len(2, a)),
            // The first entry has no key, which means the empty key. In the second entry, the value
            // comes first.
            len(5, len(2, b)),
            len(5, cat([len(2, b), len(1, "last")])),
        ])
    };
    let chunked = Chunked::marked()
        .base(whole(b"", b""))
        .message(r#"5["value"]"#, int(3, 3))
        .message(r#"5[""]"#, int(4, 4))
        .message(r#"5["last"]"#, int(4, 4));
    ok("strings", &chunked, &whole(&int(3, 3), &int(4, 4)));

    let entries = |v: [&[u8]; 5]| {
        cat([
            len(1, cat([int(1, 3), len(2, v[0])])),
            len(2, cat([int(1, (-7i64).cast_unsigned()), len(2, v[1])])),
            len(3, cat([fixed32(1, 9), len(2, v[2])])),
            len(4, len(2, v[3])),
            len(5, cat([int(1, 1 << 40), len(2, v[4])])),
        ])
    };
    let chunked = Chunked::marked()
        .base(entries([b""; 5]))
        .bytes("1[3u32]", "a")
        .bytes("2[-7i32]", "b")
        .bytes("3[9u32]", "c")
        .bytes("4[false]", "d")
        .bytes("5[1099511627776i64]", "e");
    ok(
        "numbers",
        &chunked,
        &entries([b"a", b"b", b"c", b"d", b"e"]),
    );
}

#[test]
fn of_two_entries_with_one_key_the_last_counts() {
    let whole = |v: &[u8]| {
        cat([
            entry(5, "k", len(2, len(1, "old"))),
            entry(5, "k", len(2, len(1, v))),
        ])
    };
    ok(
        "entries",
        &Chunked::marked()
            .base(whole(b""))
            .bytes(r#"5["k"].1"#, "new"),
        &whole(b"new"),
    );
    let index = |v: &[u8]| {
        cat([
            entry(5, "k", len(2, cat([len(1, "a"), len(1, "b")]))),
            entry(5, "k", len(2, len(1, v))),
        ])
    };
    ok(
        "index",
        &Chunked::marked()
            .base(index(b""))
            .bytes(r#"5["k"].1[0]"#, "new"),
        &index(b"new"),
    );
}

#[test]
fn what_earlier_entries_with_a_key_contain_does_not_count() {
    let value = |elements: &[&str], inner: Vec<u8>| {
        let elements = elements.iter().flat_map(|element| len(3, element));
        entry(1, "k", len(2, cat([elements.collect(), inner])))
    };
    let whole = |element: &str, inner: &[u8]| {
        cat([
            value(&["a", "b"], len(4, len(5, []))),
            value(&["c"], vec![]),
            value(&["d", "e"], len(4, len(5, "superseded"))),
            value(&["f", element], len(4, len(5, inner))),
        ])
    };
    let chunked = Chunked::marked()
        .base(whole("", b""))
        .bytes(r#"1["k"].3[1]"#, "element")
        .bytes(r#"1["k"].4.5"#, "inner");
    ok("found in the last", &chunked, &whole("element", b"inner"));
    for (at, what) in [
        ("3[1]", "index 1 is out of range: the field has 1 elements"),
        ("4.5", "the field does not occur"),
    ] {
        let base = cat([value(&["a", ""], len(4, len(5, []))), value(&["b"], vec![])]);
        let chunked = Chunked::marked()
            .base(base)
            .bytes(&format!(r#"1["k"].{at}"#), "x");
        let error = chunked.merge().unwrap_err().to_string();
        assert!(error.ends_with(what), "{error}");
    }
}

#[test]
fn slices_go_behind_the_last_element() {
    let nodes = |range: std::ops::Range<u32>| {
        range
            .map(|i| len(1, format!("node {i}")))
            .collect::<Vec<_>>()
            .concat()
    };
    let chunked = Chunked::marked()
        .base(cat([int(9, 1), nodes(0..2), len(2, "library")]))
        .message("", nodes(2..3))
        .message("", nodes(3..10));
    ok(
        "root",
        &chunked,
        &cat([int(9, 1), nodes(0..10), len(2, "library")]),
    );
    // One slice is in an inline message, and another is in a message that is itself a chunk.
    let chunked = Chunked::marked()
        .base(cat([
            len(2, cat([nodes(0..1), int(3, 3)])),
            int(4, 4),
            len(5, []),
        ]))
        .message("2", nodes(1..5))
        .message("5", cat([nodes(0..1), int(3, 3)]))
        .message("5", nodes(1..5));
    let inner = cat([nodes(0..5), int(3, 3)]);
    ok(
        "below",
        &chunked,
        &cat([len(2, inner.clone()), int(4, 4), len(5, inner)]),
    );
    // These slices have unpacked scalars and groups.
    let chunked = Chunked::marked()
        .base(cat([int(1, 0), group(2, int(1, 1)), int(3, 3)]))
        .message("", cat([int(1, 1), int(1, 2)]))
        .message("", group(2, int(1, 2)));
    let whole = cat([
        int(1, 0),
        int(1, 1),
        int(1, 2),
        group(2, int(1, 1)),
        group(2, int(1, 2)),
        int(3, 3),
    ]);
    ok("others", &chunked, &whole);
}

#[test]
fn chunks_at_one_path_follow_their_indices_not_the_list() {
    let mut chunked = Chunked::marked()
        .base(cat([len(1, "0"), int(2, 2)]))
        .message("", len(1, "1"))
        .message("", len(1, "2"));
    chunked.message_mut().chunked_fields.reverse();
    ok(
        "order",
        &chunked,
        &cat([len(1, "0"), len(1, "1"), len(1, "2"), int(2, 2)]),
    );
}

#[test]
fn indices_go_on_counting_through_slices() {
    let node = |v: &[u8]| len(1, cat([int(1, 1), len(4, v)]));
    let chunked = Chunked::marked()
        .base(cat([node(b"0"), node(b""), int(2, 2)]))
        .message("", cat([node(b""), node(b"3")]))
        .message("", cat([node(b"4"), node(b"")]))
        .bytes("1[1].4", "one")
        .bytes("1[2].4", "two")
        .bytes("1[5].4", "five");
    let nodes = [&b"0"[..], b"one", b"two", b"3", b"4", b"five"]
        .map(node)
        .concat();
    ok("slices", &chunked, &cat([nodes, int(2, 2)]));
    // A slice contains the placeholder for an element, and the element contains the placeholder for
    // a value.
    let chunked = Chunked::marked()
        .base(cat([len(1, []), int(2, 2)]))
        .message("", cat([len(1, "x"), len(1, [])]))
        .message("1[2]", cat([int(1, 1), len(4, [])]))
        .bytes("1[2].4", "deep");
    ok(
        "nested",
        &chunked,
        &cat([len(1, []), len(1, "x"), node(b"deep"), int(2, 2)]),
    );
    // The map entry for the path's key is in a slice.
    let chunked = Chunked::marked()
        .base(entry(5, "a", len(2, "A")))
        .message(
            "",
            cat([entry(5, "b", len(2, "B")), entry(5, "c", len(2, []))]),
        )
        .bytes(r#"5["c"]"#, "C");
    ok(
        "map",
        &chunked,
        &cat([
            entry(5, "a", len(2, "A")),
            entry(5, "b", len(2, "B")),
            entry(5, "c", len(2, "C")),
        ]),
    );
}

#[test]
fn packed_slices_continue_the_run() {
    let chunked = Chunked::marked()
        .base(cat([int(1, 1), len(3, [1, 2]), int(4, 4)]))
        .packed("", len(3, [3, 4]))
        .packed("", padded(3, [5; 200], 7));
    let run: Vec<u8> = [1, 2, 3, 4].into_iter().chain([5; 200]).collect();
    ok("run", &chunked, &cat([int(1, 1), len(3, run), int(4, 4)]));
    // Tests an empty run, two runs, and a run that only a slice adds.
    let chunked = Chunked::marked()
        .base(cat([len(2, cat([len(3, [9]), len(3, [])])), int(4, 4)]))
        .packed("2", len(3, [1]))
        .message("2", len(3, [2]))
        .packed("2", len(3, [3, 4]));
    let whole = cat([
        len(2, cat([len(3, [9]), len(3, [1]), len(3, [2, 3, 4])])),
        int(4, 4),
    ]);
    ok("runs", &chunked, &whole);
}

#[test]
fn nested_chunked_messages_have_relative_paths() {
    let tensor = |v: &[u8]| cat([int(1, 1), len(4, v)]);
    let whole = |v: &[u8]| {
        len(
            1,
            cat([len(1, "n"), entry(5, "value", len(2, len(8, tensor(v))))]),
        )
    };
    let chunked = Chunked::marked()
        .base(len(1, cat([len(1, "n"), entry(5, "value", len(2, []))])))
        .message(r#"1[0].5["value"]"#, len(8, tensor(b"")))
        .bytes("8.4", "content")
        .nest(1);
    ok("nested", &chunked, &whole(b"content"));
}

#[test]
fn chunks_are_spliced_into_chunks() {
    let level = |inner: &[u8]| cat([int(1, 1), len(2, inner), int(3, 3)]);
    let whole = level(&level(&level(&[0xaa; 200])));
    let chunked = Chunked::marked()
        .base(level(&[]))
        .message("2", level(&[]))
        .message("2.2", level(&[]))
        .bytes("2.2.2", [0xaa; 200]);
    ok("chain", &chunked, &whole);
}

#[test]
fn join_version_1_puts_one_value_together_from_several_chunks() {
    let mut chunked = Chunked::marked()
        .base(len(1, []))
        .bytes("1", "one ")
        .bytes("1", "two");
    let error = chunked.merge().unwrap_err();
    assert_eq!(
        error.to_string(),
        "1: chunk 1: 2 BYTES chunks at one path, not allowed in join version 0"
    );
    chunked.metadata.version.as_mut().unwrap().join_version = 1;
    chunked.metadata.extended_message = chunked.metadata.message.take();
    ok("1", &chunked, &len(1, "one two"));
    chunked.message_mut().chunked_fields.reverse();
    ok("list order", &chunked, &len(1, "twoone "));
}

#[test]
fn every_violation_has_its_own_error() {
    let node = |v: &[u8]| len(1, cat([int(1, 1), len(4, v)]));
    let marked = Chunked::marked;
    let cases: Vec<(Chunked, &str)> = vec![
        (
            marked().base(node(b"full")).bytes("1[0].4", "x"),
            "1[0].4: chunk 0: chunk 1 belongs where 4 bytes are instead of an empty placeholder at 0x4",
        ),
        (
            marked().base(len(3, group(4, []))).bytes("3.4", "x"),
            "3.4: chunk 0: chunk 1 belongs where 0 bytes are instead of an empty placeholder at 0x2",
        ),
        (
            marked().base(cat([len(4, []), len(4, [])])).bytes("4", "x"),
            "4: chunk 0: 2 empty placeholders for chunk 1 at 0x2",
        ),
        (
            marked()
                .base(cat([len(4, []), len(4, [])]))
                .message("4", "\x08\x01"),
            "4: chunk 0: 2 empty placeholders for chunk 1 at 0x2",
        ),
        (
            marked()
                .base(cat([entry(5, "k", len(2, [])), entry(5, "k", len(2, []))]))
                .bytes(r#"5["k"]"#, "x"),
            r#"5["k"]: chunk 0: 2 empty placeholders for chunk 1 at 0xc"#,
        ),
        (
            marked().base(node(b"")).bytes("1[1].4", "x"),
            "1[1]: no placeholder for chunk 1: index 1 is out of range: the field has 1 elements",
        ),
        (
            marked()
                .base(node(b""))
                .message("", node(b""))
                .bytes("1[2].4", "x"),
            "1[2]: no placeholder for chunk 2: index 2 is out of range: the field has 2 elements",
        ),
        (
            marked().base(int(1, 1)).bytes("4", "x"),
            "4: no placeholder for chunk 1: the field does not occur",
        ),
        (
            marked()
                .base(entry(5, "a", len(2, [])))
                .bytes(r#"5["b"]"#, "x"),
            r#"5["b"]: no placeholder for chunk 1: no map entry has this key"#,
        ),
        (
            marked().base(entry(5, "a", vec![])).bytes(r#"5["a"]"#, "x"),
            r#"5["a"]: no placeholder for chunk 1: the map entry has no value"#,
        ),
        (
            marked().base(len(4, [])).bytes("4", "x").bytes("4", "y"),
            "4: chunk 1: 2 BYTES chunks at one path, not allowed in join version 0",
        ),
        (
            marked().base(len(4, [])).bytes("4", "x").message("4", "y"),
            "4: chunk 1: a BYTES chunk at the path of MESSAGE chunk 2",
        ),
        (
            marked()
                .base(len(4, []))
                .bytes("4", "x")
                .message("4.1", "y"),
            "4: chunk 1: a BYTES chunk with chunked fields below it",
        ),
        (
            marked().bytes("", "x"),
            "chunk 0: a BYTES chunk where the message itself belongs",
        ),
        (
            marked().base(int(1, 1)).message("", int(2, 2)),
            "chunk 1: the slice continues field 2, which does not occur in the message",
        ),
        (
            marked().base(int(1, 1)).message("", []),
            "chunk 1: a slice without elements",
        ),
        (
            marked()
                .base(node(b"0"))
                .message("", cat([node(b""), int(2, 2)]))
                .bytes("1[1].4", "x"),
            "chunk 1: a slice of field 1 has a field 2 in it at 0x6",
        ),
        (
            marked()
                .base(len(3, [1]))
                .packed("", cat([len(3, [2]), len(3, [3])])),
            "chunk 1: the packed slice is not one run of packed elements",
        ),
        (
            marked().base(int(3, 1)).packed("", len(3, [2])),
            "chunk 1: field 3 has no packed run to be continued",
        ),
        (
            marked()
                .base(len(3, []))
                .bytes("3[0]", "x")
                .message("3", int(1, 1)),
            "3[0]: paths with and without an index, or with indices and keys, into one field",
        ),
        (
            marked()
                .base(len(3, []))
                .bytes("3[1u32]", "x")
                .bytes("3[1u64]", "x"),
            "3[1]: keys of different types on one map",
        ),
        (
            marked().base([0x0a, 5, 1]).bytes("1.2", "x"),
            "chunk 0: field 1: 5 bytes run past the end of the message, which has 1 more at 0x0",
        ),
        (
            marked().base(len(1, [0x0a, 5, 1])).bytes("1.2", "x"),
            "1: chunk 0: field 1: 5 bytes run past the end of the message, which has 1 more at 0x2",
        ),
        (
            marked().base([0x0b]).bytes("1.2", "x"),
            "chunk 0: group 1 has no end tag at 0x0",
        ),
        (
            marked().base([0x0b, 0x14]).bytes("1.2", "x"),
            "1: chunk 0: group 1 is closed by the end tag of group 2 at 0x1",
        ),
        (
            marked().base([0x0c]).bytes("1", "x"),
            "chunk 0: an end group tag without a group at 0x0",
        ),
        (
            marked().base(len(1, [0x0c])).bytes("1.2", "x"),
            "1: chunk 0: an end group tag without a group at 0x2",
        ),
        (
            marked()
                .base(len(5, [0x0a, 9, 1]))
                .bytes(r#"5["k"].1"#, "x"),
            "chunk 0: the map entry is truncated at 0x2",
        ),
    ];
    for (chunked, expected) in cases {
        let error = chunked.merge().expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_chunk_is_used_once() {
    let mut chunked = Chunked::marked()
        .base(cat([len(1, []), len(2, [])]))
        .bytes("1", "x")
        .bytes("2", "y");
    chunked.message_mut().chunked_fields[1]
        .message
        .as_mut()
        .unwrap()
        .chunk_index = Some(1);
    assert_eq!(
        chunked.merge().unwrap_err().to_string(),
        "2: chunk 1: the chunk is used in two places"
    );
    chunked.message_mut().chunked_fields.pop();
    assert_eq!(
        chunked.merge().unwrap_err().to_string(),
        "chunk 2: no path refers to the chunk"
    );
}

#[test]
fn a_message_of_many_pieces_is_walked_in_little_memory() {
    // The message has two hundred thousand elements, one of which is cut.
    let mut base = Vec::new();
    for i in 0..200_000u32 {
        base.extend(len(1, if i == 150_000 { vec![] } else { int(1, 7) }));
    }
    let chunked = Chunked::marked().base(base).message("1[150000]", int(1, 8));
    assert_eq!(chunked.merge().unwrap().len(), 200_000 * 4);
}
