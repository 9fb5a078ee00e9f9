//! Tests that reading a sequence at any position gives the bytes of the message with the same
//! elements.

use proptest::prelude::*;
use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::FileOffsets;
use record_file::ReadAt;

use crate::made::{delimited, element, elements, message, open, read_all, records};

/// Options for the record writer, which result in small chunks, transposed chunks, or a chunk for
/// each record.
const WRITERS: [&str; 5] = [
    "uncompressed",
    "zstd:1,chunk_size:300",
    "transpose,zstd:1",
    "transpose,brotli:1,chunk_size:1000",
    "snappy,chunk_size:1",
];

#[test]
fn small_and_large_elements_and_empty_ones_are_read_in_their_order() {
    let mut names = vec![0, 1, 100, 0, 300_000, 5, 262_144, 262_143, 7, 0];
    names.extend((0..3000).map(|number| number % 400));
    let elements = elements(&names);
    let expected = message(&elements);
    let mut files = vec![delimited(&elements)];
    files.extend(WRITERS.map(|options| records(&elements, options)));
    for file in files {
        let sequence = open(file).unwrap();
        assert_eq!(sequence.len(), names.len() as u64);
        assert_eq!(sequence.size().unwrap(), expected.len() as u64);
        assert!(read_all(&sequence).unwrap() == expected);
    }
}

#[test]
fn a_sequence_without_elements_is_an_empty_message() {
    for file in [Vec::new(), records(&[], "zstd:1")] {
        let sequence = open(file).unwrap();
        assert!(sequence.is_empty());
        assert_eq!(sequence.size().unwrap(), 0);
        assert_eq!(sequence.read_at(0, &mut [0; 8]).unwrap(), 0);
    }
}

#[test]
fn each_byte_of_an_element_has_its_offset_in_a_delimited_file() {
    // The lengths result in groups of small elements, large elements in their own groups, and empty
    // elements.
    let names: Vec<usize> = (0..2000).map(|number| number % 300).collect();
    let elements = elements(&[&names[..], &[300_000, 0, 5, 262_144, 1]].concat());
    let file = delimited(&elements);
    let sequence = open(file.clone()).unwrap();
    let (mut start, mut at) = (0, 0);
    for element in &elements {
        let head = delimited(std::slice::from_ref(element)).len() - element.len();
        // In the message, the element is preceded by a tag of one byte, which isn't in the file.
        let [value, place] = [start + 1 + head, at + head];
        for within in [0, element.len() / 2, element.len().saturating_sub(1)] {
            if within < element.len() {
                let found = sequence.file_offset((value + within) as u64);
                assert_eq!(found, Some((place + within) as u64));
                assert_eq!(file[place + within], element[within]);
            }
        }
        assert_eq!(sequence.file_offset(start as u64), Some(at as u64));
        (start, at) = (value + element.len(), place + element.len());
    }
    assert_eq!(sequence.file_offset(start as u64), Some(file.len() as u64));
    let records = open(records(&elements, "zstd:1")).unwrap();
    assert_eq!(records.file_offset(3), None);
}

#[test]
fn a_padded_length_stays_as_it_is() {
    let file = b"\x83\x80\x00\x0a\x01n\x00".to_vec();
    let sequence = open(file).unwrap();
    assert_eq!(
        read_all(&sequence).unwrap(),
        b"\x0a\x83\x80\x00\x0a\x01n\x0a\x00"
    );
}

#[test]
fn a_file_that_ends_inside_a_message_is_refused_with_its_number_and_offset() {
    let whole = delimited(&elements(&[5, 300]));
    let cases: [(&[u8], &str); 4] = [
        (
            &whole[..40],
            "message 1: it should have 303 bytes, but the file ends after 30",
        ),
        (&whole[..9], "message 1: the file ends inside its length"),
        (
            &[0xff; 12],
            "message 0: no length: a varint of 64 bits was expected",
        ),
        (
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "message 0: it should have 18446744073709551615 bytes, but the file ends after 0",
        ),
    ];
    for (file, expected) in cases {
        let error = open(file.to_vec()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessage);
        assert!(error.offset().is_some());
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn a_flipped_bit_in_a_record_is_never_read_as_something_else() {
    let elements = elements(&[10, 200, 3000, 0, 77]);
    let expected = message(&elements);
    for options in WRITERS {
        let file = records(&elements, options);
        for at in (0..file.len()).step_by(7) {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << (at % 8);
            let read = open(damaged).map_err(|error| error.to_string());
            let read = read.and_then(|sequence| {
                // If the damage removes Riegeli's signature, the file is read as a delimited file,
                // without checks.
                let is_checked = sequence.is_checked();
                let bytes = read_all(&sequence).map_err(|error| error.to_string())?;
                Ok(is_checked.then_some(bytes))
            });
            if let Ok(Some(bytes)) = read {
                assert!(bytes == expected, "{options}: byte {at}");
            }
        }
    }
}

#[test]
fn a_file_that_changes_while_it_is_open_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::fs::write(&path, delimited(&[element(0, 3), element(1, 3)])).unwrap();
    let file = std::sync::Arc::new(std::fs::File::open(&path).unwrap());
    let root = proto_splitter_sequences::Root::untyped();
    let sequence = proto_splitter_sequences::Sequence::open(file, &root, &Default::default());
    std::fs::write(&path, delimited(&[element(0, 4), element(1, 2)])).unwrap();
    let mut bytes = [0; 7];
    // The changed file has the same number of messages and bytes, so reading doesn't fail, but
    // returns the new lengths.
    sequence
        .as_ref()
        .unwrap()
        .read_exact_at(0, &mut bytes)
        .unwrap();
    std::fs::write(&path, b"\x0a").unwrap();
    let other = proto_splitter_sequences::Sequence::open(
        std::sync::Arc::new(std::fs::File::open(&path).unwrap()),
        &root,
        &Default::default(),
    );
    assert!(other.is_err());
}

proptest! {
    #[test]
    fn any_part_of_a_sequence_is_that_part_of_its_message(
        names in prop::collection::vec(prop_oneof![8 => 0..200usize, 1 => 60_000..300_000usize], 0..60),
        writer in 0..=WRITERS.len(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 1..5000usize), 1..20),
    ) {
        let elements = elements(&names);
        let expected = message(&elements);
        let file = match WRITERS.get(writer) {
            Some(options) => records(&elements, options),
            None => delimited(&elements),
        };
        let sequence = open(file).unwrap();
        prop_assert_eq!(sequence.size().unwrap(), expected.len() as u64);
        for (at, len) in cuts {
            let at = at.index(expected.len() + 1);
            let end = expected.len().min(at + len);
            let mut part = vec![0; end - at];
            sequence.read_exact_at(at as u64, &mut part).unwrap();
            prop_assert!(part == expected[at..end]);
        }
    }

    #[test]
    fn any_bytes_are_a_sequence_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(sequence) = open(bytes.clone()) {
            let message = read_all(&sequence).unwrap();
            prop_assert_eq!(message.len() as u64, bytes.len() as u64 + sequence.len());
        }
    }
}
