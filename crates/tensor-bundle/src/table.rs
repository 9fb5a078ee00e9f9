//! The sorted table that a bundle's index consists of, in leveldb's format without filters.
//!
//! ```text
//! data block | ... | data block | metaindex block | index block | footer (48 bytes)
//!
//! a block:    entries | restarts (u32 each) | their count (u32) || type (1) | masked crc32c (4)
//! an entry:   varint shared | varint unshared | varint value length | end of the key | value
//! the footer: metaindex handle | index handle | zeros up to 40 | magic 0xdb4775248b80fb57 (8)
//! a handle:   varint offset | varint size, without the five bytes after the block
//! ```
//!
//! All numbers are little-endian. A key is stored without the leading bytes that it shares with the
//! previous key, except at a restart, where the whole key is stored. The index block has an entry
//! for each data block: its key is greater than or equal to the last key in the data block, and its
//! value is a handle, which locates the data block. leveldb's `doc/table_format.md` describes the
//! format.

mod block;
mod key;
mod reader;
mod writer;

pub use reader::MAX_BLOCK_SIZE;
pub(crate) use reader::TableReader;
pub(crate) use writer::TableWriter;

/// Last eight bytes of a table.
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// Size of the footer, in bytes.
const FOOTER_LEN: usize = 48;

/// Size of a block's trailer, in bytes: 1 for the compression, and 4 for the checksum.
const TRAILER_LEN: usize = 5;

/// Compression type of an uncompressed block.
const UNCOMPRESSED: u8 = 0;

/// Compression type of a block compressed with Snappy.
const SNAPPY: u8 = 1;
