//! Appending records to an existing file.
use std::io::{Seek, SeekFrom, Write};

use super::sink::BlockSink;
use super::{RecordWriter, WriterOptions};
use crate::error::{Error, Result};

/// Largest position at which a file can be continued. No file is longer, and the size of a chunk
/// can be added to this position without overflow.
const MAX_POSITION: u64 = i64::MAX as u64;

impl<W: Write> RecordWriter<W> {
    /// Creates a writer that continues a file of `position` bytes; `inner` must be at the file's
    /// end. A position of 0 begins a new file.
    ///
    /// The existing content isn't read. If no chunk can begin at the end of the content, zeros are
    /// written up to the next block, and readers report these zeros as damage. This happens only if
    /// the content doesn't end with a chunk. The [initial padding](WriterOptions::initial_padding)
    /// follows.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if an option or the position is out of
    /// range, in which case nothing is written; [`Io`](crate::ErrorKind::Io) if writing the padding
    /// fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordReader, RecordWriter, WriterOptions};
    ///
    /// let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new())?;
    /// writer.write_record(b"yesterday")?;
    /// let file = writer.finish()?;
    ///
    /// let end = file.len() as u64;
    /// let mut writer = RecordWriter::append_at(file, end, WriterOptions::new())?;
    /// writer.write_record(b"today")?;
    /// let mut reader = RecordReader::new(writer.finish()?, ReaderOptions::new());
    /// assert_eq!(reader.read_record()?, Some(&b"yesterday"[..]));
    /// assert_eq!(reader.read_record()?, Some(&b"today"[..]));
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn append_at(inner: W, position: u64, options: WriterOptions) -> Result<Self> {
        if position == 0 {
            return Self::new(inner, options);
        }
        options.validate()?;
        if position > MAX_POSITION {
            return Err(Error::config(format!(
                "position {position} is not from 0 to {MAX_POSITION}"
            )));
        }
        let padding = options.initial_padding;
        let mut writer = Self::on(BlockSink::append(inner, position), options);
        writer
            .sink
            .write_padding(padding)
            .map_err(|error| writer.io(error))?;
        Ok(writer)
    }
}

impl<W: Write + Seek> RecordWriter<W> {
    /// Creates a writer that continues the file `inner` at its end. If `inner` is empty, begins a
    /// new record file.
    ///
    /// # Errors
    ///
    /// The same errors as [`append_at`](Self::append_at); [`Io`](crate::ErrorKind::Io) if seeking
    /// fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Cursor;
    ///
    /// use record_file::{ReaderOptions, RecordReader, RecordWriter, WriterOptions};
    ///
    /// let mut file = Cursor::new(Vec::new());
    /// for record in ["yesterday", "today"] {
    ///     let mut writer = RecordWriter::append(file, WriterOptions::new())?;
    ///     writer.write_record(record.as_bytes())?;
    ///     file = writer.finish()?;
    /// }
    /// let mut reader = RecordReader::new(file.into_inner(), ReaderOptions::new());
    /// assert_eq!(reader.read_record()?, Some(&b"yesterday"[..]));
    /// assert_eq!(reader.read_record()?, Some(&b"today"[..]));
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn append(mut inner: W, options: WriterOptions) -> Result<Self> {
        options.validate()?;
        let end = inner
            .seek(SeekFrom::End(0))
            .map_err(|error| Error::io(None, error))?;
        Self::append_at(inner, end, options)
    }
}
