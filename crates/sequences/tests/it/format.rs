//! Opening sequences with a registry, and writing other messages as sequences.

use std::path::Path;

use prost::Message;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::{
    Checks, ConvertOptions, ConvertTarget, Format, OpenOptions, Opened, Registry,
};
use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
use proto_splitter_core::wire::put_varint;
use proto_splitter_sequences::{Root, SEQUENCE, SequenceFormat, sequence_of};
use record_file::{RecordWriter, RecordsMetadata, WriterOptions};

use crate::made::{delimited, element_type, elements, message, records};

static FORMATS: Registry = Registry::new(&[&SequenceFormat]);

fn open(path: &Path) -> Opened {
    let options = OpenOptions::new().descriptor(sequence_of(&element_type()).unwrap());
    FORMATS.open_as(&SequenceFormat, path, &options).unwrap()
}

fn target(name: &str) -> &'static ConvertTarget {
    let targets = SequenceFormat.targets().iter();
    targets
        .into_iter()
        .find(|target| target.name == name)
        .unwrap()
}

#[test]
fn the_elements_of_a_delimited_file_have_paths() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("files.log");
    std::fs::write(&path, delimited(&elements(&[2, 3, 4]))).unwrap();
    let opened = open(&path);
    assert_eq!(opened.get("message[2].name").unwrap(), "cccc");
    assert_eq!(opened.get("message[name=\"bbb\"].name").unwrap(), "bbb");
    assert_eq!(opened.descriptor().unwrap().full_name(), SEQUENCE);
    assert_eq!(opened.verify().unwrap().checks, Checks::Structure);
}

#[test]
fn a_record_file_that_says_its_type_is_recognized() {
    let folder = tempfile::tempdir().unwrap();
    let elements = elements(&[2, 3, 300]);
    let plain = folder.path().join("files.log");
    std::fs::write(&plain, delimited(&elements)).unwrap();
    let typed = folder.path().join("files.riegeli");
    let written = SequenceFormat
        .convert(
            &open(&plain),
            target("records"),
            &typed,
            &ConvertOptions::new(),
        )
        .unwrap();
    assert_eq!(written.bytes, std::fs::metadata(&typed).unwrap().len());

    let opened = FORMATS.open(&typed, &OpenOptions::new()).unwrap();
    assert_eq!(
        opened.format().map(|format| format.name()),
        Some("sequence")
    );
    assert_eq!(opened.get("message[1].name").unwrap(), "bbb");
    assert_eq!(opened.verify().unwrap().checks, Checks::Checksums);

    // The requested type can be that of the elements, or a type that contains the elements.
    for asked in [element_type(), sequence_of(&element_type()).unwrap()] {
        let options = OpenOptions::new().descriptor(asked);
        let opened = FORMATS.open(&typed, &options).unwrap();
        assert_eq!(opened.get("message[0].name").unwrap(), "aa");
    }
    let pool = element_type().parent_pool().clone();
    let root = Root::named(&pool, "google.protobuf.FileDescriptorSet.file").unwrap();
    let options = OpenOptions::new().descriptor(root.descriptor().cloned());
    let set = FORMATS.open(&typed, &options).unwrap();
    assert_eq!(set.get("file[0].name").unwrap(), "aa");
}

#[test]
fn a_record_file_without_a_type_is_not_recognized_but_opened_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("files.riegeli");
    std::fs::write(&path, records(&elements(&[2, 3]), "zstd:1")).unwrap();
    assert!(FORMATS.open(&path, &OpenOptions::new()).is_err());
    assert_eq!(open(&path).get("message[1].name").unwrap(), "bbb");
    let untyped = FORMATS
        .open_as(&SequenceFormat, &path, &OpenOptions::new())
        .unwrap();
    assert_eq!(untyped.get("1[1].1").unwrap(), "bbb");
}

/// Returns a record file with one record and the given metadata.
fn records_with(metadata: Vec<u8>) -> Vec<u8> {
    let options = WriterOptions::new().serialized_metadata(metadata);
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    writer.write_record(&elements(&[2])[0]).unwrap();
    writer.finish().unwrap()
}

/// Returns metadata with the type `M`, whose schema is one file that ends with the given bytes.
fn metadata_of_m(rest: &[u8]) -> Vec<u8> {
    let file = FileDescriptorProto {
        name: Some("m.proto".to_owned()),
        message_type: vec![DescriptorProto {
            name: Some("M".to_owned()),
            ..DescriptorProto::default()
        }],
        ..FileDescriptorProto::default()
    };
    let metadata = RecordsMetadata {
        record_type_name: Some("M".to_owned()),
        file_descriptors: vec![[&file.encode_to_vec()[..], rest].concat()],
        ..RecordsMetadata::default()
    };
    metadata.serialize()
}

#[test]
fn the_schema_of_records_is_used_unless_it_would_take_too_much_memory() {
    let edition_2023 = b"\x62\x08editions\x70\xe8\x07";
    // `source_code_info` with empty locations of two bytes each.
    let locations = 400_000;
    let mut source_info = vec![0x4a];
    put_varint(&mut source_info, 2 * locations as u64);
    source_info.extend(b"\x0a\x00".repeat(locations));
    // Fields that the metadata doesn't have.
    let unknown = b"\xc0\x3e\x01".repeat(200_000);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.riegeli");
    for (metadata, is_used) in [
        (metadata_of_m(b""), true),
        (metadata_of_m(edition_2023), true),
        (metadata_of_m(&source_info), false),
        ([metadata_of_m(b""), unknown].concat(), false),
    ] {
        std::fs::write(&path, records_with(metadata)).unwrap();
        let options = OpenOptions::new();
        let opened = FORMATS.open_as(&SequenceFormat, &path, &options).unwrap();
        assert_eq!(opened.descriptor().is_some(), is_used);
        assert_eq!(FORMATS.open(&path, &options).is_ok(), is_used);
    }
}

#[test]
fn a_sequence_is_split_and_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("files.log");
    let elements = elements(&[200; 500]);
    std::fs::write(&path, delimited(&elements)).unwrap();
    let options = SplitOptions::new().max_chunk_size(10_000);
    let source = open(&path).source().unwrap();
    let chunks = SizeSplitter
        .write_with(source, folder.path().join("files"), &options)
        .unwrap();
    let options = OpenOptions::new().descriptor(sequence_of(&element_type()).unwrap());
    let opened = FORMATS.open(&chunks.path, &options).unwrap();
    assert!(opened.chunked().is_some());
    assert!(opened.bytes().unwrap() == message(&elements));
    let back = folder.path().join("back.log");
    SequenceFormat
        .convert(&opened, target("delimited"), &back, &ConvertOptions::new())
        .unwrap();
    assert!(std::fs::read(&back).unwrap() == delimited(&elements));
    let options = ConvertOptions::new();
    let again = SequenceFormat.convert(&opened, target("delimited"), &back, &options);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[test]
fn a_wrong_setting_or_root_is_refused_with_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("files.log");
    std::fs::write(&path, delimited(&elements(&[2]))).unwrap();
    let output = folder.path().join("out");
    let convert = |name: &str, value: &str| {
        let options = ConvertOptions::new().setting(name, value);
        let converted =
            SequenceFormat.convert(&open(&path), target("delimited"), &output, &options);
        converted.unwrap_err().to_string()
    };
    assert_eq!(
        convert("field", "name"),
        "proto_splitter.Sequence has no field \"name\""
    );
    assert_eq!(
        convert("others", "keep"),
        "others must be refuse or drop, not \"keep\""
    );
    assert_eq!(
        convert("records", "zstd"),
        "there is no setting \"records\" for this form"
    );
    assert!(!output.exists());

    let pool = element_type().parent_pool().clone();
    let named = |name: &str| Root::named(&pool, name).unwrap_err().to_string();
    assert_eq!(
        named("google.protobuf.Nothing"),
        "the schema has no type \"google.protobuf.Nothing\", and no repeated field of that name"
    );
    assert_eq!(
        named("google.protobuf.FileDescriptorProto.name"),
        "google.protobuf.FileDescriptorProto.name isn't a repeated message"
    );
    let several = Root::of_field(&element_type(), None).unwrap_err();
    assert!(
        several
            .to_string()
            .contains("name one of message_type, enum_type")
    );
}
