//! Finding the parts of a message, and putting them together again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::mpsc::{self, Receiver};

use bytes::Bytes;
use prost::encoding::DecodeContext;

use super::run::{Run, Task};
use super::{InParts, Parts, merge_fields};
use crate::wire::{Field, WireCursor, WireType};

/// An element of so many blocks, and with parts of its own, is decoded in these.
const LARGE_BLOCKS: usize = 16;

/// How many pieces may be found for each block that the message would fill, and how many beyond
/// that. More are too small to be worth it.
const PIECES_PER_BLOCK: usize = 16;
const PIECES_BEYOND: usize = 1024;

/// This can't be decoded in parts: what is wrong, or whether anything is, shows when it is decoded
/// whole.
pub(super) struct NotInParts;

pub(super) type Outcome<T> = Result<T, NotInParts>;

/// Hops over a message once.
pub(super) struct Scan {
    bytes: Bytes,
    block_size: usize,
    /// How many more pieces may be found: each takes some hundred bytes until it is put in its
    /// place.
    pieces_left: usize,
    /// What the threads are to do, in the order of the message.
    pub(super) tasks: Vec<Task>,
}

impl Scan {
    pub(super) fn new(bytes: Bytes, block_size: usize) -> Self {
        let block_size = block_size.max(1);
        let blocks = bytes.len() / block_size;
        Scan {
            block_size,
            pieces_left: PIECES_BEYOND.saturating_add(blocks.saturating_mul(PIECES_PER_BLOCK)),
            tasks: Vec::new(),
            bytes,
        }
    }

    /// Finds the parts of the message at `range`, which stands so deep.
    pub(super) fn message<M: InParts>(
        &mut self,
        range: Range<u64>,
        depth: DecodeContext,
    ) -> Outcome<Assembly<M>> {
        self.piece()?;
        let bytes = self.bytes.clone();
        let mut parts = Parts::of_type().parts;
        let mut rest: Vec<Range<u64>> = Vec::new();
        let mut cursor = WireCursor::new(&bytes[..]);
        cursor.set_range(range);
        while let Some(field) = cursor.next().map_err(|_| NotInParts)? {
            let is_part = |part: &&mut Box<dyn Part<M>>| {
                part.number() == field.number.0 && field.wire_type == WireType::Len
            };
            match (parts.iter_mut().find(is_part), rest.last_mut()) {
                (Some(part), _) => part.meet(&field, &mut cursor, self, &depth)?,
                (None, Some(last)) if last.end == field.start => last.end = field.end,
                (None, _) => rest.push(field.start..field.end),
            }
        }
        for part in &mut parts {
            part.end(self, &depth)?;
        }
        let rest = rest.iter().map(|range| self.slice(range)).collect();
        Ok(Assembly { rest, depth, parts })
    }

    fn piece(&mut self) -> Outcome<()> {
        self.pieces_left = self.pieces_left.checked_sub(1).ok_or(NotInParts)?;
        Ok(())
    }

    fn slice(&self, range: &Range<u64>) -> Bytes {
        let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap_or(0));
        self.bytes.slice(start..end)
    }
}

/// A message of which the parts are known.
pub(super) struct Assembly<M> {
    /// All fields but the parts.
    rest: Vec<Bytes>,
    depth: DecodeContext,
    parts: Vec<Box<dyn Part<M>>>,
}

impl<M: InParts> Assembly<M> {
    /// Puts the message together, once its parts are there.
    pub(super) fn merge_into(self, message: &mut M, run: &Run) -> Outcome<()> {
        for fields in self.rest {
            merge_fields(message, fields, &self.depth).map_err(|_| NotInParts)?;
        }
        for part in self.parts {
            part.merge_into(message, run)?;
        }
        Ok(())
    }
}

/// A field that is decoded apart from the others of `M`.
pub(super) trait Part<M> {
    fn number(&self) -> u32;

    /// Takes an occurrence, and those that follow it if it likes.
    fn meet(
        &mut self,
        field: &Field,
        cursor: &mut WireCursor<&[u8]>,
        scan: &mut Scan,
        depth: &DecodeContext,
    ) -> Outcome<()>;

    /// No more will come.
    fn end(&mut self, _scan: &mut Scan, _depth: &DecodeContext) -> Outcome<()> {
        Ok(())
    }

    fn merge_into(self: Box<Self>, message: &mut M, run: &Run) -> Outcome<()>;
}

/// A singular message: all its occurrences are merged.
pub(super) struct Singular<M, S> {
    number: u32,
    field: fn(&mut M) -> &mut S,
    occurrences: Vec<Assembly<S>>,
}

impl<M, S> Singular<M, S> {
    pub(super) fn new(number: u32, field: fn(&mut M) -> &mut S) -> Self {
        Singular {
            number,
            field,
            occurrences: Vec::new(),
        }
    }
}

impl<M: InParts, S: InParts> Part<M> for Singular<M, S> {
    fn number(&self) -> u32 {
        self.number
    }

    fn meet(
        &mut self,
        field: &Field,
        _cursor: &mut WireCursor<&[u8]>,
        scan: &mut Scan,
        depth: &DecodeContext,
    ) -> Outcome<()> {
        let occurrence = scan.message(field.value.clone(), deeper(depth)?)?;
        self.occurrences.push(occurrence);
        Ok(())
    }

    fn merge_into(self: Box<Self>, message: &mut M, run: &Run) -> Outcome<()> {
        for occurrence in self.occurrences {
            occurrence.merge_into((self.field)(message), run)?;
        }
        Ok(())
    }
}

/// A repeated message: blocks of elements that stand together, and large elements in between.
pub(super) struct Repeated<M, E> {
    number: u32,
    field: fn(&mut M) -> &mut Vec<E>,
    has_parts: bool,
    count: usize,
    /// The block that is being gathered.
    block: Range<u64>,
    pieces: Vec<Piece<M, E>>,
}

enum Piece<M, E> {
    /// A message that has nothing but the elements of a block.
    Block(Receiver<M>),
    Element(Assembly<E>),
}

impl<M: InParts, E: InParts> Repeated<M, E> {
    pub(super) fn new(number: u32, field: fn(&mut M) -> &mut Vec<E>) -> Self {
        Repeated {
            number,
            field,
            has_parts: false,
            count: 0,
            block: 0..0,
            pieces: Vec::new(),
        }
    }

    /// Adds an element to the block.
    fn add(&mut self, element: Range<u64>, scan: &mut Scan, depth: &DecodeContext) -> Outcome<()> {
        if self.block.end != element.start {
            self.close(scan, depth)?;
            self.block.start = element.start;
        }
        self.block.end = element.end;
        self.count += 1;
        if self.block.end - self.block.start >= scan.block_size as u64 {
            self.close(scan, depth)?;
        }
        Ok(())
    }

    fn close(&mut self, scan: &mut Scan, depth: &DecodeContext) -> Outcome<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        scan.piece()?;
        let fields = scan.slice(&self.block);
        self.block.start = self.block.end;
        let (sender, receiver) = mpsc::channel();
        self.pieces.push(Piece::Block(receiver));
        let depth = depth.clone();
        scan.tasks.push(Box::new(move || {
            let mut message = M::default();
            let decoded = merge_fields(&mut message, fields, &depth).is_ok();
            // Nobody waits for it only where the whole has failed.
            decoded && sender.send(message).is_ok()
        }));
        Ok(())
    }
}

impl<M: InParts, E: InParts> Part<M> for Repeated<M, E> {
    fn number(&self) -> u32 {
        self.number
    }

    fn meet(
        &mut self,
        field: &Field,
        cursor: &mut WireCursor<&[u8]>,
        scan: &mut Scan,
        depth: &DecodeContext,
    ) -> Outcome<()> {
        if self.count == 0 {
            self.has_parts = !Parts::<E>::of_type().parts.is_empty();
        }
        let large = match self.has_parts {
            true => scan.block_size.saturating_mul(LARGE_BLOCKS) as u64,
            false => u64::MAX,
        };
        if field.value.end - field.value.start >= large {
            self.close(scan, depth)?;
            let element = scan.message(field.value.clone(), deeper(depth)?)?;
            self.pieces.push(Piece::Element(element));
            self.count += 1;
            return Ok(());
        }
        // Each of those that follow is where the one before it ends.
        let mut start = field.start;
        let mut added = Ok(());
        let pass = |next, _| {
            if added.is_ok() {
                added = self.add(start..next, scan, depth);
            }
            start = next;
        };
        let hopped = cursor.hop_alike(field, large, pass);
        hopped.map_err(|_| NotInParts)?;
        added?;
        self.add(start..cursor.position(), scan, depth)
    }

    fn end(&mut self, scan: &mut Scan, depth: &DecodeContext) -> Outcome<()> {
        self.close(scan, depth)
    }

    fn merge_into(self: Box<Self>, message: &mut M, run: &Run) -> Outcome<()> {
        let list = (self.field)(message);
        // As many as have been met. They would take that memory anyway, if they are what they
        // should be; nothing is touched before.
        list.try_reserve_exact(self.count).map_err(|_| NotInParts)?;
        for piece in self.pieces {
            match piece {
                Piece::Block(block) => {
                    let mut block = run.wait(&block).ok_or(NotInParts)?;
                    list.append((self.field)(&mut block));
                }
                Piece::Element(assembly) => {
                    let mut element = E::default();
                    assembly.merge_into(&mut element, run)?;
                    list.push(element);
                }
            }
        }
        Ok(())
    }
}

/// The context of a message that stands one level deeper, if one may. prost makes it only for what
/// it decodes there: here, a key.
fn deeper(depth: &DecodeContext) -> Outcome<DecodeContext> {
    let found = RefCell::new(None);
    let mut entry: &[u8] = &[1, 0x08];
    let key = |_, _: &mut u32, _: &mut &[u8], depth| {
        found.replace(Some(depth));
        Ok(())
    };
    let value = |_, _: &mut u32, _: &mut &[u8], _| Ok(());
    let mut map = BTreeMap::new();
    prost::encoding::btree_map::merge(key, value, &mut map, &mut entry, depth.clone())
        .map_err(|_| NotInParts)?;
    found.into_inner().ok_or(NotInParts)
}
