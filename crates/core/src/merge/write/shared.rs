//! A merged message in pieces of its chunks, without copying.

use bytes::Bytes;

use super::execute::{check_size, compared};
use crate::container::Trailer;
use crate::io::combine;
use crate::merge::plan::build::plan;
use crate::merge::read::chunk_store::ChunkStore;
use crate::newtypes::ChunkIndex;
use crate::read_options::ReadOptions;
use crate::spans::SpanSource;
use crate::{Error, ErrorKind, Result};

/// Returns the merged message as pieces, in order, that share the memory of `chunks`, and compares
/// it with the message that was split. The checksums that `trailer` has of single chunks are
/// trusted: the caller has compared them, and a chunk that is needed whole isn't read again.
///
/// ```
/// use proto_splitter_core::container::{Trailer, TrailerUse};
/// use proto_splitter_core::merge::{ReadOptions, shared_pieces};
/// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
/// use prost_reflect::prost_types::FileDescriptorProto;
/// use prost::Message;
///
/// let file = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
/// let split = SizeSplitter.split_with(&file, &SplitOptions::new().max_chunk_size(1000))?;
/// let (trailer, options) = (split.metadata.clone(), ReadOptions::new());
/// let trailer = Trailer::from_metadata(trailer, TrailerUse::Whole, &Default::default())?;
///
/// let pieces = shared_pieces(&trailer, &split.bytes(), &options)?;
/// assert_eq!(pieces.concat(), file.encode_to_vec());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The errors of [`plan`](crate::merge::plan()); [`ErrorKind::ChecksumMismatch`] if the message
/// differs from the one that was split; [`ErrorKind::Cancelled`].
pub fn shared_pieces(
    trailer: &Trailer,
    chunks: &[Bytes],
    options: &ReadOptions,
) -> Result<Vec<Bytes>> {
    let plan = plan(trailer, chunks, options)?;
    check_size(trailer, plan.total_len())?;
    let meter = options.progress.meter(plan.total_len());
    let mut pieces = Vec::with_capacity(plan.spans().span_count());
    let mut crc32c = 0;
    let infos = &trailer.metadata().chunks;
    for span in plan.spans().iter() {
        let (piece, known) = match span.source {
            SpanSource::Literal(bytes) => (Bytes::copy_from_slice(bytes), None),
            SpanSource::Stored(source, at) => {
                let chunk = ChunkIndex::from(source.index());
                let piece = part(
                    chunks.get(chunk.to_usize()),
                    at,
                    at.saturating_add(span.len),
                )
                .ok_or_else(|| outside().in_chunk(chunk))?;
                let is_whole = span.len == chunks.size(chunk.to_usize());
                let info = infos.get(chunk.to_usize()).filter(|_| is_whole);
                (piece, info.and_then(|info| info.crc32c))
            }
        };
        crc32c = match known {
            Some(known) => combine(crc32c, known, span.len),
            None => crc32c::crc32c_append(crc32c, &piece),
        };
        meter.advance(piece.len() as u64)?;
        pieces.push(piece);
    }
    compared(trailer, plan.total_len(), crc32c)?;
    Ok(pieces)
}

fn part(chunk: Option<&Bytes>, start: u64, end: u64) -> Option<Bytes> {
    let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
    let chunk = chunk?;
    chunk.get(start..end)?;
    Some(chunk.slice(start..end))
}

#[cold]
fn outside() -> Error {
    let message = "the chunk is shorter than the trailer says";
    Error::new(ErrorKind::InvalidTrailer, message)
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_reflect::prost_types::FileDescriptorProto;

    use super::*;
    use crate::container::TrailerUse;
    use crate::split::{SizeSplitter, SplitExt, SplitOptions};

    #[test]
    fn a_chunk_in_one_piece_counts_with_the_checksum_in_the_trailer() {
        let file = FileDescriptorProto {
            dependency: (0..400).map(|at| format!("file {at}.proto")).collect(),
            ..Default::default()
        };
        let options = SplitOptions::new().max_chunk_size(1000);
        let split = SizeSplitter.split_with(&file, &options).unwrap();
        let mut metadata = split.metadata.clone();
        let merged = |metadata: &crate::proto::ChunkMetadata| {
            let limits = crate::container::Limits::default();
            let trailer = Trailer::from_metadata(metadata.clone(), TrailerUse::Whole, &limits)?;
            shared_pieces(&trailer, &split.bytes(), &ReadOptions::new())
        };
        assert!(merged(&metadata).unwrap().concat() == file.encode_to_vec());

        // Without them, the bytes are read.
        for info in &mut metadata.chunks {
            info.crc32c = None;
        }
        assert!(merged(&metadata).unwrap().concat() == file.encode_to_vec());

        metadata.chunks.last_mut().unwrap().crc32c = Some(7);
        let error = merged(&metadata).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    }
}
