//! Behavior of a build with only some of the codecs. CI runs these tests both without codecs and
//! with all of them.

use std::io::Cursor;

use crate::{Compression, ErrorKind, ReaderOptions, RecordReader, RecordWriter, WriterOptions};

const ALL: [Compression; 4] = [
    Compression::None,
    Compression::ZSTD,
    Compression::BROTLI,
    Compression::SNAPPY,
];

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/riegeli");

#[test]
fn a_codec_that_the_build_lacks_is_refused_before_anything_is_written() {
    for compression in ALL {
        let options = WriterOptions::new().compression(compression);
        let writer = RecordWriter::new(Cursor::new(Vec::new()), options);
        let kind = compression.kind();
        if kind.is_available() {
            let mut writer = writer.unwrap();
            writer.write_record(&[7; 5000]).unwrap();
            let file = writer.finish().unwrap().into_inner();
            let mut reader = RecordReader::new(&file[..], ReaderOptions::new());
            assert_eq!(
                reader.read_record().unwrap(),
                Some(&[7; 5000][..]),
                "{kind}"
            );
        } else {
            let error = writer.err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            let message =
                format!("this build can't compress with {kind}: its feature `{kind}` is off");
            assert!(error.to_string().contains(&message), "{error}");
        }
    }
}

#[test]
fn a_file_of_a_codec_that_the_build_lacks_is_unsupported() {
    for (kind, file) in [
        ("zstd", "ar_g60_zstd3"),
        ("brotli", "ar_g60_brotli6"),
        ("snappy", "ar_g60_snappy"),
    ] {
        let file = format!("{DATA}/{file}.array_record");
        let file = std::fs::read(file).unwrap();
        let compression: Result<Compression, _> = kind.parse();
        let mut reader = RecordReader::new(&file[..], ReaderOptions::new());
        match (reader.read_record(), compression) {
            (Ok(record), Ok(_)) => assert!(record.is_some(), "{kind}"),
            (Err(error), Err(_)) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                assert!(error.to_string().contains(kind), "{error}");
            }
            (read, parsed) => panic!("{kind}: {read:?}, {parsed:?}"),
        }
    }
}
