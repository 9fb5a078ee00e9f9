//! Tests that compare `SizeSplitter` with the splitters for specific types.

use prost_reflect::prost::Message;
use prost_reflect::prost_types::FileDescriptorSet;
use prost_reflect::{DescriptorPool, DynamicMessage, MapKey, MessageDescriptor, Value};
use proto_splitter::merge::{Limits, Merger, ReadOptions};
use proto_splitter::split::{Profile, SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter::{ErrorKind, GraphDefSplitter, SAVED_MODEL, SavedModelSplitter};
use proto_splitter_testkit::generate::kitchen_sink;

use crate::fixtures::{MODELS, data, descriptor};

#[test]
fn it_makes_no_more_chunks_of_tensorflow_s_models_than_their_own_splitters() {
    for (file, message) in MODELS {
        let source = Source::open(data("tensorflow").join(file), descriptor(message)).unwrap();
        for max in [
            1 << 10,
            2 << 10,
            5 << 10,
            10 << 10,
            50 << 10,
            100 << 10,
            1 << 30,
        ] {
            for value in [None, Some(64), Some(1 << 10), Some(1 << 20)] {
                let options = SplitOptions::new()
                    .max_chunk_size(max)
                    .value_chunk_size(value);
                let own = match message {
                    SAVED_MODEL => SavedModelSplitter.plan(&source, &options),
                    _ => GraphDefSplitter.plan(&source, &options),
                };
                let by_size = SizeSplitter.plan(&source, &options).unwrap();
                let (own, by_size) = (own.unwrap().chunks().len(), by_size.chunks().len());
                assert!(
                    by_size <= own,
                    "{file} at {max}, {value:?}: {by_size} for {own}"
                );
            }
        }
    }
}

/// Returns nested `testkit.Sink` messages. The innermost message contains a string of 100 bytes.
fn nested(levels: usize) -> Vec<u8> {
    let mut bytes = [&b"\x1a\x64"[..], &[b't'; 100]].concat();
    for _ in 0..levels {
        let mut outer = vec![4 << 3 | 2];
        proto_splitter::wire::put_varint(&mut outer, bytes.len() as u64);
        outer.extend_from_slice(&bytes);
        bytes = outer;
    }
    bytes
}

#[test]
fn messages_are_looked_into_as_deep_as_the_option_says() {
    let plan = |levels, limit| {
        let source = Source::from_bytes(nested(levels), kitchen_sink());
        let options = SplitOptions::new()
            .max_chunk_size(20)
            .value_chunk_size(None)
            .depth_limit(limit);
        SizeSplitter.split_with(source, &options)
    };
    let split = plan(90, 100).unwrap();
    let merged = Merger::new()
        .merge(&split.bytes(), &split.metadata)
        .unwrap();
    assert!(merged == nested(90));
    assert!(plan(40, 20).is_err());
    assert!(plan(40, 50).is_ok());
    // Even very deep nesting must not overflow the stack.
    assert!(plan(100_000, 100).is_err());
    assert!(plan(100_000, u32::MAX).is_err());
    let split = plan(195, u32::MAX).unwrap();
    let options = ReadOptions::new().limits(Limits::new().max_message_depth(200));
    let merged = Merger::new()
        .options(&options)
        .merge(&split.bytes(), &split.metadata)
        .unwrap();
    assert!(merged == nested(195));
}

/// Returns a message type with a map whose keys have the type `kind`, and a message of this type.
/// The map has large values for a small key and for the largest key.
fn map_by(kind: &str, largest: MapKey) -> (MessageDescriptor, Vec<u8>) {
    let schema = format!("syntax = 'proto3'; message M {{ map<{kind}, bytes> m = 1; }}");
    let file = protox::file::File::from_source("m.proto", &schema.replace('\'', "\"")).unwrap();
    let pool = DescriptorPool::from_file_descriptor_set(FileDescriptorSet {
        file: vec![file.file_descriptor_proto().clone()],
    });
    let message = pool.unwrap().get_message_by_name("M").unwrap();
    let small = match &largest {
        MapKey::I32(_) => MapKey::I32(-1),
        MapKey::I64(_) => MapKey::I64(-1),
        MapKey::U32(_) => MapKey::U32(1),
        MapKey::U64(_) => MapKey::U64(1),
        other => panic!("{other:?}"),
    };
    let entries = [small, largest].map(|key| (key, Value::Bytes(vec![b'v'; 300].into())));
    let mut value = DynamicMessage::new(message.clone());
    value.set_field_by_name("m", Value::Map(entries.into()));
    (message, value.encode_to_vec())
}

#[test]
fn in_the_extended_profile_a_value_in_a_map_is_cut_by_any_key_but_a_zigzag_one() {
    for (kind, largest) in [
        ("int32", MapKey::I32(i32::MAX)),
        ("int64", MapKey::I64(i64::MAX)),
        ("int64", MapKey::I64(i64::MIN)),
        ("uint32", MapKey::U32(u32::MAX)),
        ("uint64", MapKey::U64(u64::MAX)),
        ("fixed32", MapKey::U32(u32::MAX)),
        ("fixed64", MapKey::U64(u64::MAX)),
        ("sfixed32", MapKey::I32(i32::MIN)),
        ("sfixed64", MapKey::I64(i64::MIN)),
        ("sint32", MapKey::I32(i32::MIN)),
        ("sint64", MapKey::I64(i64::MIN)),
    ] {
        let (message, bytes) = map_by(kind, largest);
        let source = Source::from_bytes(bytes.clone(), message.clone());
        let options = SplitOptions::new()
            .max_chunk_size(100)
            .profile(Profile::Extended);
        let split = SizeSplitter.split_with(source, &options);
        if kind.starts_with("sint") {
            assert_eq!(split.unwrap_err().kind(), ErrorKind::Uncuttable, "{kind}");
            continue;
        }
        let split = split.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(split.chunks.len(), 7, "{kind}");
        for options in [
            ReadOptions::new(),
            ReadOptions::new().descriptor(message.clone()),
        ] {
            let merged = Merger::new()
                .options(&options)
                .merge(&split.bytes(), &split.metadata)
                .unwrap();
            assert!(merged == bytes, "{kind}");
        }
    }
}
