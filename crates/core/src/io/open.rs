//! Opening a file for reading.

use std::fs::{self, File};
use std::io;
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

/// Opens a regular file for reading. Fails if the path leads to anything else, without opening it,
/// since opening a named pipe waits for a writer.
///
/// # Errors
///
/// Any error from the operating system.
pub fn open_regular(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() {
        return File::open(path);
    }
    Err(io::Error::other("not a regular file"))
}
