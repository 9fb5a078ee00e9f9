//! Comparing the fields of two messages.

use std::collections::BTreeMap;
use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};

use super::difference::{Difference, DifferenceKind, is_implicit};
use super::elements::{Numbers, Occurrences, Runs, Slot, index, number, shown};
use crate::path::{FieldPath, FieldRef, MapKey, Step, key_codec, valid_key};
use crate::progress::Meter;
use crate::wire::{Field, Input, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// Maximum size of a message to compare in memory, in bytes.
const IN_MEMORY: u64 = 1 << 20;

/// Maximum size of a string to report in full, in bytes.
const SHORT: u64 = 64;

/// Number of bytes to compare or hash at a time.
const WINDOW: usize = 64 << 10;

/// Cursors over the two messages to compare.
pub(super) struct Sides<I, J> {
    pub(super) a: WireCursor<I>,
    pub(super) b: WireCursor<J>,
}

type Pieces<'a> = &'a [Range<u64>];

pub(super) struct Walk<'a> {
    path: FieldPath,
    found: Vec<Difference>,
    limit: usize,
    max_depth: u32,
    /// Meter that counts the first message's bytes; `None` inside a message whose bytes are counted
    /// all at once.
    meter: Option<&'a Meter>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(limit: usize, max_depth: u32, meter: &'a Meter) -> Self {
        Walk {
            path: FieldPath::root(),
            found: Vec::new(),
            limit,
            max_depth,
            meter: Some(meter),
        }
    }

    pub(super) fn into_found(self) -> Vec<Difference> {
        self.found
    }

    pub(super) fn is_full(&self) -> bool {
        self.found.len() >= self.limit
    }

    fn add(&mut self, step: Step, how: DifferenceKind) {
        if !self.is_full() {
            let path = self.path.join(step);
            let name = None;
            self.found.push(Difference { path, name, how });
        }
    }

    /// Adds a difference in an element, which may have a name.
    pub(super) fn add_named(&mut self, step: Step, how: DifferenceKind, name: Option<String>) {
        if !self.is_full() {
            let path = self.path.join(step);
            self.found.push(Difference { path, name, how });
        }
    }

    /// Returns the progress meter for the first message's bytes; `None` if those bytes are already
    /// counted.
    pub(super) fn meter(&self) -> Option<&'a Meter> {
        self.meter
    }

    /// Compares two messages. `a` contains the byte ranges of the first message's pieces, and `b`
    /// those of the second message's. A parser would merge the pieces of each message.
    pub(super) fn messages<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        a: Pieces<'_>,
        b: Pieces<'_>,
        message: Option<&MessageDescriptor>,
        depth: u32,
    ) -> Result<()> {
        if depth > self.max_depth {
            let error = format!(
                "messages nest deeper than the maximum depth of {}",
                self.max_depth
            );
            return Err(Error::new(ErrorKind::LimitExceeded, error).at_path(self.path.to_string()));
        }
        if total(a).max(total(b)) > IN_MEMORY {
            return self.fields(sides, a, b, message, depth);
        }
        let (a, b) = (held(&mut sides.a, a)?, held(&mut sides.b, b)?);
        if let Some(meter) = self.meter {
            meter.advance(a.len() as u64)?;
        }
        if a == b {
            return Ok(());
        }
        let mut sides = Sides {
            a: WireCursor::new(&a[..]),
            b: WireCursor::new(&b[..]),
        };
        let (a, b) = (0..a.len() as u64, 0..b.len() as u64);
        let meter = self.meter.take();
        let compared = self.fields(&mut sides, &[a], &[b], message, depth);
        self.meter = meter;
        compared
    }

    /// Compares the messages at `step`, which are one level below the current messages.
    pub(super) fn below<I: Input, J: Input>(
        &mut self,
        step: Step,
        sides: &mut Sides<I, J>,
        a: Pieces<'_>,
        b: Pieces<'_>,
        message: Option<&MessageDescriptor>,
        depth: u32,
    ) -> Result<()> {
        self.path.push(step);
        self.messages(sides, a, b, message, depth + 1)?;
        self.path.pop();
        Ok(())
    }

    fn fields<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        a: Pieces<'_>,
        b: Pieces<'_>,
        message: Option<&MessageDescriptor>,
        depth: u32,
    ) -> Result<()> {
        let of_a = index(&mut sides.a, a, message)?;
        let mut of_b = index(&mut sides.b, b, message)?;
        let mut pairs: BTreeMap<Slot, (Runs, Runs)> = BTreeMap::new();
        for (slot, runs) in of_a {
            let other = of_b.remove(&slot).unwrap_or_default();
            pairs.insert(slot, (runs, other));
        }
        for (slot, runs) in of_b {
            pairs.insert(slot, (Runs::default(), runs));
        }
        for (slot, (a, b)) in pairs {
            if self.is_full() {
                return Ok(());
            }
            let known = message.filter(|_| slot.known);
            match known.and_then(|message| FieldRef::by_number(message, slot.number)) {
                Some(field) => self.known(sides, &field, &a, &b, depth)?,
                None => self.raw(sides, slot.number, &a, &b, depth)?,
            }
        }
        Ok(())
    }

    fn known<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        field: &FieldRef,
        a: &Runs,
        b: &Runs,
        depth: u32,
    ) -> Result<()> {
        if field.is_map() {
            return self.maps(sides, field, a, b, depth);
        }
        if field.is_list() {
            return match field.kind() {
                Kind::Message(_) | Kind::String | Kind::Bytes => {
                    self.elements(sides, field, a, b, depth)
                }
                kind => self.numbers(sides, field, &kind, a, b),
            };
        }
        let step = Step::field(field.number());
        if let Kind::Message(message) = field.kind() {
            if !self.both(&step, a, b) {
                return Ok(());
            }
            let a = values_of(&mut sides.a, a)?;
            let b = values_of(&mut sides.b, b)?;
            return self.below(step, sides, &a, &b, Some(&message), depth);
        }
        let kind = field.kind();
        let values = (a.last.clone(), b.last.clone());
        self.single(sides, step, &kind, is_implicit(field), values)
    }

    /// Compares two values that aren't messages. They belong to a singular field or to map entries
    /// with the same key.
    fn single<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        step: Step,
        kind: &Kind,
        is_implicit: bool,
        (a, b): (Option<Field>, Option<Field>),
    ) -> Result<()> {
        if matches!(kind, Kind::String | Kind::Bytes) {
            let empty = |field: &Field| is_implicit && field.value.is_empty();
            let (a, b) = (a.filter(|f| !empty(f)), b.filter(|f| !empty(f)));
            return match (a, b) {
                (Some(a), Some(b)) => self.text_or_bytes(sides, step, kind, &a.value, &b.value),
                (a, b) => {
                    self.presence(step, a.is_some(), b.is_some());
                    Ok(())
                }
            };
        }
        let a = a
            .map(|a| number(&mut sides.a, &a.value, kind))
            .transpose()?;
        let b = b
            .map(|b| number(&mut sides.b, &b.value, kind))
            .transpose()?;
        let said = |bits: Option<u64>| bits.filter(|&bits| !(is_implicit && bits == 0));
        match (said(a), said(b)) {
            (Some(a), Some(b)) if a != b => {
                self.add(step, DifferenceKind::Values(shown(a, kind), shown(b, kind)));
            }
            (a, b) => self.presence(step, a.is_some(), b.is_some()),
        }
        Ok(())
    }

    fn both(&mut self, step: &Step, a: &Runs, b: &Runs) -> bool {
        let there = |runs: &Runs| !runs.stretches.is_empty();
        self.presence(step.clone(), there(a), there(b));
        there(a) && there(b)
    }

    fn presence(&mut self, step: Step, a: bool, b: bool) {
        match (a, b) {
            (true, false) => self.add(step, DifferenceKind::OnlyInFirst),
            (false, true) => self.add(step, DifferenceKind::OnlyInSecond),
            _ => {}
        }
    }

    fn numbers<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        field: &FieldRef,
        kind: &Kind,
        a: &Runs,
        b: &Runs,
    ) -> Result<()> {
        // Both messages usually encode a field in the same way, and comparing bytes is faster than
        // comparing numbers.
        if let ([of_a], [of_b]) = (a.stretches.as_slice(), b.stretches.as_slice())
            && of_a.end - of_a.start == of_b.end - of_b.start
            && first_byte(sides, of_a, of_b, self.meter)?.is_none()
        {
            return Ok(());
        }
        let mut of_a = Numbers::of(a, field);
        let mut of_b = Numbers::of(b, field);
        let path = self.path.join(Step::field(field.number()));
        let next = |sides: &mut Sides<I, J>| {
            let located = |error: Error| error.at_path(path.to_string());
            let a = of_a.next(&mut sides.a).map_err(located)?;
            let b = of_b.next(&mut sides.b).map_err(located)?;
            Ok((a, b))
        };
        self.in_pairs(sides, field, None, next, |walk, _, index, a, b| {
            if a != b {
                let step = Step::index(field.number(), index);
                walk.add(step, DifferenceKind::Values(shown(a, kind), shown(b, kind)));
            }
            Ok(())
        })
    }

    /// Compares the elements that a repeated field has at the same index in both messages, and then
    /// the numbers of elements. `from` contains, for each message, the number of elements that were
    /// already compared.
    pub(super) fn in_pairs<I: Input, J: Input, T>(
        &mut self,
        sides: &mut Sides<I, J>,
        field: &FieldRef,
        from: Option<(u64, u64)>,
        mut next: impl FnMut(&mut Sides<I, J>) -> Result<(Option<T>, Option<T>)>,
        mut compare: impl FnMut(&mut Self, &mut Sides<I, J>, u64, T, T) -> Result<()>,
    ) -> Result<()> {
        let (mut of_a, mut of_b) = from.unwrap_or_default();
        while !self.is_full() {
            let (a, b) = next(sides)?;
            of_a += u64::from(a.is_some());
            of_b += u64::from(b.is_some());
            match (a, b) {
                (Some(a), Some(b)) => {
                    compare(self, sides, of_a - 1, a, b)?;
                }
                (None, None) => {
                    if of_a != of_b {
                        self.add(
                            Step::field(field.number()),
                            DifferenceKind::Counts(of_a, of_b),
                        );
                    }
                    return Ok(());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn maps<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        field: &FieldRef,
        a: &Runs,
        b: &Runs,
        depth: u32,
    ) -> Result<()> {
        let Kind::Message(entry) = field.kind() else {
            return self.raw(sides, field.number(), a, b, depth);
        };
        let value = entry.map_entry_value_field();
        let located = |error: Error| error.at_path(self.path.join(Step::field(field.number())));
        let of_a = entries(&mut sides.a, field, a).map_err(located)?;
        let mut of_b = entries(&mut sides.b, field, b).map_err(located)?;
        let mut pairs: BTreeMap<MapKey, (Option<Field>, Option<Field>)> = BTreeMap::new();
        for (key, a) in of_a {
            let b = of_b.remove(&key);
            pairs.insert(key, (Some(a), b));
        }
        pairs.extend(of_b.into_iter().map(|(key, b)| (key, (None, Some(b)))));
        for (key, (a, b)) in pairs {
            if self.is_full() {
                return Ok(());
            }
            let step = Step::key(field.number(), key);
            let (Some(a), Some(b)) = (&a, &b) else {
                self.presence(step, a.is_some(), b.is_some());
                continue;
            };
            let of_entry = |slots: BTreeMap<Slot, Runs>| {
                let slot = Slot {
                    number: 2,
                    known: true,
                };
                slots.get(&slot).cloned().unwrap_or_default()
            };
            let (a, b) = ([a.value.clone()], [b.value.clone()]);
            let a = of_entry(index(&mut sides.a, &a, Some(&entry))?);
            let b = of_entry(index(&mut sides.b, &b, Some(&entry))?);
            match value.kind() {
                // An entry without a value field has an empty message as its value.
                Kind::Message(message) => {
                    let a = values_of(&mut sides.a, &a)?;
                    let b = values_of(&mut sides.b, &b)?;
                    self.below(step, sides, &a, &b, Some(&message), depth)?;
                }
                kind => self.single(sides, step, &kind, true, (a.last, b.last))?,
            }
        }
        Ok(())
    }

    /// Compares the occurrences of an unknown field, decoded according to their wire type, since a
    /// number or a length may have an overlong encoding.
    fn raw<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        field: u32,
        a: &Runs,
        b: &Runs,
        depth: u32,
    ) -> Result<()> {
        let (mut of_a, mut of_b) = (Occurrences::of(a), Occurrences::of(b));
        let mut at = 0;
        while !self.is_full() {
            let step = if at == 0 {
                Step::field(field)
            } else {
                Step::index(field, at)
            };
            at += 1;
            match (of_a.next(&mut sides.a)?, of_b.next(&mut sides.b)?) {
                (None, None) => return Ok(()),
                (Some(a), Some(b)) if a.wire_type == b.wire_type => match a.wire_type {
                    WireType::Varint => {
                        let kind = Kind::Uint64;
                        self.single(sides, step, &kind, false, (Some(a), Some(b)))?;
                    }
                    WireType::StartGroup => {
                        self.below(step, sides, &[a.value], &[b.value], None, depth)?;
                    }
                    _ => self.values(sides, step, &a.value, &b.value)?,
                },
                (Some(a), Some(b)) => {
                    self.values(sides, step, &(a.start..a.end), &(b.start..b.end))?;
                }
                (a, b) => self.presence(step, a.is_some(), b.is_some()),
            }
        }
        Ok(())
    }

    /// Compares strings or bytes. Short strings are reported in full.
    pub(super) fn text_or_bytes<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        step: Step,
        kind: &Kind,
        a: &Range<u64>,
        b: &Range<u64>,
    ) -> Result<()> {
        let is_short = |value: &Range<u64>| value.end - value.start <= SHORT;
        if *kind != Kind::String || !is_short(a) || !is_short(b) {
            return self.values(sides, step, a, b);
        }
        let a = sides.a.bytes(a.clone())?;
        let b = sides.b.bytes(b.clone())?;
        if a != b {
            let [a, b] = [a, b].map(|text| format!("{:?}", String::from_utf8_lossy(text)));
            self.add(step, DifferenceKind::Values(a, b));
        }
        Ok(())
    }

    fn values<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        step: Step,
        a: &Range<u64>,
        b: &Range<u64>,
    ) -> Result<()> {
        if let Some(at) = first_byte(sides, a, b, self.meter)? {
            let how = DifferenceKind::Bytes {
                first: a.end - a.start,
                second: b.end - b.start,
                at,
            };
            self.add(step, how);
        }
        Ok(())
    }
}

/// Returns the byte ranges of the values of all occurrences of a field. The value of a singular
/// message field consists of all of these ranges.
fn values_of<I: Input>(cursor: &mut WireCursor<I>, runs: &Runs) -> Result<Vec<Range<u64>>> {
    let mut occurrences = Occurrences::of(runs);
    let mut values = Vec::new();
    while let Some(field) = occurrences.next(cursor)? {
        values.push(field.value);
    }
    Ok(values)
}

/// Returns the entries of a map. Of several entries with the same key, returns only the last.
fn entries<I: Input>(
    cursor: &mut WireCursor<I>,
    field: &FieldRef,
    runs: &Runs,
) -> Result<BTreeMap<MapKey, Field>> {
    let codec = key_codec(field).ok_or_else(|| {
        let message = "the map has an invalid key type";
        Error::new(ErrorKind::InvalidSchema, message)
    })?;
    let mut occurrences = Occurrences::of(runs);
    let mut entries = BTreeMap::new();
    while let Some(entry) = occurrences.next(cursor)? {
        let key = valid_key(cursor, &entry, codec)?;
        entries.insert(key, entry);
    }
    Ok(entries)
}

fn total(pieces: Pieces<'_>) -> u64 {
    pieces.iter().map(|piece| piece.end - piece.start).sum()
}

fn held<I: Input>(cursor: &mut WireCursor<I>, pieces: Pieces<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for piece in pieces {
        bytes.extend_from_slice(cursor.bytes(piece.clone())?);
    }
    Ok(bytes)
}

/// Returns the offset of the first byte that differs between two ranges; `None` if the bytes are
/// equal. If one range's bytes begin with the other's, returns the length of the shorter range.
pub(super) fn first_byte<I: Input, J: Input>(
    sides: &mut Sides<I, J>,
    a: &Range<u64>,
    b: &Range<u64>,
    meter: Option<&Meter>,
) -> Result<Option<u64>> {
    let (len_a, len_b) = (a.end - a.start, b.end - b.start);
    let common = len_a.min(len_b);
    let mut at = 0;
    while at < common {
        let want = usize::try_from(common - at)
            .unwrap_or(usize::MAX)
            .min(WINDOW);
        let of_a = sides.a.bytes(a.start + at..a.start + at + want as u64)?;
        let of_b = sides.b.bytes(b.start + at..b.start + at + want as u64)?;
        if of_a != of_b {
            let equal = of_a.iter().zip(of_b).take_while(|(a, b)| a == b).count();
            return Ok(Some(at + equal as u64));
        }
        at += want as u64;
        if let Some(meter) = meter {
            meter.advance(want as u64)?;
        }
    }
    Ok((len_a != len_b).then_some(common))
}
