//! Finding the map entries to which paths refer by key.

use std::cmp::Ordering;

use crate::container::{ChunkTree, NodeId};
use crate::path::{CanonicalKey, EntryKey, KeyCodec, KeyForm, MapKey, Select, canonical_key};

/// The encoding of the keys in a map that paths lead into.
#[derive(Debug)]
pub(in crate::merge) struct MapKeys {
    pub(in crate::merge) codec: KeyCodec,
    /// True if `codec` is known from the map's type, false if it was derived from a key.
    typed: bool,
    /// True if an entry in the map has shown how the keys are encoded.
    seen: bool,
}

impl MapKeys {
    pub(in crate::merge) fn new(first: &MapKey, codec: Option<KeyCodec>) -> MapKeys {
        MapKeys {
            codec: codec.unwrap_or_else(|| KeyCodec::plain(first)),
            typed: codec.is_some(),
            seen: false,
        }
    }

    pub(in crate::merge) fn form(&self) -> KeyForm {
        if self.typed {
            KeyForm::Typed(self.codec)
        } else {
            KeyForm::Plain(self.codec)
        }
    }

    /// Returns true if the map's keys have only one possible encoding.
    pub(in crate::merge) fn is_certain(&self) -> bool {
        match self.codec {
            KeyCodec::Uint32 | KeyCodec::Uint64 => self.typed || self.seen,
            KeyCodec::Int32 | KeyCodec::Int64 => self.typed,
            _ => true,
        }
    }

    /// Returns the node with this key among `entries`, if there is one, and true if the result
    /// depends on the map's type and that type is unknown.
    pub(in crate::merge) fn find(
        &mut self,
        key: EntryKey<'_>,
        tree: &ChunkTree,
        entries: &[NodeId],
    ) -> (Option<NodeId>, bool) {
        let codec = key.wire().and_then(|wire| self.form().on_wire(wire));
        let (key, ambiguous) = match (key, codec) {
            (EntryKey::Bytes(bytes), Some(_)) => (CanonicalKey::String(bytes), false),
            (EntryKey::Number(_, value), Some(codec)) => {
                self.codec = codec;
                self.seen = true;
                let number = CanonicalKey::Number(codec.canonical(value));
                (number, !self.typed && codec.has_zigzag_twin())
            }
            _ if self.codec == KeyCodec::String => (CanonicalKey::String(b""), false),
            _ => (CanonicalKey::Number(0), false),
        };
        (find(tree, entries, &key), ambiguous)
    }
}

/// Returns the node with the key `wanted` among the entries of one map, which are sorted by key.
fn find(tree: &ChunkTree, entries: &[NodeId], wanted: &CanonicalKey<'_>) -> Option<NodeId> {
    let order = |&entry: &NodeId| {
        let Select::Key(key) = &tree.step(entry).select else {
            return Ordering::Less;
        };
        match (canonical_key(key), wanted) {
            (CanonicalKey::String(key), CanonicalKey::String(wanted)) => key.cmp(wanted),
            (CanonicalKey::Number(number), CanonicalKey::Number(wanted)) => match key {
                MapKey::I32(_) | MapKey::I64(_) => number.cast_signed().cmp(&wanted.cast_signed()),
                _ => number.cmp(wanted),
            },
            _ => Ordering::Less,
        }
    };
    let at = entries.binary_search_by(order).ok()?;
    entries.get(at).copied()
}
