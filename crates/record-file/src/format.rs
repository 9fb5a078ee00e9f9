//! The bytes of a file, described for other readers and writers, and for those who look at a
//! dump. There is nothing to call here.
//!
//! All integers are little-endian, all hashes HighwayHash-64 with one key, the 32 bytes
//! `Riegeli/records\nRiegeli/records\n`. A varint is protobuf's: seven bits a byte, the lowest
//! first, the highest bit set on all bytes but the last.
//!
//! # Files
//!
//! ```text
//! file   = chunk *        the first one is the signature, without data
//! chunk  = header (40 bytes) | data | fill
//! block  = header (24 bytes) at every multiple of 65,536; it interrupts whatever stands there
//! ```
//!
//! The fill is zeros, so that a chunk spans at least as many bytes as it has records: each has a
//! number of its own, which is where its chunk begins plus its index.
//! [`ChunkHeader`](crate::ChunkHeader) has the layout of a chunk's header,
//! [`ChunkLayout`](crate::ChunkLayout) says of any chunk what each of its bytes is for.
//!
//! A chunk begins anywhere but in a block header or right behind one: one that begins with a block
//! begins before its header. The signature does, so every file begins with a block header and
//! a chunk header, 64 bytes:
//!
//! ```
//! use record_file::RecordWriter;
//!
//! let file = RecordWriter::with_defaults(Vec::new()).finish()?;
//! assert_eq!(file.len(), 64);
//! // The block header: the chunk begins here, and ends 64 bytes further on.
//! assert_eq!(file[8..24], [0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0]);
//! // The chunk header, behind its hash: no data, the hash of that, and the kind.
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
//! `hash` is that of the 16 bytes after it. The chunk around the header began `previous_chunk`
//! bytes before the block (0: it begins here), and ends `next_chunk` bytes after the beginning of
//! the block. So a reader can start anywhere.
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
//! Sizes are one varint a record, values are the records one after the other. The compression is a
//! byte: 0 for none, and otherwise a letter, `b`, `z` or `s`, for brotli, zstd and snappy. With
//! compression, each of the two is a varint, the size it decompresses to, and one compressed
//! stream.
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
//! Records that are protobuf messages are taken apart, so that equal fields lie together. The
//! header describes a state machine: each state emits something (a tag and its value, a length,
//! nothing), and the transitions say which states to visit. Values lie in buffers, one or more of
//! which make a bucket. Everything is emitted backwards, the last field of the last record first:
//! thus the length of a message is known when its place is reached. With compression, the header,
//! each bucket and the transitions are each a varint, the size it decompresses to, and one
//! compressed stream.
//!
//! ```text
//!  header: buckets, buffers (counts) | size of each bucket as stored | size of each buffer |
//!          states (count) | tag of each | next state of each | kind of each varint | buffer of each that has
//!          one | first state
//! ```
//!
//! # Other chunks
//!
//! A metadata chunk (`m`) has the data of a transposed chunk with one record, which its header
//! doesn't count: a [`RecordsMetadata`](crate::RecordsMetadata). It is the second chunk of a file,
//! if there is one. Padding (`p`) has zeros.
