//! The sums of sizes by field path during the traversal of a message. Each path has one node,
//! regardless of how often the path occurs.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap};

use prost_reflect::{Kind, MessageDescriptor};

use super::chunks::{ChunkMap, ChunkSet, NO_CHUNK};
use super::options::{DEFAULT_TOP, TreeOptions};
use crate::path::FieldRef;

/// Maximum number of distinct paths. The sizes of further fields are added to one node per message.
const MAX_NODES: usize = 1 << 16;

/// Maximum number of distinct fields in one message. The sizes of further fields are added to one
/// node.
const MAX_CHILDREN: u32 = 4096;

/// First field number that is looked up in a hash map. Smaller numbers are indices of an array.
const MAX_SLOTS: usize = 128;

/// Maximum number of steps in the paths of all members that are kept beyond [`DEFAULT_TOP`] for each
/// field. A step takes about 100 bytes of memory by the time that the path is text.
const MOST_LINKS: usize = 4 << 20;

const EMPTY: u32 = u32::MAX;

/// Field number of the node to which the sizes of further fields are added once there are too many
/// nodes. No real field has the number 0.
pub(super) const OTHERS: u32 = 0;

pub(super) type NodeId = u32;

/// Node of the measured message.
pub(super) const ROOT: NodeId = 0;

/// The treatment of a field's values during the traversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Values to skip. Only their sizes are counted.
    Hop,
    /// Repeated strings or bytes values to skip. Their sizes are counted, and the largest are kept.
    HopAndKeep,
    /// Length-delimited messages to traverse.
    Message,
    /// Group-encoded messages to traverse.
    Group,
    /// Values of an unknown field, to traverse if they look like messages.
    Guess,
}

/// The counters of one field path. They are separate from [`Facts`], which the traversal rarely
/// needs, so that a message's counters fit in few cache lines.
#[derive(Debug)]
pub(super) struct Node {
    /// IDs of the child nodes, indexed by field number.
    slots: Vec<u32>,
    pub(super) count: u64,
    pub(super) total: u64,
    /// Content identity of the last message that contained the field.
    epoch: u64,
    /// Number of earlier occurrences of the field in the same message.
    pub(super) ordinal: u64,
    /// Content identity of the last message at this path, with which the message's children are
    /// counted. Occurrences of a message that parsers merge into one have the same identity.
    content: u64,
    /// Size that a member must exceed to be kept, in bytes.
    threshold: u64,
    last_chunk: u32,
    pub(super) look: Look,
    /// True if the largest occurrences of the field are kept.
    keeps: bool,
    /// True if any message contained the field more than once.
    pub(super) several: bool,
}

/// Data about one field path that the traversal rarely needs, and the largest members at the path.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) parent: NodeId,
    pub(super) number: u32,
    /// The field; `None` if the type lacks it.
    pub(super) field: Option<FieldRef>,
    /// Type of the values; `None` unless they are messages of a known type.
    pub(super) message: Option<MessageDescriptor>,
    pub(super) children: Vec<NodeId>,
    pub(super) chunks: ChunkSet,
    pub(super) guess: Guess,
    heap: BinaryHeap<Reverse<Kept>>,
    /// Location of each kept member: the occurrences of the repeated fields along its path, the
    /// last of which is the member itself.
    places: Vec<Vec<Link>>,
}

/// Observations about the values of an unknown field so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Guess {
    /// True if at least one value looked like a message.
    pub(super) message: bool,
    /// True if at least one value did not look like a message.
    pub(super) no_message: bool,
    /// True if at least one value was text.
    pub(super) text: bool,
    /// True if at least one value was not text.
    pub(super) no_text: bool,
    /// True if at least one value was length-delimited.
    pub(super) len: bool,
}

/// An occurrence of a repeated field: its index within its message, and the range of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) ordinal: u64,
    pub(super) start: u64,
    pub(super) len: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    size: u64,
    /// Start of the member, reversed: of two members with the same size, the earlier one compares
    /// as larger.
    start: Reverse<u64>,
    place: usize,
}

/// All nodes, and the current position of the traversal.
#[derive(Debug)]
pub(super) struct Arena {
    pub(super) nodes: Vec<Node>,
    pub(super) facts: Vec<Facts>,
    by_number: HashMap<(NodeId, u32), NodeId>,
    /// Occurrences of the repeated fields along the path to the current position.
    pub(super) chain: Vec<Link>,
    last_content: u64,
    pub(super) chunks: ChunkMap,
    /// Total length of the chains of all kept members.
    links: usize,
    top: usize,
    min_size: u64,
    /// Maximum number of messages to traverse. Content identities are numbered consecutively from
    /// 1, so this is also the content identity of the last message that is traversed.
    most_entered: u64,
}

impl Arena {
    pub(super) fn new(
        root: Option<MessageDescriptor>,
        chunks: ChunkMap,
        options: &TreeOptions,
    ) -> Self {
        let mut arena = Arena {
            nodes: Vec::new(),
            facts: Vec::new(),
            by_number: HashMap::new(),
            chain: Vec::new(),
            last_content: 0,
            chunks,
            links: 0,
            top: options.top,
            min_size: options.min_member_size,
            most_entered: options.most_entered,
        };
        arena.add(ROOT, 0, None, Look::Message);
        arena.facts[ROOT as usize].message = root;
        arena
    }

    #[inline]
    pub(super) fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// Returns the node for a field, creating it on first use.
    #[inline]
    pub(super) fn child(&mut self, of: NodeId, number: u32) -> NodeId {
        match self.nodes[of as usize].slots.get(number as usize) {
            Some(&child) if child != EMPTY => child,
            _ => self.find_or_add(of, number),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_or_add(&mut self, of: NodeId, number: u32) -> NodeId {
        if let Some(&child) = self.by_number.get(&(of, number)) {
            return child;
        }
        let siblings = self.facts[of as usize].children.len();
        let full = self.nodes.len() >= MAX_NODES || siblings >= MAX_CHILDREN as usize;
        if full && number != OTHERS {
            return self.child(of, OTHERS);
        }
        let field = match &self.facts[of as usize].message {
            Some(message) => FieldRef::by_number(message, number),
            None => None,
        };
        let look = match &field {
            _ if number == OTHERS => Look::Hop,
            None => Look::Guess,
            Some(field) => look(field),
        };
        let child = self.add(of, number, field, look);
        self.facts[of as usize].children.push(child);
        let slot = number as usize;
        if slot >= MAX_SLOTS {
            self.by_number.insert((of, number), child);
        } else {
            let slots = &mut self.nodes[of as usize].slots;
            if slots.len() <= slot {
                slots.resize(slot + 1, EMPTY);
            }
            slots[slot] = child;
        }
        child
    }

    fn add(&mut self, parent: NodeId, number: u32, field: Option<FieldRef>, look: Look) -> NodeId {
        let message = field.as_ref().and_then(|field| match field.kind() {
            Kind::Message(message) => Some(message),
            _ => None,
        });
        let repeated = field
            .as_ref()
            .is_some_and(|field| field.is_list() || field.is_map());
        let keeps = match look {
            Look::Hop => false,
            Look::HopAndKeep | Look::Guess => true,
            Look::Message | Look::Group => repeated,
        };
        // There are at most `MAX_NODES` nodes, and at most one more for the other fields of each,
        // so the index fits.
        let id = u32::try_from(self.nodes.len()).unwrap_or(EMPTY);
        self.nodes.push(Node {
            slots: Vec::new(),
            count: 0,
            total: 0,
            epoch: 0,
            ordinal: 0,
            content: 0,
            threshold: match self.top {
                0 => u64::MAX,
                _ => self.min_size.saturating_sub(1),
            },
            last_chunk: NO_CHUNK,
            look,
            keeps,
            several: false,
        });
        self.facts.push(Facts {
            parent,
            number,
            field,
            message,
            children: Vec::new(),
            chunks: ChunkSet::default(),
            guess: Guess::default(),
            heap: BinaryHeap::new(),
            places: Vec::new(),
        });
        id
    }

    /// Returns true if the maximum number of messages has been traversed.
    #[inline]
    pub(super) fn is_exhausted(&self) -> bool {
        self.last_content >= self.most_entered
    }

    /// Returns a new identity for the content of a message.
    #[inline]
    pub(super) fn new_content(&mut self) -> u64 {
        self.last_content += 1;
        self.last_content
    }

    /// Counts an occurrence of a field in the message with the content identity `parent`, and
    /// returns the content identity of the occurrence. If the largest occurrences of the field are
    /// kept, also appends the occurrence to [`chain`](Self::chain).
    #[inline]
    pub(super) fn enter(&mut self, id: NodeId, parent: u64, start: u64, len: u64) -> u64 {
        let next = self.last_content + 1;
        let node = &mut self.nodes[id as usize];
        let first = node.epoch != parent;
        if first {
            node.epoch = parent;
            node.ordinal = 0;
        } else {
            node.ordinal += 1;
            node.several = true;
        }
        if node.keeps {
            let ordinal = node.ordinal;
            self.chain.push(Link {
                ordinal,
                start,
                len,
            });
        } else if !first {
            return node.content;
        }
        node.content = next;
        self.last_content = next;
        next
    }

    /// Ends the occurrence that [`enter`](Self::enter) began, and keeps it if it is among the
    /// largest. `size` is its size in bytes.
    #[inline]
    pub(super) fn leave(&mut self, id: NodeId, size: u64) {
        let node = &self.nodes[id as usize];
        if node.keeps {
            if size > node.threshold {
                self.keep(id, size);
            }
            self.chain.pop();
        }
    }

    fn keep(&mut self, id: NodeId, size: u64) {
        let facts = &mut self.facts[id as usize];
        let start = Reverse(self.chain.last().map_or(0, |link| link.start));
        let kept = facts.heap.len();
        let links = self.links + self.chain.len();
        let may_grow = kept < self.top && (kept < DEFAULT_TOP || links <= MOST_LINKS);
        let place = if may_grow {
            self.links = links;
            facts.places.push(Vec::new());
            facts.places.len() - 1
        } else {
            match facts.heap.peek_mut() {
                Some(least) if least.0.size < size => PeekMut::pop(least).0.place,
                Some(least) => {
                    self.nodes[id as usize].threshold = least.0.size;
                    return;
                }
                None => return,
            }
        };
        facts.places[place].clear();
        facts.places[place].extend_from_slice(&self.chain);
        facts.heap.push(Reverse(Kept { size, start, place }));
        if (!may_grow || facts.heap.len() >= self.top)
            && let Some(Reverse(least)) = facts.heap.peek()
        {
            self.nodes[id as usize].threshold = least.size;
        }
    }

    pub(super) fn keeps(&self, id: NodeId) -> bool {
        self.nodes[id as usize].keeps
    }

    /// Formats a path as text, for errors.
    pub(super) fn path(&self, mut id: NodeId) -> String {
        let mut steps = Vec::new();
        while id != ROOT {
            let facts = &self.facts[id as usize];
            let above = &self.facts[facts.parent as usize];
            let repeated = |field: &FieldRef| field.is_list() || field.is_map();
            if !above.field.as_ref().is_some_and(FieldRef::is_map) {
                steps.push(match &facts.field {
                    Some(field) if repeated(field) => format!("{}[*]", field.name()),
                    Some(field) => field.name(),
                    None => facts.number.to_string(),
                });
            }
            id = facts.parent;
        }
        steps.reverse();
        steps.join(".")
    }

    /// Returns the sizes and locations of the largest members, the largest first.
    pub(super) fn kept(&self, id: NodeId) -> Vec<(u64, &[Link])> {
        let facts = &self.facts[id as usize];
        let mut kept: Vec<Kept> = facts.heap.iter().map(|kept| kept.0).collect();
        kept.sort_unstable_by(|a, b| b.cmp(a));
        kept.into_iter()
            .filter_map(|kept| Some((kept.size, facts.places.get(kept.place)?.as_slice())))
            .collect()
    }

    /// Adds the chunks that contain the range from `start` to `end` in the input to a node's set of
    /// chunks.
    #[inline]
    pub(super) fn touch(&mut self, id: NodeId, start: u64, end: u64) {
        let chunk = self.chunks.at(start);
        if chunk != self.nodes[id as usize].last_chunk || end > self.chunks.end() {
            self.touch_slowly(id, start, end);
        }
    }

    #[cold]
    fn touch_slowly(&mut self, id: NodeId, start: u64, end: u64) {
        let set = &mut self.facts[id as usize].chunks;
        self.nodes[id as usize].last_chunk = self.chunks.add_range(start..end, set);
    }
}

/// Returns the treatment of a known field's values.
fn look(field: &FieldRef) -> Look {
    match field.kind() {
        Kind::Message(_) if field.is_group() => Look::Group,
        Kind::Message(_) => Look::Message,
        Kind::String | Kind::Bytes if field.is_list() => Look::HopAndKeep,
        _ => Look::Hop,
    }
}
