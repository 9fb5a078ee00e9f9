//! Random messages and places in them, generated from a seed or from a fuzzer's bytes.

use proto_splitter_core::path::{FieldPath, MapKey, Step};

use super::{cat, group, int, len};

/// A generator of pseudo-random numbers, which depend only on a seed or on given bytes.
pub struct Random<'a> {
    seed: u64,
    bytes: Option<&'a [u8]>,
}

impl<'a> Random<'a> {
    pub fn of_seed(seed: u64) -> Self {
        Random { seed, bytes: None }
    }

    /// Creates a generator that derives each number from one byte, and returns 0 once there are no
    /// more bytes. Thus, a fuzzer that changes a byte changes one decision.
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        Random {
            seed: 0,
            bytes: Some(bytes),
        }
    }

    pub fn below(&mut self, n: u64) -> u64 {
        if let Some(bytes) = self.bytes {
            let Some((&first, rest)) = bytes.split_first() else {
                return 0;
            };
            self.bytes = Some(rest);
            return u64::from(first) % n;
        }
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % n
    }

    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// Returns random fields of a `t.T` in any order, some of them twice.
pub fn fields(random: &mut Random<'_>, depth: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..random.below(6) {
        out.extend(field(random, depth));
    }
    if random.below(2) == 0 {
        return out;
    }
    // Most serializers write fields in order.
    let mut sorted: Vec<Vec<u8>> = (0..random.below(8)).map(|_| field(random, depth)).collect();
    sorted.sort_by_key(|field| number(field));
    sorted.concat()
}

fn number(field: &[u8]) -> u64 {
    proto_splitter_core::wire::decode_varint(field).unwrap().0 >> 3
}

fn field(random: &mut Random<'_>, depth: u32) -> Vec<u8> {
    let value = 1 + random.below(200);
    let text = random.one_of(&["", "a", "bc"]);
    let inner = |random: &mut Random<'_>| match depth {
        0 => Vec::new(),
        _ => fields(random, depth - 1),
    };
    match random.below(16) {
        0 => int(1, value),
        1 => len(7, text),
        2 => len(8, text),
        3 | 4 => len(9, inner(random)),
        5 | 6 => len(10, inner(random)),
        7 => len(11, text),
        8 => len(12, [1, 2]),
        9 => int(12, value),
        10 => len(
            13,
            cat([len(1, random.one_of(&["a", "b"])), len(2, inner(random))]),
        ),
        11 => len(16, cat([int(1, random.below(2)), len(2, inner(random))])),
        12 => len(30, inner(random)),
        13 => len(31, text),
        14 => len(23, inner(random)),
        _ => group(33, int(1, value)),
    }
}

/// Returns a random path for a chunk, and true if the value at the path is a message.
pub fn place(random: &mut Random<'_>) -> (FieldPath, bool) {
    let mut path = FieldPath::root();
    loop {
        let value = path.steps().len() as u64;
        let key = MapKey::String(random.one_of(&["a", "b"]).into());
        match random.below(13 + value) {
            0 => return (path.join(Step::field(random.one_of(&[7, 8, 31]))), false),
            1 => return (path.join(Step::field(1)), false),
            2 => return (path.join(Step::index(11, random.below(3))), false),
            3 => return (path.join(Step::key(21, key)), false),
            4 => return (path.join(Step::field(32)), false),
            5 | 6 => path.push(Step::field(9)),
            7 | 8 => path.push(Step::index(10, random.below(3))),
            9 => path.push(Step::key(13, key)),
            10 => path.push(Step::key(
                16,
                MapKey::U32(u32::try_from(random.below(2)).unwrap()),
            )),
            11 => path.push(Step::field(random.one_of(&[23, 30]))),
            _ => return (path, true),
        }
        if path.steps().len() > 3 {
            return (path, true);
        }
    }
}
