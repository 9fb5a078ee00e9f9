//! Reading descriptor sets in JSON, as written by `buf build -o image.json`.

use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage};
use serde_json::Value;

/// Editions that may be given by name. A schema with another edition must be given in binary form,
/// in which editions are numbers.
const EDITIONS: [&str; 1] = ["EDITION_2023"];

/// Returns true if a schema is in JSON rather than in binary form.
pub(super) fn is_json(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{")
}

/// Converts a descriptor set from JSON to binary form, without the fields that Buf adds.
pub(super) fn from_json(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let no_image = |error: serde_json::Error| format!("not a descriptor set as JSON: {error}");
    let image: Value = serde_json::from_slice(bytes).map_err(no_image)?;
    let files = image.get("file").and_then(Value::as_array);
    if files.is_none_or(Vec::is_empty) {
        return Err("not a descriptor set as JSON: it has no list of files, `file`".to_owned());
    }
    let mut files = files.into_iter().flatten();
    let is_new = |file: &&Value| {
        let edition = file.get("edition").and_then(Value::as_str);
        edition.is_some_and(|edition| !EDITIONS.contains(&edition))
    };
    if let Some(file) = files.find(is_new) {
        let edition = &file["edition"];
        let name = file.get("name").and_then(Value::as_str).unwrap_or_default();
        return Err(format!(
            "{name} is in {edition}, which can only be read in binary form: use `buf build -o image.binpb`"
        ));
    }
    let set = DescriptorPool::global().get_message_by_name("google.protobuf.FileDescriptorSet");
    let set = set.ok_or("descriptors are not described")?;
    // Unknown fields are accepted, since Buf adds a field to imported files, and options may be
    // custom.
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let set = DynamicMessage::deserialize_with_options(set, image, &options).map_err(no_image)?;
    Ok(set.encode_to_vec())
}
