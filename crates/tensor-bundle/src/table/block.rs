//! Reading and writing one block of a table.

use proto_splitter_core::wire::{decode_varint, put_varint};
use proto_splitter_core::{Error, ErrorKind, Result};

/// A builder for a block of a table. Keys must be added in ascending order.
#[derive(Debug)]
pub(super) struct BlockBuilder {
    /// Number of entries from one restart, at which the whole key is stored, to the next.
    interval: usize,
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    since_restart: usize,
    last: Vec<u8>,
}

impl BlockBuilder {
    pub(super) fn new(interval: usize) -> Self {
        BlockBuilder {
            interval,
            bytes: Vec::new(),
            restarts: vec![0],
            since_restart: 0,
            last: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut shared = 0;
        if self.since_restart < self.interval {
            shared = key
                .iter()
                .zip(&self.last)
                .take_while(|(a, b)| a == b)
                .count();
        } else {
            let at = u32::try_from(self.bytes.len()).map_err(|_| {
                Error::new(
                    ErrorKind::LimitExceeded,
                    "a block of the index exceeds 4 GiB",
                )
            })?;
            self.restarts.push(at);
            self.since_restart = 0;
        }
        for len in [shared, key.len() - shared, value.len()] {
            put_varint(&mut self.bytes, len as u64);
        }
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
        self.last.clear();
        self.last.extend_from_slice(key);
        self.since_restart += 1;
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the current length of the block, in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + 4
    }

    /// Returns the key that was added last; empty if there is none.
    pub(super) fn last_key(&self) -> &[u8] {
        &self.last
    }

    pub(super) fn finish(self) -> Vec<u8> {
        let mut bytes = self.bytes;
        let count = u32::try_from(self.restarts.len()).unwrap_or(u32::MAX);
        for number in self.restarts.iter().chain([&count]) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

/// An iterator over the entries of a block.
#[derive(Debug)]
pub(super) struct BlockEntries<'a> {
    /// Bytes of the entries, without the list of restarts after them.
    entries: &'a [u8],
    position: usize,
    key: Vec<u8>,
    /// Offset of the block in its file, for errors.
    offset: u64,
}

impl<'a> BlockEntries<'a> {
    /// Creates an iterator over the entries of a block that begins at `offset` in its file. Fails
    /// if the block is too short for its list of restarts.
    pub(super) fn new(block: &'a [u8], offset: u64) -> Result<Self> {
        let bad = |what| Err(Error::new(ErrorKind::InvalidMessage, what).at_offset(offset));
        let Some((rest, count)) = block.split_last_chunk::<4>() else {
            return bad("the block has no count of its restarts");
        };
        let restarts = usize::try_from(u32::from_le_bytes(*count)).unwrap_or(usize::MAX);
        let end = restarts
            .checked_mul(4)
            .and_then(|len| rest.len().checked_sub(len));
        match end {
            Some(end) => Ok(BlockEntries {
                entries: &rest[..end],
                position: 0,
                key: Vec::new(),
                offset,
            }),
            None => bad("the block is shorter than its restarts"),
        }
    }

    fn bad(&self, what: &str) -> Error {
        let offset = self.offset.saturating_add(self.position as u64);
        Error::new(ErrorKind::InvalidMessage, what).at_offset(offset)
    }

    fn length(&self, at: &mut usize) -> Result<usize> {
        let read = self.entries.get(*at..).and_then(decode_varint);
        let Some((value, len)) = read else {
            return Err(self.bad("an entry ends within a length"));
        };
        *at += len;
        usize::try_from(value).map_err(|_| self.bad("an entry is larger than memory"))
    }

    /// Returns the next key and value; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(&[u8], &'a [u8])>> {
        if self.position >= self.entries.len() {
            return Ok(None);
        }
        let mut at = self.position;
        let shared = self.length(&mut at)?;
        let unshared = self.length(&mut at)?;
        let value_len = self.length(&mut at)?;
        if shared > self.key.len() {
            return Err(self.bad("a key shares more bytes than the previous key has"));
        }
        let rest = self.entries.get(at..).unwrap_or_default();
        let parts = rest
            .split_at_checked(unshared)
            .and_then(|(key, rest)| Some((key, rest.get(..value_len)?)));
        let Some((key, value)) = parts else {
            return Err(self.bad("an entry runs past the end of its block"));
        };
        self.key.truncate(shared);
        self.key.extend_from_slice(key);
        self.position = at + unshared + value_len;
        Ok(Some((&self.key, value)))
    }
}
