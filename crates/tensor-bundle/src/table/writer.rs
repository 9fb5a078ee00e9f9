//! Writing tables.

use std::io::Write;

use proto_splitter_core::wire::put_varint;
use proto_splitter_core::{Error, ErrorKind, Result};

use super::block::BlockBuilder;
use super::key::{separator, successor};
use super::{FOOTER_LEN, MAGIC, UNCOMPRESSED};
use crate::checksum::mask_crc;

/// Minimum size of a data block, except for the last one, in bytes. TensorFlow uses the same size.
const BLOCK_SIZE: usize = 256 << 10;

/// Number of entries in a data block from one restart, at which the whole key is stored, to the
/// next.
const RESTART_INTERVAL: usize = 16;

/// The location of a block in the table's file.
#[derive(Clone, Copy, Debug)]
struct Handle {
    offset: u64,
    size: u64,
}

impl Handle {
    fn put(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, self.size);
    }
}

/// A writer for a table. Keys must be added in ascending order.
#[derive(Debug)]
pub(crate) struct TableWriter<W> {
    out: W,
    written: u64,
    block: BlockBuilder,
    index: BlockBuilder,
    /// Last key and location of a complete data block. The block isn't in the index block yet,
    /// since its key in the index block also depends on the next key that is added.
    ended: Option<(Vec<u8>, Handle)>,
    is_empty: bool,
}

impl<W: Write> TableWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        TableWriter {
            out,
            written: 0,
            block: BlockBuilder::new(RESTART_INTERVAL),
            index: BlockBuilder::new(1),
            ended: None,
            is_empty: true,
        }
    }

    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let last = match &self.ended {
            Some((last, _)) => last.as_slice(),
            None => self.block.last_key(),
        };
        if !self.is_empty && key <= last {
            let message = format!(
                "the key {:?} is not greater than the previous key",
                key.escape_ascii().to_string()
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        self.is_empty = false;
        if let Some((last, handle)) = self.ended.take() {
            self.put_index(&separator(&last, key), handle)?;
        }
        self.block.add(key, value)?;
        if self.block.len() >= BLOCK_SIZE {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        let next = BlockBuilder::new(RESTART_INTERVAL);
        let block = std::mem::replace(&mut self.block, next);
        let last = block.last_key().to_vec();
        let handle = self.put_block(block)?;
        self.ended = Some((last, handle));
        Ok(())
    }

    fn put_index(&mut self, key: &[u8], handle: Handle) -> Result<()> {
        let mut value = Vec::new();
        handle.put(&mut value);
        self.index.add(key, &value)
    }

    fn put_block(&mut self, block: BlockBuilder) -> Result<Handle> {
        let mut bytes = block.finish();
        let handle = Handle {
            offset: self.written,
            size: bytes.len() as u64,
        };
        bytes.push(UNCOMPRESSED);
        let crc = mask_crc(crc32c::crc32c(&bytes));
        bytes.extend_from_slice(&crc.to_le_bytes());
        self.out.write_all(&bytes)?;
        self.written += bytes.len() as u64;
        Ok(handle)
    }

    /// Writes the remaining blocks and the footer, and returns the sink.
    pub(crate) fn finish(mut self) -> Result<W> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let metaindex = self.put_block(BlockBuilder::new(RESTART_INTERVAL))?;
        if let Some((last, handle)) = self.ended.take() {
            self.put_index(&successor(&last), handle)?;
        }
        let next = BlockBuilder::new(1);
        let index = std::mem::replace(&mut self.index, next);
        let index = self.put_block(index)?;
        let mut footer = Vec::new();
        metaindex.put(&mut footer);
        index.put(&mut footer);
        footer.resize(FOOTER_LEN - 8, 0);
        footer.extend_from_slice(&MAGIC.to_le_bytes());
        self.out.write_all(&footer)?;
        Ok(self.out)
    }
}
