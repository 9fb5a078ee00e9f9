//! The file format of plans and reports: a serialized message that ends with its own checksum.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::{Error, ErrorKind, Result};

/// Version of the plans and reports that this crate writes.
pub const PLAN_VERSION: u32 = 1;

/// Maximum size of a plan or a report, in bytes: 1 GiB. A plan has about 40 bytes for each chunk.
pub const DEFAULT_MAX_PLAN_SIZE: u64 = 1 << 30;

/// Encoded tag of the checksum in plans and reports: field 15, a fixed32.
const CHECKSUM_TAG: u8 = 15 << 3 | 5;

/// Size of the encoded checksum field, in bytes.
const CHECKSUM_LEN: usize = 5;

/// Appends the checksum to a serialized plan or report that doesn't have one yet.
#[doc(hidden)]
#[must_use]
pub fn with_checksum(mut message: Vec<u8>) -> Vec<u8> {
    let crc32c = crc32c::crc32c(&message);
    message.push(CHECKSUM_TAG);
    message.extend(crc32c.to_le_bytes());
    message
}

/// Verifies the checksum at the end of a plan or report. `name` names the plan or report in errors.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if there is no checksum, [`ErrorKind::ChecksumMismatch`] if the
/// checksum is wrong.
pub(super) fn check_checksum(bytes: &[u8], name: &str) -> Result<()> {
    let parts = bytes.split_last_chunk::<CHECKSUM_LEN>();
    let Some((message, &[CHECKSUM_TAG, ref stored @ ..])) = parts else {
        let message = format!("not {name}: it does not end with its checksum");
        return Err(Error::new(ErrorKind::InvalidMessage, message));
    };
    let (stored, found) = (stored.iter().rev(), crc32c::crc32c(message));
    let stored = stored.fold(0, |crc32c, &byte| crc32c << 8 | u32::from(byte));
    if stored == found {
        return Ok(());
    }
    let message = format!("{name} is damaged: its crc32c is {found:08x}, expected {stored:08x}");
    Err(Error::new(ErrorKind::ChecksumMismatch, message))
}

/// Reads a file. Fails if it is larger than a plan may be.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(DEFAULT_MAX_PLAN_SIZE + 1).read_to_end(&mut bytes));
    read.map_err(|error| Error::from(error).in_file(path))?;
    if bytes.len() as u64 > DEFAULT_MAX_PLAN_SIZE {
        let message = format!("the file has more than {DEFAULT_MAX_PLAN_SIZE} bytes");
        return Err(Error::new(ErrorKind::LimitExceeded, message).in_file(path));
    }
    Ok(bytes)
}

/// Writes a plan or report to a file, which appears completely or not at all.
pub(super) fn write_file(
    path: &Path,
    bytes: &[u8],
    made_from: &MadeFrom,
    force: bool,
) -> Result<()> {
    let mut file = AtomicFile::create(path, made_from, force)?;
    let written = file.as_file_mut().write_all(bytes);
    written.map_err(|error| Error::from(error).in_file(path))?;
    file.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_of_a_bit_or_of_the_length_is_found() {
        let bytes = with_checksum(b"a plan".to_vec());
        check_checksum(&bytes, "a plan").unwrap();
        check_checksum(&with_checksum(Vec::new()), "a plan").unwrap();
        for at in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[at / 8] ^= 1 << (at % 8);
            check_checksum(&changed, "a plan").unwrap_err();
        }
        for len in 0..bytes.len() {
            check_checksum(&bytes[..len], "a plan").unwrap_err();
        }
        let twice = [&bytes[..], &bytes].concat();
        let error = check_checksum(&twice, "a plan").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
        assert!(error.to_string().starts_with("a plan is damaged: "));
    }
}
