//! Executing a plan, and comparing the result with the original message.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use bytes::Bytes;

use super::buffer::Buffer;
use super::chunk_cache::with_plan;
use super::whole_sum::other_message;
use super::{in_order, parallel};
use crate::container::Trailer;
use crate::io::{GATHER, Summed};
use crate::merge::plan::merge_plan::MergePlan;
use crate::merge::read::chunk_store::ChunkStore;
use crate::merge::read_options::ReadOptions;
use crate::{Error, ErrorKind, Result};

/// A report on a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// Path of the input file.
    pub input: PathBuf,
    /// True if the input file was in chunks, false if it was the message itself.
    pub chunked: bool,
    /// Size of the message, in bytes.
    pub size: u64,
    /// crc32c of the message.
    pub crc32c: u32,
    /// True if the merged bytes are exactly the original bytes, judging by the checksum in the
    /// file. `None` if the file doesn't describe the original message.
    pub byte_exact: Option<bool>,
    /// Full name of the message's type, if the file contains it.
    pub message_type: Option<String>,
}

pub(crate) fn check_chunk(chunk: &[u8], size: u64, crc32c: Option<u32>) -> Result<()> {
    if chunk.len() as u64 != size {
        let message = format!("{} bytes, where the trailer says {size}", chunk.len());
        return Err(Error::new(ErrorKind::InvalidTrailer, message));
    }
    match crc32c {
        Some(expected) if expected != crc32c::crc32c(chunk) => {
            let found = crc32c::crc32c(chunk);
            let message = format!("crc32c is {found:08x} where the trailer says {expected:08x}");
            Err(Error::new(ErrorKind::ChecksumMismatch, message))
        }
        _ => Ok(()),
    }
}

pub(crate) fn to_bytes<S: ChunkStore + ?Sized>(
    trailer: &Trailer,
    store: &S,
    options: &ReadOptions,
) -> Result<Bytes> {
    with_plan(trailer, store, options, |store, plan| {
        let mut memory = Buffer::reserve(plan.total_len(), store.stored_len(), options)?;
        match &mut memory {
            Buffer::Growing(out) => execute(trailer, store, plan, out, options)?,
            Buffer::Small(out) => execute_into(trailer, store, plan, out, options)?,
            Buffer::Huge(out) => execute_into(trailer, store, plan, out, options)?,
        };
        Ok(memory.into())
    })
}

/// Executes a plan by writing the message to `sink` in order, and compares the message with the
/// original message.
pub(in crate::merge) fn execute<S: ChunkStore + ?Sized>(
    trailer: &Trailer,
    store: &S,
    plan: &MergePlan,
    sink: &mut dyn Write,
    options: &ReadOptions,
) -> Result<Merged> {
    check_size(trailer, plan.total_len())?;
    let meter = options.progress.meter(plan.total_len());
    let _span = tracing::debug_span!("write", bytes = plan.total_len()).entered();
    let gathered = BufWriter::with_capacity(GATHER, sink);
    let mut sink = Summed::new(meter.written_to(gathered));
    in_order::write(plan, store, &mut sink)?;
    sink.flush()?;
    meter.check()?;
    compared(trailer, plan.total_len(), sink.crc32c())
}

/// Executes a plan by writing the message to an empty file, on several threads if that is faster.
/// Compares the message with the original message.
pub(in crate::merge) fn execute_to_file<S: ChunkStore + ?Sized>(
    trailer: &Trailer,
    store: &S,
    plan: &MergePlan,
    mut file: &File,
    options: &ReadOptions,
) -> Result<Merged> {
    let threads = options.thread_count();
    if !parallel::is_worthwhile(plan, threads) {
        return execute(trailer, store, plan, &mut file, options);
    }
    check_size(trailer, plan.total_len())?;
    let meter = options.progress.meter(plan.total_len());
    let _span = tracing::debug_span!("write", bytes = plan.total_len()).entered();
    let crc32c = parallel::write_to_file(plan, store, file, threads, &meter)?;
    compared(trailer, plan.total_len(), crc32c)
}

/// Executes a plan by writing the message to the beginning of a buffer, and compares the message
/// with the original message.
pub(crate) fn execute_into<S: ChunkStore + ?Sized>(
    trailer: &Trailer,
    store: &S,
    plan: &MergePlan,
    buffer: &mut [u8],
    options: &ReadOptions,
) -> Result<Merged> {
    check_size(trailer, plan.total_len())?;
    let meter = options.progress.meter(plan.total_len());
    let threads = options.thread_count();
    let _span = tracing::debug_span!("fill", bytes = plan.total_len()).entered();
    let crc32c = parallel::fill(plan, store, buffer, threads, &meter)?;
    meter.check()?;
    compared(trailer, plan.total_len(), crc32c)
}

/// Compares the crc32c of a merged message with the one that the file stores for the original
/// message, and returns a report on the merge.
///
/// # Errors
///
/// [`ErrorKind::ChecksumMismatch`] if the merged message differs.
pub fn compared(trailer: &Trailer, size: u64, crc32c: u32) -> Result<Merged> {
    let whole = trailer.is_whole();
    let exact = trailer.is_byte_exact();
    if let Some(expected) = trailer.merged_crc32c()
        && expected != crc32c
    {
        return Err(other_message(crc32c, expected));
    }
    Ok(Merged {
        input: PathBuf::new(),
        chunked: true,
        size,
        crc32c,
        byte_exact: trailer
            .metadata()
            .source_crc32c
            .filter(|_| trailer.is_marked() && whole)
            .map(|_| exact),
        message_type: trailer.message_type().map(str::to_owned),
    })
}

/// Fails if the size of the merged message is wrong. It must equal the original message's size, or
/// be smaller if the original message had overlong lengths. Does nothing if the trailer covers only
/// a part of the message.
///
/// # Errors
///
/// [`ErrorKind::ChecksumMismatch`] if the size is wrong.
pub fn check_size(trailer: &Trailer, total: u64) -> Result<()> {
    let Some(source) = trailer
        .metadata()
        .source_size
        .filter(|_| trailer.is_marked() && trailer.is_whole())
    else {
        return Ok(());
    };
    if total > source || (trailer.is_byte_exact() && total != source) {
        let message =
            format!("the merged message has {total} bytes, but the original had {source}");
        return Err(Error::new(ErrorKind::ChecksumMismatch, message));
    }
    Ok(())
}
