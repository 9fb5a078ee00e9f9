//! Files that a message refers to and has no bytes of.

use std::path::PathBuf;

use super::Opened;
use crate::{Error, ErrorKind, Result};

impl Opened {
    /// The same input, whose message refers to these files and has no bytes of them: they are
    /// missing, or were left where they are.
    #[must_use]
    pub fn referring_to<P: Into<PathBuf>>(mut self, files: impl IntoIterator<Item = P>) -> Self {
        self.outside.extend(files.into_iter().map(Into::into));
        self
    }

    /// The files that the message refers to and has no bytes of: they are missing, as
    /// [`OpenOptions::allow_missing_files`](super::OpenOptions::allow_missing_files) allows, or
    /// were left where they are, as a setting said.
    pub fn outside_files(&self) -> &[PathBuf] {
        &self.outside
    }

    /// Fails if the message refers to files that it has no bytes of: for callers that need all of
    /// it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] with the first of [`outside_files`](Self::outside_files).
    pub fn check_complete(&self) -> Result<()> {
        let Some(first) = self.outside.first() else {
            return Ok(());
        };
        let why = if first.exists() {
            "data of the message is in this file, and was left there"
        } else {
            "no such file, and data of the message is in it"
        };
        let message = format!("{}: {why}", first.display());
        Err(Error::new(ErrorKind::Io, message))
    }
}
