//! Reading tables.

use proto_splitter_core::wire::decode_varint;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use super::block::BlockEntries;
use super::{FOOTER_LEN, MAGIC, SNAPPY, TRAILER_LEN, UNCOMPRESSED};
use crate::checksum::unmask_crc;

/// Maximum size of a block that can be read, in bytes. TensorFlow writes blocks of about 256 KiB.
pub const MAX_BLOCK_SIZE: u64 = 64 << 20;

/// An open table. Its index block is in memory; data blocks are read on demand.
#[derive(Debug)]
pub(crate) struct TableReader<R> {
    source: R,
    size: u64,
    index: Vec<u8>,
    index_offset: u64,
}

#[derive(Clone, Copy, Debug)]
struct Handle {
    offset: u64,
    size: u64,
}

impl Handle {
    /// Parses the handle at the beginning of `bytes`. Returns the handle, and the remaining bytes.
    fn read(bytes: &[u8]) -> Option<(Handle, &[u8])> {
        let (offset, len) = decode_varint(bytes)?;
        let bytes = bytes.get(len..)?;
        let (size, len) = decode_varint(bytes)?;
        Some((Handle { offset, size }, bytes.get(len..)?))
    }
}

fn invalid(message: impl Into<String>, offset: u64) -> Error {
    Error::new(ErrorKind::InvalidMessage, message).at_offset(offset)
}

impl<R: ReadAt> TableReader<R> {
    pub(crate) fn open(source: R) -> Result<Self> {
        let size = source.size()?;
        let Some(start) = size.checked_sub(FOOTER_LEN as u64) else {
            let message =
                format!("not an index: {size} bytes, but the footer alone has {FOOTER_LEN}");
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        };
        let mut footer = [0; FOOTER_LEN];
        source.read_exact_at(start, &mut footer)?;
        let (handles, magic) = footer.split_at(FOOTER_LEN - 8);
        if magic != MAGIC.to_le_bytes() {
            let message = "not an index: its last eight bytes are not those of a table";
            return Err(invalid(message, start + 40));
        }
        let handles = Handle::read(handles)
            .and_then(|(metaindex, rest)| Some((metaindex, Handle::read(rest)?.0)));
        let Some((metaindex, index)) = handles else {
            return Err(invalid(
                "the footer has no location of the index block",
                start,
            ));
        };
        let mut table = TableReader {
            source,
            size,
            index: Vec::new(),
            index_offset: index.offset,
        };
        table.index = table.block(index, start)?;
        // The content of the metaindex block isn't used, but damage in it means that the file is
        // damaged.
        table.block(metaindex, start)?;
        Ok(table)
    }

    /// Reads the block at the location in `handle`. `said_at` is the handle's own offset, for
    /// errors.
    fn block(&self, handle: Handle, said_at: u64) -> Result<Vec<u8>> {
        let Handle { offset, size } = handle;
        let end = size
            .checked_add(TRAILER_LEN as u64)
            .and_then(|len| offset.checked_add(len));
        if end.is_none_or(|end| end > self.size - FOOTER_LEN as u64) {
            let message =
                format!("a block of {size} bytes at {offset} runs past the end of the index");
            return Err(invalid(message, said_at));
        }
        if size > MAX_BLOCK_SIZE {
            let message =
                format!("a block has {size} bytes, but at most {MAX_BLOCK_SIZE} are read");
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(offset));
        }
        let len = usize::try_from(size).unwrap_or(usize::MAX) + TRAILER_LEN;
        let mut bytes = vec![0; len];
        self.source.read_exact_at(offset, &mut bytes)?;
        let crc = bytes.split_off(len - 4);
        let stored = crc.try_into().map(u32::from_le_bytes).unwrap_or_default();
        let computed = crc32c::crc32c(&bytes);
        if unmask_crc(stored) != computed {
            let message = format!(
                "the crc32c of a block of {size} bytes is 0x{computed:08x}, but 0x{:08x} is stored",
                unmask_crc(stored)
            );
            return Err(Error::new(ErrorKind::ChecksumMismatch, message).at_offset(offset));
        }
        match bytes.pop() {
            Some(UNCOMPRESSED) => Ok(bytes),
            Some(SNAPPY) => unpack(&bytes, offset),
            other => {
                let other = other.unwrap_or_default();
                let message = format!("a block has the unknown compression {other}");
                Err(Error::new(ErrorKind::UnsupportedVersion, message).at_offset(offset))
            }
        }
    }

    /// Calls `each` with the key and value of every entry, in ascending order of the keys.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let mut blocks = BlockEntries::new(&self.index, self.index_offset)?;
        let mut last: Option<Vec<u8>> = None;
        let mut read_to = 0;
        while let Some((_, value)) = blocks.next()? {
            let Some((handle, _)) = Handle::read(value) else {
                return Err(invalid(
                    "the index block has no location of a block",
                    self.index_offset,
                ));
            };
            // Without this check, a small file could make the loop read the same block forever.
            if handle.offset < read_to {
                let message = format!("the block at {} overlaps the previous block", handle.offset);
                return Err(invalid(message, self.index_offset));
            }
            read_to = handle.offset.saturating_add(handle.size);
            let block = self.block(handle, self.index_offset)?;
            let mut entries = BlockEntries::new(&block, handle.offset)?;
            while let Some((key, value)) = entries.next()? {
                if last.as_deref().is_some_and(|last| key <= last) {
                    let message = format!(
                        "the key {:?} is not greater than the previous key",
                        key.escape_ascii().to_string()
                    );
                    return Err(invalid(message, handle.offset));
                }
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(key);
                each(key, value)?;
            }
        }
        Ok(())
    }
}

fn unpack(bytes: &[u8], offset: u64) -> Result<Vec<u8>> {
    let failed =
        |error: snap::Error| invalid(format!("snappy can't read a block: {error}"), offset);
    let len = snap::raw::decompress_len(bytes).map_err(failed)?;
    if len as u64 > MAX_BLOCK_SIZE {
        let message = format!("a block has {len} bytes, but at most {MAX_BLOCK_SIZE} are read");
        return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(offset));
    }
    snap::raw::Decoder::new()
        .decompress_vec(bytes)
        .map_err(failed)
}
