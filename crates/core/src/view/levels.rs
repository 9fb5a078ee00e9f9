//! The levels of a path query: each is a field whose elements the query iterates over, with a
//! selection of elements.

use std::ops::Range;

use prost_reflect::MessageDescriptor;

use super::element_runs::{ElementRuns, RunCursor};
use super::locate::{self, Way};
use super::packed::Packed;
use crate::Result;
use crate::path::{Condition, FieldPath, FieldRef, PathQuery, Pick, Step, message_below};
use crate::view::{Kindred, MemberName, NameRule, Naming, is_text};
use crate::wire::{Field, FieldNumber, Input, WireCursor, WireType, short_tag, wire_type};

/// Maximum size of a name to search for, in bytes: 4 KiB.
const LONGEST_NAME: usize = 4 << 10;

/// Maximum size of an element to inspect in one operation, in bytes. Larger elements are read in
/// parts, with checks for cancellation and progress reports in between.
const MOST_AT_ONCE: u64 = 64 << 10;

/// A field whose elements a query iterates over, and the query's path inside each selected element.
pub(super) struct Level {
    pub(super) number: u32,
    pub(super) field: Option<FieldRef>,
    /// Type of the elements, or of a map's values; `None` unless they are messages of a known type.
    pub(super) message: Option<MessageDescriptor>,
    pub(super) pick: Pick,
    pub(super) rest: FieldPath,
    pub(super) way: Way,
    /// Paths inside an element to the values that conditions compare; empty without conditions.
    to_compared: Vec<Way>,
    /// Method of finding the names of the elements.
    naming: Naming,
    /// True if the queried value in an element can usually be located quickly, by
    /// [`Level::at_once`].
    pub(super) is_quick: bool,
    /// True if the query continues inside the elements.
    goes_on: bool,
    /// Wire type of an element; `None` if the field is unknown.
    pub(super) wire: Option<WireType>,
    /// Tag of an element; `None` unless it is the one-byte tag of a length-delimited field.
    pub(super) tag: Option<u8>,
    /// True if the elements are entries of a map.
    pub(super) is_map: bool,
    /// Encoding of the elements in a packed field; `None` unless they are numbers.
    pub(super) packed: Option<Packed>,
}

impl Level {
    /// Returns true if the field `met` is an element of this level, or a packed field of elements.
    pub(super) fn takes(&self, met: &Field) -> bool {
        met.number.0 == self.number
            && match self.wire {
                Some(wire) => met.wire_type == wire || self.is_run(met),
                None if !self.goes_on => true,
                None => matches!(met.wire_type, WireType::Len | WireType::StartGroup),
            }
    }

    /// Returns true if `met`, an occurrence of this level's field, is a packed field, which
    /// contains elements instead of being one.
    pub(super) fn is_run(&self, met: &Field) -> bool {
        self.packed.is_some() && met.wire_type == WireType::Len
    }

    /// Returns true if the query selects every element in the selected range of indices, and
    /// nothing inside the elements.
    pub(super) fn takes_all(&self) -> bool {
        self.is_quick
            && self.way.is_empty()
            && !matches!(self.pick, Pick::Named(_) | Pick::Where(_))
    }

    /// Returns the name of an element. `element` is the range of the element, or the first of its
    /// ranges if there are several.
    pub(super) fn name_of(
        &self,
        input: &mut impl Input,
        element: &Range<u64>,
    ) -> Result<MemberName> {
        if self.packed.is_some() {
            return Ok(MemberName::default());
        }
        self.naming.name(input, element.clone(), LONGEST_NAME)
    }

    /// Returns the wire type of a value that [`at_once`](Self::at_once) located.
    #[inline]
    pub(super) fn wire_at_once(&self) -> WireType {
        self.way.wire().unwrap_or(WireType::Len)
    }

    /// Locates the queried value in an element, using only bytes in memory. Returns `Some(None)` if
    /// the element isn't selected or has no such value, and `None` if this can't be determined
    /// quickly.
    #[inline]
    pub(super) fn at_once(
        &self,
        input: &impl ElementRuns,
        element: &Range<u64>,
    ) -> Option<Option<Range<u64>>> {
        let (wanted, conditions): (_, &[Condition]) = match &self.pick {
            Pick::Named(wanted) => (Some(wanted), &[]),
            Pick::Where(conditions) => (None, conditions),
            _ if self.way.is_empty() => return Some(Some(element.clone())),
            _ => (None, &[]),
        };
        if element.end - element.start > MOST_AT_ONCE {
            return None;
        }
        let bytes = input.part_at_hand(element)?;
        if let Some(wanted) = wanted
            && !self.naming.is_at_once(bytes, wanted, LONGEST_NAME)?
        {
            return Some(None);
        }
        for (condition, way) in conditions.iter().zip(&self.to_compared) {
            let value = way.at_once(bytes)?;
            if !condition.holds(value.and_then(|value| bytes.get(value))) {
                return Some(None);
            }
        }
        let found = self.way.at_once(bytes)?;
        let place = |found: Range<usize>| {
            element.start + found.start as u64..element.start + found.end as u64
        };
        Some(found.map(place))
    }

    /// Returns true if the query's name or conditions select the element whose bytes are at the
    /// ranges `element`. Also returns true if the query selects by index or key, since that
    /// selection doesn't depend on the element's content.
    pub(super) fn is_picked<I: ElementRuns>(
        &self,
        cursor: &mut WireCursor<I>,
        element: &[Range<u64>],
    ) -> Result<bool> {
        if !matches!(self.pick, Pick::Named(_) | Pick::Where(..)) {
            return Ok(true);
        }
        let Some(value) = element.first() else {
            return Ok(false);
        };
        match &self.pick {
            Pick::Named(wanted) => {
                let called = self.name_of(cursor.input_mut(), value)?;
                Ok(called.name.as_deref() == Some(wanted))
            }
            Pick::Where(conditions) => {
                for (condition, way) in conditions.iter().zip(&self.to_compared) {
                    let found = way.follow(cursor, vec![value.clone()])?;
                    let found = found.and_then(|found| found.pieces.last().cloned());
                    let bytes = match found {
                        Some(found) => {
                            let len = condition.told_by(found.end - found.start);
                            Some(cursor.bytes(found.start..found.start + len)?)
                        }
                        None => None,
                    };
                    if !condition.holds(bytes) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(true),
        }
    }
}

/// Splits a query into a path without iteration, and the fields whose elements the query iterates
/// over.
pub(super) fn levels(
    query: &PathQuery,
    root: Option<&MessageDescriptor>,
    rules: &[NameRule],
) -> Result<(FieldPath, Vec<Level>)> {
    let mut prefix = FieldPath::root();
    let mut levels: Vec<Level> = Vec::new();
    let mut message = root.cloned();
    for step in query.steps() {
        let known = message.as_ref();
        let field = known.and_then(|message| FieldRef::by_number(message, step.field.0));
        let below = field.as_ref().and_then(message_below);
        match (&step.pick, levels.last_mut()) {
            (Pick::One(select), last) => {
                let step = Step {
                    field: step.field,
                    select: select.clone(),
                };
                match last {
                    None => prefix.push(step),
                    Some(level) => level.rest.push(step),
                }
            }
            (pick, _) => {
                let wire = field
                    .as_ref()
                    .map(|field| wire_type(&field.kind(), field.is_group()));
                let kindred = match (&below, &field) {
                    (Some(message), _) => Kindred::Message(message),
                    (None, Some(_)) => Kindred::Text,
                    (None, None) => Kindred::Unknown,
                };
                let to_compared = match pick {
                    Pick::Where(conditions) => {
                        let paths = conditions.iter().map(|condition| &condition.path);
                        paths.map(|path| Way::new(path, below.as_ref())).collect()
                    }
                    _ => Vec::new(),
                };
                levels.push(Level {
                    number: step.field.0,
                    naming: Naming::of(&kindred, rules),
                    to_compared,
                    way: Way::default(),
                    is_quick: false,
                    message: below.clone(),
                    pick: pick.clone(),
                    rest: FieldPath::root(),
                    goes_on: false,
                    // If the field is unknown, its elements may be length-delimited.
                    tag: short_tag(step.field, wire.unwrap_or(WireType::Len)),
                    wire,
                    is_map: field.as_ref().is_some_and(FieldRef::is_map),
                    packed: field.as_ref().and_then(Packed::of),
                    field,
                });
            }
        }
        message = below;
    }
    let last = levels.len().saturating_sub(1);
    for (at, level) in levels.iter_mut().enumerate() {
        let is_last = at == last;
        level.goes_on = !is_last || !level.rest.is_root();
        level.way = Way::new(&level.rest, level.message.as_ref());
        level.is_quick =
            is_last && !level.is_map && level.packed.is_none() && is_quick(&level.pick);
        check(level, is_last).map_err(|error| error.at_path(query.as_str()))?;
    }
    Ok((prefix, levels))
}

/// Returns false if elements are selected by a name that can't be compared quickly: an empty name,
/// a long one, or one that isn't readable text.
fn is_quick(pick: &Pick) -> bool {
    match pick {
        Pick::Named(wanted) => {
            (1..=LONGEST_NAME).contains(&wanted.len()) && is_text(wanted.as_bytes())
        }
        _ => true,
    }
}

/// Fails if the query's path inside the elements of a level leads to a field without bytes of its
/// own, such as a whole repeated field.
fn check(level: &Level, is_last: bool) -> Result<()> {
    match &level.message {
        Some(message) if is_last && !level.rest.is_root() => {
            locate::check(&level.rest, Some(message))
        }
        _ => Ok(()),
    }
}

/// Returns true if the selection depends on the number of elements.
pub(super) fn needs_count(pick: &Pick) -> bool {
    use crate::path::Place::FromEnd;
    matches!(
        pick,
        Pick::FromEnd(_) | Pick::Range(FromEnd(_), _) | Pick::Range(_, Some(FromEnd(_)))
    )
}

/// Returns the selected indices among `count` elements.
pub(super) fn range(pick: &Pick, count: u64) -> Range<u64> {
    match pick {
        Pick::FromEnd(back) => match count.checked_sub(*back) {
            Some(index) => index..index + 1,
            None => 0..0,
        },
        Pick::Range(start, end) => {
            let end = end.map_or(count, |end| end.among(count));
            start.among(count)..end
        }
        _ => 0..count,
    }
}

/// Returns the number of elements of a level's field in a message whose bytes are at the ranges
/// `pieces`.
pub(super) fn count<I: ElementRuns>(
    cursor: &mut WireCursor<I>,
    pieces: &[Range<u64>],
    level: &Level,
) -> Result<u64> {
    let mut count = 0;
    for piece in pieces {
        cursor.set_range(piece.clone());
        let mut passing = match level.packed {
            Some(_) => None,
            None => Some(RunCursor::new(cursor, FieldNumber(level.number))),
        };
        loop {
            if let Some(passing) = &mut passing {
                count += passing.pass(cursor, u64::MAX);
            }
            let Some(met) = cursor.next()? else { break };
            match level
                .packed
                .filter(|_| level.takes(&met) && level.is_run(&met))
            {
                Some(packed) => {
                    count += packed.skip(cursor, &mut met.value.clone(), u64::MAX)?;
                    cursor.set_range(met.end..piece.end);
                }
                None => count += u64::from(level.takes(&met)),
            }
        }
    }
    Ok(count)
}
