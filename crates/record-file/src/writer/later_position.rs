//! Positions that are known only once the chunks before them are encoded.
use std::sync::{Arc, OnceLock};

use crate::position::RecordPosition;

/// The beginning of a chunk, which may be known only later.
#[derive(Debug, Clone)]
pub(super) enum Begin {
    Known(u64),
    Later(Arc<OnceLock<u64>>),
}

impl Begin {
    pub(super) fn later() -> Self {
        Begin::Later(Arc::default())
    }

    pub(super) fn get(&self) -> Option<u64> {
        match self {
            Begin::Known(begin) => Some(*begin),
            Begin::Later(begin) => begin.get().copied(),
        }
    }

    pub(super) fn set(&self, begin: u64) {
        if let Begin::Later(cell) = self {
            // The cell is set only once, when the chunk is written.
            let _ = cell.set(begin);
        }
    }
}

/// The position of a written record, which may not be known yet: with
/// [`threads`](crate::WriterOptions::threads), the position depends on the sizes of earlier chunks
/// that are still being encoded.
///
/// # Examples
///
/// ```
/// use record_file::{RecordWriter, WriterOptions};
///
/// let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new().threads(2))?;
/// let mut positions = Vec::new();
/// for record in ["one", "two"] {
///     writer.write_record(record.as_bytes())?;
///     positions.extend(writer.last_position_later());
/// }
/// writer.finish()?;
/// let last = positions[1].get().ok_or("known now")?;
/// assert_eq!(last.to_string(), "64/1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct LaterPosition {
    pub(super) begin: Begin,
    pub(super) index: u64,
}

impl LaterPosition {
    /// Returns the position, which is known once the writer has been flushed or finished; `None`
    /// before.
    #[must_use]
    pub fn get(&self) -> Option<RecordPosition> {
        let begin = self.begin.get()?;
        Some(RecordPosition::new(begin, self.index))
    }
}
