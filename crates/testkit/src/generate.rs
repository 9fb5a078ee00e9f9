//! Random messages, byte by byte, with everything that the wire format allows and readers accept.

use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use proto_splitter_core::wire::{put_varint, varint_len};

/// Returns the number of random messages in a test: `default`, or the value of
/// `PROTO_SPLITTER_CASES`.
pub fn cases(default: u64) -> u64 {
    let asked = std::env::var("PROTO_SPLITTER_CASES").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Returns the type of the random messages: `testkit.Sink`, which has every kind of field.
///
/// # Panics
///
/// If the schema next to this file doesn't compile.
pub fn kitchen_sink() -> MessageDescriptor {
    static POOL: std::sync::LazyLock<DescriptorPool> = std::sync::LazyLock::new(|| {
        let file = protox::file::File::from_source(
            "kitchen_sink.proto",
            include_str!("../proto/kitchen_sink.proto"),
        )
        .expect("the schema parses");
        struct One(protox::file::File);
        impl protox::file::FileResolver for One {
            fn open_file(&self, name: &str) -> Result<protox::file::File, protox::Error> {
                if name == self.0.name() {
                    Ok(self.0.clone())
                } else {
                    Err(protox::Error::file_not_found(name))
                }
            }
        }
        let mut compiler = protox::Compiler::with_file_resolver(One(file));
        compiler
            .open_file("kitchen_sink.proto")
            .expect("the schema compiles");
        compiler.include_imports(true);
        // This isn't the compiler's pool, since prost-reflect reads `packed` before it has resolved
        // the options of source.
        DescriptorPool::decode(&*compiler.encode_file_descriptor_set()).expect("as compiled")
    });
    POOL.get_message_by_name("testkit.Sink")
        .expect("it is in its file")
}

/// SplitMix64, which is small, seeded, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts a sequence of numbers.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound.max(1)
    }

    /// Returns one of the given values.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.below(from.len() as u64)).expect("small")]
    }

    /// Returns true in one of `n` calls on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Shuffles the items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            let other = self.below(at as u64 + 1);
            items.swap(at, usize::try_from(other).unwrap_or(at));
        }
    }

    /// Returns bytes of printable text.
    #[allow(clippy::missing_panics_doc, reason = "95 letters fit in a byte")]
    pub fn text(&mut self, len: u64) -> Vec<u8> {
        (0..len)
            .map(|_| b' ' + u8::try_from(self.below(95)).expect("small"))
            .collect()
    }
}

/// The order in which a message's fields are written.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// By number, as most writers do.
    Ascending,
    /// By number, descending.
    Descending,
    /// Shuffled, separating the elements of a repeated field.
    Shuffled,
}

/// The unusual features of the messages.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Order of fields.
    pub order: Order,
    /// Overlong varints, in tags, lengths and values; unknown fields; map entries with missing or
    /// additional fields.
    pub odd_wire: bool,
    /// Repeated values, superseded members of oneofs, duplicate keys, submessages in pieces.
    pub repeats: bool,
    /// Approximate size of a message, in bytes.
    pub size: u64,
}

impl Habits {
    /// Returns the habits of most writers.
    pub fn plain(size: u64) -> Habits {
        Habits {
            order: Order::Ascending,
            odd_wire: false,
            repeats: false,
            size,
        }
    }
}

/// Returns a serialized message of this type.
pub fn message(descriptor: &MessageDescriptor, random: &mut Random, habits: &Habits) -> Vec<u8> {
    content(descriptor, random, habits, habits.size, 0)
}

/// The wire properties of a field or an extension.
struct Slot {
    number: u32,
    kind: Kind,
    repeated: bool,
    map: bool,
    group: bool,
    packed: bool,
    /// Numbers of the fields in the same oneof.
    oneof: Vec<u32>,
}

impl From<&FieldDescriptor> for Slot {
    fn from(field: &FieldDescriptor) -> Self {
        let oneof = field.containing_oneof();
        let members = oneof.iter().flat_map(|oneof| oneof.fields());
        Slot {
            number: field.number(),
            kind: field.kind(),
            repeated: field.is_list() || field.is_map(),
            map: field.is_map(),
            group: field.is_group(),
            packed: field.is_packed(),
            oneof: members.map(|member| member.number()).collect(),
        }
    }
}

fn slots(descriptor: &MessageDescriptor) -> Vec<Slot> {
    let fields = descriptor.fields();
    let mut slots: Vec<Slot> = fields.map(|field| Slot::from(&field)).collect();
    slots.extend(descriptor.extensions().map(|extension| Slot {
        number: extension.number(),
        kind: extension.kind(),
        repeated: extension.is_list(),
        map: false,
        group: extension.is_group(),
        packed: extension.is_packed(),
        oneof: Vec::new(),
    }));
    slots.sort_by_key(|slot| slot.number);
    slots
}

fn content(
    descriptor: &MessageDescriptor,
    random: &mut Random,
    habits: &Habits,
    size: u64,
    depth: u32,
) -> Vec<u8> {
    let slots = slots(descriptor);
    if slots.is_empty() {
        return Vec::new();
    }
    // Each occurrence is a separate item, so that they can have any order.
    let mut items: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut left = size;
    let mut tries = 0;
    while left > 8 && tries < 40 {
        tries += 1;
        let slot = random.choose(&slots);
        let taken = |number: u32| items.iter().any(|(item, _)| *item == number);
        let rival = slot.oneof.iter().any(|&number| taken(number));
        if !slot.repeated && (taken(slot.number) || rival) && !(habits.repeats && random.one_in(3))
        {
            continue;
        }
        let count = if slot.repeated {
            1 + random.below(6)
        } else {
            1
        };
        let share = left / 2 / count;
        for _ in 0..count {
            let mut item = Vec::new();
            value(&mut item, slot, random, habits, share, depth);
            left = left.saturating_sub(item.len() as u64);
            if random.one_in(8) && habits.repeats && slot.map {
                items.push((slot.number, item.clone()));
            }
            items.push((slot.number, item));
        }
    }
    if habits.odd_wire && random.one_in(3) {
        let known = |number: &u32| slots.iter().any(|slot| slot.number == *number);
        let number = (777..)
            .find(|number| !known(number))
            .expect("there are more numbers");
        for _ in 0..=random.below(3) {
            let len = random.below(1 + left / 4);
            items.push((number, unknown(number, len, random, habits)));
        }
    }
    match habits.order {
        Order::Ascending => items.sort_by_key(|(number, _)| *number),
        Order::Descending => items.sort_by_key(|(number, _)| std::cmp::Reverse(*number)),
        Order::Shuffled => random.shuffle(&mut items),
    }
    items.into_iter().flat_map(|(_, item)| item).collect()
}

/// Returns a field that its message's type doesn't have: of any wire type, most often bytes.
fn unknown(number: u32, len: u64, random: &mut Random, habits: &Habits) -> Vec<u8> {
    let mut out = Vec::new();
    let wire_type = *random.choose(&[2, 2, 2, 0, 1, 3, 5]);
    tag(&mut out, number, wire_type, random, habits);
    match wire_type {
        0 => put_varint(&mut out, random.number() >> random.below(64)),
        1 => out.extend(random.text(8)),
        2 => {
            varint(&mut out, len, 10, random, habits);
            out.extend(random.text(len));
        }
        3 => {
            let inner = random.text(len);
            tagged(&mut out, 1, &inner, random, habits);
            tag(&mut out, number, 4, random, habits);
        }
        _ => out.extend(random.text(4)),
    }
    out
}

/// Appends a varint, sometimes overlong, but of at most this many bytes.
fn varint(out: &mut Vec<u8>, value: u64, most: usize, random: &mut Random, habits: &Habits) {
    if !(habits.odd_wire && random.one_in(10)) {
        return put_varint(out, value);
    }
    let shortest = varint_len(value);
    let wide = shortest + usize::try_from(random.below(10)).expect("small");
    let wide = wide.min(most).max(shortest);
    for at in 0..wide {
        let shift = 7 * u32::try_from(at).expect("small");
        let bits = value.checked_shr(shift).unwrap_or(0) & 0x7f;
        let bits = u8::try_from(bits).expect("seven bits");
        out.push(if at + 1 < wide { bits | 0x80 } else { bits });
    }
}

/// Appends a tag. Readers accept tags of up to five bytes.
fn tag(out: &mut Vec<u8>, number: u32, wire_type: u64, random: &mut Random, habits: &Habits) {
    varint(out, u64::from(number) << 3 | wire_type, 5, random, habits);
}

fn tagged(out: &mut Vec<u8>, number: u32, content: &[u8], random: &mut Random, habits: &Habits) {
    tag(out, number, 2, random, habits);
    varint(out, content.len() as u64, 10, random, habits);
    out.extend_from_slice(content);
}

fn value(
    out: &mut Vec<u8>,
    slot: &Slot,
    random: &mut Random,
    habits: &Habits,
    size: u64,
    depth: u32,
) {
    let number = slot.number;
    let inner = |random: &mut Random, descriptor: &MessageDescriptor| {
        if depth > 6 || random.one_in(6) {
            return Vec::new();
        }
        content(descriptor, random, habits, size, depth + 1)
    };
    match &slot.kind {
        Kind::Message(entry) if slot.map => {
            let mut bytes = Vec::new();
            let mut parts = Vec::new();
            if !random.one_in(10) {
                let mut key = Vec::new();
                scalar(
                    &mut key,
                    &entry.map_entry_key_field().kind(),
                    1,
                    random,
                    habits,
                );
                parts.push(key);
            }
            let mut part = Vec::new();
            value(
                &mut part,
                &Slot::from(&entry.map_entry_value_field()),
                random,
                habits,
                size,
                depth,
            );
            parts.push(part);
            if habits.odd_wire && random.one_in(20) {
                // The entry has more fields than usual, or fewer. Such a value has no path.
                match random.below(3) {
                    0 => parts.push(unknown(3, 1 + size / 4, random, habits)),
                    1 => parts.insert(0, parts[0].clone()),
                    _ => parts.truncate(parts.len() - 1),
                }
            }
            if habits.odd_wire && random.one_in(8) {
                parts.reverse();
            }
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
            tagged(out, number, &bytes, random, habits);
        }
        Kind::Message(descriptor) if slot.group => {
            tag(out, number, 3, random, habits);
            out.extend(inner(random, descriptor));
            tag(out, number, 4, random, habits);
        }
        Kind::Message(descriptor) => {
            let bytes = inner(random, descriptor);
            tagged(out, number, &bytes, random, habits);
        }
        Kind::Bytes | Kind::String => {
            let len = random.below(1 + size);
            let bytes = random.text(len);
            tagged(out, number, &bytes, random, habits);
        }
        // Readers accept both forms, whatever the field's declaration.
        kind if slot.repeated && slot.packed != random.one_in(6) => {
            let mut bytes = Vec::new();
            for _ in 0..random.below(1 + size / 4) {
                bare(&mut bytes, kind, random, habits);
            }
            tagged(out, number, &bytes, random, habits);
        }
        kind => scalar(out, kind, number, random, habits),
    }
}

/// Appends a scalar with its tag. Keys of maps are scalars too: few different ones, so that some
/// occur twice.
fn scalar(out: &mut Vec<u8>, kind: &Kind, number: u32, random: &mut Random, habits: &Habits) {
    let wire_type = match kind {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => 1,
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => 5,
        Kind::String | Kind::Bytes => 2,
        _ => 0,
    };
    tag(out, number, wire_type, random, habits);
    if wire_type == 2 {
        let len = random.below(4);
        let key = random.text(len);
        put_varint(out, len);
        out.extend(key);
    } else {
        bare(out, kind, random, habits);
    }
}

fn bare(out: &mut Vec<u8>, kind: &Kind, random: &mut Random, habits: &Habits) {
    let small = random.below(50);
    let number = match kind {
        Kind::Double => return out.extend((small as f64).to_le_bytes()),
        Kind::Float => {
            return out.extend(f32::from(u8::try_from(small).expect("small")).to_le_bytes());
        }
        Kind::Fixed64 | Kind::Sfixed64 => return out.extend(small.to_le_bytes()),
        Kind::Fixed32 | Kind::Sfixed32 => {
            return out.extend(u32::try_from(small).expect("small").to_le_bytes());
        }
        Kind::Bool | Kind::Enum(_) => small % 2,
        Kind::Int32 | Kind::Int64 if random.one_in(5) => (small + 1).wrapping_neg(),
        Kind::Uint64 | Kind::Int64 | Kind::Sint64 if random.one_in(5) => 1 << 40 | small,
        _ => small,
    };
    varint(out, number, 10, random, habits);
}
