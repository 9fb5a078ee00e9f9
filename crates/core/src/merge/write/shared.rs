//! A merged message as pieces of its chunks, without copying.

use bytes::Bytes;

use super::execute::{check_size, compared};
use crate::container::Trailer;
use crate::error::ChunkIndex;
use crate::io::combine;
use crate::merge::plan::build::plan;
use crate::merge::read::chunk_store::ChunkStore;
use crate::merge::read_options::ReadOptions;
use crate::spans::SpanSource;
use crate::{Error, ErrorKind, Result};

/// Returns the pieces of the merged message, in order. The pieces share the memory of `chunks`.
/// Compares the size and checksum of the merged message with those of the original message, but
/// doesn't verify the checksums of individual chunks.
///
/// `crc32c` returns the checksum of a chunk if the caller computed it while receiving the chunk,
/// otherwise `None`. A chunk whose checksum is known isn't read again to compute the message's
/// checksum, if the whole chunk is one piece of the message.
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
/// let pieces = shared_pieces(&trailer, &split.bytes(), |_| None, &options)?;
/// assert_eq!(pieces.concat(), file.encode_to_vec());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The same errors as [`plan`](crate::merge::plan()); [`ErrorKind::ChecksumMismatch`] if the
/// message differs from the original message; [`ErrorKind::Cancelled`] if the operation was
/// cancelled.
pub fn shared_pieces(
    trailer: &Trailer,
    chunks: &[Bytes],
    crc32c: impl Fn(usize) -> Option<u32>,
    options: &ReadOptions,
) -> Result<Vec<Bytes>> {
    let plan = plan(trailer, chunks, options)?;
    check_size(trailer, plan.total_len())?;
    let meter = options.progress.meter(plan.total_len());
    let mut pieces = Vec::with_capacity(plan.spans().span_count());
    let mut sum = 0;
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
                let known = is_whole.then(|| crc32c(chunk.to_usize()));
                (piece, known.flatten())
            }
        };
        sum = match known {
            Some(known) => combine(sum, known, span.len),
            None => crc32c::crc32c_append(sum, &piece),
        };
        meter.advance(piece.len() as u64)?;
        pieces.push(piece);
    }
    compared(trailer, plan.total_len(), sum)?;
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
    fn the_size_of_a_part_of_a_message_is_not_that_of_the_message() {
        let file = FileDescriptorProto {
            name: Some("n".repeat(1000)),
            package: Some("p".repeat(1000)),
            ..Default::default()
        };
        let options = SplitOptions::new().max_chunk_size(1000);
        let split = SizeSplitter.split_with(&file, &options).unwrap();
        assert!(split.metadata.byte_exact);
        let mut metadata = split.metadata.clone();
        let message = metadata.message.as_mut().unwrap();
        message.chunked_fields.pop().unwrap();
        let trailer = Trailer::from_metadata(metadata, TrailerUse::Part, &Default::default());
        let options = ReadOptions::new();
        let pieces = shared_pieces(&trailer.unwrap(), &split.bytes(), |_| None, &options).unwrap();
        let part = FileDescriptorProto::decode(&pieces.concat()[..]).unwrap();
        assert_eq!(part.name, file.name);
        assert_eq!(part.package(), "");
    }

    #[test]
    fn a_whole_chunk_counts_with_the_checksum_that_is_known_of_it() {
        let file = FileDescriptorProto {
            dependency: (0..400).map(|at| format!("file {at}.proto")).collect(),
            ..Default::default()
        };
        let options = SplitOptions::new().max_chunk_size(1000);
        let split = SizeSplitter.split_with(&file, &options).unwrap();
        let limits = crate::container::Limits::default();
        let trailer = Trailer::from_metadata(split.metadata.clone(), TrailerUse::Whole, &limits);
        let (trailer, mut chunks) = (trailer.unwrap(), split.bytes());
        let sums: Vec<u32> = chunks.iter().map(|chunk| crc32c::crc32c(chunk)).collect();
        let known = |chunk: usize| sums.get(chunk).copied();
        let last = chunks.len() - 1;
        let wrong = |chunk: usize| if chunk == last { Some(7) } else { known(chunk) };
        let options = ReadOptions::new();

        for crc32c in [&known as &dyn Fn(usize) -> Option<u32>, &|_| None] {
            let pieces = shared_pieces(&trailer, &chunks, crc32c, &options).unwrap();
            assert!(pieces.concat() == file.encode_to_vec());
        }
        let error = shared_pieces(&trailer, &chunks, wrong, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);

        // A chunk without a known checksum is read.
        let mut damaged = chunks[last].to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        chunks[last] = damaged.into();
        let error = shared_pieces(&trailer, &chunks, |_| None, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    }
}
