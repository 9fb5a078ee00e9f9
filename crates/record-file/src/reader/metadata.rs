//! Reading the metadata of a file.
use bytes::Bytes;

use super::RecordReader;
use crate::chunk::ChunkType;
use crate::error::{Error, ErrorKind, Result};
use crate::fault::Fault;
use crate::input::RecordInput;

impl<I: RecordInput> RecordReader<I> {
    /// Reads the metadata of the file: a serialized `RecordsMetadata` message. `None` if the file
    /// has no metadata. The reader must be at the beginning of the file. Afterwards, the reader is
    /// right after the metadata.
    ///
    /// # Errors
    ///
    /// [`InvalidPosition`](ErrorKind::InvalidPosition) if the reader isn't at the beginning of the
    /// file; otherwise the same errors as [`read_record`](Self::read_record). An error doesn't move
    /// the reader, so the read can be repeated after a temporary failure.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordReader, RecordWriter, WriterOptions};
    ///
    /// let options = WriterOptions::new().serialized_metadata(&b"\x0a\x05words"[..]);
    /// let mut writer = RecordWriter::new(Vec::new(), options)?;
    /// writer.write_record(b"a record")?;
    /// let mut reader = RecordReader::new(writer.finish()?, ReaderOptions::new());
    /// assert_eq!(reader.read_metadata()?.as_deref(), Some(&b"\x0a\x05words"[..]));
    /// assert_eq!(reader.read_record()?, Some(&b"a record"[..]));
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn read_metadata(&mut self) -> Result<Option<Bytes>> {
        if self.begin != 0 || self.index != 0 {
            return Err(Error::at(
                ErrorKind::InvalidPosition,
                self.begin,
                "metadata can only be read at the beginning of a file",
            ));
        }
        if let Some(failed) = &self.failed {
            return Err(failed.error.again());
        }
        let metadata = self.find_metadata();
        if let Err(error) = &metadata {
            self.begin = 0;
            // A chunk whose stored data is too large is refused before the data is read, so that
            // even a plain stream can still skip it. The data of a chunk that is too large only
            // when it is decoded was read.
            let is_behind = !self.input.goes_back()
                && (error.kind() != ErrorKind::LimitExceeded
                    || self.input.read_full(0, &mut [0]).is_err());
            if is_behind {
                self.remember_failure(&metadata);
            }
        }
        metadata
    }

    /// Does the same as [`read_metadata`](Self::read_metadata), but moves the reader to the chunk
    /// with the error if it fails.
    fn find_metadata(&mut self) -> Result<Option<Bytes>> {
        loop {
            match self.load_metadata() {
                Ok(metadata) => return Ok(metadata),
                Err(fault) => {
                    if !self.recover(fault)? || self.begin > 64 {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn load_metadata(&mut self) -> Result<Option<Bytes>, Fault> {
        if self.begin == 0 {
            let Some(signature) = self.header_at(0)? else {
                return Ok(None);
            };
            self.begin = signature.end;
        }
        let Some(chunk) = self.header_at(self.begin)? else {
            return Ok(None);
        };
        if chunk.header.kind != ChunkType::Metadata {
            return Ok(None);
        }
        let metadata = self.decode(&chunk)?.record_bytes(0);
        self.begin = chunk.end;
        Ok(metadata)
    }
}
