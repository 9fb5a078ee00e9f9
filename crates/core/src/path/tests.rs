use prost_reflect::{DescriptorPool, MessageDescriptor};

use super::*;
use crate::ErrorKind;
use crate::proto::FieldIndex;
use crate::proto::field_index::{Kind, MapKey as KeyTag, map_key};

/// Returns the type `ChunkedMessage`. It contains repeated messages, among them messages of the
/// type `FieldIndex`, which has a oneof.
fn chunked_message() -> MessageDescriptor {
    let pool = crate::proto::descriptor_pool();
    pool.get_message_by_name("tensorflow.proto_splitter.ChunkedMessage")
        .unwrap()
}

fn message_with_map() -> MessageDescriptor {
    DescriptorPool::global()
        .get_message_by_name("google.protobuf.Struct")
        .unwrap()
}

#[test]
fn paths_in_numbers_read_as_they_are_written() {
    let table: &[(&str, &[Step])] = &[
        ("", &[]),
        ("1", &[Step::field(1)]),
        ("536870911", &[Step::field((1 << 29) - 1)]),
        (
            "2[0].2.1[7]",
            &[Step::index(2, 0), Step::field(2), Step::index(1, 7)],
        ),
        (
            r#"5["value"].8"#,
            &[Step::key(5, MapKey::String("value".into())), Step::field(8)],
        ),
        (
            r#"5["a\"]\\.\n"]"#,
            &[Step::key(5, MapKey::String("a\"]\\.\n".into()))],
        ),
        (
            r#"5["\u0001é"]"#,
            &[Step::key(5, MapKey::String("\u{1}é".into()))],
        ),
        ("7[true]", &[Step::key(7, MapKey::Bool(true))]),
        ("6[-1345]", &[Step::key(6, MapKey::I64(-1345))]),
    ];
    for (text, steps) in table {
        let path: FieldPath = text.parse().unwrap();
        assert_eq!(path.steps(), *steps, "{text}");
        assert_eq!(path.to_string(), *text);
    }
}

#[test]
fn text_that_is_no_path_is_refused_with_the_reason() {
    let table = [
        (
            "a",
            "a: a is not a field number, and names need the message's type",
        ),
        (
            "0",
            "0: 0 is not a field number, and names need the message's type",
        ),
        (
            "536870912",
            "536870912: 536870912 is not a field number, and names need the message's type",
        ),
        ("1.", "1.: the path ends with a dot"),
        (".1", ".1: expected a field's name or number at \".1\""),
        ("1..2", "1..2: expected a field's name or number at \".2\""),
        ("1[", "1[: a [ without its ]"),
        ("1[x]", "1[x]: \"x\" is not an index"),
        ("1[\"x\"", "1[\"x\": expected ] after a key"),
        ("1[\"x", "1[\"x: a key without its closing quote"),
        ("1[\"\\q\"]", "1[\"\\q\"]: a \\ that escapes nothing"),
        ("1[0]2", "1[0]2: expected a dot before \"2\""),
        ("(a.b", "(a.b: an extension name without its )"),
    ];
    for (text, message) in table {
        let error = text.parse::<FieldPath>().unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.kind(), ErrorKind::InvalidPath);
    }
}

#[test]
fn names_and_numbers_are_resolved_against_a_type() {
    let root = chunked_message();
    for text in [
        "chunked_fields[3].message.chunk_index",
        "2[3].3.1",
        "chunkedFields[3].3.chunkIndex",
    ] {
        let path = FieldPath::parse(text, &root).unwrap();
        assert_eq!(path.to_string(), "2[3].3.1");
        assert_eq!(
            path.display(Some(&root)),
            "chunked_fields[3].message.chunk_index"
        );
    }
    let root = message_with_map();
    let path = FieldPath::parse(r#"fields["k"].struct_value.fields["l"]"#, &root).unwrap();
    assert_eq!(path.to_string(), r#"1["k"].5.1["l"]"#);
    let target = path.resolve(&root).unwrap();
    assert!(matches!(target.kind, TargetKind::Message(value) if value.name() == "Value"));
}

#[test]
fn a_path_that_leads_nowhere_in_its_type_is_refused_with_the_reason() {
    let table = [
        (
            "nothing",
            "nothing: tensorflow.proto_splitter.ChunkedMessage has no field nothing",
        ),
        (
            "chunk_index.x",
            "chunk_index.x: chunk_index is not a message, so it has no field x",
        ),
        (
            "chunk_index[1]",
            "chunk_index[1]: [1] doesn't belong to chunk_index",
        ),
        (
            "chunked_fields.message",
            "chunked_fields.message: chunked_fields needs an [index]",
        ),
        (
            "chunked_fields[\"a\"]",
            "chunked_fields[\"a\"]: the path needs an index or key that selects one element",
        ),
    ];
    for (text, message) in table {
        let error = FieldPath::parse(text, &chunked_message()).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let error = FieldPath::parse("fields[1]", &message_with_map()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fields[1]: \"1\" is not a key of fields, whose keys are string"
    );
}

#[test]
fn resolving_says_what_a_path_leads_to_or_why_it_does_not() {
    let root = chunked_message();
    let table = [
        (
            "99999",
            "99999: field 99999 not found in tensorflow.proto_splitter.ChunkedMessage",
        ),
        (
            "1[0]",
            "chunk_index[0]: the path has an index for chunk_index, which is not repeated",
        ),
        (
            "2[true]",
            "chunked_fields[true]: the path has a map key for chunked_fields, which is not a map",
        ),
        (
            "1.1",
            "chunk_index.1: the path continues below a value that is not a message",
        ),
        (
            "2.3",
            "chunked_fields.message: the path continues below a repeated or map field without an index or key",
        ),
    ];
    for (text, message) in table {
        let path: FieldPath = text.parse().unwrap();
        assert_eq!(path.resolve(&root).unwrap_err().to_string(), message);
    }
    assert!(
        "2".parse::<FieldPath>()
            .unwrap()
            .resolve(&root)
            .unwrap()
            .whole_field
    );
    let path: FieldPath = "2[0].3.1".parse().unwrap();
    assert_eq!(
        path.resolve(&root).unwrap().kind,
        TargetKind::Scalar(prost_reflect::Kind::Uint64)
    );
}

#[test]
fn tags_and_paths_are_the_same_both_ways() {
    let keys = [
        MapKey::String("k".into()),
        MapKey::Bool(false),
        MapKey::U32(u32::MAX),
        MapKey::U64(u64::MAX),
        MapKey::I32(i32::MIN),
        MapKey::I64(i64::MIN),
    ];
    for key in keys {
        let path: FieldPath = [Step::field(1), Step::key(2, key), Step::index(3, u64::MAX)]
            .into_iter()
            .collect();
        let tags = path.to_tags();
        assert_eq!(tags.len(), 5);
        assert_eq!(FieldPath::from_tags(&tags).unwrap(), path);
    }
}

#[test]
fn tags_that_make_no_path_are_refused() {
    let tag = |kind| FieldIndex { kind: Some(kind) };
    let key = |r#type| Kind::MapKey(KeyTag { r#type });
    let table = [
        (
            vec![tag(Kind::Index(0))],
            "field tag 0: an index or map key that belongs to no field",
        ),
        (
            vec![
                tag(Kind::Field(1)),
                tag(Kind::Index(0)),
                tag(Kind::Index(0)),
            ],
            "field tag 2: an index or map key that belongs to no field",
        ),
        (
            vec![tag(key(Some(map_key::Type::Boolean(true))))],
            "field tag 0: an index or map key that belongs to no field",
        ),
        (
            vec![tag(Kind::Field(1)), tag(key(None))],
            "field tag 1: a map key without a type",
        ),
        (
            vec![FieldIndex { kind: None }],
            "field tag 0: a tag that is neither field, index nor map key",
        ),
        (
            vec![tag(Kind::Field(0))],
            "field tag 0: 0 is not a field number",
        ),
        (
            vec![tag(Kind::Field(1 << 29))],
            "field tag 0: 536870912 is not a field number",
        ),
    ];
    for (tags, message) in table {
        let error = FieldPath::from_tags(&tags).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::InvalidTrailer, message)
        );
    }
}

#[test]
fn paths_order_as_chunks_are_merged() {
    let ordered = [
        "",
        "1",
        "1[0]",
        "1[0].2",
        "1[1]",
        "1[10]",
        "1[false]",
        "2",
        r#"5["a"]"#,
        r#"5["a"].8"#,
        r#"5["b"]"#,
    ];
    let mut paths: Vec<FieldPath> = ordered.iter().map(|text| text.parse().unwrap()).collect();
    paths.reverse();
    paths.sort();
    let sorted: Vec<String> = paths.iter().map(ToString::to_string).collect();
    assert_eq!(sorted, ordered);
}
