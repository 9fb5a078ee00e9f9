//! What plans and reports have in common as files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::{Error, ErrorKind, Result};

/// The version of plans and reports that this program writes.
pub const PLAN_VERSION: u32 = 1;

/// The largest file that is read as a plan or a report: 1 GiB. A chunk takes some 40 bytes.
pub const DEFAULT_MAX_PLAN_SIZE: u64 = 1 << 30;

/// Reads a file that isn't larger than a plan may be.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(DEFAULT_MAX_PLAN_SIZE + 1).read_to_end(&mut bytes));
    read.map_err(|error| Error::from(error).context(path.display()))?;
    if bytes.len() as u64 > DEFAULT_MAX_PLAN_SIZE {
        let message = format!("a file of more than {DEFAULT_MAX_PLAN_SIZE} bytes");
        return Err(Error::new(ErrorKind::LimitExceeded, message).context(path.display()));
    }
    Ok(bytes)
}
