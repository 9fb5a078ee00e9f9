//! Planning columns: finding the fields to read for the requested columns.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_schema::{DataType, Field, TimeUnit};
use prost_reflect::{EnumDescriptor, Kind, MessageDescriptor};
use proto_splitter_core::path::FieldRef;
use proto_splitter_core::schema::is_closed_enum;
use proto_splitter_core::wire::{WireType, wire_type};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::names::EnumNames;
use crate::shape::{FieldShape, MessageShape, Scalar, Shape, Slot};

/// Maximum nesting depth of messages in a column.
const MAX_DEPTH: usize = 32;

/// The fields to read from messages of one type, and the requested columns.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) shape: Arc<MessageShape>,
    pub(crate) outputs: Vec<Output>,
}

/// A requested column of the table.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) field: Field,
    /// For each field on the column's path, from the outermost to the innermost, the field's index
    /// among the columns of its message.
    place: Vec<usize>,
}

impl Columns {
    /// Returns the requested columns as arrays, given the columns of the outermost message.
    pub(crate) fn outputs_of(&self, columns: &[ArrayRef]) -> Vec<ArrayRef> {
        let outputs = self.outputs.iter().map(|output| {
            let (first, rest) = output.place.split_first().unwrap_or((&0, &[]));
            below(&columns[*first], rest)
        });
        outputs.collect()
    }
}

/// Returns a column nested in `column`, which contains messages or lists of messages. `place` is
/// the path to the nested column. It consists of the index of a column in each message.
fn below(column: &ArrayRef, place: &[usize]) -> ArrayRef {
    let Some((first, rest)) = place.split_first() else {
        return Arc::clone(column);
    };
    if let Some(messages) = column.as_struct_opt() {
        return below(messages.column(*first), rest);
    }
    let list: &ListArray = column.as_list();
    let items = below(list.values(), place);
    let item = Arc::new(Field::new("item", items.data_type().clone(), true));
    Arc::new(ListArray::new(
        item,
        list.offsets().clone(),
        items,
        list.nulls().cloned(),
    ))
}

/// A planner, which determines the Arrow types of fields.
pub(crate) struct Planner {
    unit: TimeUnit,
    enums: HashMap<String, Arc<EnumNames>>,
}

/// The requested fields of a message, in the order requested.
#[derive(Default)]
struct Wanted {
    /// True if all fields of the message are requested.
    is_whole: bool,
    fields: Vec<(FieldRef, Wanted)>,
    /// The index of each field, by its number.
    by_number: HashMap<u32, usize>,
}

impl Planner {
    pub(crate) fn new(unit: TimeUnit) -> Self {
        Planner {
            unit,
            enums: HashMap::new(),
        }
    }

    /// Returns the columns for fields of a message type. `names` contains the paths of the fields;
    /// `None` means all single-valued fields.
    pub(crate) fn columns(
        &mut self,
        message: &MessageDescriptor,
        names: Option<&[String]>,
    ) -> Result<Columns> {
        let names = match names {
            Some(names) => names.to_vec(),
            None => self.singles(message),
        };
        let mut wanted = Wanted::default();
        let mut paths = Vec::with_capacity(names.len());
        for name in &names {
            let path = members(message, name)?;
            wanted.add(&path, name)?;
            paths.push(path);
        }
        let shape = self.message(message, &wanted, &mut Vec::new())?;
        let shape = Arc::new(shape);
        let outputs = names.into_iter().zip(&paths);
        let outputs = outputs
            .map(|(name, path)| output(name, path, &shape))
            .collect();
        Ok(Columns { shape, outputs })
    }

    /// Returns the names of a message type's single-valued fields.
    fn singles(&mut self, message: &MessageDescriptor) -> Vec<String> {
        let mut names = Vec::new();
        for field in message.fields() {
            let member = FieldRef::Field(field.clone());
            let wanted = Wanted::whole();
            let is_single = match field.kind() {
                _ if field.is_list() || field.is_map() => false,
                Kind::Message(message) => self.well_known(&message, &wanted).is_some(),
                _ => true,
            };
            if is_single {
                names.push(member.name());
            }
        }
        names
    }

    /// Returns the column type for a value that isn't a message; `None` for a message.
    pub(crate) fn scalar(&mut self, kind: &Kind) -> Option<Shape> {
        match kind {
            Kind::Enum(values) => Some(Shape::Enum(self.names(values))),
            kind => Scalar::of(kind).map(Shape::Scalar),
        }
    }

    fn message(
        &mut self,
        message: &MessageDescriptor,
        wanted: &Wanted,
        above: &mut Vec<String>,
    ) -> Result<MessageShape> {
        let name = message.full_name();
        let recursive = wanted.is_whole && above.iter().any(|known| known == name);
        if recursive || above.len() >= MAX_DEPTH {
            let message = format!(
                "a {name} may contain itself, which no column can hold: select some of its fields, as in a.b"
            );
            return Err(Error::new(ErrorKind::InvalidPath, message));
        }
        above.push(name.to_owned());
        let all: Vec<(FieldRef, Wanted)>;
        let members = if wanted.is_whole {
            let fields = message.fields().map(FieldRef::Field);
            all = fields.map(|field| (field, Wanted::whole())).collect();
            &all
        } else {
            &wanted.fields
        };
        let mut fields = Vec::with_capacity(members.len());
        let mut slots = Vec::with_capacity(members.len());
        for (member, wanted) in members {
            let shape = self.member(member, wanted, above);
            let shape = shape.map_err(|error| error.at_path(member.name()))?;
            let wire = member.wire_type();
            slots.push(Slot {
                number: member.number(),
                name: member.name(),
                wire,
                is_packable: wire != WireType::Len && member.takes(WireType::Len),
                field: Some(fields.len()),
                rivals: Arc::default(),
                names: None,
            });
            fields.push(FieldShape {
                name: member.name(),
                has_presence: member.has_presence(),
                shape,
            });
        }
        above.pop();
        self.add_rivals(members, &mut slots);
        Ok(MessageShape::new(name.to_owned(), fields, slots))
    }

    fn member(
        &mut self,
        member: &FieldRef,
        wanted: &Wanted,
        above: &mut Vec<String>,
    ) -> Result<Shape> {
        if member.is_map() {
            let Kind::Message(entry) = member.kind() else {
                return Err(Error::new(
                    ErrorKind::InvalidSchema,
                    "a map has no entry type",
                ));
            };
            let key = Scalar::of(&entry.map_entry_key_field().kind());
            let key = key.ok_or_else(|| {
                let message = "a map with an invalid key type";
                Error::new(ErrorKind::InvalidSchema, message)
            })?;
            if !wanted.is_whole {
                let message = "a column can't select values inside a map: select the whole map";
                return Err(Error::new(ErrorKind::InvalidPath, message));
            }
            let value = self.value(&entry.map_entry_value_field().kind(), wanted, above)?;
            return Ok(Shape::Map(key, Box::new(value)));
        }
        let value = self.value(&member.kind(), wanted, above)?;
        Ok(if member.is_list() {
            Shape::List(Box::new(value))
        } else {
            value
        })
    }

    fn value(&mut self, kind: &Kind, wanted: &Wanted, above: &mut Vec<String>) -> Result<Shape> {
        let Kind::Message(message) = kind else {
            return self.scalar(kind).ok_or_else(|| {
                Error::new(ErrorKind::InvalidSchema, "a field has an unknown type")
            });
        };
        if let Some(known) = self.well_known(message, wanted) {
            return Ok(known);
        }
        if wanted.is_whole && message.fields().len() == 0 {
            return Ok(Shape::Mark);
        }
        let message = self.message(message, wanted, above)?;
        Ok(Shape::Message(Arc::new(message)))
    }

    /// Returns the column type for a message that Arrow has a type for. Returns `None` for any
    /// other message, or if only some of its fields are requested.
    fn well_known(&self, message: &MessageDescriptor, wanted: &Wanted) -> Option<Shape> {
        if !wanted.is_whole {
            return None;
        }
        let name = message.full_name().strip_prefix("google.protobuf.")?;
        let wrapped = |scalar| Some(Shape::Wrapped(scalar));
        match name {
            "Timestamp" => Some(Shape::Timestamp(self.unit)),
            "Duration" => Some(Shape::Duration(self.unit)),
            "DoubleValue" => wrapped(Scalar::Double),
            "FloatValue" => wrapped(Scalar::Float),
            "Int64Value" => wrapped(Scalar::Int64),
            "UInt64Value" => wrapped(Scalar::Uint64),
            "Int32Value" => wrapped(Scalar::Int32),
            "UInt32Value" => wrapped(Scalar::Uint32),
            "BoolValue" => wrapped(Scalar::Bool),
            "StringValue" => wrapped(Scalar::String),
            "BytesValue" => wrapped(Scalar::Bytes),
            _ => None,
        }
    }

    fn names(&mut self, values: &EnumDescriptor) -> Arc<EnumNames> {
        let names = self.enums.entry(values.full_name().to_owned());
        let new = || Arc::new(EnumNames::new(values, is_closed_enum(values)));
        Arc::clone(names.or_insert_with(new))
    }

    /// Adds a slot for each field that isn't a column, but is in the same oneof as a column, since
    /// a value of this field removes the column's value.
    fn add_rivals(&mut self, members: &[(FieldRef, Wanted)], slots: &mut Vec<Slot>) {
        // The oneofs of the columns, by name, each with its columns.
        let mut oneofs = HashMap::new();
        for (at, (member, _)) in members.iter().enumerate() {
            if let Some(oneof) = member.oneof() {
                let name = oneof.full_name().to_owned();
                let of = oneofs.entry(name).or_insert_with(|| (oneof, Vec::new()));
                of.1.push(at);
            }
        }
        let places = slots.iter().enumerate();
        let places: HashMap<u32, usize> = places.map(|(at, slot)| (slot.number, at)).collect();
        for (oneof, columns) in oneofs.into_values() {
            let columns: Arc<[usize]> = columns.into();
            for rival in oneof.fields() {
                match places.get(&rival.number()) {
                    // The only column of a oneof removes no other value.
                    Some(_) if columns.len() == 1 => {}
                    Some(&at) => slots[at].rivals = Arc::clone(&columns),
                    None => slots.push(Slot {
                        number: rival.number(),
                        name: rival.name().to_owned(),
                        wire: wire_type(&rival.kind(), rival.is_group()),
                        is_packable: false,
                        field: None,
                        rivals: Arc::clone(&columns),
                        names: match rival.kind() {
                            Kind::Enum(values) => Some(self.names(&values)),
                            _ => None,
                        },
                    }),
                }
            }
        }
    }
}

/// Returns the column for the last field on a path.
fn output(name: String, path: &[FieldRef], shape: &Arc<MessageShape>) -> Output {
    let mut place = Vec::with_capacity(path.len());
    let mut is_nullable = false;
    let mut lists = 0;
    let mut message = Some(Arc::clone(shape));
    let mut data_type = DataType::Null;
    for member in path {
        let Some(within) = message.take() else { break };
        let slot = within.slot(member.number());
        let at = slot.and_then(|slot| slot.field).unwrap_or_default();
        place.push(at);
        let Some(field) = within.fields.get(at) else {
            break;
        };
        is_nullable |= lists == 0 && field.has_presence;
        data_type = field.shape.data_type();
        message = match &field.shape {
            Shape::Message(message) => Some(Arc::clone(message)),
            Shape::List(item) => match &**item {
                Shape::Message(message) if place.len() < path.len() => {
                    lists += 1;
                    Some(Arc::clone(message))
                }
                _ => None,
            },
            _ => None,
        };
    }
    for _ in 0..lists {
        data_type = DataType::List(Arc::new(Field::new("item", data_type, true)));
    }
    let field = Field::new(name, data_type, is_nullable);
    Output { field, place }
}

/// Returns the fields on a path such as `args.key`, the outermost first.
fn members(root: &MessageDescriptor, name: &str) -> Result<Vec<FieldRef>> {
    let invalid = |message: String| Error::new(ErrorKind::InvalidPath, message).at_path(name);
    let mut members: Vec<FieldRef> = Vec::new();
    let mut message = Some(root.clone());
    for part in parts(name) {
        let Some(within) = message else {
            let above = members.last().map(FieldRef::name).unwrap_or_default();
            return Err(invalid(format!(
                "{above} is not a message, so it has no field {part}"
            )));
        };
        let member = FieldRef::by_text(&within, part)
            .ok_or_else(|| invalid(format!("{} has no field {part}", within.full_name())))?;
        message = match member.kind() {
            Kind::Message(message) => Some(message),
            _ => None,
        };
        members.push(member);
    }
    if members.is_empty() {
        return Err(invalid("a column needs the name of a field".into()));
    }
    Ok(members)
}

/// Splits a path at its dots, except for dots in parentheses, which belong to an extension's name.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    name.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == '.' && depth == 0
    })
}

impl Wanted {
    fn whole() -> Self {
        Wanted {
            is_whole: true,
            ..Wanted::default()
        }
    }

    fn add(&mut self, path: &[FieldRef], name: &str) -> Result<()> {
        let Some((first, rest)) = path.split_first() else {
            self.is_whole = true;
            return Ok(());
        };
        let number = first.number();
        let known = self.by_number.get(&number).copied();
        let at = known.unwrap_or(self.fields.len());
        if known.is_none() {
            self.by_number.insert(number, at);
            self.fields.push((first.clone(), Wanted::default()));
        }
        let below = &mut self.fields[at].1;
        let is_double = known.is_some() && (rest.is_empty() || below.is_whole);
        if is_double {
            let message = if rest.is_empty() && below.is_whole {
                "the column is selected twice"
            } else {
                "both a message and one of its fields are selected: select only one of them"
            };
            return Err(Error::new(ErrorKind::InvalidPath, message).at_path(name));
        }
        below.add(rest, name)
    }
}
