//! Estimating how much memory a decoded message takes, from its bytes.
//!
//! An empty message takes two bytes on the wire and hundreds of bytes in memory, and a compressed
//! record of a few hundred bytes can contain millions of empty messages.

use prost_reflect::{Kind, MessageDescriptor};

use crate::features::DEEPEST_ANY;
use crate::wire::{WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// Estimated memory for each field of a serialized message, known or unknown, in bytes.
const FIELD: u64 = 96;

/// Estimated memory for a message in addition to its fields, in bytes.
const MESSAGE: u64 = 160;

/// Estimated memory for each byte of a packed field, in bytes.
const PACKED: u64 = 40;

/// Memory limit for decoding a message, and the settings for estimating the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Maximum estimated memory, in bytes.
    pub(crate) most: u64,
    /// Estimated memory for each message in addition to [`MESSAGE`], in bytes.
    pub(crate) each_message: u64,
    /// True if the message in an `Any` is decoded, too.
    pub(crate) opens_any: bool,
}

impl Costs {
    /// Fails if an estimate of `cost` bytes exceeds the maximum.
    fn check(&self, cost: u64) -> Result<()> {
        if cost <= self.most {
            return Ok(());
        }
        let message = format!("it would take more than {} bytes of memory", self.most);
        Err(Error::new(ErrorKind::LimitExceeded, message))
    }
}

/// Fails if decoding a serialized message would take more memory than `costs` allows.
///
/// # Errors
///
/// [`ErrorKind::LimitExceeded`] if decoding would take more memory, or `Any`s nest too deeply;
/// [`ErrorKind::InvalidMessage`] if the bytes are not a message.
pub(crate) fn check(message: &[u8], descriptor: &MessageDescriptor, costs: Costs) -> Result<()> {
    let mut cost = 0u64;
    let mut open = vec![(descriptor.clone(), 0..message.len() as u64, 0)];
    let mut cursor = WireCursor::new(message);
    while let Some((descriptor, range, any_depth)) = open.pop() {
        if any_depth > DEEPEST_ANY {
            let message = format!("google.protobuf.Any nests deeper than {DEEPEST_ANY}");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        // Also checked before the first field, since an empty message has none.
        cost = cost.saturating_add(MESSAGE + costs.each_message);
        costs.check(cost)?;
        let is_any = costs.opens_any && descriptor.full_name() == "google.protobuf.Any";
        let (mut name, mut value) = (None, None);
        cursor.set_range(range);
        while let Some(field) = cursor.next()? {
            let len = field.value.end - field.value.start;
            cost = cost.saturating_add(FIELD);
            let is_len = field.wire_type == WireType::Len;
            let known = descriptor
                .get_field(field.number.0)
                .map(|field| field.kind());
            let extension = || {
                let extension = descriptor.get_extension(field.number.0);
                extension.map(|extension| extension.kind())
            };
            match known.or_else(extension) {
                Some(Kind::Message(inner)) => open.push((inner, field.value.clone(), any_depth)),
                Some(Kind::String | Kind::Bytes) | None => {
                    // An unknown field may be a group, and all fields in it are kept in memory.
                    let each = if is_len { 1 } else { FIELD / 2 };
                    cost = cost.saturating_add(len.saturating_mul(each));
                    if is_any && is_len {
                        match field.number.0 {
                            1 => name = Some(field.value),
                            2 => value = Some(field.value),
                            _ => {}
                        }
                    }
                }
                Some(_) if is_len => cost = cost.saturating_add(len.saturating_mul(PACKED)),
                Some(_) => {}
            }
            costs.check(cost)?;
        }
        if let (Some(name), Some(value)) = (name, value)
            && let Some(inner) = named(&descriptor, message, &name)
        {
            open.push((inner, value, any_depth + 1));
        }
    }
    Ok(())
}

/// Returns the message type that an `Any` names; `None` if the type isn't in the pool.
fn named(
    any: &MessageDescriptor,
    message: &[u8],
    name: &std::ops::Range<u64>,
) -> Option<MessageDescriptor> {
    let [start, end] = [name.start, name.end].map(|at| usize::try_from(at).ok());
    let name = std::str::from_utf8(message.get(start?..end?)?).ok()?;
    let (_, name) = name.rsplit_once('/')?;
    any.parent_pool().get_message_by_name(name)
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_reflect::prost_types::{Any, FileDescriptorProto};
    use prost_reflect::{DescriptorPool, ReflectMessage};

    use super::*;

    const COSTS: Costs = Costs {
        most: 1 << 20,
        each_message: 0,
        opens_any: true,
    };

    #[test]
    fn many_empty_messages_are_refused_before_they_take_memory() {
        let descriptor = FileDescriptorProto::default().descriptor();
        let (few, many) = (b"\x22\x00".repeat(1000), b"\x22\x00".repeat(100_000));
        check(&few, &descriptor, COSTS).unwrap();
        let error = check(&many, &descriptor, COSTS).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    }

    #[test]
    fn what_is_not_known_and_packed_numbers_count() {
        let descriptor = FileDescriptorProto::default().descriptor();
        // Field 10, `public_dependency`, as a packed run of 100,000 bytes; then the unknown field
        // 1000, 100,000 times.
        let packed = [b"\x52\xa0\x8d\x06".as_slice(), &[1; 100_000]].concat();
        let unknown = b"\xc0\x3e\x01".repeat(100_000);
        for message in [packed, unknown] {
            let error = check(&message, &descriptor, COSTS).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        }
    }

    #[test]
    fn any_in_any_ends_somewhere() {
        let descriptor = DescriptorPool::global()
            .get_message_by_name("google.protobuf.Any")
            .unwrap();
        let mut any = Any {
            type_url: "a/type.nobody.Knows".into(),
            value: vec![1],
        };
        for depth in 0..40 {
            let checked = check(&any.encode_to_vec(), &descriptor, COSTS);
            assert_eq!(checked.is_ok(), depth <= DEEPEST_ANY, "{depth}");
            any = Any {
                type_url: "type.googleapis.com/google.protobuf.Any".into(),
                value: any.encode_to_vec(),
            };
        }
    }
}
