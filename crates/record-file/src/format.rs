//! The byte layout of a file, for authors of other readers and writers, and for interpreting a hex
//! dump. This module has no items.
//!
//! All integers are little-endian; all hashes are HighwayHash-64 with one key, the 32 bytes
//! `Riegeli/records\nRiegeli/records\n`. Varints are encoded as in protobuf: seven bits per byte,
//! lowest first, with the highest bit set in all bytes but the last.
//!
//! # Files
//!
//! ```text
//! file   = chunk *        the first one is the signature, without data
//! chunk  = header (40 bytes) | data | fill
//! block  = header (24 bytes) at every multiple of 65,536; it interrupts the chunk there
//! ```
//!
//! The fill consists of zeros. It extends a chunk to at least one byte per record, so that each
//! record has its own number: the offset of the chunk plus the index of the record.
//! [`ChunkHeader`](crate::ChunkHeader) has the layout of a chunk's header, and
//! [`ChunkLayout`](crate::ChunkLayout) describes the bytes of a given chunk.
//!
//! A chunk can begin anywhere except in a block header or right after one: a chunk at the start of
//! a block begins before the block header. The signature begins at the start of a block, so every
//! file begins with a block header and a chunk header, which take 64 bytes:
//!
//! ```
//! use record_file::RecordWriter;
//!
//! let file = RecordWriter::with_defaults(Vec::new()).finish()?;
//! assert_eq!(file.len(), 64);
//! // The block header: the chunk begins here, and ends 64 bytes further on.
//! assert_eq!(file[8..24], [0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0]);
//! // The chunk header, after its hash: no data, the hash of that, and the kind.
//! assert_eq!(file[32..40], [0; 8]);
//! assert_eq!(file[48], b's');
//! # Ok::<(), record_file::Error>(())
//! ```
//!
//! # Block headers
//!
//! ```text
//!  0       8                16          24
//!  +-------+----------------+------------+
//!  | hash  | previous_chunk | next_chunk |   integers of 64 bits
//!  +-------+----------------+------------+
//! ```
//!
//! `hash` is the hash of the 16 bytes after it. The chunk that contains the header begins
//! `previous_chunk` bytes before the block (0 if it begins with the block), and ends `next_chunk`
//! bytes after the beginning of the block. Therefore a reader can start at any block.
//!
//! # Data of simple chunks (`r`)
//!
//! ```text
//!  +-------------+------------+----------------+---------------------------+
//!  | compression | varint L   | sizes, L bytes | values, all the rest      |
//!  | 1 byte      |            |                |                           |
//!  +-------------+------------+----------------+---------------------------+
//! ```
//!
//! The sizes are one varint per record, and the values are the records, one after another. The
//! compression is one byte: 0 for no compression, or the letter `b`, `z` or `s` for brotli, zstd or
//! snappy. With compression, the sizes and the values are each stored as a varint, the decompressed
//! size, and one compressed stream.
//!
//! # Data of transposed chunks (`t`)
//!
//! ```text
//!  +-------------+----------+----------------+---------+-------------------------+
//!  | compression | varint H | header, H bytes| buckets | transitions, the rest   |
//!  | 1 byte      |          |                |         |                         |
//!  +-------------+----------+----------------+---------+-------------------------+
//! ```
//!
//! Records that are protobuf messages are split into fields, so that the values of a field are next
//! to each other. The header describes a state machine: each state emits a tag and its value, a
//! length, or nothing. The transitions list the states to visit. Values are in buffers; a bucket
//! consists of one or more buffers. Everything is emitted backwards, beginning with the last field
//! of the last record, so the length of a message is known when it has to be written. With
//! compression, the header, each bucket and the transitions are each stored as a varint, the
//! decompressed size, and one compressed stream.
//!
//! ```text
//!  header: buckets, buffers (counts) | size of each bucket as stored | size of each buffer |
//!          states (count) | tag of each | next state of each | kind of each varint | buffer of each that has
//!          one | first state
//! ```
//!
//! # Other chunks
//!
//! A metadata chunk (`m`) has the data of a transposed chunk with one record, a
//! [`RecordsMetadata`](crate::RecordsMetadata), which the chunk's header doesn't count. If a file
//! has a metadata chunk, it is the second chunk. Padding (`p`) consists of zeros.
