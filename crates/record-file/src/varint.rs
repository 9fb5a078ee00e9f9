//! Varints: integers in groups of seven bits, least significant first, with the high bit set in
//! every byte but the last.

pub(crate) const MAX_LEN: usize = 10;

/// Appends `value` as a varint.
pub(crate) fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    out.push(low_byte(value));
}

fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

/// Returns the varint of a 32-bit value, padded with zeros, and the length of the varint.
pub(crate) fn short(mut value: u32) -> ([u8; 5], u8) {
    let mut out = [0; 5];
    let mut len = 0;
    for byte in &mut out {
        len += 1;
        *byte = value.to_le_bytes()[0] & 0x7f;
        value >>= 7;
        if value == 0 {
            break;
        }
        *byte |= 0x80;
    }
    (out, len)
}

/// Returns the number of bytes that [`push`] appends.
#[cfg(test)]
pub(crate) fn len(value: u64) -> usize {
    // This is 1 + floor(log2(value) / 7), computed by a multiplication.
    let log2 = 63 - (value | 1).leading_zeros() as usize;
    (log2 * 9 + 73) / 64
}

/// Removes and returns a varint from the front of `bytes`; `None` if it is truncated or doesn't fit
/// in 64 bits.
#[inline]
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    if first < 0x80 {
        *bytes = &bytes[1..];
        return Some(u64::from(first));
    }
    if let Some(&second) = bytes.get(1)
        && second < 0x80
    {
        *bytes = &bytes[2..];
        return Some(u64::from(first & 0x7f) | u64::from(second) << 7);
    }
    let mut value = u64::from(first & 0x7f);
    let mut shift = 7;
    for (index, &byte) in bytes.iter().enumerate().take(MAX_LEN).skip(1) {
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
        shift += 7;
    }
    None
}

/// Removes and returns a varint like [`take`], but without branches between varints of one and two
/// bytes, since branches are hard to predict if both lengths occur at random.
#[inline]
pub(crate) fn take_mixed(bytes: &mut &[u8]) -> Option<u64> {
    if let [first, second, ..] = **bytes {
        let long = first >> 7;
        if long & (second >> 7) == 0 {
            *bytes = &bytes[1 + usize::from(long)..];
            let high = u64::from(second * long) << 7;
            return Some(u64::from(first & 0x7f) | high);
        }
    }
    take(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_with_the_announced_length() {
        let mut values = vec![0, 1, 127, 128, 300, u64::MAX, u64::from(u32::MAX)];
        values.extend((0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        for value in values {
            let mut bytes = Vec::new();
            push(&mut bytes, value);
            assert_eq!(bytes.len(), len(value), "{value}");
            for cut in 0..bytes.len() {
                assert_eq!(take(&mut &bytes[..cut]), None);
                assert_eq!(take_mixed(&mut &bytes[..cut]), None);
            }
            bytes.push(9);
            for take in [take, take_mixed] {
                let mut rest = &bytes[..];
                assert_eq!(take(&mut rest), Some(value));
                assert_eq!(rest, [9]);
            }
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut ten = [0xff; 10];
        ten[9] = 2;
        assert_eq!(take(&mut &ten[..]), None);
        assert_eq!(take(&mut &[0x80; 11][..]), None);
    }
}
