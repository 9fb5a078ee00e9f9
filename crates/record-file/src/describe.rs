//! What every byte of a file is for.
use crate::block::payload_between;
use crate::chunk::{CHUNK_HEADER, Chunk};

/// What the bytes of a chunk are for.
///
/// ```text
/// | chunk header | data                                | fill |
///        | block header |            | block header |            wherever a block begins
/// ```
///
/// # Examples
///
/// ```
/// use record_file::{Compression, ReaderOptions, RecordFile, RecordWriter, WriterOptions};
///
/// let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new())?;
/// writer.write_record_alone(&[7; 100_000], Compression::None)?;
/// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
///
/// let mut bytes = 0;
/// for chunk in file.chunks() {
///     bytes += chunk?.layout().total();
/// }
/// assert_eq!(bytes, file.size());
/// # Ok::<(), record_file::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkLayout {
    /// Bytes of the chunk's own header.
    pub header: u64,
    /// Bytes of the block headers that interrupt it, or that it begins behind.
    pub block_headers: u64,
    /// Bytes of its data, as stored.
    pub data: u64,
    /// Zeros behind the data, so that every record has a position of its own.
    pub fill: u64,
}

impl ChunkLayout {
    /// Bytes of the chunk in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        let parts = [self.header, self.block_headers, self.data, self.fill];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

impl Chunk {
    /// What its bytes are for.
    #[must_use]
    pub fn layout(&self) -> ChunkLayout {
        let payload = payload_between(self.begin, self.end);
        ChunkLayout {
            header: CHUNK_HEADER,
            block_headers: (self.end - self.begin).saturating_sub(payload),
            data: self.header.data_size,
            fill: payload
                .saturating_sub(CHUNK_HEADER)
                .saturating_sub(self.header.data_size),
        }
    }
}
