//! Reading the schema embedded in a file.

use prost_reflect::DescriptorPool;
use record_file::{ChunkType, ReadAt, RecordFile};

use crate::container::schema_in;
use crate::{Error, ErrorKind, Result};

/// Maximum size of file metadata to read, in bytes: enough for thousands of schema files.
const MAX_METADATA_SIZE: u64 = 64 << 20;

/// Returns the types that a file embeds; `None` if it has no schema.
pub(crate) fn read_schema<S: ReadAt>(records: &RecordFile<S>) -> Result<Option<DescriptorPool>> {
    let mut chunks = records.chunks().skip(1);
    let Some(chunk) = chunks.next().transpose()? else {
        return Ok(None);
    };
    if chunk.header.kind != ChunkType::Metadata {
        return Ok(None);
    }
    let size = chunk.header.decoded_data_size;
    if size > MAX_METADATA_SIZE {
        let message = format!("file metadata of {size} bytes");
        return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(chunk.begin().0));
    }
    let Some(bytes) = records.metadata()? else {
        return Ok(None);
    };
    schema_in(&bytes)
}
