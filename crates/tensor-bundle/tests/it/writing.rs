//! Tests of writing bundles, and of refusing to write invalid ones.

use std::fs;
use std::io;
use std::num::NonZeroUsize;

use proto_splitter_core::ErrorKind;
use proto_splitter_core::progress::{CancelToken, Progress};
use proto_splitter_graph_def::proto::DataType;
use proto_splitter_tensor_bundle::{Bundle, BundleOptions, BundlePlan, NewTensor};
use record_file::ReadAt;

use crate::small_bundle;

#[test]
fn an_index_has_the_bytes_that_the_format_says() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("b");
    let bytes = vec![1u8, 2, 3, 4];
    let tensors = vec![NewTensor::new("w", DataType::DtFloat, [1], &bytes)];
    BundlePlan::new(tensors, 1)
        .unwrap()
        .write(&prefix, &BundleOptions::new())
        .unwrap();
    let data = fs::read(folder.path().join("b.data-00000-of-00001")).unwrap();
    assert_eq!(data, bytes);

    let index = fs::read(folder.path().join("b.index")).unwrap();
    let masked = |bytes: &[u8]| {
        crc32c::crc32c(bytes)
            .rotate_right(15)
            .wrapping_add(0xa282_ead8)
            .to_le_bytes()
    };
    let mut expected = b"\x00\x00\x06\x08\x01\x1a\x02\x08\x01".to_vec();
    expected.extend(b"\x00\x01\x0fw\x08\x01\x12\x04\x12\x02\x08\x01\x28\x04\x35");
    expected.extend(masked(&bytes));
    expected.extend([0, 0, 0, 0, 1, 0, 0, 0, 0]);
    let crc = masked(&expected);
    expected.extend(crc);
    let data_len = u8::try_from(expected.len() - 5).unwrap();
    let metaindex = [0, 0, 0, 0, 1, 0, 0, 0, 0];
    expected.extend(metaindex);
    expected.extend(masked(&metaindex));
    // The index block has one entry: the shortest key after "w", and the location of the data
    // block.
    let index_at = u8::try_from(expected.len()).unwrap();
    let mut block = vec![0, 1, 2, b'x', 0, data_len];
    block.extend([0, 0, 0, 0, 1, 0, 0, 0, 0]);
    let crc = masked(&block);
    let index_len = u8::try_from(block.len() - 1).unwrap();
    expected.extend(block);
    expected.extend(crc);
    let mut footer = vec![data_len + 5, 8, index_at, index_len];
    footer.resize(40, 0);
    expected.extend(footer);
    expected.extend(0xdb47_7524_8b80_fb57u64.to_le_bytes());
    assert_eq!(index, expected);
}

#[test]
fn many_tensors_over_several_files_and_threads_are_what_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("many");
    let data: Vec<(String, Vec<u8>)> = (0..5000u32)
        .map(|at| {
            let len = usize::try_from(at % 7).unwrap();
            (
                format!("model/layer_{:x}/kernel", at * 7919),
                at.to_le_bytes().repeat(len),
            )
        })
        .collect();
    let tensors = data
        .iter()
        .map(|(name, bytes)| NewTensor::new(name, DataType::DtUint8, [bytes.len() as u64], bytes));
    let plan = BundlePlan::new(tensors.collect(), 3).unwrap();
    let options = BundleOptions::new().threads(NonZeroUsize::new(3).unwrap());
    let written = plan.write(&prefix, &options).unwrap();
    assert_eq!(written.files.len(), 4);
    let sizes: Vec<u64> = written.files[1..]
        .iter()
        .map(|file| fs::metadata(file).unwrap().len())
        .collect();
    assert!(
        sizes
            .iter()
            .all(|size| size.abs_diff(written.bytes / 3) < 100),
        "{sizes:?}"
    );

    let bundle = Bundle::open(&prefix).unwrap();
    assert_eq!(bundle.tensors().len(), data.len());
    for (name, bytes) in &data {
        assert_eq!(
            bundle.read(bundle.find(name).unwrap()).unwrap(),
            *bytes,
            "{name}"
        );
    }
    assert_eq!(bundle.verify(&options).unwrap().bytes, written.bytes);
    assert!(bundle.find("model").is_none());
}

#[test]
fn what_cannot_be_a_tensor_is_refused_before_anything_is_written() {
    let bytes = vec![0u8; 8];
    let float = DataType::DtFloat;
    for (what, tensors) in [
        ("takes 12", vec![NewTensor::new("a", float, [3], &bytes)]),
        (
            "can't be written",
            vec![NewTensor::new("a", DataType::DtString, [2], &bytes)],
        ),
        (
            "can't be written",
            vec![NewTensor::new("a", float, [1 << 40, 1 << 40], &bytes)],
        ),
        (
            "can't be the name",
            vec![NewTensor::new("", float, [2], &bytes)],
        ),
        (
            "can't be the name",
            vec![NewTensor::new("\0a", float, [2], &bytes)],
        ),
        (
            "two tensors",
            vec![
                NewTensor::new("a", float, [2], &bytes),
                NewTensor::new("a", float, [2], &bytes),
            ],
        ),
    ] {
        let error = BundlePlan::new(tensors, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains(what), "{error}");
    }
    assert!(BundlePlan::new(Vec::new(), 0).is_err());
    assert!(BundlePlan::new(Vec::new(), 100_000).is_err());
}

#[test]
fn files_in_the_way_stay_unless_forced() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("b");
    small_bundle(&prefix);
    let before = fs::read(folder.path().join("b.index")).unwrap();
    let plan = BundlePlan::new(Vec::new(), 1).unwrap();
    let error = plan.write(&prefix, &BundleOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(folder.path().join("b.index")).unwrap(), before);
    plan.write(&prefix, &BundleOptions::new().force(true))
        .unwrap();
    assert_eq!(Bundle::open(&prefix).unwrap().tensors().len(), 0);
}

/// Data with fewer bytes than `size` reports.
struct Short;

impl ReadAt for Short {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        Ok(if offset < 8 { buf.len().min(8) } else { 0 })
    }

    fn size(&self) -> io::Result<u64> {
        Ok(16)
    }
}

#[test]
fn nothing_is_left_of_a_bundle_that_fails_or_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("b");
    let plan = || {
        let tensor = NewTensor::new("a", DataType::DtFloat, [4], &Short);
        BundlePlan::new(vec![tensor], 1).unwrap()
    };
    let error = plan().write(&prefix, &BundleOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SourceChanged);
    assert_eq!(error.path(), Some("a"));
    let token = CancelToken::new();
    token.cancel();
    let options = BundleOptions::new().progress(Progress::default().cancelled_by(&token));
    let bytes = vec![0; 16];
    let tensor = NewTensor::new("a", DataType::DtFloat, [4], &bytes);
    let plan = BundlePlan::new(vec![tensor], 1).unwrap();
    let error = plan.write(&prefix, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
