//! Traversing a message, and adding up the sizes of all its fields.

use std::ops::Range;

use super::arena::{Arena, Look, NodeId};
use super::schemaless;
use crate::view::is_text;
use crate::wire::header;
use crate::wire::{Field, Input, MAX_VARINT_LEN, WireCursor, WireType, decode_varint};
use crate::{Error, ErrorKind, Result};

/// A message that is being traversed.
#[derive(Clone, Copy)]
struct Place {
    node: NodeId,
    /// Content identity of the message, for counting its fields.
    content: u64,
    /// Number of further levels of nested messages to traverse. Deeper messages are counted as
    /// bytes.
    levels: u32,
}

impl Place {
    fn below(self, node: NodeId, content: u64) -> Self {
        let levels = self.levels.saturating_sub(1);
        Place {
            node,
            content,
            levels,
        }
    }
}

/// Traverses a message whose bytes are at the ranges `pieces`. Adds the sizes of the message's
/// fields, and of the fields of nested messages down to `levels` levels, to the sums in `arena`.
pub(super) fn walk<I: Input>(
    cursor: &mut WireCursor<I>,
    arena: &mut Arena,
    pieces: &[Range<u64>],
    levels: u32,
) -> Result<()> {
    let place = Place {
        node: super::arena::ROOT,
        content: arena.new_content(),
        levels,
    };
    let mut walk = Walk { cursor, arena };
    pieces
        .iter()
        .try_for_each(|piece| walk.message(piece.clone(), place))
}

struct Walk<'a, I> {
    cursor: &'a mut WireCursor<I>,
    arena: &'a mut Arena,
}

impl<I: Input> Walk<'_, I> {
    /// Traverses a message. Fields whose bytes are all in the input's window are traversed
    /// together, and a field that exceeds the window is traversed separately.
    fn message(&mut self, range: Range<u64>, place: Place) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            // Only available bytes are used after a header, since the value may be in a large chunk
            // that need not be read.
            let window = self.cursor.input_mut().fetch(at, 1)?;
            let left = range.end - at;
            let done = if self.arena.chunks.is_whole() {
                fields::<false>(self.arena, window, at, left, place)
            } else {
                fields::<true>(self.arena, window, at, left, place)
            }?;
            at += done;
            if at < range.end && done == 0 {
                at = self.field(at..range.end, place)?;
            }
        }
        Ok(())
    }

    /// Traverses the first field in a range, and returns the start of the next field.
    fn field(&mut self, range: Range<u64>, place: Place) -> Result<u64> {
        let start = range.start;
        let found = header::field(self.cursor.input_mut(), range.clone());
        let found = found.map_err(|error| error.at_path(self.arena.path(place.node)))?;
        let Some(field) = found else {
            return Ok(range.end);
        };
        let child = self.arena.child(place.node, field.number.0);
        let node = self.arena.node(child);
        node.count += 1;
        node.total += field.end - start;
        let look = node.look;
        if !self.arena.chunks.is_whole() {
            self.arena.touch(child, field.value.start, field.value.end);
        }
        self.value(child, look, &field, place)?;
        Ok(field.end)
    }

    fn value(&mut self, child: NodeId, look: Look, field: &Field, place: Place) -> Result<()> {
        let is_len = field.wire_type == WireType::Len;
        let is_group = field.wire_type == WireType::StartGroup;
        let deep = place.levels == 0 || self.arena.is_exhausted();
        let walks = match look {
            Look::HopAndKeep if is_len => false,
            Look::Message if is_len => !deep,
            Look::Group | Look::Guess if is_group => !deep,
            Look::Guess if is_len => {
                let known = self.arena.facts[child as usize].guess;
                let value = field.value.clone();
                let is_message = !known.no_message
                    && !deep
                    && schemaless::begins_as_message(self.cursor, value.start, value.end)?;
                let want = MAX_VARINT_LEN;
                let front = self.cursor.input_mut().fetch(value.start, want)?;
                let len = usize::try_from(value.end - value.start).unwrap_or(usize::MAX);
                learn(
                    self.arena,
                    child,
                    &front[..front.len().min(len)],
                    is_message,
                );
                is_message
            }
            _ => return Ok(()),
        };
        let value = field.value.clone();
        let len = value.end - value.start;
        let content = self.arena.enter(child, place.content, value.start, len);
        if walks {
            let depth = self.arena.chain.len();
            let walked = self.message(value, place.below(child, content));
            match walked {
                // The value began like a message, but isn't one.
                Err(error) if look == Look::Guess && error.kind() == ErrorKind::InvalidMessage => {
                    self.arena.chain.truncate(depth);
                    self.arena.facts[child as usize].guess.no_message = true;
                }
                walked => walked?,
            }
        }
        self.arena.leave(child, field.end - field.start);
        Ok(())
    }
}

/// Traverses the fields of a message of `left` bytes that starts with `bytes`. Returns the offset
/// of the end of the message or, if a field needs more bytes, of that field.
fn fields<const CHUNKED: bool>(
    arena: &mut Arena,
    bytes: &[u8],
    base: u64,
    left: u64,
    place: Place,
) -> Result<u64> {
    let bytes = match usize::try_from(left) {
        Ok(left) if left < bytes.len() => &bytes[..left],
        _ => bytes,
    };
    let whole = bytes.len() as u64 == left;
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let short = |arena: &Arena, what| {
            if whole {
                Err(malformed(arena, place.node, what, base + start as u64))
            } else {
                Ok(start as u64)
            }
        };
        let Some((tag, tag_len)) = decode_varint(&bytes[at..]) else {
            return short(arena, "tag is truncated or too long");
        };
        at += tag_len;
        let number = match u32::try_from(tag >> 3) {
            Ok(number @ 1..=0x1fff_ffff) => number,
            _ => return Err(no_tag(arena, place.node, tag, base + start as u64)),
        };
        let wire = tag & 7;
        let len = match wire {
            0 => match decode_varint(&bytes[at..]) {
                Some((_, len)) => len as u64,
                None => return short(arena, "varint is truncated or too long"),
            },
            1 => 8,
            2 => match decode_varint(&bytes[at..]) {
                Some((len, len_len)) => {
                    at += len_len;
                    len
                }
                None => return short(arena, "length is truncated or too long"),
            },
            5 => 4,
            // If all bytes of the message are available, finds the end of the group first.
            3 if whole => {
                at = group::<CHUNKED>(arena, bytes, base, start, place)?;
                continue;
            }
            3 => return Ok(start as u64),
            _ => return Err(no_tag(arena, place.node, tag, base + start as u64)),
        };
        if len > left - at as u64 {
            let what = "a value that runs past the end of its message";
            return Err(malformed(arena, place.node, what, base + start as u64));
        }
        let child = arena.child(place.node, number);
        let node = arena.node(child);
        let look = node.look;
        let value = at..at.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
        let is_there = value.end <= bytes.len();
        if !is_there && !matches!(look, Look::Hop | Look::HopAndKeep) {
            return Ok(start as u64);
        }
        node.count += 1;
        let size = len + (at - start) as u64;
        node.total += size;
        let value_start = base + at as u64;
        if CHUNKED {
            arena.touch(child, value_start, value_start + len);
        }
        if wire == 2 && look != Look::Hop {
            let there = bytes.get(value.clone()).unwrap_or_default();
            walk_value::<CHUNKED>(arena, child, there, value_start..value_start + len, place)?;
            arena.leave(child, size);
        }
        if !is_there {
            return Ok(at as u64 + len);
        }
        at = value.end;
    }
    Ok(at as u64)
}

/// Traverses or skips the value of a length-delimited field, depending on the field's node. `bytes`
/// must be the complete value, unless the value is skipped.
fn walk_value<const CHUNKED: bool>(
    arena: &mut Arena,
    child: NodeId,
    bytes: &[u8],
    value: Range<u64>,
    place: Place,
) -> Result<()> {
    let len = value.end - value.start;
    let look = arena.node(child).look;
    // A closure, since most values are not messages and don't need the check.
    let may_enter = |arena: &Arena| place.levels > 0 && !arena.is_exhausted();
    let walks = match look {
        Look::Message => may_enter(arena),
        Look::Guess => {
            let known = arena.facts[child as usize].guess;
            let is_message =
                !known.no_message && may_enter(arena) && schemaless::looks_like_message(bytes);
            learn(arena, child, bytes, is_message);
            is_message
        }
        _ => false,
    };
    let content = arena.enter(child, place.content, value.start, len);
    if !walks {
        return Ok(());
    }
    let depth = arena.chain.len();
    let below = place.below(child, content);
    match fields::<CHUNKED>(arena, bytes, value.start, len, below) {
        // The value looked like a message, but isn't one.
        Err(error) if look == Look::Guess && header::is_malformed(&error) => {
            arena.chain.truncate(depth);
            arena.facts[child as usize].guess.no_message = true;
            Ok(())
        }
        walked => walked.map(drop),
    }
}

/// Traverses the group that begins at `start`, and returns the start of the next field.
#[cold]
fn group<const CHUNKED: bool>(
    arena: &mut Arena,
    bytes: &[u8],
    base: u64,
    start: usize,
    place: Place,
) -> Result<usize> {
    let mut cursor = WireCursor::new(bytes);
    cursor.set_range(start as u64..bytes.len() as u64);
    let found = cursor.next().map_err(|error| {
        let offset = base + error.offset().unwrap_or(0);
        let error = Error::new(error.kind(), "a group has no end tag, or nests too deeply");
        error.at_path(arena.path(place.node)).at_offset(offset)
    })?;
    let Some(group) = found else {
        return Ok(bytes.len());
    };
    let child = arena.child(place.node, group.number.0);
    let size = group.end - group.start;
    let node = arena.node(child);
    node.count += 1;
    node.total += size;
    let look = node.look;
    let value_start = base + group.value.start;
    let len = group.value.end - group.value.start;
    if CHUNKED {
        arena.touch(child, value_start, value_start + len);
    }
    if matches!(look, Look::Group | Look::Guess) {
        let content = arena.enter(child, place.content, value_start, len);
        if place.levels > 0 && !arena.is_exhausted() {
            // The group is in memory, so its offsets fit in `usize`.
            let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX);
            let value = &bytes[at(group.value.start)..at(group.value.end)];
            let below = place.below(child, content);
            fields::<CHUNKED>(arena, value, value_start, len, below)?;
        }
        arena.leave(child, size);
    }
    Ok(usize::try_from(group.end).unwrap_or(usize::MAX))
}

/// Records whether an unknown field's value looks like a message or like text.
fn learn(arena: &mut Arena, child: NodeId, front: &[u8], is_message: bool) {
    let guess = &mut arena.facts[child as usize].guess;
    guess.len = true;
    if front.is_empty() {
        return;
    }
    guess.message |= is_message;
    guess.no_message |= !is_message;
    if !guess.no_text {
        let text = is_text(front);
        guess.text |= text;
        guess.no_text |= !text;
    }
}

#[cold]
#[inline(never)]
fn no_tag(arena: &Arena, node: NodeId, tag: u64, offset: u64) -> Error {
    let end = tag & 7 == 4 && tag >> 3 != 0;
    if end {
        malformed(arena, node, "an end group tag without a group", offset)
    } else {
        malformed(arena, node, &format!("{tag} is not a tag"), offset)
    }
}

#[cold]
#[inline(never)]
fn malformed(arena: &Arena, node: NodeId, what: &str, offset: u64) -> Error {
    Error::new(ErrorKind::InvalidMessage, what)
        .at_path(arena.path(node))
        .at_offset(offset)
}
