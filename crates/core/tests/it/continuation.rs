//! Tests with messages that have millions of alternating fields, which are cut in source order into
//! continuations (tails).

use crate::merge_support::{Chunked, cat, len, path};
use prost_reflect::ReflectMessage;
use prost_reflect::prost_types::FileDescriptorProto;
use proto_splitter_core::ErrorKind;
use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::edit::{RewriteOptions, replace, salvage};
use proto_splitter_core::merge::{Limits, ReadOptions};
use proto_splitter_core::split::{
    ComposableSplitter, Profile, SizeSplitter, Source, SplitContext, SplitExt, SplitOptions,
};
use proto_splitter_core::view::MessageView;
use record_file::Compression;

/// Number of times that the fields alternate, which is more than other kinds of cuts support.
const TURNS: usize = 550_000;

/// Returns a file descriptor in which dependencies and messages alternate.
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
    let reading = ReadOptions::new().descriptor(descriptor);
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
}

/// Returns a message whose nested message has two alternating fields and other content.
fn nested_in_turns(first: u32, second: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for at in 0..TURNS {
        let name = format!("{at:x}");
        bytes.extend(len(first, len(1, &name)));
        bytes.extend(len(second, len(1, &name)));
    }
    bytes
}

/// A splitter that cuts out a value, and cuts everything else by size.
struct Own;

impl ComposableSplitter for Own {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> proto_splitter_core::Result<()> {
        if let Some(name) = cx.message().get("name")? {
            cx.cut(&name)?;
        }
        cx.fit()
    }
}

#[test]
fn messages_inside_whose_fields_take_turns_by_the_million_come_back_byte_for_byte() {
    let message = len(4, nested_in_turns(2, 3));
    let large = len(1, vec![7; 3 << 20]);
    let options = len(8, nested_in_turns(999, 998));
    let cases: [(&str, Vec<u8>, &[&str]); 5] = [
        (
            "one message, concatenated with itself",
            [message.clone(), message.clone()].concat(),
            &["4[0].2[0]", "4[0].3[549999].1", "4[1].2[300000].1"],
        ),
        (
            "a message in two pieces",
            [options.clone(), large.clone(), options].concat(),
            &["8.999[0]", "8.999[700000]", "1"],
        ),
        (
            "a value that is too large for a chunk beside turns",
            [large.clone(), in_turns(), len(2, "behind")].concat(),
            &["1", "2", "4[549999].1"],
        ),
        (
            "a message too large beside turns",
            [in_turns(), message.clone(), in_turns()].concat(),
            &["4[549999].1", "4[550000].3[549999].1", "4[1100000].1"],
        ),
        (
            "a value that a splitter cuts",
            [len(1, "name"), message].concat(),
            &["1", "4[0].2[549999].1"],
        ),
    ];
    for (what, bytes, paths) in cases {
        let descriptor = FileDescriptorProto::default().descriptor();
        let source = Source::from_bytes(bytes.clone(), descriptor.clone());
        let options = SplitOptions::new()
            .profile(Profile::Extended)
            .max_chunk_size(1 << 20)
            .require_byte_exact(true);
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("turns");
        let plan = Own.plan(&source, &options).expect(what);
        assert!(
            plan.chunks().iter().all(|chunk| chunk.size() <= 1 << 20),
            "{what}"
        );
        let written = Own.write_with(&source, target, &options).unwrap();
        let file = ChunkedFile::open(&written.path).unwrap();
        let reading = ReadOptions::new().descriptor(descriptor);
        let mut merged = Vec::new();
        let outcome = file.merge_to(&mut merged, &reading).unwrap();
        assert!(
            outcome.byte_exact == Some(true) && merged == bytes,
            "{what}"
        );
        assert!(file.verify(&reading).problems().is_empty(), "{what}");
        let plain = MessageView::of_plain(&bytes, reading.clone()).unwrap();
        for at in paths {
            let found = file.view(reading.clone()).get(&path(at)).unwrap();
            assert_eq!(found, plain.get(&path(at)).unwrap(), "{what}: {at}");
        }
    }
}

#[test]
fn what_is_not_of_its_type_is_refused_though_its_fields_take_turns() {
    let bytes = [in_turns(), crate::merge_support::int(1, 7)].concat();
    let source = Source::from_bytes(bytes, FileDescriptorProto::default().descriptor());
    let options = SplitOptions::new()
        .profile(Profile::Extended)
        .max_chunk_size(1 << 20);
    let error = SizeSplitter.plan(&source, &options).unwrap_err();
    assert!(error.to_string().contains("another type"), "{error}");
}

/// Returns a message with a tail that begins at the arbitrary position `at`.
fn cut_at(bytes: &[u8], at: usize) -> Chunked {
    let mut chunked = Chunked::marked()
        .base(&bytes[..at])
        .message("", &bytes[at..]);
    tail(&mut chunked, 1);
    chunked.message_mut().chunked_fields[0].within = true;
    as_extended(&mut chunked);
    chunked
}

#[test]
fn a_tail_may_begin_at_any_byte() {
    let bytes = cat([
        len(10, len(8, "zero")),
        len(7, vec![b'x'; 200]),
        len(10, len(8, "one")),
    ]);
    for at in 0..=bytes.len() {
        let chunked = cut_at(&bytes, at);
        assert_eq!(chunked.merge().unwrap(), bytes, "{at}");
        let cpb = crate::merge_support::file::cpb(&chunked);
        let file = ChunkedFile::from_source(cpb, &Limits::default()).unwrap();
        let view = file.view(ReadOptions::new());
        assert_eq!(view.get(&path("10[1].8")).unwrap(), &b"one"[..], "{at}");
        assert_eq!(view.get(&path("7")).unwrap(), vec![b'x'; 200], "{at}");
    }
}

#[test]
fn a_value_of_a_file_that_is_cut_within_fields_is_replaced_only_by_splitting_anew() {
    let bytes = cat([len(10, len(8, "zero")), len(7, "seven")]);
    let file = ChunkedFile::from_source(
        crate::merge_support::file::cpb(&cut_at(&bytes, 4)),
        &Limits::default(),
    );
    let error = replace(
        &file.unwrap(),
        &path("7"),
        b"eight",
        &tempfile::tempfile().unwrap(),
        &ReadOptions::new(),
        &RewriteOptions::new(),
    );
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    assert!(error.to_string().contains("cut within fields"), "{error}");
}

#[test]
fn of_a_field_that_is_cut_where_it_stands_a_damaged_part_costs_the_field_alone() {
    let fields = in_turns();
    // All parts of the value differ, since equal parts would be stored once.
    let value: Vec<u8> = (0..3u32 << 18).flat_map(u32::to_le_bytes).collect();
    let bytes = [len(2, "front"), len(1, &value), fields.clone()].concat();
    let source = Source::from_bytes(bytes, FileDescriptorProto::default().descriptor());
    let options = SplitOptions::new()
        .profile(Profile::Extended)
        .max_chunk_size(1 << 20)
        .compression(Compression::None);
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("turns");
    let file = SizeSplitter.write_with(&source, target, &options).unwrap();
    let mut stored = std::fs::read(&file.path).unwrap();
    let inside = &value[3 << 19..][..64];
    let at = stored
        .windows(64)
        .position(|bytes| bytes == inside)
        .unwrap();
    stored[at] ^= 1;
    std::fs::write(&file.path, stored).unwrap();
    let salvaged = salvage(&file.path, &ReadOptions::new()).unwrap();
    assert_eq!(salvaged.lost.len(), 1);
    let mut merged = Vec::new();
    let reading = ReadOptions::new();
    salvaged.file.merge_to(&mut merged, &reading).unwrap();
    assert!(merged == [len(2, "front"), fields].concat());
}

/// Returns a message whose tails continue with existing fields, new fields, and a field whose value
/// is cut out.
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
    as_extended(&mut chunked);
    chunked
}

fn as_extended(chunked: &mut Chunked) {
    chunked.metadata.extended_message = chunked.metadata.message.take();
    chunked.metadata.version.as_mut().unwrap().join_version = 1;
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
        let file = ChunkedFile::from_source(
            crate::merge_support::file::cpb(&chunked),
            &Limits::default(),
        );
        let error = file.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTrailer, "{at}");
        assert!(
            error
                .to_string()
                .contains("a tail is only allowed for messages"),
            "{at}: {error}"
        );
    }
}
