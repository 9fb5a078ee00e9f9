//! Combining the crc32c of several pieces into the crc32c of their concatenation.
//!
//! A crc is a polynomial over GF(2), and appending `n` bytes multiplies it by x^8n. Messages may
//! have tens of thousands of pieces, so x^8n is computed fast: from a table, one base-256 digit of
//! `n` at a time.

/// The polynomial of crc32c, in the bit order of the crc: the highest power in the lowest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The polynomial x^0.
const ONE: u32 = 1 << 31;
/// The polynomial x^8: the factor for one appended byte.
const BYTE: u32 = 1 << 23;

/// Number of bits in one digit of a byte count.
const DIGIT: u32 = 8;
/// Maximum number of digits in a byte count.
const DIGITS: usize = (u64::BITS / DIGIT) as usize;

/// The factors x^(8 * digit * 256^place), indexed by the place of a digit, then by the digit.
static POWERS: [[u32; 1 << DIGIT]; DIGITS] = powers();

const fn powers() -> [[u32; 1 << DIGIT]; DIGITS] {
    let mut powers = [[ONE; 1 << DIGIT]; DIGITS];
    let mut base = BYTE;
    let mut place = 0;
    while place < DIGITS {
        let mut digit = 1;
        while digit < 1 << DIGIT {
            powers[place][digit] = multiply(powers[place][digit - 1], base);
            digit += 1;
        }
        base = multiply(powers[place][digit - 1], base);
        place += 1;
    }
    powers
}

/// Returns the product of two polynomials, modulo the polynomial of crc32c.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = 0;
    while bit < u32::BITS {
        product ^= b & ((a >> (31 - bit)) & 1).wrapping_neg();
        b = (b >> 1) ^ (POLYNOMIAL & (b & 1).wrapping_neg());
        bit += 1;
    }
    product
}

/// Returns the crc32c of two concatenated byte strings. `first` and `second` are their crc32c
/// values, and `len` is the length of the second string, in bytes.
#[must_use]
pub fn combine(first: u32, second: u32, len: u64) -> u32 {
    let mut left = len;
    let mut crc = first;
    for powers in &POWERS {
        if left == 0 {
            break;
        }
        let digit = left & ((1 << DIGIT) - 1);
        if digit != 0 {
            crc = multiply(powers[usize::from(digit.to_le_bytes()[0])], crc);
        }
        left >>= DIGIT;
    }
    crc ^ second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_make_the_crc_of_the_whole() {
        let bytes: Vec<u8> = (0..200_000u32)
            .map(|at| ((at * 7) ^ (at >> 8)).to_le_bytes()[0])
            .collect();
        let whole = crc32c::crc32c(&bytes);
        for cut in [
            0, 1, 15, 16, 17, 255, 256, 4096, 65_536, 65_537, 199_999, 200_000,
        ] {
            let (front, back) = bytes.split_at(cut);
            let [first, second] = [front, back].map(crc32c::crc32c);
            assert_eq!(combine(first, second, back.len() as u64), whole, "{cut}");
        }
    }

    #[test]
    fn lengths_beyond_memory_are_as_good_as_any() {
        let (a, b) = (0x1234_5678, 0x9abc_def0);
        for len in [u64::from(u32::MAX), 1 << 40, (1 << 62) + 12_345] {
            // The other implementation takes the length as a `usize`.
            if let Ok(whole) = usize::try_from(len) {
                assert_eq!(combine(a, b, len), crc32c::crc32c_combine(a, b, whole));
            }
        }
    }
}
