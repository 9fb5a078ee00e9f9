//! Writing the elements of a repeated field to a file as a sequence.

use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use prost_reflect::MessageDescriptor;
use proto_splitter_core::part_work::describe_type;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::spans::copy_range;
use proto_splitter_core::wire::{Field, FieldNumber, SourceInput, WireCursor, WireType};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::{PositionReader, ReadAt, RecordWriter, WriterOptions};

/// Maximum size, in bytes, of an element that is read into the cursor's buffer. Larger elements are
/// copied without the cursor, which only finds them.
const SMALL: u64 = 64 << 10;

/// Minimum size of elements that are streamed to records, in bytes. Each of these records has its
/// own Riegeli chunk.
const STREAM_FROM: u64 = 8 << 20;

/// The elements of a repeated field of a message, which can be written as a sequence.
///
/// ```
/// use std::sync::Arc;
///
/// use proto_splitter_core::progress::Progress;
/// use proto_splitter_core::wire::FieldNumber;
/// use proto_splitter_sequences::Elements;
///
/// let message = Arc::new(b"\x0a\x02\x08\x01\x0a\x02\x08\x02".to_vec());
/// let elements = Elements::new(message, FieldNumber(1));
/// let mut log = Vec::new();
/// assert_eq!(elements.write_delimited(&mut log, &Progress::default())?, 2);
/// assert_eq!(log, b"\x02\x08\x01\x02\x08\x02");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Elements {
    message: Arc<dyn ReadAt>,
    number: FieldNumber,
    drops_others: bool,
}

impl Elements {
    /// Selects the elements of the repeated field `number` in a message.
    pub fn new(message: Arc<dyn ReadAt>, number: FieldNumber) -> Elements {
        Elements {
            message,
            number,
            drops_others: false,
        }
    }

    /// Sets whether to omit all fields of the message except for the repeated field, since a
    /// sequence can't contain them. Default: false, which means that writing fails if the message
    /// has such fields.
    #[must_use]
    pub fn drop_others(mut self, drops: bool) -> Self {
        self.drops_others = drops;
        self
    }

    /// Writes each element, preceded by its length, to `sink`. Returns the number of elements.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Uncuttable`] if the message has fields other than the repeated field, unless
    /// they are [omitted](Self::drop_others); [`ErrorKind::InvalidMessage`] if the message isn't
    /// valid wire format; [`ErrorKind::Io`] if reading or writing fails; [`ErrorKind::Cancelled`]
    /// if the work was cancelled.
    pub fn write_delimited(&self, sink: &mut impl Write, progress: &Progress) -> Result<u64> {
        self.each(progress, |cursor, element| {
            // The range includes the length that precedes the element.
            let range = element.tag_end..element.end;
            if range.end - range.start <= SMALL {
                return Ok(sink.write_all(cursor.bytes(range)?)?);
            }
            copy_range(&*self.message, range, sink)
        })
    }

    /// Writes each element as a record of a Riegeli file, and returns the number of elements. If
    /// `element`, the type of the elements, isn't `None`, the file's metadata contains the type's
    /// name and schema.
    ///
    /// # Errors
    ///
    /// The errors of [`write_delimited`](Self::write_delimited); [`ErrorKind::InvalidConfig`] if
    /// this build doesn't support the compression.
    pub fn write_records(
        &self,
        sink: &mut (impl Write + Seek),
        element: Option<&MessageDescriptor>,
        options: &WriterOptions,
        progress: &Progress,
    ) -> Result<u64> {
        let mut options = options.clone();
        if let Some(element) = element {
            options = options.metadata(&describe_type(element, true));
        }
        let compression = options.get_compression();
        let mut writer = RecordWriter::new(sink, options)?;
        let mut buffer = Vec::new();
        let count = self.each(progress, |cursor, element| {
            let range = element.value.clone();
            let len = range.end - range.start;
            if len <= SMALL {
                return Ok(writer.write_record(cursor.bytes(range)?)?);
            }
            if len < STREAM_FROM {
                buffer.clear();
                copy_range(&*self.message, range, &mut buffer)?;
                return Ok(writer.write_record(&buffer)?);
            }
            let mut reader = PositionReader::new(&*self.message);
            reader.seek(SeekFrom::Start(range.start))?;
            writer.write_record_from(&mut reader.take(len), len, compression)?;
            Ok(())
        })?;
        writer.finish()?.flush()?;
        Ok(count)
    }

    /// Passes each element to `take`, and returns the number of elements.
    fn each(
        &self,
        progress: &Progress,
        mut take: impl FnMut(&mut WireCursor<SourceInput<'_, dyn ReadAt>>, &Field) -> Result<()>,
    ) -> Result<u64> {
        let size = self.message.size()?;
        let meter = progress.meter(size);
        let mut cursor = WireCursor::new(SourceInput::new(&*self.message, size));
        let mut count = 0;
        while let Some(field) = cursor.next()? {
            if field.number == self.number && field.wire_type == WireType::Len {
                count += 1;
                take(&mut cursor, &field)?;
            } else if !self.drops_others {
                let message = format!(
                    "field {} would be lost in a sequence of field {}",
                    field.number.0, self.number.0
                );
                return Err(Error::new(ErrorKind::Uncuttable, message).at_offset(field.start));
            }
            meter.advance(field.end - field.start)?;
        }
        Ok(count)
    }
}
