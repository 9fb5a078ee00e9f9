//! Serializing the values of reports as text.

use std::path::{Path, PathBuf};

use proto_splitter_core::container::MerkleRoot;
use serde::{Serialize, Serializer};

/// Serializes a path as text, with invalid Unicode replaced.
pub(crate) fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Serializes an optional path in the same way as [`path`].
pub(crate) fn optional_path<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = path.as_ref().map(|path| path.display().to_string());
    text.serialize(serializer)
}

/// Serializes each path in the same way as [`path`].
pub(crate) fn paths<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.display().to_string()))
}

/// Serializes an optional checksum as eight hexadecimal digits.
pub(crate) fn crc32c<S: Serializer>(sum: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    sum.map(|sum| format!("{sum:08x}")).serialize(serializer)
}

/// Serializes an optional Merkle root as hexadecimal digits.
pub(crate) fn merkle_root<S: Serializer>(
    root: &Option<MerkleRoot>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    root.map(|root| root.to_string()).serialize(serializer)
}
