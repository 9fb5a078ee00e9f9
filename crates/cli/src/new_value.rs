//! Reading new values for a message from the command line or from files.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use proto_splitter::path::{PathQuery, TargetKind};
use proto_splitter::record_file::ReadAt;
use proto_splitter::schema::{clear_defaults, decode_dynamic};
use proto_splitter::{Error, ErrorKind, prost};

use crate::failure::Failure;
use crate::place;

/// Encodes a value, given as text, for the field that a query selects. Numbers and strings are
/// given without quotes. A message is given as JSON or in protobuf's text format.
pub(crate) fn encode(
    text: &str,
    query: &PathQuery,
    root: Option<&MessageDescriptor>,
) -> Result<Vec<u8>, Error> {
    let Some(root) = root else {
        let message = "the message's type is needed to encode a value";
        return Err(Error::new(ErrorKind::SchemaNeeded, message));
    };
    let invalid = |message: String| {
        let error = Error::new(ErrorKind::InvalidMessage, message);
        Err(error.at_path(query.as_str()))
    };
    let kind = query.resolve(root)?.kind;
    match kind.message() {
        Some(message) => match parse(text, message) {
            Ok(message) => Ok(message.encode_to_vec()),
            Err(why) => invalid(format!("the value isn't a {}: {why}", message.full_name())),
        },
        None => match kind.encode(text) {
            Some(bytes) => Ok(bytes),
            None => invalid(format!(
                "{text:?} isn't a value of the type {}",
                name(&kind)
            )),
        },
    }
}

/// Parses a message without the values that have no effect. In text, the bytes of an `Any` may be
/// given themselves, and are kept as they are.
fn parse(text: &str, message: &MessageDescriptor) -> Result<DynamicMessage, String> {
    if !text.trim_start().starts_with(['{', '"']) {
        let parsed = DynamicMessage::parse_text_format(message.clone(), text);
        let parsed = parsed.map_err(|error| error.to_string())?.encode_to_vec();
        return decode_dynamic(message.clone(), &parsed[..]).map_err(|error| error.to_string());
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let parsed = DynamicMessage::deserialize(message.clone(), &mut json);
    let mut parsed = parsed.map_err(|error| error.to_string())?;
    json.end().map_err(|error| error.to_string())?;
    clear_defaults(&mut parsed);
    Ok(parsed)
}

/// Returns the name that a kind of value has in a schema, such as `int32` or the full name of a
/// message type.
fn name(kind: &TargetKind) -> String {
    match kind {
        TargetKind::Scalar(prost_reflect::Kind::Enum(values)) => values.full_name().to_owned(),
        TargetKind::Scalar(kind) => format!("{kind:?}").to_lowercase(),
        TargetKind::Message(message) | TargetKind::Group(message) => message.full_name().to_owned(),
    }
}

/// Opens the file with the new value, or reads standard input to its end.
pub(crate) fn read(with: &Path) -> Result<Box<dyn ReadAt>, Failure> {
    let failed = |error| Failure::io(with, &error);
    if place::is_stream(with) {
        let mut bytes = Vec::new();
        if place::is_standard(with) {
            let read = std::io::stdin().lock().read_to_end(&mut bytes);
            read.map_err(|error| Failure::usage(format!("standard input: {error}")))?;
        } else {
            let read = File::open(with).and_then(|mut pipe| pipe.read_to_end(&mut bytes));
            read.map_err(failed)?;
        }
        return Ok(Box::new(bytes));
    }
    place::check_file(with, &fs::metadata(with).map_err(failed)?)?;
    Ok(Box::new(File::open(with).map_err(failed)?))
}

/// Returns the path of the file with the new value; `None` if the value is read from a stream.
pub(crate) fn file(with: &Path) -> Option<PathBuf> {
    (!place::is_stream(with)).then(|| with.to_owned())
}
