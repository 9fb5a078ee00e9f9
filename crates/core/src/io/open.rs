//! Opening a file to read it.

use std::fs::File;
use std::path::Path;

use crate::{Error, Result};

pub(crate) fn open_file(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::from(error).context(path.display()))
}
