//! Verifying the optional SHA-1 checksums of external data files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use proto_splitter_core::progress::Progress;
use proto_splitter_core::spans::read_pieces;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;
use sha1::{Digest, Sha1};

/// Compares a file's SHA-1 with each key of `expected`, which maps declared checksums to the names
/// of the tensors that declare them.
///
/// # Errors
///
/// [`ErrorKind::ChecksumMismatch`], which names the file and the tensor; [`ErrorKind::Io`] if the
/// file can't be read; [`ErrorKind::Cancelled`].
pub(crate) fn compare(
    file: &dyn ReadAt,
    name: &Path,
    expected: &BTreeMap<String, String>,
    progress: &Progress,
) -> Result<()> {
    let found = sha1_of(file, progress)?;
    for (sha1, tensor) in expected {
        if !sha1.eq_ignore_ascii_case(&found) {
            let message = format!(
                "{}: its SHA-1 is {found}, but tensor \"{tensor}\" says {}",
                name.display(),
                sha1.escape_debug()
            );
            return Err(Error::new(ErrorKind::ChecksumMismatch, message));
        }
    }
    Ok(())
}

/// Returns the SHA-1 of a file in hexadecimal.
fn sha1_of(file: &dyn ReadAt, progress: &Progress) -> Result<String> {
    let mut sha1 = Sha1::new();
    read_pieces(file, 0..file.size()?, &mut Vec::new(), |_, piece| {
        progress.check()?;
        sha1.update(piece);
        Ok(())
    })?;
    let mut found = String::new();
    for byte in sha1.finalize() {
        // Writing to a string doesn't fail.
        let _ = write!(found, "{byte:02x}");
    }
    Ok(found)
}
