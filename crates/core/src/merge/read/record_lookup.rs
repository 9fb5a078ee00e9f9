//! Finding and checking the record of a chunk on first use.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::Ordering;

use record_file::{Chunk, ReadAt, RecordPosition};

use super::locate::{Located, locate, locate_after, locate_all};
use super::record_store::RecordStore;
use super::records::Record;
use crate::proto::ChunkInfo;
use crate::{Error, ErrorKind, Result};

/// Size of a block in a record file: 64 KiB. The header of a block locates the record chunks in the
/// block.
const BLOCK: u64 = 1 << 16;

/// Minimum size of a record chunk, in bytes: the size of its header. Chunks whose offsets differ by
/// less share a record chunk.
const LEAST_APART: u64 = 40;

/// Number of bytes at the beginning of a record chunk that show how it is stored: its header, a
/// block header within it, and the beginning of its data.
const FRONT: u64 = 128;

impl<S: ReadAt> RecordStore<S> {
    /// Fails if a chunk's offset is outside of its file, or not before the trailer. Reads nothing.
    pub(in crate::merge) fn check_offsets(&self) -> Result<()> {
        for (chunk, info) in self.trailer.metadata().chunks.iter().enumerate() {
            let checked = match self.end_of(info.file as usize) {
                _ if info.offset >= self.numbered(info.file as usize).0.size() => {
                    Err(no_record(info.offset))
                }
                Some(end) if info.offset > end.numeric() => Err(no_record(info.offset)),
                Some(end) if info.offset == end.numeric() => Err(is_trailer(info.offset)),
                _ => Ok(()),
            };
            checked.map_err(|error| error.in_chunk(chunk))?;
        }
        Ok(())
    }

    /// Returns the position of the last record of file `number`; `None` for the main file if its
    /// last record isn't the trailer in use.
    fn end_of(&self, number: usize) -> Option<RecordPosition> {
        match number.checked_sub(1) {
            Some(part) => self.parts.get(part).map(|part| part.end),
            None => self.end,
        }
    }

    /// Returns the record of a chunk. Finds it and compares it with the trailer on first use.
    pub(in crate::merge) fn record(&self, chunk: usize) -> Result<Record> {
        if let Some(known) = self.records.known(chunk) {
            return Ok(*known);
        }
        let (Some(slot), Some(info)) = (
            self.records.found.get(chunk),
            self.trailer.metadata().chunks.get(chunk),
        ) else {
            let message = "there is no such chunk";
            return Err(Error::new(ErrorKind::InvalidTrailer, message));
        };
        let (file, named) = self.numbered(info.file as usize);
        // Records are usually stored and read in the order of their chunks.
        let before = chunk.checked_sub(1).and_then(|at| self.records.known(at));
        let before = before.filter(|before| before.file == info.file as usize);
        let after = before.and_then(|before| locate_after(file, &before.chunk, info.offset));
        let found = match after {
            Some(found) => Some(found),
            None => locate(file, info.offset).map_err(named)?,
        };
        let record = check_record(info, found, self.end_of(info.file as usize))?;
        Ok(*slot.get_or_init(|| record))
    }

    /// Finds the record of a chunk, and returns the number of its file and the record chunk that
    /// contains it; `None` if the record can't be found or doesn't match the trailer.
    pub(in crate::merge) fn record_chunk(&self, chunk: usize) -> Option<(usize, Chunk)> {
        let record = self.record(chunk).ok()?;
        Some((record.file, record.chunk))
    }

    /// Finds the records of all chunks at once, which takes fewer reads than finding them one by
    /// one. Ignores errors, which recur when a record is used. Does nothing for sources with slow
    /// responses.
    pub(in crate::merge) fn find_records(&self, threads: NonZeroUsize) {
        if self.is_prefetched() {
            return;
        }
        let infos = &self.trailer.metadata().chunks;
        let unknown = |at: &usize| self.records.known(*at).is_none();
        let mut by_file: Vec<usize> = (0..infos.len()).filter(unknown).collect();
        by_file.sort_by_key(|&at| infos[at].file);
        let mut found = vec![None; infos.len()];
        for wanted in by_file.chunk_by(|&a, &b| infos[a].file == infos[b].file) {
            let file = self.numbered(infos[wanted[0]].file as usize).0;
            // On an error, the records found so far are dropped, and each is looked up individually
            // later.
            drop(locate_all(
                file,
                infos,
                wanted.to_vec(),
                &mut found,
                threads,
            ));
        }
        for (at, found) in found.into_iter().enumerate() {
            let end = self.end_of(infos[at].file as usize);
            if let (Some(located), Some(slot)) = (found, self.records.found.get(at))
                && let Ok(record) = check_record(&infos[at], Some(located), end)
            {
                slot.get_or_init(|| record);
            }
        }
    }

    /// Fails if the record of any chunk doesn't match the trailer. For sources with slow responses,
    /// records are checked only when chunks are read.
    pub(in crate::merge) fn check_records(&self, threads: NonZeroUsize) -> Result<()> {
        if self.is_prefetched() || self.records.are_checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.find_records(threads);
        for chunk in 0..self.records.len() {
            let record = self.record(chunk);
            record.map_err(|error| error.in_chunk(chunk))?;
        }
        self.records.are_checked.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Fails if the records of these chunks don't match the trailer.
    pub(in crate::merge) fn check_some(&self, chunks: &[usize]) -> Result<()> {
        self.tell_headers(chunks);
        for &chunk in chunks {
            let record = self.record(chunk);
            record.map_err(|error| error.in_chunk(chunk))?;
        }
        Ok(())
    }

    /// Returns true if the files' sources respond slowly, so that reads should be announced to
    /// them.
    pub(in crate::merge) fn is_prefetched(&self) -> bool {
        self.file.get_ref().is_prefetched()
    }

    /// Announces to the files' sources that these chunks will be read next, in this order.
    pub(in crate::merge) fn tell_chunks(&self, chunks: &[usize]) {
        if self.is_prefetched() {
            let extents = self.extents();
            self.tell(chunks, |chunk| extents.get(chunk).cloned());
        }
    }

    /// Announces to the files' sources that the headers of these chunks will be read next.
    pub(in crate::merge) fn tell_headers(&self, chunks: &[usize]) {
        let infos = &self.trailer.metadata().chunks;
        self.tell(chunks, |chunk| {
            let offset = infos.get(chunk)?.offset;
            Some(block_of(offset)..offset.saturating_add(FRONT))
        });
    }

    fn tell(&self, chunks: &[usize], range: impl Fn(usize) -> Option<Range<u64>>) {
        if !self.is_prefetched() {
            return;
        }
        let infos = &self.trailer.metadata().chunks;
        // Keeps the order of the chunks, even across files.
        let file_of = |chunk: &usize| infos.get(*chunk).map(|info| info.file);
        for run in chunks.chunk_by(|a, b| file_of(a) == file_of(b)) {
            let Some(number) = file_of(&run[0]) else {
                continue;
            };
            let file = self.numbered(number as usize).0;
            let ranges = run.iter().filter_map(|&chunk| range(chunk));
            let ranges = ranges.map(|range| range.start..range.end.min(file.size()));
            file.prefetch(&ranges.collect::<Vec<_>>());
        }
    }

    /// Returns, for each chunk, the byte range to read from the chunk's file: from the header of
    /// the block in which the chunk's record chunk begins to the start of the next record chunk.
    /// The ranges are based on the offsets of all chunks.
    fn extents(&self) -> &[Range<u64>] {
        self.records.extents.get_or_init(|| {
            let infos = &self.trailer.metadata().chunks;
            let mut order: Vec<usize> = (0..infos.len()).collect();
            order.sort_by_key(|&at| (infos[at].file, infos[at].offset));
            let mut extents = vec![0..0; infos.len()];
            for of_file in order.chunk_by(|&a, &b| infos[a].file == infos[b].file) {
                let number = infos[of_file[0]].file as usize;
                let size = self.numbered(number).0.size();
                let mut trailers = self.trailer_chunks(number);
                trailers.sort_unstable();
                let shares = |a: &usize, b: &usize| is_close(&infos[*a], &infos[*b]);
                let runs: Vec<&[usize]> = of_file.chunk_by(shares).collect();
                for (at, run) in runs.iter().enumerate() {
                    let begin = infos[run[0]].offset;
                    let next = runs.get(at + 1).map(|next| infos[next[0]].offset);
                    let behind = trailers.partition_point(|&trailer| trailer <= begin);
                    let behind = trailers.get(behind).copied();
                    let end = behind.into_iter().chain(next).min().unwrap_or(size);
                    for &chunk in *run {
                        extents[chunk] = block_of(begin)..end.max(begin);
                    }
                }
            }
            extents
        })
    }

    /// Returns the indices of the chunks, grouped for independent readers. All chunks that share a
    /// record chunk with another chunk form one group, ordered by position, so that each record
    /// chunk is decoded once even with a small cache. Every other chunk is a group of its own.
    /// Several readers of one group wouldn't help: all but one would wait while one decodes.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let infos = &self.trailer.metadata().chunks;
        let mut order: Vec<usize> = (0..infos.len()).collect();
        order.sort_by_key(|&at| (infos[at].file, infos[at].offset));
        // A record that was found before shows directly if it shares its record chunk. For other
        // records, the distance of their offsets shows it.
        let mut is_shared = vec![false; order.len()];
        for pair in order.windows(2) {
            if is_close(&infos[pair[0]], &infos[pair[1]]) {
                (is_shared[pair[0]], is_shared[pair[1]]) = (true, true);
            }
        }
        for (chunk, shared) in is_shared.iter_mut().enumerate() {
            if let Some(record) = self.records.known(chunk) {
                *shared = record.shared;
            }
        }
        let alone = (0..order.len()).filter(|&chunk| !is_shared[chunk]);
        let mut groups: Vec<Vec<usize>> = alone.map(|chunk| vec![chunk]).collect();
        order.retain(|&chunk| is_shared[chunk]);
        groups.extend(Some(order).filter(|shared| !shared.is_empty()));
        groups
    }
}

/// Returns true if the offsets of two chunks' records imply that they share a record chunk.
pub(super) fn is_close(a: &ChunkInfo, b: &ChunkInfo) -> bool {
    a.file == b.file && b.offset.abs_diff(a.offset) < LEAST_APART
}

fn block_of(offset: u64) -> u64 {
    offset - offset % BLOCK
}

#[cold]
fn no_record(offset: u64) -> Error {
    let message = format!("no record begins at its offset {offset}");
    Error::new(ErrorKind::InvalidTrailer, message)
}

#[cold]
fn is_trailer(offset: u64) -> Error {
    let message = format!("its offset {offset} is the trailer's");
    Error::new(ErrorKind::InvalidTrailer, message)
}

fn check_record(
    info: &ChunkInfo,
    found: Option<Located>,
    end: Option<RecordPosition>,
) -> Result<Record> {
    let ChunkInfo { offset, size, .. } = *info;
    let Some((position, chunk)) = found else {
        return Err(no_record(offset));
    };
    let header = chunk.header;
    if end.is_some_and(|end| position >= end) {
        return Err(is_trailer(offset));
    }
    let shared = header.num_records > 1;
    let most = header.decoded_data_size;
    if size != most && (!shared || size > most) {
        let than = if shared {
            "all records there have"
        } else {
            "its record has"
        };
        let message = format!("the trailer says {size} bytes, where {than} {most}");
        return Err(Error::new(ErrorKind::InvalidTrailer, message));
    }
    Ok(Record {
        file: info.file as usize,
        position,
        shared,
        stored_size: header.data_size,
        chunk,
    })
}
