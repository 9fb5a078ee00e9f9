//! Reproducible records, generated from fixed seeds.

/// A reproducible sequence of random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates a sequence that depends only on `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns the next random number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns the next random number, scaled to be below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a normally distributed number with mean 0 and standard deviation 1.
    pub fn normal(&mut self) -> f32 {
        // This is the Box-Muller transform.
        let unit = |bits: u64| ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let radius = (-2.0 * unit(self.draw()).ln()).sqrt();
        (radius * (std::f64::consts::TAU * unit(self.draw())).cos()) as f32
    }
}

/// Returns workload (a): `count` records of `bytes` bytes each, which consist of normally
/// distributed float32 values.
#[must_use]
pub fn floats(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(1);
    let floats = |_| {
        let normal = |_| random.normal().to_le_bytes();
        (0..bytes / 4).flat_map(normal).collect()
    };
    (0..count).map(floats).collect()
}

/// Returns workload (b): the records that [`floats`] returned, with each value rounded to a
/// multiple of 0.5.
#[must_use]
pub fn quantised(floats: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let halves = |value: &[u8; 4]| {
        let value = f32::from_le_bytes(*value);
        ((value * 2.0).round() / 2.0).to_le_bytes()
    };
    floats
        .iter()
        .map(|record| record.as_chunks().0.iter().flat_map(halves).collect())
        .collect()
}

/// Returns workload (c): messages of about 160 bytes, with a number, a name, a time, a score, tags,
/// and a nested message.
#[must_use]
pub fn messages(count: usize) -> Vec<Vec<u8>> {
    const WORDS: [&str; 12] = [
        "alpha",
        "bravo",
        "conv2d",
        "dense",
        "embedding",
        "flatten",
        "gather",
        "hidden",
        "input",
        "kernel",
        "logits",
        "matmul",
    ];
    let mut random = Random::new(2);
    let mut out = Vec::with_capacity(count);
    for index in 0..count as u64 {
        let mut message = Vec::with_capacity(200);
        varint_field(&mut message, 1, index);
        let word = |random: &mut Random| WORDS[random.below(12) as usize];
        let name = format!(
            "{}/{}_{}",
            word(&mut random),
            word(&mut random),
            random.below(100_000)
        );
        bytes_field(&mut message, 2, name.as_bytes());
        tag(&mut message, 3, 1);
        message.extend((1_700_000_000_000 + index * 1000 + random.below(1000)).to_le_bytes());
        tag(&mut message, 4, 5);
        message.extend(random.normal().to_le_bytes());
        for _ in 0..random.below(4) {
            let word = word(&mut random);
            bytes_field(&mut message, 5, word.as_bytes());
        }
        let mut inner = Vec::with_capacity(100);
        varint_field(&mut inner, 1, random.below(100));
        varint_field(&mut inner, 2, random.draw() >> 20);
        let noise: Vec<u8> = (0..7 + random.below(11))
            .flat_map(|_| random.draw().to_le_bytes())
            .collect();
        bytes_field(&mut inner, 3, &noise);
        bytes_field(&mut message, 6, &inner);
        out.push(message);
    }
    out
}

/// Appends a tag.
pub fn tag(out: &mut Vec<u8>, field: u64, wire_type: u64) {
    varint(out, field << 3 | wire_type);
}

/// Appends a varint field.
pub fn varint_field(out: &mut Vec<u8>, field: u64, value: u64) {
    tag(out, field, 0);
    varint(out, value);
}

/// Appends a length-delimited field.
pub fn bytes_field(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    tag(out, field, 2);
    varint(out, value.len() as u64);
    out.extend(value);
}

/// Appends a varint.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
