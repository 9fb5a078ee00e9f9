//! Messages whose fields take turns by the million: cut where they stand, into tails.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod merge_support;

use merge_support::{Chunked, cat, len, path};
use prost_reflect::ReflectMessage;
use prost_reflect::prost_types::FileDescriptorProto;
use proto_splitter_core::ErrorKind;
use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::merge::{Limits, MergeOptions};
use proto_splitter_core::split::{Profile, SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter_core::view::MessageView;

/// More turns than are cut in any other way.
const TURNS: usize = 550_000;

/// Dependencies and messages in turns.
fn in_turns() -> Vec<u8> {
    let mut bytes = Vec::new();
    for at in 0..TURNS {
        let name = format!("{at:x}");
        bytes.extend(len(3, &name));
        bytes.extend(len(4, len(1, &name)));
    }
    bytes
}

#[test]
fn fields_that_take_turns_by_the_million_come_back_byte_for_byte_and_are_found() {
    let bytes = in_turns();
    let descriptor = FileDescriptorProto::default().descriptor();
    let source = Source::from_bytes(bytes.clone(), descriptor.clone());
    let options = SplitOptions::new()
        .profile(Profile::Extended)
        .max_chunk_size(1 << 20)
        .max_slice_size(100 << 10)
        .require_byte_exact(true);
    let plan = SizeSplitter.plan(&source, &options).unwrap();
    assert!(plan.byte_exact() && plan.chunks().len() > 50);
    assert!(plan.chunks().iter().skip(1).all(|chunk| chunk.is_tail()));
    assert!(plan.chunks().iter().all(|chunk| chunk.size() <= 100 << 10));
    let folder = tempfile::tempdir().unwrap();
    let written = SizeSplitter
        .write_with(&source, folder.path().join("turns"), &options)
        .unwrap();
    let file = ChunkedFile::open(&written.path).unwrap();
    let reading = MergeOptions::new().descriptor(descriptor);
    let mut merged = Vec::new();
    let outcome = file.merge_to(&mut merged, &reading).unwrap();
    assert!(outcome.byte_exact == Some(true) && merged == bytes);
    assert!(file.verify(&reading).problems().is_empty());
    let plain = MessageView::of_plain(&bytes, reading.clone()).unwrap();
    for at in [
        "3[0]",
        "4[0].1",
        "3[7000]",
        "4[300000].1",
        "3[549999]",
        "4[549999]",
    ] {
        let found = file.view(reading.clone()).get(&path(at)).unwrap();
        assert_eq!(found, plain.get(&path(at)).unwrap(), "{at}");
    }
    // What has to be cut inside isn't cut where it stands.
    let large = [len(1, vec![7; 2 << 20]), bytes].concat();
    let source = Source::from_bytes(large, source.descriptor().clone());
    let options = options.require_byte_exact(false);
    let plan = SizeSplitter.plan(&source, &options).unwrap();
    assert!(!plan.chunks().iter().any(|chunk| chunk.is_tail()));
}

/// A message of which the tails go on with fields that were there and that weren't, and with one
/// that has a value cut out.
fn chunked() -> Chunked {
    let mut chunked = Chunked::marked()
        .base(cat([len(10, len(8, "zero")), len(9, "")]))
        .message(
            "",
            cat([len(10, len(8, [])), len(7, "seven"), len(10, len(8, "two"))]),
        )
        .message("", cat([len(9, len(8, "nine")), len(10, len(8, "three"))]))
        .bytes("10[1].8", "one");
    tail(&mut chunked, 1);
    tail(&mut chunked, 2);
    chunked.metadata.extended_message = chunked.metadata.message.take();
    chunked.metadata.version.as_mut().unwrap().join_version = 1;
    chunked
}

fn tail(chunked: &mut Chunked, index: usize) {
    chunked.message_mut().chunked_fields[index - 1].tail = true;
}

#[test]
fn a_tail_goes_where_its_message_ends_and_indices_go_on_through_it() {
    let merged = chunked().merge().unwrap();
    let expected = cat([
        len(10, len(8, "zero")),
        len(9, ""),
        len(10, len(8, "one")),
        len(7, "seven"),
        len(10, len(8, "two")),
        len(9, len(8, "nine")),
        len(10, len(8, "three")),
    ]);
    assert_eq!(merged, expected);
}

#[test]
fn a_tail_is_refused_where_join_version_1_has_none() {
    type Change = fn(&mut Chunked);
    let changes: [Change; 3] = [
        |chunked| {
            let version = chunked.metadata.version.as_mut().unwrap();
            version.join_version = 0;
            chunked.metadata.message = chunked.metadata.extended_message.take();
        },
        |chunked| chunked.metadata.splice_marker = false,
        |chunked| tail(chunked, 3),
    ];
    for (at, change) in changes.iter().enumerate() {
        let mut chunked = chunked();
        change(&mut chunked);
        let file = ChunkedFile::from_source(merge_support::file::cpb(&chunked), &Limits::default());
        let error = file.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTrailer, "{at}");
        assert!(
            error.to_string().contains("a tail that is no message"),
            "{at}: {error}"
        );
    }
}
