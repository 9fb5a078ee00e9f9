//! Checking whether a file's chunks can be written to several files.

use record_file::ReadAt;

use crate::io::AtomicFile;
use crate::message::ChunkedFile;
use crate::split::{check_max_file_size, stem_beside};
use crate::{Error, ErrorKind, Result};

/// Fails if this file's chunks can't be written to several files of at most `max` bytes each.
pub(super) fn check_max_size<S: ReadAt>(
    file: &ChunkedFile<S>,
    main: Option<&AtomicFile>,
    max: u64,
) -> Result<()> {
    let version = file.trailer().metadata().version.as_ref();
    check_max_file_size(max)?;
    if let Some(main) = main {
        stem_beside(main.target())?;
    }
    let message = if main.is_none() {
        "a maximum file size needs a named output file"
    } else if version.is_none_or(|version| version.join_version < 1) {
        "a maximum file size requires a file of the profile `extended`, since TensorFlow reads a single file only"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::InvalidConfig, message))
}
