//! Probing whether compression makes a chunk smaller.

use super::chunk_reader::ChunkReader;
use crate::Result;
#[cfg(feature = "zstd")]
use crate::split::compression::AUTO_LEAST_SAVING;
use crate::split::compression::ChunkCompression;
use crate::split::plan::split_plan::PlannedChunk;
use crate::split::read::source::Source;
use record_file::Compression;
use std::io::Read;
use std::ops::Range;

/// Returns the compression for a planned chunk.
pub(in crate::split) fn decide(
    compression: ChunkCompression,
    chunk: &PlannedChunk,
    source: &Source,
) -> Result<Compression> {
    match compression {
        ChunkCompression::Fixed(compression) => Ok(compression),
        ChunkCompression::Auto { level } if shrinks(chunk, source)? => Ok(Compression::zstd(level)),
        ChunkCompression::Auto { .. } => Ok(Compression::None),
    }
}

/// Returns the compression for a chunk of `size` bytes. `open` must return a stream of the chunk's
/// bytes, and may be called several times.
pub(crate) fn decide_stream<'a>(
    compression: ChunkCompression,
    size: u64,
    open: &dyn Fn() -> Result<Box<dyn Read + 'a>>,
) -> Result<Compression> {
    let level = match compression {
        ChunkCompression::Fixed(compression) => return Ok(compression),
        ChunkCompression::Auto { level } => level,
    };
    let (mut stream, mut sample, mut position) = (open()?, Vec::new(), 0);
    for block in probed(size) {
        let gap = block.start - position;
        std::io::copy(&mut stream.by_ref().take(gap), &mut std::io::sink())?;
        let len = block.end - block.start;
        stream.by_ref().take(len).read_to_end(&mut sample)?;
        position = block.end;
    }
    if saves(&sample)? {
        Ok(Compression::zstd(level))
    } else {
        Ok(Compression::None)
    }
}

/// Size of each probed block, in bytes.
const PROBE_BLOCK: u64 = 64 << 10;

/// Number of blocks to probe in a chunk, evenly spaced.
const PROBE_BLOCKS: u64 = 4;

/// Returns the blocks to probe in a chunk of `size` bytes.
fn probed(size: u64) -> Vec<Range<u64>> {
    if size <= PROBE_BLOCK * PROBE_BLOCKS {
        return std::iter::once(0..size).collect();
    }
    let apart = (size - PROBE_BLOCK) / (PROBE_BLOCKS - 1);
    let starts = (0..PROBE_BLOCKS).map(|block| block * apart);
    starts.map(|start| start..start + PROBE_BLOCK).collect()
}

fn shrinks(chunk: &PlannedChunk, source: &Source) -> Result<bool> {
    let mut sample = Vec::new();
    for block in probed(chunk.size) {
        let reader = ChunkReader::starting_at(chunk, source, block.start);
        reader
            .take(block.end - block.start)
            .read_to_end(&mut sample)?;
    }
    saves(&sample)
}

/// Returns false: without zstd, [`ChunkCompression::Auto`] compresses nothing.
#[cfg(not(feature = "zstd"))]
fn saves(_: &[u8]) -> Result<bool> {
    Ok(false)
}

/// Returns true if compressing the probed blocks at the fastest level saves more than
/// 1/[`AUTO_LEAST_SAVING`] of their size.
#[cfg(feature = "zstd")]
fn saves(sample: &[u8]) -> Result<bool> {
    let compressed = zstd::bulk::compress(sample, 1)?;
    Ok(compressed.len() < sample.len() - sample.len() / AUTO_LEAST_SAVING)
}
