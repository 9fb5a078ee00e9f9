//! The data of a simple chunk; [`format`](crate::format) has the layout.
use crate::chunk::{Chunk, ChunkHeader};
use crate::codec::{Decoders, Encoders, TRUSTED_SIZE};
use crate::compression::{Compression, CompressionKind};
use crate::decoded::DecodedChunk;
use crate::error::{Error, ErrorKind, Result};
use crate::fault::Fault;
use crate::input::{RecordInput, reserve_trusted};
use crate::options::ReaderOptions;
use crate::payload::Payload;
use crate::varint;

/// Returns the compression that `byte`, the first byte of a chunk's data, specifies.
pub(crate) fn compression_kind(byte: Option<&u8>, begin: u64) -> Result<CompressionKind> {
    let &byte = byte.ok_or_else(|| Error::corrupt(begin, "chunk has no compression type"))?;
    CompressionKind::from_byte(byte).ok_or_else(|| {
        Error::at(
            ErrorKind::Unsupported,
            begin,
            format!("unknown compression type {byte:#04x}"),
        )
    })
}

/// The front of a simple chunk's data: the bytes before the records.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) compression: CompressionKind,
    /// Range of the data that contains the sizes of the records.
    pub(crate) sizes: std::ops::Range<u64>,
}

impl Front {
    /// Parses the first bytes of the data: the compression type, and the length of the sizes as a
    /// varint.
    pub(crate) fn parse(data: &[u8], chunk: &Chunk) -> Result<Self> {
        let begin = chunk.begin;
        let compression = compression_kind(data.first(), begin)?;
        let mut rest = &data[1..];
        let len = varint::take(&mut rest)
            .ok_or_else(|| Error::corrupt(begin, "simple chunk lacks the length of its sizes"))?;
        let start = (data.len() - rest.len()) as u64;
        let end = start
            .checked_add(len)
            .filter(|&end| end <= chunk.header.data_size)
            .ok_or_else(|| {
                Error::corrupt(
                    begin,
                    format!("{len} bytes of sizes are more than the chunk has"),
                )
            })?;
        Ok(Front {
            compression,
            sizes: start..end,
        })
    }
}

/// Removes the size prefix from a compressed part of a chunk's data, and returns the decompressed
/// size.
pub(crate) fn take_size(part: &mut &[u8], begin: u64) -> Result<u64> {
    varint::take(part)
        .ok_or_else(|| Error::corrupt(begin, "compressed part lacks its decompressed size"))
}

/// Returns the end of each record, computed from the stored sizes.
pub(crate) fn record_ends(
    compression: CompressionKind,
    mut stored: &[u8],
    chunk: &Chunk,
    decoders: &mut Decoders,
    options: &ReaderOptions,
) -> Result<Vec<u64>> {
    let begin = chunk.begin;
    let ChunkHeader {
        num_records,
        decoded_data_size,
        ..
    } = chunk.header;
    let mut decompressed = Vec::new();
    let mut sizes = if compression == CompressionKind::None {
        stored
    } else {
        let size = take_size(&mut stored, begin)?;
        // A size takes one to ten bytes. The total is checked first, so that a false claim can't
        // cause much data to be decompressed.
        if size < num_records || size > num_records.saturating_mul(varint::MAX_LEN as u64) {
            return Err(Error::corrupt(
                begin,
                format!("{size} bytes of sizes can't be those of {num_records} records"),
            ));
        }
        options.check_memory(begin, size)?;
        let memory = std::mem::take(&mut decoders.sizes);
        decompressed = decoders
            .decompress_to(memory, compression, stored, size)
            .map_err(|error| error.or_at(begin))?;
        &decompressed[..]
    };
    if (sizes.len() as u64) < num_records {
        return Err(Error::corrupt(begin, "fewer sizes than records"));
    }
    // Sizes may be compressed to almost nothing, while each end takes eight bytes.
    options.check_memory(begin, num_records.saturating_mul(size_of::<u64>() as u64))?;
    let mut ends = decoders.memory.take_ends();
    // Every record has at least one byte in `sizes`, as checked above, so the number of records
    // isn't a false claim.
    ends.reserve(usize::try_from(num_records).unwrap_or(0));
    let mut end = 0u64;
    for _ in 0..num_records {
        let size = varint::take_mixed(&mut sizes)
            .ok_or_else(|| Error::corrupt(begin, "sizes of records end early"))?;
        end = end
            .checked_add(size)
            .ok_or_else(|| Error::corrupt(begin, "records are larger than the chunk claims"))?;
        ends.push(end);
    }
    if !sizes.is_empty() {
        return Err(Error::corrupt(begin, "bytes after the sizes of records"));
    }
    if end != decoded_data_size {
        return Err(Error::corrupt(
            begin,
            format!("records have {end} bytes, but the chunk claims {decoded_data_size}"),
        ));
    }
    decompressed.clear();
    decoders.sizes = decompressed;
    Ok(ends)
}

/// Decodes the data of a simple chunk. The caller has checked the hash of the data.
pub(crate) fn decode(
    chunk: &Chunk,
    data: Vec<u8>,
    decoders: &mut Decoders,
    options: &ReaderOptions,
) -> Result<DecodedChunk> {
    let begin = chunk.begin;
    let front = Front::parse(&data, chunk)?;
    let sizes = within(&data, &front.sizes, begin)?;
    let ends = record_ends(front.compression, sizes, chunk, decoders, options)?;
    let values_at = usize::try_from(front.sizes.end).unwrap_or(data.len());
    let mut values = &data[values_at..];
    let expected = chunk.header.decoded_data_size;
    if front.compression == CompressionKind::None {
        if values.len() as u64 != expected {
            return Err(Error::corrupt(
                begin,
                format!("chunk has {} bytes of values, not {expected}", values.len()),
            ));
        }
        return Ok(DecodedChunk::new(data, values_at, ends));
    }
    let size = take_size(&mut values, begin)?;
    if size != expected {
        return Err(Error::corrupt(
            begin,
            format!("chunk has {size} bytes of values, not {expected}"),
        ));
    }
    options.check_memory(begin, size)?;
    let memory = decoders.memory.take(size);
    let values = decoders
        .decompress_to(memory, front.compression, values, size)
        .map_err(|error| error.or_at(begin))?;
    decoders.memory.give(data);
    Ok(DecodedChunk::new(values, 0, ends))
}

/// Decodes a simple chunk, compressed or not, as its data is read: the stored data is never held as
/// a whole.
///
/// The hash is verified at the end, and the error for a wrong hash takes precedence over any other
/// error in the data.
pub(crate) fn decode_streamed<I: RecordInput + ?Sized>(
    payload: &mut Payload,
    input: &mut I,
    decoders: &mut Decoders,
    options: &ReaderOptions,
) -> Result<DecodedChunk, Fault> {
    let records = decode_pieces(payload, input, decoders, options)
        .map_err(|fault| payload.hash_first(input, fault))?;
    payload.finish(input)?;
    Ok(records)
}

fn decode_pieces<I: RecordInput + ?Sized>(
    payload: &mut Payload,
    input: &mut I,
    decoders: &mut Decoders,
    options: &ReaderOptions,
) -> Result<DecodedChunk, Fault> {
    let chunk = *payload.chunk();
    let begin = chunk.begin;
    let wrong = |error| Fault::in_data(&chunk, error);
    let mut front = Vec::new();
    payload.append(input, 1, &mut front)?;
    payload.append_varint(input, &mut front)?;
    let front = Front::parse(&front, &chunk).map_err(wrong)?;
    let kind = front.compression;
    let mut sizes = Vec::new();
    payload.append(input, front.sizes.end - front.sizes.start, &mut sizes)?;
    let ends = record_ends(kind, &sizes, &chunk, decoders, options).map_err(wrong)?;
    let expected = chunk.header.decoded_data_size;
    let mut prefix = Vec::new();
    let size = if kind == CompressionKind::None {
        payload.left()
    } else {
        payload.append_varint(input, &mut prefix)?;
        take_size(&mut &prefix[..], begin).map_err(wrong)?
    };
    if size != expected {
        let detail = format!("chunk has {size} bytes of values, not {expected}");
        return Err(wrong(Error::corrupt(begin, detail)));
    }
    options.check_memory(begin, size).map_err(wrong)?;
    let mut values = decoders.memory.take(size);
    values.clear();
    // The first sixteen bytes of a stream are enough to determine the size of its window.
    let mut start = Vec::new();
    if matches!(kind, CompressionKind::Zstd | CompressionKind::Brotli) {
        payload.append(input, 16, &mut start)?;
        if let Some(mut stream) = decoders.stream(kind, &start, options).map_err(wrong)? {
            let claimed = chunk.header.data_size.saturating_mul(64).max(TRUSTED_SIZE);
            reserve_trusted(&mut values, size.min(claimed), input).map_err(wrong)?;
            stream.run_to(&start, &mut values, size).map_err(wrong)?;
            loop {
                let piece = payload.piece(input, u64::MAX)?;
                if piece.is_empty() {
                    break;
                }
                stream.run_to(piece, &mut values, size).map_err(wrong)?;
            }
            if !stream.ended() || values.len() as u64 != size {
                return Err(wrong(Error::corrupt(begin, "compressed stream ends early")));
            }
            decoders.give_back(stream);
            return Ok(DecodedChunk::new(values, 0, ends));
        }
    }
    if kind == CompressionKind::None {
        reserve_trusted(&mut values, size, input).map_err(wrong)?;
        payload.append(input, size, &mut values)?;
        return Ok(DecodedChunk::new(values, 0, ends));
    }
    let mut stored = start;
    reserve_trusted(&mut stored, payload.left(), input).map_err(wrong)?;
    payload.append(input, u64::MAX, &mut stored)?;
    let values = decoders
        .decompress_to(values, kind, &stored, size)
        .map_err(wrong)?;
    decoders.memory.give(stored);
    Ok(DecodedChunk::new(values, 0, ends))
}

fn within<'a>(data: &'a [u8], range: &std::ops::Range<u64>, begin: u64) -> Result<&'a [u8]> {
    usize::try_from(range.start)
        .ok()
        .zip(usize::try_from(range.end).ok())
        .and_then(|(start, end)| data.get(start..end))
        .ok_or_else(|| Error::corrupt(begin, "chunk data ends early"))
}

/// Appends the part of a simple chunk's data that is before the records. `sizes` has one varint per
/// record.
pub(crate) fn encode_front(
    encoders: &mut Encoders,
    compression: &Compression,
    sizes: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    out.push(compression.kind().byte());
    if *compression == Compression::None {
        varint::push(out, sizes.len() as u64);
        out.extend_from_slice(sizes);
        return Ok(());
    }
    // The length is stored before the sizes, but is known only once the sizes are compressed.
    let start = out.len();
    encoders.compress(compression, &[sizes], out)?;
    let mut len = Vec::with_capacity(varint::MAX_LEN);
    varint::push(&mut len, (out.len() - start) as u64);
    out.splice(start..start, len);
    Ok(())
}
