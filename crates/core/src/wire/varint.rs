//! Varints: written as short as they can be, read as long as writers may pad them.

/// The most bytes a varint of 64 bits takes.
pub const MAX_VARINT_LEN: usize = 10;

/// Reads a varint from the front of `bytes`: its value and how many bytes it takes.
///
/// `None` if `bytes` ends inside it, or it goes on past ten bytes or 64 bits. Longer than needed is
/// fine: writers may pad.
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

/// How many bytes the varint at the front of `bytes` takes, where its value doesn't matter; as
/// [`decode_varint`] says.
#[inline]
pub(crate) fn varint_end(bytes: &[u8]) -> Option<usize> {
    if let Some(front) = bytes.first_chunk() {
        // The first byte without the highest bit ends it.
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

/// How many bytes `value` takes as a varint, at the least: 1 to 10.
#[inline]
pub fn varint_len(value: u64) -> usize {
    // Seven bits a byte; zero still takes one.
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends `value` as a minimal varint.
pub fn put_varint(out: &mut Vec<u8>, value: u64) {
    let (bytes, len) = encode_varint(value);
    out.extend_from_slice(&bytes[..len]);
}

/// `value` as a minimal varint: the bytes and how many of them count.
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
