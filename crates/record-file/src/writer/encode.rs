//! Encoding chunks of records.
use super::WriterOptions;
use crate::block_pool::{BlockPool, PieceQueue};
use crate::chunk::{ChunkHeader, ChunkType};
use crate::codec::Encoders;
use crate::compression::Compression;
use crate::error::Result;
use crate::hash::Hasher;
use crate::simple::encode_front;
use crate::transpose::{ChunkEncoder, Records, Storage};
use crate::varint;

/// Total size, in bytes, of the memory blocks that are kept for reuse even if chunks are small.
const LEAST_KEPT: u64 = 1 << 20;

/// Options for encoding chunks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    pub(super) compression: Compression,
    /// Number of bytes compressed together in a transposed chunk; `None` for simple chunks.
    pub(super) transposed: Option<u64>,
}

impl Format {
    pub(super) fn new(options: &WriterOptions) -> Self {
        Format {
            compression: options.compression,
            transposed: options.transpose.then(|| options.bucket_size()),
        }
    }

    /// Returns true if chunks are neither compressed nor transposed. In such a chunk, the records
    /// are stored unchanged, after their encoded sizes.
    pub(super) fn keeps_values(&self) -> bool {
        self.compression == Compression::None && self.transposed.is_none()
    }
}

/// An encoder for chunks, which reuses compressors and memory for one chunk after another.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    pub(super) codecs: Encoders,
    transposing: ChunkEncoder,
}

impl Encoder {
    /// Encodes a chunk of gathered records into `out`, which must be empty. For a chunk that is
    /// transposed or isn't compressed, `out` gets only the part of the chunk's data before the
    /// [values](Gathered::values); for any other chunk, `out` gets all data.
    pub(super) fn encode(
        &mut self,
        format: &Format,
        gathered: &mut Gathered,
        out: &mut Vec<u8>,
    ) -> Result<ChunkHeader> {
        let compression = &format.compression;
        if let Some(bucket_size) = format.transposed {
            let storage = Storage {
                compression,
                bucket_size,
            };
            return self.transpose(storage, gathered, out);
        }
        let Gathered {
            num_records,
            sizes,
            values,
            ..
        } = gathered;
        self.encode_simple(compression, *num_records, sizes, &[values], out)
    }

    /// Encodes a simple chunk like [`encode`](Self::encode). The concatenation of `values` must
    /// equal the concatenation of all records.
    pub(super) fn encode_simple(
        &mut self,
        compression: &Compression,
        num_records: u64,
        sizes: &[u8],
        values: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<ChunkHeader> {
        encode_front(&mut self.codecs, compression, sizes, out)?;
        let decoded_data_size = values.iter().map(|part| part.len() as u64).sum();
        let mut hasher = Hasher::new();
        let mut data_size = 0;
        if *compression == Compression::None {
            hasher.update(out);
            values.iter().for_each(|part| hasher.update(part));
            data_size += decoded_data_size;
        } else {
            // Hashes the output while it is still in the cache.
            let mut hashed = 0;
            self.codecs
                .compress_along(compression, values, out, |out| {
                    hasher.update(&out[hashed..]);
                    hashed = out.len();
                })?;
        }
        data_size += out.len() as u64;
        Ok(ChunkHeader {
            kind: ChunkType::Simple,
            data_size,
            data_hash: hasher.finish(),
            num_records,
            decoded_data_size,
        })
    }

    /// Encodes a metadata chunk, whose data is that of a transposed chunk with one record. The
    /// header doesn't count the record.
    pub(super) fn encode_metadata(
        &mut self,
        compression: &Compression,
        serialized: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<ChunkHeader> {
        let mut gathered = Gathered::default();
        gathered.add_apart(serialized.len() as u64, &[serialized]);
        let storage = Storage {
            compression,
            bucket_size: u64::MAX,
        };
        let header = self.transpose(storage, &mut gathered, out)?;
        gathered
            .values()
            .for_each(|piece| out.extend_from_slice(piece));
        Ok(ChunkHeader {
            kind: ChunkType::Metadata,
            num_records: 0,
            ..header
        })
    }

    fn transpose(
        &mut self,
        storage: Storage<'_>,
        gathered: &mut Gathered,
        out: &mut Vec<u8>,
    ) -> Result<ChunkHeader> {
        let Gathered {
            num_records,
            sizes,
            records,
            blocks,
            stored,
            ..
        } = gathered;
        let decoded_data_size = records.size() as u64;
        *stored =
            self.transposing
                .encode(&mut self.codecs, storage, sizes, records, blocks, out)?;
        let mut hasher = Hasher::new();
        hasher.update(out);
        stored.slices().for_each(|piece| hasher.update(piece));
        Ok(ChunkHeader {
            kind: ChunkType::Transposed,
            data_size: out.len() as u64 + stored.len(),
            data_hash: hasher.finish(),
            num_records: *num_records,
            decoded_data_size,
        })
    }
}

/// Encodes a chunk with one record, the concatenation of `parts`, into `out`. Without compression,
/// `out` gets only the chunk's data before the record; with compression, `out` gets all data.
pub(super) fn encode_alone(
    encoder: &mut Encoder,
    compression: &Compression,
    parts: &[&[u8]],
    out: &mut Vec<u8>,
) -> Result<ChunkHeader> {
    let mut sizes = Vec::with_capacity(varint::MAX_LEN);
    varint::push(&mut sizes, parts.iter().map(|part| part.len() as u64).sum());
    encoder.encode_simple(compression, 1, &sizes, parts, out)
}

/// Records that share a chunk, either stored contiguously or, for a transposed chunk, waiting to be
/// split into fields.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) num_records: u64,
    /// Lengths of the records, as varints.
    sizes: Vec<u8>,
    values: Vec<u8>,
    /// The records of a transposed chunk, which will be split into fields.
    records: Records,
    /// The encoded data, once the records are encoded.
    stored: PieceQueue,
    /// Memory blocks shared by the steps that encode a transposed chunk.
    blocks: BlockPool,
}

impl Gathered {
    /// Adds a record; `most` is the maximum number of bytes in a chunk, except for a chunk with a
    /// single larger record.
    pub(super) fn add(&mut self, len: u64, parts: &[&[u8]], most: u64) {
        self.num_records += 1;
        varint::push(&mut self.sizes, len);
        self.make_room(len, most);
        for part in parts {
            self.values.extend_from_slice(part);
        }
    }

    /// Reserves memory in doubling steps, like a vector, but not beyond the size of a chunk.
    fn make_room(&mut self, len: u64, most: u64) {
        let room = self.values.capacity() - self.values.len();
        if len > room as u64 {
            let mut doubled = 2 * self.values.capacity() as u64;
            if doubled > most / 2 {
                // Growing later would add little, but would hold the old and the new memory at
                // once.
                doubled = most;
            }
            let more = len.max(doubled.saturating_sub(self.values.len() as u64));
            self.values
                .reserve_exact(usize::try_from(more).unwrap_or(0));
        }
    }

    /// Adds the only record in an uncompressed chunk, hashing the record as it is copied.
    pub(super) fn add_hashed(&mut self, len: u64, parts: &[&[u8]], hasher: &mut Hasher) {
        self.add(len, &[], 0);
        for part in parts {
            hasher.update_along(part, |piece| self.values.extend_from_slice(piece));
        }
    }

    /// Adds a record to a transposed chunk.
    pub(super) fn add_apart(&mut self, len: u64, parts: &[&[u8]]) {
        self.num_records += 1;
        varint::push(&mut self.sizes, len);
        self.records.add(len, parts, &mut self.blocks);
    }

    /// Returns the total size of the records, in bytes. Only valid before the records are encoded.
    pub(super) fn size(&self) -> u64 {
        (self.values.len() + self.records.size()) as u64
    }

    /// Returns the bytes that follow the encoder's output in the chunk's data, for a chunk that is
    /// transposed or whose records are stored unchanged.
    pub(super) fn values(&self) -> impl Iterator<Item = &[u8]> {
        let values = Some(&self.values[..]).filter(|values| !values.is_empty());
        values.into_iter().chain(self.stored.slices())
    }

    /// Returns true if there are no records and no memory is allocated.
    pub(super) fn is_unused(&self) -> bool {
        self.num_records == 0 && self.values.capacity() == 0 && self.blocks.is_empty()
    }

    /// Removes the records. Keeps a buffer of at most `usual` bytes, and blocks of about
    /// `in_blocks` bytes in total.
    pub(super) fn clear(&mut self, usual: u64, in_blocks: u64) {
        self.records.clear(&mut self.blocks);
        self.stored.clear(&mut self.blocks);
        self.blocks.shrink(in_blocks.max(LEAST_KEPT));
        self.num_records = 0;
        self.sizes.clear();
        self.values.clear();
        if self.values.capacity() as u64 > usual {
            self.values = Vec::new();
        }
    }
}
