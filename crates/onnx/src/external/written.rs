//! The report of a model that was written.

use std::path::PathBuf;

/// A summary of what was written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WrittenOnnx {
    /// The `.onnx` file.
    pub path: PathBuf,
    /// The data files beside it.
    pub data_files: Vec<PathBuf>,
    /// Data files of the model that was there, which were removed.
    pub removed_files: Vec<PathBuf>,
    /// How many tensors have their data there.
    pub tensors: usize,
    /// How many compiled nodes (onnxruntime's `EPContext`) have their content there.
    pub contexts: usize,
    /// Bytes of the `.onnx` file.
    pub model_size: u64,
    /// Bytes of all data files.
    pub data_size: u64,
}
