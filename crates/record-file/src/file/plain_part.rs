//! Reading a part of an uncompressed record.
use super::RecordFile;
use crate::error::{Error, ErrorKind, Result};
use crate::fault::Fault;
use crate::plain_record::plain_record_position;
use crate::read_at::ReadAt;

impl<S: ReadAt> RecordFile<S> {
    /// Fills a buffer with bytes from an uncompressed record, starting at byte `offset` of the
    /// record. The record must have `len` bytes, and be alone in a chunk that begins at `begin`.
    /// Only the requested bytes are read. Hashes and the existence of the record aren't verified,
    /// so callers must verify the bytes by other means.
    ///
    /// # Errors
    ///
    /// Any error from reading; [`InvalidPosition`](crate::ErrorKind::InvalidPosition) if the record
    /// or the file ends before the buffer is filled.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{Compression, ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// let begin = writer.write_record_alone(b"a record", Compression::None)?.numeric();
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// let mut part = [0; 3];
    /// file.read_plain_part(begin, 8, 2, &mut part)?;
    /// assert_eq!(&part, b"rec");
    /// # Ok::<(), record_file::Error>(())
    /// ```
    #[doc(hidden)]
    pub fn read_plain_part(&self, begin: u64, len: u64, offset: u64, buf: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > len) {
            let (wanted, at) = (buf.len(), offset);
            let message = format!("can't read {wanted} bytes at {at} of a record of {len} bytes");
            return Err(Error::at(ErrorKind::InvalidPosition, begin, message));
        }
        let (mut offset, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let (position, in_a_row) = plain_record_position(begin, len, offset)?;
            let most = usize::try_from(in_a_row).unwrap_or(usize::MAX);
            let (piece, behind) = rest.split_at_mut(most.min(rest.len()));
            if position.saturating_add(piece.len() as u64) > self.size() {
                return Err(Error::no_record_at(begin));
            }
            let read = self.source.read_exact_at(position, piece);
            read.map_err(|error| Fault::io(begin, error))?;
            offset += piece.len() as u64;
            rest = behind;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Compression, ReaderOptions, RecordFile, RecordWriter};

    #[test]
    fn a_part_may_have_block_headers_in_it() {
        let record: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
        for before in [0, 65_300, 65_384, 65_400, 65_430, 65_440] {
            let mut writer = RecordWriter::with_defaults(Vec::new());
            writer
                .write_record_alone(&vec![1; before], Compression::None)
                .unwrap();
            let begin = writer
                .write_record_alone(&record, Compression::None)
                .unwrap();
            let file = RecordFile::open(writer.finish().unwrap(), ReaderOptions::new()).unwrap();
            let len = record.len() as u64;
            for (offset, size) in [(0, 32), (65_480, 32), (65_530, 300_000), (799_968, 32)] {
                let mut part = vec![0; size];
                file.read_plain_part(begin.numeric(), len, offset as u64, &mut part)
                    .unwrap();
                assert_eq!(part, record[offset..offset + size], "{before} {offset}");
            }
            for (len, offset) in [
                (len, len - 1),
                (u64::MAX, 0),
                (1 << 62, 1 << 61),
                (len, u64::MAX),
            ] {
                let read = file.read_plain_part(begin.numeric(), len, offset, &mut [0; 32]);
                assert!(read.is_err() || offset == 0, "{len} {offset}");
            }
        }
    }
}
