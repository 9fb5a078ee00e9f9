//! Writing records.
mod options;
mod placed;
mod sink;
mod streamed;

use std::io::Write;

pub use options::{
    DEFAULT_BUCKET_FRACTION, DEFAULT_CHUNK_SIZE, DEFAULT_COMPRESSION, DEFAULT_PADDING,
    DEFAULT_UNCOMPRESSED_CHUNK_SIZE, WriterOptions,
};
pub use placed::{EncodedRecord, plain_record_end};

use crate::chunk::{ChunkHeader, ChunkKind, MAX_RECORDS};
use crate::codec::Encoders;
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::hash::Hasher;
use crate::position::RecordPosition;
use crate::simple;
use crate::transpose::ChunkEncoder;
use crate::varint;
use sink::BlockSink;

/// Writes records to a file, many small ones to a chunk.
///
/// [`finish`](Self::finish) completes the file; a writer that is dropped before leaves it cut short. After an
/// error nothing more can be written.
///
/// # Examples
///
/// ```
/// use record_file::{Compression, RecordWriter, WriterOptions};
///
/// let options = WriterOptions::new().compression(Compression::ZSTD);
/// let mut writer = RecordWriter::new(Vec::new(), options)?;
/// writer.write_record(b"a record")?;
/// writer.write_record_slices(&[b"one ", b"more"])?;
/// let file = writer.finish()?;
/// assert!(file.starts_with(b"\x83\xafp\xd1\r\x88J?"));
/// # Ok::<(), record_file::Error>(())
/// ```
#[derive(Debug)]
pub struct RecordWriter<W> {
    sink: BlockSink<W>,
    options: WriterOptions,
    chunk_size: u64,
    encoders: Encoders,
    transposing: ChunkEncoder,
    pending: Pending,
    last: Option<RecordPosition>,
    failed: bool,
}

/// The records of the chunk that isn't written yet.
#[derive(Debug, Default)]
struct Pending {
    num_records: u64,
    /// One varint a record.
    sizes: Vec<u8>,
    values: Vec<u8>,
    /// What the chunk counts for, 8 bytes a record included.
    counted: u64,
}

/// What a record counts for in its chunk besides its bytes: so many empty ones can't share a chunk.
const RECORD_OVERHEAD: u64 = 8;

impl<W: Write> RecordWriter<W> {
    /// Begins a new file, at what is the beginning of `inner`.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if an option is out of its range; nothing is written then.
    /// [`Io`](crate::ErrorKind::Io) if there is metadata, and the underlying writer fails to take it.
    pub fn new(inner: W, options: WriterOptions) -> Result<Self> {
        options.validate()?;
        let mut writer = RecordWriter {
            sink: BlockSink::new(inner),
            chunk_size: options.effective_chunk_size(),
            options,
            encoders: Encoders::default(),
            transposing: ChunkEncoder::default(),
            pending: Pending::default(),
            last: None,
            failed: false,
        };
        if let Some(metadata) = writer.options.metadata.take() {
            writer.write_metadata(&metadata)?;
            writer.options.metadata = Some(metadata);
        }
        Ok(writer)
    }

    /// Begins a new file with the default options.
    ///
    /// # Errors
    ///
    /// None; the signature leaves room for what writing the first bytes may bring.
    pub fn with_defaults(inner: W) -> Result<Self> {
        Self::new(inner, WriterOptions::new())
    }

    /// Writes a record.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) if the underlying writer fails, [`Closed`](crate::ErrorKind::Closed) if it did
    /// before; [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if it is too long for the compression.
    pub fn write_record(&mut self, record: &[u8]) -> Result<()> {
        self.write_record_slices(&[record])
    }

    /// Writes a record that is the concatenation of `parts`. A large one is not copied on its way.
    ///
    /// # Errors
    ///
    /// As [`write_record`](Self::write_record).
    pub fn write_record_slices(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.attempt(|writer| writer.add(parts))
    }

    /// Writes a record in a chunk of its own, compressed in its own way, and returns its position.
    ///
    /// # Errors
    ///
    /// As [`write_record`](Self::write_record); [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if the
    /// compression's parameters are out of range, after which the writer goes on working.
    pub fn write_record_alone(
        &mut self,
        record: &[u8],
        compression: Compression,
    ) -> Result<RecordPosition> {
        self.write_record_slices_alone(&[record], compression)
    }

    /// [`write_record_alone`](Self::write_record_alone) for a record that is the concatenation of `parts`.
    ///
    /// # Errors
    ///
    /// As [`write_record_alone`](Self::write_record_alone).
    pub fn write_record_slices_alone(
        &mut self,
        parts: &[&[u8]],
        compression: Compression,
    ) -> Result<RecordPosition> {
        compression.validate()?;
        self.attempt(|writer| {
            writer.close_chunk()?;
            writer.write_alone(parts, &compression)
        })
    }

    /// Writes what is pending, so that all records so far can be read from the underlying writer, and flushes that.
    ///
    /// Each flush ends a chunk: many make a file larger.
    ///
    /// # Errors
    ///
    /// As [`write_record`](Self::write_record).
    pub fn flush(&mut self) -> Result<()> {
        self.attempt(|writer| {
            writer.close_chunk()?;
            writer
                .sink
                .write_padding(writer.options.final_padding)
                .and_then(|()| writer.sink.flush())
                .map_err(|error| writer.io(error))
        })
    }

    /// Completes the file, and returns the underlying writer.
    ///
    /// # Errors
    ///
    /// As [`write_record`](Self::write_record).
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        Ok(self.sink.into_inner())
    }

    /// The position that the next record gets, unless it no longer fits in the same chunk.
    #[must_use]
    pub fn position(&self) -> RecordPosition {
        RecordPosition::new(self.sink.pos(), self.pending.num_records)
    }

    /// The position of the record written last.
    #[must_use]
    pub fn last_position(&self) -> Option<RecordPosition> {
        self.last
    }

    /// Bytes of the file so far; records that wait for their chunk to be full aren't counted.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.sink.pos()
    }

    /// The underlying writer. It may not have got everything yet: see [`flush`](Self::flush).
    pub fn get_ref(&self) -> &W {
        self.sink.get_ref()
    }

    /// Runs a step of writing; once one failed, it is not known what is in the file, so none is run any more.
    fn attempt<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.failed {
            return Err(Error::closed("writing failed before"));
        }
        let result = step(self);
        self.failed = result.is_err();
        result
    }

    fn io(&self, error: std::io::Error) -> Error {
        Error::io(Some(self.sink.pos()), error)
    }

    fn add(&mut self, parts: &[&[u8]]) -> Result<()> {
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let added = len.saturating_add(RECORD_OVERHEAD);
        let full = |counted: u64, more: u64| counted.saturating_add(more) > self.chunk_size;
        if self.pending.num_records > 0 && full(self.pending.counted, added)
            || self.pending.num_records == MAX_RECORDS
        {
            self.close_chunk()?;
        }
        let full = |counted: u64, more: u64| counted.saturating_add(more) > self.chunk_size;
        if !self.options.transpose && self.pending.num_records == 0 && full(added, RECORD_OVERHEAD)
        {
            // The chunk would be closed right after it: no need to gather it first.
            let compression = self.options.compression;
            self.write_alone(parts, &compression)?;
            return Ok(());
        }
        self.last = Some(self.position());
        let pending = &mut self.pending;
        pending.num_records += 1;
        varint::push(&mut pending.sizes, len);
        parts
            .iter()
            .for_each(|part| pending.values.extend_from_slice(part));
        pending.counted += added;
        if pending.counted.saturating_add(RECORD_OVERHEAD) > self.chunk_size {
            self.close_chunk()?;
        }
        Ok(())
    }

    fn write_alone(
        &mut self,
        parts: &[&[u8]],
        compression: &Compression,
    ) -> Result<RecordPosition> {
        let position = self.position();
        let mut sizes = Vec::with_capacity(varint::MAX_LEN);
        varint::push(&mut sizes, parts.iter().map(|part| part.len() as u64).sum());
        self.write_simple(1, &sizes, parts, compression)?;
        self.last = Some(position);
        Ok(position)
    }

    fn close_chunk(&mut self) -> Result<()> {
        if self.pending.num_records == 0 {
            return Ok(());
        }
        let mut pending = std::mem::take(&mut self.pending);
        let compression = self.options.compression;
        let result = if self.options.transpose {
            self.write_transposed(&pending)
        } else {
            self.write_simple(
                pending.num_records,
                &pending.sizes,
                &[&pending.values],
                &compression,
            )
        };
        // Back with its memory for the next chunk.
        pending.num_records = 0;
        pending.counted = 0;
        pending.sizes.clear();
        pending.values.clear();
        self.pending = pending;
        result
    }

    fn write_simple(
        &mut self,
        num_records: u64,
        sizes: &[u8],
        values: &[&[u8]],
        compression: &Compression,
    ) -> Result<()> {
        let encoded = simple::encode(&mut self.encoders, compression, num_records, sizes, values)?;
        let mut data = vec![&encoded.data[..]];
        if *compression == Compression::None {
            data.extend_from_slice(values);
        }
        self.write_chunk(&data, |data_size, data_hash| {
            encoded.header(data_size, data_hash)
        })
    }

    fn write_transposed(&mut self, pending: &Pending) -> Result<()> {
        let encoded = self.transposing.encode(
            &mut self.encoders,
            &self.options.compression,
            self.options.bucket_size(),
            &pending.sizes,
            &pending.values,
        )?;
        self.write_chunk(&[&encoded.data], |data_size, data_hash| {
            encoded.header(data_size, data_hash)
        })
    }

    /// A transposed chunk of one record, which isn't counted as one.
    fn write_metadata(&mut self, serialized: &[u8]) -> Result<()> {
        let mut sizes = Vec::with_capacity(varint::MAX_LEN);
        varint::push(&mut sizes, serialized.len() as u64);
        let encoded = self.transposing.encode(
            &mut self.encoders,
            &self.options.compression,
            u64::MAX,
            &sizes,
            serialized,
        )?;
        self.write_chunk(&[&encoded.data], |data_size, data_hash| ChunkHeader {
            kind: ChunkKind::Metadata,
            num_records: 0,
            ..encoded.header(data_size, data_hash)
        })
    }

    fn write_chunk(
        &mut self,
        data: &[&[u8]],
        header: impl FnOnce(u64, u64) -> ChunkHeader,
    ) -> Result<()> {
        let mut hasher = Hasher::new();
        data.iter().for_each(|part| hasher.update(part));
        let data_size = data.iter().map(|part| part.len() as u64).sum();
        self.sink
            .write_chunk(&header(data_size, hasher.finish()), data)
            .map_err(|error| self.io(error))
    }
}
