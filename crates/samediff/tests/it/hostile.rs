//! Tests with maliciously crafted archives.

use std::sync::Arc;

use proto_splitter_samediff::{
    Array, ArrayInfo, CheckOptions, Draft, ErrorKind, Graph, Model, ModelOptions, Nd4jType, Order,
    SameDiffLimits, SameDiffVariable, SameDiffWriteOptions, TagContent, VarType, ZipCompression,
};

use crate::entries::{Entries, first_error, open};
use crate::support::values;

/// An entry of an archive that is assembled by hand, in which any field may be false.
struct Raw {
    name: Vec<u8>,
    data: Vec<u8>,
    flags: u16,
    method: u16,
    crc: Option<u32>,
    stored_len: Option<u32>,
    len: Option<u32>,
    header: Option<u32>,
    local_name: Option<Vec<u8>>,
}

impl Raw {
    fn new(name: impl Into<Vec<u8>>, data: impl Into<Vec<u8>>) -> Raw {
        Raw {
            name: name.into(),
            data: data.into(),
            flags: 0,
            method: 0,
            crc: None,
            stored_len: None,
            len: None,
            header: None,
            local_name: None,
        }
    }

    fn crc(&self) -> u32 {
        self.crc.unwrap_or_else(|| crc32fast::hash(&self.data))
    }

    fn lens(&self) -> [u32; 2] {
        let len = u32::try_from(self.data.len()).unwrap();
        [self.stored_len.unwrap_or(len), self.len.unwrap_or(len)]
    }
}

fn archive(entries: &[Raw]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for entry in entries {
        let at = u32::try_from(bytes.len()).unwrap();
        let name = entry.local_name.as_ref().unwrap_or(&entry.name);
        bytes.extend(0x0403_4b50_u32.to_le_bytes());
        for word in [20, entry.flags, entry.method, 0, 33] {
            bytes.extend(u16::to_le_bytes(word));
        }
        bytes.extend(entry.crc().to_le_bytes());
        for len in entry.lens() {
            bytes.extend(len.to_le_bytes());
        }
        bytes.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(name);
        bytes.extend(&entry.data);

        directory.extend(0x0201_4b50_u32.to_le_bytes());
        for word in [20, 20, entry.flags, entry.method, 0, 33] {
            directory.extend(u16::to_le_bytes(word));
        }
        directory.extend(entry.crc().to_le_bytes());
        for len in entry.lens() {
            directory.extend(len.to_le_bytes());
        }
        directory.extend(u16::try_from(entry.name.len()).unwrap().to_le_bytes());
        directory.extend([0; 12]);
        directory.extend(entry.header.unwrap_or(at).to_le_bytes());
        directory.extend(&entry.name);
    }
    let count = u16::try_from(entries.len()).unwrap();
    end(bytes, &directory, count)
}

fn end(mut bytes: Vec<u8>, directory: &[u8], count: u16) -> Vec<u8> {
    let start = u32::try_from(bytes.len()).unwrap();
    bytes.extend(directory);
    bytes.extend(0x0605_4b50_u32.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(count.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend(u32::try_from(directory.len()).unwrap().to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

/// Returns the archive of a valid model with additional entries.
fn with(extra: impl IntoIterator<Item = Raw>) -> Vec<u8> {
    let good = Entries::good().0.into_iter();
    let mut entries: Vec<Raw> = good.map(|(name, bytes)| Raw::new(name, bytes)).collect();
    entries.extend(extra);
    archive(&entries)
}

#[test]
fn an_archive_by_hand_is_a_good_one() {
    let model = open(with([])).unwrap();
    model
        .check(&CheckOptions::new())
        .unwrap()
        .into_result()
        .unwrap();
}

#[test]
fn an_entry_that_could_harm_is_refused() {
    use ErrorKind::*;

    let raw = |change: fn(&mut Raw)| {
        let mut entry = Raw::new("x", "content");
        change(&mut entry);
        entry
    };
    for (what, entry, kind) in [
        ("a name twice", Raw::new("tags.txt", "z\n"), DuplicateEntry),
        ("a way out", Raw::new("../x", ""), UnsafeName),
        (
            "a way out in between",
            Raw::new("a/../../x", ""),
            UnsafeName,
        ),
        ("an absolute name", Raw::new("/etc/x", ""), UnsafeName),
        ("a backslash", Raw::new("a\\..\\x", ""), UnsafeName),
        ("a drive", Raw::new("C:x", ""), UnsafeName),
        ("an empty name", Raw::new("", ""), UnsafeName),
        ("not utf-8", Raw::new(&b"a/\xff"[..], ""), UnsafeName),
        ("encrypted", raw(|entry| entry.flags = 1), UnsupportedEntry),
        (
            "strongly encrypted",
            raw(|entry| entry.flags = 65),
            UnsupportedEntry,
        ),
        (
            "another method",
            raw(|entry| entry.method = 12),
            UnsupportedEntry,
        ),
        (
            "another checksum",
            raw(|entry| entry.crc = Some(7)),
            ChecksumMismatch,
        ),
        (
            "a longer length",
            raw(|entry| entry.len = Some(8)),
            DamagedArchive,
        ),
        (
            "both lengths longer",
            raw(|entry| {
                entry.len = Some(1 << 30);
                entry.stored_len = Some(1 << 30);
            }),
            OverlappingEntries,
        ),
        (
            "a place that is another's",
            raw(|entry| entry.header = Some(0)),
            OverlappingEntries,
        ),
        (
            "a place within another",
            raw(|entry| entry.header = Some(40)),
            OverlappingEntries,
        ),
        (
            "a place after all entries",
            raw(|entry| entry.header = Some(u32::MAX - 1)),
            OverlappingEntries,
        ),
        (
            "another name at its place",
            raw(|entry| entry.local_name = Some(b"y".to_vec())),
            DamagedArchive,
        ),
        (
            "a longer name at its place",
            raw(|entry| entry.local_name = Some(vec![b'x'; 8])),
            DamagedArchive,
        ),
        (
            "deflate that is none",
            raw(|entry| entry.method = 8),
            DamagedArchive,
        ),
        (
            "more than deflate can expand to",
            raw(|entry| {
                entry.method = 8;
                entry.len = Some(1 << 30);
            }),
            DamagedArchive,
        ),
        (
            "a missing 64-bit length",
            raw(|entry| entry.len = Some(u32::MAX)),
            DamagedArchive,
        ),
    ] {
        let name = String::from_utf8(entry.name.clone()).ok();
        let error = first_error(with([entry]));
        assert_eq!(error.kind(), kind, "{what}: {error}");
        // The error for overlapping entries may name either of them.
        if kind != OverlappingEntries {
            assert_eq!(error.entry(), name.as_deref(), "{what}: {error}");
        }
    }
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;

    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a deflated entry whose data consists of this number of zeros.
fn bomb(name: &str, zeros: usize) -> Raw {
    let mut entry = Raw::new(name, deflated(&vec![0; zeros]));
    entry.method = 8;
    entry.len = Some(u32::try_from(zeros).unwrap());
    entry
}

#[test]
fn a_deflate_bomb_is_not_inflated() {
    let options = ModelOptions::new().limits(SameDiffLimits::new().max_text_size(1 << 20));
    let bytes = archive(&[bomb("tags.txt", 64 << 20)]);
    let error = Model::from_source(Arc::new(bytes), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    // The directory claims a shorter length than that of the inflated data.
    for claimed in [100, 5] {
        let mut lying = bomb("tags.txt", 64 << 20);
        lying.len = Some(claimed);
        let error = Model::from_source(Arc::new(archive(&[lying])), &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DamagedArchive, "{error}");
    }
    let mut lying = bomb("tags.txt", 100);
    lying.len = Some(200);
    let error = Model::from_source(Arc::new(archive(&[lying])), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DamagedArchive, "{error}");
}

#[test]
fn deflated_arrays_take_no_more_room_on_the_disk_than_is_allowed() {
    let shape = [1024, 512];
    let info = ArrayInfo::new(Nd4jType::Float, shape).unwrap();
    let stored = Array::from_bytes(info.with_order(Order::F), vec![0; 2 << 20]).unwrap();
    let mut graph = Graph::default();
    for name in ["a", "b"] {
        let variable = SameDiffVariable::new(name, VarType::Variable, Nd4jType::Float, [1024, 512]);
        graph.variables.push(variable);
    }
    let content = TagContent::new(graph)
        .parameter("a", stored.clone())
        .parameter("b", stored);
    let mut draft = Draft::new();
    draft.add_tag("t".parse().unwrap(), content).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zip");
    let options = SameDiffWriteOptions::new().compression(ZipCompression::Deflated);
    draft.write(&path, &options).unwrap();

    let open = |limit: u64| {
        let limits = SameDiffLimits::new().max_inflated_size(limit);
        Model::open_with(&path, &ModelOptions::new().limits(limits)).unwrap()
    };
    // The limit allows only one temporary file at a time, but its space is released when the array
    // is dropped.
    let model = open(3 << 20);
    for _ in 0..3 {
        for name in ["a", "b"] {
            let array = model.default_tag().parameter(name).unwrap();
            assert_eq!(values(&array), vec![0; 2 << 20]);
        }
    }
    let [a, b] = ["a", "b"].map(|name| model.default_tag().parameter(name).unwrap());
    let held = a.values().unwrap();
    let error = b.values().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    drop(held);
    assert!(b.values().is_ok());

    let error = open(1 << 20)
        .default_tag()
        .parameter("a")
        .unwrap()
        .values()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains("t/params/0.fb"), "{error}");
}

#[test]
fn an_empty_array_of_an_absurd_shape_has_no_elements_in_any_order() {
    for order in [Order::C, Order::F] {
        let info = ArrayInfo::new(Nd4jType::Float, [1 << 40, 1 << 40, 0]).unwrap();
        let array = Array::from_bytes(info.with_order(order), Vec::new()).unwrap();
        assert_eq!(values(&array), Vec::<u8>::new());
    }
}

#[test]
fn ten_million_claimed_entries_cost_nothing() {
    let mut bytes = vec![0; 100];
    let end64 = bytes.len() as u64;
    bytes.extend(0x0606_4b50_u32.to_le_bytes());
    bytes.extend(44_u64.to_le_bytes());
    bytes.extend([45, 0, 45, 0]);
    bytes.extend([0; 8]);
    for value in [10_000_000, 10_000_000, 100, 0_u64] {
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(0x0706_4b50_u32.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(end64.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    let bytes = end(bytes, &[], u16::MAX);
    let error = first_error(bytes);
    assert_eq!(error.kind(), ErrorKind::DamagedArchive);
    assert_eq!(
        error.to_string(),
        "10000000 entries are claimed by a directory of 100 bytes at 0x0"
    );
    let options = ModelOptions::new().limits(SameDiffLimits::new().max_entries(3));
    let error = Model::from_source(Arc::new(with([])), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
}

#[test]
fn an_archive_that_is_cut_anywhere_is_refused() {
    let bytes = with([]);
    for len in 0..bytes.len() {
        assert!(open(bytes[..len].to_vec()).is_err(), "{len}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert_eq!(open(longer).unwrap_err().kind(), ErrorKind::NotAnArchive);
}

#[test]
fn no_byte_that_changes_makes_a_panic() {
    let bytes = with([bomb("a/params/7.fb", 4000)]);
    let mut refused = 0;
    for at in 0..bytes.len() {
        for value in [0, 0xff, bytes[at] ^ 1] {
            let mut changed = bytes.clone();
            changed[at] = value;
            let checked = open(changed).and_then(|model| {
                for tag in model.tags() {
                    let parameters = tag.parameters()?;
                    for (_, files) in parameters.iter() {
                        for file in files {
                            let _ = parameters.open(file)?.values()?.read_to_vec(1 << 20);
                        }
                    }
                }
                model.check(&CheckOptions::new())?.into_result()
            });
            refused += usize::from(checked.is_err());
        }
    }
    // Checksums cover everything except the times, versions and attributes of entries.
    assert!(refused > bytes.len(), "{refused} of {}", 3 * bytes.len());
}
