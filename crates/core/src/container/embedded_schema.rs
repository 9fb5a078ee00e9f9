//! The description of a file's message type, which is stored as the record file's metadata, a
//! `riegeli.RecordsMetadata`.
//!
//! The description always contains the type's name. If it also contains the schema (descriptors of
//! all `.proto` files that the type needs), programs without the type can display the message and
//! find fields by name.

use std::collections::HashSet;

use prost_reflect::{DescriptorPool, FileDescriptor, MessageDescriptor};
use record_file::RecordsMetadata;

use crate::schema::decode_descriptor_set;
use crate::wire::{FieldNumber, WireCursor, WireType, put_varint, tag};
use crate::{Error, ErrorKind, Result};

/// Returns the file metadata for a message of this type, with the type's schema if `with_schema` is
/// set.
pub fn describe_type(descriptor: &MessageDescriptor, with_schema: bool) -> RecordsMetadata {
    let mut metadata = RecordsMetadata {
        record_type_name: Some(descriptor.full_name().to_owned()),
        ..RecordsMetadata::default()
    };
    if with_schema {
        let files = with_imports(descriptor.parent_file());
        metadata.file_descriptors = files.iter().map(FileDescriptor::encode_to_vec).collect();
    }
    metadata
}

/// Returns a file and all its transitive imports, each after its own imports.
fn with_imports(file: FileDescriptor) -> Vec<FileDescriptor> {
    let mut ordered = Vec::new();
    let mut seen = HashSet::new();
    // A stack of files, each with a flag that is true if the file's imports were already pushed.
    // The stack replaces recursion, since chains of imports can be long.
    let mut open = vec![(file, false)];
    while let Some((file, ready)) = open.pop() {
        if ready {
            ordered.push(file);
        } else if seen.insert(file.name().to_owned()) {
            let imports: Vec<_> = file.dependencies().collect();
            open.push((file, true));
            open.extend(imports.into_iter().map(|import| (import, false)));
        }
    }
    ordered
}

/// Returns the types in a record file's metadata; `None` if the metadata has no schema.
///
/// # Errors
///
/// [`ErrorKind::InvalidSchema`](crate::ErrorKind::InvalidSchema) if the schema is unusable;
/// [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded) if it is too large;
/// [`ErrorKind::Record`](crate::ErrorKind::Record) if the metadata is malformed.
pub fn schema_in(metadata: &[u8]) -> Result<Option<DescriptorPool>> {
    check_count(metadata)?;
    let metadata = RecordsMetadata::parse(metadata)?;
    if metadata.file_descriptors.is_empty() {
        return Ok(None);
    }
    let mut set = Vec::new();
    for file in metadata.file_descriptors {
        put_varint(&mut set, tag(FieldNumber(1), WireType::Len));
        put_varint(&mut set, file.len() as u64);
        set.extend_from_slice(&file);
    }
    let pool = decode_descriptor_set(&set);
    pool.map(Some)
        .map_err(|error| error.context("the file's schema"))
}

/// Maximum number of fields in a record file's metadata. Each `.proto` file of the schema is one
/// field.
const MAX_METADATA_FIELDS: usize = 100_000;

/// Fails if a record file's metadata has more than [`MAX_METADATA_FIELDS`] fields, since parsing
/// uses memory for each field. Each `.proto` file of a schema is one field, and no schema has that
/// many files.
fn check_count(metadata: &[u8]) -> Result<()> {
    let mut fields = WireCursor::new(metadata);
    let mut count = 0;
    while let Ok(Some(_)) = fields.next() {
        count += 1;
        if count > MAX_METADATA_FIELDS {
            let message = format!("the file metadata has more than {MAX_METADATA_FIELDS} fields");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
    }
    Ok(())
}
