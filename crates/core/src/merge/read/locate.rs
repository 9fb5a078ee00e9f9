//! Locating the records of chunks by reading only headers.

use std::num::NonZeroUsize;

use record_file::{Chunk, ChunkOffset, ReadAt, RecordFile, RecordPosition};

use crate::Result;
use crate::io::threads;
use crate::proto::ChunkInfo;

/// Minimum number of chunks to locate in one pass over all headers of the file. Fewer chunks are
/// looked up one by one, and each lookup reads all headers in a block.
const ONE_PASS_FROM: usize = 16;

/// Minimum number of chunks for each thread if several threads locate chunks.
const LEAST_EACH: usize = 1024;

/// The position of a record, and the record chunk that contains it.
pub(super) type Located = (RecordPosition, Chunk);

/// Returns the record at an offset; `None` if no record begins there. Reads only headers.
pub(super) fn locate<S: ReadAt>(file: &RecordFile<S>, offset: u64) -> Result<Option<Located>> {
    match file.locate_in_chunk(offset) {
        Ok(located) => Ok(Some(located)),
        Err(error) if error.kind() == record_file::ErrorKind::InvalidPosition => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the record at the untrusted `offset` if it begins where the chunk of records `before`
/// ends. Unlike [`locate`], this doesn't read the headers of the chunks since the last block header.
pub(super) fn locate_after<S: ReadAt>(
    file: &RecordFile<S>,
    before: &Chunk,
    offset: u64,
) -> Option<Located> {
    let begin = before.end();
    if begin.0 != offset {
        return None;
    }
    let chunk = file.chunk_header_at(begin).ok()?;
    (chunk.header.num_records > 0).then(|| (RecordPosition::new(begin.0, 0), chunk))
}

/// Locates the records of the chunks `wanted` at the offsets in `infos`, which are untrusted.
/// Stores each located record in `found`, or `None` where no record begins. Reads only headers, on
/// up to `threads` threads.
pub(super) fn locate_all<S: ReadAt>(
    file: &RecordFile<S>,
    infos: &[ChunkInfo],
    mut wanted: Vec<usize>,
    found: &mut [Option<Located>],
    threads: NonZeroUsize,
) -> Result<()> {
    if wanted.len() < ONE_PASS_FROM {
        for at in wanted {
            found[at] = locate(file, infos[at].offset)?;
        }
        return Ok(());
    }
    wanted.sort_unstable_by_key(|&at| infos[at].offset);
    let located = match in_parts(file, infos, &wanted, threads) {
        Some(parts) => parts,
        // A single pass reports the same problem regardless of the number of threads.
        None => pass(file, infos, &wanted, 0, None)?.0,
    };
    for (at, record) in located {
        found[at] = Some(record);
    }
    Ok(())
}

/// Locates the records of the chunks `wanted` by scanning parts of the file on several threads.
/// Returns `None` if there are too few chunks for several threads, or a part doesn't end where the
/// next one begins.
fn in_parts<S: ReadAt>(
    file: &RecordFile<S>,
    infos: &[ChunkInfo],
    wanted: &[usize],
    threads: NonZeroUsize,
) -> Option<Vec<(usize, Located)>> {
    let count = threads.get().min(wanted.len() / LEAST_EACH);
    if count < 2 {
        return None;
    }
    // Start of each part in the file, and in the wanted list.
    let mut begins = vec![(0, 0)];
    for part in 1..count {
        let first = wanted[part * wanted.len() / count];
        let begin = file.locate(infos[first].offset).ok()?.chunk_begin().0;
        let before = wanted.partition_point(|&at| infos[at].offset < begin);
        begins.push((begin, before));
    }
    let parts = threads::map(threads, count, |part| {
        let (begin, from) = begins[part];
        let next = begins.get(part + 1);
        let wanted = &wanted[from..next.map_or(wanted.len(), |next| next.1)];
        let end = next.map(|next| next.0);
        let (located, came_to) = pass(file, infos, wanted, begin, end)?;
        Ok(end.is_none_or(|end| end == came_to).then_some(located))
    });
    let parts: Option<Vec<_>> = parts.ok()?.into_iter().collect();
    Some(parts?.into_iter().flatten().collect())
}

/// Scans the record chunks of a file from the offset `begin` to `end`, or to the last offset of a
/// chunk in `wanted` if `end` is `None`. Returns the located records, and the offset at which the
/// scan stopped.
fn pass<S: ReadAt>(
    file: &RecordFile<S>,
    infos: &[ChunkInfo],
    wanted: &[usize],
    begin: u64,
    end: Option<u64>,
) -> Result<(Vec<(usize, Located)>, u64)> {
    let mut located = Vec::with_capacity(wanted.len());
    let mut order = wanted.iter().copied().peekable();
    let mut at_chunk = begin;
    let mut chunks = file.chunks_from(ChunkOffset(begin));
    while end.map_or(order.peek().is_some(), |end| at_chunk < end)
        && let Some(chunk) = chunks.next().transpose()?
    {
        at_chunk = chunk.end().0;
        while let Some(at) = order.next_if(|&at| infos[at].offset < at_chunk) {
            if let Some(index) = infos[at].offset.checked_sub(chunk.begin().0)
                && index < chunk.header.num_records
            {
                let position = RecordPosition::new(chunk.begin().0, index);
                located.push((at, (position, chunk)));
            }
        }
    }
    Ok((located, at_chunk))
}

#[cfg(test)]
mod tests {
    use record_file::{Compression, ReaderOptions, RecordWriter};

    use super::*;

    /// Returns a file in which every record is alone in its record chunk, and the trailer entries
    /// of the records, from last to first.
    fn file_of(records: usize) -> (Vec<u8>, Vec<ChunkInfo>) {
        let mut writer = RecordWriter::with_defaults(Vec::new());
        let mut infos: Vec<_> = (0..records)
            .map(|at| {
                let record = vec![7; at % 300];
                let position = writer.write_record_alone(&record, Compression::None);
                let offset = position.unwrap().numeric();
                ChunkInfo {
                    offset,
                    ..ChunkInfo::default()
                }
            })
            .collect();
        infos.reverse();
        (writer.finish().unwrap(), infos)
    }

    fn located(bytes: &[u8], infos: &[ChunkInfo]) -> Result<Vec<Option<Located>>> {
        let file = RecordFile::open(bytes, ReaderOptions::new())?;
        let mut found = vec![None; infos.len()];
        let threads = NonZeroUsize::new(3).unwrap();
        locate_all(
            &file,
            infos,
            (0..infos.len()).collect(),
            &mut found,
            threads,
        )?;
        Ok(found)
    }

    #[test]
    fn many_records_are_found_as_each_alone_is() {
        for count in [ONE_PASS_FROM - 1, ONE_PASS_FROM, 3 * LEAST_EACH] {
            let (bytes, mut infos) = file_of(count);
            let beside = infos[count / 3].offset + 1;
            infos[count / 2].offset = beside;
            let found = located(&bytes, &infos).unwrap();
            for (info, found) in infos.iter().zip(found) {
                let alone = found.filter(|(position, _)| position.numeric() == info.offset);
                assert_eq!(alone.is_some(), info.offset != beside, "{}", info.offset);
            }
        }
    }

    #[test]
    fn a_damaged_header_is_the_same_error_however_many_pass_over_it() {
        let (mut bytes, infos) = file_of(3 * LEAST_EACH);
        let damaged = infos[LEAST_EACH / 2].offset;
        bytes[usize::try_from(damaged).unwrap() + 9] ^= 1;
        let error = located(&bytes, &infos).unwrap_err();
        let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
        let in_order = file.chunks().find_map(std::result::Result::err).unwrap();
        assert_eq!(error.to_string(), in_order.to_string());
    }
}
