//! Reading the schema embedded in a file.

use bytes::Bytes;
use prost_reflect::DescriptorPool;
use record_file::{ChunkType, ReadAt, RecordFile};

use super::required_root::RequiredRoot;
use crate::container::schema_in;
use crate::{Error, ErrorKind, Result};

/// Maximum size of file metadata to read, in bytes: 64 MiB, enough for thousands of schema files.
const MAX_METADATA_SIZE: u64 = 64 << 20;

/// Returns the types in the schema that a file embeds; `None` if the file embeds no schema. Fails
/// if `root` is given and the file's metadata doesn't match it.
pub(crate) fn read_schema<S: ReadAt>(
    records: &RecordFile<S>,
    root: Option<&RequiredRoot>,
) -> Result<Option<DescriptorPool>> {
    let Some(bytes) = read_metadata(records)? else {
        return Ok(None);
    };
    if let Some(root) = root {
        root.check_metadata(&bytes)?;
    }
    schema_in(&bytes)
}

/// Returns the metadata at the beginning of a record file, if it has any.
pub(in crate::merge) fn read_metadata<S: ReadAt>(records: &RecordFile<S>) -> Result<Option<Bytes>> {
    let mut chunks = records.chunks().skip(1);
    let Some(chunk) = chunks.next().transpose()? else {
        return Ok(None);
    };
    if chunk.header.kind != ChunkType::Metadata {
        return Ok(None);
    }
    let size = chunk.header.decoded_data_size;
    if size > MAX_METADATA_SIZE {
        let message = format!("the file metadata has {size} bytes, more than {MAX_METADATA_SIZE}");
        return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(chunk.begin().0));
    }
    Ok(records.metadata()?)
}
