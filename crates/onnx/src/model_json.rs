//! Models as JSON, the form they have in the headers of safetensors files.

use prost::Message;
use prost_reflect::{DeserializeOptions, DynamicMessage};
use proto_splitter_core::{Error, ErrorKind, Result};
use serde::de::Error as _;
use serde_json::Value as Json;
use serde_value::Value;

use crate::model_descriptor;

/// Converts JSON to a serialized model.
pub(crate) fn model_of(text: &str) -> Result<Vec<u8>> {
    let invalid = |error: serde_json::Error| {
        let message = format!("the model in the header is damaged: {error}");
        Error::new(ErrorKind::InvalidMessage, message)
    };
    let json = serde_json::from_str(text).map_err(invalid)?;
    // Unknown fields are an error, so that fields from newer ONNX versions aren't lost silently.
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    DynamicMessage::deserialize_with_options(model_descriptor(), plain(json), &options)
        .map(|message| message.encode_to_vec())
        .map_err(serde_json::Error::custom)
        .map_err(invalid)
}

/// Converts JSON to a serde value. If another crate enables `serde_json`'s feature
/// `arbitrary_precision`, `serde_json` deserializes a number as a map, which messages don't accept.
fn plain(json: Json) -> Value {
    match json {
        Json::Null => Value::Unit,
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => Value::U64(value),
            (None, Some(value)) => Value::I64(value),
            (None, None) => Value::F64(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(text),
        Json::Array(values) => Value::Seq(values.into_iter().map(plain).collect()),
        Json::Object(entries) => {
            let entries = entries.into_iter();
            let entries = entries.map(|(key, value)| (Value::String(key), plain(value)));
            Value::Map(entries.collect())
        }
    }
}
