//! Where the parts of records go: values to columns, one for each path of fields, and events to a chain.
use super::super::{INLINE, tag, wire};
use super::fields::{Field, What};
use super::pairs::Pairs;
use crate::varint;

const NONE: u32 = u32::MAX;
/// The message that a record is; ids of others count up from here.
const ROOT: u32 = 4;
/// Varints up to here have a state of their own rather than a buffer.
const MAX_INLINE: u8 = 3;
/// Kinds of events of one path: ten lengths of varints and four values, more than others have.
const KINDS: usize = INLINE as usize + MAX_INLINE as usize + 1;

const BYTES: u8 = 0;
const SUBMESSAGE_START: u8 = 1;
const SUBMESSAGE_END: u8 = 2;

/// A field in a message: a path from the record on. Its number, counted from behind [`ROOT`], is the id of
/// the messages in that field.
#[derive(Debug)]
struct Node {
    parent: u32,
    tag: u32,
    column: u32,
    events: [u32; KINDS],
}

/// What a state emits: the value of a field, of a certain length, or its beginning or end.
#[derive(Debug, Clone, Copy)]
struct Event {
    node: u32,
    kind: u8,
}

/// An event as the header of the chunk shows it.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) tag: u32,
    /// Only varints show this.
    pub(crate) kind: u8,
    pub(crate) column: Option<u32>,
}

/// Columns by what is in them: those of a bucket are of the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Group {
    #[default]
    Varint,
    Fixed32,
    Fixed64,
    Bytes,
    Other,
}

/// The values of a field, the last one first: filled from the end.
#[derive(Debug, Default)]
pub(crate) struct Column {
    node: u32,
    group: Group,
    buf: Vec<u8>,
    start: usize,
    /// The most it can get, since all records together have no more bytes.
    most: usize,
}

/// What can be in front of a column that is not part of it: small values are moved with as much around them.
const SLACK: usize = 64;
/// Values up to here are moved as if they were so long.
const SMALL: usize = 16;
/// Memory of columns that is kept from chunk to chunk even if they no longer need it.
const KEPT: usize = 4 << 20;

impl Column {
    fn reset(&mut self, node: u32, group: Group, most: usize) {
        self.node = node;
        self.group = group;
        self.most = most;
        self.start = self.buf.len();
    }

    pub(crate) fn len(&self) -> usize {
        self.buf.len() - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buf[self.start..]
    }

    #[inline]
    fn make_room(&mut self, len: usize) {
        if self.start < len + SLACK {
            self.grow(len);
        }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        let filled = self.len();
        let twice = (2 * self.buf.len()).min(self.most);
        let size = (filled + len + SLACK).max(twice).max(256);
        let mut buf = vec![0; size];
        buf[size - filled..].copy_from_slice(self.bytes());
        self.buf = buf;
        self.start = size - filled;
    }

    /// Puts `from[at..at + len]` in front.
    #[inline]
    fn push(&mut self, from: &[u8], at: usize, len: usize) {
        self.make_room(len);
        let end = at + len;
        let start = self.start;
        self.start -= len;
        if len <= SMALL && end >= SMALL {
            self.buf[start - SMALL..start].copy_from_slice(&from[end - SMALL..end]);
        } else if len <= SLACK && end >= SLACK {
            self.buf[start - SLACK..start].copy_from_slice(&from[end - SLACK..end]);
        } else {
            self.buf[start - len..start].copy_from_slice(&from[at..end]);
        }
    }

    /// Puts the varint `from[at..at + len]` in front, without the bits that say that it goes on.
    #[inline]
    fn push_varint(&mut self, from: &[u8], at: usize, len: usize) {
        self.make_room(len);
        let end = at + len;
        let start = self.start;
        self.start -= len;
        let word = end.checked_sub(8).and_then(|begin| from.get(begin..end));
        match word.and_then(<[u8]>::first_chunk) {
            Some(&word) if len <= 8 => {
                let word = u64::from_le_bytes(word) & 0x7f7f_7f7f_7f7f_7f7f;
                self.buf[start - 8..start].copy_from_slice(&word.to_le_bytes());
            }
            _ => {
                for (to, byte) in self.buf[start - len..start].iter_mut().zip(&from[at..end]) {
                    *to = byte & 0x7f;
                }
            }
        }
    }
}

/// A message that is open while its fields are taken.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// The id of the message around it.
    parent: u32,
    end: u32,
}

/// Everything that is known of a chunk's records.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    nodes: Vec<Node>,
    node_numbers: Pairs,
    /// More than are in use: the rest wait with their memory.
    columns: Vec<Column>,
    used: usize,
    /// Of records that are no messages, the last one first, as varints.
    lengths: Column,
    /// Bytes of all records.
    size: usize,
    events: Vec<Event>,
    /// What happens, one event after the other.
    chain: Vec<u32>,
    open: Vec<Open>,
}

impl Columns {
    /// Forgets all records, to take others of so many bytes.
    pub(crate) fn clear(&mut self, size: usize) {
        let memory: usize = self.columns.iter().map(|column| column.buf.len()).sum();
        if memory > KEPT.max(size.saturating_mul(4)) {
            self.columns = Vec::new();
        }
        self.nodes.clear();
        self.node_numbers.clear(size / 8);
        self.used = 0;
        self.size = size;
        self.lengths.reset(NONE, Group::Other, usize::MAX);
        self.events.clear();
        self.chain.clear();
    }

    /// Adds a record that is a message.
    pub(crate) fn add_message(&mut self, record: &[u8], fields: &[Field]) {
        let node = self.node(tag::START_OF_MESSAGE, 0);
        self.emit(node, 0);
        self.open.clear();
        let mut parent = ROOT;
        for &Field { what, tag, at, len } in fields {
            if what == What::EndOfSubmessage {
                if let Some(open) = self.open.pop() {
                    self.chain.push(open.end);
                    parent = open.parent;
                }
                continue;
            }
            let node = self.node(parent, tag);
            match what {
                What::Varint => {
                    let value = record[at];
                    if len == 1 && value <= MAX_INLINE {
                        self.emit(node, INLINE + value);
                    } else {
                        self.emit(node, low_byte(len) - 1);
                        self.column(node, Group::Varint)
                            .push_varint(record, at, len);
                    }
                }
                What::Fixed32 => {
                    self.emit(node, 0);
                    self.column(node, Group::Fixed32).push(record, at, len);
                }
                What::Fixed64 => {
                    self.emit(node, 0);
                    self.column(node, Group::Fixed64).push(record, at, len);
                }
                What::Bytes => {
                    self.emit(node, BYTES);
                    self.column(node, Group::Bytes).push(record, at, len);
                }
                What::Submessage => {
                    self.emit(node, SUBMESSAGE_START);
                    let end = self.event(node, SUBMESSAGE_END);
                    self.open.push(Open { parent, end });
                    parent = message_id(node);
                }
                What::StartGroup => {
                    self.emit(node, 0);
                    self.open.push(Open { parent, end: NONE });
                    parent = message_id(node);
                }
                What::EndGroup => {
                    self.emit(node, 0);
                    if let Some(open) = self.open.pop() {
                        parent = open.parent;
                    }
                }
                What::EndOfSubmessage => {}
            }
        }
    }

    /// Adds a record that is no message.
    pub(crate) fn add_other(&mut self, record: &[u8]) {
        let node = self.node(tag::NON_PROTO, 0);
        self.emit(node, 0);
        self.column(node, Group::Other)
            .push(record, 0, record.len());
        let mut length = Vec::with_capacity(varint::MAX_LEN);
        varint::push(&mut length, record.len() as u64);
        self.lengths.push(&length, 0, length.len());
    }

    #[inline]
    fn node(&mut self, parent: u32, tag: u32) -> u32 {
        let fresh = number(self.nodes.len());
        let node = self.node_numbers.number(parent, tag, fresh);
        if node == fresh {
            self.nodes.push(Node {
                parent,
                tag,
                column: NONE,
                events: [NONE; KINDS],
            });
        }
        node
    }

    #[inline]
    fn event(&mut self, node: u32, kind: u8) -> u32 {
        let event = &mut self.nodes[node as usize].events[usize::from(kind)];
        if *event == NONE {
            *event = number(self.events.len());
            self.events.push(Event { node, kind });
        }
        *event
    }

    #[inline]
    fn emit(&mut self, node: u32, kind: u8) {
        let event = self.event(node, kind);
        self.chain.push(event);
    }

    #[inline]
    fn column(&mut self, node: u32, group: Group) -> &mut Column {
        let known = self.nodes[node as usize].column;
        let column = if known == NONE {
            self.new_column(node, group)
        } else {
            known
        };
        &mut self.columns[column as usize]
    }

    #[cold]
    fn new_column(&mut self, node: u32, group: Group) -> u32 {
        let column = number(self.used);
        if self.used == self.columns.len() {
            self.columns.push(Column::default());
        }
        self.columns[self.used].reset(node, group, self.size);
        self.used += 1;
        self.nodes[node as usize].column = column;
        column
    }

    pub(crate) fn get(&self, column: u32) -> &Column {
        &self.columns[column as usize]
    }

    /// Lengths of records that are no messages.
    pub(crate) fn lengths(&self) -> &Column {
        &self.lengths
    }

    pub(crate) fn total_size(&self) -> usize {
        let columns = &self.columns[..self.used];
        columns.iter().map(Column::len).sum::<usize>() + self.lengths.len()
    }

    /// The columns in the order of buffers: by group, the smallest first.
    pub(crate) fn order(&self) -> Vec<u32> {
        let mut order: Vec<_> = (0..number(self.used)).collect();
        order.sort_unstable_by_key(|&column| {
            let column = self.get(column);
            let node = &self.nodes[column.node as usize];
            (column.group, column.len(), node.parent, node.tag)
        });
        order
    }

    /// The columns of each group, and the lengths of records last.
    pub(crate) fn groups(&self, order: &[u32]) -> Vec<Vec<&Column>> {
        let mut groups: Vec<Vec<_>> = order
            .chunk_by(|&a, &b| self.get(a).group == self.get(b).group)
            .map(|group| group.iter().map(|&column| self.get(column)).collect())
            .collect();
        if !self.lengths.is_empty() {
            groups.push(vec![&self.lengths]);
        }
        groups
    }

    /// How many different events there are.
    pub(crate) fn events(&self) -> u32 {
        number(self.events.len())
    }

    /// What happened, as numbers of events.
    pub(crate) fn chain(&self) -> &[u32] {
        &self.chain
    }

    pub(crate) fn show(&self, event: u32) -> Shown {
        let Event { node, kind } = self.events[event as usize];
        let node = &self.nodes[node as usize];
        let shown = |tag, has_column| Shown {
            tag,
            kind,
            column: (has_column && node.column != NONE).then_some(node.column),
        };
        if node.tag == 0 {
            return shown(node.parent, true);
        }
        match (node.tag & 7, kind) {
            (wire::LENGTH_DELIMITED, SUBMESSAGE_START) => shown(tag::START_OF_SUBMESSAGE, false),
            (wire::LENGTH_DELIMITED, SUBMESSAGE_END) => {
                shown(node.tag - wire::LENGTH_DELIMITED + wire::SUBMESSAGE, false)
            }
            (wire::VARINT, kind) => shown(node.tag, kind < INLINE),
            _ => shown(node.tag, true),
        }
    }
}

fn message_id(node: u32) -> u32 {
    node + ROOT + 1
}

/// A number for the next of so many things, each of which takes more than a byte: memory ends before numbers do.
fn number(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(NONE)
}

fn low_byte(value: usize) -> u8 {
    value.to_le_bytes()[0]
}
