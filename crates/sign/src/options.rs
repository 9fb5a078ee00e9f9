//! Options for signing and for checking a signature.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use proto_splitter_core::progress::Progress;

/// Options for [`sign`](crate::sign), and for [`verify`](crate::verify).
#[derive(Clone, Debug, Default)]
pub struct SignOptions {
    pub(crate) ignored: Vec<PathBuf>,
    pub(crate) progress: Progress,
    pub(crate) threads: Option<NonZeroUsize>,
}

impl SignOptions {
    /// Returns the defaults: all files except for Git's are signed, or must be signed unless the
    /// signature ignores them, with one thread for each processor.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ignores a file or folder, such as the signature file itself if it is inside the model.
    /// `path` is a path in the file system; it isn't relative to the model. Call this once for each
    /// path. When verifying, a signed file whose path is ignored counts as missing.
    ///
    /// Git's files (`.git`, `.gitattributes`, `.github`, `.gitignore`) are always ignored.
    #[must_use]
    pub fn ignore(mut self, path: impl Into<PathBuf>) -> Self {
        self.ignored.push(path.into());
        self
    }

    proto_splitter_core::options! {
        /// Sets the progress listener, which can also cancel the work. Default: none.
        ref progress, get_progress: Progress;

        /// Sets the maximum number of threads. Default: `None`, one for each processor.
        into threads, get_threads: Option<NonZeroUsize>;
    }

    /// Returns the ignored paths.
    pub fn get_ignored(&self) -> &[PathBuf] {
        &self.ignored
    }
}

/// Options for [`verify`](crate::verify). They are the same as for signing.
pub type VerifyOptions = SignOptions;
