//! Files that a message refers to without including their bytes.

use std::path::PathBuf;

use super::Opened;
use crate::{Error, ErrorKind, Result};

impl Opened {
    /// Sets the files that the message refers to without including their bytes. Each of these files
    /// is missing, or is excluded by a setting.
    #[must_use]
    pub fn referring_to<P: Into<PathBuf>>(mut self, files: impl IntoIterator<Item = P>) -> Self {
        self.outside.extend(files.into_iter().map(Into::into));
        self
    }

    /// Returns the files that the message refers to without including their bytes. Each of these
    /// files is missing, which
    /// [`OpenOptions::allow_missing_files`](super::OpenOptions::allow_missing_files) permits, or is
    /// excluded by a setting.
    pub fn outside_files(&self) -> &[PathBuf] {
        &self.outside
    }

    /// Fails if the message refers to files without including their bytes. Callers that need the
    /// whole message use this function.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`], with the path of the first of [`outside_files`](Self::outside_files).
    pub fn check_complete(&self) -> Result<()> {
        let Some(first) = self.outside.first() else {
            return Ok(());
        };
        let why = if first.exists() {
            "this file holds data of the message, which a setting left out"
        } else {
            "the file is missing, and it holds data of the message"
        };
        let message = format!("{}: {why}", first.display());
        Err(Error::new(ErrorKind::Io, message))
    }
}
