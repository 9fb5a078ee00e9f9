//! Tests with bundles that TensorFlow wrote, bundles that this crate writes, and invalid bundles.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod hostile;
mod properties;
mod tensorflow;
mod writing;

use std::path::{Path, PathBuf};

use proto_splitter_graph_def::proto::DataType;
use proto_splitter_tensor_bundle::{BundleOptions, BundlePlan, NewTensor};

/// Returns the path of a test file or folder that TensorFlow wrote.
pub(crate) fn fixture(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tensorflow");
    root.join(path)
}

/// Writes a bundle with two numeric tensors.
pub(crate) fn small_bundle(prefix: &Path) {
    let bytes: Vec<u8> = (0..48).collect();
    let tensors = vec![
        NewTensor::new("layer/kernel", DataType::DtFloat, [3, 4], &bytes),
        NewTensor::new("layer/steps", DataType::DtInt64, [6], &bytes),
    ];
    let plan = BundlePlan::new(tensors, 1).unwrap();
    plan.write(prefix, &BundleOptions::new()).unwrap();
}
