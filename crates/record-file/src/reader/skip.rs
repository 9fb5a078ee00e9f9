//! Skipping damaged chunks.
//!
//! If the header of the damaged chunk is valid, reading continues where the header says that the
//! chunk ends. Otherwise, the header of the next block is used: every block header gives the
//! boundaries of the chunk that contains it.
use super::RecordReader;
use crate::block::{BLOCK, is_chunk_boundary, next_boundary};
use crate::chunk::Chunk;
use crate::error::{Error, ErrorKind, Result};
use crate::fault::{Fault, FaultPlace};
use crate::headers::read_block_header;
use crate::input::RecordInput;

/// A part of a file that was skipped because it is damaged.
#[derive(Debug)]
#[non_exhaustive]
pub struct SkippedRegion {
    /// Offset of the region's first byte.
    pub begin: u64,
    /// Offset of the region's end, where reading continues.
    pub end: u64,
    /// Error that describes the damage.
    pub error: Error,
}

impl<I: RecordInput> RecordReader<I> {
    /// Reports the damage at the reader's position to the callback, and moves past it. Returns
    /// false if the callback ends reading there. Returns the error if there is no callback, or if
    /// the fault isn't damage.
    pub(super) fn recover(&mut self, fault: Fault) -> Result<bool> {
        self.unread = None;
        if self.recovery.is_none() || !is_damage(&fault) {
            let whose = |chunk: &Chunk| {
                chunk.begin == self.begin
                    && chunk.records() > 0
                    && fault.place == (FaultPlace::Data { end: chunk.end })
            };
            self.unread = self.head.filter(whose);
            // The bytes may be different when the read is repeated.
            self.input.forget();
            return Err(fault.error);
        }
        let region = self.resync(self.begin, fault)?;
        self.unload();
        self.begin = region.end;
        let go_on = match &mut self.recovery {
            Some(callback) => callback(&region),
            None => false,
        };
        self.skipped = Some(region);
        Ok(go_on)
    }

    /// Returns the region covered by the damage to the chunk at `begin`.
    pub(super) fn resync(&mut self, begin: u64, fault: Fault) -> Result<SkippedRegion> {
        let Fault { mut error, place } = fault;
        let after = |block: u64| block.saturating_add(BLOCK);
        let is_truncated = place == FaultPlace::Truncated;
        let mut block = match place {
            FaultPlace::Data { end } => return self.region(begin, end, error),
            // A stream has no more bytes. In a file, another writer may have appended chunks to an
            // unfinished chunk that claims to go on beyond them.
            FaultPlace::Truncated if !self.input.goes_back() => {
                return self.region(begin, u64::MAX, error);
            }
            FaultPlace::Io => return Err(error),
            FaultPlace::Truncated | FaultPlace::ChunkHeader => {
                next_boundary(begin.saturating_add(1))
            }
            FaultPlace::BlockHeader { block } => after(block),
            FaultPlace::OtherChunk { block, header } => {
                let next = block.saturating_add(header.next_chunk);
                let here = header.previous_chunk == block - begin;
                if header.previous_chunk == 0 && block > begin {
                    return self.region(begin, block, error);
                }
                // If the header has the right beginning of this chunk, it has the wrong end, so it
                // isn't reliable. Otherwise, only a close end is used, since a jump to a distant
                // one could skip too much.
                if !here && header.next_chunk <= BLOCK && next > begin && is_chunk_boundary(next) {
                    return self.region(begin, next, error);
                }
                after(block)
            }
        };
        loop {
            match read_block_header(&mut self.input, block) {
                // The block belongs to the unfinished chunk.
                Ok(header) if is_truncated && header.previous_chunk == block - begin => {}
                Ok(header) => {
                    let found = if header.previous_chunk == 0 {
                        block
                    } else {
                        block.saturating_add(header.next_chunk)
                    };
                    if found >= block && is_chunk_boundary(found) {
                        return self.region(begin, found, error);
                    }
                }
                Err(fault) => match fault.place {
                    FaultPlace::Io => return Err(fault.error),
                    FaultPlace::Truncated => return self.region(begin, u64::MAX, error),
                    _ if is_truncated => {}
                    _ => error = fault.error,
                },
            }
            block = after(block);
        }
    }

    /// Returns the damaged region from `begin` to `end`, or to the end of the file if the file ends
    /// before `end`.
    fn region(&mut self, begin: u64, end: u64, error: Error) -> Result<SkippedRegion> {
        let reached = self.input.reaches(end);
        let end = match reached.map_err(|error| Error::io(Some(begin), error))? {
            Ok(()) => end,
            Err(size) => size,
        };
        Ok(SkippedRegion { begin, end, error })
    }
}

/// Returns true if the fault is damage that can be skipped, rather than a failure of the source or
/// an exceeded limit.
fn is_damage(fault: &Fault) -> bool {
    fault.place != FaultPlace::Io
        && (fault.error.is_corrupt() || fault.error.kind() == ErrorKind::Unsupported)
}
