//! Reading the headers of blocks and chunks.
use crate::block::{
    BLOCK_HEADER_LEN, BlockHeader, block_of, is_chunk_boundary, next_boundary, payload_end,
};
use crate::chunk::{CHUNK_HEADER, CHUNK_HEADER_LEN, Chunk, ChunkHeader, file_start};
use crate::error::Error;
use crate::fault::{Fault, FaultPlace};
use crate::input::RecordInput;
use crate::read_at::{ReadAt, read_full_at};

/// Returns the beginning of a chunk that begins at or before `pos`, according to the header of the
/// block that contains `pos`. If the header gives two beginnings, returns the one closer to `pos`.
pub(crate) fn chunk_before<I: RecordInput + ?Sized>(input: &mut I, pos: u64) -> Result<u64, Fault> {
    let block = block_of(pos);
    let header = read_block_header(input, block)?;
    // If a chunk begins with the block, it begins at `block`. Otherwise a chunk reaches into the
    // block, and the header has the beginnings of that chunk and the next one.
    let next = block.checked_add(header.next_chunk);
    let before = block.checked_sub(header.previous_chunk);
    let begin = match (header.previous_chunk, next, before) {
        (0, ..) => Some(block),
        (_, Some(next), _) if next <= pos => Some(next),
        (_, Some(_), before) => before,
        _ => None,
    };
    begin
        .filter(|&begin| is_chunk_boundary(begin))
        .ok_or_else(|| impossible_chunk(block))
}

/// Checks that a chunk found by [`chunk_before`], from `begin` to `end`, is around the block that
/// contains `pos` if it begins before this block. Without this check, block headers that all give
/// the file's first chunk would make every search walk the whole file.
pub(crate) fn check_around(begin: u64, end: u64, pos: u64) -> Result<(), Fault> {
    let block = block_of(pos);
    if begin < block && end <= block {
        return Err(impossible_chunk(block));
    }
    Ok(())
}

#[cold]
fn impossible_chunk(block: u64) -> Fault {
    Fault {
        error: Error::corrupt(block, "block header describes an impossible chunk"),
        place: FaultPlace::BlockHeader { block },
    }
}

/// Reads the header of the block that begins at `block`.
pub(crate) fn read_block_header<I: RecordInput + ?Sized>(
    input: &mut I,
    block: u64,
) -> Result<BlockHeader, Fault> {
    let mut stored = [0; BLOCK_HEADER_LEN];
    let got = input
        .read_full(block, &mut stored)
        .map_err(|error| Fault::io(block, error))?;
    if got < stored.len() {
        return Err(Fault::truncated(
            block,
            "the file ends inside a block header".to_owned(),
        ));
    }
    BlockHeader::decode(&stored, block).map_err(|error| Fault {
        error,
        place: FaultPlace::BlockHeader { block },
    })
}

/// Size of a chunk header, plus the block header that may be before or inside it, in bytes.
pub(crate) const MOST_HEADER: usize = CHUNK_HEADER_LEN + BLOCK_HEADER_LEN;

/// Returns true if the source begins like a record file. A valid block header or a valid chunk
/// header at its start suffices, so a file with damage in only one of these headers is still
/// recognized; [`RecordFile::open`](crate::RecordFile::open) reports the damage. Returns false for
/// an empty source.
///
/// # Errors
///
/// [`Io`](crate::ErrorKind::Io) if reading fails.
///
/// # Examples
///
/// ```
/// use record_file::{RecordWriter, is_record_file};
///
/// let mut file = RecordWriter::with_defaults(Vec::new()).finish()?;
/// assert!(is_record_file(&file)?);
/// file[3] ^= 1;
/// assert!(is_record_file(&file)?);
/// assert!(!is_record_file(&b"\x08\x07")?);
/// # Ok::<(), record_file::Error>(())
/// ```
pub fn is_record_file(source: &(impl ReadAt + ?Sized)) -> Result<bool, Error> {
    let expected = file_start();
    let mut start = [0; 64];
    let got = read_full_at(source, 0, &mut start).map_err(|error| Error::io(Some(0), error))?;
    let (block, chunk) = (..BLOCK_HEADER_LEN, BLOCK_HEADER_LEN..start.len());
    let is_cut = got >= size_of::<u64>() && start[..got] == expected[..got];
    let is_whole = got == start.len();
    Ok(is_cut
        || is_whole && (start[block] == expected[block] || start[chunk.clone()] == expected[chunk]))
}

/// Reads the header of the chunk at `begin`, which must be a chunk boundary; `None` if the file
/// ends there.
pub(crate) fn read_header<I: RecordInput + ?Sized>(
    input: &mut I,
    begin: u64,
) -> Result<Option<Chunk>, Fault> {
    let mut raw = [0; MOST_HEADER];
    let len = header_len(begin);
    let got = input
        .read_full(begin, &mut raw[..len])
        .map_err(|error| Fault::io(begin, error))?;
    parse_header(&raw[..got], begin)
}

/// Reads the header of the file's first chunk like [`read_header`]. If the header is damaged and
/// the file lacks the signature, fails with [`NotARecordFile`](crate::ErrorKind::NotARecordFile).
pub(crate) fn read_first_header<I: RecordInput + ?Sized>(
    input: &mut I,
) -> Result<Option<Chunk>, Fault> {
    let mut raw = [0; MOST_HEADER];
    let got = input
        .read_full(0, &mut raw)
        .map_err(|error| Fault::io(0, error))?;
    let start = &raw[..got];
    parse_header(start, 0).map_err(|fault| {
        if start == &file_start()[..got] {
            return fault;
        }
        Fault {
            error: Error::not_ours(),
            ..fault
        }
    })
}

/// Returns the size of the header of a chunk at `begin`, in bytes, including a block header before
/// or inside the chunk header.
pub(crate) fn header_len(begin: u64) -> usize {
    if payload_end(begin, CHUNK_HEADER) - begin > CHUNK_HEADER {
        MOST_HEADER
    } else {
        CHUNK_HEADER_LEN
    }
}

/// Returns the error for a file that ends after `got` bytes of the header of the chunk at `begin`.
#[cold]
pub(crate) fn header_ends(begin: u64, got: usize) -> Error {
    Error::truncated(
        begin,
        format!("the file ends after {got} bytes of a chunk header"),
    )
}

/// Parses the header of the chunk at `begin` from `raw`, the file's bytes at this position. Returns
/// `None` if `raw` is empty.
pub(crate) fn parse_header(raw: &[u8], begin: u64) -> Result<Option<Chunk>, Fault> {
    let got = raw.len();
    if got == 0 {
        return Ok(None);
    }
    let truncated = || Fault {
        error: header_ends(begin, got),
        place: FaultPlace::Truncated,
    };
    let mut bytes = [0; CHUNK_HEADER_LEN];
    let mut block_header = None;
    if header_len(begin) == MOST_HEADER {
        // The distance is less than a block, so it fits in a `usize`.
        let block = next_boundary(begin);
        let at = usize::try_from(block - begin).unwrap_or(0);
        let stored = raw.get(at..).and_then(<[u8]>::first_chunk);
        let stored: &[u8; BLOCK_HEADER_LEN] = stored.ok_or_else(truncated)?;
        let header = BlockHeader::decode(stored, block).map_err(|error| Fault {
            error,
            place: FaultPlace::BlockHeader { block },
        })?;
        if header.previous_chunk != block - begin {
            return Err(other_chunk(block, header, begin, None));
        }
        block_header = Some((block, header));
        let behind = raw[at + BLOCK_HEADER_LEN..].get(..CHUNK_HEADER_LEN - at);
        bytes[..at].copy_from_slice(&raw[..at]);
        bytes[at..].copy_from_slice(behind.ok_or_else(truncated)?);
    } else {
        bytes = *raw.first_chunk().ok_or_else(truncated)?;
    }
    let header = ChunkHeader::decode(&bytes, begin).map_err(|error| Fault {
        error,
        place: FaultPlace::ChunkHeader,
    })?;
    let end = header.end(begin);
    if let Some((block, stored)) = block_header
        && stored != BlockHeader::within(block, begin, end)
    {
        return Err(other_chunk(block, stored, begin, Some(end)));
    }
    Ok(Some(Chunk { header, begin, end }))
}

#[cold]
pub(crate) fn other_chunk(block: u64, header: BlockHeader, begin: u64, end: Option<u64>) -> Fault {
    let end = end.unwrap_or_else(|| block.saturating_add(header.next_chunk));
    let error = header
        .check(block, begin, end)
        .err()
        .unwrap_or_else(|| Error::corrupt(block, "block header belongs to another chunk"));
    Fault {
        error,
        place: FaultPlace::OtherChunk { block, header },
    }
}
