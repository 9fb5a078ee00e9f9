use std::fs;
use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::*;
use crate::wire::{FieldNumber, put_varint};
use crate::{Error, ErrorKind};

fn all(spans: &Spans) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(spans.total_size()).unwrap()];
    spans.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

/// Bytes to append both to a message of spans and to the expected bytes.
#[derive(Clone, Debug)]
enum Step {
    Literal(Vec<u8>),
    Span(usize, usize, usize),
    Field(u32, Vec<Step>),
    TakenBack(Vec<Step>),
}

const FILES: [&[u8]; 2] = [b"the first of two files", b"and here is the second"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let leaf = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..5).prop_map(Step::Literal),
        (0..2usize, 0..10usize, 0..12usize).prop_map(|(file, at, len)| Step::Span(file, at, len)),
    ];
    let step = leaf.prop_recursive(4, 40, 6, |inner| {
        let steps = prop::collection::vec(inner, 0..6);
        prop_oneof![
            (1..3000u32, steps.clone()).prop_map(|(number, steps)| Step::Field(number, steps)),
            steps.prop_map(Step::TakenBack),
        ]
    });
    prop::collection::vec(step, 0..8)
}

fn add(builder: &mut SpansBuilder, ids: &[SourceId], steps: &[Step]) -> Vec<u8> {
    let mut expected = Vec::new();
    for step in steps {
        match step {
            Step::Literal(bytes) => {
                builder.literal(bytes).unwrap();
                expected.extend_from_slice(bytes);
            }
            Step::Span(file, at, len) => {
                let range = *at..at + len;
                builder
                    .span(ids[*file], range.start as u64..range.end as u64)
                    .unwrap();
                expected.extend_from_slice(&FILES[*file][range]);
            }
            Step::Field(number, steps) => {
                builder.begin_field(FieldNumber(*number)).unwrap();
                let value = add(builder, ids, steps);
                builder.end_field().unwrap();
                put_varint(&mut expected, u64::from(*number) << 3 | 2);
                put_varint(&mut expected, value.len() as u64);
                expected.extend(value);
            }
            Step::TakenBack(steps) => {
                let mark = builder.mark();
                add(builder, ids, steps);
                builder.rewind(mark);
            }
        }
    }
    expected
}

proptest! {
    #[test]
    fn a_message_of_spans_reads_as_the_bytes_that_it_was_built_of(
        steps in steps(),
        at in any::<prop::sample::Index>(),
        len in 0..60usize,
    ) {
        let mut builder = SpansBuilder::new();
        let ids = FILES.map(|file| builder.reader("memory", std::sync::Arc::new(file)).unwrap());
        let expected = add(&mut builder, &ids, &steps);
        let spans = builder.finish().unwrap();
        prop_assert_eq!(&all(&spans), &expected);

        let at = at.index(expected.len() + 1);
        let mut buf = vec![0; len];
        let n = spans.read_at(at as u64, &mut buf).unwrap();
        prop_assert_eq!(&buf[..n], &expected[at..expected.len().min(at + len)]);

        // Reading piece by piece yields the same bytes.
        let mut walked = 0;
        while let Some(span) = spans.locate(walked as u64) {
            let left = usize::try_from(span.len).unwrap();
            let bytes = match span.source {
                SpanSource::Literal(bytes) => bytes,
                SpanSource::Stored(file, at) => {
                    let at = usize::try_from(at).unwrap();
                    &FILES[file.index()][at..at + left]
                }
            };
            prop_assert_eq!(bytes, &expected[walked..walked + left]);
            walked += left;
        }
        prop_assert_eq!(walked, expected.len());
    }
}

#[test]
fn neighbours_in_one_file_are_one_piece() {
    let mut builder = SpansBuilder::new();
    let file = builder
        .reader("memory", std::sync::Arc::new([7u8; 100]))
        .unwrap();
    for at in 0..50 {
        builder.span(file, 2 * at..2 * at + 2).unwrap();
    }
    builder.literal(b"a").unwrap();
    builder.literal(b"b").unwrap();
    assert_eq!(builder.finish().unwrap().list().span_count(), 2);
    assert!(size_of::<list::Piece>() <= 24);
}

#[test]
fn a_span_that_the_file_does_not_have_is_refused_when_it_is_added() {
    let mut builder = SpansBuilder::new();
    let file = builder
        .reader("weights", std::sync::Arc::new([0u8; 10]))
        .unwrap();
    for range in [
        0..11,
        10..11,
        u64::MAX - 1..u64::MAX,
        std::ops::Range { start: 3, end: 2 },
    ] {
        let error = builder.span(file, range).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessage);
        assert!(error.to_string().starts_with("weights: bytes "), "{error}");
    }
    builder.span(file, 10..10).unwrap();
    assert_eq!(builder.finish().unwrap().total_size(), 0);
}

#[test]
fn a_message_of_spans_that_is_longer_than_a_file_can_be_is_refused() {
    struct Endless;
    impl ReadAt for Endless {
        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
        fn size(&self) -> io::Result<u64> {
            Ok(u64::MAX)
        }
    }
    let mut builder = SpansBuilder::new();
    let file = builder
        .reader("endless", std::sync::Arc::new(Endless))
        .unwrap();
    builder.span(file, 0..MAX_SPANS_SIZE).unwrap();
    let error = builder.span(file, 0..1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    let error = builder.literal(b"a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
}

#[test]
fn fields_that_are_not_ended_or_not_begun_are_errors() {
    let mut builder = SpansBuilder::new();
    let error = builder.end_field().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    builder.begin_field(FieldNumber(1)).unwrap();
    let error = builder.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

#[test]
fn few_of_many_files_are_open_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut builder = SpansBuilder::new().max_open_files(NonZeroUsize::new(3).unwrap());
    let mut expected = Vec::new();
    for number in 0..20u8 {
        let path = folder.path().join(number.to_string());
        fs::write(&path, [number; 5]).unwrap();
        let file = builder.open(path).unwrap();
        builder.span(file, 1..4).unwrap();
        expected.extend([number; 3]);
    }
    let spans = builder.finish().unwrap();
    assert_eq!(all(&spans), expected);
    assert_eq!(all(&spans), expected);
    spans.check_unchanged().unwrap();
    assert_eq!(spans.files.open_count(), 3);
}

#[test]
fn a_file_that_is_changed_replaced_or_removed_is_an_error() {
    type Change = fn(&Path);
    let changes: [(&str, ErrorKind, Change); 4] = [
        ("shrunk", ErrorKind::SourceChanged, |path| {
            fs::write(path, b"12").unwrap();
        }),
        ("grown", ErrorKind::SourceChanged, |path| {
            fs::write(path, b"0123456789+").unwrap();
        }),
        ("replaced", ErrorKind::SourceChanged, |path| {
            fs::write(path.with_extension("new"), b"9876543210").unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        }),
        ("removed", ErrorKind::Io, |path| {
            fs::remove_file(path).unwrap();
        }),
    ];
    for (what, kind, change) in changes {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        fs::write(&path, b"0123456789").unwrap();
        let other = folder.path().join("other");
        fs::write(&other, b"other").unwrap();
        // At most one file is open at a time, so that each read has to open its file again.
        let mut builder = SpansBuilder::new().max_open_files(NonZeroUsize::MIN);
        let weights = builder.open(&path).unwrap();
        builder.span(weights, 0..10).unwrap();
        let other = builder.open(&other).unwrap();
        builder.span(other, 0..5).unwrap();
        let spans = builder.finish().unwrap();
        assert_eq!(all(&spans), b"0123456789other");
        change(&path);
        for error in [
            spans.check_unchanged().unwrap_err(),
            Error::from(spans.read_at(0, &mut [0; 15]).unwrap_err()),
        ] {
            assert_eq!(error.kind(), kind, "{what}: {error}");
            let named = path.display().to_string();
            assert!(error.to_string().contains(&named), "{what}: {error}");
        }
    }
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut builder = SpansBuilder::new();
    let mut refused = vec![folder.path().to_owned(), folder.path().join("missing")];
    #[cfg(unix)]
    {
        let socket = folder.path().join("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        refused.push(socket);
    }
    for path in refused {
        let error = builder.open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().starts_with(&path.display().to_string()));
    }
}

#[test]
fn a_split_of_a_message_of_spans_whose_file_changes_fails() {
    use crate::split::{SizeSplitter, Source, SplitExt, SplitOptions};
    use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("name");
    fs::write(&path, [b'n'; 3000]).unwrap();
    let mut builder = SpansBuilder::new();
    let name = builder.open(&path).unwrap();
    builder.begin_field(FieldNumber(1)).unwrap();
    builder.span(name, 0..3000).unwrap();
    builder.end_field().unwrap();
    let spans = std::sync::Arc::new(builder.finish().unwrap());
    let source = Source::from_spans(spans, FileDescriptorProto::default().descriptor());
    let options = SplitOptions::new().max_chunk_size(1000);
    let target = folder.path().join("split");
    let written = SizeSplitter.write_with(&source, &target, &options).unwrap();
    let merged: FileDescriptorProto = crate::merge::Merger::new().read(&written.path).unwrap();
    assert_eq!(merged.name().len(), 3000);

    fs::write(&path, [b'm'; 3001]).unwrap();
    let options = options.force(true);
    let error = SizeSplitter
        .write_with(&source, &target, &options)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SourceChanged);
}

#[test]
fn every_byte_is_in_the_span_that_begins_last_at_or_before_it() {
    for lens in [
        vec![1; 40],
        (1..40).collect(),
        (1..40).rev().collect(),
        vec![1, 1000, 1, 1, 1, 1, 1, 1, 1],
        vec![1, 1, 1, 1, 1, 1, 1, 1000, 1],
        vec![1000, 1, 1, 1, 1, 1, 1, 1, 1],
        vec![1, 1, 1, 1, 1, 1, 1, 1, 1000],
    ] {
        let mut list = SpanList::new();
        for (at, &len) in lens.iter().enumerate() {
            let start = 5000 * at as u64;
            list.push_span(SourceId::FIRST, start..start + len);
        }
        assert_eq!(list.span_count(), lens.len());
        for offset in 0..list.len() {
            let expected = list.iter().rposition(|span| span.offset <= offset);
            assert_eq!(list.index_of(offset), expected, "{lens:?} {offset}");
        }
        assert_eq!(list.index_of(list.len()), None);
    }
}
