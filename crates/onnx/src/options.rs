//! Options for opening a model.

use std::path::{Path, PathBuf};

use crate::walk::DEFAULT_MAX_DEPTH;

/// Default maximum number of different external files that a model may refer to.
pub const DEFAULT_MAX_FILES: usize = 1 << 20;

/// Options for opening a model.
///
/// ```
/// use proto_splitter_onnx::{OnnxOptions, OnnxSource};
///
/// // Look at the references themselves, not at what they refer to.
/// let options = OnnxOptions::new().keep_external(true);
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.onnx");
/// # std::fs::write(&path, [0x08, 0x0e])?;
/// let model = OnnxSource::open(&path, &options)?;
/// assert_eq!((model.size(), model.external_tensors()), (2, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OnnxOptions {
    external_folder: Option<PathBuf>,
    keep_external: bool,
    allow_missing_files: bool,
    max_depth: u32,
    max_files: usize,
}

impl Default for OnnxOptions {
    fn default() -> Self {
        OnnxOptions::new()
    }
}

impl OnnxOptions {
    /// Returns the default options. Each setter documents the default of its option.
    #[must_use]
    pub const fn new() -> Self {
        OnnxOptions {
            external_folder: None,
            keep_external: false,
            allow_missing_files: false,
            max_depth: DEFAULT_MAX_DEPTH,
            max_files: DEFAULT_MAX_FILES,
        }
    }

    /// Sets the folder of the external files. Default: the model's folder.
    #[must_use]
    pub fn external_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.external_folder = Some(folder.into());
        self
    }

    proto_splitter_core::options! {
        /// Sets whether to keep references to external files, instead of moving their data into the
        /// message. Default: false.
        const keep_external, get_keep_external: bool;

        /// Sets whether to accept missing external files. References to these files stay in the
        /// model, so that the other parts of the model can be inspected, and
        /// [`OnnxSource::outside_files`](crate::OnnxSource::outside_files) lists the files.
        /// Default: false; opening a model with missing files then fails.
        const allow_missing_files, get_allow_missing_files: bool;

        /// Limits the nesting depth of messages in the model. Default: [`DEFAULT_MAX_DEPTH`].
        const max_depth, get_max_depth: u32;

        /// Limits the number of different external files that the model may refer to. Default:
        /// [`DEFAULT_MAX_FILES`].
        const max_files, get_max_files: usize;
    }

    /// Returns the folder of the external files; `None` means the model's folder.
    pub fn get_external_folder(&self) -> Option<&Path> {
        self.external_folder.as_deref()
    }
}
