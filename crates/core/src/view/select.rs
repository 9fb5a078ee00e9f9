//! Iterating over the values that a query selects.

use std::io::Write;
use std::ops::Range;

use bytes::Bytes;
use prost_reflect::Kind;

use super::MessageView;
use super::element_runs::RunCursor;
use super::levels::{Level, count, levels, needs_count, range};
use super::locate::{Found, entry_value};
use super::packed::broken;
use super::portion::{Portion, copy_ranges};
use crate::path::{
    FieldPath, FieldRef, KeyForm, MapKey, PathQuery, Pick, Select, Step, key_codec, value_kind,
    with_key,
};
use crate::view::{MemberName, NameRule};
use crate::wire::{Field, FieldNumber, Input, WireCursor, WireType, wire_type};
use crate::{Error, ErrorKind, Result};

/// An iterator over the values that a [`PathQuery`] selects, in message order, from
/// [`MessageView::select`]. It ends after an error.
///
/// The memory used doesn't grow with the number of values. Each item is the size of a value in
/// bytes. The value's content and path are available until the next item is requested.
pub struct Selected<'a> {
    pub(super) cursor: WireCursor<Portion<'a>>,
    /// Path of the message that contains the first field whose elements are iterated over.
    prefix: FieldPath,
    pub(super) levels: Vec<Level>,
    pub(super) frames: Vec<Frame>,
    /// The only value, for a query that is a path; `None` after it was returned, and for other
    /// queries.
    only: Option<Found>,
    /// Ranges of the most recently returned value.
    pub(super) last: Vec<Range<u64>>,
    /// Wire type of the most recently returned value.
    pub(super) wire: Option<WireType>,
    /// Range of the most recent element or map entry, including its tag.
    pub(super) met: Range<u64>,
    most: u64,
}

/// The state of the iteration over the elements of one field in one message.
pub(super) struct Frame {
    pieces: std::vec::IntoIter<Range<u64>>,
    /// Remaining part of the message's current range.
    pub(super) left: Range<u64>,
    /// Index of the next element in the field.
    pub(super) next: u64,
    /// Range of indices that may be selected.
    pub(super) picked: Range<u64>,
    /// A cursor over slices, for skipping elements before the first selected index; `None` if not
    /// needed.
    passing: Option<RunCursor>,
    /// Byte range of the remaining elements in the current packed field.
    run: Range<u64>,
    /// Index or key of the most recent element.
    pub(super) select: Select,
    /// Ranges of the most recent element or, in a map, of the most recent entry's value.
    pub(super) element: Vec<Range<u64>>,
}

impl std::fmt::Debug for Selected<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Selected")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl<'a> MessageView<'a> {
    /// Returns an iterator over the values that a query selects. The rules in `names` determine the
    /// names of elements. An element whose type has no rule gets its name from a field that looks
    /// like a name, if there is one.
    ///
    /// ```
    /// use proto_splitter_core::view::MessageView;
    /// use proto_splitter_core::merge::ReadOptions;
    /// use proto_splitter_core::path::PathQuery;
    ///
    /// // Two elements of field 1, which are messages; their field 2 is a string.
    /// let message = b"\x0a\x04\x12\x02up\x0a\x06\x12\x04down".to_vec();
    /// let view = MessageView::of_plain(&message, ReadOptions::new())?;
    /// let mut selected = view.select(&PathQuery::parse("1[*].2", None)?, &[])?;
    /// let mut found = Vec::new();
    /// while let Some(size) = selected.next().transpose()? {
    ///     found.push((selected.path().to_string(), size, selected.value()?));
    /// }
    /// assert_eq!(found[1], ("1[1].2".into(), 4, "down".into()));
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get), except that missing values are not an error.
    pub fn select(&self, query: &PathQuery, names: &[NameRule]) -> Result<Selected<'a>> {
        let (prefix, levels) = levels(query, self.descriptor(), names)?;
        let (portion, found) = match self.find(&prefix)? {
            Some(found) => found,
            None => (self.find_some(&FieldPath::root())?.0, Found::default()),
        };
        let mut selected = Selected {
            cursor: WireCursor::new(portion),
            prefix,
            levels,
            frames: Vec::new(),
            only: None,
            last: Vec::new(),
            wire: None,
            met: 0..0,
            most: self.options.limits.max_message_size,
        };
        if selected.levels.is_empty() {
            selected.only = Some(found).filter(|found| !found.pieces.is_empty());
        } else if !found.pieces.is_empty() {
            selected.enter(found.pieces)?;
        }
        Ok(selected)
    }

    /// Returns the path of the only value that a query selects.
    ///
    /// # Errors
    ///
    /// The errors of [`select`](Self::select); [`ErrorKind::InvalidPath`] if there is no value, or
    /// several.
    pub fn select_one(&self, query: &PathQuery, names: &[NameRule]) -> Result<FieldPath> {
        if let Some(path) = query.as_path() {
            return Ok(path);
        }
        let invalid = |message| {
            let error = Error::new(ErrorKind::InvalidPath, message);
            Err(error.at_path(query.as_str()))
        };
        let mut selected = self.select(query, names)?;
        if selected.next().transpose()?.is_none() {
            return Err(self.no_such_value(query, names)?);
        }
        let first = selected.path();
        if selected.next().transpose()?.is_some() {
            let (first, second) = (self.show(&first), self.show(&selected.path()));
            return invalid(format!(
                "the path selects several values instead of one: {first}, {second} and maybe more"
            ));
        }
        Ok(first)
    }

    /// Returns the error for a query that selects nothing. If an index is out of range, the error
    /// names the actual number of elements.
    pub(crate) fn no_such_value(&self, query: &PathQuery, names: &[NameRule]) -> Result<Error> {
        let mut message = "the message has no such value".to_owned();
        if let Some(why) = self.missing_in(query, names)? {
            message = format!("{message}: {why}");
        }
        Ok(Error::new(ErrorKind::InvalidPath, message).at_path(query.as_str()))
    }

    fn missing_in(&self, query: &PathQuery, names: &[NameRule]) -> Result<Option<String>> {
        let mut above = query.clone();
        while let Some((parent, last)) = above.split_last() {
            let field = last.field.0;
            let is_index = matches!(last.pick, Pick::FromEnd(_) | Pick::One(Select::Index(_)));
            let mut parents = self.select(&parent, names)?;
            if parents.next().transpose()?.is_none() {
                above = parent;
                continue;
            }
            let mut path = parents.path();
            if !is_index || parents.next().transpose()?.is_some() {
                return Ok(None);
            }
            path.push(Step::index(field, u64::MAX));
            return self.missing(&path);
        }
        Ok(None)
    }

    /// Searches for each name and string key of a query among the names and keys of existing
    /// elements. Returns the first name or key that is missing and, for an error message, the first
    /// `most` names and keys among which it was searched for. Returns `None` if none is missing.
    ///
    /// # Errors
    ///
    /// The errors of [`select`](Self::select).
    pub fn unknown_name(
        &self,
        query: &PathQuery,
        names: &[NameRule],
        most: usize,
    ) -> Result<Option<(String, Vec<String>)>> {
        for (beside, wanted) in query.named() {
            let mut there = Vec::new();
            let mut exists = false;
            let mut selected = self.select(&beside, names)?;
            while !exists && selected.next().transpose()?.is_some() {
                let key = match selected.path().pop().map(|step| step.select) {
                    Some(Select::Key(MapKey::String(key))) => Some(key),
                    _ => selected.name()?.name,
                };
                exists = key.as_deref() == Some(wanted);
                there.extend(key.filter(|_| there.len() < most));
            }
            if !exists {
                return Ok(Some((wanted.to_owned(), there)));
            }
        }
        Ok(None)
    }

    /// Returns a replacement for a query that names elements, but selects none by these names. The
    /// replacement selects elements by the value of a string field. Returns `None` if no such
    /// replacement selects anything, or the message's type is unknown.
    ///
    /// # Errors
    ///
    /// The errors of [`select`](Self::select).
    pub fn named_by_value(&self, query: &PathQuery) -> Result<Option<PathQuery>> {
        let Some(root) = self.descriptor() else {
            return Ok(None);
        };
        for valued in query.valued(root) {
            if self.select(&valued, &[])?.next().transpose()?.is_some() {
                return Ok(Some(valued));
            }
        }
        Ok(None)
    }

    /// Returns an explanation with the number of elements if a path has no value because an index
    /// is out of range; `None` if there is another reason.
    pub(super) fn missing(&self, path: &FieldPath) -> Result<Option<String>> {
        let mut above = path.clone();
        while let Some(step) = above.pop() {
            let Some((portion, Found { pieces, .. })) = self.find(&above)? else {
                continue;
            };
            if !matches!(step.select, Select::Index(_)) || pieces.is_empty() {
                return Ok(None);
            }
            let mut all = above.clone();
            all.push(Step::field(step.field.0));
            let (_, levels) = levels(&PathQuery::all_of(&all), self.descriptor(), &[])?;
            let Some(level) = levels.first() else {
                return Ok(None);
            };
            let mut cursor = WireCursor::new(portion);
            let count = count(&mut cursor, &pieces, level);
            let count = count.map_err(|error| cursor.input_mut().damage_first(error))?;
            let plural = if count == 1 { "" } else { "s" };
            let field = self.show(&all);
            return Ok(Some(format!(
                "{field} has {count} element{plural}, counted from 0"
            )));
        }
        Ok(None)
    }
}

impl Selected<'_> {
    /// Returns the path of the most recently returned value.
    pub fn path(&self) -> FieldPath {
        let mut path = self.prefix.clone();
        for level in 0..self.levels.len().min(self.frames.len()) {
            self.add_element(level, &mut path);
            let rest = self.levels[level].rest.steps();
            rest.iter().cloned().for_each(|step| path.push(step));
        }
        path
    }

    /// Returns the path of the current element at a [level](PathQuery::levels).
    pub fn element_path(&self, level: usize) -> FieldPath {
        let mut path = self.prefix.clone();
        for above in 0..level {
            self.add_element(above, &mut path);
            let rest = self.levels.get(above).map(|level| level.rest.steps());
            let rest = rest.unwrap_or_default();
            rest.iter().cloned().for_each(|step| path.push(step));
        }
        self.add_element(level, &mut path);
        path
    }

    /// Appends to `path` the step that leads to the current element at a level.
    fn add_element(&self, level: usize, path: &mut FieldPath) {
        if let (Some(level), Some(frame)) = (self.levels.get(level), self.frames.get(level)) {
            let mut step = Step::field(level.number);
            step.select = frame.select.clone();
            path.push(step);
        }
    }

    /// Returns the ranges of the most recently returned value.
    pub(crate) fn pieces(&self) -> &[Range<u64>] {
        &self.last
    }

    /// Returns the range of the most recently returned element, including its tag. The last step of
    /// the query must select elements.
    pub(crate) fn field(&self) -> Range<u64> {
        self.met.clone()
    }

    /// Returns the wire type of the most recently returned value; `None` for the entire message.
    pub fn wire_type(&self) -> Option<WireType> {
        self.wire
    }

    /// Returns the bytes of the most recently returned value.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if the value exceeds the [largest
    /// message](crate::merge::Limits::max_message_size) or doesn't fit in memory; damage in the
    /// chunks that are read.
    pub fn value(&mut self) -> Result<Bytes> {
        let size = super::total(&self.last);
        let mut bytes = Vec::new();
        let len = usize::try_from(size).ok().filter(|_| size <= self.most);
        if len.is_none() {
            let message = format!("a value of {size} bytes doesn't fit in memory");
            return Err(Error::new(ErrorKind::LimitExceeded, message).refusing_size());
        }
        self.value_to(&mut bytes)?;
        Ok(bytes.into())
    }

    /// Writes the most recently returned value, which may have any size, to `sink`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if writing fails; damage in the chunks that are read.
    pub fn value_to(&mut self, sink: &mut impl Write) -> Result<()> {
        copy_ranges(&mut self.cursor, &self.last, sink)
    }

    /// Returns the name of the most recently returned value. The name is empty if the value isn't
    /// an element or map entry.
    ///
    /// # Errors
    ///
    /// Damage in the chunks that are read.
    pub fn name(&mut self) -> Result<MemberName> {
        let Some(level) = self.levels.last() else {
            return Ok(MemberName::default());
        };
        match self.last.first() {
            Some(value) if level.rest.is_root() => level.name_of(self.cursor.input_mut(), value),
            _ => Ok(MemberName::default()),
        }
    }

    fn advance(&mut self) -> Result<Option<u64>> {
        if let Some(only) = self.only.take() {
            (self.last, self.wire) = (only.pieces, only.wire);
            return Ok(Some(super::total(&self.last)));
        }
        while let Some(depth) = self.frames.len().checked_sub(1) {
            if !self.step(depth)? {
                self.frames.pop();
                continue;
            }
            if depth + 1 == self.levels.len() {
                return Ok(Some(super::total(&self.last)));
            }
            let pieces = std::mem::take(&mut self.last);
            self.enter(pieces)?;
        }
        Ok(None)
    }

    /// Begins iterating over the elements of the next level's field in the message whose bytes are
    /// at the ranges `pieces`.
    fn enter(&mut self, pieces: Vec<Range<u64>>) -> Result<()> {
        let level = &self.levels[self.frames.len()];
        let picked = match &level.pick {
            Pick::One(Select::Index(index)) => *index..index.saturating_add(1),
            Pick::FromEnd(_) | Pick::Range(..) if needs_count(&level.pick) => {
                let count = count(&mut self.cursor, &pieces, level)?;
                range(&level.pick, count)
            }
            pick => range(pick, u64::MAX),
        };
        self.frames.push(Frame {
            pieces: pieces.into_iter(),
            left: 0..0,
            next: 0,
            picked,
            passing: None,
            run: 0..0,
            select: Select::Field,
            element: Vec::new(),
        });
        Ok(())
    }

    /// Advances to the next queried value, if it can be located quickly, and returns its size in
    /// bytes. Otherwise returns `None`, and [`step`](Self::step) has to find the value.
    #[inline]
    fn next_at_once(&mut self) -> Option<u64> {
        let level = self.levels.last().filter(|level| level.is_quick)?;
        let (tag, depth) = (level.tag?, self.levels.len());
        let frame = self.frames.get_mut(depth - 1)?;
        while frame.picked.contains(&frame.next) {
            self.cursor.set_range(frame.left.clone());
            let (start, element) = self.cursor.next_alike(tag)?;
            let value = level.at_once(self.cursor.input(), &element)?;
            frame.left.start = element.end;
            frame.select = Select::Index(frame.next);
            frame.next += 1;
            if let Some(value) = value {
                self.met = start..element.end;
                frame.element.clear();
                frame.element.push(element);
                let size = value.end - value.start;
                self.last.clear();
                self.last.push(value);
                self.wire = Some(level.wire_at_once());
                return Some(size);
            }
        }
        None
    }

    /// Advances the level with the index `depth` to its next selected element that contains the
    /// queried value. Returns false if there is no such element.
    fn step(&mut self, depth: usize) -> Result<bool> {
        let (level, frame) = (&self.levels[depth], &mut self.frames[depth]);
        loop {
            if frame.next >= frame.picked.end {
                return Ok(false);
            }
            let passed = frame.picked.start.checked_sub(frame.next);
            let passed = passed.filter(|&passed| passed > 0);
            if let Some(packed) = level.packed
                && !frame.run.is_empty()
            {
                if let Some(most) = passed {
                    frame.next += packed.skip(&mut self.cursor, &mut frame.run, most)?;
                    continue;
                }
                let number = packed.first(&mut self.cursor, &frame.run)?;
                let number = number.ok_or_else(|| broken(&frame.run))?;
                frame.run.start = number.end;
                frame.select = Select::Index(frame.next);
                frame.next += 1;
                frame.element.clear();
                frame.element.push(number);
                self.last.clone_from(&frame.element);
                self.wire = level.wire;
                return Ok(true);
            }
            self.cursor.set_range(frame.left.clone());
            if let Some(most) = passed.filter(|_| level.packed.is_none()) {
                let (cursor, number) = (&mut self.cursor, FieldNumber(level.number));
                let passing = frame
                    .passing
                    .get_or_insert_with(|| RunCursor::new(cursor, number));
                frame.next += passing.pass(&mut self.cursor, most);
            }
            let alike = level.tag.and_then(|tag| self.cursor.next_alike(tag));
            let met = match alike {
                Some((start, value)) => Some(Field {
                    number: FieldNumber(level.number),
                    wire_type: WireType::Len,
                    start,
                    tag_end: start + 1,
                    end: value.end,
                    value,
                }),
                None => self.cursor.next()?,
            };
            let Some(met) = met else {
                match frame.pieces.next() {
                    Some(piece) => (frame.left, frame.passing) = (piece, None),
                    None => return Ok(false),
                }
                continue;
            };
            frame.left.start = met.end;
            if !level.takes(&met) {
                continue;
            }
            if level.is_run(&met) {
                self.met = met.start..met.end;
                frame.run = met.value;
                continue;
            }
            let index = frame.next;
            frame.next += 1;
            if index < frame.picked.start {
                continue;
            }
            frame.select = Select::Index(index);
            self.met = met.start..met.end;
            self.last.clear();
            if let Some(map) = level.field.as_ref().filter(|_| level.is_map) {
                let (select, value) = entry(&mut self.cursor, &met, map)?;
                frame.select = select;
                (self.last, self.wire) = (value.pieces, value.wire);
            } else {
                self.last.push(met.value);
                self.wire = Some(met.wire_type);
            }
            if !level.is_picked(&mut self.cursor, &self.last)? {
                continue;
            }
            frame.element.clone_from(&self.last);
            if level.rest.is_root() {
                return Ok(true);
            }
            let pieces = std::mem::take(&mut self.last);
            let found = level.way.follow(&mut self.cursor, pieces)?;
            if let Some(found) = found {
                (self.last, self.wire) = (found.pieces, found.wire);
                return Ok(true);
            }
        }
    }
}

impl Iterator for Selected<'_> {
    /// Size of a selected value, in bytes.
    type Item = Result<u64>;

    #[inline]
    fn next(&mut self) -> Option<Result<u64>> {
        if let Some(size) = self.next_at_once() {
            return Some(Ok(size));
        }
        let next = self.advance();
        let next = next.map_err(|error| self.cursor.input_mut().damage_first(error));
        if next.is_err() {
            self.frames.clear();
        }
        next.transpose()
    }
}

impl std::iter::FusedIterator for Selected<'_> {}

/// Returns the key and the value of a map entry.
fn entry<I: Input>(
    cursor: &mut WireCursor<I>,
    entry: &Field,
    map: &FieldRef,
) -> Result<(Select, Found)> {
    let codec = key_codec(map).ok_or_else(|| {
        let message = "the map has an invalid key type";
        Error::new(ErrorKind::InvalidSchema, message)
    })?;
    let key = with_key(cursor, entry, KeyForm::Typed(codec), |key| codec.key(key))?;
    let kind = value_kind(map);
    let wire = kind.as_ref().map(|kind| wire_type(kind, false));
    let mut found = entry_value(cursor, entry, wire)?;
    let pieces = &mut found.pieces;
    // If a value that isn't a message occurs several times, the last occurrence is used.
    if !matches!(kind, Some(Kind::Message(_))) && pieces.len() > 1 {
        pieces.drain(..pieces.len() - 1);
    }
    if pieces.is_empty() {
        pieces.push(entry.value.end..entry.value.end);
    }
    found.wire = wire;
    Ok((Select::Key(key), found))
}
