//! What the type of the message says about each place that chunks belong at.

use prost_reflect::{Kind, MessageDescriptor};

use crate::container::{ChunkKind, ChunkTree, NodeId};
use crate::path::{FieldRef, KeyCodec, Select, Step, key_fits};
use crate::wire::WireType;
use crate::wire::wire_type;
use crate::{Error, ErrorKind, Result};

/// What stands at a place.
#[derive(Clone, Debug)]
pub(in crate::merge) enum Shape {
    /// No type is known.
    Unknown,
    /// A message.
    Message {
        descriptor: MessageDescriptor,
        group: bool,
    },
    /// A value that is not a message.
    Value(Kind),
}

/// What is known about a node of the tree.
#[derive(Clone, Debug)]
pub(in crate::merge) struct NodeType {
    pub(in crate::merge) shape: Shape,
    /// How the keys of its map are written, if it is the value of a map entry.
    pub(in crate::merge) key: Option<KeyCodec>,
    /// The members of the oneof that it is a member of, itself included, with the wire types that
    /// they have.
    pub(in crate::merge) oneof: Vec<(u32, WireType)>,
}

/// What is known about every node of the tree.
#[derive(Debug, Default)]
pub(in crate::merge) struct NodeTypes {
    /// Empty if the type isn't known, or doesn't matter.
    types: Vec<NodeType>,
}

static UNKNOWN: NodeType = NodeType::UNKNOWN;

impl NodeTypes {
    pub(in crate::merge) fn of(&self, node: NodeId) -> &NodeType {
        self.types.get(node.index()).unwrap_or(&UNKNOWN)
    }
}

impl NodeType {
    const UNKNOWN: NodeType = NodeType {
        shape: Shape::Unknown,
        key: None,
        oneof: Vec::new(),
    };

    /// Whether a field of this wire type is what the path means. Others are unknown fields, which
    /// parsers pass by.
    pub(in crate::merge) fn takes(&self, wire: WireType) -> bool {
        match &self.shape {
            Shape::Unknown => matches!(wire, WireType::Len | WireType::StartGroup),
            Shape::Message { group: true, .. } => wire == WireType::StartGroup,
            Shape::Message { group: false, .. } => wire == WireType::Len,
            Shape::Value(kind) => wire == wire_type(kind, false),
        }
    }
}

/// Looks every path of the tree up in the type of the message.
pub(in crate::merge) fn resolve(
    tree: &ChunkTree,
    kinds: &[ChunkKind],
    root: &MessageDescriptor,
) -> Result<NodeTypes> {
    let mut types = Vec::with_capacity(tree.len());
    for id in tree.ids() {
        let resolved = match tree.above(id) {
            None => Ok(NodeType {
                shape: Shape::Message {
                    descriptor: root.clone(),
                    group: false,
                },
                key: None,
                oneof: Vec::new(),
            }),
            Some((above, step)) => resolve_step(&types[above.index()], step),
        };
        let resolved = resolved.and_then(|resolved| {
            check_kinds(
                &resolved,
                tree.chunks(id).iter().map(|c| (c.chunk, kinds[c.chunk])),
                tree.children(id).is_empty(),
            )
        });
        types.push(resolved.map_err(|error| error.at_path(tree.show(id, Some(root))))?);
    }
    Ok(NodeTypes { types })
}

fn resolve_step(above: &NodeType, step: &Step) -> Result<NodeType> {
    let descriptor = match &above.shape {
        Shape::Message { descriptor, .. } => descriptor,
        Shape::Value(kind) => return invalid(format!("the path goes on below a value, {kind:?}")),
        Shape::Unknown => return Ok(NodeType::UNKNOWN),
    };
    let Some(field) = FieldRef::by_number(descriptor, step.field.0) else {
        return invalid(format!(
            "field {} not found in {}",
            step.field,
            descriptor.full_name()
        ));
    };
    let name = field.name();
    match (&step.select, field.is_list(), field.is_map()) {
        (Select::Field, false, false) | (Select::Index(_), true, _) => {}
        (Select::Key(key), _, true) => return resolve_key(&field, key),
        (Select::Field, true, _) => {
            return invalid(format!(
                "{name} is repeated, and the path has no index for it"
            ));
        }
        (Select::Field, _, true) => {
            return invalid(format!("{name} is a map, and the path has no key for it"));
        }
        (Select::Index(_), _, true) => {
            return invalid(format!("{name} is a map, and the path has an index for it"));
        }
        (Select::Index(_), ..) => {
            return invalid(format!("an index on {name}, which is not repeated"));
        }
        (Select::Key(_), ..) => return invalid(format!("a map key on {name}, which is not a map")),
    }
    let shape = match field.kind() {
        Kind::Message(descriptor) => Shape::Message {
            descriptor,
            group: field.is_group(),
        },
        kind @ (Kind::String | Kind::Bytes) => Shape::Value(kind),
        kind if field.is_list() => {
            return invalid(format!(
                "an element of {name}, a repeated {kind:?}, can't be set by a chunk"
            ));
        }
        kind => Shape::Value(kind),
    };
    let oneof = match field.oneof() {
        Some(oneof) if !oneof.is_synthetic() => oneof
            .fields()
            .map(|member| {
                (
                    member.number(),
                    wire_type(&member.kind(), member.is_group()),
                )
            })
            .collect(),
        _ => Vec::new(),
    };
    Ok(NodeType {
        shape,
        key: None,
        oneof,
    })
}

fn resolve_key(field: &FieldRef, key: &crate::path::MapKey) -> Result<NodeType> {
    let Kind::Message(entry) = field.kind() else {
        return invalid(format!("{} is a map without entries", field.name()));
    };
    let key_kind = entry.map_entry_key_field().kind();
    if !key_fits(key, &key_kind) {
        return invalid(format!(
            "the key {key} is not of the map's type, {key_kind:?}"
        ));
    }
    let shape = match entry.map_entry_value_field().kind() {
        Kind::Message(descriptor) => Shape::Message {
            descriptor,
            group: false,
        },
        kind => Shape::Value(kind),
    };
    Ok(NodeType {
        shape,
        key: KeyCodec::of_kind(&key_kind),
        oneof: Vec::new(),
    })
}

fn check_kinds(
    resolved: &NodeType,
    mut chunks: impl Iterator<Item = (usize, ChunkKind)>,
    leaf: bool,
) -> Result<NodeType> {
    let (expected, what) = match &resolved.shape {
        Shape::Unknown => return Ok(resolved.clone()),
        Shape::Message { descriptor, .. } => {
            (ChunkKind::Message, descriptor.full_name().to_owned())
        }
        Shape::Value(kind) => (ChunkKind::Bytes, format!("{kind:?}")),
    };
    match chunks.find(|(_, kind)| *kind != expected) {
        Some((chunk, kind)) => {
            let message = format!("a {kind} chunk for a field of type {what}");
            Err(Error::new(ErrorKind::InvalidTrailer, message).in_chunk(chunk))
        }
        None if expected == ChunkKind::Bytes && !leaf => {
            invalid(format!("the path goes on below a value, {what}"))
        }
        None => Ok(resolved.clone()),
    }
}

#[cold]
fn invalid<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidPath, message))
}
