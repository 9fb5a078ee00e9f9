//! Values as JSON and as text.

use std::io::Write;

use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, SerializeOptions};
use proto_splitter::bytes::Bytes;
use proto_splitter::path::{FieldPath, PathQuery, Select, TargetKind};
use proto_splitter::schema::check_decoded_size;
use proto_splitter::size_tree::with_largest;
use proto_splitter::view::MessageView;
use proto_splitter::wire::{FieldNumber, WireType, put_varint, tag, wire_type};
use proto_splitter::{Error, ErrorKind};
use serde_json::Value;

use crate::harmless;
use crate::text;

/// Largest memory for decoding a message to show, in bytes. Larger messages need `--format binary` or a longer path.
const MAX_SHOWN_MEMORY: u64 = 512 << 20;

/// Returns the value at a path in protobuf's JSON mapping.
pub(super) fn json(view: &MessageView<'_>, path: &FieldPath, most: usize) -> Result<Value, Error> {
    let root = typed(view)?;
    let json = Shape::of(path, root)?.json(view.get(path)?, most);
    json.map_err(|error| error.at_path(path.display(Some(root))))
}

/// Writes the value at a path: a message in text format, a string unchanged except for characters that harm a terminal, any other value as
/// in JSON but without quotes. Without a type the result is a guess.
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
        // The error names the actual contents.
        return view.get(path).map(drop);
    };
    if size > MAX_SHOWN_MEMORY {
        let message = format!(
            "a value of {size} bytes is shown up to {MAX_SHOWN_MEMORY}; --format binary writes any"
        );
        let error = Error::new(ErrorKind::LimitExceeded, message).refusing_size();
        return Err(with_largest(error.at_path(path.to_string()), view, path));
    }
    let wire = selected.wire_type();
    text::untyped::value(&selected.value()?, wire, most, sink)
}

/// Shortens the strings in a JSON value.
fn shorten(value: &mut Value, most: usize) {
    match value {
        Value::String(text) if text.len() > most => {
            let mut end = most;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            let more = text.len() - end;
            text.truncate(end);
            text.push_str(&format!("... and {more} more bytes"));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| shorten(value, most)),
        Value::Object(fields) => fields.values_mut().for_each(|value| shorten(value, most)),
        _ => {}
    }
}

/// Returns the type of the whole message, without which a value is only bytes.
pub(super) fn typed<'a>(view: &'a MessageView<'_>) -> Result<&'a MessageDescriptor, Error> {
    view.descriptor().ok_or_else(|| {
        let message =
            "without the message's type there is only --format binary and text; --message TYPE says it, and --proto FILE what is in it";
        Error::new(ErrorKind::InvalidConfig, message)
    })
}

/// The type of a value, shared by all paths that differ only in indices and keys.
pub(super) enum Shape {
    Message(MessageDescriptor),
    Scalar(Kind, Holder),
}

impl Shape {
    pub(super) fn of(path: &FieldPath, root: &MessageDescriptor) -> Result<Shape, Error> {
        match path.resolve(root)?.kind {
            TargetKind::Message(message) | TargetKind::Group(message) => {
                Ok(Shape::Message(message))
            }
            TargetKind::Scalar(kind) => match holder(path, root) {
                Some(holder) => Ok(Shape::Scalar(kind, holder)),
                None => Err(undecodable("it is in no message")),
            },
        }
    }

    /// Returns the value with these bytes in protobuf's JSON mapping.
    pub(super) fn json(&self, bytes: Bytes, most: usize) -> Result<Value, Error> {
        let mut json = match self {
            Shape::Message(message) => to_json(&decoded(message, bytes)?, &SerializeOptions::new()),
            Shape::Scalar(kind, holder) => scalar(&bytes, kind, holder),
        }?;
        shorten(&mut json, most);
        Ok(json)
    }

    /// Writes the value with these bytes.
    pub(super) fn text(
        &self,
        bytes: Bytes,
        most: usize,
        sink: &mut impl Write,
    ) -> Result<(), Error> {
        match self {
            Shape::Message(message) => Ok(text::message(&decoded(message, bytes)?, most, sink)?),
            Shape::Scalar(..) => Ok(match self.json(bytes, most)? {
                Value::String(text) => writeln!(sink, "{}", harmless::value(&text)),
                other => writeln!(sink, "{other}"),
            }?),
        }
    }
}

/// Decodes a message, unless that would exceed the memory limit.
fn decoded(message: &MessageDescriptor, bytes: Bytes) -> Result<DynamicMessage, Error> {
    check_decoded_size(&bytes, message, MAX_SHOWN_MEMORY)?;
    DynamicMessage::decode(message.clone(), bytes).map_err(undecodable)
}

fn undecodable(why: impl ToString) -> Error {
    Error::new(ErrorKind::InvalidMessage, why.to_string())
}

/// Decodes a value that is not a message, as the only field of a message.
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

/// A message type with a value as its field.
pub(super) struct Holder {
    message: MessageDescriptor,
    number: FieldNumber,
    json_name: String,
    is_list: bool,
}

/// Returns the message type whose field is at the path; for a map, its entry.
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
