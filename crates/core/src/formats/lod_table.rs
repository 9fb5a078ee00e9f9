//! The LoD (level of detail) of the tensors in a message.

use std::collections::HashMap;
use std::ops::Range;

use record_file::ReadAt;

use crate::path::{FieldPath, PathQuery, Step};
use crate::tensor::{LodRule, MAX_LIST_MEMORY, read_bytes};
use crate::view::MessageView;
use crate::wire::{FieldNumber, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// Memory for one listed level, in bytes. Includes a part of the map entry that all levels of a
/// tensor share.
const LEVEL_MEMORY: usize = 256;

/// The locations of the LoD levels in a message, by the paths of their tensors.
#[derive(Debug)]
pub(super) struct LodTable {
    levels: HashMap<FieldPath, Vec<Level>>,
    offsets: FieldNumber,
}

/// The location of the message that contains one level of LoD.
#[derive(Debug)]
enum Level {
    Range(Range<u64>),
    /// The path of the message, which is in several pieces.
    Path(FieldPath),
}

impl LodTable {
    /// Finds the LoD levels of all tensors, without reading the levels' offsets.
    pub(super) fn list(view: &MessageView<'_>, rule: &LodRule) -> Result<LodTable> {
        let query = PathQuery::parse(rule.levels, view.descriptor())?;
        let mut levels: HashMap<FieldPath, Vec<Level>> = HashMap::new();
        let (mut selected, mut count) = (view.select(&query, &[])?, 0usize);
        while let Some(size) = selected.next().transpose()? {
            count += 1;
            if count > MAX_LIST_MEMORY / LEVEL_MEMORY {
                let message = format!("{count} levels of LoD exceed the limit");
                return Err(Error::new(ErrorKind::LimitExceeded, message));
            }
            let path = selected.path();
            let mut tensor = path.clone();
            tensor.pop();
            tensor.push(Step::field(rule.tensor));
            let level = if selected.is_in_one_piece() {
                Level::Range(selected.start()..selected.start() + size)
            } else {
                Level::Path(path)
            };
            levels.entry(tensor).or_default().push(level);
        }
        Ok(LodTable {
            levels,
            offsets: FieldNumber(rule.offsets),
        })
    }

    /// Returns true if no tensor has LoD.
    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Reads the offsets of all levels of the tensor at this path.
    pub(super) fn read(
        &self,
        tensor: &FieldPath,
        view: &MessageView<'_>,
        message: &dyn ReadAt,
    ) -> Result<Vec<Vec<u64>>> {
        let levels = self.levels.get(tensor).map_or(&[][..], Vec::as_slice);
        let read = |level: &Level| {
            let bytes = match level {
                Level::Range(range) => read_bytes(message, range.clone())?,
                Level::Path(path) => view.get(path)?,
            };
            self.parse(&bytes)
        };
        levels.iter().map(read).collect()
    }

    /// Parses the message of a level, and returns the level's offsets, which may be packed.
    fn parse(&self, level: &[u8]) -> Result<Vec<u64>> {
        let mut offsets = Vec::new();
        let mut cursor = WireCursor::new(level);
        while let Some(field) = cursor.next()? {
            if field.number != self.offsets {
                continue;
            }
            let bytes = cursor.bytes(field.value)?;
            let is_packed = field.wire_type == WireType::Len;
            let (numbers, rest) = bytes.as_chunks::<8>();
            if !rest.is_empty() || !(is_packed || field.wire_type == WireType::Fixed64) {
                let message = "the offsets of a level of LoD aren't 64-bit numbers";
                return Err(Error::new(ErrorKind::InvalidMessage, message));
            }
            offsets.extend(numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        }
        Ok(offsets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(level: &[u8]) -> Result<Vec<u64>> {
        let table = LodTable {
            levels: HashMap::new(),
            offsets: FieldNumber(1),
        };
        table.parse(level)
    }

    #[test]
    fn offsets_are_packed_or_not_and_nothing_else() {
        let packed = b"\x0a\x10\x00\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0";
        assert_eq!(parsed(packed).unwrap(), [0, 2]);
        let single = b"\x09\x05\0\0\0\0\0\0\0\x10\x07";
        assert_eq!(parsed(single).unwrap(), [5]);
        assert!(parsed(b"").unwrap().is_empty());
        for bad in [&b"\x0a\x03\0\0\0"[..], b"\x08\x01", b"\x0d\0\0\0\0"] {
            let error = parsed(bad).unwrap_err().to_string();
            assert!(error.contains("aren't 64-bit numbers"), "{error}");
        }
    }
}
