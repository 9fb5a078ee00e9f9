//! Tests of locating the elements of a sliced field by the element counts in the trailer, and of
//! splitters that iterate over elements.

use std::cell::RefCell;
use std::sync::Arc;

use crate::merge_support::file::{Counted, cpb};
use crate::merge_support::{Chunked, group, int, len, path};
use prost::Message;
use prost_reflect::ReflectMessage;
use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};
use proto_splitter_core::container::{ChunkedFile, Profile};
use proto_splitter_core::merge::{Limits, ReadOptions};
use proto_splitter_core::path::{FieldPath, PathQuery};
use proto_splitter_core::split::{
    ComposableSplitter, SizeSplitter, Source, SplitContext, SplitExt, SplitOptions, SplitPlan,
};
use proto_splitter_core::view::{MessageView, PieceOptions};
use record_file::{Compression, ReadAt};

const COUNT: usize = 60_000;
const SLICE: u64 = 8 << 10;
const AHEAD: u64 = 64 << 10;

/// Returns a message with many small elements, an element in the middle that exceeds the size of a
/// slice, and an element with a value that is cut out.
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

/// Returns a file that contains the message in slices, and whose source records reads.
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

fn options() -> ReadOptions {
    ReadOptions::new().descriptor(FileDescriptorProto::default().descriptor())
}

#[test]
fn an_element_of_a_sliced_field_is_found_without_reading_the_slices_before_it() {
    let whole = message().encode_to_vec();
    let plain = MessageView::of_plain(&whole, options()).unwrap();
    let cut = SplitOptions::new().max_chunk_size(100 << 10);
    // The message needs no cut, but a chunked file is requested.
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
            // Planning and resolving the path read the first slice and the beginning of the next
            // chunk. Finding and returning the element reads the element's slice. If a read begins
            // where one for the element before ended, up to 64 KiB are read ahead.
            let most = if (6_999..=7_000).contains(&at) {
                20 << 10
            } else {
                SLICE
            };
            assert!(
                read <= 3 * SLICE + 3 * most + AHEAD + 1024,
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
        let query = PathQuery::parse(query, options().get_descriptor()).unwrap();
        let all = |view: &MessageView<'_>| {
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
        // If a slice contains an element whose value is cut out, the slice isn't contiguous, so it
        // is scanned: at most once for counting and once for finding.
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
    file.merge_to(&mut merged, &ReadOptions::new()).unwrap();
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
    // Tests a field shorter than a slice, a single value, and elements that aren't contiguous.
    assert_eq!(chunks(elements(100), &options), 1);
    assert_eq!(chunks(len(1, vec![b'n'; 100_000]), &options), 1);
    let apart = [len(3, "dependency"), len(4, len(1, "message"))].concat();
    assert_eq!(chunks(apart.repeat(10_000), &options), 1);
}

/// A source whose bytes aren't available as a slice.
#[derive(Debug)]
struct Hidden(Vec<u8>);

impl ReadAt for Hidden {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_at(offset, buf)
    }

    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

/// A splitter that inspects and records the elements of a field, and begins slices at some of them.
struct Look {
    field: &'static str,
    in_options: bool,
    starts: Vec<u64>,
    seen: RefCell<Vec<(u64, Vec<u8>)>>,
}

impl ComposableSplitter for Look {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> proto_splitter_core::Result<()> {
        let root = cx.message();
        let message = if self.in_options {
            root.get("options")?.unwrap()
        } else {
            root.clone()
        };
        for element in message.repeated(self.field)? {
            let element = element?;
            assert_eq!(element.view().index(), Some(element.index()));
            assert_eq!(element.view().size(), element.size());
            let value = element.read()?;
            self.seen.borrow_mut().push((element.size(), value));
            if self.starts.contains(&element.index()) {
                cx.slice_at(&element)?;
            }
        }
        Ok(())
    }
}

/// Returns the elements of a field that a splitter sees, and the plan. Checks that both are the
/// same whether the message is in memory or read from a source.
fn look(
    bytes: &[u8],
    field: &'static str,
    in_options: bool,
    starts: &[u64],
) -> Result<(Vec<Vec<u8>>, SplitPlan), proto_splitter_core::Error> {
    let descriptor = FileDescriptorProto::default().descriptor();
    let hidden = Arc::new(Hidden(bytes.to_vec()));
    let look = |source: Source| {
        let look = Look {
            field,
            in_options,
            starts: starts.to_vec(),
            seen: RefCell::default(),
        };
        let options = SplitOptions::new().profile(Profile::Extended);
        let plan = look.plan(source, &options);
        let seen = look.seen.into_inner();
        assert!(seen.iter().all(|(size, value)| value.len() as u64 == *size));
        let seen: Vec<_> = seen.into_iter().map(|(_, value)| value).collect();
        plan.map(|plan| (seen, plan))
    };
    let read = look(Source::from_reader(
        hidden,
        bytes.len() as u64,
        descriptor.clone(),
    ));
    let memory = look(Source::from_bytes(bytes.to_vec(), descriptor));
    match (&memory, &read) {
        (Ok((a, _)), Ok((b, _))) => assert_eq!(a, b),
        (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string()),
        _ => panic!("{memory:?} {read:?}"),
    }
    memory
}

/// Returns elements with many different lengths, some with other fields between them.
fn values(count: usize, number: u32) -> (Vec<Vec<u8>>, Vec<u8>) {
    let lengths = [0, 1, 90, 127, 128, 300, 20_000, 5, 5, 5, 5];
    let value = |at: usize| named(lengths[at % 11], at);
    let values: Vec<Vec<u8>> = (0..count).map(value).collect();
    let mut bytes = Vec::new();
    for (at, value) in values.iter().enumerate() {
        if at % 50 > 45 {
            bytes.extend(len(1, b"between"));
        }
        bytes.extend(len(number, value.clone()));
    }
    (values, bytes)
}

/// Returns a message whose field 1 is a string of `length` bytes, or an empty message if `length`
/// is 0.
fn named(length: usize, at: usize) -> Vec<u8> {
    match length {
        0 => Vec::new(),
        _ => len(1, vec![b'a' + u8::try_from(at % 26).unwrap(); length]),
    }
}

#[test]
fn a_splitter_sees_every_element_however_it_is_written() {
    let (messages, mut bytes) = values(3000, 4);
    assert_eq!(
        look(&bytes, "message_type", false, &[]).unwrap().0,
        messages
    );
    // The options are in two pieces, with elements whose tags have two bytes.
    let (options, pieces) = (values(500, 999), values(400, 999));
    bytes.extend(len(8, options.1));
    bytes.extend(len(8, Vec::new()));
    bytes.extend(len(8, pieces.1));
    let expected = [options.0, pieces.0].concat();
    assert_eq!(
        look(&bytes, "uninterpreted_option", true, &[]).unwrap().0,
        expected
    );
    assert_eq!(
        look(&bytes, "message_type", false, &[]).unwrap().0,
        messages
    );
    // Some tags are overlong.
    let padded = [&b"\xa2\x00\x01a"[..], b"\x22\x01b", b"\xa2\x80\x00\x00"].concat();
    assert_eq!(
        look(&padded, "message_type", false, &[]).unwrap().0,
        [&b"a"[..], b"b", b""]
    );
}

#[test]
fn elements_end_with_what_is_wrong_behind_them() {
    let (_, bytes) = values(40, 4);
    for (behind, expected) in [
        (
            &b"\x22\x05abc"[..],
            "field 4: 5 bytes run past the end of the message, which has 3 more",
        ),
        (b"\x22", "length is truncated or too long"),
        (b"\x0f", "15 is not a tag"),
    ] {
        let error = look(&[&bytes, behind].concat(), "message_type", false, &[]).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn slices_have_the_elements_between_their_beginnings_and_no_more() {
    let (messages, bytes) = values(200, 4);
    for starts in [
        &[1u64][..],
        &[46, 47, 48],
        &[10, 20, 100, 199],
        &[60, 150],
        &[95],
    ] {
        let (_, plan) = look(&bytes, "message_type", false, starts).unwrap();
        let ends = starts.iter().skip(1).chain([&200]);
        let counts = starts
            .iter()
            .zip(ends.clone())
            .map(|(start, end)| Some(end - start));
        let found = plan.chunks()[1..].iter().map(|chunk| chunk.elements());
        assert!(found.eq(counts), "{starts:?}");
        let slices: Vec<u64> = starts
            .iter()
            .zip(ends)
            .map(|(&start, &end)| {
                let range = usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
                messages[range]
                    .iter()
                    .map(|value| len(4, value.clone()).len() as u64)
                    .sum()
            })
            .collect();
        let found = plan.chunks()[1..]
            .iter()
            .map(|chunk| chunk.size())
            .collect::<Vec<_>>();
        assert_eq!(found, slices, "{starts:?}");
        assert!(plan.byte_exact(), "{starts:?}");
    }
}

#[test]
fn pieces_of_a_field_below_have_what_is_around_it() {
    let field = |at: usize| FieldDescriptorProto {
        name: Some(format!("field {at}")),
        ..FieldDescriptorProto::default()
    };
    let of_type = |name: &str, count| DescriptorProto {
        name: Some(name.into()),
        field: (0..count).map(field).collect(),
        ..DescriptorProto::default()
    };
    let inner = DescriptorProto {
        nested_type: vec![of_type("first", 3), of_type("second", 100)],
        ..of_type("outer", 2)
    };
    let whole = FileDescriptorProto {
        name: Some("nested.proto".into()),
        message_type: vec![of_type("other", 5), inner],
        ..FileDescriptorProto::default()
    };
    let bytes = whole.encode_to_vec();
    let view = MessageView::of_plain(&bytes, options()).unwrap();
    let path = FieldPath::parse(
        "message_type[1].nested_type[1].field",
        view.descriptor().unwrap(),
    );
    let path = path.unwrap();
    for (wanted, with_rest) in [
        (PieceOptions::new().max_count(30), false),
        (PieceOptions::new().max_count(30).with_rest(true), true),
        (PieceOptions::new().max_size(200).with_rest(true), true),
        (PieceOptions::new().max_size(150), false),
    ] {
        let mut pieces = view.pieces(&path, &wanted).unwrap();
        let mut found = Vec::new();
        while let Some(piece) = pieces.next().transpose().unwrap() {
            let mut written = Vec::new();
            pieces.write_to(&mut written).unwrap();
            assert_eq!(written.len() as u64, piece.size);
            assert!(written.len() <= 200 || piece.count == 30 || piece.count == 10);
            let message = FileDescriptorProto::decode(&written[..]).unwrap();
            let [outer] = message.message_type.as_slice() else {
                panic!("{message:?}");
            };
            let [second] = outer.nested_type.as_slice() else {
                panic!("{message:?}");
            };
            assert_eq!(message.name.is_some(), with_rest);
            assert_eq!(outer.field.len(), if with_rest { 2 } else { 0 });
            assert_eq!(second.name.is_some(), with_rest);
            assert_eq!(second.field.len() as u64, piece.count);
            found.extend(second.field.clone());
        }
        assert_eq!(found, whole.message_type[1].nested_type[1].field);
    }
    for (path, expected) in [
        (
            "message_type[7].field",
            "the message with the field does not exist",
        ),
        (
            "message_type[1].nested_type[1].name",
            "the field is not repeated",
        ),
    ] {
        let path = FieldPath::parse(path, view.descriptor().unwrap()).unwrap();
        let error = view.pieces(&path, &PieceOptions::new()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_piece_whose_elements_are_in_too_many_places_ends_early() {
    const COUNT: u64 = (1 << 20) + 7;
    let message = b"\x0a\0\x10\0".repeat(usize::try_from(COUNT).unwrap());
    let view = MessageView::of_plain(&message, ReadOptions::new()).unwrap();
    let pieces = view.pieces(&path("1"), &PieceOptions::new()).unwrap();
    let pieces: Vec<_> = pieces.map(|piece| piece.unwrap()).collect();
    let counts: Vec<_> = pieces.iter().map(|piece| piece.count).collect();
    assert_eq!(counts, [1 << 20, 7]);
    assert_eq!(pieces[1].first, 1 << 20);
}

#[test]
fn pieces_of_a_field_in_a_group_or_a_map_have_its_tags_and_its_key() {
    // Field 13 is interpreted as a map of messages, although no type declares it.
    let elements = [len(7, "a"), len(7, "b")].concat();
    let entry = len(
        13,
        [
            len(1, "key"),
            len(2, [len(8, "rest"), elements.clone()].concat()),
        ]
        .concat(),
    );
    let in_group = group(33, [int(1, 3), elements].concat());
    for (bytes, path, expected) in [
        (
            entry,
            "13[\"key\"].7",
            len(13, [len(1, "key"), len(2, len(7, "b"))].concat()),
        ),
        (in_group, "33.7", group(33, len(7, "b"))),
    ] {
        let bytes = [int(1, 5), bytes].concat();
        let view = MessageView::of_plain(&bytes, ReadOptions::new()).unwrap();
        let path = path.parse().unwrap();
        let mut pieces = view
            .pieces(&path, &PieceOptions::new().max_count(1))
            .unwrap();
        assert_eq!(pieces.next().unwrap().unwrap().count, 1);
        let piece = pieces.next().unwrap().unwrap();
        let mut written = Vec::new();
        pieces.write_to(&mut written).unwrap();
        assert_eq!(written, expected);
        assert_eq!(piece.size, written.len() as u64);
        assert!(pieces.next().is_none());
    }
}
