//! Formatting values as JSON and as text.

use std::collections::HashSet;
use std::io::Write;

use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, SerializeOptions};
use proto_splitter::bytes::Bytes;
use proto_splitter::path::{FieldPath, PathQuery, Select, TargetKind};
use proto_splitter::schema::{check_decoded_size, clear_defaults, decode_dynamic};
use proto_splitter::size_tree::with_largest;
use proto_splitter::view::{MessageView, ScalarValue};
use proto_splitter::wire::{FieldNumber, WireType, put_varint, tag, wire_type};
use proto_splitter::{Error, ErrorKind};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::sorted_json;
use crate::sanitize;
use crate::text;

/// Maximum memory, in bytes, that a message may take when it is decoded for printing. A larger
/// message needs `--format binary`, or a path that selects a part of the message.
const MAX_SHOWN_MEMORY: u64 = 512 << 20;

/// Returns the value at a path in protobuf's JSON mapping, with strings cut after `most` bytes.
pub(super) fn json(view: &MessageView<'_>, path: &FieldPath, most: usize) -> Result<Value, Error> {
    let root = typed(view)?;
    let json = Shape::of(path, root)?.json(view.get(path)?, most);
    json.map_err(|error| error.at_path(path.display(Some(root))))
}

/// Writes the value at a path as text. A message is written in protobuf's text format. A string is
/// written without quotes, and only characters that a terminal would interpret are escaped. Any
/// other value is written as in JSON, but without quotes. If the type is unknown, it is guessed.
pub(super) fn text(
    view: &MessageView<'_>,
    path: &FieldPath,
    most: usize,
    sink: &mut impl Write,
) -> Result<(), Error> {
    let Some(root) = view.descriptor() else {
        return untyped(view, path, most, sink);
    };
    let text = Shape::of(path, root)?.text(view.get(path)?, most, sink);
    text.map_err(|error| error.at_path(path.display(Some(root))))
}

fn untyped(
    view: &MessageView<'_>,
    path: &FieldPath,
    most: usize,
    sink: &mut impl Write,
) -> Result<(), Error> {
    let mut selected = view.select(&PathQuery::from(path), &[])?;
    let Some(size) = selected.next().transpose()? else {
        // The error from `get` describes the value at the path.
        return view.get(path).map(drop);
    };
    if size > MAX_SHOWN_MEMORY {
        let message = format!(
            "the value has {size} bytes, but at most {MAX_SHOWN_MEMORY} are shown; use --format binary"
        );
        let error = Error::new(ErrorKind::LimitExceeded, message).refusing_size();
        return Err(with_largest(error.at_path(path.to_string()), view, path));
    }
    let wire = selected.wire_type();
    text::untyped::value(&selected.value()?, wire, most, sink)
}

/// Cuts the strings in a JSON value after `most` bytes each.
fn shorten(value: &mut Value, most: usize) {
    match value {
        Value::String(text) => {
            if let Some(front) = sorted_json::cut(text, most) {
                *text = front;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| shorten(value, most)),
        Value::Object(fields) => fields.values_mut().for_each(|value| shorten(value, most)),
        _ => {}
    }
}

/// Returns the type of the view's whole message. Fails if the type is unknown, since values could
/// then only be written as bytes or guessed text.
pub(super) fn typed<'a>(view: &'a MessageView<'_>) -> Result<&'a MessageDescriptor, Error> {
    view.descriptor().ok_or_else(|| {
        let message =
            "only --format binary and text work without the message's type; give it with --message TYPE and --proto FILE";
        Error::new(ErrorKind::InvalidConfig, message)
    })
}

/// The type of a value to print. It is the same for paths that differ only in indices and keys.
pub(super) enum Shape {
    Message(MessageShape),
    Scalar(Kind, Holder),
}

/// The type of a message to print.
pub(super) struct MessageShape {
    descriptor: MessageDescriptor,
    /// True if the message may contain a `google.protobuf.Any`, at any depth.
    has_any: bool,
}

impl MessageShape {
    fn new(descriptor: MessageDescriptor) -> MessageShape {
        let has_any = reaches_any(&descriptor, &mut HashSet::new());
        MessageShape {
            descriptor,
            has_any,
        }
    }

    /// Decodes a message. Fails if decoding would exceed [`MAX_SHOWN_MEMORY`].
    fn decode(&self, bytes: Bytes) -> Result<DynamicMessage, Error> {
        /// Maximum size, in bytes, of an encoded message without an `Any` that is decoded without
        /// first checking how much memory decoding needs: at most 130 bytes for each byte.
        const SMALL: usize = 1 << 20;
        if self.has_any || bytes.len() > SMALL {
            check_decoded_size(&bytes, &self.descriptor, MAX_SHOWN_MEMORY)?;
        }
        decode_dynamic(self.descriptor.clone(), bytes).map_err(undecodable)
    }

    /// Decodes a message to be printed as JSON, in which each `google.protobuf.Any` is printed as
    /// the message in it. Values without presence that are 0 or empty are omitted there, too.
    fn decode_for_json(&self, bytes: Bytes) -> Result<DynamicMessage, Error> {
        let mut message = self.decode(bytes)?;
        if self.has_any {
            clear_defaults(&mut message);
        }
        Ok(message)
    }
}

/// Returns true if a message of this type may contain a `google.protobuf.Any`, at any depth.
fn reaches_any(message: &MessageDescriptor, seen: &mut HashSet<String>) -> bool {
    if message.full_name() == "google.protobuf.Any" {
        return true;
    }
    let is_new = seen.insert(message.full_name().to_owned());
    let fields = message.fields().map(|field| field.kind());
    let extensions = message.extensions().map(|extension| extension.kind());
    is_new
        && fields.chain(extensions).any(|kind| match kind {
            Kind::Message(inner) => reaches_any(&inner, seen),
            _ => false,
        })
}

impl Shape {
    pub(super) fn of(path: &FieldPath, root: &MessageDescriptor) -> Result<Shape, Error> {
        match path.resolve(root)?.kind {
            TargetKind::Message(message) | TargetKind::Group(message) => {
                Ok(Shape::Message(MessageShape::new(message)))
            }
            TargetKind::Scalar(kind) => match holder(path, root) {
                Some(holder) => Ok(Shape::Scalar(kind, holder)),
                None => Err(undecodable("it is in no message")),
            },
        }
    }

    /// Decodes a value from `bytes`, and returns it in protobuf's JSON mapping.
    pub(super) fn json(&self, bytes: Bytes, most: usize) -> Result<Value, Error> {
        let mut json = match self {
            Shape::Message(message) => {
                to_json(&message.decode_for_json(bytes)?, &SerializeOptions::new())
            }
            Shape::Scalar(kind, holder) => scalar(&bytes, kind, holder),
        }?;
        shorten(&mut json, most);
        Ok(json)
    }

    /// Decodes a value from `bytes`, and appends it in protobuf's JSON mapping, on one line.
    pub(super) fn json_line(
        &self,
        bytes: Bytes,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let written = match self {
            Shape::Message(message) => {
                let message = Json(message.decode_for_json(bytes)?);
                sorted_json::write(&message, most, out)
            }
            Shape::Scalar(kind, holder) => match simple(kind, &bytes) {
                Some(Simple::Text(text)) => sorted_json::write(&text, most, out),
                Some(Simple::Number(number)) => sorted_json::write(&number, most, out),
                Some(Simple::Bool(value)) => sorted_json::write(&value, most, out),
                None => {
                    let mut value = scalar(&bytes, kind, holder)?;
                    shorten(&mut value, most);
                    serde_json::to_writer(sanitize::JsonWriter(out), &value)
                }
            },
        };
        written.map_err(undecodable)
    }

    /// Decodes a value from `bytes`, and writes it as text.
    pub(super) fn text(
        &self,
        bytes: Bytes,
        most: usize,
        sink: &mut impl Write,
    ) -> Result<(), Error> {
        match self {
            Shape::Message(message) => Ok(text::message(&message.decode(bytes)?, most, sink)?),
            Shape::Scalar(..) => Ok(match self.json(bytes, most)? {
                Value::String(text) => writeln!(sink, "{}", sanitize::value(&text)),
                other => writeln!(sink, "{other}"),
            }?),
        }
    }
}

/// A message that is serialized in protobuf's JSON mapping.
struct Json(DynamicMessage);

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0
            .serialize_with_options(serializer, &SerializeOptions::new())
    }
}

/// A scalar that needs no special cases in protobuf's JSON mapping.
enum Simple {
    Text(String),
    Number(i64),
    Bool(bool),
}

/// Decodes a scalar that needs no special cases in JSON. Returns `None` for other kinds, or if the
/// bytes are invalid.
fn simple(kind: &Kind, bytes: &Bytes) -> Option<Simple> {
    match kind {
        // The JSON mapping of these kinds has special cases.
        Kind::Enum(_) | Kind::Float | Kind::Double | Kind::Bytes | Kind::Message(_) => return None,
        _ => {}
    }
    Some(match ScalarValue::decode(kind, bytes.clone())? {
        ScalarValue::String(text) => Simple::Text(text),
        ScalarValue::Bool(value) => Simple::Bool(value),
        // The JSON mapping represents 64-bit numbers as strings, since many readers parse numbers
        // as doubles.
        ScalarValue::Signed(value) => match kind {
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Simple::Text(value.to_string()),
            _ => Simple::Number(value),
        },
        ScalarValue::Unsigned(value) => match kind {
            Kind::Uint64 | Kind::Fixed64 => Simple::Text(value.to_string()),
            _ => Simple::Number(i64::try_from(value).ok()?),
        },
        _ => return None,
    })
}

fn undecodable(why: impl ToString) -> Error {
    Error::new(ErrorKind::InvalidMessage, why.to_string())
}

/// Returns a scalar in protobuf's JSON mapping. For this, the scalar is decoded as the only field
/// of a message.
fn scalar(value: &[u8], kind: &Kind, holder: &Holder) -> Result<Value, Error> {
    let wire = wire_type(kind, false);
    let mut bytes = Vec::with_capacity(value.len() + 16);
    put_varint(&mut bytes, tag(holder.number, wire));
    if wire == WireType::Len {
        put_varint(&mut bytes, value.len() as u64);
    }
    bytes.extend_from_slice(value);
    let message =
        DynamicMessage::decode(holder.message.clone(), &bytes[..]).map_err(undecodable)?;
    let options = SerializeOptions::new().skip_default_fields(false);
    let mut fields = to_json(&message, &options)?;
    let mut value = fields[&holder.json_name].take();
    if holder.is_list {
        value = value[0].take();
    }
    Ok(value)
}

/// The field that contains a value, and the message type that declares the field.
pub(super) struct Holder {
    message: MessageDescriptor,
    number: FieldNumber,
    json_name: String,
    is_list: bool,
}

/// Returns the message type that declares the last field of a path. For a value in a map, returns
/// the type of the map's entries.
fn holder(path: &FieldPath, root: &MessageDescriptor) -> Option<Holder> {
    let mut above = path.clone();
    let step = above.pop()?;
    let message = above.resolve(root).ok()?.kind.message()?.clone();
    let Some(field) = message.get_field(step.field.0) else {
        let extension = message.get_extension(step.field.0)?;
        return Some(Holder {
            json_name: extension.json_name().to_owned(),
            is_list: extension.is_list(),
            number: step.field,
            message,
        });
    };
    let field = match (&step.select, field.kind()) {
        (Select::Key(_), Kind::Message(entry)) => entry.map_entry_value_field(),
        _ => field,
    };
    Some(Holder {
        message: field.parent_message().clone(),
        number: FieldNumber(field.number()),
        json_name: field.json_name().to_owned(),
        is_list: field.is_list(),
    })
}

fn to_json(message: &DynamicMessage, options: &SerializeOptions) -> Result<Value, Error> {
    message
        .serialize_with_options(serde_json::value::Serializer, options)
        .map_err(|error| Error::new(ErrorKind::InvalidMessage, error.to_string()))
}
