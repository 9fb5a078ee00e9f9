//! Vocabularies: texts, each with a number.

use std::ops::Range;

use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

/// How much is read at once.
const WINDOW: usize = 64 << 10;

/// The fewest bytes of an entry: the length of its text, and its number.
const LEAST_ENTRY: u64 = 8 + 4;

/// Hops through a vocabulary that starts with `within`, and says where it ends.
pub(super) fn walk(source: &dyn ReadAt, within: Range<u64>) -> Result<u64> {
    let mut window = Window {
        source,
        bytes: Vec::new(),
        start: within.start,
        end: within.end,
    };
    let at = within.start;
    let count = window.u64(at, "the number of words")?;
    let mut at = at + 8;
    if count > (within.end - at) / LEAST_ENTRY {
        let message = format!("{count} words in {} bytes", within.end - at);
        return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(within.start));
    }
    for word in 0..count {
        let bytes = window.u64(at, "the size of a word")?;
        let left = within.end - at - 8;
        at = match bytes.checked_add(4) {
            Some(size) if size <= left => at + 8 + size,
            _ => {
                let message = format!("word {word} has {bytes} bytes, and {left} are left");
                return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(at));
            }
        };
    }
    Ok(at)
}

/// As much of the source as is looked at.
struct Window<'a> {
    source: &'a dyn ReadAt,
    bytes: Vec<u8>,
    start: u64,
    end: u64,
}

impl Window<'_> {
    fn u64(&mut self, at: u64, what: &str) -> Result<u64> {
        let left = self.end.saturating_sub(at);
        if left < 8 {
            let message = format!("{what} is cut: {left} of 8 bytes are left");
            return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(at));
        }
        if at < self.start || at + 8 > self.start + self.bytes.len() as u64 {
            let most = usize::try_from(left).unwrap_or(WINDOW).min(WINDOW);
            self.bytes.resize(most, 0);
            self.source.read_exact_at(at, &mut self.bytes)?;
            self.start = at;
        }
        let from = usize::try_from(at - self.start).unwrap_or_default();
        let mut number = [0; 8];
        number.copy_from_slice(&self.bytes[from..from + 8]);
        Ok(u64::from_le_bytes(number))
    }
}
