//! Tests of merging into an existing message, and of merging chunks that arrive in any order.

use prost_reflect::prost::Message;
use prost_reflect::prost_types::FileDescriptorProto;
use prost_reflect::{DynamicMessage, ReflectMessage};
use proto_splitter_core::ErrorKind;
use proto_splitter_core::merge::{ChunkMerger, Limits, Merger, ReadOptions};
use proto_splitter_core::split::{Profile, SizeSplitter, Split, SplitExt, SplitOptions};

fn message() -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some("n".repeat(300)),
        dependency: (0..5).map(|n| format!("{n}").repeat(250)).collect(),
        ..Default::default()
    }
}

fn options() -> SplitOptions {
    SplitOptions::new()
        .max_chunk_size(100)
        .profile(Profile::Extended)
}

fn split() -> Split {
    SizeSplitter.split_with(&message(), &options()).unwrap()
}

#[test]
fn a_message_is_merged_into_one_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("m");
    SizeSplitter
        .write_with(&message(), &prefix, &options())
        .unwrap();
    let there = FileDescriptorProto {
        name: Some("there".into()),
        package: Some("stays".into()),
        dependency: vec!["first".into()],
        ..Default::default()
    };
    let mut expected = there.clone();
    expected.merge(&message().encode_to_vec()[..]).unwrap();
    assert_eq!(expected.dependency.len(), 6);

    let mut typed = there.clone();
    Merger::new().merge_into(&prefix, &mut typed).unwrap();
    assert_eq!(typed, expected);

    let mut dynamic = DynamicMessage::new(there.descriptor());
    dynamic.merge(&there.encode_to_vec()[..]).unwrap();
    Merger::new().merge_into(&prefix, &mut dynamic).unwrap();
    assert_eq!(
        dynamic.transcode_to::<FileDescriptorProto>().unwrap(),
        expected
    );

    let mut bytes = there.encode_to_vec();
    let merged = Merger::new().append_to(&prefix, &mut bytes).unwrap();
    assert_eq!(merged.size, message().encoded_len() as u64);
    assert_eq!(FileDescriptorProto::decode(&bytes[..]).unwrap(), expected);
}

#[test]
fn bytes_stay_as_they_were_when_appending_fails() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("m");
    SizeSplitter
        .write_with(&message(), &prefix, &options())
        .unwrap();
    let limits = Limits::new().max_message_size(700);
    let mut bytes = b"before".to_vec();
    let options = ReadOptions::new().limits(limits);
    let error = Merger::new()
        .options(&options)
        .append_to(&prefix, &mut bytes)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert_eq!(bytes, b"before");
}

#[test]
fn chunks_may_come_in_any_order() {
    let split = split();
    let chunks = split.bytes();
    let count = chunks.len();
    // A step that has no common factor with the count reaches all chunks.
    for step in
        (1..count).filter(|step| (2..=*step).all(|n| step % n > 0 || !count.is_multiple_of(n)))
    {
        let mut merger = ChunkMerger::new(split.metadata.clone(), ReadOptions::new()).unwrap();
        for at in 0..count {
            let index = (at * step + 3) % count;
            merger.insert(index, chunks[index].clone()).unwrap();
        }
        assert_eq!(merger.missing().count(), 0);
        let mut out = Vec::new();
        let merged = merger.finish_to(&mut out).unwrap();
        assert_eq!(
            (out, merged.byte_exact),
            (message().encode_to_vec(), Some(true))
        );
    }
}

#[test]
fn what_is_missing_and_what_does_not_belong_is_said() {
    let split = split();
    let chunks = split.bytes();
    let count = chunks.len();
    assert!(count > 12);
    let mut merger = ChunkMerger::new(split.metadata.clone(), ReadOptions::new()).unwrap();
    let fails = |merger: &mut ChunkMerger, index: usize, chunk: &[u8]| {
        merger
            .insert(index, chunk.to_vec())
            .unwrap_err()
            .to_string()
    };
    let out_of_range = format!("chunk index {count} is out of range: there are {count} chunks");
    assert_eq!(fails(&mut merger, count, b""), out_of_range);
    let size = chunks[1].len();
    assert_eq!(
        fails(&mut merger, 1, b"x"),
        format!("chunk 1: 1 bytes, where the trailer says {size}")
    );
    assert!(fails(&mut merger, 1, &vec![0; size]).starts_with("chunk 1: crc32c is "));
    merger.insert(1, chunks[1].clone()).unwrap();
    assert_eq!(
        fails(&mut merger, 1, &chunks[1]),
        "chunk 1: the chunk was inserted before"
    );
    assert_eq!(merger.missing().next(), Some(0.into()));
    let error = merger.finish().unwrap_err();
    let expected = format!(
        "{} of {count} chunks are missing: 0, 2, 3, 4, 5, 6, 7, 8, 9, 10 ...",
        count - 1
    );
    assert_eq!(error.to_string(), expected);
}
