//! Tests of the sources of splits and the targets of merges: bytes, files, and typed and dynamic
//! messages.

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DynamicMessage, ReflectMessage, Value};
use proto_splitter::container::ChunkKind;
use proto_splitter::merge::Merger;
use proto_splitter::proto::graph_def::TensorProto;
use proto_splitter::proto::saved_model::SavedModel;
use proto_splitter::split::{SizeSplitter, Source, Split, SplitExt, SplitOptions};
use proto_splitter::{SAVED_MODEL, SavedModelSplitter};

use crate::fixtures;

/// Returns a tensor that shares the memory of `content`, and has some small fields.
fn tensor(content: &Bytes) -> TensorProto {
    TensorProto {
        dtype: 1,
        float_val: vec![1.5; 10],
        tensor_content: content.clone(),
        string_val: vec![Bytes::from_static(b"a string")],
        ..TensorProto::default()
    }
}

fn bytes_chunk(split: &Split) -> &Bytes {
    let chunks = split.chunks.iter();
    let mut found = chunks.filter(|chunk| chunk.kind == ChunkKind::Bytes);
    let chunk = found.next().unwrap();
    assert!(found.next().is_none());
    &chunk.bytes
}

#[test]
fn the_bytes_of_a_typed_message_are_not_copied() {
    let content = Bytes::from(vec![7; 5 << 20]);
    let options = SplitOptions::new().max_chunk_size(1 << 20);
    let typed = tensor(&content);
    let split = SizeSplitter.split_with(&typed, &options).unwrap();
    assert_eq!(bytes_chunk(&split).as_ptr(), content.as_ptr());
    // The bytes of a dynamic message aren't copied, either.
    let mut dynamic = DynamicMessage::new(typed.descriptor());
    dynamic.set_field_by_name("tensor_content", Value::Bytes(content.clone()));
    let split = SizeSplitter.split_with(&dynamic, &options).unwrap();
    assert_eq!(bytes_chunk(&split).as_ptr(), content.as_ptr());
    // The values in a serialized message in memory aren't copied, either.
    let serialized = Bytes::from(typed.encode_to_vec());
    let source = Source::from_bytes(serialized.clone(), typed.descriptor());
    let split = SizeSplitter.split_with(source, &options).unwrap();
    let within = serialized.as_ptr_range();
    assert!(within.contains(&bytes_chunk(&split).as_ptr()));
}

#[test]
fn what_is_split_of_a_typed_message_is_what_encode_writes() {
    for (file, _) in fixtures::MODELS
        .iter()
        .filter(|(_, message)| *message == SAVED_MODEL)
    {
        let bytes = std::fs::read(fixtures::data("tensorflow").join(file)).unwrap();
        let model = SavedModel::decode(&bytes[..]).unwrap();
        let encoded = model.encode_to_vec();
        for max in [1 << 30, 100 << 10, 20 << 10] {
            let options = SplitOptions::new()
                .max_chunk_size(max)
                .value_chunk_size(Some(1000));
            let typed = SavedModelSplitter.split_with(&model, &options).unwrap();
            let bytes = Source::from_bytes(encoded.clone(), model.descriptor());
            let plain = SavedModelSplitter.split_with(bytes, &options).unwrap();
            assert!(typed.chunks == plain.chunks, "{file} at {max}");
            assert_eq!(typed.metadata, plain.metadata);
            let merged = Merger::new().merge(&typed.bytes(), &typed.metadata);
            assert!(merged.unwrap() == encoded);
        }
    }
}

#[test]
fn a_typed_message_goes_to_a_file_as_its_bytes_do() {
    let folder = tempfile::tempdir().unwrap();
    let [typed, plain] = ["typed", "plain"].map(|name| folder.path().join(name));
    let tensor = tensor(&Bytes::from(vec![3; 100_000]));
    let options = SplitOptions::new()
        .max_chunk_size(1000)
        .value_chunk_size(Some(1000));
    SizeSplitter.write_with(&tensor, &typed, &options).unwrap();
    let source = Source::from_bytes(tensor.encode_to_vec(), tensor.descriptor());
    SizeSplitter.write_with(source, &plain, &options).unwrap();
    let [typed, plain] = [typed, plain].map(|prefix| prefix.with_extension("cpb"));
    assert!(std::fs::read(&typed).unwrap() == std::fs::read(plain).unwrap());
    let merged: TensorProto = Merger::new().read(&typed).unwrap();
    assert!(merged == tensor);
}

#[test]
fn a_typed_message_loses_unknown_fields_where_a_dynamic_one_and_the_bytes_keep_them() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("model");
    let mut bytes = SavedModel::default().encode_to_vec();
    // Adds field 777, which represents a field from a future schema.
    bytes.extend_from_slice(b"\xca\x30\x05newer");
    let descriptor = fixtures::descriptor(SAVED_MODEL);
    std::fs::write(prefix.with_extension("pb"), &bytes).unwrap();

    let typed: SavedModel = Merger::new().read(&prefix).unwrap();
    assert_eq!(Source::from(&typed).size(), 0);
    let dynamic = Merger::new().read_dynamic(&prefix, descriptor).unwrap();
    assert_eq!(Source::from(&dynamic).size(), bytes.len() as u64);
    let mut merged = Vec::new();
    Merger::new().merge_to(&prefix, &mut merged).unwrap();
    assert_eq!(merged, bytes);
}
