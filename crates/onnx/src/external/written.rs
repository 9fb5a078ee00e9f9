//! The report of a written model.

use std::path::PathBuf;

/// A summary of a written model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WrittenOnnx {
    /// Path of the `.onnx` file.
    pub path: PathBuf,
    /// Paths of the data files next to it.
    pub data_files: Vec<PathBuf>,
    /// Paths of the old model's data files, which were removed.
    pub removed_files: Vec<PathBuf>,
    /// Number of tensors with data in these files.
    pub tensors: usize,
    /// Number of compiled nodes (onnxruntime's `EPContext`) with content in these files.
    pub contexts: usize,
    /// Size of the `.onnx` file, in bytes.
    pub model_size: u64,
    /// Total size of the data files, in bytes.
    pub data_size: u64,
}
