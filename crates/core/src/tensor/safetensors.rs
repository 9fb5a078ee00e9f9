//! The safetensors format, except for the JSON in a file's header.
//!
//! ```text
//! | length of the header, u64 LE | header, padded with spaces to 8 bytes | tensors ... |
//! ```
//!
//! The limits are those of the crate `safetensors`, by which most readers abide.

use crate::{Error, ErrorKind, Result};

/// Size of the length that precedes the header, in bytes.
pub const LEN_LEN: u64 = 8;

/// Maximum length of a header that readers accept, in bytes, including the padding.
pub const MAX_HEADER_LEN: u64 = 100_000_000;

/// Name of the header's entry with metadata, which no tensor can have.
pub const METADATA: &str = "__metadata__";

/// Returns the bytes before the first tensor: the length of the header, and the header, padded with
/// spaces so that the tensors begin at a multiple of 8 bytes.
///
/// ```
/// use proto_splitter_core::tensor::safetensors::start_of_file;
///
/// assert_eq!(start_of_file(b"{}".to_vec())?, b"\x08\0\0\0\0\0\0\0{}      ");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::LimitExceeded`] if the padded header is longer than [`MAX_HEADER_LEN`].
pub fn start_of_file(mut header: Vec<u8>) -> Result<Vec<u8>> {
    header.resize(header.len().next_multiple_of(8), b' ');
    let len = header.len() as u64;
    if len > MAX_HEADER_LEN {
        let message = format!(
            "the header has {len} bytes, over the {MAX_HEADER_LEN} that readers of safetensors accept"
        );
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    header.splice(..0, len.to_le_bytes());
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_no_reader_accepts_is_refused() {
        let longest = usize::try_from(MAX_HEADER_LEN).unwrap();
        assert!(start_of_file(vec![b'x'; longest]).is_ok());
        let error = start_of_file(vec![b'x'; longest + 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    }
}
