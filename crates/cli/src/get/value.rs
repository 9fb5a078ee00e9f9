//! Values as JSON and as text.

use std::fs::File;
use std::io::Write;

use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, SerializeOptions};
use proto_splitter::lazy::MessageView;
use proto_splitter::path::{FieldPath, Select, TargetKind};
use proto_splitter::wire::{FieldNumber, WireType, put_varint, tag};
use proto_splitter::{Error, ErrorKind};
use serde_json::Value;

use crate::text;

/// The value at a path as protobuf's JSON mapping has it.
pub(super) fn json(view: &MessageView<'_, File>, path: &FieldPath) -> Result<Value, Error> {
    let root = typed(view)?;
    match path.resolve(root)?.kind {
        TargetKind::Message(_) | TargetKind::Group(_) => {
            to_json(&view.message_dynamic(path)?, &SerializeOptions::new())
        }
        TargetKind::Scalar(kind) => scalar(view, path, root, &kind),
    }
}

/// Writes the value at a path: a message in text format; a string as it is; another value as JSON
/// has it, without quotes.
pub(super) fn text(
    view: &MessageView<'_, File>,
    path: &FieldPath,
    sink: &mut impl Write,
) -> Result<(), Error> {
    let root = typed(view)?;
    match path.resolve(root)?.kind {
        TargetKind::Message(_) | TargetKind::Group(_) => {
            Ok(text::message(&view.message_dynamic(path)?, sink)?)
        }
        TargetKind::Scalar(kind) => Ok(match scalar(view, path, root, &kind)? {
            Value::String(text) => writeln!(sink, "{text}"),
            other => writeln!(sink, "{other}"),
        }?),
    }
}

/// The type of the whole message, without which a value is but bytes.
pub(super) fn typed<'a>(view: &'a MessageView<'_, File>) -> Result<&'a MessageDescriptor, Error> {
    view.descriptor().ok_or_else(|| {
        let message =
            "without the message's type there is only --format binary; --message TYPE says it, and --proto FILE what is in it";
        Error::new(ErrorKind::InvalidConfig, message)
    })
}

/// A value that is no message, by way of a message that has nothing but it.
fn scalar(
    view: &MessageView<'_, File>,
    path: &FieldPath,
    root: &MessageDescriptor,
    kind: &Kind,
) -> Result<Value, Error> {
    let undecodable = |message: String| {
        Error::new(ErrorKind::InvalidMessage, message).at_path(path.display(Some(root)))
    };
    let holder = holder(path, root).ok_or_else(|| undecodable("it is in no message".into()))?;
    let (wire, value) = (wire_type(kind), view.get(path)?);
    let mut bytes = Vec::with_capacity(value.len() + 16);
    put_varint(&mut bytes, tag(holder.number, wire));
    if wire == WireType::Len {
        put_varint(&mut bytes, value.len() as u64);
    }
    bytes.extend_from_slice(&value);
    let message = DynamicMessage::decode(holder.message, &bytes[..])
        .map_err(|error| undecodable(error.to_string()))?;
    let options = SerializeOptions::new().skip_default_fields(false);
    let mut fields = to_json(&message, &options)?;
    let mut value = fields[&holder.json_name].take();
    if holder.is_list {
        value = value[0].take();
    }
    Ok(value)
}

/// The message that has a value as a field, and as which.
struct Holder {
    message: MessageDescriptor,
    number: FieldNumber,
    json_name: String,
    is_list: bool,
}

/// The message that the path leads to a field of; of a map, its entry.
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

fn wire_type(kind: &Kind) -> WireType {
    match kind {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => WireType::Fixed64,
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => WireType::Fixed32,
        Kind::String | Kind::Bytes | Kind::Message(_) => WireType::Len,
        _ => WireType::Varint,
    }
}
