//! Batches of elements that are copied from the message, to be converted to columns.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_splitter_core::path::{MapKey, Select};
use proto_splitter_core::view::{RunSize, Selected};
use proto_splitter_core::wire::Field;
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::fields::Origin;
use crate::shape::MessageShape;

/// Size of an element, in bytes, above which only the element's fields that become columns are
/// copied. The element's other fields may have any size.
const LARGE: u64 = 64 << 10;

/// Maximum number of bytes of one element to copy to memory.
const MOST_HELD: u64 = 1 << 30;

/// Maximum size, in bytes, of a buffer that is kept to be used for another unit.
const MOST_SPARE: usize = 32 << 20;

/// A batch of elements, and of the parents of these elements.
#[derive(Default)]
pub(crate) struct Unit {
    pub(crate) elements: Elements,
    /// Parents of the elements, for each list, map or message on the query's path.
    pub(crate) levels: Vec<LevelUnit>,
}

impl Unit {
    /// Returns the size of the elements and of their parents, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let levels = self.levels.iter();
        let parents: usize = levels.map(|level| level.elements.bytes.len()).sum();
        self.elements.bytes.len() + parents
    }

    fn is_full(&self, size: UnitSize) -> bool {
        // Otherwise the next parent, of up to `MOST_HELD` bytes, might not fit.
        let has_no_room = |level: &LevelUnit| {
            let elements = &level.elements;
            elements.before_last() > 0 && elements.bytes.len() as u64 >= MOST_HELD
        };
        self.elements.len() >= size.rows
            || self.counted() >= size.bytes
            || self.levels.iter().any(has_no_room)
    }

    /// Returns the number of bytes that count toward the unit's maximum. The current parents don't
    /// count, since the next unit would need another copy of them for their other rows.
    fn counted(&self) -> usize {
        let levels = self.levels.iter();
        let parents: usize = levels.map(|level| level.elements.before_last()).sum();
        self.elements.bytes.len() + parents
    }
}

/// The buffers of finished units, for use by other units. Allocating new memory would be slower,
/// since the system clears each page.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<Elements>>);

impl Spare {
    /// Returns the emptied buffers of a finished unit or, if there are none, new buffers.
    fn take(&self) -> Elements {
        self.lock().pop().unwrap_or_default()
    }

    /// Keeps the buffers of a finished unit, unless they are larger than [`MOST_SPARE`].
    pub(crate) fn give(&self, unit: Unit) {
        let mut elements = unit.elements;
        if elements.bytes.capacity() > MOST_SPARE {
            return;
        }
        elements.bytes.clear();
        elements.places.clear();
        elements.partial.clear();
        self.lock().push(elements);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Elements>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parents of a unit's rows at one position of the query's path, and the rows of each parent.
#[derive(Default)]
pub(crate) struct LevelUnit {
    /// The parents, each with only the fields that become columns. A parent has no bytes if there
    /// are no such fields.
    pub(crate) elements: Elements,
    pub(crate) indices: Vec<u64>,
    pub(crate) keys: Vec<MapKey>,
    /// For each parent, the index after that of the parent's last row, in ascending order. `None`
    /// at the last position of the query's path, where each element is a row itself.
    pub(crate) ends: Option<Vec<usize>>,
}

/// Encoded messages or values, copied to a buffer.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    /// Buffer with the bytes of the elements, and possibly with other bytes between them.
    pub(crate) bytes: Vec<u8>,
    places: Vec<Place>,
    /// Indices, in ascending order, of elements that are incomplete, or in several pieces in the
    /// message.
    partial: Vec<usize>,
}

/// The position of an element in the message and in the buffer.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Offset of the element in the message.
    start: u64,
    /// Offset of the element in the buffer.
    begin: u32,
    len: u32,
}

impl Elements {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn range(&self, at: usize) -> Range<usize> {
        let place = self.places[at];
        let [begin, len] = [place.begin, place.len].map(|part| part as usize);
        begin..begin + len
    }

    /// Returns the number of bytes before the last element.
    fn before_last(&self) -> usize {
        self.places.last().map_or(0, |last| last.begin as usize)
    }

    pub(crate) fn origin(&self, at: usize) -> Origin {
        Origin {
            begin: self.range(at).start,
            start: self.places[at].start,
            is_exact: self.partial.binary_search(&at).is_err(),
        }
    }

    /// Adds an element whose bytes are in the buffer, from `begin` to the buffer's end.
    fn end(&mut self, start: u64, begin: usize, is_exact: bool) -> Result<()> {
        let size = self.bytes.len();
        // This also ensures that the bytes of a column's values can have offsets of type `i32`.
        if i32::try_from(size).is_err() {
            let message = "more than 2 GiB of elements in one part of a column";
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(start));
        }
        if !is_exact {
            self.partial.push(self.len());
        }
        self.places.push(place(start, begin..size));
        Ok(())
    }
}

/// Returns the position of an element that starts at the offset `start` in the message, and is at
/// `range` in a buffer of less than 4 GiB.
fn place(start: u64, range: Range<usize>) -> Place {
    let part = |part: usize| u32::try_from(part).unwrap_or(u32::MAX);
    Place {
        start,
        begin: part(range.start),
        len: part(range.len()),
    }
}

/// The number of rows and the number of bytes, including those of the rows' parents, at which a
/// [`Unit`] is complete. Reaching one of them is enough. The last element and its parents may bring
/// the unit over the number of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitSize {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

/// An iterator that gathers the elements that a query selects into [`Unit`]s.
pub(crate) struct Walk<'a> {
    selected: Selected<'a>,
    /// The elements' fields that become columns; `None` if the elements aren't messages.
    shape: Option<Arc<MessageShape>>,
    levels: Vec<LevelWalk>,
    size: UnitSize,
    spare: &'a Spare,
    is_done: bool,
}

/// The current parent at one position of the query's path.
struct LevelWalk {
    /// Those fields of a parent at this position that become columns; `None` if there are none.
    shape: Option<Arc<MessageShape>>,
    /// True at the last position of the query's path, where the elements are the rows.
    is_row: bool,
    /// Offset of the parent in the message; `None` before the first parent.
    start: Option<u64>,
    /// Copied fields of the parent, which are added to each unit that has rows of this parent.
    fields: Vec<u8>,
    is_in_unit: bool,
}

impl<'a> Walk<'a> {
    /// Creates an iterator. For each position of the query's path, `levels` contains the fields
    /// that become columns, and true if the elements at this position are the rows.
    pub(crate) fn new(
        selected: Selected<'a>,
        shape: Option<Arc<MessageShape>>,
        levels: impl Iterator<Item = (Option<Arc<MessageShape>>, bool)>,
        size: UnitSize,
        spare: &'a Spare,
    ) -> Self {
        let levels = levels.map(|(shape, is_row)| LevelWalk {
            shape,
            is_row,
            start: None,
            fields: Vec::new(),
            is_in_unit: false,
        });
        Walk {
            selected,
            shape,
            levels: levels.collect(),
            size,
            spare,
            is_done: false,
        }
    }

    fn unit(&mut self) -> Result<Option<Unit>> {
        let mut unit = Unit {
            elements: self.spare.take(),
            levels: Vec::with_capacity(self.levels.len()),
        };
        for level in &mut self.levels {
            level.is_in_unit = false;
            unit.levels.push(LevelUnit {
                ends: (!level.is_row).then(Vec::new),
                ..LevelUnit::default()
            });
        }
        while let Some(size) = self.selected.next().transpose()? {
            self.add(&mut unit, size)?;
            self.add_run(&mut unit);
            if unit.is_full(self.size) {
                return Ok(Some(unit));
            }
        }
        self.is_done = true;
        Ok(Some(unit).filter(|unit| unit.elements.len() > 0))
    }

    /// Adds the elements that follow the unit's last element, as long as they are adjacent in the
    /// message and already in memory. They have the same parents as the last element.
    fn add_run(&mut self, unit: &mut Unit) {
        if unit.is_full(self.size) {
            return;
        }
        let (rows, bytes) = (unit.elements.len(), unit.counted());
        let size = RunSize {
            elements: self.size.rows - rows,
            bytes: self.size.bytes - bytes,
            large: LARGE,
        };
        let elements = &mut unit.elements;
        let places = &mut elements.places;
        let met = |start, range| places.push(place(start, range));
        self.selected.copy_run(size, &mut elements.bytes, met);
        let added = elements.len() - rows;
        for level in &mut unit.levels {
            level.add_run(added);
        }
    }

    fn add(&mut self, unit: &mut Unit, size: u64) -> Result<()> {
        let elements = &mut unit.elements;
        let (start, begin) = (self.selected.start(), elements.bytes.len());
        let mut is_exact = self.selected.is_in_one_piece();
        match &self.shape {
            Some(shape) if size > LARGE => {
                self.selected.fields_to(keep(shape), &mut elements.bytes)?;
                is_exact = false;
            }
            _ if size > MOST_HELD => return Err(too_large(size, start)),
            _ => self.selected.value_to(&mut elements.bytes)?,
        }
        elements.end(start, begin, is_exact)?;
        for (at, (level, unit)) in self.levels.iter_mut().zip(&mut unit.levels).enumerate() {
            level.add(at, &mut self.selected, unit)?;
        }
        Ok(())
    }
}

impl LevelUnit {
    /// Adds `rows` rows with the same parent as the last row. At the last position of the query's
    /// path, also adds an index for each row, continuing from the last index.
    fn add_run(&mut self, rows: usize) {
        if let Some(ends) = &mut self.ends {
            if let Some(end) = ends.last_mut() {
                *end += rows;
            }
        } else if let Some(&last) = self.indices.last() {
            // A range without an end would check for overflow at each element.
            let next = last.saturating_add(1);
            self.indices.extend(next..next.saturating_add(rows as u64));
        }
    }
}

impl LevelWalk {
    fn add(&mut self, at: usize, selected: &mut Selected<'_>, unit: &mut LevelUnit) -> Result<()> {
        let start = selected.element_start(at);
        let is_other = start != self.start;
        let is_new = is_other || !self.is_in_unit;
        if self.is_row || is_new {
            match selected.element(at) {
                Some(Select::Index(index)) => unit.indices.push(*index),
                Some(Select::Key(key)) => unit.keys.push(key.clone()),
                Some(Select::Field) | None => unit.indices.push(0),
            }
        }
        let Some(ends) = &mut unit.ends else {
            return Ok(());
        };
        if let Some(shape) = self.shape.as_ref().filter(|_| is_other) {
            self.fields.clear();
            selected.element_fields_to(at, keep(shape), &mut self.fields)?;
        }
        if is_new {
            (self.start, self.is_in_unit) = (start, true);
            let begin = unit.elements.bytes.len();
            unit.elements.bytes.extend_from_slice(&self.fields);
            unit.elements.end(start.unwrap_or_default(), begin, false)?;
            ends.push(ends.last().copied().unwrap_or_default());
        }
        if let Some(end) = ends.last_mut() {
            *end += 1;
        }
        Ok(())
    }
}

/// Returns a function that returns true for fields that become columns or affect columns. The
/// function fails once the total size of these fields exceeds [`MOST_HELD`].
fn keep(shape: &MessageShape) -> impl FnMut(&Field) -> Result<bool> {
    let mut held = 0;
    move |field| {
        if shape.slot(field.number.0).is_none() {
            return Ok(false);
        }
        held += field.end - field.start;
        if held > MOST_HELD {
            return Err(too_large(held, field.start));
        }
        Ok(true)
    }
}

fn too_large(size: u64, start: u64) -> Error {
    let message =
        format!("one element takes {size} bytes in columns, over the limit of {MOST_HELD}");
    let error = Error::new(ErrorKind::LimitExceeded, message).refusing_size();
    error.at_offset(start)
}

impl Iterator for Walk<'_> {
    type Item = Result<Unit>;

    fn next(&mut self) -> Option<Result<Unit>> {
        if self.is_done {
            return None;
        }
        let unit = self.unit();
        self.is_done |= unit.is_err();
        unit.transpose()
    }
}
