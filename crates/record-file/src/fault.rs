//! Damage found in a chunk.
use crate::block::BlockHeader;
use crate::chunk::Chunk;
use crate::error::Error;

/// Damage found in a chunk, in the terms that resynchronising needs.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: Error,
    pub(crate) place: Place,
}

/// What the damage leaves to go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing is known about where the chunk ends.
    ChunkHeader,
    /// A block header that can't be trusted.
    BlockHeader { block: u64 },
    /// A block header that can be trusted, and says that the chunk isn't where it was looked for.
    OtherChunk { block: u64, header: BlockHeader },
    /// The chunk's header is fine, its data isn't.
    Data { end: u64 },
    /// The file ends inside the chunk.
    Truncated,
    /// The source failed, which says nothing about what is stored.
    Io,
}

impl Fault {
    pub(crate) fn io(offset: u64, error: std::io::Error) -> Self {
        Fault {
            error: Error::io(Some(offset), error),
            place: Place::Io,
        }
    }

    /// The data of a chunk is wrong, whose header isn't.
    pub(crate) fn in_data(chunk: &Chunk, error: Error) -> Self {
        Fault {
            error: error.or_at(chunk.begin),
            place: Place::Data { end: chunk.end },
        }
    }

    pub(crate) fn truncated(begin: u64, detail: String) -> Self {
        Fault {
            error: Error::truncated(begin, detail),
            place: Place::Truncated,
        }
    }

    pub(crate) fn ends_inside(chunk: &Chunk, end: u64) -> Self {
        Fault::truncated(
            chunk.begin,
            format!(
                "the file ends at {end:#x}, inside a chunk that goes on to {:#x}",
                chunk.end
            ),
        )
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        fault.error
    }
}
