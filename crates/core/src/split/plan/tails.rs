//! Messages whose fields take turns by the million, cut where they stand.
//!
//! A slice holds elements of one field. Where others stand between them, a merge needs to be told
//! where each goes, which takes more room than a trailer has once there are millions. A tail holds
//! whatever fields come next, and goes behind what was before it.

use super::cuts::Marks;
use crate::Result;
use crate::split::options::SplitOptions;
use crate::split::read::source::Source;
use crate::wire::WireCursor;

/// From how many runs of fields with one number on a message is cut where it stands.
pub(in crate::split) const MOST_RUNS: u64 = 1 << 20;

/// After how many fields is asked whether it was cancelled.
const CHECK_EVERY: u64 = 1 << 16;

/// The marks of a message that is cut into tails; none if it needn't be: it is small, has few runs,
/// or has a field that is too large for a chunk, which has to be cut inside.
pub(super) fn tails(source: &Source, options: &SplitOptions) -> Result<Option<Marks>> {
    let max = options.effective_max_chunk_size();
    if source.size() <= max {
        return Ok(None);
    }
    let most = options.effective_max_slice_size();
    let mut marks = Marks::default();
    let mut cursor = WireCursor::new(source.input());
    let (mut runs, mut steps, mut start, mut previous) = (0u64, 0u64, 0, None);
    while let Some(field) = cursor.next()? {
        steps += 1;
        if steps % CHECK_EVERY == 1 {
            options.progress.check()?;
        }
        if field.end - field.start > max {
            return Ok(None);
        }
        runs += u64::from(previous != Some(field.number));
        previous = Some(field.number);
        if field.end - start > most && field.start > start {
            if start > 0 {
                marks.tail(start..field.start);
            }
            start = field.start;
        }
    }
    if start > 0 {
        marks.tail(start..source.size());
    }
    Ok(Some(marks).filter(|_| runs > MOST_RUNS))
}
