//! Tests of cases in which the bytes alone are ambiguous: with the type, without the type, and with
//! the plain interpretation.

use crate::merge_support::schema::descriptor;
use crate::merge_support::{Chunked, cat, entry, fixed32, fixed64, group, int, len};
use proto_splitter_core::ErrorKind;
use proto_splitter_core::merge::ReadOptions;

struct Case {
    what: &'static str,
    chunked: Chunked,
    typed: Vec<u8>,
    /// Expected bytes without the type, or the error that names the path.
    untyped: Result<Vec<u8>, &'static str>,
    plain: Vec<u8>,
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn every_ambiguous_case_with_and_without_the_type() {
    let file = Chunked::unmarked;
    let i32 = |value| int(1, value);
    let zigzag = |key: u64, value: Vec<u8>| len(19, cat([int(1, key), len(2, value)]));
    let cases = [
        Case {
            what: "a value: bytes, or a number as text",
            chunked: file().base([]).bytes("1", "5"),
            typed: i32(5),
            untyped: Err(
                "1: chunk 1 can't be put in without the message's type, which says whether it is a string, bytes, or a number as text",
            ),
            plain: len(1, "5"),
        },
        Case {
            what: "a value that has a placeholder is not a number",
            chunked: file().base(len(8, [])).bytes("8", "5"),
            typed: len(8, "5"),
            untyped: Ok(len(8, "5")),
            plain: len(8, "5"),
        },
        Case {
            what: "an element: of repeated bytes, or of packed numbers",
            chunked: file()
                .base(cat([len(37, "a"), len(37, "b")]))
                .bytes("37[1]", "5"),
            typed: cat([len(37, "a"), len(37, "5")]),
            untyped: Err(
                "37[1]: chunk 1 can't be put in without the message's type, which says whether it is a string, bytes, or a number as text",
            ),
            plain: cat([len(37, "a"), len(37, "5")]),
        },
        Case {
            what: "a map's value: bytes, or a number as text",
            chunked: file().base(entry(22, "k", vec![])).bytes(r#"22["k"]"#, "5"),
            typed: entry(22, "k", int(2, 5)),
            untyped: Err(
                "22[\"k\"]: chunk 1 can't be put in without the message's type, which says whether it is a string, bytes, or a number as text",
            ),
            plain: entry(22, "k", len(2, "5")),
        },
        Case {
            what: "a map's value that is there as bytes",
            chunked: file()
                .base(entry(21, "k", len(2, "x")))
                .bytes(r#"21["k"]"#, "5"),
            typed: entry(21, "k", len(2, "5")),
            untyped: Ok(entry(21, "k", len(2, "5"))),
            plain: entry(21, "k", len(2, "5")),
        },
        Case {
            what: "a message that is missing: a group, or length-delimited",
            chunked: file().base([]).message("33", i32(5)),
            typed: group(33, i32(5)),
            untyped: Err(
                "33: chunk 1 can't be put in without the message's type, which says whether it is a group or length-delimited",
            ),
            plain: len(33, i32(5)),
        },
        Case {
            what: "a message on the way that is missing",
            chunked: file().base([]).message("9.10[0]", i32(5)),
            typed: len(9, len(10, i32(5))),
            untyped: Err(
                "9: chunk 1 can't be put in without the message's type, which says whether it is a group or length-delimited",
            ),
            plain: len(9, len(10, i32(5))),
        },
        Case {
            what: "a group that is there",
            chunked: file().base(group(33, [])).message("33", i32(5)),
            typed: group(33, i32(5)),
            untyped: Ok(group(33, i32(5))),
            plain: group(33, i32(5)),
        },
        Case {
            what: "one more element, where others show how",
            chunked: file().base(len(10, i32(4))).message("10[1]", i32(5)),
            typed: cat([len(10, i32(4)), len(10, i32(5))]),
            untyped: Ok(cat([len(10, i32(4)), len(10, i32(5))])),
            plain: cat([len(10, i32(4)), len(10, i32(5))]),
        },
        Case {
            what: "the first element",
            chunked: file().base([]).message("10[0]", i32(5)),
            typed: len(10, i32(5)),
            untyped: Err(
                "10[0]: chunk 1 can't be put in without the message's type, which says whether it is a group or length-delimited",
            ),
            plain: len(10, i32(5)),
        },
        Case {
            what: "signed keys: plain, or zigzag",
            chunked: file().base(zigzag(5, i32(1))).message("19[-3i32]", i32(2)),
            typed: zigzag(5, cat([i32(1), i32(2)])),
            untyped: Err(
                "19[-3]: chunk 0: chunk 1 can't be put in without the message's type, which says how the map's keys are encoded",
            ),
            plain: cat([
                zigzag(5, i32(1)),
                len(19, cat([int(1, (-3i64).cast_unsigned()), len(2, i32(2))])),
            ]),
        },
        Case {
            what: "a key that is missing: a varint, or fixed",
            chunked: file().base([]).message("20[3u64]", i32(2)),
            typed: len(20, cat([fixed64(1, 3), len(2, i32(2))])),
            untyped: Err(
                "20[3]: chunk 1 can't be put in without the message's type, which says how the map's keys are encoded",
            ),
            plain: len(20, cat([int(1, 3), len(2, i32(2))])),
        },
        Case {
            what: "a key that is missing, where another shows how",
            chunked: file()
                .base(len(20, cat([fixed64(1, 9), len(2, [])])))
                .message("20[3u64]", i32(2)),
            typed: cat([
                len(20, cat([fixed64(1, 9), len(2, [])])),
                len(20, cat([fixed64(1, 3), len(2, i32(2))])),
            ]),
            untyped: Ok(cat([
                len(20, cat([fixed64(1, 9), len(2, [])])),
                len(20, cat([fixed64(1, 3), len(2, i32(2))])),
            ])),
            plain: cat([
                len(20, cat([fixed64(1, 9), len(2, [])])),
                len(20, cat([fixed64(1, 3), len(2, i32(2))])),
            ]),
        },
        Case {
            what: "an unsigned key that is there says itself how",
            chunked: file()
                .base(len(16, cat([int(1, 3), len(2, [])])))
                .message("16[3u32]", i32(2)),
            typed: len(16, cat([int(1, 3), len(2, i32(2))])),
            untyped: Ok(len(16, cat([int(1, 3), len(2, i32(2))]))),
            plain: len(16, cat([int(1, 3), len(2, i32(2))])),
        },
        Case {
            what: "string and bool keys are written in one way",
            chunked: file()
                .base([])
                .message(r#"13["k"]"#, i32(1))
                .message("18[true]", i32(2)),
            typed: cat([
                entry(13, "k", len(2, i32(1))),
                len(18, cat([int(1, 1), len(2, i32(2))])),
            ]),
            untyped: Ok(cat([
                entry(13, "k", len(2, i32(1))),
                len(18, cat([int(1, 1), len(2, i32(2))])),
            ])),
            plain: cat([
                entry(13, "k", len(2, i32(1))),
                len(18, cat([int(1, 1), len(2, i32(2))])),
            ]),
        },
        Case {
            what: "a slice: among the fields, or at the end, where it is right for a oneof too",
            chunked: file()
                .base(cat([len(10, i32(1)), len(30, i32(1)), int(36, 1)]))
                .message("", cat([len(10, i32(2)), len(23, i32(3))])),
            typed: cat([
                len(10, i32(1)),
                len(10, i32(2)),
                len(30, i32(1)),
                len(23, i32(3)),
                int(36, 1),
            ]),
            untyped: Ok(cat([
                len(10, i32(1)),
                len(30, i32(1)),
                int(36, 1),
                len(10, i32(2)),
                len(23, i32(3)),
            ])),
            plain: cat([
                len(10, i32(1)),
                len(30, i32(1)),
                int(36, 1),
                len(10, i32(2)),
                len(23, i32(3)),
            ]),
        },
        Case {
            what: "a slice of packed numbers",
            chunked: file().base(len(12, [1])).message("", len(12, [2])),
            typed: cat([len(12, [1]), len(12, [2])]),
            untyped: Ok(cat([len(12, [1]), len(12, [2])])),
            plain: cat([len(12, [1]), len(12, [2])]),
        },
        Case {
            what: "a field where its value is of another wire type",
            chunked: file().base(fixed32(35, 1)).bytes("35", "5"),
            typed: fixed32(35, 5),
            untyped: Err(
                "35: chunk 1 can't be put in without the message's type, which says whether it is a string, bytes, or a number as text",
            ),
            plain: cat([fixed32(35, 1), len(35, "5")]),
        },
    ];
    for Case {
        what,
        chunked,
        typed,
        untyped,
        plain,
    } in cases
    {
        let merge = |options: ReadOptions| chunked.merge_with(&options);
        let with = merge(ReadOptions::new().descriptor(descriptor()));
        assert_eq!(
            with.unwrap_or_else(|e| panic!("{what}: {e}")),
            typed,
            "{what}, typed"
        );
        match (merge(ReadOptions::new()), untyped) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{what}, untyped"),
            (Err(error), Err(expected)) => {
                assert_eq!(error.to_string(), expected, "{what}");
                assert_eq!(error.kind(), ErrorKind::SchemaNeeded, "{what}");
            }
            (found, _) => panic!("{what}, untyped: {found:?}"),
        }
        let found = merge(ReadOptions::new().assume_plain(true));
        assert_eq!(
            found.unwrap_or_else(|e| panic!("{what}: {e}")),
            plain,
            "{what}, plain"
        );
    }
}

#[test]
fn marked_files_need_no_type_and_take_none_amiss() {
    let base = |v: &[u8]| cat([int(1, 1), len(8, v)]);
    let chunked = Chunked::marked().base(base(&[])).bytes("8", "x");
    let options = ReadOptions::new().descriptor(descriptor());
    assert_eq!(chunked.merge().unwrap(), base(b"x"));
    assert_eq!(chunked.merge_with(&options).unwrap(), base(b"x"));
    // If the type is known, errors name the fields.
    let chunked = Chunked::marked().base(base(b"full")).bytes("8", "x");
    let error = chunked.merge_with(&options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "y: chunk 0: chunk 1 belongs where 4 bytes are instead of an empty placeholder at 0x2"
    );
}
