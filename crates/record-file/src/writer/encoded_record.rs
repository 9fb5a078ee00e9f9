//! Records that are encoded before their positions are known, so that several threads can fill one
//! file.
use std::io::{Read, Write};

use super::sink::BlockSink;
use super::streamed::{Source, encode_record, end_of, plain_header, read_pieces};
use super::{RecordWriter, WriterOptions};
use crate::block::is_chunk_boundary;
use crate::chunk::ChunkHeader;
use crate::codec::Encoders;
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::position::RecordPosition;

/// Returns the end of an uncompressed record of `len` bytes whose own chunk begins at `begin`. The
/// next record can begin at this end.
///
/// # Errors
///
/// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if the end is beyond the largest position in
/// a file.
///
/// # Examples
///
/// ```
/// use std::io::Cursor;
///
/// use record_file::{Compression, RecordWriter, plain_record_end};
///
/// let mut writer = RecordWriter::with_defaults(Cursor::new(Vec::new()));
/// let begin = writer.position();
/// writer.write_record_from(&mut std::io::repeat(7), 100_000, Compression::None)?;
/// assert_eq!(plain_record_end(begin.numeric(), 100_000)?, writer.position().numeric());
/// # Ok::<(), record_file::Error>(())
/// ```
pub fn plain_record_end(begin: u64, len: u64) -> Result<u64> {
    let (header, _) = plain_header(&mut Encoders::default(), len)?;
    end_of(&header, begin)
}

/// A record in its own chunk, encoded independently of the file that the chunk will be written to.
/// This value contains only the chunk's header; the data was written to the output of
/// [`encode`](Self::encode).
///
/// # Examples
///
/// ```
/// use std::io::Cursor;
///
/// use record_file::{Compression, EncodedRecord, RecordWriter};
///
/// let mut data = Vec::new();
/// let record = EncodedRecord::encode(&mut std::io::repeat(7), 100_000, Compression::ZSTD, &mut data)?;
///
/// let mut writer = RecordWriter::with_defaults(Cursor::new(Vec::new()));
/// writer.write_encoded_record(&record, &mut &data[..])?;
/// let file = writer.finish()?;
///
/// let mut direct = RecordWriter::with_defaults(Cursor::new(Vec::new()));
/// direct.write_record_from(&mut std::io::repeat(7), 100_000, Compression::ZSTD)?;
/// assert_eq!(file, direct.finish()?);
/// # Ok::<(), record_file::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct EncodedRecord {
    header: ChunkHeader,
}

impl EncodedRecord {
    /// Reads a record of `len` bytes from `source`, and writes the data of its chunk to `out`.
    ///
    /// # Errors
    ///
    /// The same errors as [`RecordWriter::write_record_from`].
    pub fn encode(
        source: &mut dyn Read,
        len: u64,
        compression: Compression,
        out: &mut dyn Write,
    ) -> Result<Self> {
        compression.validate()?;
        let mut write = |data: &[u8]| out.write_all(data).map_err(|error| Error::io(None, error));
        let encoders = &mut Encoders::default();
        let source = Source::Read(source);
        let header = encode_record(encoders, source, len, &compression, &mut write)?;
        Ok(EncodedRecord { header })
    }

    /// Returns the end of the record's chunk if the chunk begins at `begin`. The next record can
    /// begin at this end.
    ///
    /// # Errors
    ///
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if the end is beyond the largest position
    /// in a file.
    pub fn end(&self, begin: u64) -> Result<u64> {
        end_of(&self.header, begin)
    }

    /// Returns the size of the chunk's data, in bytes.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.header.data_size
    }
}

impl<W: Write> RecordWriter<W> {
    /// Creates a writer that writes the part of a file that begins at `position`; `inner` must
    /// already be at this position. Other writers write the part before `position`.
    ///
    /// Several threads can thus fill a file, each with its own handle. To find the position for the
    /// next writer, use [`plain_record_end`], which returns the end of an uncompressed record in
    /// advance, or [`position`](Self::position), which returns the end of any record after it is
    /// written.
    ///
    /// # Errors
    ///
    /// [`InvalidPosition`](crate::ErrorKind::InvalidPosition) if no chunk can begin at `position`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{Cursor, Seek, SeekFrom};
    ///
    /// use record_file::{Compression, RecordWriter, plain_record_end};
    ///
    /// let mut whole = RecordWriter::with_defaults(Cursor::new(Vec::new()));
    /// let first = whole.position().numeric();
    /// for byte in [1, 2] {
    ///     whole.write_record_from(&mut std::io::repeat(byte), 100_000, Compression::None)?;
    /// }
    ///
    /// let second = plain_record_end(first, 100_000)?;
    /// let mut file = RecordWriter::with_defaults(Cursor::new(Vec::new())).finish()?;
    /// for (byte, begin) in [(2, second), (1, first)] {
    ///     file.seek(SeekFrom::Start(begin))?;
    ///     let mut writer = RecordWriter::starting_at(file, begin)?;
    ///     writer.write_record_from(&mut std::io::repeat(byte), 100_000, Compression::None)?;
    ///     file = writer.finish()?;
    /// }
    /// assert_eq!(file.into_inner(), whole.finish()?.into_inner());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn starting_at(inner: W, position: u64) -> Result<Self> {
        if !is_chunk_boundary(position) {
            return Err(Error::no_chunk_at(position));
        }
        let sink = BlockSink::append(inner, position);
        Ok(Self::on(sink, WriterOptions::new()))
    }
}

impl<W: Write> RecordWriter<W> {
    /// Writes an encoded record, whose data is read from `data`, and returns the record's position.
    ///
    /// # Errors
    ///
    /// [`SourceEnded`](crate::ErrorKind::SourceEnded) if `data` has fewer bytes than
    /// [`EncodedRecord::encode`] wrote; [`ChecksumMismatch`](crate::ErrorKind::ChecksumMismatch) if
    /// the bytes differ from those that `encode` wrote; [`Io`](crate::ErrorKind::Io) if reading or
    /// writing fails. After an error, every later write fails.
    pub fn write_encoded_record(
        &mut self,
        record: &EncodedRecord,
        data: &mut dyn Read,
    ) -> Result<RecordPosition> {
        self.attempt(|writer| {
            writer.write_framed(&record.header, |emit| {
                read_pieces(data, record.header.data_size, emit)
            })
        })
    }

    /// Writes a record that was encoded without compression, and returns the record's position.
    /// Reads the record from `source` again, so the data that [`EncodedRecord::encode`] wrote isn't
    /// needed. This method is for writers that can't seek back to fill in the header of a chunk.
    ///
    /// # Errors
    ///
    /// [`SourceEnded`](crate::ErrorKind::SourceEnded) if the source has fewer bytes than before;
    /// [`ChecksumMismatch`](crate::ErrorKind::ChecksumMismatch) if the bytes differ from those read
    /// before, or the record was encoded with compression;
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if the file would exceed the maximum
    /// length; [`Io`](crate::ErrorKind::Io) if reading or writing fails. After an error, every
    /// later write fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{repeat, sink};
    ///
    /// use record_file::{Compression, EncodedRecord, ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let record = EncodedRecord::encode(&mut repeat(7), 100_000, Compression::None, &mut sink())?;
    ///
    /// let mut pipe = Vec::new();
    /// let mut writer = RecordWriter::with_defaults(&mut pipe);
    /// let position = writer.write_plain_record(&record, &mut repeat(7))?;
    /// writer.finish()?;
    ///
    /// let file = RecordFile::open(pipe, ReaderOptions::new())?;
    /// assert_eq!(file.read_record(position)?, vec![7; 100_000]);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn write_plain_record(
        &mut self,
        record: &EncodedRecord,
        source: &mut dyn Read,
    ) -> Result<RecordPosition> {
        self.attempt(|writer| {
            let len = record.header.decoded_data_size;
            let (_, front) = plain_header(&mut writer.encoder.codecs, len)?;
            writer.write_framed(&record.header, |emit| {
                emit(&front)?;
                read_pieces(source, len, emit)
            })
        })
    }
}
