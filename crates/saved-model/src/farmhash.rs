//! `Fingerprint64`, the hash function for all fingerprints: FarmHash's `farmhashna::Hash64`, which
//! is guaranteed never to change.

use std::io::{self, Read, Write};

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;
const CAT: u64 = 0xc6a4_a793_5bd1_e995;

const BLOCK: usize = 64;
const SEED: u64 = 81;

/// A hasher that computes the `Fingerprint64` of bytes that arrive in pieces of any size.
///
/// The hash mixes the input in blocks of 64 bytes, except that its last step mixes the last 64
/// bytes, which may span two blocks. Therefore, the previous block is kept, and a full block is
/// mixed only when another byte follows it.
///
/// ```
/// use proto_splitter_saved_model::fingerprint::{Farmhash, fingerprint64};
///
/// let mut hash = Farmhash::new();
/// hash.update(b"");
/// assert_eq!(hash.finish(), 11160318154034397263);
/// assert_eq!(fingerprint64(b""), 11160318154034397263);
/// ```
#[derive(Clone, Debug)]
pub struct Farmhash {
    /// The block that was mixed last, followed by the block that is being filled.
    tail: [u8; 2 * BLOCK],
    /// Number of bytes in the block that is being filled.
    filled: usize,
    len: u64,
    state: Option<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    x: u64,
    y: u64,
    z: u64,
    v: (u64, u64),
    w: (u64, u64),
}

impl Default for Farmhash {
    fn default() -> Self {
        Farmhash::new()
    }
}

impl Farmhash {
    /// Creates a hasher for an empty input.
    #[must_use]
    pub fn new() -> Self {
        Farmhash {
            tail: [0; 2 * BLOCK],
            filled: 0,
            len: 0,
            state: None,
        }
    }

    /// Adds bytes to the input.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.filled == BLOCK {
                let block: [u8; BLOCK] = part(&self.tail, BLOCK);
                self.mix(&block);
                // Blocks that are contiguous in `bytes` are mixed without a copy, except for the
                // last one.
                while let Some((block, rest)) = bytes.split_first_chunk::<BLOCK>()
                    && !rest.is_empty()
                {
                    self.mix(block);
                    bytes = rest;
                }
                self.filled = 0;
            }
            let n = bytes.len().min(BLOCK - self.filled);
            let start = BLOCK + self.filled;
            self.tail[start..start + n].copy_from_slice(&bytes[..n]);
            self.filled += n;
            bytes = &bytes[n..];
        }
    }

    fn mix(&mut self, block: &[u8; BLOCK]) {
        let mut state = self.state.unwrap_or_else(|| State::start(block));
        state.round(block, K1, 1);
        self.state = Some(state);
        self.tail[..BLOCK].copy_from_slice(block);
    }

    /// Returns the fingerprint of all added bytes.
    #[must_use]
    pub fn finish(&self) -> u64 {
        let Some(mut state) = self.state else {
            return short(&self.tail[BLOCK..BLOCK + self.filled]);
        };
        let last: [u8; BLOCK] = part(&self.tail, self.filled);
        let mul = K1.wrapping_add((state.z & 0xff) << 1);
        state.w.0 = state.w.0.wrapping_add(self.len.wrapping_sub(1) & 63);
        state.v.0 = state.v.0.wrapping_add(state.w.0);
        state.w.0 = state.w.0.wrapping_add(state.v.0);
        state.round(&last, mul, 9);
        let State { x, y, z, v, w } = state;
        mix_16(
            mix_16(v.0, w.0, mul)
                .wrapping_add(shift_mix(y).wrapping_mul(K0))
                .wrapping_add(z),
            mix_16(v.1, w.1, mul).wrapping_add(x),
            mul,
        )
    }
}

impl Write for Farmhash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl State {
    fn start(first: &[u8]) -> State {
        let y = SEED.wrapping_mul(K1).wrapping_add(113);
        State {
            x: SEED.wrapping_mul(K2).wrapping_add(word(first, 0)),
            y,
            z: shift_mix(y.wrapping_mul(K2).wrapping_add(113)).wrapping_mul(K2),
            v: (0, 0),
            w: (0, 0),
        }
    }

    /// Mixes one block. `mul` and `times` are factors, which differ for the last block.
    fn round(&mut self, s: &[u8; BLOCK], mul: u64, times: u64) {
        let State { x, y, z, v, w } = self;
        *x = x
            .wrapping_add(*y)
            .wrapping_add(v.0)
            .wrapping_add(word(s, 8))
            .rotate_right(37)
            .wrapping_mul(mul);
        *y = y
            .wrapping_add(v.1)
            .wrapping_add(word(s, 48))
            .rotate_right(42)
            .wrapping_mul(mul);
        *x ^= w.1.wrapping_mul(times);
        *y = y
            .wrapping_add(v.0.wrapping_mul(times))
            .wrapping_add(word(s, 40));
        *z = z.wrapping_add(w.0).rotate_right(33).wrapping_mul(mul);
        *v = weak_32(s, 0, v.1.wrapping_mul(mul), x.wrapping_add(w.0));
        *w = weak_32(s, 32, z.wrapping_add(w.1), y.wrapping_add(word(s, 16)));
        std::mem::swap(z, x);
    }
}

/// Returns the `Fingerprint64` of `bytes`.
#[must_use]
pub fn fingerprint64(bytes: &[u8]) -> u64 {
    let mut hash = Farmhash::new();
    hash.update(bytes);
    hash.finish()
}

/// Returns the `Fingerprint64` of everything that `stream` contains.
pub(crate) fn fingerprint_stream(stream: &mut dyn Read) -> io::Result<u64> {
    let mut hash = Farmhash::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(hash.finish()),
            Ok(n) => hash.update(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Combines two fingerprints with TensorFlow's `FingerprintCat64`. The order of the arguments
/// matters.
///
/// ```
/// use proto_splitter_saved_model::fingerprint::fingerprint_cat64;
/// assert_eq!(fingerprint_cat64(1, 2), 14454907135238785252);
/// ```
#[must_use]
pub fn fingerprint_cat64(a: u64, b: u64) -> u64 {
    let mut r = a ^ CAT;
    r ^= shift_mix(b.wrapping_mul(CAT)).wrapping_mul(CAT);
    r = r.wrapping_mul(CAT);
    r = shift_mix(r).wrapping_mul(CAT);
    shift_mix(r)
}

/// Hashes an input of up to 64 bytes.
fn short(s: &[u8]) -> u64 {
    let len = s.len();
    let mul = K2.wrapping_add(len as u64 * 2);
    match len {
        0 => K2,
        1..=3 => {
            let y = u64::from(s[0]) + (u64::from(s[len / 2]) << 8);
            let z = len as u64 + (u64::from(s[len - 1]) << 2);
            shift_mix(y.wrapping_mul(K2) ^ z.wrapping_mul(K0)).wrapping_mul(K2)
        }
        4..=7 => {
            let (a, b) = (half_word(s, 0), half_word(s, len - 4));
            mix_16((len as u64).wrapping_add(a << 3), b, mul)
        }
        8..=16 => {
            let a = word(s, 0).wrapping_add(K2);
            let b = word(s, len - 8);
            let c = b.rotate_right(37).wrapping_mul(mul).wrapping_add(a);
            let d = a.rotate_right(25).wrapping_add(b).wrapping_mul(mul);
            mix_16(c, d, mul)
        }
        17..=32 => {
            let Quarter { sum, other, .. } = Quarter::of(s, word(s, 0).wrapping_mul(K1), mul);
            mix_16(sum, other, mul)
        }
        _ => {
            let first = word(s, 0).wrapping_mul(K2);
            let Quarter { sum: y, other, a } = Quarter::of(s, first, mul);
            let z = mix_16(y, other, mul);
            let e = word(s, 16).wrapping_mul(mul);
            let f = word(s, 24);
            let g = y.wrapping_add(word(s, len - 32)).wrapping_mul(mul);
            let h = z.wrapping_add(word(s, len - 24)).wrapping_mul(mul);
            mix_16(
                e.wrapping_add(f)
                    .rotate_right(43)
                    .wrapping_add(g.rotate_right(30))
                    .wrapping_add(h),
                e.wrapping_add(f.wrapping_add(a).rotate_right(18))
                    .wrapping_add(g),
                mul,
            )
        }
    }
}

/// Intermediate values of the hash. They are computed in the same way for inputs of 17 to 32 bytes
/// and for inputs of 33 to 64 bytes.
struct Quarter {
    a: u64,
    sum: u64,
    other: u64,
}

impl Quarter {
    fn of(s: &[u8], a: u64, mul: u64) -> Quarter {
        let len = s.len();
        let b = word(s, 8);
        let c = word(s, len - 8).wrapping_mul(mul);
        let d = word(s, len - 16).wrapping_mul(K2);
        let sum = a
            .wrapping_add(b)
            .rotate_right(43)
            .wrapping_add(c.rotate_right(30))
            .wrapping_add(d);
        let other = a
            .wrapping_add(b.wrapping_add(K2).rotate_right(18))
            .wrapping_add(c);
        Quarter { a, sum, other }
    }
}

fn weak_32(s: &[u8], at: usize, a: u64, b: u64) -> (u64, u64) {
    let [w, x, y, z] = [0, 8, 16, 24].map(|offset| word(s, at + offset));
    let a = a.wrapping_add(w);
    let b = b.wrapping_add(a).wrapping_add(z).rotate_right(21);
    let c = a;
    let a = a.wrapping_add(x).wrapping_add(y);
    let b = b.wrapping_add(a.rotate_right(44));
    (a.wrapping_add(z), b.wrapping_add(c))
}

fn mix_16(u: u64, v: u64, mul: u64) -> u64 {
    let a = shift_mix((u ^ v).wrapping_mul(mul));
    shift_mix((v ^ a).wrapping_mul(mul)).wrapping_mul(mul)
}

fn shift_mix(value: u64) -> u64 {
    value ^ (value >> 47)
}

fn part<const N: usize>(s: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&s[at..at + N]);
    bytes
}

#[inline]
fn word(s: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(part(s, at))
}

fn half_word(s: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(part(s, at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `len` bytes of test data: the top bytes of a linear congruential generator's states.
    fn sample(len: usize) -> Vec<u8> {
        let mut x = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            x = x
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            x.to_be_bytes()[0]
        };
        (0..len).map(|_| next()).collect()
    }

    /// Returns pairs of a length and the hash that TensorFlow 2.21 computed for a `variables.index`
    /// with the bytes of the [`sample`] of this length.
    fn expected() -> impl Iterator<Item = (usize, u64)> {
        include_str!("farmhash.txt").lines().map(|line| {
            let (len, hash) = line.split_once(' ').unwrap();
            (len.parse().unwrap(), u64::from_str_radix(hash, 16).unwrap())
        })
    }

    #[test]
    fn every_length_has_the_hash_that_tensorflow_computes() {
        for (len, hash) in expected() {
            assert_eq!(fingerprint64(&sample(len)), hash, "{len} bytes");
        }
    }

    #[test]
    fn the_pieces_do_not_matter() {
        for (len, expected) in expected().filter(|(len, _)| *len < 2000) {
            let bytes = sample(len);
            for piece in [1, 7, 63, 64, 65, 128] {
                let mut hash = Farmhash::new();
                bytes.chunks(piece).for_each(|piece| hash.update(piece));
                assert_eq!(hash.finish(), expected, "{len} bytes, {piece} at a time");
            }
            let mut slow = io::Read::chain(&bytes[..len / 2], &bytes[len / 2..]);
            assert_eq!(fingerprint_stream(&mut slow).unwrap(), expected);
        }
    }

    #[test]
    fn known_values() {
        assert_eq!(fingerprint64(b""), 11_160_318_154_034_397_263);
        assert_eq!(
            fingerprint64(b"\x12\x00\x22\x00"),
            1_826_355_931_633_539_578
        );
        assert_eq!(
            fingerprint_cat64(fingerprint64(b""), 0),
            17_454_850_744_699_451_884
        );
        assert_eq!(fingerprint_cat64(0, 0), 6_351_753_276_682_545_529);
        assert_eq!(fingerprint_cat64(1, 2), 14_454_907_135_238_785_252);
    }
}
