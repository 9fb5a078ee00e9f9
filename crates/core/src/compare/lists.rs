//! Comparing the elements of repeated fields: by name, or else by content.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;

use prost_reflect::Kind;

use super::difference::DifferenceKind;
use super::elements::{Occurrences, Runs};
use super::matching::{Match, by_content, by_key};
use super::walk::{Sides, Walk, first_byte};
use crate::Result;
use crate::path::{FieldRef, Step};
use crate::view::{MemberFields, name_field};
use crate::wire::{Input, WireCursor};

/// Maximum number of elements to match in each list, counted from the first difference. Each
/// element uses 32 bytes of memory. Longer lists are compared index by index.
const MOST_MATCHED: usize = 1 << 20;

/// Maximum size of an element's name, in bytes.
const LONGEST_NAME: usize = 4 << 10;

/// Maximum length of a name in a report, in characters. Longer names are shortened.
const SHOWN_NAME: usize = 200;

/// The elements of a field, and the field that contains their names.
struct List<'a> {
    field: &'a FieldRef,
    kind: Kind,
    /// Field numbers of the path from an element to its name; `None` if elements have no name
    /// field.
    name: Option<Vec<u32>>,
    hashes: RandomState,
    depth: u32,
}

/// An element to match.
struct Element {
    value: Range<u64>,
    /// Hash of the element's name or content.
    hash: u64,
}

/// The remaining elements of two lists, from an index on. All earlier elements have been compared.
struct Rest<'a> {
    index: u64,
    a: Occurrences<'a>,
    b: Occurrences<'a>,
}

impl Walk<'_> {
    /// Compares the non-numeric elements of a repeated field.
    pub(super) fn elements<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        field: &FieldRef,
        a: &Runs,
        b: &Runs,
        depth: u32,
    ) -> Result<()> {
        let kind = field.kind();
        let name = match &kind {
            Kind::Message(message) => name_field(message),
            _ => None,
        };
        let list = List {
            field,
            kind,
            name,
            hashes: RandomState::new(),
            depth,
        };
        let Some(rest) = self.in_step(sides, &list, a, b)? else {
            return Ok(());
        };
        match self.matches(sides, &list, &rest)? {
            Some((of_a, of_b, matches)) => {
                for found in matches {
                    if self.is_full() {
                        return Ok(());
                    }
                    self.matched(sides, &list, rest.index, (&of_a, &of_b), found)?;
                }
                Ok(())
            }
            None => self.one_by_one(sides, &list, rest),
        }
    }

    /// Compares the elements of two lists index by index, up to the first index at which the
    /// elements are different and don't have the same name, or only one list has an element.
    /// Returns the remaining elements, from this index on; `None` if the comparison is complete.
    fn in_step<'a, I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        list: &List<'_>,
        a: &'a Runs,
        b: &'a Runs,
    ) -> Result<Option<Rest<'a>>> {
        let mut rest = Rest {
            index: 0,
            a: Occurrences::of(a),
            b: Occurrences::of(b),
        };
        while !self.is_full() {
            let (at_a, at_b) = (rest.a.clone(), rest.b.clone());
            let (a, b) = match (rest.a.next(&mut sides.a)?, rest.b.next(&mut sides.b)?) {
                (None, None) => return Ok(None),
                (Some(a), Some(b)) => (a.value, b.value),
                _ => {
                    return Ok(Some(Rest {
                        a: at_a,
                        b: at_b,
                        ..rest
                    }));
                }
            };
            if first_byte(sides, &a, &b, self.meter())?.is_some() {
                let named = list.name(&mut sides.a, &a)?;
                if named.is_none() || named != list.name(&mut sides.b, &b)? {
                    return Ok(Some(Rest {
                        a: at_a,
                        b: at_b,
                        ..rest
                    }));
                }
                self.element(sides, list, rest.index, &a, &b)?;
            }
            rest.index += 1;
        }
        Ok(None)
    }

    /// Matches the remaining elements of two lists. Returns `None` if a list has more than
    /// [`MOST_MATCHED`] remaining elements.
    #[allow(
        clippy::type_complexity,
        reason = "the two lists, and the pairs of their elements"
    )]
    fn matches<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        list: &List<'_>,
        rest: &Rest<'_>,
    ) -> Result<Option<(Vec<Element>, Vec<Element>, Vec<Match>)>> {
        if list.name.is_some() {
            let a = list.collect(&mut sides.a, rest.a.clone(), true)?;
            let b = list.collect(&mut sides.b, rest.b.clone(), true)?;
            if let (Some(a), Some(b)) = (a, b)
                && let Some(matches) = by_key(&hashes(&a), &hashes(&b))
            {
                return Ok(Some((a, b, matches)));
            }
        }
        let a = list.collect(&mut sides.a, rest.a.clone(), false)?;
        let b = list.collect(&mut sides.b, rest.b.clone(), false)?;
        let (Some(a), Some(b)) = (a, b) else {
            return Ok(None);
        };
        let matches = by_content(&hashes(&a), &hashes(&b));
        Ok(Some((a, b, matches)))
    }

    fn matched<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        list: &List<'_>,
        first: u64,
        (of_a, of_b): (&[Element], &[Element]),
        found: Match,
    ) -> Result<()> {
        let index = |at: usize| first.saturating_add(at as u64);
        let number = list.field.number();
        match found {
            Match::First(at) => {
                if let Some(a) = of_a.get(at) {
                    let name = list.shown_name(&mut sides.a, &a.value)?;
                    let step = Step::index(number, index(at));
                    self.add_named(step, DifferenceKind::OnlyInFirst, name);
                }
            }
            Match::Second(at) => {
                if let Some(b) = of_b.get(at) {
                    let name = list.shown_name(&mut sides.b, &b.value)?;
                    let step = Step::index(number, index(at));
                    self.add_named(step, DifferenceKind::OnlyInSecond, name);
                }
            }
            Match::Both(at, other) | Match::Moved(at, other) => {
                let (Some(a), Some(b)) = (of_a.get(at), of_b.get(other)) else {
                    return Ok(());
                };
                if let Match::Moved(..) = found {
                    let name = list.shown_name(&mut sides.a, &a.value)?;
                    let moved = DifferenceKind::Moved(index(at), index(other));
                    self.add_named(Step::index(number, index(at)), moved, name);
                }
                self.element(sides, list, index(at), &a.value, &b.value)?;
            }
        }
        Ok(())
    }

    /// Compares elements with the same index, and then the lengths of the lists.
    fn one_by_one<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        list: &List<'_>,
        rest: Rest<'_>,
    ) -> Result<()> {
        let Rest {
            index,
            a: mut of_a,
            b: mut of_b,
        } = rest;
        let from = Some((index, index));
        let next =
            |sides: &mut Sides<I, J>| Ok((of_a.next(&mut sides.a)?, of_b.next(&mut sides.b)?));
        self.in_pairs(sides, list.field, from, next, |walk, sides, at, a, b| {
            walk.element(sides, list, at, &a.value, &b.value)
        })
    }

    fn element<I: Input, J: Input>(
        &mut self,
        sides: &mut Sides<I, J>,
        list: &List<'_>,
        index: u64,
        a: &Range<u64>,
        b: &Range<u64>,
    ) -> Result<()> {
        let step = Step::index(list.field.number(), index);
        let (a, b) = (a.clone(), b.clone());
        match &list.kind {
            Kind::Message(message) => {
                self.below(step, sides, &[a], &[b], Some(message), list.depth)
            }
            kind => self.text_or_bytes(sides, step, kind, &a, &b),
        }
    }
}

impl List<'_> {
    /// Returns the name of an element, if it has one.
    fn name<I: Input>(
        &self,
        cursor: &mut WireCursor<I>,
        value: &Range<u64>,
    ) -> Result<Option<Vec<u8>>> {
        let Some(path) = &self.name else {
            return Ok(None);
        };
        let mut fields = MemberFields::new(cursor.input_mut(), value.clone(), LONGEST_NAME);
        let name = fields.bytes(path, LONGEST_NAME)?;
        Ok(name.filter(|name| !name.is_empty()))
    }

    fn shown_name<I: Input>(
        &self,
        cursor: &mut WireCursor<I>,
        value: &Range<u64>,
    ) -> Result<Option<String>> {
        let name = self.name(cursor, value)?;
        Ok(name.map(|name| {
            let name = String::from_utf8_lossy(&name);
            match name.char_indices().nth(SHOWN_NAME) {
                Some((end, _)) => format!("{}…", &name[..end]),
                None => name.into_owned(),
            }
        }))
    }

    /// Collects the remaining elements. Returns `None` if there are too many, or if `by_name` is
    /// true and an element has no name.
    fn collect<I: Input>(
        &self,
        cursor: &mut WireCursor<I>,
        mut rest: Occurrences<'_>,
        by_name: bool,
    ) -> Result<Option<Vec<Element>>> {
        let mut elements = Vec::new();
        while let Some(field) = rest.next(cursor)? {
            if elements.len() == MOST_MATCHED {
                return Ok(None);
            }
            let value = field.value;
            let hash = if by_name {
                match self.name(cursor, &value)? {
                    Some(name) => self.hashes.hash_one(name),
                    None => return Ok(None),
                }
            } else {
                self.content(cursor, &value)?
            };
            elements.push(Element { value, hash });
        }
        Ok(Some(elements))
    }

    fn content<I: Input>(&self, cursor: &mut WireCursor<I>, value: &Range<u64>) -> Result<u64> {
        let mut hasher = self.hashes.build_hasher();
        cursor.read_pieces(value.clone(), |bytes| {
            hasher.write(bytes);
            Ok(())
        })?;
        hasher.write_u64(value.end - value.start);
        Ok(hasher.finish())
    }
}

fn hashes(elements: &[Element]) -> Vec<u64> {
    elements.iter().map(|element| element.hash).collect()
}
