//! The search for tensors in a message.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use prost_reflect::MessageDescriptor;

use super::super::decode::TensorHeader;
use super::super::{Location, TensorRule};
use super::{LONGEST_NAME, MAX_LIST_MEMORY, Many, PlacedTensor, TypeOnTheWay, Types};
use crate::path::{FieldPath, KeyCodec, MapKey, Select, Step, valid_key};
use crate::view::size_tree::MemberFields;
use crate::wire::{Field, FieldNumber, Input, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

pub(super) struct Search<'a, I> {
    cursor: WireCursor<I>,
    types: &'a Types,
    root: &'a MessageDescriptor,
    path: FieldPath,
    names: Vec<String>,
    /// The tensors found so far; `None` in place of each tensor that a later value replaced.
    found: Vec<Option<Found>>,
    /// Approximate memory of the found tensors, in bytes.
    memory: usize,
    /// True if the tensors in `found` aren't in the order of their bytes.
    is_unordered: bool,
    /// True inside a singular message that is searched with all its occurrences. There, no singular
    /// field is searched before all its occurrences are known: searching fields twice at every
    /// level would take exponential time.
    defers: bool,
}

/// A tensor found in the message.
struct Found {
    /// Ranges of the tensor's own message within the whole message.
    pieces: Vec<Range<u64>>,
    /// Names of the enclosing messages and of the tensor, joined by `/`; empty if none has a name.
    name: String,
    path: FieldPath,
    text: String,
    header: TensorHeader,
    rule: &'static TensorRule,
}

impl Found {
    /// Returns the approximate memory for the tensor, including its entry in the set of used names,
    /// in bytes.
    fn memory(&self) -> usize {
        let texts = 2 * self.name.len() + 2 * self.text.len();
        let steps = size_of_val(self.path.steps());
        let pieces = size_of_val(self.pieces.as_slice());
        let own = size_of::<Self>() + size_of::<PlacedTensor>();
        own + texts + steps + pieces + self.header.memory()
    }
}

/// A value of a singular field: the ranges of its occurrences, and the range in [`Search::found`]
/// of the tensors in the first occurrence.
struct Singular {
    first: Range<u64>,
    more: Vec<Range<u64>>,
    found: Range<usize>,
}

impl<'a, I: Input> Search<'a, I> {
    pub(super) fn new(
        cursor: WireCursor<I>,
        types: &'a Types,
        root: &'a MessageDescriptor,
    ) -> Self {
        Search {
            cursor,
            types,
            root,
            path: FieldPath::root(),
            names: Vec::new(),
            found: Vec::new(),
            memory: 0,
            is_unordered: false,
            defers: false,
        }
    }

    /// Returns the tensors in the order of their bytes, after making their names unique.
    pub(super) fn end(self) -> (WireCursor<I>, Vec<PlacedTensor>) {
        let mut found: Vec<Found> = self.found.into_iter().flatten().collect();
        if self.is_unordered {
            found.sort_by_key(|tensor| tensor.pieces.first().map_or(0, |piece| piece.start));
        }
        let mut taken = HashSet::new();
        let placed = found.into_iter().map(|tensor| {
            let name = match tensor.name {
                name if name.is_empty() || taken.contains(&name) => tensor.text.clone(),
                name => name,
            };
            taken.insert(name.clone());
            let location = Location::Message {
                path: tensor.path,
                text: tensor.text,
            };
            let elements = tensor.header.place(tensor.rule);
            let info = tensor.header.info(name, tensor.rule, location);
            PlacedTensor::new(info, tensor.pieces).elements(elements)
        });
        (self.cursor, placed.collect())
    }

    /// Finds the tensors in a message whose bytes are at the ranges `pieces`. `of` is the index of
    /// the message's type in [`Types::types`]. Fails if messages nest deeper than `levels`.
    pub(super) fn message(&mut self, pieces: &[Range<u64>], of: usize, levels: u32) -> Result<()> {
        let types = self.types;
        let known = &types.types[of];
        let levels = levels.checked_sub(1).ok_or_else(|| {
            let message = "messages nest too deeply on the way to a tensor";
            Error::new(ErrorKind::LimitExceeded, message).at_path(self.shown())
        })?;
        let named = match known.name {
            Some(path) => self.name(pieces, path)?,
            None => None,
        };
        let is_named = named.is_some();
        self.names.extend(named);
        match known.rule {
            Some(rule) => self.tensor(pieces, rule)?,
            None => self.fields(pieces, known, levels)?,
        }
        if is_named {
            self.names.pop();
        }
        Ok(())
    }

    fn fields(&mut self, pieces: &[Range<u64>], known: &TypeOnTheWay, levels: u32) -> Result<()> {
        let mut counts: HashMap<u32, u64> = HashMap::new();
        let mut entries: HashMap<(u32, MapKey), Range<usize>> = HashMap::new();
        let mut singular: BTreeMap<u32, Singular> = BTreeMap::new();
        // For each oneof, the number of its last member.
        let mut chosen: HashMap<usize, u32> = HashMap::new();
        // If the message is in one piece, its singular fields are usually searched immediately.
        // Otherwise a singular field may continue in another piece, and with it the indices of
        // repeated fields inside it, so singular fields are searched last, with all their
        // occurrences.
        let in_one = pieces.len() == 1 && !self.defers;
        for piece in pieces {
            self.cursor.set_range(piece.clone());
            while let Some(field) = self.next()? {
                let number = field.number.0;
                if let Some((oneof, member)) = known.oneofs.get(&number)
                    && member.is_set_by(&mut self.cursor, &field)?
                    && let Some(before) = chosen.insert(*oneof, number)
                    && before != number
                    && let Some(gone) = singular.remove(&before)
                {
                    self.forget(gone.found);
                }
                let Some(way) = known.fields.get(&number) else {
                    continue;
                };
                if field.wire_type != way.wire {
                    continue;
                }
                let (end, value) = (field.end, field.value.clone());
                let step = |select| Step {
                    field: field.number,
                    select,
                };
                match way.many {
                    Many::One => match singular.get_mut(&number) {
                        Some(one) => {
                            one.more.push(value);
                            let found = std::mem::take(&mut one.found);
                            self.forget(found);
                        }
                        None => {
                            let found = if in_one {
                                let here = std::slice::from_ref(&value);
                                self.below(step(Select::Field), here, way.target, levels)?
                            } else {
                                0..0
                            };
                            let one = Singular {
                                first: value,
                                more: Vec::new(),
                                found,
                            };
                            singular.insert(number, one);
                        }
                    },
                    Many::Elements => {
                        let count = counts.entry(number).or_insert(0);
                        let select = Select::Index(*count);
                        *count += 1;
                        self.below(step(select), &[value], way.target, levels)?;
                    }
                    Many::Entries(codec) => {
                        let (key, value) = self.entry(&field, codec)?;
                        // If several entries have the same key, the last one is used.
                        let place = (number, key.clone());
                        let earlier = if entries.is_empty() {
                            None
                        } else {
                            entries.remove(&place)
                        };
                        self.forget(earlier.unwrap_or_default());
                        if !value.is_empty() {
                            let step = step(Select::Key(key));
                            let found = self.below(step, &value, way.target, levels)?;
                            if !found.is_empty() {
                                entries.insert(place, found);
                            }
                        }
                    }
                }
                self.cursor.set_range(end..piece.end);
            }
        }
        singular.retain(|_, one| !in_one || !one.more.is_empty());
        let defers = std::mem::replace(&mut self.defers, true);
        for (number, one) in singular {
            self.is_unordered = true;
            let Some(way) = known.fields.get(&number) else {
                continue;
            };
            let step = Step {
                field: FieldNumber(number),
                select: Select::Field,
            };
            let pieces = [vec![one.first], one.more].concat();
            self.below(step, &pieces, way.target, levels)?;
        }
        self.defers = defers;
        Ok(())
    }

    /// Finds the tensors in the value that `step` selects, and returns their range in `found`.
    fn below(
        &mut self,
        step: Step,
        pieces: &[Range<u64>],
        target: usize,
        levels: u32,
    ) -> Result<Range<usize>> {
        let from = self.found.len();
        self.path.push(step);
        self.message(pieces, target, levels)?;
        self.path.pop();
        Ok(from..self.found.len())
    }

    /// Removes the tensors in this range of the list of found tensors, since a later value has
    /// replaced them.
    fn forget(&mut self, found: Range<usize>) {
        for tensor in self.found.get_mut(found.clone()).into_iter().flatten() {
            if let Some(tensor) = tensor.take() {
                self.memory -= tensor.memory();
                self.memory += size_of::<Option<Found>>();
            }
        }
        if found.end == self.found.len() {
            self.memory -= found.len() * size_of::<Option<Found>>();
            self.found.truncate(found.start);
        }
    }

    fn next(&mut self) -> Result<Option<Field>> {
        let next = self.cursor.next();
        next.map_err(|error| error.at_path(self.shown()))
    }

    /// Returns the key of a map entry, and the ranges of the entry's value.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if the key isn't UTF-8, since the tensor could not be read at
    /// its path.
    fn entry(&mut self, field: &Field, codec: KeyCodec) -> Result<(MapKey, Vec<Range<u64>>)> {
        let key = valid_key(&mut self.cursor, field, codec).map_err(|error| {
            let map = Step {
                field: field.number,
                select: Select::Field,
            };
            let path = self.path.join(map);
            error
                .at_path(path.display(Some(self.root)))
                .at_offset(field.value.start)
        })?;
        self.cursor.set_range(field.value.clone());
        let mut value = Vec::new();
        while let Some(part) = self.next()? {
            if part.number == FieldNumber(2) && part.wire_type == WireType::Len {
                value.push(part.value);
            }
        }
        Ok((key, value))
    }

    /// Returns the name of a message: the value of the field at `path`, a path of field numbers. If
    /// several pieces of the message contain the field, the last of these pieces is used. Returns
    /// `None` if there is no name, or the name is empty.
    fn name(&mut self, pieces: &[Range<u64>], path: &[u32]) -> Result<Option<String>> {
        for piece in pieces.iter().rev() {
            let mut fields =
                MemberFields::new(self.cursor.input_mut(), piece.clone(), LONGEST_NAME);
            if let Some(name) = fields.bytes(path, LONGEST_NAME)? {
                let name = String::from_utf8_lossy(&name).into_owned();
                return Ok((!name.is_empty()).then_some(name));
            }
        }
        Ok(None)
    }

    fn tensor(&mut self, pieces: &[Range<u64>], rule: &'static TensorRule) -> Result<()> {
        let header = TensorHeader::read(&mut self.cursor, pieces, rule);
        let header = header.map_err(|error| error.at_path(self.shown()))?;
        let found = Found {
            pieces: pieces.to_vec(),
            name: self.names.join("/"),
            path: self.path.clone(),
            text: self.shown(),
            header,
            rule,
        };
        self.memory += found.memory();
        self.found.push(Some(found));
        if self.memory > MAX_LIST_MEMORY {
            let count = self.found.len();
            let message = format!(
                "the names, paths and shapes of {count} tensors and more take over {MAX_LIST_MEMORY} bytes"
            );
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        Ok(())
    }

    fn shown(&self) -> String {
        self.path.display(Some(self.root))
    }
}
