//! Tests of the extended profile: values in several chunks, and readers that reject such values.

use prost_reflect::ReflectMessage;
use prost_reflect::prost::Message;
use prost_reflect::prost_types::FileDescriptorProto;
use proto_splitter_core::ErrorKind;
use proto_splitter_core::container::{ChunkKind, Trailer, TrailerUse};
use proto_splitter_core::merge::{Limits, Merger, ReadOptions};
use proto_splitter_core::proto::ChunkMetadata;
use proto_splitter_core::split::{
    ComposableSplitter, Profile, SizeSplitter, Source, Split, SplitContext, SplitExt, SplitOptions,
};

/// Returns a file descriptor whose name has `name` bytes, with dependencies of these sizes.
fn file(name: usize, dependencies: &[usize]) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some("n".repeat(name)),
        dependency: dependencies.iter().map(|size| "d".repeat(*size)).collect(),
        ..Default::default()
    }
}

fn options(max: u64) -> SplitOptions {
    SplitOptions::new()
        .max_chunk_size(max)
        .value_chunk_size(None)
        .profile(Profile::Extended)
}

fn merged(split: &Split) -> Vec<u8> {
    Merger::new()
        .merge(&split.bytes(), &split.metadata)
        .unwrap()
        .to_vec()
}

#[test]
fn a_value_over_the_maximum_is_cut_into_chunks_that_follow_each_other() {
    let message = file(250, &[10, 230, 20]);
    let plan = SizeSplitter.plan(&message, &options(100)).unwrap();
    let expected = "\
0 MESSAGE 38 B
1 BYTES 100 B name
2 BYTES 100 B name
3 BYTES 50 B name
4 BYTES 100 B dependency[1]
5 BYTES 100 B dependency[1]
6 BYTES 30 B dependency[1]
";
    assert_eq!(plan.to_string(), expected);
    let split = SizeSplitter.split_with(&message, &options(100)).unwrap();
    assert!(split.byte_exact());
    assert_eq!(merged(&split), message.encode_to_vec());
}

#[test]
fn messages_that_were_concatenated_come_back_byte_for_byte_in_both_profiles() {
    // In each part, the name follows the dependencies, so the dependencies of the whole message are
    // in two places.
    let parts: [&[usize]; 2] = [&[40; 20], &[30; 20]];
    let bytes = parts.map(|sizes| file(20, sizes).encode_to_vec()).concat();
    let source = Source::from_bytes(bytes.clone(), FileDescriptorProto::default().descriptor());
    for profile in [Profile::TensorFlow, Profile::Extended] {
        let options = options(300).profile(profile).require_byte_exact(true);
        let split = SizeSplitter.split_with(&source, &options).unwrap();
        assert!(split.chunks.len() > 4 && split.byte_exact(), "{profile:?}");
        assert_eq!(merged(&split), bytes, "{profile:?}");
        // If only the placeholders are used, the result is an equal message, in which the
        // dependencies are adjacent.
        let metadata = ChunkMetadata {
            source_layout: Vec::new().into(),
            ..split.metadata.clone()
        };
        let equal = Merger::new().merge(&split.bytes(), &metadata).unwrap();
        assert_ne!(equal, bytes);
        let decode = |bytes: &[u8]| FileDescriptorProto::decode(bytes).unwrap();
        assert_eq!(decode(&equal), decode(&bytes));
    }
}

#[test]
fn a_merge_by_a_wrong_list_of_places_is_refused() {
    let bytes = [file(20, &[40; 20]), file(20, &[30; 20])].map(|file| file.encode_to_vec());
    let source = Source::from_bytes(bytes.concat(), FileDescriptorProto::default().descriptor());
    let split = SizeSplitter.split_with(&source, &options(300)).unwrap();
    let layout = &split.metadata.source_layout;
    let mut same_size = layout.to_vec();
    *same_size.last_mut().unwrap() -= 1;
    same_size.extend([0, 1, 7]);
    for (source_layout, expected) in [
        (layout[..layout.len() - 1].to_vec(), "ends within a run"),
        ([&layout[..], &[1, 0, 9]].concat(), "9 bytes after "),
        (
            [&layout[..], &[99, 0, 1]].concat(),
            "refers to chunk 98, but the file has only ",
        ),
        ([&layout[..], &[0, 1, 7]].concat(), "but the original had "),
        (same_size, "the merged message has crc32c "),
    ] {
        let metadata = ChunkMetadata {
            source_layout: source_layout.into(),
            ..split.metadata.clone()
        };
        let merged = Merger::new().merge(&split.bytes(), &metadata);
        let error = merged.unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn a_split_that_has_to_be_byte_exact_is_refused_where_it_cannot_be() {
    // The message has two alternating fields, so each element is a run, and the list of runs
    // exceeds the size of a chunk.
    let turns = file(0, &[1]).encode_to_vec();
    let turn = [&turns[2..], &[0x50, 1][..]].concat().repeat(200);
    let source = Source::from_bytes(turn.clone(), FileDescriptorProto::default().descriptor());
    let options = options(300).require_byte_exact(true);
    let split = SizeSplitter.split_with(&source, &options).unwrap();
    assert_eq!(merged(&split), turn);
    let options = options.profile(Profile::TensorFlow);
    let error = SizeSplitter.split_with(&source, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncuttable);
    assert_eq!(
        error.to_string(),
        "a merge would be equal to the message, but not byte-exact: the list of byte \
         positions is too large for the trailer; in the profile `extended` the merge is \
         byte-exact"
    );
    let split = SizeSplitter
        .split_with(&source, &options.require_byte_exact(false))
        .unwrap();
    assert!(!split.byte_exact());
}

#[test]
fn a_maximum_for_values_cuts_them_smaller_than_messages() {
    let message = file(250, &[]);
    let options = options(200).max_value_size(Some(90));
    let plan = SizeSplitter.plan(&message, &options).unwrap();
    let sizes: Vec<u64> = plan.chunks().iter().map(|chunk| chunk.size()).collect();
    assert_eq!(sizes, [2, 90, 90, 70]);
}

#[test]
fn the_same_is_refused_for_tensorflow_with_the_path_the_size_and_the_way_out() {
    let options = options(100).profile(Profile::TensorFlow);
    let limited = options.clone().max_value_size(Some(200));
    for (message, options, expected) in [
        (
            file(0, &[10, 230]),
            &options,
            "dependency[1]: 230 bytes that can't be cut, over the maximum chunk size of 100 bytes; \
             the profile `extended` may cut it",
        ),
        (
            file(201, &[]),
            &limited,
            "name: a value of 201 bytes, over the maximum value size of 200 bytes; \
             the profile `extended` may cut it",
        ),
    ] {
        let error = SizeSplitter.plan(&message, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Uncuttable);
        assert_eq!(error.to_string(), expected);
    }
    // Without a maximum, values may have any size.
    assert!(SizeSplitter.plan(&file(201, &[]), &options).is_ok());
}

#[test]
fn an_element_is_cut_by_hand_in_the_extended_profile_only() {
    struct Dependencies;
    impl ComposableSplitter for Dependencies {
        fn build_chunks(&self, cx: &mut SplitContext<'_>) -> proto_splitter_core::Result<()> {
            for dependency in cx.message().repeated("dependency")? {
                cx.cut(&dependency?.view())?;
            }
            Ok(())
        }
    }
    let message = file(3, &[4, 5]);
    let split = Dependencies.split_with(&message, &options(4).max_value_size(Some(4)));
    // The base has more than 4 bytes.
    assert_eq!(split.unwrap_err().kind(), ErrorKind::Uncuttable);
    let split = Dependencies.split_with(&message, &options(100)).unwrap();
    assert_eq!(split.chunks.len(), 3);
    assert_eq!(merged(&split), message.encode_to_vec());
    let error = Dependencies.split(&message).unwrap_err();
    assert_eq!(
        error.to_string(),
        "dependency[0]: a string or bytes value that is an element or in a map can only be cut in the profile `extended`"
    );
}

#[test]
fn the_chunks_of_an_added_value_follow_each_other_too() {
    use proto_splitter_core::split::AddedChunk;
    struct Adding;
    impl ComposableSplitter for Adding {
        fn build_chunks(&self, cx: &mut SplitContext<'_>) -> proto_splitter_core::Result<()> {
            let name = AddedChunk::Bytes("0123456789".into());
            cx.add_chunk(name, &"1".parse()?, Some(1))
        }
    }
    let source = Source::from_bytes(&b""[..], FileDescriptorProto::default().descriptor());
    let split = Adding.split_with(&source, &options(4)).unwrap();
    let sizes: Vec<usize> = split.chunks.iter().map(|chunk| chunk.bytes.len()).collect();
    assert_eq!(sizes, [0, 4, 4, 2]);
    let options = ReadOptions::for_message::<FileDescriptorProto>();
    let merged = Merger::new()
        .options(&options)
        .merge(&split.bytes(), &split.metadata)
        .unwrap();
    assert_eq!(merged, b"\x0a\x0a0123456789"[..]);
}

/// Returns the metadata of a split with a value in three chunks.
fn metadata() -> ChunkMetadata {
    let split = SizeSplitter
        .split_with(&file(250, &[]), &options(100))
        .unwrap();
    assert!(split.chunks[1..].iter().all(|c| c.kind == ChunkKind::Bytes));
    split.metadata
}

#[test]
fn what_only_join_version_1_has_is_refused_in_others() {
    type Change = fn(&mut ChunkMetadata);
    let cases: [(Change, &str); 4] = [
        (
            |m| m.version.as_mut().unwrap().join_version = 0,
            "an extended message, not allowed in join version 0",
        ),
        (
            |m| {
                m.version.as_mut().unwrap().join_version = 0;
                m.message = m.extended_message.take();
            },
            "1: chunk 1: 3 BYTES chunks at one path, not allowed in join version 0",
        ),
        (
            |m| m.extended_message = None,
            "there is no extended message, which join version 1 requires",
        ),
        (
            |m| m.version.as_mut().unwrap().join_version = 2,
            "join version 2 is not known to this reader, which knows 0 to 1",
        ),
    ];
    for (change, expected) in cases {
        let mut metadata = metadata();
        change(&mut metadata);
        let error = Trailer::from_metadata(metadata, TrailerUse::Whole, &Limits::default());
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}
