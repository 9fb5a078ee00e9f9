//! Tests of merging files without placeholders: TensorFlow's semantics, case by case, and the cases
//! in which TensorFlow's Merger is wrong.

use crate::merge_support::schema::{descriptor, message, text};
use crate::merge_support::{Chunked, cat, entry, group, int, len};
use proto_splitter_core::merge::ReadOptions;

fn file() -> Chunked {
    Chunked::unmarked()
}

fn typed(chunked: &Chunked) -> proto_splitter_core::Result<Vec<u8>> {
    chunked.merge_with(&ReadOptions::new().descriptor(descriptor()))
}

/// Checks that the chunks merge to this message.
fn equal(what: &str, chunked: &Chunked, expected: &str) {
    let merged = typed(chunked).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (merged, expected) = (message(&merged), text(expected));
    // `assert_eq` can't be used, since prost-reflect's `Debug` for a descriptor recurses endlessly
    // if the type contains itself.
    assert!(merged == expected, "{what}:\n{merged}\n{expected}");
}

/// Checks that the chunks merge to these bytes.
fn exact(what: &str, chunked: &Chunked, expected: &[u8]) {
    let merged = typed(chunked).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(merged, expected, "{what}");
}

fn fails(chunked: &Chunked, expected: &str) {
    let error = typed(chunked).expect_err(expected);
    assert_eq!(error.to_string(), expected);
}

fn i32(value: u64) -> Vec<u8> {
    int(1, value)
}

/// Checks the rows of the table "case (Read, TF 2.21)" in the notes on TensorFlow, in the table's
/// order.
#[test]
fn every_case_of_the_table() {
    // Two chunks have the path of the same bytes or string field. TensorFlow sets the field twice,
    // so the last chunk in its sort order wins.
    fails(
        &file().base([]).bytes("8", "ONE").bytes("8", "TWO"),
        "8: chunk 1: 2 BYTES chunks at one path, not allowed in join version 0",
    );
    let mut twice = file().base([]).bytes("8", "ONE").bytes("8", "TWO");
    twice.metadata.version.as_mut().unwrap().join_version = 1;
    twice.metadata.extended_message = twice.metadata.message.take();
    equal(
        "what chunk.proto's comment promises, in join version 1",
        &twice,
        r#"y: "ONETWO""#,
    );
    equal(
        "set, not appended to",
        &file().base(len(8, "old")).bytes("8", "new"),
        r#"y: "new""#,
    );
    exact(
        "nor left behind",
        &file().base(len(8, "old")).bytes("8", "new"),
        &len(8, "new"),
    );

    // A field in a chunk with an empty tag, or in a slice, is merged by protobuf's rules.
    let base = cat([
        i32(1),
        len(7, "a"),
        len(9, i32(1)),
        len(10, i32(1)),
        len(12, [1, 2]),
    ]);
    let slice = cat([
        i32(2),
        len(7, "b"),
        len(9, len(7, "x")),
        len(10, i32(2)),
        int(12, 3),
    ]);
    let merged = r#"i32: 2 s: "b" m { i32: 1 s: "x" } r { i32: 1 } r { i32: 2 } ri: [1, 2, 3]"#;
    equal(
        "empty tag",
        &file().base(base.clone()).message("", slice.clone()),
        merged,
    );
    equal(
        "a parent's path",
        &file().base(len(9, base)).message("9", slice),
        &format!("m {{ {merged} }}"),
    );

    // A MESSAGE chunk at an existing element is merged into the element.
    let base = len(10, cat([i32(1), len(11, "a"), len(7, "old")]));
    let chunked = file()
        .base(base)
        .message("10[0]", cat([len(11, "b"), len(7, "new")]));
    equal(
        "element",
        &chunked,
        r#"r { i32: 1 rs: ["a", "b"] s: "new" }"#,
    );

    // A slice chunk that is referenced twice is appended twice.
    let mut chunked = file().base(len(10, i32(1))).message("", len(10, i32(2)));
    let again = chunked.message_mut().chunked_fields[0].clone();
    chunked.message_mut().chunked_fields.push(again);
    equal("twice", &chunked, "r { i32: 1 } r { i32: 2 } r { i32: 2 }");

    // int32, int64 and uint values are decimal text. TensorFlow reads "12abc" as 12, and aborts on
    // garbage and overflow.
    equal("int32", &file().base([]).bytes("1", "123"), "i32: 123");
    equal("negative", &file().base([]).bytes("1", "-7"), "i32: -7");
    equal("sint32", &file().base([]).bytes("2", "-7"), "s32: -7");
    equal(
        "uint64",
        &file().base([]).bytes("34", "18446744073709551615"),
        "u64: 18446744073709551615",
    );
    equal(
        "int64",
        &file().base([]).bytes("36", "-9223372036854775808"),
        "i64: -9223372036854775808",
    );
    equal(
        "fixed32",
        &file().base([]).bytes("35", "4294967295"),
        "x32: 4294967295",
    );
    fails(
        &file().base([]).bytes("1", "12abc"),
        r#"i32: chunk 1: "12abc" is not an int32"#,
    );
    fails(
        &file().base([]).bytes("1", ""),
        r#"i32: chunk 1: "" is not an int32"#,
    );
    fails(
        &file().base([]).bytes("1", "2147483648"),
        r#"i32: chunk 1: "2147483648" is not an int32"#,
    );
    fails(
        &file().base([]).bytes("34", "-1"),
        r#"u64: chunk 1: "-1" is not a uint64"#,
    );
    fails(
        &file().base([]).bytes("1", [0xff]),
        "i32: chunk 1: text that is not UTF-8 is not an int32",
    );
    fails(
        &file().base([]).bytes("1", [b'1'; 5000]),
        "i32: chunk 1: 5000 bytes of text for one int32",
    );

    // float and double values are text. TensorFlow reads "1e3zzz" as 1000.
    equal("float", &file().base([]).bytes("3", "1.5e3"), "f: 1500");
    equal("double", &file().base([]).bytes("4", "-inf"), "d: -inf");
    fails(
        &file().base([]).bytes("3", "1e3zzz"),
        r#"f: chunk 1: "1e3zzz" is not a float"#,
    );
    fails(
        &file().base([]).bytes("3", "1e39"),
        r#"f: chunk 1: "1e39" is not a float"#,
    );

    // bool values are text. TensorFlow reads "1" as false.
    equal("bool", &file().base([]).bytes("5", "true"), "b: true");
    equal(
        "bool",
        &file().base(int(5, 1)).bytes("5", "false"),
        "b: false",
    );
    fails(
        &file().base([]).bytes("5", "1"),
        r#"b: chunk 1: "1" is not a bool"#,
    );

    // enum values are names. TensorFlow aborts on "6".
    equal("enum", &file().base([]).bytes("6", "E_SIX"), "e: E_SIX");
    equal("enum", &file().base([]).bytes("6", "E_MINUS"), "e: E_MINUS");
    fails(
        &file().base([]).bytes("6", "6"),
        r#"e: chunk 1: "6" is not a value of t.E"#,
    );

    // A string with invalid UTF-8 is accepted, since the merge copies bytes.
    exact(
        "utf-8",
        &file().base([]).bytes("7", [0xff]),
        &len(7, [0xff]),
    );

    // The chunks are elements of a repeated scalar, string or bytes field. TensorFlow aborts.
    equal(
        "strings",
        &file().bytes("11[0]", "a").bytes("11[1]", "b"),
        r#"rs: ["a", "b"]"#,
    );
    equal(
        "replaced",
        &file()
            .base(cat([len(11, "x"), len(11, "y")]))
            .bytes("11[1]", "b"),
        r#"rs: ["x", "b"]"#,
    );
    fails(
        &file().base(len(11, "x")).bytes("11[2]", "b"),
        "rs[2]: index 2 is out of range: the field has 1 elements",
    );
    fails(
        &file().base([]).bytes("12[0]", "1"),
        "ri[0]: an element of ri, a repeated int32, can't be set by a chunk",
    );
    // The path of a repeated field has no index. TensorFlow writes out of bounds, or uses index 0.
    fails(
        &file().base([]).bytes("12", "1"),
        "ri: ri is repeated, but the path has no index for it",
    );
    fails(
        &file().base([]).bytes("11", "1"),
        "rs: rs is repeated, but the path has no index for it",
    );
    // The path of a repeated message has no index. TensorFlow aborts.
    fails(
        &file().base([]).message("10", i32(1)),
        "r: r is repeated, but the path has no index for it",
    );

    // The chunk is the value in a map of scalars. TensorFlow aborts.
    let old = entry(21, "k", len(2, "old"));
    equal(
        "map",
        &file().base([]).bytes(r#"21["k"]"#, "v"),
        r#"mss { key: "k" value: "v" }"#,
    );
    equal(
        "map",
        &file().base(old).bytes(r#"21["k"]"#, "v"),
        r#"mss { key: "k" value: "v" }"#,
    );
    equal(
        "map",
        &file().base(entry(22, "k", vec![])).bytes(r#"22["k"]"#, "5"),
        r#"msi { key: "k" value: 5 }"#,
    );
    // The path of a map lacks the key, or has an index instead. TensorFlow aborts, or treats the
    // index as a key.
    fails(
        &file().base([]).message("13", i32(1)),
        "ms: ms is a map, but the path has no key for it",
    );
    fails(
        &file().base([]).message("14[0]", i32(1)),
        "mi[0]: mi is a map, but the path has an index for it",
    );
    // The path has a map key for a field that is not a map.
    fails(
        &file().base([]).message(r#"10["x"]"#, i32(1)),
        r#"r["x"]: the path has a map key for r, which is not a map"#,
    );
    fails(
        &file().base([]).message(r#"9["x"]"#, i32(1)),
        r#"m["x"]: the path has a map key for m, which is not a map"#,
    );
    fails(
        &file().base([]).message("9[0]", i32(1)),
        "m[0]: the path has an index for m, which is not repeated",
    );
    fails(
        &file().base([]).message(r#"14["x"]"#, i32(1)),
        r#"mi["x"]: the key "x" is not of the map's type, int32"#,
    );

    // A chunk can switch to another member of a oneof.
    equal(
        "switched",
        &file().base(len(31, "text")).bytes("32", "7"),
        "oi: 7",
    );
    equal(
        "switched",
        &file().base(len(31, "text")).message("30.9", i32(7)),
        "om { m { i32: 7 } }",
    );

    // A BYTES chunk has chunked fields below it. TensorFlow ignores these fields.
    fails(
        &file().base([]).bytes("8", "x").bytes("7", "y").nest(1),
        "8: chunk 1: a BYTES chunk with chunked fields below it",
    );

    // A chunk index is out of range. TensorFlow reads out of bounds.
    let mut chunked = file().base([]).bytes("8", "x");
    chunked.message_mut().chunked_fields[0]
        .message
        .as_mut()
        .unwrap()
        .chunk_index = Some(2);
    fails(
        &chunked,
        "8: chunk index 2 is out of range: there are 2 chunks",
    );
    chunked.message_mut().chunk_index = Some(1 << 62);
    fails(
        &chunked,
        "chunk index 4611686018427387904 is out of range: there are 2 chunks",
    );

    // Keys can have 64 bits. TensorFlow truncates 2^33 + 5 to 5.
    let chunked = file()
        .base([])
        .message("15[8589934597i64]", i32(1))
        .message("17[8589934597u64]", i32(2));
    equal(
        "64 bits",
        &chunked,
        "ml { key: 8589934597 value { i32: 1 } } mv { key: 8589934597 value { i32: 2 } }",
    );

    // Inside chunks, numbers may be packed or unpacked.
    let chunked = file()
        .base(cat([int(12, 1), len(12, [2])]))
        .message("", len(12, [3]));
    equal("packed", &chunked, "ri: [1, 2, 3]");

    // A chunk has a wrong size or type, which TensorFlow ignores.
    let mut chunked = file().base([]).bytes("8", "x");
    chunked.metadata.chunks[1].size = 1 << 62;
    fails(
        &chunked,
        "chunk 1: 1 bytes, where the trailer says 4611686018427387904",
    );
    fails(
        &file().base([]).message("8", "x"),
        "y: chunk 1: a MESSAGE chunk for a field of type bytes",
    );
    fails(
        &file().base([]).bytes("9", ""),
        "m: chunk 1: a BYTES chunk for a field of type t.T",
    );
    // The path names a field that is not in the type.
    fails(
        &file().base([]).bytes("99999", "x"),
        "99999: field 99999 not found in t.T",
    );
    fails(
        &file().base([]).bytes("7.1", "x"),
        "s: the path continues below a value, string",
    );
}

#[test]
fn keys_of_every_type_are_found_and_made() {
    let cases: [(&str, u32, &str, Vec<u8>); 8] = [
        ("mi", 14, "[-3i32]", int(1, (-3i64).cast_unsigned())),
        ("ml", 15, "[-3i64]", int(1, (-3i64).cast_unsigned())),
        ("mu", 16, "[3u32]", int(1, 3)),
        ("mv", 17, "[3u64]", int(1, 3)),
        ("mb", 18, "[true]", int(1, 1)),
        ("mz", 19, "[-3i32]", int(1, 5)),
        ("mx", 20, "[3u64]", crate::merge_support::fixed64(1, 3)),
        ("ms", 13, "[\"-3\"]", len(1, "-3")),
    ];
    for (name, number, key, wire) in cases {
        let path = format!("{number}{key}");
        let whole = |value: Vec<u8>| len(number, cat([wire.clone(), len(2, value)]));
        let made = typed(&file().base([]).message(&path, i32(1))).unwrap();
        assert_eq!(made, whole(i32(1)), "{name} made");
        let found = typed(&file().base(whole(i32(1))).message(&path, len(7, "x"))).unwrap();
        assert_eq!(found, whole(cat([i32(1), len(7, "x")])), "{name} found");
        let zero = key
            .replace("[-3", "[0")
            .replace("[3", "[0")
            .replace("true", "false");
        let absent = |value: Vec<u8>| len(number, len(2, value));
        if name != "ms" {
            let path = format!("{number}{zero}");
            let found = typed(&file().base(absent(i32(1))).message(&path, len(7, "x"))).unwrap();
            assert_eq!(found, absent(cat([i32(1), len(7, "x")])), "{name} default");
        }
    }
}

#[test]
fn what_is_missing_is_made_in_ascending_order() {
    let base = cat([i32(1), len(8, "y"), int(36, 1)]);
    let chunked = file()
        .base(base)
        .bytes("7", "s")
        .message("9.10[0].9", i32(4))
        .message(r#"13["k"].9"#, i32(5))
        .message("33", i32(6));
    let expected = cat([
        i32(1),
        len(7, "s"),
        len(8, "y"),
        len(9, len(10, len(9, i32(4)))),
        entry(13, "k", len(2, len(9, i32(5)))),
        group(33, i32(6)),
        int(36, 1),
    ]);
    exact("made", &chunked, &expected);
    // This file has no base chunk.
    let chunked = file()
        .bytes("8", "y")
        .bytes("7", "s")
        .message("10[0]", i32(1))
        .message("10[1]", i32(2));
    exact(
        "no base",
        &chunked,
        &cat([len(7, "s"), len(8, "y"), len(10, i32(1)), len(10, i32(2))]),
    );
    // The chunks are several elements, one of which already exists.
    let chunked = file()
        .base(len(10, []))
        .message("10[2]", i32(3))
        .message("10[0]", i32(1))
        .message("10[1]", i32(2));
    exact(
        "elements",
        &chunked,
        &cat([len(10, i32(1)), len(10, i32(2)), len(10, i32(3))]),
    );
    fails(
        &file().base(len(10, [])).message("10[2]", i32(3)),
        "r[2]: index 2 is out of range: the field has 1 elements",
    );
}

#[test]
fn slices_go_where_their_fields_belong() {
    let node = |i: u64| len(10, i32(i));
    let chunked = file()
        .base(cat([i32(1), node(0), entry(13, "a", vec![]), int(36, 1)]))
        .message("", cat([node(1), node(2)]))
        .message("", node(3))
        .message("", cat([len(7, "s"), node(4), entry(13, "b", vec![])]));
    let expected = cat([
        i32(1),
        len(7, "s"),
        [0, 1, 2, 3, 4].map(node).concat(),
        entry(13, "a", vec![]),
        entry(13, "b", vec![]),
        int(36, 1),
    ]);
    exact("ordered", &chunked, &expected);
    // An unordered base, and an unordered slice, merge to a correct message.
    let chunked = file()
        .base(cat([int(36, 1), node(0), i32(1)]))
        .message("", node(1))
        .message("", i32(2));
    equal(
        "unordered base",
        &chunked,
        "i64: 1 r { i32: 0 } r { i32: 1 } i32: 2",
    );
    let slice = cat([node(2), i32(2), node(3), len(7, "s")]);
    let chunked = file()
        .base(cat([i32(1), node(0), node(1)]))
        .message("", slice)
        .message("", cat([i32(3), node(4)]));
    equal(
        "unordered slice",
        &chunked,
        r#"i32: 3 r{i32:0} r{i32:1} r{i32:2} r{i32:3} r{i32:4} s: "s""#,
    );
    // All elements are in slices. The C++ splitter leaves no element in the base, and writes an
    // empty slice if the first element is large.
    let chunked = file()
        .base(int(36, 1))
        .message("", [])
        .message("", node(0))
        .message("", node(1));
    exact("none left", &chunked, &cat([node(0), node(1), int(36, 1)]));
}

#[test]
fn indices_count_what_slices_bring() {
    // Chunks of elements come before the slices that hold their elements.
    let node = |v: &str| len(10, if v.is_empty() { vec![] } else { len(8, v) });
    let chunked = file()
        .base(cat([node("0"), int(36, 1)]))
        .bytes("10[2].8", "two")
        .message("10[3]", len(8, "three"))
        .message("", cat([node("1"), node("")]))
        .message("", cat([node(""), node("4")]));
    let expected = cat([
        ["0", "1", "two", "three", "4"].map(node).concat(),
        int(36, 1),
    ]);
    exact("elements", &chunked, &expected);
    // A function is a chunk of the library, which is itself a chunk.
    let chunked = file()
        .base(i32(1))
        .message("9.10[0]", cat([i32(2), len(9, [])]))
        .message("9", cat([len(10, []), int(36, 1)]))
        .bytes("9.10[0].9.8", "deep");
    let inner = cat([i32(2), len(9, len(8, "deep"))]);
    exact(
        "chain",
        &chunked,
        &cat([i32(1), len(9, cat([len(10, inner), int(36, 1)]))]),
    );
}

#[test]
fn nested_chunked_messages_merge() {
    // Each node of a tree is a chunk, as in TensorFlow's split-tree test.
    let leaf = |i: u64| i32(i);
    let chunked = file()
        .base(i32(0))
        .message("10[0]", leaf(1))
        .message("10[0]", leaf(2))
        .message("10[1]", leaf(3))
        .nest(2)
        .message("10[1]", leaf(4));
    let expected = "i32: 0 r { i32: 1 r { i32: 2 } r { i32: 3 } } r { i32: 4 }";
    equal("tree", &chunked, expected);
}

#[test]
fn what_is_below_a_field_is_merged_right_behind_it_and_lists_that_cross_are_refused() {
    let behind = file()
        .message("9.9", i32(1))
        .message("9", i32(2))
        .message("9", i32(3))
        .nest(1);
    equal("a path of two lists", &behind, "m { i32: 2 m { i32: 1 } }");
    let crossing = "the paths of two lists of fields cross: this list is merged after fields that \
                    must follow it";
    let above = file()
        .message("9", i32(1))
        .message("9", i32(2))
        .nest(1)
        .message("9", i32(3));
    fails(&above, &format!("9: chunk 2: {crossing}"));
    let oneof = file()
        .message("9", i32(1))
        .bytes("31", "text")
        .nest(1)
        .message("9.30", i32(3));
    fails(&oneof, &format!("9.30: chunk 2: {crossing}"));
}

#[test]
fn of_a_oneof_what_is_set_last_is_left() {
    // The first member is superseded on the wire. Setting a value in that member restores the
    // member without its old content.
    let base = cat([len(30, i32(1)), len(31, "text")]);
    equal(
        "back",
        &file().base(base.clone()).bytes("30.7", "x"),
        r#"om { s: "x" }"#,
    );
    let both = cat([base.clone(), len(30, len(7, "y"))]);
    equal(
        "again",
        &file().base(both).message("30", i32(2)),
        r#"om { s: "y" i32: 2 }"#,
    );
    // The current member is merged in place.
    exact(
        "in place",
        &file()
            .base(cat([len(31, "t"), int(36, 1)]))
            .bytes("31", "u"),
        &cat([len(31, "u"), int(36, 1)]),
    );
    // A member with a lower number that is set later is written after the member with the higher
    // number.
    equal(
        "lower",
        &file().base(len(30, i32(1))).message("23", i32(2)),
        "on { i32: 2 }",
    );
    equal(
        "lower slice",
        &file().base(len(30, i32(1))).message("", len(23, i32(2))),
        "on { i32: 2 }",
    );
    let chunked = file()
        .base(i32(1))
        .message("", len(30, i32(1)))
        .message("", len(23, i32(2)));
    equal("slices", &chunked, "i32: 1 on { i32: 2 }");
    // Two members are both set by chunks, in the order of their paths.
    equal(
        "both",
        &file()
            .base([])
            .bytes("32", "5")
            .bytes("31", "x")
            .message("23", i32(1)),
        "oi: 5",
    );
    equal(
        "both, one there",
        &file()
            .base(len(31, "t"))
            .message("30", i32(1))
            .bytes("31", "x"),
        r#"os: "x""#,
    );
    // A slice clears the current member, and a path sets it again.
    let chunked = file()
        .base(len(30, i32(1)))
        .message("", len(31, "text"))
        .message("30.9", i32(3));
    equal("slice between", &chunked, "om { m { i32: 3 } }");
}

#[test]
fn of_a_duplicate_key_the_last_entry_is_merged_into() {
    let base = cat([
        entry(13, "k", len(2, i32(1))),
        entry(13, "k", len(2, len(7, "last"))),
    ]);
    equal(
        "last",
        &file().base(base).message(r#"13["k"]"#, i32(2)),
        r#"ms { key: "k" value { s: "last" i32: 2 } }"#,
    );
    let chunked = file()
        .base(entry(13, "k", len(2, i32(1))))
        .message("", entry(13, "k", len(2, len(7, "slice"))))
        .message(r#"13["k"].9"#, i32(2));
    equal(
        "slice",
        &chunked,
        r#"ms { key: "k" value { s: "slice" m { i32: 2 } } }"#,
    );
    equal(
        "no value",
        &file()
            .base(entry(13, "k", vec![]))
            .message(r#"13["k"].9"#, i32(2)),
        r#"ms { key: "k" value { m { i32: 2 } } }"#,
    );
}

#[test]
fn other_wire_types_are_unknown_fields() {
    // Field 9 as a varint and field 1 as a string have the wrong wire types, so parsers skip them.
    let base = cat([int(9, 5), len(1, "x"), len(9, i32(1))]);
    let chunked = file().base(base).message("9", i32(2)).bytes("1", "7");
    exact(
        "passed by",
        &chunked,
        &cat([
            int(9, 5),
            len(1, "x"),
            i32(7),
            len(9, cat([i32(1), i32(2)])),
        ]),
    );
}

#[test]
fn placeholders_are_filled_in_place() {
    // A reader that doesn't support placeholders, such as TensorFlow's, can read files with
    // placeholders.
    let whole = |v: &[u8]| {
        cat([
            len(9, len(8, v)),
            entry(13, "k", len(2, len(8, v))),
            group(33, len(8, v)),
            int(36, 1),
        ])
    };
    let chunked = file()
        .base(whole(b""))
        .bytes("9.8", "abc")
        .bytes(r#"13["k"].8"#, "abc")
        .bytes("33.8", "abc");
    exact("filled", &chunked, &whole(b"abc"));
}
