//! What a file says of its message's type: the file metadata of the records,
//! `riegeli.RecordsMetadata`.
//!
//! The type's name is always there. With its schema, all files that it takes, a file can be read by
//! names and be shown by programs that don't know the type.

use std::collections::HashSet;

use prost::Message;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};
use prost_reflect::{DescriptorPool, FileDescriptor, MessageDescriptor};
use record_file::{ChunkKind, ReadAt, RecordsMetadata};

use super::ChunkedFile;
use crate::schema::decode_descriptor_set;
use crate::{Error, ErrorKind, Result};

/// The most bytes that file metadata is read from: thousands of schema files.
const MAX_METADATA_SIZE: u64 = 64 << 20;

/// The file metadata for a message of this type, with its schema if that is wanted.
pub(crate) fn describe_type(descriptor: &MessageDescriptor, with_schema: bool) -> RecordsMetadata {
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

/// A file and all that it imports, each behind those that it imports itself.
fn with_imports(file: FileDescriptor) -> Vec<FileDescriptor> {
    let mut ordered = Vec::new();
    let mut seen = HashSet::new();
    // Each with whether its imports were put in front of it. Without recursion: rows of imports can
    // be long.
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

impl<S: ReadAt> ChunkedFile<S> {
    /// The types that the file brings along; none if it brings no schema.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSchema`] if they contradict each other, [`ErrorKind::LimitExceeded`] if
    /// there are very many, and [`ErrorKind::Record`] if the file is damaged there.
    pub fn schema(&self) -> Result<Option<DescriptorPool>> {
        let records = self.record_file();
        let mut chunks = records.chunks().skip(1);
        let Some(chunk) = chunks.next().transpose()? else {
            return Ok(None);
        };
        if chunk.header.kind != ChunkKind::Metadata {
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
        let metadata = RecordsMetadata::parse(&bytes)?;
        if metadata.file_descriptors.is_empty() {
            return Ok(None);
        }
        let files = metadata.file_descriptors.iter();
        let files: Result<Vec<_>, _> = files
            .map(|file| FileDescriptorProto::decode(&file[..]))
            .collect();
        let file = files.map_err(|error| {
            let message = format!("the file's schema: {error}");
            Error::new(ErrorKind::InvalidSchema, message)
        })?;
        decode_descriptor_set(&FileDescriptorSet { file }.encode_to_vec()).map(Some)
    }

    /// The type of the message, if the file says it and brings its schema.
    ///
    /// ```
    /// use proto_splitter_core::container::ChunkedFile;
    /// use proto_splitter_core::split::{ComposableSplitter, SizeSplitter, SplitOptions};
    /// # use prost_reflect::prost_types::FileDescriptorProto;
    ///
    /// # let message = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
    /// # let folder = tempfile::tempdir()?;
    /// let options = SplitOptions::new().max_chunk_size(1000).embed_schema(true);
    /// let written = SizeSplitter.write_with(&message, folder.path().join("file"), &options)?;
    ///
    /// let file = ChunkedFile::open(written.path)?;
    /// let descriptor = file.descriptor()?.ok_or("it is in the file")?;
    /// assert_eq!(descriptor.full_name(), "google.protobuf.FileDescriptorProto");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`schema`](Self::schema), and [`ErrorKind::InvalidSchema`] if the type isn't in it.
    pub fn descriptor(&self) -> Result<Option<MessageDescriptor>> {
        let Some(name) = self.trailer().message_type() else {
            return Ok(None);
        };
        let Some(pool) = self.schema()? else {
            return Ok(None);
        };
        pool.get_message_by_name(name).map(Some).ok_or_else(|| {
            let message = format!("the file's schema lacks the type of its message, {name}");
            Error::new(ErrorKind::InvalidSchema, message)
        })
    }
}
