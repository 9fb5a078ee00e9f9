//! The source layout for a trailer: the destination (chunk and offset) of every source byte. With
//! this layout, a merge is byte-exact even if the source has overlong lengths, or the elements of a
//! sliced field are not contiguous, as in concatenated messages.

use super::split_plan::PlannedChunk;
use crate::Result;
use crate::container::{LayoutWriter, Profile};
use crate::split::options::SplitOptions;
use crate::split::read::source::Source;
use crate::wire::WireCursor;

/// Returns the encoded source layout; `None` if the layout is too large for a trailer that readers
/// accept. In TensorFlow's profile, the layout must also be within the maximum chunk size, since
/// TensorFlow's Merger reads the trailer as one record.
pub(super) fn source_layout(
    source: &Source,
    chunks: &[PlannedChunk],
    options: &SplitOptions,
) -> Result<Option<Vec<u8>>> {
    let mut runs = Vec::new();
    for (index, chunk) in chunks.iter().enumerate() {
        for span in chunk.spans().iter() {
            if let Some((_, range)) = span.stored() {
                runs.push((range, index, span.offset));
            }
        }
    }
    runs.sort_unstable_by_key(|(range, ..)| range.start);
    let mut cursor = WireCursor::new(source.input());
    let mut layout = LayoutWriter::new(chunks.len());
    let mut position = 0;
    for (range, chunk, start) in runs {
        if position < range.start {
            layout.literal(cursor.bytes(position..range.start)?);
        }
        layout.chunk(chunk, start..start + (range.end - range.start));
        if layout.is_too_large() {
            return Ok(None);
        }
        position = range.end;
    }
    if position < source.size() {
        layout.literal(cursor.bytes(position..source.size())?);
    }
    let layout = layout.finish();
    let is_taken = match options.profile {
        Profile::TensorFlow => layout.len() as u64 <= options.effective_max_chunk_size(),
        Profile::Extended => true,
    };
    Ok(Some(layout).filter(|_| is_taken))
}
