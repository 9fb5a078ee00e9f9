//! Reading descriptor sets in JSON, as written by `buf build -o image.json`.

use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage};
use serde_json::Value;

/// The known editions, by their names and numbers in the enum `google.protobuf.Edition`. This
/// program's version of the enum lacks the newest ones.
const EDITIONS: [(&str, i32); 2] = [("EDITION_2023", 1000), ("EDITION_2024", 1001)];

/// Options of the fields in `google/protobuf/descriptor.proto` and other definitions of features.
/// They name editions that this program doesn't know, and aren't needed to read messages.
const OPTIONS_OF_FEATURES: [&str; 2] = ["editionDefaults", "featureSupport"];

/// Returns true if a schema is in JSON rather than in binary form.
pub(super) fn is_json(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{")
}

/// Converts a descriptor set from JSON to binary form, without the fields that Buf adds.
pub(super) fn from_json(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let no_image = |error: serde_json::Error| format!("not a descriptor set as JSON: {error}");
    let mut image: Value = serde_json::from_slice(bytes).map_err(no_image)?;
    remove_options_of_features(&mut image);
    let files = image.get_mut("file").and_then(Value::as_array_mut);
    let files = files
        .filter(|files| !files.is_empty())
        .ok_or("not a descriptor set as JSON: it has no list of files, `file`")?;
    for file in files {
        let Some(name) = file.get("edition").and_then(Value::as_str) else {
            continue;
        };
        let Some((_, number)) = EDITIONS.iter().find(|(known, _)| *known == name) else {
            let path = file.get("name").and_then(Value::as_str).unwrap_or_default();
            return Err(format!(
                "{path}: edition {name:?} is not known: only 2023 and 2024 are"
            ));
        };
        file["edition"] = (*number).into();
    }
    let set = DescriptorPool::global().get_message_by_name("google.protobuf.FileDescriptorSet");
    let set = set.ok_or("descriptors are not described")?;
    // Unknown fields are accepted, since Buf adds a field to imported files, and options may be
    // custom.
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let set = DynamicMessage::deserialize_with_options(set, image, &options).map_err(no_image)?;
    Ok(set.encode_to_vec())
}

/// Removes the options in [`OPTIONS_OF_FEATURES`]. Recursion is safe, since the parser limits the
/// nesting.
fn remove_options_of_features(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !OPTIONS_OF_FEATURES.contains(&name.as_str()));
            fields.values_mut().for_each(remove_options_of_features);
        }
        Value::Array(list) => list.iter_mut().for_each(remove_options_of_features),
        _ => {}
    }
}
