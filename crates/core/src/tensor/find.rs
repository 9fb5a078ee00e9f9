//! All tensors of a message, found by hopping: no element is read.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};
use record_file::ReadAt;

use super::stored::Header;
use super::{Location, TensorInfo, TensorRule};
use crate::merge::MergePlan;
use crate::path::{FieldPath, FieldRef, KeyCodec, KeyForm, Select, Step, key_codec, with_key};
use crate::size_tree::MemberFields;
use crate::view::MessageView;
use crate::wire::{Field, FieldNumber, Input, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// The longest name that counts, in bytes.
const LONGEST_NAME: usize = 64 << 10;

/// A type whose messages are on the way to tensors.
struct TypeOnTheWay {
    /// The fields that lead on, by their numbers.
    fields: HashMap<u32, FieldOnTheWay>,
    /// Where messages of it have a name that counts.
    name: Option<&'static [u32]>,
    rule: Option<&'static TensorRule>,
}

struct FieldOnTheWay {
    target: usize,
    many: Many,
}

/// How the values of a field are told apart.
#[derive(Clone, Copy)]
enum Many {
    One,
    Elements,
    Entries(KeyCodec),
}

/// The types on the way from a root to tensors. The first is the root.
struct Types {
    types: Vec<TypeOnTheWay>,
}

impl Types {
    fn from(root: &MessageDescriptor, rules: &[&'static TensorRule]) -> Types {
        let leads = leading(root, rules);
        let mut types = Types { types: Vec::new() };
        types.add(root, rules, &leads, &mut HashMap::new());
        types
    }

    fn add(
        &mut self,
        message: &MessageDescriptor,
        rules: &[&'static TensorRule],
        leads: &HashSet<String>,
        known: &mut HashMap<String, usize>,
    ) -> usize {
        let full_name = message.full_name();
        if let Some(&at) = known.get(full_name) {
            return at;
        }
        let at = self.types.len();
        known.insert(full_name.to_owned(), at);
        let names = rules.iter().flat_map(|rule| rule.names);
        let name = names.clone().find(|(of, _)| *of == full_name);
        self.types.push(TypeOnTheWay {
            fields: HashMap::new(),
            name: name.map(|(_, path)| *path),
            rule: rules.iter().copied().find(|rule| rule.message == full_name),
        });
        for (field, below) in fields_below(message) {
            if !leads.contains(below.full_name()) {
                continue;
            }
            let many = match key_codec(&field) {
                Some(codec) => Many::Entries(codec),
                None if field.is_list() => Many::Elements,
                None => Many::One,
            };
            let target = self.add(&below, rules, leads, known);
            let field_on_the_way = FieldOnTheWay { target, many };
            self.types[at]
                .fields
                .insert(field.number(), field_on_the_way);
        }
        at
    }
}

/// The types that tensors are in, or below.
pub(crate) fn leading(root: &MessageDescriptor, rules: &[&'static TensorRule]) -> HashSet<String> {
    // Edges from a type to those that have it in a field, walked back from the tensors.
    let mut above: HashMap<String, Vec<String>> = HashMap::new();
    let mut all = vec![root.clone()];
    let mut seen: HashSet<String> = HashSet::from([root.full_name().to_owned()]);
    while let Some(message) = all.pop() {
        for (_, below) in fields_below(&message) {
            let name = below.full_name().to_owned();
            let holders = above.entry(name.clone()).or_default();
            holders.push(message.full_name().to_owned());
            if seen.insert(name) {
                all.push(below);
            }
        }
    }
    let tensors = rules.iter().map(|rule| rule.message.to_owned());
    let mut next: Vec<String> = tensors.filter(|name| seen.contains(name)).collect();
    let mut leads = HashSet::new();
    while let Some(name) = next.pop() {
        if leads.insert(name.clone()) {
            next.extend(above.get(&name).into_iter().flatten().cloned());
        }
    }
    leads
}

/// The fields of a type that hold messages, with the types of those; of a map the values'.
fn fields_below(
    message: &MessageDescriptor,
) -> impl Iterator<Item = (FieldRef, MessageDescriptor)> {
    let numbers: Vec<u32> = message
        .fields()
        .map(|field| field.number())
        .chain(message.extensions().map(|extension| extension.number()))
        .collect();
    numbers.into_iter().filter_map(|number| {
        let field = FieldRef::by_number(message, number)?;
        let Kind::Message(below) = field.kind() else {
            return None;
        };
        if !field.is_map() {
            return Some((field, below));
        }
        match below.map_entry_value_field().kind() {
            Kind::Message(value) => Some((field, value)),
            _ => None,
        }
    })
}

/// All tensors of a message, in the order of its bytes, by what the rules say.
///
/// A tensor is called as its [rule](TensorRule::names) says. One whose name another before it has,
/// or that has none, is called by its path. Nothing is found in a message whose type isn't known.
///
/// # Errors
///
/// If reading fails, or a message on the way to a tensor breaks the wire format;
/// [`ErrorKind::LimitExceeded`] if messages nest too deep.
pub fn tensors_in<S: ReadAt>(
    view: &MessageView<'_, S>,
    rules: &[&'static TensorRule],
) -> Result<Vec<TensorInfo>> {
    let found = placed_tensors_in(view, rules)?;
    Ok(found.tensors.into_iter().map(|one| one.info).collect())
}

/// The tensors of a message, and what their places are counted in.
#[derive(Debug, Default)]
pub(crate) struct PlacedTensors {
    pub(crate) tensors: Vec<PlacedTensor>,
    /// How the message is put together, if it is in chunks.
    pub(crate) plan: Option<MergePlan>,
}

/// A tensor of a message, and where its elements are.
#[derive(Debug)]
pub(crate) struct PlacedTensor {
    pub(crate) info: TensorInfo,
    /// The bytes of the message, as the plan puts it together, that are the elements; none if these
    /// don't stand there as they are in memory, in one piece.
    pub(crate) place: Option<Range<u64>>,
}

/// [`tensors_in`], and where each is.
pub(crate) fn placed_tensors_in<S: ReadAt>(
    view: &MessageView<'_, S>,
    rules: &[&'static TensorRule],
) -> Result<PlacedTensors> {
    let Some(root) = view.descriptor() else {
        return Ok(PlacedTensors::default());
    };
    let types = Types::from(root, rules);
    if types.types.iter().all(|known| known.rule.is_none()) {
        return Ok(PlacedTensors::default());
    }
    let cursor = WireCursor::new(view.unwatched()?);
    let range = 0..cursor.end();
    let mut search = Search {
        cursor,
        types: &types,
        root,
        path: FieldPath::root(),
        names: Vec::new(),
        found: Vec::new(),
        taken: HashSet::new(),
    };
    let searched = search.message(range, 0, view.walked_depth());
    let Search { cursor, found, .. } = search;
    let mut portion = cursor.into_input();
    searched.map_err(|error| portion.damage_first(error))?;
    Ok(PlacedTensors {
        tensors: found,
        plan: portion.plan().cloned(),
    })
}

struct Search<'a, I> {
    cursor: WireCursor<I>,
    types: &'a Types,
    root: &'a MessageDescriptor,
    path: FieldPath,
    names: Vec<String>,
    found: Vec<PlacedTensor>,
    taken: HashSet<String>,
}

impl<I: Input> Search<'_, I> {
    fn message(&mut self, range: Range<u64>, of: usize, levels: u32) -> Result<()> {
        let known = &self.types.types[of];
        let levels = levels.checked_sub(1).ok_or_else(|| {
            let message = "messages nest too deep on the way to a tensor";
            Error::new(ErrorKind::LimitExceeded, message).at_path(self.shown())
        })?;
        let named = match known.name {
            Some(path) => self.name(range.clone(), path)?,
            None => None,
        };
        let is_named = named.is_some();
        self.names.extend(named);
        match known.rule {
            Some(rule) => self.tensor(range, rule)?,
            None => self.fields(range, known, levels)?,
        }
        if is_named {
            self.names.pop();
        }
        Ok(())
    }

    fn fields(&mut self, range: Range<u64>, known: &TypeOnTheWay, levels: u32) -> Result<()> {
        let mut counts: HashMap<u32, u64> = HashMap::new();
        self.cursor.set_range(range.clone());
        while let Some(field) = self.next()? {
            let Some(way) = known.fields.get(&field.number.0) else {
                continue;
            };
            if !matches!(field.wire_type, WireType::Len | WireType::StartGroup) {
                continue;
            }
            let count = counts.entry(field.number.0).or_insert(0);
            let index = *count;
            *count += 1;
            let end = field.end;
            if let Some((select, value)) = self.value(field.clone(), way.many, index)? {
                self.path.push(Step {
                    field: field.number,
                    select,
                });
                self.message(value, way.target, levels)?;
                self.path.pop();
            }
            self.cursor.set_range(end..range.end);
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Field>> {
        let next = self.cursor.next();
        next.map_err(|error| error.at_path(self.shown()))
    }

    /// What a field's value is told from others by, and where the message in it is.
    fn value(
        &mut self,
        field: Field,
        many: Many,
        index: u64,
    ) -> Result<Option<(Select, Range<u64>)>> {
        let codec = match many {
            Many::One => return Ok(Some((Select::Field, field.value))),
            Many::Elements => return Ok(Some((Select::Index(index), field.value))),
            Many::Entries(codec) => codec,
        };
        let key = with_key(&mut self.cursor, &field, KeyForm::Typed(codec), |key| {
            codec.key(key)
        })?;
        self.cursor.set_range(field.value);
        let mut value = None;
        while let Some(part) = self.next()? {
            if part.number == FieldNumber(2) && part.wire_type == WireType::Len {
                value = Some(part.value);
            }
        }
        Ok(value.map(|value| (Select::Key(key), value)))
    }

    fn name(&mut self, range: Range<u64>, path: &[u32]) -> Result<Option<String>> {
        let mut fields = MemberFields::new(self.cursor.input_mut(), range, LONGEST_NAME);
        let name = fields.bytes(path, LONGEST_NAME)?;
        let name = name.filter(|name| !name.is_empty());
        Ok(name.map(|name| String::from_utf8_lossy(&name).into_owned()))
    }

    fn tensor(&mut self, range: Range<u64>, rule: &'static TensorRule) -> Result<()> {
        let header = Header::read(&mut self.cursor, &[range], rule);
        let header = header.map_err(|error| error.at_path(self.shown()))?;
        let text = self.shown();
        let name = match self.names.join("/") {
            name if name.is_empty() || self.taken.contains(&name) => text.clone(),
            name => name,
        };
        self.taken.insert(name.clone());
        let location = Location::Message {
            path: self.path.clone(),
            text,
        };
        self.found.push(PlacedTensor {
            info: header.info(name, rule, location),
            place: header.place(rule),
        });
        Ok(())
    }

    fn shown(&self) -> String {
        self.path.display(Some(self.root))
    }
}
