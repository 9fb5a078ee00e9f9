//! Tests that the elements of a message can be written as a sequence and read back.

use std::io::Cursor;
use std::sync::Arc;

use proptest::prelude::*;
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};
use proto_splitter_core::ErrorKind;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::wire::FieldNumber;
use proto_splitter_sequences::Elements;
use record_file::{ReaderOptions, RecordFile, RecordReader, RecordsMetadata, WriterOptions};

use crate::made::{delimited, element, elements, message, open, read_all};

fn elements_of(message: Vec<u8>) -> Elements {
    Elements::new(Arc::new(message), FieldNumber(1))
}

fn write_delimited(elements: &Elements) -> proto_splitter_core::Result<(u64, Vec<u8>)> {
    let mut file = Vec::new();
    let count = elements.write_delimited(&mut file, &Progress::default())?;
    Ok((count, file))
}

#[test]
fn each_element_is_a_record_that_another_reader_reads() {
    // The last element is large enough to be streamed.
    let elements = elements(&[0, 5, 100_000, 9 << 20]);
    let mut file = Cursor::new(Vec::new());
    let options: WriterOptions = "transpose,zstd:1".parse().unwrap();
    let count = elements_of(message(&elements))
        .write_records(&mut file, None, &options, &Progress::default())
        .unwrap();
    assert_eq!(count, 4);
    let mut reader = RecordReader::from_read(Cursor::new(file.into_inner()), ReaderOptions::new());
    for element in &elements {
        assert!(reader.read_record().unwrap() == Some(&element[..]));
    }
    assert!(reader.read_record().unwrap().is_none());
}

#[test]
fn a_schema_with_a_long_chain_of_imports_is_stored_with_the_records() {
    const FILES: usize = 20_000;
    let name = |at: usize| format!("{at}.proto");
    let file = |at: usize| FileDescriptorProto {
        name: Some(name(at)),
        dependency: at.checked_sub(1).map(name).into_iter().collect(),
        message_type: vec![DescriptorProto {
            name: Some(format!("M{at}")),
            ..Default::default()
        }],
        ..Default::default()
    };
    let file = (0..FILES).map(file).collect();
    let pool = DescriptorPool::from_file_descriptor_set(FileDescriptorSet { file }).unwrap();
    let last = pool.get_message_by_name("M19999").unwrap();
    let mut file = Cursor::new(Vec::new());
    let options = WriterOptions::new();
    let written = elements_of(message(&elements(&[5])));
    written
        .write_records(&mut file, Some(&last), &options, &Progress::default())
        .unwrap();
    let file = RecordFile::open(file.into_inner(), ReaderOptions::new()).unwrap();
    let metadata = RecordsMetadata::parse(&file.metadata().unwrap().unwrap()).unwrap();
    assert_eq!(metadata.file_descriptors.len(), FILES);
}

#[test]
fn another_field_is_refused_unless_it_is_to_be_dropped() {
    let mut bytes = message(&[element(0, 4)]);
    let at = bytes.len() as u64;
    bytes.extend_from_slice(b"\x10\x07");
    let mixed = elements_of(bytes);
    let error = write_delimited(&mixed).unwrap_err();
    assert_eq!(
        (error.kind(), error.offset()),
        (ErrorKind::Uncuttable, Some(at))
    );
    let dropped = write_delimited(&mixed.drop_others(true)).unwrap();
    assert_eq!(dropped, (1, delimited(&[element(0, 4)])));
}

#[test]
fn a_message_that_breaks_off_is_an_error() {
    let mut bytes = message(&elements(&[40, 50]));
    bytes.pop();
    let error = write_delimited(&elements_of(bytes)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidMessage);
}

proptest! {
    #[test]
    fn a_sequence_that_was_read_as_a_message_is_written_as_it_was(
        names in prop::collection::vec(prop_oneof![8 => 0..200usize, 1 => 60_000..300_000usize], 0..40),
    ) {
        let file = delimited(&elements(&names));
        let message = read_all(&open(file.clone()).unwrap()).unwrap();
        prop_assert!(write_delimited(&elements_of(message)).unwrap() == (names.len() as u64, file));
    }
}
