//! An iterator over records, and the number of records that a file claims.
use std::iter::FusedIterator;

use bytes::Bytes;

use super::RecordReader;
use crate::error::{Error, Result};
use crate::input::RecordInput;
use crate::metadata::RecordsMetadata;

/// An iterator over the records from a [`RecordReader`], created by iterating over the reader or
/// over a mutable reference to it. The iterator ends after an error; the reader itself can
/// continue.
///
/// # Examples
///
/// ```
/// use record_file::{ReaderOptions, RecordReader, RecordWriter};
///
/// let mut writer = RecordWriter::with_defaults(Vec::new());
/// writer.write_record(b"one")?;
/// writer.write_record(b"two")?;
/// let reader = RecordReader::new(writer.finish()?, ReaderOptions::new());
/// let mut lengths = Vec::new();
/// for record in reader {
///     lengths.push(record?.len());
/// }
/// assert_eq!(lengths, [3, 3]);
/// # Ok::<(), record_file::Error>(())
/// ```
#[derive(Debug)]
pub struct Records<R> {
    reader: R,
    is_over: bool,
}

impl<I: RecordInput> Iterator for Records<RecordReader<I>> {
    /// A record, which shares the memory of its chunk.
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        next(&mut self.reader, &mut self.is_over)
    }
}

impl<I: RecordInput> Iterator for Records<&mut RecordReader<I>> {
    /// A record, which shares the memory of its chunk.
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        next(self.reader, &mut self.is_over)
    }
}

impl<I: RecordInput> FusedIterator for Records<RecordReader<I>> {}
impl<I: RecordInput> FusedIterator for Records<&mut RecordReader<I>> {}

fn next<I: RecordInput>(reader: &mut RecordReader<I>, is_over: &mut bool) -> Option<Result<Bytes>> {
    if *is_over {
        return None;
    }
    let record = reader.read_record_bytes().transpose();
    *is_over = !matches!(record, Some(Ok(_)));
    record
}

impl<I: RecordInput> IntoIterator for RecordReader<I> {
    type Item = Result<Bytes>;
    type IntoIter = Records<RecordReader<I>>;

    fn into_iter(self) -> Self::IntoIter {
        Records {
            reader: self,
            is_over: false,
        }
    }
}

impl<'a, I: RecordInput> IntoIterator for &'a mut RecordReader<I> {
    type Item = Result<Bytes>;
    type IntoIter = Records<&'a mut RecordReader<I>>;

    fn into_iter(self) -> Self::IntoIter {
        Records {
            reader: self,
            is_over: false,
        }
    }
}

impl<I: RecordInput> RecordReader<I> {
    /// Returns the number of records according to the file's metadata, or `None` if the metadata
    /// doesn't contain it. Only the metadata is read, so the number is an unverified claim of the
    /// writer. The reader must be at the beginning of the file. Afterwards, the reader is right
    /// after the metadata.
    ///
    /// # Errors
    ///
    /// The same errors as [`read_metadata`](Self::read_metadata);
    /// [`Corrupt`](crate::ErrorKind::Corrupt) if the metadata isn't a valid message, or the number
    /// is negative.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordReader, RecordWriter, RecordsMetadata, WriterOptions};
    ///
    /// let metadata = RecordsMetadata { num_records: Some(1), ..RecordsMetadata::default() };
    /// let options = WriterOptions::new().serialized_metadata(metadata.serialize());
    /// let mut writer = RecordWriter::new(Vec::new(), options)?;
    /// writer.write_record(b"a record")?;
    /// let mut reader = RecordReader::new(writer.finish()?, ReaderOptions::new());
    /// assert_eq!(reader.record_count()?, Some(1));
    /// assert_eq!(reader.into_iter().count(), 1);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn record_count(&mut self) -> Result<Option<u64>> {
        let Some(metadata) = self.read_metadata()? else {
            return Ok(None);
        };
        let count = RecordsMetadata::parse(&metadata)?.num_records;
        let count = count.map(|count| {
            u64::try_from(count).map_err(|_| {
                let message = format!("the metadata claims {count} records");
                Error::corrupt(0, message)
            })
        });
        count.transpose()
    }
}
