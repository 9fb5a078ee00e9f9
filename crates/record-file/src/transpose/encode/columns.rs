//! Splitting records into columns and events. A column contains the values of one field path, and
//! every field becomes an event.
use super::super::{INLINE, tag, wire};
use super::column::{Column, Group};
use super::fields::{Field, What};
use super::pairs::Pairs;
use crate::block_pool::{BlockPool, Piece};
use crate::varint;

const NONE: u32 = u32::MAX;
/// Index of the column that contains the lengths of records that are not messages.
pub(crate) const LENGTHS: u32 = u32::MAX;
/// Id of the message that is the whole record. Nested messages get the subsequent ids.
const ROOT: u32 = 4;
/// Largest value of varints that have their own state instead of being stored in a buffer.
const MAX_INLINE: u8 = 3;
/// Maximum number of kinds of events for one field path. Varint fields have the most kinds: ten
/// lengths and four inline values.
const KINDS: usize = INLINE as usize + MAX_INLINE as usize + 1;

const BYTES: u8 = 0;
const SUBMESSAGE_START: u8 = 1;
const SUBMESSAGE_END: u8 = 2;

/// A field in a message, identified by its path from the record. The messages in this field have
/// the id [`ROOT`] plus one plus the index of this node.
#[derive(Debug)]
struct Node {
    parent: u32,
    tag: u32,
    column: u32,
    events: [u32; KINDS],
}

/// The output of a state: a field, or the beginning or end of a submessage. Varint fields with the
/// same path are different events if their lengths or inline values differ.
#[derive(Debug, Clone, Copy)]
struct Event {
    node: u32,
    kind: u8,
}

/// An event, as represented in the header of the chunk.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) tag: u32,
    /// Subtype of the state that emits the event; only varints have a subtype.
    pub(crate) kind: u8,
    pub(crate) column: Option<u32>,
}

/// A nested message or group whose fields are being added.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Id of the enclosing message.
    parent: u32,
    end: u32,
}

/// The columns and events of a chunk's records.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    nodes: Vec<Node>,
    node_numbers: Pairs,
    /// The columns, followed by unused columns, whose memory is reused.
    columns: Vec<Column>,
    used: usize,
    /// Lengths of the records that are not messages, as varints in reverse order.
    lengths: Column,
    events: Vec<Event>,
    /// Events of the most recently added record, in order.
    happened: Vec<u32>,
    open: Vec<Open>,
}

impl Columns {
    /// Removes all records, and prepares for new records of `size` bytes in total.
    pub(crate) fn clear(&mut self, size: usize) {
        self.nodes.clear();
        self.node_numbers.clear(size / 8);
        self.used = 0;
        self.lengths.reset(NONE, Group::Other);
        self.events.clear();
    }

    /// Adds a record that is a message.
    pub(crate) fn add_message(&mut self, record: &[u8], fields: &[Field], blocks: &mut BlockPool) {
        self.happened.clear();
        let node = self.node(tag::START_OF_MESSAGE, 0);
        self.emit(node, 0);
        self.open.clear();
        let mut parent = ROOT;
        for &Field { what, tag, at, len } in fields {
            if what == What::EndOfSubmessage {
                if let Some(open) = self.open.pop() {
                    self.happened.push(open.end);
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
                            .push_varint(record, at, len, blocks);
                    }
                }
                What::Fixed32 => {
                    self.emit(node, 0);
                    self.column(node, Group::Fixed32)
                        .push(record, at, len, blocks);
                }
                What::Fixed64 => {
                    self.emit(node, 0);
                    self.column(node, Group::Fixed64)
                        .push(record, at, len, blocks);
                }
                What::Bytes => {
                    self.emit(node, BYTES);
                    self.column(node, Group::Bytes)
                        .push(record, at, len, blocks);
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

    /// Adds a record that is not a message.
    pub(crate) fn add_other(&mut self, record: &[u8], blocks: &mut BlockPool) {
        self.happened.clear();
        let node = self.node(tag::NON_PROTO, 0);
        self.emit(node, 0);
        self.column(node, Group::Other)
            .push(record, 0, record.len(), blocks);
        let mut length = Vec::with_capacity(varint::MAX_LEN);
        varint::push(&mut length, record.len() as u64);
        self.lengths.push(&length, 0, length.len(), blocks);
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
        self.happened.push(event);
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
        self.columns[self.used].reset(node, group);
        self.used += 1;
        self.nodes[node as usize].column = column;
        column
    }

    fn get(&self, column: u32) -> &Column {
        if column == LENGTHS {
            return &self.lengths;
        }
        &self.columns[column as usize]
    }

    /// Returns the size of a column, in bytes.
    pub(crate) fn len(&self, column: u32) -> u64 {
        self.get(column).len() as u64
    }

    /// Removes and returns the content of a column.
    pub(crate) fn take(&mut self, column: u32) -> impl Iterator<Item = Piece> {
        if column == LENGTHS {
            return self.lengths.take();
        }
        self.columns[column as usize].take()
    }

    /// Returns the indices of the columns in the order of their buffers: by group, then by
    /// ascending size.
    pub(crate) fn order(&self) -> Vec<u32> {
        let mut order: Vec<_> = (0..number(self.used)).collect();
        order.sort_unstable_by_key(|&column| {
            let column = self.get(column);
            let node = &self.nodes[column.node as usize];
            (column.group, column.len(), node.parent, node.tag)
        });
        order
    }

    /// Divides `order`, the indices of the columns, into groups. If there are records that are not
    /// messages, the last group consists of the column of their lengths.
    pub(crate) fn groups(&self, order: &[u32]) -> Vec<Vec<u32>> {
        let mut groups: Vec<_> = order
            .chunk_by(|&a, &b| self.get(a).group == self.get(b).group)
            .map(<[u32]>::to_vec)
            .collect();
        if self.lengths.len() > 0 {
            groups.push(vec![LENGTHS]);
        }
        groups
    }

    /// Returns the number of different events.
    pub(crate) fn events(&self) -> u32 {
        number(self.events.len())
    }

    /// Returns the events of the most recently added record, each as its index among the distinct
    /// events.
    pub(crate) fn happened(&mut self) -> &mut [u32] {
        &mut self.happened
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

/// Returns the index of an item that is added after `len` items. Each item takes up more than a
/// byte, so memory is exhausted before an index exceeds 32 bits.
fn number(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(NONE)
}

fn low_byte(value: usize) -> u8 {
    value.to_le_bytes()[0]
}
