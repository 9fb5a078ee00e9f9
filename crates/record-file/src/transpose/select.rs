//! The decoder for transposed chunks that is used if only some fields are read. It skips the other
//! fields without reading their values.
use super::backward::Backward;
use super::fast::{
    BUFFER_ENDS, Found, LEFT_MACHINE, LEFT_OPEN, MESSAGE_TOO_LARGE, MOST_OPEN, NOT_OPEN, Records,
    STILL_OPEN, TOO_DEEP, TOO_LARGE, TOO_MANY,
};
use super::machine::Machine;
use super::projection::{FieldProjection, Selected};
use super::states::{Emit, State};
use crate::codec::Decoders;
use crate::error::{Error, Result};
use crate::options::ReaderOptions;
use crate::varint;

/// A chunk's claims about its records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claims {
    pub(crate) begin: u64,
    pub(crate) num_records: u64,
    /// Total size of the records, with all of their fields, in bytes.
    pub(crate) size: u64,
}

/// Assembles the selected parts of all records in a chunk.
pub(crate) fn run(
    machine: &Machine<'_>,
    transitions: &[u8],
    claims: Claims,
    decoders: &mut Decoders,
    options: &ReaderOptions,
    projection: &FieldProjection,
) -> Result<Records> {
    let begin = claims.begin;
    let mut run = Run {
        begin,
        num_records: claims.num_records,
        states: &machine.states,
        out: Backward::new(begin, claims.size)?,
        ends: Vec::new(),
        open: Vec::new(),
        left: claims.size,
        selected: Selected::of(projection.root()),
        root: Selected::of(projection.root()),
    };
    let mut buffers = LazyBuffers {
        machine,
        begin,
        decoders,
        options,
        buckets: vec![None; machine.buckets.len()],
        held: 0,
        used: vec![0; machine.buffers.len()],
    };
    run.walk(machine.first, transitions, &mut buffers)?;
    if !run.open.is_empty() {
        return Err(Error::corrupt(begin, LEFT_OPEN));
    }
    let (memory, start) = run.out.into_parts();
    Ok(Records {
        memory,
        start,
        ends: run.ends,
    })
}

struct Run<'a> {
    begin: u64,
    num_records: u64,
    states: &'a [State],
    out: Backward,
    /// For each record, beginning with the last, the number of bytes emitted when the record was
    /// complete.
    ends: Vec<u64>,
    /// The enclosing messages and groups.
    open: Vec<Open<'a>>,
    /// Number of states that may still be passed without output. Each of them would emit at least
    /// one of the bytes that the chunk claims.
    left: u64,
    /// The selected part of the innermost message or group in `open`.
    selected: Selected<'a>,
    root: Selected<'a>,
}

#[derive(Debug, Clone, Copy)]
struct Open<'a> {
    /// Number of bytes in the output after the content of the message or group.
    at: usize,
    /// Index of the state that emitted the end of the message or group. For a message, this state
    /// also contains the message's tag.
    state: u32,
    group: bool,
    /// The selected part of the enclosing message.
    around: Selected<'a>,
}

/// An iteration over the states that the transitions select.
struct Walk<'a> {
    states: &'a [State],
    transitions: &'a [u8],
    at: u32,
    /// Number of subsequent transitions that don't consume a transition byte.
    free: u32,
}

impl<'a> Walk<'a> {
    fn new(states: &'a [State], first: u32, transitions: &'a [u8]) -> Self {
        let implicit = states
            .get(first as usize)
            .is_some_and(|state| state.implicit);
        Walk {
            states,
            transitions,
            at: first,
            free: u32::from(implicit),
        }
    }

    /// Moves from `state` to the next state. Returns `Ok(None)` at the end of the transitions, and
    /// `Err` for a transition to a state that doesn't exist.
    #[inline]
    fn step(&mut self, state: &State) -> Result<Option<&'a State>, ()> {
        self.at = state.next;
        if self.free == 0 {
            let Some((&byte, rest)) = self.transitions.split_first() else {
                return Ok(None);
            };
            self.transitions = rest;
            self.at += u32::from(byte >> 2);
            let next = self.states.get(self.at as usize).ok_or(())?;
            self.free = u32::from(byte & 3) + u32::from(next.implicit);
            return Ok(Some(next));
        }
        let next = self.states.get(self.at as usize).ok_or(())?;
        self.free -= u32::from(!next.implicit);
        Ok(Some(next))
    }
}

impl<'a> Run<'a> {
    #[inline]
    fn tag(&mut self, state: &State) -> Result<()> {
        self.out.push(&state.tag[..usize::from(state.tag_len)])
    }

    /// Prepends the length of a message: the number of bytes emitted since the output had `at`
    /// bytes.
    fn length_since(&mut self, at: usize) -> Result<()> {
        let len = self.out.len() - at;
        let len = u32::try_from(len);
        let len = len.map_err(|_| Error::corrupt(self.begin, MESSAGE_TOO_LARGE))?;
        let (prefix, used) = varint::short(len);
        self.out.push(&prefix[..usize::from(used)])
    }

    fn enter(&mut self, state: u32, group: bool) -> Found<()> {
        self.pass()?;
        if self.open.len() == MOST_OPEN {
            return Err(TOO_DEEP);
        }
        self.open.push(Open {
            at: self.out.len(),
            state,
            group,
            around: self.selected,
        });
        Ok(())
    }

    /// Counts a state that emits nothing although it would without the projection.
    fn pass(&mut self) -> Found<()> {
        self.left = self.left.checked_sub(1).ok_or(TOO_LARGE)?;
        Ok(())
    }

    fn leave(&mut self, group: bool) -> Found<Open<'a>> {
        let open = self.open.pop().filter(|open| open.group == group);
        let open = open.ok_or(NOT_OPEN)?;
        self.selected = open.around;
        Ok(open)
    }

    fn end_record(&mut self) -> Found<()> {
        if !self.open.is_empty() {
            return Err(STILL_OPEN);
        }
        if self.ends.len() as u64 == self.num_records {
            return Err(TOO_MANY);
        }
        self.ends.push(self.out.len() as u64);
        self.selected = self.root;
        Ok(())
    }
}

#[inline]
fn prefixed_len(bytes: &[u8]) -> Found<usize> {
    let mut rest = bytes;
    let len = varint::take(&mut rest).ok_or(BUFFER_ENDS)?;
    let len = u32::try_from(len).map_err(|_| BUFFER_ENDS)? as usize;
    (bytes.len() - rest.len())
        .checked_add(len)
        .ok_or(BUFFER_ENDS)
}

#[inline]
fn varint_from(bytes: &[u8], to: &mut [u8]) {
    to.copy_from_slice(bytes);
    if let Some((_, all_but_last)) = to.split_last_mut() {
        all_but_last.iter_mut().for_each(|byte| *byte |= 0x80);
    }
}

/// Buffers whose buckets are decompressed on the first read.
struct LazyBuffers<'m, 'a, 'd> {
    machine: &'m Machine<'a>,
    begin: u64,
    decoders: &'d mut Decoders,
    options: &'d ReaderOptions,
    buckets: Vec<Option<Vec<u8>>>,
    /// Total size of the decompressed buckets, in bytes.
    held: u64,
    /// Number of bytes read from each buffer.
    used: Vec<usize>,
}

impl LazyBuffers<'_, '_, '_> {
    fn take(&mut self, buffer: u32, len: impl FnOnce(&[u8]) -> Found<usize>) -> Result<&[u8]> {
        let begin = self.begin;
        let wrong = |what| Error::corrupt(begin, what);
        let index = buffer as usize;
        let place = *self
            .machine
            .buffers
            .get(index)
            .ok_or_else(|| wrong(BUFFER_ENDS))?;
        let bucket = place.bucket as usize;
        if self.buckets[bucket].is_none() {
            let held = self.held;
            let decompressed =
                self.machine
                    .decompress_bucket(bucket, held, begin, self.decoders, self.options)?;
            self.held += decompressed.as_ref().map_or(0, |bytes| bytes.len() as u64);
            self.buckets[bucket] = decompressed;
        }
        let bytes = match &self.buckets[bucket] {
            Some(bytes) => bytes,
            None => self.machine.stored_bucket(bucket),
        };
        let all = bytes
            .get(place.start..place.start + place.len)
            .unwrap_or_default();
        let rest = all.get(self.used[index]..).unwrap_or_default();
        let len = len(rest).map_err(wrong)?;
        self.used[index] += len;
        rest.get(..len).ok_or_else(|| wrong(BUFFER_ENDS))
    }
}

impl Run<'_> {
    /// Visits the states, and emits the selected parts of their output.
    fn walk(
        &mut self,
        first: u32,
        transitions: &[u8],
        buffers: &mut LazyBuffers<'_, '_, '_>,
    ) -> Result<()> {
        let begin = self.begin;
        let wrong = |what| Error::corrupt(begin, what);
        let mut walk = Walk::new(self.states, first, transitions);
        let Some(mut state) = self.states.get(first as usize) else {
            return Ok(());
        };
        loop {
            self.emit_selected(state, walk.at, buffers)?;
            match walk.step(state) {
                Ok(Some(next)) => state = next,
                Ok(None) => return Ok(()),
                Err(()) => return Err(wrong(LEFT_MACHINE)),
            }
        }
    }

    fn emit_selected(
        &mut self,
        state: &State,
        at: u32,
        buffers: &mut LazyBuffers<'_, '_, '_>,
    ) -> Result<()> {
        let begin = self.begin;
        let wrong = |what| Error::corrupt(begin, what);
        let selected = self.selected.field(state.field);
        let len = |len: usize| move |_: &[u8]| Ok(len);
        match (state.emit, selected) {
            (Emit::Nothing, _) => {}
            (Emit::MessageStart, _) => self.end_record().map_err(wrong)?,
            (Emit::NonProto { buffer }, _) => {
                // The last buffer has the lengths of records that are not messages.
                let last = buffers.used.len().wrapping_sub(1);
                let last = u32::try_from(last).unwrap_or(u32::MAX);
                let mut record = 0;
                buffers.take(last, |bytes| {
                    let mut rest = bytes;
                    record = varint::take(&mut rest).ok_or(BUFFER_ENDS)?;
                    Ok(bytes.len() - rest.len())
                })?;
                let record = usize::try_from(record).map_err(|_| wrong(BUFFER_ENDS))?;
                let bytes = buffers.take(buffer, len(record))?;
                self.out.push(bytes)?;
                self.end_record().map_err(wrong)?;
            }
            (Emit::SubmessageEnd, _) => {
                self.enter(at, false).map_err(wrong)?;
                self.selected = selected;
            }
            (Emit::EndGroup, _) => {
                if !matches!(selected, Selected::Nothing) {
                    self.tag(state)?;
                }
                self.enter(at, true).map_err(wrong)?;
                self.selected = selected;
            }
            (Emit::SubmessageStart, _) => {
                let emitted = !matches!(self.selected, Selected::Nothing);
                let open = self.leave(false).map_err(wrong)?;
                if emitted {
                    self.length_since(open.at)?;
                    let states = self.states;
                    self.tag(&states[open.state as usize])?;
                }
            }
            (Emit::StartGroup, _) => {
                let emitted = !matches!(self.selected, Selected::Nothing);
                self.leave(true).map_err(wrong)?;
                if emitted {
                    self.tag(state)?;
                }
            }
            (_, Selected::Nothing) => self.pass().map_err(wrong)?,
            (emit, selected) => {
                let whole = matches!(selected, Selected::All);
                match emit {
                    Emit::Varint { buffer, len: n } if whole => {
                        let n = usize::from(n);
                        let bytes = buffers.take(buffer, len(n))?;
                        let to = self.out.prepend(n)?;
                        varint_from(bytes, to);
                    }
                    Emit::Inline(value) if whole => self.out.push(&[value])?,
                    Emit::Fixed32 { buffer } if whole => {
                        let bytes = buffers.take(buffer, len(4))?;
                        self.out.push(bytes)?;
                    }
                    Emit::Fixed64 { buffer } if whole => {
                        let bytes = buffers.take(buffer, len(8))?;
                        self.out.push(bytes)?;
                    }
                    Emit::Bytes { buffer } if whole => {
                        let bytes = buffers.take(buffer, prefixed_len)?;
                        self.out.push(bytes)?;
                    }
                    Emit::Fixed32 { .. } => self.out.push(&[0; 4])?,
                    Emit::Fixed64 { .. } => self.out.push(&[0; 8])?,
                    _ => self.out.push(&[0])?,
                }
                self.tag(state)?;
            }
        }
        Ok(())
    }
}
