//! Tests with damaged bundles, and with bundles that contain false sizes and locations.

use std::fs;
use std::path::Path;

use prost::Message;
use proto_splitter_core::ErrorKind;
use proto_splitter_core::wire::put_varint;
use proto_splitter_graph_def::proto::tensor_shape_proto::Dim;
use proto_splitter_graph_def::proto::{TensorShapeProto, VersionDef};
use proto_splitter_tensor_bundle::proto::tensor_slice_proto::Extent;
use proto_splitter_tensor_bundle::proto::tensor_slice_proto::extent::HasLength;
use proto_splitter_tensor_bundle::proto::{BundleEntryProto, BundleHeaderProto, TensorSliceProto};
use proto_splitter_tensor_bundle::{Bundle, BundleOptions, mask_crc};

use crate::small_bundle;

fn opened_and_verified(prefix: &Path) -> proto_splitter_core::Result<()> {
    Bundle::open(prefix)?.verify(&BundleOptions::new())?;
    Ok(())
}

#[test]
fn no_byte_of_a_bundle_can_be_changed_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("b");
    small_bundle(&prefix);
    for file in ["b.index", "b.data-00000-of-00001"] {
        let path = folder.path().join(file);
        let good = fs::read(&path).unwrap();
        let footer = match file {
            "b.index" => good.len() - 48,
            _ => good.len(),
        };
        for at in 0..good.len() {
            // Skips the part of the footer that isn't used: the location of the empty metaindex
            // block, and the zeros before the magic number.
            if at > footer && at < good.len() - 8 {
                continue;
            }
            let mut bad = good.clone();
            bad[at] ^= 0x41;
            fs::write(&path, bad).unwrap();
            let error = opened_and_verified(&prefix).expect_err(&format!("{file} {at}"));
            assert!(!error.to_string().contains('\n'));
        }
        for len in 0..good.len() {
            fs::write(&path, &good[..len]).unwrap();
            assert!(opened_and_verified(&prefix).is_err(), "{file} cut to {len}");
        }
        fs::write(&path, good).unwrap();
    }
    opened_and_verified(&prefix).unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_of_a_bundle_that_is_not_a_regular_file_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("b");
    small_bundle(&prefix);
    for file in ["b.data-00000-of-00001", "b.index"] {
        let path = folder.path().join(file);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        let error = opened_and_verified(&prefix).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        assert!(error.contains(file), "{error}");
    }
}

/// Returns an entry as it is stored in a block. Its key begins with the first `shared` bytes of the
/// previous key.
fn stored(shared: usize, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for len in [shared, key.len(), value.len()] {
        put_varint(&mut bytes, len as u64);
    }
    [&bytes, key, value].concat()
}

/// Returns an index with these entries and correct checksums.
fn index(entries: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
    let entries = entries.iter().map(|(key, value)| stored(0, key, value));
    index_of(&entries.collect::<Vec<_>>().concat())
}

/// Returns an index with these stored entries and correct checksums. It is built by hand, from the
/// description of the format.
fn index_of(entries: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let block = |entries: &[u8], file: &mut Vec<u8>| {
        let (start, mut block) = (file.len(), entries.to_vec());
        block.extend([0, 0, 0, 0, 1, 0, 0, 0]);
        let len = block.len();
        block.push(0);
        let crc = mask_crc(crc32c::crc32c(&block));
        block.extend(crc.to_le_bytes());
        file.extend(block);
        let mut handle = Vec::new();
        put_varint(&mut handle, start as u64);
        put_varint(&mut handle, len as u64);
        handle
    };
    let data = block(entries, &mut file);
    let metaindex = block(&[], &mut file);
    let index = block(&stored(0, b"\xff", &data), &mut file);
    let mut footer = [metaindex, index].concat();
    footer.resize(40, 0);
    file.extend(footer);
    file.extend(0xdb47_7524_8b80_fb57u64.to_le_bytes());
    file
}

fn header() -> BundleHeaderProto {
    BundleHeaderProto {
        num_shards: 1,
        version: Some(VersionDef {
            producer: 1,
            ..VersionDef::default()
        }),
        ..BundleHeaderProto::default()
    }
}

fn shape(dims: &[i64]) -> Option<TensorShapeProto> {
    let dim = |size: &i64| Dim {
        size: *size,
        ..Dim::default()
    };
    Some(TensorShapeProto {
        dim: dims.iter().map(dim).collect(),
        ..TensorShapeProto::default()
    })
}

/// Returns the index entry for a tensor of two floats.
fn entry() -> BundleEntryProto {
    BundleEntryProto {
        dtype: 1,
        shape: shape(&[2]),
        size: 8,
        crc32c: mask_crc(crc32c::crc32c(&[7; 8])),
        ..BundleEntryProto::default()
    }
}

fn bundle_of(
    header: &BundleHeaderProto,
    entry: &BundleEntryProto,
) -> proto_splitter_core::Result<()> {
    bundle_of_tensors(header, entry, &["x"])
}

/// Writes a bundle whose tensors all have the same entry, and reads it.
fn bundle_of_tensors(
    header: &BundleHeaderProto,
    entry: &BundleEntryProto,
    names: &[&str],
) -> proto_splitter_core::Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("b");
    let mut entries = vec![(&b""[..], header.encode_to_vec())];
    let tensors = names
        .iter()
        .map(|name| (name.as_bytes(), entry.encode_to_vec()));
    entries.extend(tensors);
    fs::write(folder.path().join("b.index"), index(&entries)).unwrap();
    fs::write(folder.path().join("b.data-00000-of-00001"), [7; 8]).unwrap();
    opened_and_verified(&prefix)
}

#[test]
fn an_entry_that_lies_is_an_error_that_names_the_tensor() {
    bundle_of(&header(), &entry()).unwrap();
    type Lie = fn(&mut BundleEntryProto);
    let lies: [(&str, Lie); 14] = [
        ("runs past", |entry| entry.offset = 1),
        ("past the end", |entry| entry.offset = i64::MAX),
        ("can't be the offset", |entry| entry.offset = -1),
        ("takes 8", |entry| entry.size = 4),
        ("can't be the size", |entry| entry.size = -8),
        ("takes 4294967296", |entry| entry.shape = shape(&[1 << 30])),
        ("more than 2^64", |entry| {
            entry.shape = shape(&[1 << 40, 1 << 40])
        }),
        ("a dimension of -2", |entry| entry.shape = shape(&[-2])),
        ("of more than 254", |entry| entry.shape = shape(&[1; 255])),
        ("data file 1 of 1", |entry| entry.shard_id = 1),
        ("data file -1 of 1", |entry| entry.shard_id = -1),
        ("unknown type 9999", |entry| entry.dtype = 9999),
        ("the crc32c of 8 bytes", |entry| entry.crc32c = 5),
        ("length", |entry| entry.dtype = 7),
    ];
    for (what, lie) in lies {
        let mut entry = entry();
        lie(&mut entry);
        let error = bundle_of(&header(), &entry).unwrap_err();
        let what = what.replace(
            "runs past",
            "8 bytes at 1 run past the end of the file of 8 bytes",
        );
        assert!(error.to_string().contains(&what), "{what}: {error}");
        assert_eq!(error.path(), Some("x"), "{error}");
    }
}

#[test]
fn tensors_larger_than_any_file_are_an_error_before_any_work() {
    // Each tensor would be 2^38 pieces of work, and the sum of the sizes exceeds 2^64.
    let entry = BundleEntryProto {
        dtype: 6,
        shape: shape(&[i64::MAX]),
        size: i64::MAX,
        ..entry()
    };
    for names in [&["x"][..], &["x", "y", "z"]] {
        let error = bundle_of_tensors(&header(), &entry, names).unwrap_err();
        assert!(error.to_string().contains("run past the end"), "{error}");
        assert_eq!(error.path(), Some("x"), "{error}");
    }
}

#[test]
fn a_header_that_is_not_for_this_reader_is_refused() {
    type Lie = fn(&mut BundleHeaderProto);
    let lies: [(ErrorKind, Lie); 6] = [
        (ErrorKind::InvalidMessage, |header| header.num_shards = 0),
        (ErrorKind::InvalidMessage, |header| header.num_shards = -1),
        (ErrorKind::InvalidMessage, |header| {
            header.num_shards = i32::MAX
        }),
        (ErrorKind::UnsupportedVersion, |header| {
            header.endianness = 1
        }),
        (ErrorKind::UnsupportedVersion, |header| {
            header.version.as_mut().unwrap().min_consumer = 2;
        }),
        (ErrorKind::UnsupportedVersion, |header| {
            header.version.as_mut().unwrap().bad_consumers = vec![1];
        }),
    ];
    for (kind, lie) in lies {
        let mut header = header();
        lie(&mut header);
        assert_eq!(bundle_of(&header, &entry()).unwrap_err().kind(), kind);
    }
}

#[test]
fn slices_that_do_not_make_the_tensor_are_an_error() {
    let slice = |bounds: &[(i64, i64)]| TensorSliceProto {
        extent: bounds
            .iter()
            .map(|&(start, length)| Extent {
                start,
                has_length: Some(HasLength::Length(length)),
            })
            .collect(),
    };
    for (what, slices) in [
        ("not in the index", vec![slice(&[(0, 1)])]),
        ("reaches out of", vec![slice(&[(1, 2)])]),
        ("reaches out of", vec![slice(&[(-1, 2)])]),
        ("reaches out of", vec![slice(&[(i64::MAX, i64::MAX)])]),
        ("dimensions, unlike", vec![slice(&[(0, 1), (0, 1)])]),
    ] {
        let entry = BundleEntryProto {
            slices,
            size: 0,
            ..entry()
        };
        let error = bundle_of(&header(), &entry).unwrap_err();
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
}

#[test]
fn a_slice_that_is_itself_in_slices_is_an_error() {
    let whole = TensorSliceProto {
        extent: vec![Extent {
            start: 0,
            has_length: Some(HasLength::Length(2)),
        }],
    };
    let sliced = BundleEntryProto {
        slices: vec![whole],
        ..entry()
    };
    // The slice's key is in ordered code: the name, the rank 1, the start 0 and the length 2.
    let key = b"\0x\0\x01\x01\x01\x80\x82";
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("b");
    fs::write(folder.path().join("b.data-00000-of-00001"), [7; 8]).unwrap();
    for (slice, is_valid) in [(entry(), true), (sliced.clone(), false)] {
        let entries = [
            (&b""[..], header().encode_to_vec()),
            (&key[..], slice.encode_to_vec()),
            (&b"x"[..], sliced.encode_to_vec()),
        ];
        fs::write(folder.path().join("b.index"), index(&entries)).unwrap();
        match opened_and_verified(&prefix) {
            Ok(()) => assert!(is_valid),
            Err(error) => {
                assert!(!is_valid, "{error}");
                assert!(error.to_string().contains("itself in slices"), "{error}");
            }
        }
    }
}

/// Writes a bundle with the tensor `x` of two elements and type `dtype`, which is in the slices of
/// one element that begin at `starts`, and reads it. `stored` has the stored bytes of a slice, and
/// their checksum.
fn bundle_of_halves(
    dtype: i32,
    starts: [i64; 2],
    stored: (&[u8], u32),
) -> proto_splitter_core::Result<()> {
    let (bytes, crc) = stored;
    let half = BundleEntryProto {
        dtype,
        shape: shape(&[1]),
        size: i64::try_from(bytes.len()).unwrap(),
        crc32c: mask_crc(crc),
        ..BundleEntryProto::default()
    };
    let slice = |start| TensorSliceProto {
        extent: vec![Extent {
            start,
            has_length: Some(HasLength::Length(1)),
        }],
    };
    let whole = BundleEntryProto {
        shape: shape(&[2]),
        size: 0,
        slices: starts.map(slice).to_vec(),
        ..half.clone()
    };
    // The slices' keys are in ordered code: the name, the rank 1, the start and the length 1.
    let entries = [
        (&b""[..], header().encode_to_vec()),
        (b"\0x\0\x01\x01\x01\x80\x81", half.encode_to_vec()),
        (b"\0x\0\x01\x01\x01\x81\x81", half.encode_to_vec()),
        (b"x", whole.encode_to_vec()),
    ];
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("b.index"), index(&entries)).unwrap();
    fs::write(folder.path().join("b.data-00000-of-00001"), bytes).unwrap();
    opened_and_verified(&folder.path().join("b"))
}

#[test]
fn slices_of_strings_are_verified_with_their_lengths_as_fixed_size_numbers() {
    let length = 3u32.to_le_bytes();
    let crc_of_length = mask_crc(crc32c::crc32c(&length)).to_le_bytes();
    let bytes = [&[3][..], &crc_of_length, b"abc"].concat();
    let crc = crc32c::crc32c(&[&length[..], &crc_of_length, b"abc"].concat());
    bundle_of_halves(7, [0, 1], (&bytes, crc)).unwrap();
    let error = bundle_of_halves(7, [0, 1], (&bytes, crc ^ 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch, "{error}");
    assert_eq!(error.path(), Some("x"), "{error}");
}

#[test]
fn a_slice_that_is_listed_twice_does_not_stand_for_another() {
    let stored = (&[7; 4][..], crc32c::crc32c(&[7; 4]));
    bundle_of_halves(1, [0, 1], stored).unwrap();
    let error = bundle_of_halves(1, [0, 0], stored).unwrap_err();
    assert!(error.to_string().contains("begin at [0]"), "{error}");
    assert_eq!(error.path(), Some("x"), "{error}");
}

#[test]
fn an_entry_that_would_take_far_more_memory_than_the_index_is_not_decoded() {
    let entry = BundleEntryProto {
        shape: shape(&vec![0; 3 << 20]),
        ..entry()
    };
    let error = bundle_of(&header(), &entry).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert_eq!(error.path(), Some("x"), "{error}");
}

#[test]
fn many_slices_of_a_tensor_with_a_long_name_have_a_limited_total_size() {
    let name = vec![b'n'; 1 << 20];
    let scalar = BundleEntryProto {
        shape: shape(&[]),
        size: 4,
        ..entry()
    };
    let sliced = BundleEntryProto {
        slices: vec![TensorSliceProto::default(); 512],
        ..scalar.clone()
    };
    let key = [&b"\0"[..], &name[..], &b"\0\x01\0"[..]].concat();
    let entries = [
        (&b""[..], header().encode_to_vec()),
        (&key[..], scalar.encode_to_vec()),
        (&name[..], sliced.encode_to_vec()),
    ];
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("b.index"), index(&entries)).unwrap();
    let error = Bundle::open(folder.path().join("b")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

#[test]
fn names_twice_or_out_of_order_or_before_the_header_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.index");
    let (header, entry) = (header().encode_to_vec(), entry().encode_to_vec());
    for (what, keys) in [
        ("not greater", [&b""[..], b"x", b"x"]),
        ("not greater", [b"", b"y", b"x"]),
        ("not its header", [b"a", b"x", b"y"]),
        ("not UTF-8", [b"", b"\xff\xfe", b"\xff\xff"]),
    ] {
        let entries = [
            (keys[0], header.clone()),
            (keys[1], entry.clone()),
            (keys[2], entry.clone()),
        ];
        fs::write(&path, index(&entries)).unwrap();
        let error = Bundle::open(folder.path().join("b")).unwrap_err();
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
    fs::write(&path, index(&[])).unwrap();
    let error = Bundle::open(folder.path().join("b")).unwrap_err();
    assert!(error.to_string().contains("has no header"), "{error}");
}

#[test]
fn names_that_share_a_large_prefix_have_a_limited_total_size() {
    let (header, entry) = (header().encode_to_vec(), entry().encode_to_vec());
    let name = vec![b'n'; 1 << 20];
    let mut entries = [stored(0, b"", &header), stored(0, &name, &entry)].concat();
    for number in 100..400 {
        entries.extend(stored(name.len(), number.to_string().as_bytes(), &entry));
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("b.index"), index_of(&entries)).unwrap();
    let error = Bundle::open(folder.path().join("b")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}
