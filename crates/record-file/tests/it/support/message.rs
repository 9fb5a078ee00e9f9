//! Random messages for transposed chunks, represented as trees that can be restricted to some of
//! their fields.
use proptest::collection::vec;
use proptest::prelude::*;

use super::frame::varint;

/// The fields of a message, in order.
pub(crate) type Fields = Vec<(u32, Value)>;

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Varint(u64),
    Fixed32(u32),
    Fixed64(u64),
    Bytes(Vec<u8>),
    Message(Fields),
    Group(Fields),
}

pub(crate) fn tag(out: &mut Vec<u8>, field: u32, wire_type: u32) {
    varint(out, u64::from(field << 3 | wire_type));
}

/// Returns a length-delimited field.
pub(crate) fn bytes_field(field: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    tag(&mut out, field, 2);
    varint(&mut out, value.len() as u64);
    out.extend_from_slice(value);
    out
}

pub(crate) fn varint_field(field: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    tag(&mut out, field, 0);
    varint(&mut out, value);
    out
}

pub(crate) fn group(field: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    tag(&mut out, field, 3);
    out.extend_from_slice(content);
    tag(&mut out, field, 4);
    out
}

/// Serializes a message.
pub(crate) fn serialize(fields: &Fields) -> Vec<u8> {
    Wanted::default().all(&[]).serialize(fields)
}

/// A selection of fields by path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Paths of fields. The flag is true for all content of the field, and false for only its
    /// existence.
    pub(crate) paths: Vec<(Vec<u32>, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    All,
    Some,
    Nothing,
}

impl Wanted {
    pub(crate) fn all(mut self, path: &[u32]) -> Self {
        self.paths.push((path.to_vec(), true));
        self
    }

    /// Serializes the wanted part of a message.
    pub(crate) fn serialize(&self, fields: &Fields) -> Vec<u8> {
        self.within(&mut Vec::new(), fields)
    }

    fn share(&self, path: &[u32]) -> Share {
        let whole = |(wanted, all): &(Vec<u32>, bool)| *all && path.starts_with(wanted);
        if self.paths.iter().any(whole) {
            Share::All
        } else if self
            .paths
            .iter()
            .any(|(wanted, _)| wanted.starts_with(path))
        {
            Share::Some
        } else {
            Share::Nothing
        }
    }

    fn within(&self, path: &mut Vec<u32>, fields: &Fields) -> Vec<u8> {
        let mut out = Vec::new();
        for (field, value) in fields {
            path.push(*field);
            let share = self.share(path);
            let whole = share == Share::All;
            if share != Share::Nothing {
                match value {
                    Value::Varint(value) => {
                        out.extend(varint_field(*field, if whole { *value } else { 0 }));
                    }
                    Value::Fixed32(value) => {
                        tag(&mut out, *field, 5);
                        out.extend((if whole { *value } else { 0 }).to_le_bytes());
                    }
                    Value::Fixed64(value) => {
                        tag(&mut out, *field, 1);
                        out.extend((if whole { *value } else { 0 }).to_le_bytes());
                    }
                    Value::Bytes(value) => {
                        out.extend(bytes_field(*field, if whole { value } else { &[] }));
                    }
                    Value::Message(fields) => {
                        let content = self.within(path, fields);
                        out.extend(bytes_field(*field, &content));
                    }
                    Value::Group(fields) => out.extend(group(*field, &self.within(path, fields))),
                }
            }
            path.pop();
        }
        out
    }
}

/// Generates a few small numbers, so that paths coincide, and occasionally a larger number.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 1..6u32, 1 => 15..18u32, 1 => 1..=(1u32 << 29) - 1]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        3 => (0..200u64).prop_map(Value::Varint),
        2 => (any::<u64>(), 0..64u32).prop_map(|(bits, shift)| Value::Varint(bits >> shift)),
        1 => any::<u32>().prop_map(Value::Fixed32),
        1 => any::<u64>().prop_map(Value::Fixed64),
        // The bytes begin with a tag of field 0, so they can't be mistaken for a message.
        3 => vec(any::<u8>(), 0..90).prop_map(|mut bytes| {
            bytes.iter_mut().take(1).for_each(|first| *first &= 7);
            Value::Bytes(bytes)
        }),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            2 => vec((number(), inner.clone()), 0..6).prop_map(Value::Message),
            1 => vec((number(), inner), 0..6).prop_map(Value::Group),
        ]
    })
}

/// Generates arbitrary messages, some of which recur.
pub(crate) fn messages() -> impl Strategy<Value = Vec<Fields>> {
    let distinct = vec(vec((number(), value()), 0..8), 1..12);
    (distinct, vec(any::<prop::sample::Index>(), 0..120)).prop_map(|(distinct, picks)| {
        let picked = picks.iter().map(|pick| pick.get(&distinct).clone());
        picked.collect()
    })
}

/// Generates selections of a few paths, each of at most three fields. A path may match no message.
pub(crate) fn wanted() -> impl Strategy<Value = Wanted> {
    vec((vec(number(), 1..4), any::<bool>()), 0..5).prop_map(|paths| Wanted { paths })
}
