//! Paths as the `FieldIndex` tags of a `ChunkedField`.

use super::field_path::{FieldPath, Select, Step};
use super::map_key::MapKey;
use crate::proto::FieldIndex;
use crate::proto::field_index::{Kind, MapKey as MapKeyTag, map_key};
use crate::wire::FieldNumber;
use crate::{Error, ErrorKind, Result};

impl FieldPath {
    /// Parses a path from the tags of a `ChunkedField`: a field, then its index or key if it has
    /// one, and so on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidTrailer`] if an index or key doesn't follow a field, a field number is
    /// invalid, or a tag is empty.
    pub fn from_tags(tags: &[FieldIndex]) -> Result<FieldPath> {
        let mut steps: Vec<Step> = Vec::new();
        for (at, tag) in tags.iter().enumerate() {
            let select = match &tag.kind {
                Some(Kind::Field(number)) => {
                    if !(1..=FieldNumber::MAX.0).contains(number) {
                        return Err(invalid(at, &format!("{number} is not a field number")));
                    }
                    steps.push(Step::field(*number));
                    continue;
                }
                Some(Kind::Index(index)) => Select::Index(*index),
                Some(Kind::MapKey(key)) => Select::Key(
                    map_key_from(key).ok_or_else(|| invalid(at, "a map key without a type"))?,
                ),
                None => {
                    return Err(invalid(
                        at,
                        "a tag that is neither field, index nor map key",
                    ));
                }
            };
            match steps.last_mut() {
                Some(step) if step.select == Select::Field => step.select = select,
                _ => return Err(invalid(at, "an index or map key that belongs to no field")),
            }
        }
        Ok(FieldPath { steps })
    }

    /// Returns the path as the tags of a `ChunkedField`.
    pub fn to_tags(&self) -> Vec<FieldIndex> {
        let mut tags = Vec::with_capacity(2 * self.steps.len());
        for step in &self.steps {
            tags.push(FieldIndex {
                kind: Some(Kind::Field(step.field.0)),
            });
            let kind = match &step.select {
                Select::Field => continue,
                Select::Index(index) => Kind::Index(*index),
                Select::Key(key) => Kind::MapKey(MapKeyTag {
                    r#type: Some(map_key_to(key)),
                }),
            };
            tags.push(FieldIndex { kind: Some(kind) });
        }
        tags
    }
}

fn map_key_from(key: &MapKeyTag) -> Option<MapKey> {
    Some(match key.r#type.as_ref()? {
        map_key::Type::S(key) => MapKey::String(key.clone()),
        map_key::Type::Boolean(key) => MapKey::Bool(*key),
        map_key::Type::Ui32(key) => MapKey::U32(*key),
        map_key::Type::Ui64(key) => MapKey::U64(*key),
        map_key::Type::I32(key) => MapKey::I32(*key),
        map_key::Type::I64(key) => MapKey::I64(*key),
    })
}

fn map_key_to(key: &MapKey) -> map_key::Type {
    match key {
        MapKey::String(key) => map_key::Type::S(key.clone()),
        MapKey::Bool(key) => map_key::Type::Boolean(*key),
        MapKey::U32(key) => map_key::Type::Ui32(*key),
        MapKey::U64(key) => map_key::Type::Ui64(*key),
        MapKey::I32(key) => map_key::Type::I32(*key),
        MapKey::I64(key) => map_key::Type::I64(*key),
    }
}

#[cold]
fn invalid(at: usize, message: &str) -> Error {
    Error::new(
        ErrorKind::InvalidTrailer,
        format!("field tag {at}: {message}"),
    )
}
