//! Copying chunks from one file to another, without decoding them.
use std::io::Write;

use super::RecordWriter;
use super::later_position::{Begin, LaterPosition};
use super::sink::Frame;
use crate::chunk::Chunk;
use crate::error::Result;
use crate::file::RecordFile;
use crate::payload::Payload;
use crate::position::ChunkOffset;
use crate::read_at::ReadAt;

impl<W: Write> RecordWriter<W> {
    /// Writes a chunk from another file in its stored form, without decompressing it, and returns
    /// the chunk's new position. The records keep their indices in the chunk. The chunk is copied
    /// in small pieces, and its hash is verified at the end.
    ///
    /// # Errors
    ///
    /// Any error from reading the chunk, including a wrong hash; [`Io`](crate::ErrorKind::Io) if
    /// writing fails. After an error, every later write fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{Compression, ReaderOptions, RecordFile, RecordPosition, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// let position = writer.write_record_alone(&[7; 100_000], Compression::ZSTD)?;
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record_alone(b"in front of it", Compression::None)?;
    /// let chunk = file.chunk_header_at(position.chunk_begin())?;
    /// let begin = writer.copy_chunk(&file, &chunk)?;
    ///
    /// let copy = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// assert_eq!(copy.read_record(RecordPosition::new(begin.0, 0))?, [7; 100_000][..]);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn copy_chunk<S: ReadAt>(
        &mut self,
        file: &RecordFile<S>,
        chunk: &Chunk,
    ) -> Result<ChunkOffset> {
        self.attempt(|writer| {
            writer.close_chunk()?;
            writer.settle()?;
            let begin = writer.sink.pos();
            let end = chunk.header.end(begin);
            let frame = Frame::Known { begin, end };
            writer.emit(frame, &[&chunk.header.encode()])?;
            let mut source = file.get_ref();
            let mut payload = Payload::hashed(*chunk);
            while payload.left() > 0 {
                let piece = payload.piece(&mut source, payload.left())?;
                writer.emit(frame, &[piece])?;
            }
            payload.finish(&mut source)?;
            writer
                .sink
                .pad(frame, end)
                .map_err(|error| writer.io(error))?;
            writer.last_data_size = chunk.header.data_size;
            if let Some(last) = chunk.header.num_records.checked_sub(1) {
                writer.last = Some(LaterPosition {
                    begin: Begin::Known(begin),
                    index: last,
                });
            }
            Ok(ChunkOffset(begin))
        })
    }
}
