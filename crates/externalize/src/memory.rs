//! Estimating the memory that a decoded message needs.
//!
//! A message can be hundreds of times larger in memory than in a file: an empty function has two
//! bytes in a file, and hundreds in memory. Therefore, the memory is estimated before a message is
//! decoded.

use prost_reflect::{Kind, MessageDescriptor};
use proto_splitter_core::wire::{WireCursor, WireType};
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::{FunctionDef, NodeDef, OpDef, op_def};
use proto_splitter_saved_model::proto::{MetaGraphDef, SavedObject, descriptor_pool};

/// Maximum memory that a decoded model without its large constants may need, in addition to the
/// bytes of the serialized model: 8 GiB. A model with four million nodes needs about half of this.
pub const MAX_MEMORY: u64 = 8 << 30;

/// Maximum nesting depth of messages, the same as in the decoder.
const MAX_DEPTH: u32 = 100;

/// Memory for a small message, including its slot in a list or a map, in bytes.
const MESSAGE: u64 = 64;
/// Memory for a string in addition to its characters, in bytes.
const STRING: u64 = 32;
const NUMBER: u64 = 8;

/// Fails if decoding the serialized SavedModel in `bytes` would need more memory than
/// [`MAX_MEMORY`].
pub(crate) fn check(bytes: &[u8]) -> Result<()> {
    let mut counter = Counter { bytes, memory: 0 };
    match descriptor_pool().get_message_by_name(proto_splitter_saved_model::SAVED_MODEL) {
        Some(model) => counter.message(&model, 0..bytes.len() as u64, 0),
        None => Ok(()),
    }
}

struct Counter<'b> {
    bytes: &'b [u8],
    memory: u64,
}

impl Counter<'_> {
    fn message(
        &mut self,
        message: &MessageDescriptor,
        range: std::ops::Range<u64>,
        depth: u32,
    ) -> Result<()> {
        let limit = |what: String, offset| {
            Err(Error::new(ErrorKind::LimitExceeded, what).at_offset(offset))
        };
        if depth > MAX_DEPTH {
            let what = format!("messages nest deeper than {MAX_DEPTH}");
            return limit(what, range.start);
        }
        let mut cursor = WireCursor::new(self.bytes);
        cursor.set_range(range);
        while let Some(field) = cursor.next()? {
            let Some(known) = message.get_field(field.number.0) else {
                continue;
            };
            let kind = known.kind();
            let is_len = field.wire_type == WireType::Len;
            let packed = field.value.end - field.value.start;
            self.memory = self.memory.saturating_add(match &kind {
                Kind::Message(inner) => size(inner),
                Kind::String | Kind::Bytes => STRING,
                // Each element of a packed list has at least one byte.
                _ if is_len => packed.saturating_mul(NUMBER),
                _ => NUMBER,
            });
            if self.memory > MAX_MEMORY {
                let what = format!(
                    "too many small messages: the model would take more than {MAX_MEMORY} bytes of memory"
                );
                return limit(what, field.start);
            }
            if let (Kind::Message(inner), true) = (kind, is_len) {
                self.message(&inner, field.value, depth + 1)?;
            }
        }
        Ok(())
    }
}

/// Returns the memory for an empty message of this type, including its slot in a list, in bytes.
fn size(of: &MessageDescriptor) -> u64 {
    let size = match of.full_name() {
        "tensorflow.MetaGraphDef" => size_of::<MetaGraphDef>(),
        "tensorflow.SavedObject" => size_of::<SavedObject>(),
        "tensorflow.FunctionDef" => size_of::<FunctionDef>(),
        "tensorflow.OpDef" => size_of::<OpDef>(),
        "tensorflow.OpDef.ArgDef" => size_of::<op_def::ArgDef>(),
        "tensorflow.OpDef.AttrDef" => size_of::<op_def::AttrDef>(),
        "tensorflow.NodeDef" => size_of::<NodeDef>(),
        _ => 0,
    };
    (size as u64).max(MESSAGE)
}
