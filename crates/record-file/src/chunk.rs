//! Chunks and their headers.
use crate::block::{
    BLOCK, BlockHeader, payload_end, payload_position, round_to_chunk_boundary, words,
};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::hash;
use crate::position::ChunkOffset;

pub(crate) use crate::block::CHUNK_HEADER;

pub(crate) const CHUNK_HEADER_LEN: usize = 40;
pub(crate) const MAX_RECORDS: u64 = (1 << 56) - 1;

/// The purpose of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChunkType {
    /// `s`: the signature, part of the first 64 bytes of a file.
    Signature,
    /// `m`: a `RecordsMetadata` message about the file.
    Metadata,
    /// `p`: padding.
    Padding,
    /// `r`: records, one after another.
    Simple,
    /// `t`: records that are protobuf messages, stored field by field.
    Transposed,
    /// A type that this crate doesn't support. A chunk of an unknown type is skipped if its header
    /// claims no records.
    Unknown(u8),
}

impl ChunkType {
    pub(crate) fn from_byte(byte: u8) -> Self {
        match byte {
            b's' => ChunkType::Signature,
            b'm' => ChunkType::Metadata,
            b'p' => ChunkType::Padding,
            b'r' => ChunkType::Simple,
            b't' => ChunkType::Transposed,
            other => ChunkType::Unknown(other),
        }
    }

    /// Returns the byte that encodes the type in a file.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            ChunkType::Signature => b's',
            ChunkType::Metadata => b'm',
            ChunkType::Padding => b'p',
            ChunkType::Simple => b'r',
            ChunkType::Transposed => b't',
            ChunkType::Unknown(byte) => byte,
        }
    }
}

/// The header before the data of a chunk.
///
/// ```text
///  0             8           16          24     25            32                   40
///  +-------------+-----------+-----------+------+-------------+--------------------+
///  | header_hash | data_size | data_hash | kind | num_records | decoded_data_size  |
///  +-------------+-----------+-----------+------+-------------+--------------------+
/// ```
///
/// All integers are little-endian; `num_records` has 56 bits. `header_hash` is the hash of the 32
/// bytes after it, and `data_hash` is the hash of the data after the header, without the block
/// headers inside the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Purpose of the chunk.
    pub kind: ChunkType,
    /// Size of the data as stored, in bytes.
    pub data_size: u64,
    /// Hash of the data as stored.
    pub data_hash: u64,
    /// Number of records in the chunk.
    pub num_records: u64,
    /// Total decoded size of the chunk's records, in bytes.
    pub decoded_data_size: u64,
}

impl ChunkHeader {
    pub(crate) const SIGNATURE: ChunkHeader = ChunkHeader {
        kind: ChunkType::Signature,
        data_size: 0,
        // The hash of empty data, which a test verifies.
        data_hash: 0x72c3_b1e9_c013_9fe1,
        num_records: 0,
        decoded_data_size: 0,
    };

    pub(crate) fn encode(&self) -> [u8; CHUNK_HEADER_LEN] {
        let mut out = [0; CHUNK_HEADER_LEN];
        let typed = self.num_records << 8 | u64::from(self.kind.byte());
        for (index, word) in [
            self.data_size,
            self.data_hash,
            typed,
            self.decoded_data_size,
        ]
        .into_iter()
        .enumerate()
        {
            out[8 + 8 * index..16 + 8 * index].copy_from_slice(&word.to_le_bytes());
        }
        let hash = hash(&out[8..]);
        out[..8].copy_from_slice(&hash.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8; CHUNK_HEADER_LEN], begin: u64) -> Result<Self> {
        let [stored, data_size, data_hash, typed, decoded_data_size] = words(bytes);
        let computed = hash(&bytes[8..]);
        if stored != computed {
            return Err(Error::hash(begin, "chunk header", stored, computed));
        }
        Ok(ChunkHeader {
            kind: ChunkType::from_byte(bytes[24]),
            data_size,
            data_hash,
            num_records: typed >> 8,
            decoded_data_size,
        })
    }

    /// Returns the end of a chunk that has this header and begins at `begin`. This is the end of
    /// the chunk's data, or a later position if the chunk must be longer for every record to have
    /// its own position.
    pub(crate) fn end(&self, begin: u64) -> u64 {
        let data_end = payload_end(begin, self.data_size.saturating_add(CHUNK_HEADER));
        data_end.max(round_to_chunk_boundary(
            begin.saturating_add(self.num_records),
        ))
    }

    /// Fails if the header has a nonzero size or count that must be zero for a chunk of this kind.
    pub(crate) fn check_claims(&self, begin: u64) -> Result<()> {
        let (no_data, no_records, no_decoded) = match self.kind {
            ChunkType::Signature => (true, true, true),
            ChunkType::Padding => (false, true, true),
            ChunkType::Metadata => (false, true, false),
            ChunkType::Simple | ChunkType::Transposed => return Ok(()),
            ChunkType::Unknown(byte) if self.num_records > 0 => {
                return Err(Error::at(
                    ErrorKind::Unsupported,
                    begin,
                    format!("a chunk of unknown type {byte:#04x} claims records"),
                ));
            }
            ChunkType::Unknown(_) => return Ok(()),
        };
        let claim = if no_data && self.data_size > 0 {
            "data"
        } else if no_records && self.num_records > 0 {
            "records"
        } else if no_decoded && self.decoded_data_size > 0 {
            "decoded data"
        } else {
            return Ok(());
        };
        Err(Error::corrupt(
            begin,
            format!("{claim} in a {} chunk", self.name()),
        ))
    }

    fn name(&self) -> &'static str {
        match self.kind {
            ChunkType::Signature => "signature",
            ChunkType::Metadata => "metadata",
            ChunkType::Padding => "padding",
            ChunkType::Simple => "simple",
            ChunkType::Transposed => "transposed",
            ChunkType::Unknown(_) => "unknown",
        }
    }
}

/// A chunk: its header and its range in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// The decoded header.
    pub header: ChunkHeader,
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

impl Chunk {
    /// Returns the number of records in the chunk; 0 for kinds of chunks that don't contain
    /// records.
    pub(crate) fn records(&self) -> u64 {
        match self.header.kind {
            ChunkType::Simple | ChunkType::Transposed => self.header.num_records,
            _ => 0,
        }
    }

    /// Returns the position where the chunk begins.
    #[must_use]
    pub fn begin(&self) -> ChunkOffset {
        ChunkOffset(self.begin)
    }

    /// Returns the position where the chunk ends and the next chunk begins.
    #[must_use]
    pub fn end(&self) -> ChunkOffset {
        ChunkOffset(self.end)
    }

    /// Returns the file position of byte `offset` of the chunk's data, and the number of bytes from
    /// this position to the next block header. The data may end before that header.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{Compression, ReaderOptions, RecordFile, RecordWriter, WriterOptions};
    ///
    /// let options = WriterOptions::new().compression(Compression::None);
    /// let mut writer = RecordWriter::new(Vec::new(), options)?;
    /// let record = vec![7; 100_000];
    /// writer.write_record(&record)?;
    /// let bytes = writer.finish()?;
    ///
    /// let file = RecordFile::open(&bytes, ReaderOptions::new())?;
    /// let position = file.last_record()?.expect("it has one");
    /// let stored = file.stored(position)?;
    /// // The record's bytes are the last of the chunk's data.
    /// let offset = stored.chunk.header.data_size - record.len() as u64;
    /// let (position, in_a_row) = stored.chunk.data_position(offset);
    /// let (begin, end) = (position as usize, (position + in_a_row) as usize);
    /// assert_eq!(bytes[begin..end], record[..end - begin]);
    /// assert_eq!(end % 65_536, 0);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    #[must_use]
    pub fn data_position(&self, offset: u64) -> (u64, u64) {
        let position = payload_position(self.begin, CHUNK_HEADER.saturating_add(offset));
        (position, BLOCK - position % BLOCK)
    }
}

/// Returns the first 64 bytes of every file.
pub(crate) fn file_start() -> [u8; 64] {
    let mut out = [0; 64];
    out[..24].copy_from_slice(&BlockHeader::within(0, 0, 64).encode());
    out[24..].copy_from_slice(&ChunkHeader::SIGNATURE.encode());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_start_is_the_documented_one() {
        assert_eq!(ChunkHeader::SIGNATURE.data_hash, hash(&[]));
        let hex: String = file_start()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            hex,
            "83af70d10d884a3f00000000000000004000000000000000\
             91bac23c9287e1a90000000000000000e19f13c0e9b1c37273000000000000000000000000000000"
        );
    }

    #[test]
    fn round_trip_and_damage() {
        let header = ChunkHeader {
            kind: ChunkType::Simple,
            data_size: 5,
            data_hash: 77,
            num_records: MAX_RECORDS,
            decoded_data_size: u64::MAX,
        };
        let bytes = header.encode();
        assert_eq!(ChunkHeader::decode(&bytes, 0).unwrap(), header);
        for index in 0..bytes.len() {
            let mut bad = bytes;
            bad[index] ^= 1;
            let error = ChunkHeader::decode(&bad, 64).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
        }
    }

    #[test]
    fn end_leaves_a_position_for_each_record() {
        let mut header = ChunkHeader::SIGNATURE;
        header.kind = ChunkType::Simple;
        header.data_size = 34;
        header.num_records = 70_000;
        assert_eq!(header.end(64), 70_064);
        header.num_records = 65_536 - 64 + 3;
        assert_eq!(header.end(64), 65_536 + 25);
        header.num_records = 1;
        assert_eq!(header.end(64), 138);
        header.data_size = u64::MAX;
        assert_eq!(header.end(64), u64::MAX);
    }
}
