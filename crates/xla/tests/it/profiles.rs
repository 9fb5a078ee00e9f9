//! Profiles, in one piece and in records.

use std::sync::Arc;

use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::{ConvertOptions, ConvertTarget, Format, OpenOptions, Registry};
use proto_splitter_xla::{ProfileDraft, ProfileFormat, XSPACE, XlaFormat};
use record_file::{RecordFile, RecordWriter};

use crate::fixtures::{decoded, path, read, same};

static FORMATS: Registry = Registry::new(&[&XlaFormat, &ProfileFormat]);

const PLAIN: &str = "xspace/jax01201_cpu.xplane.pb";

fn target(name: &str) -> &'static ConvertTarget {
    ProfileFormat
        .targets()
        .iter()
        .find(|target| target.name == name)
        .unwrap()
}

fn records(records: &[&[u8]]) -> Vec<u8> {
    let mut writer = RecordWriter::with_defaults(Vec::new());
    records
        .iter()
        .for_each(|record| writer.write_record(record).unwrap());
    writer.finish().unwrap()
}

#[test]
fn records_are_the_profile_that_they_were_cut_from() {
    let plain = decoded(XSPACE, &read(PLAIN));
    for name in [
        "xspace/jax01201_cpu.by_events.xplane.riegeli",
        "xspace/tf2220rc0_writer.by_line.xplane.riegeli",
    ] {
        let opened = FORMATS.open(path(name), &OpenOptions::new()).unwrap();
        assert_eq!(opened.format().unwrap().name(), "xplane");
        assert!(
            same(&decoded(XSPACE, &opened.bytes().unwrap()), &plain),
            "{name}"
        );
        opened.verify().unwrap();
    }
}

#[test]
fn a_profile_comes_back_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let opened = FORMATS.open(path(PLAIN), &OpenOptions::new()).unwrap();
    let cut = folder.path().join("vm.xplane.riegeli");
    let options = ConvertOptions::new();
    ProfileFormat
        .convert(&opened, target("xplane-riegeli"), &cut, &options)
        .unwrap();
    let bytes = std::fs::read(&cut).unwrap();
    assert_eq!(bytes.len() % 65_536, 0);
    // A record for the planes, and one for each line.
    let file = RecordFile::open(&bytes, Default::default()).unwrap();
    let count: u64 = file
        .chunks()
        .map(|chunk| chunk.unwrap().header.num_records)
        .sum();
    assert_eq!(count, 4);

    let opened = FORMATS.open(&cut, &OpenOptions::new()).unwrap();
    let back = folder.path().join("vm.xplane.pb");
    ProfileFormat
        .convert(&opened, target("pb"), &back, &options)
        .unwrap();
    assert_eq!(std::fs::read(&back).unwrap(), read(PLAIN));
}

#[test]
fn what_would_be_joined_stays_whole() {
    for (profile, count) in [
        // Two planes "p"; then one with the line 1 twice; then one with its lines behind the rest.
        (
            &b"\x0a\x07\x12\x01p\x1a\x02\x08\x01\x0a\x07\x12\x01p\x1a\x02\x08\x02"[..],
            1,
        ),
        (b"\x0a\x0b\x12\x01p\x1a\x02\x08\x01\x1a\x02\x08\x01", 1),
        (b"\x0a\x0b\x12\x01p\x32\x02\x08\x01\x1a\x02\x08\x01", 1),
        (b"\x0a\x0b\x12\x01p\x1a\x02\x08\x01\x32\x02\x08\x01", 2),
        (b"", 1),
    ] {
        let draft = ProfileDraft::new(Arc::new(profile.to_vec())).unwrap();
        assert_eq!(draft.record_count(), count, "{}", profile.escape_ascii());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.xplane.riegeli");
        draft
            .write_file(&file, &Default::default(), &ConvertOptions::new())
            .unwrap();
        let opened = FORMATS.open(&file, &OpenOptions::new()).unwrap();
        assert_eq!(opened.bytes().unwrap(), profile);
    }
}

#[test]
fn records_are_merged_by_the_rules_of_xprof() {
    // Several new planes, and several new lines, of one record come in reverse order; the texts of a
    // record that are there already aren't added.
    let merged = |parts: &[&[u8]]| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.xplane.riegeli");
        std::fs::write(&file, records(parts)).unwrap();
        let opened = FORMATS.open(&file, &OpenOptions::new());
        opened
            .and_then(|opened| opened.bytes())
            .map(|bytes| bytes.to_vec())
    };
    assert_eq!(
        merged(&[
            b"\x0a\x03\x12\x01p\x22\x01h",
            b"\x0a\x03\x12\x01a\x0a\x03\x12\x01b\x22\x01h\x22\x01i"
        ])
        .unwrap(),
        b"\x0a\x03\x12\x01p\x0a\x03\x12\x01b\x0a\x03\x12\x01a\x22\x01h\x22\x01i"
    );
    assert_eq!(
        merged(&[
            b"\x0a\x03\x12\x01p",
            b"\x0a\x0b\x12\x01p\x1a\x02\x08\x01\x1a\x02\x08\x02"
        ])
        .unwrap(),
        b"\x0a\x0b\x12\x01p\x1a\x02\x08\x02\x1a\x02\x08\x01"
    );
    // Events of one line, and the longer duration.
    assert_eq!(
        merged(&[
            b"\x0a\x0b\x12\x01p\x1a\x06\x08\x01\x22\x00\x48\x05",
            b"\x0a\x0b\x12\x01p\x1a\x06\x08\x01\x22\x00\x48\x07",
        ])
        .unwrap(),
        b"\x0a\x0d\x12\x01p\x1a\x08\x08\x01\x22\x00\x22\x00\x48\x07"
    );
    let error = merged(&[b"\x0a\x03\x12\x01p", b"\x0a\x07\x12\x01p\x22\x02\x08\x01"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    assert!(
        error
            .to_string()
            .contains("record 1: plane \"p\" has metadata"),
        "{error}"
    );
}

#[test]
fn damage_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.xplane.riegeli");
    let mut bytes = read("xspace/jax01201_cpu.by_events.xplane.riegeli");
    bytes[200] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let error = FORMATS.open(&file, &OpenOptions::new()).unwrap_err();
    assert!(error.to_string().contains("hash"), "{error}");
}
