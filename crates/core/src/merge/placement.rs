//! A description of where chunks in memory belong in their message.

use bytes::Bytes;
use prost_reflect::MessageDescriptor;

use crate::path::{FieldPath, TargetKind};
use crate::proto::chunk_info::Type;
use crate::proto::{ChunkInfo, ChunkMetadata, ChunkedMessage};
use crate::{Error, ErrorKind, Result};

/// A description of where chunks in memory belong in their message, for
/// [`Merger::merge`](super::Merger::merge).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Placement<'a> {
    /// A complete trailer: the chunks' places, sizes and checksums.
    Metadata(&'a ChunkMetadata),
    /// Only the chunks' places, without sizes and checksums, as in TensorFlow's profile.
    Message(&'a ChunkedMessage),
}

impl<'a> From<&'a ChunkMetadata> for Placement<'a> {
    fn from(metadata: &'a ChunkMetadata) -> Self {
        Placement::Metadata(metadata)
    }
}

impl<'a> From<&'a ChunkedMessage> for Placement<'a> {
    fn from(message: &'a ChunkedMessage) -> Self {
        Placement::Message(message)
    }
}

impl Placement<'_> {
    /// Returns the metadata for `chunks`. A [`Placement::Message`] needs the message's
    /// `descriptor`, to determine which chunks are messages.
    pub(crate) fn metadata(
        self,
        chunks: &[Bytes],
        descriptor: Option<&MessageDescriptor>,
    ) -> Result<ChunkMetadata> {
        let message = match self {
            Placement::Metadata(metadata) => return Ok(metadata.clone()),
            Placement::Message(message) => message,
        };
        let Some(descriptor) = descriptor else {
            let message = "chunks with only a ChunkedMessage: set the type of the message";
            return Err(Error::new(ErrorKind::SchemaNeeded, message));
        };
        let info = |chunk: &Bytes| ChunkInfo {
            r#type: Type::Message.into(),
            size: chunk.len() as u64,
            ..ChunkInfo::default()
        };
        let mut infos: Vec<ChunkInfo> = chunks.iter().map(info).collect();
        note_values(message, descriptor, &mut infos)?;
        Ok(ChunkMetadata {
            chunks: infos,
            message: Some(message.clone()),
            ..ChunkMetadata::default()
        })
    }
}

/// Sets the type to BYTES for every chunk that contains a scalar value rather than a message.
fn note_values(
    message: &ChunkedMessage,
    descriptor: &MessageDescriptor,
    infos: &mut [ChunkInfo],
) -> Result<()> {
    let mut open = vec![(message, descriptor.clone())];
    while let Some((message, descriptor)) = open.pop() {
        for field in &message.chunked_fields {
            if field.tail || field.within {
                let message =
                    "the chunk is of the profile `extended`, so merging it needs its metadata";
                return Err(Error::new(ErrorKind::InvalidTrailer, message));
            }
            let path = FieldPath::from_tags(&field.field_tag)?;
            let inner = field.message.as_ref();
            match path.resolve(&descriptor)?.kind {
                TargetKind::Message(kind) | TargetKind::Group(kind) => {
                    open.extend(inner.map(|inner| (inner, kind)));
                }
                TargetKind::Scalar(_) => {
                    let index = inner.and_then(|inner| inner.chunk_index);
                    let index = index.and_then(|index| usize::try_from(index).ok());
                    if let Some(info) = index.and_then(|index| infos.get_mut(index)) {
                        info.r#type = Type::Bytes.into();
                    }
                }
            }
        }
    }
    Ok(())
}
