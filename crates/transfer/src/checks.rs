//! Checks of frames that a receiver makes before it accepts their content.

use bytes::Bytes;
use proto_splitter_core::proto::ChunkMetadata;
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::options::ReceiveOptions;
use crate::proto::{Begin, Data};
use crate::{MAX_SESSION_SIZE, VERSION};

/// Maximum decompressed size of a compressed piece in a frame, in bytes: 64 MiB.
pub(crate) const MAX_PIECE_SIZE: usize = 64 << 20;

/// Checks the announcement in the first frame of a transfer. Fails if the options don't permit the
/// transfer, or if a number in the announcement is impossible.
pub(crate) fn check_begin(begin: &Begin, options: &ReceiveOptions) -> Result<()> {
    if begin.version != VERSION {
        let found = begin.version;
        let message = format!("the transfer has version {found}, but only {VERSION} is known");
        return Err(Error::new(ErrorKind::UnsupportedVersion, message));
    }
    options.check_type(&begin.message_type)?;
    let max_size = options.get_max_message_size();
    for (what, found, most) in [
        ("the message has", begin.message_size, max_size),
        ("the chunks have", begin.chunk_bytes, max_size),
        (
            "the trailer has",
            begin.trailer_size,
            options.limits().get_max_trailer_size(),
        ),
    ] {
        if found > most {
            let message = format!("{what} {found} bytes, but at most {most} are allowed");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
    }
    let (count, most) = (begin.chunk_count, options.get_max_chunks());
    if count > most {
        let message = format!("there are {count} chunks, but at most {most} are allowed");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    if count == 0 {
        return Err(Error::invalid("the transfer has no chunks"));
    }
    if begin.first_chunk > count {
        let first = begin.first_chunk;
        let message = format!("the transfer starts at chunk {first} of {count}");
        return Err(Error::invalid(message));
    }
    let session = begin.session.len();
    if session > MAX_SESSION_SIZE {
        let message =
            format!("the session has {session} bytes, over the limit of {MAX_SESSION_SIZE}");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    Ok(())
}

/// Fails unless the number of chunks, their total size and the message's size in a trailer are
/// those that the first frame announced. Also fails if the trailer lists any files that contain
/// chunks.
pub(crate) fn check_trailer(trailer: &ChunkMetadata, begin: &Begin) -> Result<()> {
    let sizes = trailer.chunks.iter().map(|info| info.size);
    let bytes = sizes.fold(0, u64::saturating_add);
    for (what, found, said) in [
        ("chunks", trailer.chunks.len() as u64, begin.chunk_count),
        ("bytes of chunks", bytes, begin.chunk_bytes),
        (
            "bytes of the message",
            trailer.source_size.unwrap_or(begin.message_size),
            begin.message_size,
        ),
    ] {
        if found != said {
            let message = format!("the trailer has {found} {what}, but {said} were announced");
            return Err(Error::invalid(message));
        }
    }
    if !trailer.files.is_empty() {
        return Err(Error::invalid("the trailer names other files"));
    }
    Ok(())
}

/// Returns the decompressed bytes of a piece. Fails unless the piece belongs to this chunk and
/// starts at this offset in it. `size` is the size of the whole chunk.
pub(crate) fn piece(data: Data, chunk: u64, offset: u64, size: u64) -> Result<Bytes> {
    if data.chunk != chunk || data.offset != offset {
        let message = format!(
            "received bytes of chunk {} at {}, but chunk {chunk} at {offset} was expected",
            data.chunk, data.offset
        );
        return Err(Error::invalid(message));
    }
    let left = size - offset;
    let bytes = match data.zstd_size {
        None => data.content,
        Some(size) => decompress(&data.content, size, left)?,
    };
    let len = bytes.len() as u64;
    if len > left || (len == 0 && size > 0) {
        let message = format!("a piece has {len} bytes, but {left} are left");
        return Err(Error::invalid(message));
    }
    match (len == left, data.crc32c.is_some()) {
        (true, false) => Err(Error::invalid("its last piece has no checksum")),
        (false, true) => Err(Error::invalid("a checksum comes before its last piece")),
        _ => Ok(bytes),
    }
}

pub(crate) fn check_crc32c(what: &str, found: u32, said: u32) -> Result<()> {
    if found == said {
        return Ok(());
    }
    let message = format!("{what} crc32c {found:08x}, but {said:08x} was sent");
    Err(Error::new(ErrorKind::ChecksumMismatch, message))
}

/// Decompresses a piece whose declared size is `size`. Fails if `size` is wrong, greater than
/// [`MAX_PIECE_SIZE`], or greater than `left`, the number of bytes that the chunk lacks.
fn decompress(content: &[u8], size: u64, left: u64) -> Result<Bytes> {
    if size > left.min(MAX_PIECE_SIZE as u64) {
        let message = format!("a piece claims {size} bytes, but {left} are left");
        return Err(Error::invalid(message));
    }
    inflate(content, usize::try_from(size).unwrap_or(usize::MAX))
}

#[cfg(feature = "zstd")]
fn inflate(content: &[u8], size: usize) -> Result<Bytes> {
    let failed = |error| Error::invalid(format!("a piece can't be decompressed: {error}"));
    let bytes = zstd::bulk::decompress(content, size).map_err(failed)?;
    if bytes.len() != size {
        let message = format!("a piece has {} bytes, but claims {size}", bytes.len());
        return Err(Error::invalid(message));
    }
    Ok(bytes.into())
}

#[cfg(not(feature = "zstd"))]
fn inflate(_content: &[u8], _size: usize) -> Result<Bytes> {
    let message = "a compressed piece came, but this build has no zstd";
    Err(Error::new(ErrorKind::UnsupportedVersion, message))
}
