//! The report of a written model.

use std::path::PathBuf;

/// A summary of a written model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WrittenOnnx {
    /// Path of the `.onnx` file.
    pub path: PathBuf,
    /// Paths of the data files next to the `.onnx` file.
    pub data_files: Vec<PathBuf>,
    /// Paths of the data files of the replaced model, which were removed.
    pub removed_files: Vec<PathBuf>,
    /// Number of tensors whose data is in `data_files`.
    pub tensors: usize,
    /// Number of compiled nodes (onnxruntime's `EPContext`) whose content is in `data_files`.
    pub contexts: usize,
    /// Size of the `.onnx` file, in bytes.
    pub model_size: u64,
    /// Total size of the data files, in bytes.
    pub data_size: u64,
}
