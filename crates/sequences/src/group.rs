//! Dividing a sequence into groups of consecutive elements, as an index for reading by position.

use proto_splitter_core::progress::Progress;
use proto_splitter_core::wire::{Input, MAX_VARINT_LEN, SourceInput, decode_varint, varint_len};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::records::Records;

/// Maximum size of a group of small elements, in bytes. Each group takes 24 bytes of memory in the
/// index of a file.
const GROUP_LEN: u64 = 256 << 10;

/// A group of consecutive elements, which ends where the next group starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// Offset of the group in the message that represents the sequence.
    pub(crate) start: u64,
    /// Offset of the group in the source: that of the first element's length, or of the first
    /// record.
    pub(crate) at: u64,
    /// Index of the group's first element in the sequence.
    pub(crate) first: u64,
}

/// The groups of a source, in order.
#[derive(Debug)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    /// Empty group that starts after the last group.
    end: Group,
}

impl Groups {
    /// Finds the groups in a delimited file by reading the length of each element.
    pub(crate) fn of_delimited(
        source: &dyn ReadAt,
        tag_len: u64,
        progress: &Progress,
    ) -> Result<Groups> {
        let size = source.size()?;
        let meter = progress.meter(size);
        let mut input = SourceInput::new(source, size);
        let mut groups = Vec::new();
        let mut group = Group {
            start: 0,
            at: 0,
            first: 0,
        };
        let mut next = group;
        while next.at < size {
            let cut = |what: String| {
                let error = Error::new(ErrorKind::InvalidMessage, what).at_offset(next.at);
                Err(error.context(format_args!("message {}", next.first)))
            };
            let bytes = input.fetch(next.at, MAX_VARINT_LEN)?;
            let Some((len, len_len)) = decode_varint(bytes) else {
                return cut(if bytes.len() < MAX_VARINT_LEN {
                    "the file ends inside its length".to_owned()
                } else {
                    "no length: a varint of 64 bits was expected".to_owned()
                });
            };
            let begin = next.at + len_len as u64;
            let left = size - begin;
            if len > left {
                return cut(format!(
                    "it should have {len} bytes, but the file ends after {left}"
                ));
            }
            let stored = len_len as u64 + len;
            let grown = next.at - group.at + stored;
            if grown > GROUP_LEN && next.first > group.first {
                meter.advance(next.at - group.at)?;
                groups.push(group);
                group = next;
            }
            next = Group {
                // For a real file, this sum can't overflow, since it adds at most five bytes for
                // each element's tag.
                start: next
                    .start
                    .checked_add(tag_len + stored)
                    .ok_or_else(too_large)?,
                at: next.at + stored,
                first: next.first + 1,
            };
            if stored > GROUP_LEN {
                meter.advance(stored)?;
                groups.push(group);
                group = next;
            }
        }
        if next.first > group.first {
            meter.advance(next.at - group.at)?;
            groups.push(group);
        }
        Ok(Groups { groups, end: next })
    }

    /// Creates a group for each chunk of a record file. A chunk with several records is decoded,
    /// since its header doesn't contain the records' lengths.
    pub(crate) fn of_records(
        records: &Records,
        tag_len: u64,
        progress: &Progress,
    ) -> Result<Groups> {
        let chunks = records.chunks();
        let mut groups = Vec::new();
        let mut next = Group {
            start: 0,
            at: 0,
            first: 0,
        };
        let meter = progress.meter(records.size()?);
        for (index, (bytes, numbers)) in chunks.enumerate() {
            groups.push(next);
            let size = bytes.end - bytes.start;
            let mut added = size;
            let mut add = |len: u64| {
                let front = tag_len + varint_len(len) as u64;
                added = added.checked_add(front).ok_or_else(too_large)?;
                Ok(())
            };
            if numbers.end - numbers.start == 1 {
                add(size)?;
            } else {
                records.records_in(index, |record| add(record.len() as u64))?;
            }
            next = Group {
                start: next.start.checked_add(added).ok_or_else(too_large)?,
                at: bytes.end,
                first: numbers.end,
            };
            meter.advance(size)?;
        }
        Ok(Groups { groups, end: next })
    }

    /// Returns the group that contains an offset in the message: its index, the group itself, and
    /// the next group. Returns `None` if the offset is at or after the end of the message.
    pub(crate) fn find(&self, offset: u64) -> Option<(usize, Group, Group)> {
        if offset >= self.end.start {
            return None;
        }
        let after = self.groups.partition_point(|group| group.start <= offset);
        let index = after.checked_sub(1)?;
        let group = *self.groups.get(index)?;
        let next = self.groups.get(after).copied().unwrap_or(self.end);
        Some((index, group, next))
    }

    /// Returns the size of the message, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.end.start
    }

    /// Returns the number of elements.
    pub(crate) fn count(&self) -> u64 {
        self.end.first
    }
}

#[cold]
fn too_large() -> Error {
    let message = "the sequence is larger than a message can be";
    Error::new(ErrorKind::LimitExceeded, message)
}
