//! Elements of a sliced field, found by the numbers in the trailer.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod merge_support;

use merge_support::file::{Counted, cpb};
use merge_support::{Chunked, len, path};
use prost::Message;
use prost_reflect::ReflectMessage;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::merge::{Limits, MergeOptions};
use proto_splitter_core::path::{FieldPath, PathQuery};
use proto_splitter_core::split::{SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter_core::view::MessageView;
use record_file::Compression;

const COUNT: usize = 60_000;
const SLICE: u64 = 8 << 10;

/// A message with many small elements, an element in the middle that is larger than slices are to
/// be, and one with a value that is cut out.
fn message() -> FileDescriptorProto {
    let element = |at: usize| DescriptorProto {
        name: Some(match at {
            7_000 => "a".repeat(20 << 10),
            13_000 => "b".repeat(101 << 10),
            _ => format!("message {at}"),
        }),
        ..DescriptorProto::default()
    };
    FileDescriptorProto {
        name: Some("many.proto".into()),
        message_type: (0..COUNT).map(element).collect(),
        ..FileDescriptorProto::default()
    }
}

/// The file of a message in slices, and its reads.
fn sliced(compression: Compression) -> ChunkedFile<Counted> {
    split(SplitOptions::new().max_chunk_size(100 << 10), compression)
}

fn split(options: SplitOptions, compression: Compression) -> ChunkedFile<Counted> {
    let folder = tempfile::tempdir().unwrap();
    let options = options.max_slice_size(SLICE).compression(compression);
    let written = SizeSplitter
        .write_with(&message(), folder.path().join("many"), &options)
        .unwrap();
    let bytes = std::fs::read(written.path).unwrap();
    ChunkedFile::from_source(Counted::new(bytes), &Limits::default()).unwrap()
}

fn options() -> MergeOptions {
    MergeOptions::new().descriptor(FileDescriptorProto::default().descriptor())
}

#[test]
fn an_element_of_a_sliced_field_is_found_without_reading_the_slices_before_it() {
    let whole = message().encode_to_vec();
    let plain = MessageView::of_plain(&whole, options()).unwrap();
    let cut = SplitOptions::new().max_chunk_size(100 << 10);
    // Nothing has to be cut, and the file is to be one of chunks.
    let uncut = SplitOptions::new().always_chunked(true);
    for (splitting, compression) in [
        (&cut, Compression::None),
        (&cut, Compression::ZSTD),
        (&uncut, Compression::None),
        (&uncut, Compression::ZSTD),
    ] {
        let file = split(splitting.clone(), compression);
        let counted = file.record_file().get_ref().get_ref().unwrap();
        let (view, size) = (file.view(options()), file.record_file().size());
        for at in (0..COUNT)
            .step_by(613)
            .chain([6_999, 7_000, 7_001, COUNT - 1])
        {
            let element: FieldPath = path(&format!("4[{at}]"));
            counted.all();
            let found = view.get(&element).unwrap();
            let read = counted.take(0..u64::MAX);
            assert_eq!(found, plain.get(&element).unwrap(), "{at}");
            // The first slice, which stays, is walked over by the plan and by the path, and what is
            // behind it is begun; the element's own slice is read to find it, and to give it.
            let most = if (6_999..=7_000).contains(&at) {
                20 << 10
            } else {
                SLICE
            };
            assert!(
                read <= 3 * SLICE + 3 * most + 1024,
                "{at}: {read} of {size}"
            );
        }
        let behind = view
            .get(&path(&format!("4[{COUNT}]")))
            .unwrap_err()
            .to_string();
        assert!(
            behind.contains("has 60000 elements, counted from 0"),
            "{behind}"
        );
    }
}

#[test]
fn ranges_and_places_from_the_end_pass_over_slices_too() {
    let file = sliced(Compression::None);
    let whole = message().encode_to_vec();
    let plain = MessageView::of_plain(&whole, options()).unwrap();
    let (view, size) = (file.view(options()), file.record_file().size());
    let counted = file.record_file().get_ref().get_ref().unwrap();
    for (query, passes) in [
        ("message_type[-1].name", true),
        ("message_type[55000:55003].name", true),
        ("message_type[12998:13002].name", true),
        ("message_type[59990:].name", true),
        ("message_type[*].name", false),
        ("message_type[60001:].name", true),
    ] {
        let query = PathQuery::parse(query, options().descriptor.as_ref()).unwrap();
        let all = |view: &MessageView<'_, Counted>| {
            let mut selected = view.select(&query, &[]).unwrap();
            let mut values = Vec::new();
            while selected.next().transpose().unwrap().is_some() {
                values.push((selected.path(), selected.value().unwrap()));
            }
            values
        };
        counted.all();
        let found = all(&view);
        let read = counted.take(0..u64::MAX);
        // The slice with an element of which a value is cut out isn't in one piece, so it is hopped
        // over, at most to count and to find.
        let most = 2 * (101 << 10) + 12 * SLICE;
        assert!(
            !passes || read <= most && most < size / 2,
            "{query:?}: {read} of {size}"
        );
        let mut selected = plain.select(&query, &[]).unwrap();
        for (at, value) in &found {
            assert!(selected.next().transpose().unwrap().is_some());
            assert_eq!((&selected.path(), &selected.value().unwrap()), (at, value));
        }
        assert!(selected.next().is_none(), "{query:?}");
    }
}

#[test]
fn a_merge_puts_in_what_is_cut_of_an_element_behind_slices() {
    let file = sliced(Compression::None);
    let mut merged = Vec::new();
    file.merge_to(&mut merged, &MergeOptions::new()).unwrap();
    assert_eq!(merged, message().encode_to_vec());
    let name = file.view(options()).get(&path("4[13000].1")).unwrap();
    assert_eq!(name, "b".repeat(101 << 10));
}

#[test]
fn numbers_that_are_not_true_lead_to_an_error_or_a_wrong_element_and_never_further() {
    let elements = |from: u8, to: u8| (from..to).flat_map(|at| len(1, [at])).collect::<Vec<u8>>();
    for said in [0, 1, 3, 4, 200, u64::MAX] {
        let chunked = Chunked::marked()
            .base(elements(0, 2))
            .message("", elements(2, 5))
            .slice_of(1)
            .elements(said)
            .message("", elements(5, 6))
            .slice_of(1)
            .elements(1);
        let file = ChunkedFile::from_source(cpb(&chunked), &Limits::default()).unwrap();
        for at in 0..9u8 {
            let found = file.get(&path(&format!("1[{at}]")));
            match found {
                Ok(value) => assert!(value.len() == 1 && (value[0] == at || said != 3)),
                Err(error) => assert!(at > 5 || said != 3, "{error}"),
            }
        }
    }
}

#[test]
fn a_message_that_needs_no_cut_is_sliced_only_where_that_helps() {
    let options = SplitOptions::new()
        .always_chunked(true)
        .max_slice_size(SLICE);
    let chunks = |bytes: Vec<u8>, options: &SplitOptions| {
        let source = Source::from_bytes(bytes, FileDescriptorProto::default().descriptor());
        let plan = SizeSplitter.plan(&source, options).unwrap();
        assert!(plan.byte_exact());
        plan.chunks().len()
    };
    let elements = |count: usize| len(4, len(1, "message")).repeat(count);
    assert!(chunks(elements(10_000), &options) > 10);
    let plain = options.clone().always_chunked(false);
    assert_eq!(chunks(elements(10_000), &plain), 1);
    // Shorter than a slice, one value, and elements that are apart.
    assert_eq!(chunks(elements(100), &options), 1);
    assert_eq!(chunks(len(1, vec![b'n'; 100_000]), &options), 1);
    let apart = [len(3, "dependency"), len(4, len(1, "message"))].concat();
    assert_eq!(chunks(apart.repeat(10_000), &options), 1);
}
