//! Finding all tensors in a message without reading any elements.

mod search;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use prost_reflect::MessageDescriptor;

use self::search::Search;
use super::{TensorInfo, TensorRule};
use crate::Result;
use crate::path::{FieldRef, KeyCodec, key_codec, message_below};
use crate::view::{MessageView, Portion, SingularField};
use crate::wire::{WireCursor, WireType};

/// Maximum size of a tensor's name, in bytes.
const LONGEST_NAME: usize = 64 << 10;

/// Maximum memory for the list of a message's tensors, in bytes: 256 MiB.
pub const MAX_LIST_MEMORY: usize = 256 << 20;

/// A message type that is a tensor or contains tensors, directly or nested.
struct TypeOnTheWay {
    /// The fields that lead to tensors, by field number.
    fields: HashMap<u32, FieldOnTheWay>,
    /// The members of each oneof in which any member leads to tensors, by field number, each with
    /// the index of the oneof. A later value of a member replaces the value of another member.
    oneofs: HashMap<u32, (usize, SingularField)>,
    /// Field numbers that lead to the name in a message of this type; `None` if that name isn't
    /// part of tensors' names.
    name: Option<&'static [u32]>,
    rule: Option<&'static TensorRule>,
}

struct FieldOnTheWay {
    target: usize,
    many: Many,
    /// Wire type of the values. Parsers treat a field with another wire type as unknown.
    wire: WireType,
}

/// The kind of a field, which determines whether the path step to a value has an index, a key, or
/// neither.
#[derive(Clone, Copy)]
enum Many {
    One,
    Elements,
    Entries(KeyCodec),
}

/// The message types on the paths from a root message to tensors. The first is the root's type.
struct Types {
    types: Vec<TypeOnTheWay>,
}

impl Types {
    fn from(root: &MessageDescriptor, rules: &[&'static TensorRule]) -> Types {
        let leads = leading(root, rules);
        let mut types = Vec::new();
        // The messages of `types`, and then those that are still to be added. A list replaces
        // recursion, since chains of types can be long.
        let mut messages = vec![root.clone()];
        let mut known = HashMap::from([(root.full_name().to_owned(), 0)]);
        while let Some(message) = messages.get(types.len()).cloned() {
            let full_name = message.full_name();
            let mut names = rules.iter().flat_map(|rule| rule.names);
            let name = names.find(|(of, _)| *of == full_name);
            let mut fields = HashMap::new();
            for (field, below) in fields_below(&message) {
                if !leads.contains(below.full_name()) {
                    continue;
                }
                let many = match key_codec(&field) {
                    Some(codec) => Many::Entries(codec),
                    None if field.is_list() => Many::Elements,
                    None => Many::One,
                };
                let target = *known
                    .entry(below.full_name().to_owned())
                    .or_insert(messages.len());
                if target == messages.len() {
                    messages.push(below);
                }
                let wire = field.wire_type();
                fields.insert(field.number(), FieldOnTheWay { target, many, wire });
            }
            types.push(TypeOnTheWay {
                oneofs: oneofs(&message, &fields),
                fields,
                name: name.map(|(_, path)| *path),
                rule: rules.iter().copied().find(|rule| rule.message == full_name),
            });
        }
        Types { types }
    }
}

/// Returns the members of each oneof in which any member leads to tensors, by field number, each
/// with the index of the oneof.
fn oneofs(
    message: &MessageDescriptor,
    on_the_way: &HashMap<u32, FieldOnTheWay>,
) -> HashMap<u32, (usize, SingularField)> {
    let mut oneofs = HashMap::new();
    for (at, oneof) in message.oneofs().enumerate() {
        let is_on_the_way = oneof
            .fields()
            .any(|member| on_the_way.contains_key(&member.number()));
        if !is_on_the_way || oneof.is_synthetic() {
            continue;
        }
        for member in oneof.fields() {
            oneofs.insert(
                member.number(),
                (at, SingularField::of(&FieldRef::Field(member))),
            );
        }
    }
    oneofs
}

/// Returns the full names of the message types that are tensors or contain tensors, directly or
/// nested.
pub(crate) fn leading(root: &MessageDescriptor, rules: &[&'static TensorRule]) -> HashSet<String> {
    // For each type, the types that have a field of it. The search goes from tensors to their
    // parents.
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

/// Returns those fields of a message type whose values are messages, each with the type of the
/// values. The values of a map field are the values of the map's entries.
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
        let below = message_below(&field)?;
        Some((field, below))
    })
}

/// Searches a message for all tensors that match one of the rules, and returns them in the order of
/// the message's bytes.
///
/// A tensor's [rule](TensorRule::names) determines its name. A tensor without a name, or with the
/// same name as an earlier one, is named by its path. If the message's type is unknown, the result
/// is empty.
///
/// # Errors
///
/// If reading fails, or a message on the path to a tensor breaks the wire format;
/// [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded) if messages nest too deeply, or
/// the list of tensors takes more than [`MAX_LIST_MEMORY`].
pub fn tensors_in(
    view: &MessageView<'_>,
    rules: &[&'static TensorRule],
) -> Result<Vec<TensorInfo>> {
    let found = placed_tensors_in(view, rules, || view.unwatched())?;
    Ok(found.into_iter().map(|one| one.info).collect())
}

/// A tensor in a message, and the location of the tensor's bytes in that message.
///
/// ```
/// use proto_splitter_core::tensor::{DType, PlacedTensor, TensorInfo};
///
/// let info = TensorInfo::new("steps", DType::U8, vec![2]);
/// let placed = PlacedTensor::new(info, vec![10..16]).elements(14..16);
/// assert_eq!(placed.elements, Some(14..16));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlacedTensor {
    /// Header of the tensor. The location in the header is the tensor's path.
    pub info: TensorInfo,
    /// Byte ranges of the tensor's own message within the whole message, in order. Usually there is
    /// one range.
    pub pieces: Vec<Range<u64>>,
    /// Byte range of the elements within the whole message; `None` unless they are contiguous and
    /// have their in-memory layout.
    pub elements: Option<Range<u64>>,
}

impl PlacedTensor {
    /// Creates a tensor whose own message consists of the byte ranges `pieces` of the whole
    /// message.
    pub fn new(info: TensorInfo, pieces: Vec<Range<u64>>) -> PlacedTensor {
        PlacedTensor {
            info,
            pieces,
            elements: None,
        }
    }

    /// Sets the range of the elements within the whole message.
    #[must_use]
    pub fn elements(mut self, elements: impl Into<Option<Range<u64>>>) -> PlacedTensor {
        self.elements = elements.into();
        self
    }
}

/// Does the same as [`tensors_in`], but also returns the ranges of each tensor in the whole
/// message. `whole` must open the whole message.
pub(crate) fn placed_tensors_in<'a>(
    view: &MessageView<'a>,
    rules: &[&'static TensorRule],
    whole: impl FnOnce() -> Result<Portion<'a>>,
) -> Result<Vec<PlacedTensor>> {
    let Some(root) = view.descriptor() else {
        return Ok(Vec::new());
    };
    let types = Types::from(root, rules);
    if types.types.iter().all(|known| known.rule.is_none()) {
        return Ok(Vec::new());
    }
    let cursor = WireCursor::new(whole()?);
    let range = 0..cursor.end();
    let mut search = Search::new(cursor, &types, root);
    let searched = search.message(&[range], 0, view.walked_depth());
    let (cursor, found) = search.end();
    let mut portion = cursor.into_input();
    searched.map_err(|error| portion.damage_first(error))?;
    Ok(found)
}
