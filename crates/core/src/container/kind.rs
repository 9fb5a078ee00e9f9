//! Kinds of chunks.

/// The kind of a chunk, which the trailer stores as a `ChunkInfo.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkKind {
    /// A serialized message, or some of its fields.
    Message,
    /// The value of a bytes or string field.
    Bytes,
}

impl std::fmt::Display for ChunkKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            ChunkKind::Message => "MESSAGE",
            ChunkKind::Bytes => "BYTES",
        })
    }
}
