//! Encoding and decoding arrays of strings.
//!
//! ```text
//! i64 (n + 1): the beginning of each string and the end of the last, little-endian | the strings
//! ```
//!
//! The offsets are always little-endian, even if the array's byte order field says big-endian. Java
//! sets this field to big-endian, but writes the offsets in its own memory's byte order.

use crate::{Error, ErrorKind, Result};

/// Maximum size of an array of strings that can be read into memory, including the offsets of the
/// strings: 256 MiB.
pub const MAX_STRINGS_SIZE: u64 = 256 << 20;

/// Returns the minimum size of `count` strings in bytes, which is the size of their offsets.
pub(super) fn least_len(count: u64) -> u64 {
    count.saturating_add(1).saturating_mul(8)
}

pub(super) fn encode<S: AsRef<str>>(texts: &[S]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut at = 0_u64;
    bytes.extend(at.to_le_bytes());
    for text in texts {
        at += text.as_ref().len() as u64;
        bytes.extend(at.to_le_bytes());
    }
    for text in texts {
        bytes.extend(text.as_ref().bytes());
    }
    bytes
}

pub(super) fn decode(bytes: &[u8], count: u64) -> Result<Vec<String>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let invalid = |message: String| Error::new(ErrorKind::InvalidArray, message);
    let split = usize::try_from(least_len(count)).ok();
    let Some((offsets, texts)) = split.and_then(|split| bytes.split_at_checked(split)) else {
        return Err(invalid(format!(
            "{} bytes are too few for {count} strings",
            bytes.len()
        )));
    };
    let (offsets, _) = offsets.as_chunks::<8>();
    let offsets: Vec<u64> = offsets
        .iter()
        .map(|offset| u64::from_le_bytes(*offset))
        .collect();
    let mut decoded = Vec::new();
    for (index, ends) in offsets.windows(2).enumerate() {
        let span = usize::try_from(ends[0])
            .ok()
            .zip(usize::try_from(ends[1]).ok());
        let Some(text) = span.and_then(|(start, end)| texts.get(start..end)) else {
            let message = format!(
                "string {index} is at {} to {}, but there are {} bytes",
                ends[0],
                ends[1],
                texts.len()
            );
            return Err(invalid(message));
        };
        let text = std::str::from_utf8(text);
        let text = text.map_err(|_| invalid(format!("string {index} is not utf-8")))?;
        decoded.push(text.to_owned());
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        for texts in [&["a", "", "näher"][..], &[""], &["only"]] {
            assert_eq!(decode(&encode(texts), texts.len() as u64).unwrap(), texts);
        }
        // DL4J writes an empty string like this.
        assert_eq!(decode(&[0; 16], 1).unwrap(), [""]);
    }

    #[test]
    fn a_text_that_lies_outside_is_named() {
        let mut bytes = encode(&["ab", "cd"]);
        bytes[16] = 5;
        let error = decode(&bytes, 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "string 1 is at 2 to 5, but there are 4 bytes"
        );
        assert!(decode(&bytes, u64::MAX).is_err());
        assert!(decode(&bytes[..20], 2).is_err());
    }
}
