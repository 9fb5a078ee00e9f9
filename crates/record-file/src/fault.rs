//! Errors found in a chunk, with the information needed to continue after them.
use crate::block::BlockHeader;
use crate::chunk::Chunk;
use crate::error::Error;

/// An error found in a chunk, and its location. The location determines how a reader can
/// resynchronize.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: Error,
    pub(crate) place: FaultPlace,
}

/// The location of a fault, with the information about the chunk that is still valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultPlace {
    /// The chunk's header is damaged, so the end of the chunk is unknown.
    ChunkHeader,
    /// The header of the block at `block` is damaged.
    BlockHeader { block: u64 },
    /// The header of the block at `block` is valid, but contradicts the assumed boundaries of the
    /// chunk.
    OtherChunk { block: u64, header: BlockHeader },
    /// The chunk's header is valid, but its data isn't. The chunk ends at `end`.
    Data { end: u64 },
    /// The file ends inside the chunk.
    Truncated,
    /// Reading from the source failed. The stored data may be undamaged.
    Io,
}

impl Fault {
    pub(crate) fn io(offset: u64, error: std::io::Error) -> Self {
        Fault {
            error: Error::io(Some(offset), error),
            place: FaultPlace::Io,
        }
    }

    /// Returns the fault for a chunk with a valid header and wrong data.
    pub(crate) fn in_data(chunk: &Chunk, error: Error) -> Self {
        Fault {
            error: error.or_at(chunk.begin),
            place: FaultPlace::Data { end: chunk.end },
        }
    }

    pub(crate) fn truncated(begin: u64, detail: String) -> Self {
        Fault {
            error: Error::truncated(begin, detail),
            place: FaultPlace::Truncated,
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
