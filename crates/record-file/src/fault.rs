//! Damage found in a chunk.
use crate::block::BlockHeader;
use crate::chunk::Chunk;
use crate::error::Error;

/// Damage found in a chunk, and the information needed to resynchronize.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: Error,
    pub(crate) place: FaultPlace,
}

/// The information that the damage leaves intact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultPlace {
    /// The end of the chunk is unknown.
    ChunkHeader,
    /// The block header can't be trusted.
    BlockHeader { block: u64 },
    /// The block header can be trusted, but contradicts the assumed position of the chunk.
    OtherChunk { block: u64, header: BlockHeader },
    /// The chunk's header is valid, but its data isn't.
    Data { end: u64 },
    /// The file ends inside the chunk.
    Truncated,
    /// The source failed, which doesn't mean that the stored data is damaged.
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
