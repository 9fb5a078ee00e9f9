//! Opening a file for reading.

use std::fs::File;
use std::path::Path;

use crate::{Error, Result};

/// Opens a file for reading.
///
/// # Errors
///
/// [`ErrorKind::Io`](crate::ErrorKind::Io), with the path, if the file can't be opened.
pub fn open_file(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::from(error).in_file(path))
}
