//! The location of an uncompressed record's bytes in the file.
use crate::block::{BLOCK, CHUNK_HEADER, payload_position};
use crate::compression::CompressionKind;
use crate::error::{Error, ErrorKind, Result};
use crate::varint;

/// Returns the file position of byte `offset` in an uncompressed record, and the number of bytes
/// from this position to the next block header, which may be inside the record or after it. The
/// record has `len` bytes and is alone in its chunk, which begins at `begin`.
///
/// # Errors
///
/// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if the record is longer than any record can
/// be.
///
/// # Examples
///
/// ```
/// use record_file::{Compression, RecordWriter, plain_record_position};
///
/// let mut writer = RecordWriter::with_defaults(Vec::new());
/// let begin = writer.write_record_alone(b"a record", Compression::None)?.numeric();
/// let file = writer.finish()?;
/// let (position, in_a_row) = plain_record_position(begin, 8, 2)?;
/// assert!(in_a_row > 6 && file[position as usize..].starts_with(b"record"));
/// # Ok::<(), record_file::Error>(())
/// ```
pub fn plain_record_position(begin: u64, len: u64, offset: u64) -> Result<(u64, u64)> {
    // The data begins with the type of compression, the length of the sizes, and the only size.
    let mut size = Vec::new();
    varint::push(&mut size, len);
    let mut front = vec![CompressionKind::None.byte()];
    varint::push(&mut front, size.len() as u64);
    let front = (front.len() + size.len()) as u64;
    if len.checked_add(front).is_none() {
        let message = "the record is longer than any record can be";
        return Err(Error::at(ErrorKind::LimitExceeded, begin, message));
    }
    let before = CHUNK_HEADER.saturating_add(front).saturating_add(offset);
    let position = payload_position(begin, before);
    Ok((position, BLOCK - position % BLOCK))
}
