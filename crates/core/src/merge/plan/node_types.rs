//! The types of the messages and values at the nodes of a chunk tree.

use std::collections::HashMap;
use std::rc::Rc;

use prost_reflect::{Kind, MessageDescriptor};

use crate::container::{ChunkKind, ChunkTree, NodeId};
use crate::path::{KeyCodec, Select, Step, TargetKind, key_codec, step_in};
use crate::wire::WireType;
use crate::wire::wire_type;
use crate::{Error, ErrorKind, Result};

/// The type of the message or value at a node.
#[derive(Clone, Debug)]
pub(in crate::merge) struct NodeType {
    /// Kind of the message or value; `None` if the type is unknown.
    pub(in crate::merge) kind: Option<TargetKind>,
    /// Encoding of the map's keys; `None` if the node isn't the value of a map entry.
    pub(in crate::merge) key: Option<KeyCodec>,
    /// True if the node's field is a member of a oneof.
    pub(in crate::merge) in_oneof: bool,
}

/// The oneofs of a message type, except those that stand for optional fields.
#[derive(Debug)]
pub(in crate::merge) struct Oneofs {
    /// The members of all oneofs, in ascending order of their numbers: the number, the wire type,
    /// and the index of the oneof.
    members: Vec<(u32, WireType, usize)>,
}

impl Oneofs {
    fn new(message: &MessageDescriptor) -> Self {
        let mut members = Vec::new();
        for (at, oneof) in message.oneofs().enumerate() {
            if !oneof.is_synthetic() {
                members.extend(oneof.fields().map(|member| {
                    let wire = wire_type(&member.kind(), member.is_group());
                    (member.number(), wire, at)
                }));
            }
        }
        members.sort_unstable_by_key(|&(number, ..)| number);
        Oneofs { members }
    }

    /// Returns the index of the oneof that contains the field with this number, and the field's
    /// wire type; `None` if no oneof contains it.
    pub(in crate::merge) fn of(&self, number: u32) -> Option<(usize, WireType)> {
        let at = self
            .members
            .binary_search_by_key(&number, |&(number, ..)| number);
        let (_, wire, oneof) = self.members[at.ok()?];
        Some((oneof, wire))
    }
}

/// The types of all nodes in the tree.
#[derive(Debug, Default)]
pub(in crate::merge) struct NodeTypes {
    /// Types by node; empty if the message's type is unknown or irrelevant.
    types: Vec<NodeType>,
    /// The oneofs by the full name of the message type, shared by all messages of that type, since
    /// many paths can lead into one large oneof.
    oneofs: HashMap<String, Rc<Oneofs>>,
}

static UNKNOWN: NodeType = NodeType::UNKNOWN;

impl NodeTypes {
    pub(in crate::merge) fn of(&self, node: NodeId) -> &NodeType {
        self.types.get(node.index()).unwrap_or(&UNKNOWN)
    }

    /// Returns the oneofs of the message at a node; `None` if the message's type is unknown.
    pub(in crate::merge) fn oneofs(&mut self, node: NodeId) -> Option<Rc<Oneofs>> {
        let kind = self.types.get(node.index())?.kind.as_ref();
        let message = kind.and_then(TargetKind::message)?;
        if let Some(known) = self.oneofs.get(message.full_name()) {
            return Some(Rc::clone(known));
        }
        let oneofs = Rc::new(Oneofs::new(message));
        let name = message.full_name().to_owned();
        self.oneofs.insert(name, Rc::clone(&oneofs));
        Some(oneofs)
    }
}

impl NodeType {
    const UNKNOWN: NodeType = NodeType {
        kind: None,
        key: None,
        in_oneof: false,
    };

    /// Returns true if a field with this wire type can be the value at the node. Fields with other
    /// wire types are unknown fields, which parsers skip.
    pub(in crate::merge) fn takes(&self, wire: WireType) -> bool {
        match &self.kind {
            None => matches!(wire, WireType::Len | WireType::StartGroup),
            Some(kind) => wire == kind.wire_type(),
        }
    }
}

/// Resolves every path in the tree against the message's type.
pub(in crate::merge) fn resolve(
    tree: &ChunkTree,
    kinds: &[ChunkKind],
    root: &MessageDescriptor,
) -> Result<NodeTypes> {
    let mut types = Vec::with_capacity(tree.len());
    for id in tree.ids() {
        let resolved = match tree.above(id) {
            None => Ok(NodeType {
                kind: Some(TargetKind::Message(root.clone())),
                key: None,
                in_oneof: false,
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
    Ok(NodeTypes {
        types,
        oneofs: HashMap::new(),
    })
}

fn resolve_step(above: &NodeType, step: &Step) -> Result<NodeType> {
    let message = match &above.kind {
        Some(TargetKind::Message(message) | TargetKind::Group(message)) => message,
        Some(TargetKind::Scalar(kind)) => {
            return invalid(format!("the path continues below a value, {kind:?}"));
        }
        None => return Ok(NodeType::UNKNOWN),
    };
    let (field, target) = step_in(message, step)?;
    let name = field.name();
    match (&target.kind, &step.select) {
        _ if target.whole_field && field.is_map() => {
            return invalid(format!("{name} is a map, but the path has no key for it"));
        }
        _ if target.whole_field => {
            return invalid(format!(
                "{name} is repeated, but the path has no index for it"
            ));
        }
        (TargetKind::Scalar(kind), Select::Index(_))
            if !matches!(kind, Kind::String | Kind::Bytes) =>
        {
            return invalid(format!(
                "an element of {name}, a repeated {kind:?}, can't be set by a chunk"
            ));
        }
        _ => {}
    }
    Ok(NodeType {
        kind: Some(target.kind),
        key: key_codec(&field),
        in_oneof: field.oneof().is_some_and(|oneof| !oneof.is_synthetic()),
    })
}

fn check_kinds(
    resolved: &NodeType,
    mut chunks: impl Iterator<Item = (usize, ChunkKind)>,
    leaf: bool,
) -> Result<NodeType> {
    let (expected, what) = match &resolved.kind {
        None => return Ok(resolved.clone()),
        Some(TargetKind::Message(message) | TargetKind::Group(message)) => {
            (ChunkKind::Message, message.full_name().to_owned())
        }
        Some(TargetKind::Scalar(kind)) => (ChunkKind::Bytes, format!("{kind:?}")),
    };
    match chunks.find(|(_, kind)| *kind != expected) {
        Some((chunk, kind)) => {
            let message = format!("a {kind} chunk for a field of type {what}");
            Err(Error::new(ErrorKind::InvalidTrailer, message).in_chunk(chunk))
        }
        None if expected == ChunkKind::Bytes && !leaf => {
            invalid(format!("the path continues below a value, {what}"))
        }
        None => Ok(resolved.clone()),
    }
}

#[cold]
fn invalid<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidPath, message))
}
