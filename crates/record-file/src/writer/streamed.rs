//! Writing a record without holding all of it in memory or, if the caller holds the record, without
//! holding its compressed form.
use std::io::{Read, Seek, SeekFrom, Write};

use super::RecordWriter;
use super::sink::{BlockSink, Frame, Patch};
use crate::chunk::{ChunkHeader, ChunkType};
use crate::codec::Encoders;
use crate::compression::Compression;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Hasher;
use crate::position::RecordPosition;
use crate::simple::encode_front;
use crate::varint;

/// Number of bytes read from a source at once.
const STEP: usize = 1 << 20;

impl<W: Write + Seek> RecordWriter<W> {
    /// Allows the writer to seek back, so that it can [stream](crate::WriterOptions::stream_from)
    /// large compressed records given in memory: it holds only a few MiB of the compressed form at
    /// a time, and fills in the record's header afterwards.
    ///
    /// The resulting file is the same as without seeking. A file must not have been opened in
    /// append mode (`O_APPEND`): headers couldn't be filled in, so writing the first streamed
    /// record would fail. [`append`](Self::append) doesn't need that mode. The underlying writer
    /// must return its real position when it seeks, unlike `/dev/null`. If writing is interrupted
    /// before a record is complete, readers report the incomplete record as damage, rather than as
    /// a truncated file.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Cursor;
    ///
    /// use record_file::{RecordWriter, WriterOptions};
    ///
    /// let options: WriterOptions = "zstd:1".parse()?;
    /// let record = vec![7; 10_000_000];
    /// let file = Cursor::new(Vec::new());
    /// let mut writer = RecordWriter::new(file, options.clone())?.seekable();
    /// writer.write_record(&record)?;
    ///
    /// let mut held = RecordWriter::new(Vec::new(), options)?;
    /// held.write_record(&record)?;
    /// assert_eq!(writer.finish()?.into_inner(), held.finish()?);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    #[must_use]
    pub fn seekable(mut self) -> Self {
        self.patch = Some(BlockSink::patch);
        self
    }

    /// Reads a record of `len` bytes from `source`, writes the record in its own chunk, and returns
    /// the record's position.
    ///
    /// The record is streamed, so only a few MiB are held. Bytes after the first `len` bytes of the
    /// source are not read. For an underlying writer that can't seek, or doesn't return its real
    /// position when it seeks (such as `/dev/null`), use
    /// [`write_record_from_seekable`](Self::write_record_from_seekable) or an
    /// [`EncodedRecord`](crate::EncodedRecord).
    ///
    /// # Errors
    ///
    /// [`SourceEnded`](ErrorKind::SourceEnded) if the source has fewer bytes, [`Io`](ErrorKind::Io)
    /// if reading or writing fails; after either error, every later write fails.
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) if the record is longer than a file can be, or
    /// than its compression allows (for snappy, just under 4 GiB).
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) if the compression's parameters are out of
    /// range.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{Cursor, Read};
    ///
    /// use record_file::{Compression, ReaderOptions, RecordFile, RecordWriter, WriterOptions};
    ///
    /// let mut writer = RecordWriter::new(Cursor::new(Vec::new()), WriterOptions::new())?;
    /// let mut zeros = std::io::repeat(0);
    /// let position = writer.write_record_from(&mut zeros, 10_000_000, Compression::ZSTD)?;
    /// let file = writer.finish()?.into_inner();
    /// assert!(file.len() < 2000);
    ///
    /// let file = RecordFile::open(file, ReaderOptions::new())?;
    /// let mut stream = file.record_stream(position)?;
    /// assert_eq!(std::io::copy(&mut stream, &mut std::io::sink())?, 10_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_record_from(
        &mut self,
        source: &mut dyn Read,
        len: u64,
        compression: Compression,
    ) -> Result<RecordPosition> {
        compression.validate()?;
        self.attempt(|writer| {
            writer.close_chunk()?;
            writer.settle()?;
            let begin = writer.sink.pos();
            match compression {
                Compression::None => writer.stream_plain(source, len)?,
                _ => {
                    let source = Source::Read(source);
                    writer.stream_compressed(source, len, &compression, BlockSink::patch)?;
                }
            }
            Ok(writer.wrote_alone(begin))
        })
    }

    /// Streams an uncompressed record. All lengths and block headers are known in advance; only the
    /// hash isn't known until the end.
    fn stream_plain(&mut self, source: &mut dyn Read, len: u64) -> Result<()> {
        let mut record = self.begin_plain(len)?;
        read_pieces(source, len, |piece| self.push_plain(&mut record, piece))?;
        self.end_plain(record)
    }
}

impl<W: Write> RecordWriter<W> {
    /// Writes a record like [`write_record_from`](Self::write_record_from), for an underlying
    /// writer that can't seek and a source that can seek. The source is read and compressed twice,
    /// since the chunk header before a record contains the length and hash of the record's stored
    /// data.
    ///
    /// The file is the same as with `write_record_from`.
    ///
    /// # Errors
    ///
    /// The same errors as [`write_record_from`](Self::write_record_from);
    /// [`ChecksumMismatch`](ErrorKind::ChecksumMismatch) if the source returns different bytes the
    /// second time.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Cursor;
    ///
    /// use record_file::{Compression, ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let mut source = Cursor::new(vec![7; 1_000_000]);
    /// let mut pipe = Vec::new();
    /// let mut writer = RecordWriter::with_defaults(&mut pipe);
    /// let position = writer.write_record_from_seekable(&mut source, 1_000_000, Compression::ZSTD)?;
    /// writer.finish()?;
    ///
    /// let file = RecordFile::open(pipe, ReaderOptions::new())?;
    /// assert_eq!(file.read_record(position)?, source.into_inner());
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn write_record_from_seekable<R: Read + Seek>(
        &mut self,
        source: &mut R,
        len: u64,
        compression: Compression,
    ) -> Result<RecordPosition> {
        compression.validate()?;
        self.attempt(|writer| {
            let read = |error| Error::io(None, error);
            let start = source.stream_position().map_err(read)?;
            let mut encoders = std::mem::take(&mut writer.encoder.codecs);
            let mut encode = |source: &mut R, emit: &mut dyn FnMut(&[u8]) -> Result<()>| {
                encode_record(&mut encoders, Source::Read(source), len, &compression, emit)
            };
            let planned = encode(source, &mut |_| Ok(()))?;
            source.seek(SeekFrom::Start(start)).map_err(read)?;
            let position = writer.write_framed(&planned, |emit| {
                encode(source, emit)?;
                Ok(())
            })?;
            writer.encoder.codecs = encoders;
            Ok(position)
        })
    }

    /// Streams a compressed record. The length of the chunk is known only at the end, so both the
    /// chunk header and the block headers are filled in at the end.
    pub(super) fn stream_compressed(
        &mut self,
        source: Source<'_>,
        len: u64,
        compression: &Compression,
        patch: Patch<W>,
    ) -> Result<()> {
        let begin = self.sink.pos();
        self.emit(Frame::Open, &[&unfilled_header(len).encode()])?;
        let mut encoders = std::mem::take(&mut self.encoder.codecs);
        let emit = &mut |data: &[u8]| self.emit(Frame::Open, &[data]);
        let header = encode_record(&mut encoders, source, len, compression, emit)?;
        self.encoder.codecs = encoders;
        self.last_data_size = header.data_size;
        let end = header.end(begin);
        self.sink
            .pad(Frame::Known { begin, end }, end)
            .and_then(|()| patch(&mut self.sink, begin, &header, Frame::Open))
            .map_err(|error| self.io(error))
    }

    /// Writes a chunk whose header is known. `data` is called with a function, and must pass the
    /// chunk's data to this function. The chunk's data must match the header.
    pub(super) fn write_framed(
        &mut self,
        header: &ChunkHeader,
        data: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<RecordPosition> {
        self.close_chunk()?;
        self.settle()?;
        let begin = self.sink.pos();
        let end = end_of(header, begin)?;
        let frame = Frame::Known { begin, end };
        self.emit(frame, &[&header.encode()])?;
        let other = || {
            let message = "the data of a record has changed";
            Error::plain(ErrorKind::ChecksumMismatch, message)
        };
        let mut hasher = Hasher::new();
        let mut left = header.data_size;
        data(&mut |piece| {
            // The length is checked before writing, since no block header may be after the end.
            left = left.checked_sub(piece.len() as u64).ok_or_else(other)?;
            hasher.update(piece);
            self.emit(frame, &[piece])
        })?;
        if left > 0 || hasher.finish() != header.data_hash {
            return Err(other());
        }
        self.sink.pad(frame, end).map_err(|error| self.io(error))?;
        self.last_data_size = header.data_size;
        Ok(self.wrote_alone(begin))
    }

    pub(super) fn emit(&mut self, frame: Frame, parts: &[&[u8]]) -> Result<()> {
        self.sink.emit(frame, parts).map_err(|error| self.io(error))
    }
}

/// Returns the header of a chunk with one record of `len` bytes. The size and hash of the data are
/// 0, since they aren't known yet.
fn unfilled_header(len: u64) -> ChunkHeader {
    ChunkHeader {
        kind: ChunkType::Simple,
        data_size: 0,
        data_hash: 0,
        num_records: 1,
        decoded_data_size: len,
    }
}

/// Returns the header of a chunk with one uncompressed record, and the chunk's data before the
/// record. The header lacks the hash of the data.
pub(super) fn plain_header(encoders: &mut Encoders, len: u64) -> Result<(ChunkHeader, Vec<u8>)> {
    let mut sizes = Vec::new();
    varint::push(&mut sizes, len);
    let mut front = Vec::new();
    encode_front(encoders, &Compression::None, &sizes, &mut front)?;
    let header = ChunkHeader {
        data_size: len.checked_add(front.len() as u64).ok_or_else(too_long)?,
        ..unfilled_header(len)
    };
    Ok((header, front))
}

/// The source of a record's bytes.
pub(super) enum Source<'a> {
    Read(&'a mut dyn Read),
    Parts(&'a [&'a [u8]]),
}

impl Source<'_> {
    /// Passes the next `len` bytes of the source to `each`, in pieces. For [`Source::Parts`],
    /// ignores `len` and passes each part.
    fn pieces(self, len: u64, each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Source::Read(source) => read_pieces(source, len, each),
            Source::Parts(parts) => parts.iter().copied().try_for_each(each),
        }
    }
}

/// Encodes a chunk with one record of `len` bytes, and passes the chunk's data to `emit` as the
/// data is produced.
pub(super) fn encode_record(
    encoders: &mut Encoders,
    source: Source<'_>,
    len: u64,
    compression: &Compression,
    emit: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<ChunkHeader> {
    let mut header = unfilled_header(len);
    let mut hasher = Hasher::new();
    let mut write = |data: &[u8]| {
        hasher.update(data);
        header.data_size += data.len() as u64;
        emit(data)
    };
    if *compression == Compression::None {
        let (_, front) = plain_header(encoders, len)?;
        write(&front)?;
        source.pieces(len, write)?;
    } else {
        let mut sizes = Vec::new();
        varint::push(&mut sizes, len);
        let mut stored = Vec::new();
        encode_front(encoders, compression, &sizes, &mut stored)?;
        let mut take = |stored: &mut Vec<u8>| {
            write(stored)?;
            stored.clear();
            Ok(())
        };
        let mut stream = encoders.start(compression, len, &mut stored)?;
        source.pieces(len, |piece| stream.run(piece, &mut stored, &mut take))?;
        encoders.finish(stream, &mut stored, &mut take)?;
    }
    header.data_hash = hasher.finish();
    Ok(header)
}

/// Reads exactly `len` bytes in pieces, and passes each piece to `each`.
pub(super) fn read_pieces(
    source: &mut dyn Read,
    len: u64,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let step = usize::try_from(len).map_or(STEP, |len| len.min(STEP));
    let mut buf = vec![0; step];
    let mut left = len;
    while left > 0 {
        let want = usize::try_from(left).map_or(step, |left| left.min(step));
        let mut filled = 0;
        while filled < want {
            match source.read(&mut buf[filled..want]) {
                Ok(0) => {
                    let got = len - left + filled as u64;
                    return Err(Error::plain(
                        ErrorKind::SourceEnded,
                        format!("the source of a record of {len} bytes ended after {got}"),
                    ));
                }
                Ok(n) => filled += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(None, error)),
            }
        }
        each(&buf[..want])?;
        left -= want as u64;
    }
    Ok(())
}

/// Returns the end of a chunk that has this header and begins at `begin`. Fails if the end is beyond
/// the largest position in a file.
pub(super) fn end_of(header: &ChunkHeader, begin: u64) -> Result<u64> {
    match header.end(begin) {
        u64::MAX => Err(too_long()),
        end => Ok(end),
    }
}

fn too_long() -> Error {
    Error::plain(
        ErrorKind::LimitExceeded,
        "the record is too long for the positions of a file",
    )
}
