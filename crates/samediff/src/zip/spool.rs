//! The bytes of a deflated entry where they can be read by position.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use record_file::ReadAt;

use crate::Result;

/// What is kept in memory; more goes to a temporary file: 1 MiB.
const IN_MEMORY: u64 = 1 << 20;

/// Reads a stream to its end, which comes after `len` bytes at the most.
pub(super) fn spool(mut stream: impl Read, len: u64) -> Result<Arc<dyn ReadAt>> {
    if len <= IN_MEMORY {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        return Ok(Arc::new(bytes));
    }
    let mut file: File = tempfile::tempfile()?;
    io::copy(&mut stream, &mut file)?;
    Ok(Arc::new(file))
}
