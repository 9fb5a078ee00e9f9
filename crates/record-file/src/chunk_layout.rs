//! The parts of a chunk in a file: headers, data, and fill.
use crate::block::{BLOCK_HEADER, is_boundary, next_boundary, payload_between};
use crate::chunk::{CHUNK_HEADER, Chunk};

/// The total size of each kind of part in a chunk.
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
    /// Size of the chunk's own header, in bytes.
    pub header: u64,
    /// Total size of the block headers inside the chunk or right before the chunk header, in bytes.
    pub block_headers: u64,
    /// Size of the data as stored, in bytes.
    pub data: u64,
    /// Number of zero bytes after the data. They make the chunk large enough for every record to
    /// have its own position.
    pub fill: u64,
}

impl ChunkLayout {
    /// Returns the total size of the chunk, in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        let parts = [self.header, self.block_headers, self.data, self.fill];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// A contiguous range of bytes of a chunk that have the same purpose.
///
/// ```
/// use record_file::{Compression, PartKind, ReaderOptions, RecordFile, RecordWriter, WriterOptions};
///
/// let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new())?;
/// writer.write_record_alone(&[7; 100_000], Compression::None)?;
/// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
///
/// let mut end = 0;
/// let mut block_headers = 0;
/// for chunk in file.chunks() {
///     for part in chunk?.parts() {
///         assert_eq!(part.begin, end);
///         end = part.end;
///         block_headers += u64::from(part.kind == PartKind::BlockHeader);
///     }
/// }
/// assert_eq!((end, block_headers), (file.size(), file.size().div_ceil(64 << 10)));
/// # Ok::<(), record_file::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkPart {
    /// File offset of the part's first byte.
    pub begin: u64,
    /// File offset of the part's end.
    pub end: u64,
    /// Purpose of the bytes.
    pub kind: PartKind,
}

/// The purpose of a [`ChunkPart`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartKind {
    /// The header of a block, which can be anywhere in a chunk.
    BlockHeader,
    /// The chunk's own header.
    Header,
    /// The chunk's data, as stored.
    Data,
    /// Zero bytes after the data.
    Fill,
}

impl Chunk {
    /// Returns the parts that make up the chunk, in file order.
    pub fn parts(&self) -> impl Iterator<Item = ChunkPart> + use<> {
        let layout = self.layout();
        let mut at = self.begin;
        let mut left = [
            (PartKind::Header, layout.header),
            (PartKind::Data, layout.data),
            (PartKind::Fill, layout.fill),
        ]
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .peekable();
        std::iter::from_fn(move || {
            let (kind, bytes) = left.peek_mut()?;
            let begin = at;
            if is_boundary(begin) {
                at = begin.checked_add(BLOCK_HEADER)?;
                return Some(ChunkPart {
                    begin,
                    end: at,
                    kind: PartKind::BlockHeader,
                });
            }
            let run = (*bytes).min(next_boundary(begin) - begin);
            let part = ChunkPart {
                begin,
                end: begin.checked_add(run)?,
                kind: *kind,
            };
            at = part.end;
            *bytes -= run;
            if *bytes == 0 {
                left.next();
            }
            Some(part)
        })
    }

    /// Returns the total size of each kind of part in the chunk.
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
