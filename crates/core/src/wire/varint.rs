//! Varints: encoded in minimal form, and decoded with or without padding.

/// Maximum size of a 64-bit varint, in bytes.
pub const MAX_VARINT_LEN: usize = 10;

/// Decodes a varint at the beginning of `bytes`. Returns its value and its size in bytes.
///
/// Returns `None` if `bytes` ends inside the varint, or the varint exceeds ten bytes or 64 bits.
/// Accepts encodings longer than necessary, since some writers pad varints.
///
/// ```
/// use proto_splitter_core::wire::decode_varint;
/// assert_eq!(decode_varint(&[0xac, 0x02, 0xff]), Some((300, 2)));
/// assert_eq!(decode_varint(&[0x80]), None);
/// ```
#[inline]
pub fn decode_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((u64::from(first), 1));
    }
    decode_long(bytes)
}

fn decode_long(bytes: &[u8]) -> Option<(u64, usize)> {
    if let Some(front) = bytes.first_chunk() {
        let found = decode_short_varint(u64::from_le_bytes(*front));
        if found.is_some() {
            return found;
        }
    }
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(MAX_VARINT_LEN).enumerate() {
        if i == MAX_VARINT_LEN - 1 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Decodes the varint at the beginning of eight bytes, which are given as a little-endian number.
/// Returns its value and its size in bytes; `None` if the varint is longer than eight bytes.
///
/// ```
/// use proto_splitter_core::wire::decode_short_varint;
/// assert_eq!(decode_short_varint(0xffff_ffff_ffff_02ac), Some((300, 2)));
/// assert_eq!(decode_short_varint(u64::MAX), None);
/// ```
#[inline]
#[must_use]
pub const fn decode_short_varint(bytes: u64) -> Option<(u64, usize)> {
    // The varint ends at the first byte whose highest bit is 0.
    let ends = !bytes & 0x8080_8080_8080_8080;
    if ends == 0 {
        return None;
    }
    // Keeps the low seven bits of each byte up to the last.
    let bits = bytes & (ends ^ (ends - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
    // Joins neighbors three times: first bytes, then 16-bit units, then 32-bit units.
    let bits = bits & 0x007f_007f_007f_007f | (bits & 0x7f00_7f00_7f00_7f00) >> 1;
    let bits = bits & 0x0000_3fff_0000_3fff | (bits & 0x3fff_0000_3fff_0000) >> 2;
    let bits = bits & 0x0fff_ffff | (bits & 0x0fff_ffff_0000_0000) >> 4;
    Some((bits, ends.trailing_zeros() as usize / 8 + 1))
}

/// Returns the low 32 bits of a number, to which parsers truncate the values of 32-bit fields.
#[inline]
#[must_use]
pub const fn low_32(bits: u64) -> u32 {
    let [a, b, c, d, ..] = bits.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Returns the size in bytes of the varint at the beginning of `bytes`, without decoding its value.
/// Returns `None` whenever [`decode_varint`] does.
#[inline]
pub(crate) fn varint_end(bytes: &[u8]) -> Option<usize> {
    if let Some(front) = bytes.first_chunk() {
        // The varint ends at the first byte whose highest bit is 0.
        let ends = !u64::from_le_bytes(*front) & 0x8080_8080_8080_8080;
        if ends != 0 {
            return Some(ends.trailing_zeros() as usize / 8 + 1);
        }
    }
    match bytes
        .iter()
        .take(MAX_VARINT_LEN - 1)
        .position(|&byte| byte < 0x80)
    {
        Some(last) => Some(last + 1),
        None => decode_varint(bytes).map(|(_, len)| len),
    }
}

/// Returns the minimal size of `value` as a varint, in bytes: 1 to 10.
#[inline]
pub fn varint_len(value: u64) -> usize {
    // A byte holds seven bits; zero still takes one byte.
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends `value` as a minimal varint.
pub fn put_varint(out: &mut Vec<u8>, value: u64) {
    let (bytes, len) = encode_varint(value);
    out.extend_from_slice(&bytes[..len]);
}

/// Encodes `value` as a minimal varint. Returns the bytes, and the number of bytes used.
#[inline]
pub fn encode_varint(mut value: u64) -> ([u8; MAX_VARINT_LEN], usize) {
    let mut bytes = [0; MAX_VARINT_LEN];
    let mut len = 0;
    while value >= 0x80 {
        bytes[len] = value.to_le_bytes()[0] | 0x80;
        value >>= 7;
        len += 1;
    }
    bytes[len] = value.to_le_bytes()[0];
    (bytes, len + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_of_varint_is_read_as_it_was_written() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, (1 << shift) + 1] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                assert_eq!(bytes.len(), varint_len(value), "{value}");
                bytes.push(0x55);
                assert_eq!(decode_varint(&bytes), Some((value, bytes.len() - 1)));
                for cut in 0..bytes.len() - 1 {
                    assert_eq!(decode_varint(&bytes[..cut]), None);
                    assert_eq!(varint_end(&bytes[..cut]), None);
                }
                for behind in 0..10 {
                    bytes.resize(bytes.len() + behind, 0xff);
                    assert_eq!(varint_end(&bytes), Some(varint_len(value)));
                }
            }
        }
        assert_eq!(varint_len(u64::MAX), 10);
    }

    #[test]
    fn overlong_varints_are_read_and_overflowing_ones_refused() {
        assert_eq!(decode_varint(&[0x85, 0x80, 0x00]), Some((5, 3)));
        let mut ten = [0x80u8; 10];
        ten[9] = 0;
        assert_eq!(decode_varint(&ten), Some((0, 10)));
        ten[9] = 2;
        assert_eq!(decode_varint(&ten), None, "bit 64");
        ten[9] = 0x80;
        assert_eq!(decode_varint(&ten), None, "eleven bytes");
        assert_eq!(varint_end(&ten), None, "eleven bytes");
    }
}
