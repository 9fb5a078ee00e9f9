//! Tests of profiles in one piece and in records.

use std::sync::Arc;

use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, MapKey, Value};
use proto_splitter_core::formats::{ConvertOptions, ConvertTarget, Format, OpenOptions, Registry};
use proto_splitter_xla::{ProfileDraft, ProfileFormat, XSPACE, XlaFormat};
use record_file::RecordFile;

use crate::fixtures::{decoded, path, read, record_file as records, same};

static FORMATS: Registry = Registry::new(&[&XlaFormat, &ProfileFormat]);

const PLAIN: &str = "xspace/jax01201_cpu.xplane.pb";

fn target(name: &str) -> &'static ConvertTarget {
    ProfileFormat
        .targets()
        .iter()
        .find(|target| target.name == name)
        .unwrap()
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
    // The first record has the planes, and each other record has one line.
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
        // These profiles have two planes "p", line 1 twice, or lines after the other fields of
        // their plane.
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
    // New planes or lines in the same record are added in reverse order. Strings that the profile
    // already has aren't added again.
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
    // Merging two lines concatenates their events, and keeps the longer duration.
    assert_eq!(
        merged(&[
            b"\x0a\x0b\x12\x01p\x1a\x06\x08\x01\x22\x00\x48\x05",
            b"\x0a\x0b\x12\x01p\x1a\x06\x08\x01\x22\x00\x48\x07",
        ])
        .unwrap(),
        b"\x0a\x0d\x12\x01p\x1a\x08\x08\x01\x22\x00\x22\x00\x48\x07"
    );
    // If a profile has several planes or lines with the same name or id, later records are merged
    // into the last one.
    assert_eq!(
        merged(&[
            b"\x0a\x05\x08\x01\x12\x01p\x0a\x05\x08\x02\x12\x01p",
            b"\x0a\x07\x12\x01p\x1a\x02\x08\x03",
        ])
        .unwrap(),
        b"\x0a\x05\x08\x01\x12\x01p\x0a\x09\x08\x02\x12\x01p\x1a\x02\x08\x03"
    );
}

/// Returns a serialized profile with one plane, named "p". `events` and `stats` are the metadata of
/// the plane: numbers with names. `lines` consists of ids, timestamps and events.
fn plane(
    events: &[(i64, &str)],
    stats: &[(i64, &str)],
    plane_stats: &[i64],
    lines: &[(i64, i64, &[[i64; 4]])],
) -> DynamicMessage {
    let pool = proto_splitter_xla::descriptor_pool();
    let new = |name: &str| {
        let name = format!("tensorflow.profiler.{name}");
        DynamicMessage::new(pool.get_message_by_name(&name).unwrap())
    };
    let named = |kind: &str, named: &[(i64, &str)]| {
        let entries = named.iter().map(|(id, name)| {
            let mut value = new(kind);
            value.set_field_by_name("name", Value::String((*name).to_owned()));
            (MapKey::I64(*id), Value::Message(value))
        });
        Value::Map(entries.collect())
    };
    let mut plane = new("XPlane");
    plane.set_field_by_name("name", Value::String("p".to_owned()));
    plane.set_field_by_name("event_metadata", named("XEventMetadata", events));
    plane.set_field_by_name("stat_metadata", named("XStatMetadata", stats));
    let stat = |id: i64, value: i64| {
        let mut stat = new("XStat");
        stat.set_field_by_name("metadata_id", Value::I64(id));
        stat.set_field_by_name("ref_value", Value::U64(value.cast_unsigned()));
        Value::Message(stat)
    };
    let own = plane_stats.iter().map(|id| stat(*id, *id)).collect();
    plane.set_field_by_name("stats", Value::List(own));
    let lines = lines.iter().map(|(id, timestamp, events)| {
        let mut line = new("XLine");
        line.set_field_by_name("id", Value::I64(*id));
        line.set_field_by_name("timestamp_ns", Value::I64(*timestamp));
        let events = events.iter().map(|[metadata, offset, of, value]| {
            let mut event = new("XEvent");
            event.set_field_by_name("metadata_id", Value::I64(*metadata));
            event.set_field_by_name("offset_ps", Value::I64(*offset));
            event.set_field_by_name("stats", Value::List(vec![stat(*of, *value)]));
            Value::Message(event)
        });
        line.set_field_by_name("events", Value::List(events.collect()));
        Value::Message(line)
    });
    plane.set_field_by_name("lines", Value::List(lines.collect()));
    let mut space = new("XSpace");
    space.set_field_by_name("planes", Value::List(vec![Value::Message(plane)]));
    space
}

#[test]
fn metadata_that_comes_again_gets_the_numbers_that_it_has() {
    let first = plane(
        &[(1, "run"), (2, "copy")],
        &[(1, "bytes"), (2, "host")],
        &[2],
        &[(7, 1000, &[[1, 5, 1, 2]]), (8, 1000, &[[2, 0, 1, 2]])],
    );
    // In the second plane, some of the metadata has the same numbers, some has different numbers,
    // and some is new.
    let second = plane(
        &[(1, "copy"), (2, "run"), (3, "wait"), (9, "")],
        &[(1, "host"), (2, "bytes"), (3, "device")],
        &[1, 3],
        &[
            (7, 400, &[[1, 6, 2, 3], [9, 7, 2, 1]]),
            (8, 1400, &[[3, 1, 2, 3]]),
            (9, 100, &[[2, 2, 2, 1]]),
        ],
    );
    let whole = plane(
        &[(1, "run"), (2, "copy"), (3, "wait")],
        &[(1, "bytes"), (2, "host"), (3, "device")],
        &[2, 3],
        &[
            (7, 400, &[[1, 600_005, 1, 2], [2, 6, 1, 3], [9, 7, 1, 2]]),
            (8, 1000, &[[2, 0, 1, 2], [3, 400_001, 1, 3]]),
            (9, 100, &[[1, 2, 1, 2]]),
        ],
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.xplane.riegeli");
    let parts = [first.encode_to_vec(), second.encode_to_vec()];
    std::fs::write(&file, records(&[&parts[0], &parts[1]])).unwrap();
    let opened = FORMATS.open(&file, &OpenOptions::new()).unwrap();
    opened.verify().unwrap();
    let found = decoded(XSPACE, &opened.bytes().unwrap());
    assert_eq!(found, decoded(XSPACE, &whole.encode_to_vec()));
}

/// Returns the profile that consists of these records.
fn joined(parts: &[DynamicMessage]) -> DynamicMessage {
    let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.encode_to_vec()).collect();
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.xplane.riegeli");
    std::fs::write(&file, records(&parts)).unwrap();
    let opened = FORMATS.open(&file, &OpenOptions::new()).unwrap();
    decoded(XSPACE, &opened.bytes().unwrap())
}

#[test]
fn events_keep_their_times_however_their_lines_are_joined() {
    // The lines of the second record are joined backwards: an earlier one, a later one, and so on.
    let found = joined(&[
        plane(&[], &[], &[], &[(7, 1000, &[[1, 5, 1, 1]])]),
        plane(
            &[],
            &[],
            &[],
            &[
                (7, 2000, &[[2, 4, 1, 1]]),
                (7, 400, &[[3, 3, 1, 1]]),
                (7, 1500, &[[4, 2, 1, 1]]),
                (7, 900, &[[5, 1, 1, 1]]),
            ],
        ),
    ]);
    let events = [
        [1, 600_005, 1, 1],
        [5, 500_001, 1, 1],
        [4, 1_100_002, 1, 1],
        [3, 3, 1, 1],
        [2, 1_600_004, 1, 1],
    ];
    let whole = plane(&[], &[], &[], &[(7, 400, &events)]);
    assert_eq!(found, decoded(XSPACE, &whole.encode_to_vec()));
}

#[test]
fn very_many_lines_are_joined_at_once() {
    let lines: Vec<(i64, i64, &[[i64; 4]])> = (1..200_000).map(|at| (7, at, &[][..])).collect();
    let found = joined(&[
        plane(&[], &[], &[], &[(7, 200_000, &[[1, 5, 1, 1]])]),
        plane(&[], &[], &[], &lines),
    ]);
    let whole = plane(&[], &[], &[], &[(7, 1, &[[1, 199_999_005, 1, 1]])]);
    assert_eq!(found, decoded(XSPACE, &whole.encode_to_vec()));
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
