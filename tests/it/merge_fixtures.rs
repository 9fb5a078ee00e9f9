use std::path::{Path, PathBuf};

use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, MessageOptions,
};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use proto_splitter::ErrorKind;
use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::{ChunkStore, MergeCheck, Merger, ReadOptions};

use crate::fixtures::{data, descriptor};

/// Returns the string values of all JSON members with this key, in order. This suffices to read a
/// manifest.
fn values<'a>(json: &'a str, key: &str) -> Vec<&'a str> {
    let key = format!("\"{key}\": \"");
    json.split(&key)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect()
}

struct Fixture {
    path: PathBuf,
    descriptor: MessageDescriptor,
    source: Vec<u8>,
}

/// Returns the chunked files that TensorFlow's splitters made, with the messages that they were
/// made from. TensorFlow's own Merger restores these messages.
fn fixtures() -> Vec<Fixture> {
    let manifest = std::fs::read_to_string(data("tensorflow_cpb/MANIFEST.json")).unwrap();
    let (files, messages) = (values(&manifest, "file"), values(&manifest, "message"));
    let sources = values(&manifest, "source");
    assert!(files.len() >= 35 && files.len() == messages.len() && files.len() == sources.len());
    let each = files.iter().zip(messages).zip(sources);
    each.map(|((file, message), source)| Fixture {
        path: data("tensorflow_cpb").join(file),
        descriptor: descriptor(message),
        source: std::fs::read(data("tensorflow").join(source)).unwrap(),
    })
    .collect()
}

fn message(descriptor: &MessageDescriptor, bytes: &[u8]) -> DynamicMessage {
    DynamicMessage::decode(descriptor.clone(), bytes).unwrap()
}

#[test]
fn every_file_by_another_writer_merges_to_its_source() {
    let mut exact = Vec::new();
    let mut other = Vec::new();
    for Fixture {
        path,
        descriptor,
        source,
    } in fixtures()
    {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let options = ReadOptions::new().descriptor(descriptor.clone());
        let merged = Merger::new()
            .options(&options)
            .merge_to_bytes(&path)
            .unwrap();
        let equal = message(&descriptor, &merged) == message(&descriptor, &source);
        assert!(equal, "{name} differs");
        assert_eq!(merged.len(), source.len(), "{name}");
        if merged == source {
            &mut exact
        } else {
            &mut other
        }
        .push(name);

        // A merge to a stream has the same result.
        let mut streamed = Vec::new();
        let report = Merger::new()
            .options(&options)
            .merge_to(&path, &mut streamed)
            .unwrap();
        assert!(streamed == merged);
        assert_eq!(
            (report.size, report.byte_exact),
            (merged.len() as u64, None)
        );
    }
    println!("{} byte for byte, others: {other:?}", exact.len());
    assert!(other.is_empty(), "{other:?}");
}

#[test]
fn without_the_type_the_path_that_needs_it_is_named() {
    let mut stopped = 0;
    for Fixture {
        path,
        descriptor,
        source,
    } in fixtures()
    {
        let name = path.display();
        let equal = |merged: &[u8]| message(&descriptor, merged) == message(&descriptor, &source);
        match Merger::new().merge_to_bytes(&path) {
            // This file can be merged without its type: an element that was moved to a chunk left
            // an empty element at its position, and slices are appended.
            Ok(merged) => assert!(equal(&merged), "{name}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::SchemaNeeded, "{name}: {error}");
                assert!(
                    error.path().is_some_and(|path| path.ends_with(".8.4")),
                    "{name}: {error}"
                );
                stopped += 1;
            }
        }
        // All files with TensorFlow's types are merged correctly with `assume_plain`.
        let options = ReadOptions::new().assume_plain(true);
        assert!(
            equal(
                &Merger::new()
                    .options(&options)
                    .merge_to_bytes(&path)
                    .unwrap()
            ),
            "{name}"
        );
    }
    assert_eq!(stopped, 15);
}

#[test]
fn every_file_by_another_writer_verifies() {
    for Fixture {
        path,
        descriptor,
        source,
    } in fixtures()
    {
        let file = ChunkedFile::open(&path).unwrap();
        let report = file.verify(&ReadOptions::new().descriptor(descriptor));
        assert!(
            report.problems().is_empty(),
            "{}: {:?}",
            path.display(),
            report.problems()
        );
        let MergeCheck::Merged {
            size,
            crc32c: _,
            source: None,
        } = report.merge()
        else {
            panic!("{}: {:?}", path.display(), report.merge())
        };
        assert_eq!(*size, source.len() as u64);
        let report = file.verify(&ReadOptions::new());
        assert!(report.problems().is_empty());
        assert!(!matches!(report.merge(), MergeCheck::Failed));
        assert_eq!(file.summaries().unwrap().len(), file.len());
    }
}

fn field(
    name: &str,
    number: i32,
    label: Label,
    kind: Type,
    type_name: &str,
) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(kind.into()),
        type_name: (!type_name.is_empty()).then(|| format!(".proto_splitter_testdata.{type_name}")),
        ..Default::default()
    }
}

fn map_entry(name: &str, key: Type, value: Type, value_name: &str) -> DescriptorProto {
    DescriptorProto {
        name: Some(name.into()),
        field: vec![
            field("key", 1, Label::Optional, key, ""),
            field("value", 2, Label::Optional, value, value_name),
        ],
        options: Some(MessageOptions {
            map_entry: Some(true),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Returns the message types of Google's test files, built from their description in the project's
/// notes.
fn testdata_pool() -> DescriptorPool {
    use Label::{Optional, Repeated};
    let string_node = DescriptorProto {
        name: Some("StringNode".into()),
        field: vec![
            field("val", 1, Optional, Type::String, ""),
            field("child_nodes", 2, Repeated, Type::Message, "StringNode"),
        ],
        ..Default::default()
    };
    let many_fields = DescriptorProto {
        name: Some("ManyFields".into()),
        field: vec![
            field("field_one", 1, Optional, Type::Message, "ManyFields"),
            field("repeated_field", 2, Repeated, Type::Message, "ManyFields"),
            field("string_field", 3, Optional, Type::String, ""),
            field("repeated_string_field", 4, Repeated, Type::String, ""),
            field(
                "map_field_uint32",
                5,
                Repeated,
                Type::Message,
                "ManyFields.MapFieldUint32Entry",
            ),
            field(
                "map_field_int64",
                6,
                Repeated,
                Type::Message,
                "ManyFields.MapFieldInt64Entry",
            ),
            field(
                "nested_map_bool",
                7,
                Repeated,
                Type::Message,
                "ManyFields.NestedMapBoolEntry",
            ),
        ],
        nested_type: vec![
            map_entry("MapFieldUint32Entry", Type::Uint32, Type::String, ""),
            map_entry("MapFieldInt64Entry", Type::Int64, Type::String, ""),
            map_entry(
                "NestedMapBoolEntry",
                Type::Bool,
                Type::Message,
                "ManyFields",
            ),
        ],
        ..Default::default()
    };
    let file = FileDescriptorProto {
        name: Some("testdata.proto".into()),
        package: Some("proto_splitter_testdata".into()),
        syntax: Some("proto3".into()),
        message_type: vec![string_node, many_fields],
        ..Default::default()
    };
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_proto(file).unwrap();
    pool
}

/// Returns the folder of Google's test files, which aren't part of this repository; `None` if it is
/// missing.
fn google() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/fixtures/google_cpb");
    let found = folder.is_dir().then_some(folder);
    if found.is_none() {
        println!("skipped: no ../shared/fixtures/google_cpb");
    }
    found
}

#[test]
fn the_trees_by_google_merge() {
    let Some(folder) = google() else { return };
    let node = |label: &str, below: &[String]| match below.join(",") {
        none if none.is_empty() => format!("{{val:\"{label}\"}}"),
        below => format!("{{val:\"{label}\",child_nodes:[{below}]}}"),
    };
    let inner = |label: &str| {
        let leaves = [0, 1, 2].map(|leaf| node(&format!("{label}3{leaf}"), &[]));
        node(label, &leaves)
    };
    let tree = node("0", &[node("010", &[inner("01020"), inner("01021")])]);
    let pool = testdata_pool();
    let descriptor = pool
        .get_message_by_name("proto_splitter_testdata.StringNode")
        .unwrap();
    for name in ["bf-split-tree", "df-split-tree"] {
        let merged = Merger::new()
            .read_dynamic(folder.join(name), descriptor.clone())
            .unwrap();
        assert_eq!(format!("{{{merged}}}"), tree, "{name}");
    }
}

#[test]
fn the_many_fields_by_google_merge() {
    let Some(folder) = google() else { return };
    let pool = testdata_pool();
    let descriptor = pool
        .get_message_by_name("proto_splitter_testdata.ManyFields")
        .unwrap();
    let path = folder.join("many-field");
    let merged = Merger::new()
        .read_dynamic(&path, descriptor.clone())
        .unwrap();
    let expected = DynamicMessage::parse_text_format(
        descriptor.clone(),
        r#"
        field_one {
            repeated_field {}
            repeated_field {
                string_field: "inner_inner_string"
                map_field_uint32 { key: 324 value: "map_value_324" }
                map_field_uint32 { key: 543 value: "map_value_543" }
            }
        }
        map_field_int64 { key: -1345 value: "map_value_-1345" }
        nested_map_bool { key: false value { string_field: "string_false" } }
        nested_map_bool { key: true value { string_field: "string_true" } }
        "#,
    );
    assert_eq!(merged, expected.unwrap());

    // Reads only the root, as in the tests of TensorFlow's `ReadPartial`.
    let file = ChunkedFile::open(folder.join("many-field.cpb")).unwrap();
    let mut metadata = file.trailer().metadata().clone();
    metadata.message.as_mut().unwrap().chunked_fields.clear();
    let options = ReadOptions::new().descriptor(descriptor.clone());
    let source = std::fs::read(folder.join("many-field.cpb")).unwrap();
    let part = ChunkedFile::with_metadata(source, metadata, options.get_limits()).unwrap();
    let part = message(&descriptor, &part.merge_to_bytes(&options).unwrap());
    assert_eq!(
        part.to_string(),
        r#"map_field_int64:[{key:-1345,value:"map_value_-1345"}]"#
    );
}
