//! The layers around an executable: the compression of a compilation cache's entry, and IFRT's
//! metadata.

use std::fmt;
use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;

use prost::Message;
use proto_splitter_core::formats::{Candidate, OpenOptions};
use proto_splitter_core::merge::{DEFAULT_LEAST_MAX_MERGED_SIZE, LARGEST_EXPANSION};
use proto_splitter_core::spans::first_bytes;
use proto_splitter_core::wire::decode_varint;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::{PositionReader, ReadAt, is_record_file};

use crate::executable::part;

/// Maximum size of the IFRT metadata before an executable, in bytes. The metadata contains shapes
/// and layouts.
const MAX_METADATA: u64 = 64 << 20;

/// Number of bytes to decompress from a cache entry in order to recognize it.
const PROBED: u64 = 4 << 10;

/// Number of bytes to decompress at a time.
const BLOCK: usize = 64 << 10;

/// Length of the signature at the beginning of a record file, in bytes.
const SIGNATURE: usize = 64;

/// Size of the compile time at the beginning of a cache entry, in bytes.
const COMPILE_TIME: usize = 4;

/// IFRT's metadata for an executable: some fields of `xla.ifrt.SerializedXlaExecutableMetadata`.
#[derive(Clone, PartialEq, prost::Message)]
struct IfrtMetadata {
    #[prost(int32, tag = "1")]
    version: i32,
    #[prost(string, tag = "2")]
    runtime_name: String,
    #[prost(string, tag = "7")]
    computation_name: String,
}

/// A layer around an executable. The layer is removed to read the executable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layer {
    /// Compression, with the name of the codec.
    Compressed(&'static str),
    /// An entry of JAX's compilation cache, with its compile time in milliseconds.
    CacheEntry(u32),
    /// IFRT's metadata: its size in bytes, including the length prefix, and the name of the
    /// runtime.
    Ifrt(u64, String),
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layer::Compressed(by) => write!(f, "compressed with {by}"),
            Layer::CacheEntry(time) => write!(f, "compilation cache entry (compile time {time})"),
            Layer::Ifrt(bytes, name) if name.is_empty() => {
                write!(f, "{bytes} bytes of IFRT metadata")
            }
            Layer::Ifrt(bytes, name) => write!(f, "{bytes} bytes of IFRT metadata ({name})"),
        }
    }
}

/// The compression of a cache entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Codec {
    #[cfg(feature = "codecs")]
    Zstd,
    Zlib,
}

impl Codec {
    fn of(head: &[u8]) -> Option<Codec> {
        match head {
            #[cfg(feature = "codecs")]
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Codec::Zstd),
            // The check bits of a zlib header are valid for any compression level.
            [0x78, flags, ..] if (0x7800 + u32::from(*flags)) % 31 == 0 => Some(Codec::Zlib),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "codecs")]
            Codec::Zstd => "zstd",
            Codec::Zlib => "zlib",
        }
    }

    fn reader<'a>(self, stored: impl Read + 'a) -> Result<Box<dyn Read + 'a>> {
        Ok(match self {
            #[cfg(feature = "codecs")]
            Codec::Zstd => Box::new(zstd::stream::read::Decoder::new(stored)?),
            Codec::Zlib => Box::new(flate2::read::ZlibDecoder::new(stored)),
        })
    }
}

/// Returns true if an input is an executable with layers around it. Reads only the beginning of the
/// input.
pub(crate) fn is_wrapped(input: &Candidate<'_>) -> bool {
    let head = input.head();
    let in_entry = || {
        let source = input.source().ok().filter(|_| Codec::of(head).is_some())?;
        let stored = PositionReader::new(&*source);
        let mut front = Vec::new();
        let reader = Codec::of(head)?.reader(stored).ok()?;
        reader.take(PROBED).read_to_end(&mut front).ok()?;
        metadata(front.get(COMPILE_TIME..)?)
    };
    metadata(head).or_else(in_entry).is_some()
}

/// Returns IFRT's metadata and its range, if `head` begins with it. `head` must contain the whole
/// metadata and the beginning of the executable after it.
fn metadata(head: &[u8]) -> Option<(Range<usize>, IfrtMetadata)> {
    let (len, start) = decode_varint(head)?;
    let end = start.checked_add(usize::try_from(len).ok()?)?;
    let (read, rest) = (head.get(start..end)?, head.get(end..)?);
    let metadata = IfrtMetadata::decode(read).ok()?;
    let names_runtime = metadata.version > 0 && metadata.runtime_name.starts_with("pjrt");
    let is_records = rest.len() >= SIGNATURE && is_record_file(rest).unwrap_or(false);
    // More evidence is required, since any list of messages may begin with a length and a message.
    (is_records || names_runtime).then_some((start..end, metadata))
}

/// Removes the layers around an executable. Returns the layers, outermost first, and a source that
/// contains just the executable.
///
/// Compressed data is decompressed to a temporary file.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if the executable can't be decompressed;
/// [`ErrorKind::LimitExceeded`] if it would have more bytes than the limits allow;
/// [`ErrorKind::Cancelled`]; [`ErrorKind::Io`] if it can't be read, or the temporary file can't be
/// written.
pub(crate) fn unwrapped(
    source: Arc<dyn ReadAt>,
    options: &OpenOptions,
) -> Result<(Vec<Layer>, Arc<dyn ReadAt>)> {
    let (mut layers, mut source) = (Vec::new(), source);
    let head = first_bytes(&*source, SIGNATURE as u64)?;
    if let Some(codec) = Codec::of(&head) {
        let bytes = decompressed(&*source, codec, options)?;
        layers.push(Layer::Compressed(codec.name()));
        let time = first_bytes(&bytes, COMPILE_TIME as u64)?;
        let time = time.try_into().map_err(|_| {
            let message = "the compilation cache entry has fewer than 4 bytes";
            Error::new(ErrorKind::InvalidMessage, message)
        })?;
        layers.push(Layer::CacheEntry(u32::from_be_bytes(time)));
        let bytes: Arc<dyn ReadAt> = Arc::new(bytes);
        source = behind(&bytes, COMPILE_TIME as u64)?;
    }
    // Reads the metadata's length first, and then the whole metadata, which is large for a large
    // program.
    let len = decode_varint(&first_bytes(&*source, 10)?);
    let known = len.filter(|(len, _)| *len <= MAX_METADATA);
    let most = known.map_or(0, |(len, at)| len + at as u64 + SIGNATURE as u64);
    if let Some((range, metadata)) = metadata(&first_bytes(&*source, most)?) {
        layers.push(Layer::Ifrt(range.end as u64, metadata.runtime_name));
        source = behind(&source, range.end as u64)?;
    }
    Ok((layers, source))
}

/// Returns a source that consists of `source` without its first `skipped` bytes.
fn behind(source: &Arc<dyn ReadAt>, skipped: u64) -> Result<Arc<dyn ReadAt>> {
    let size = source.size()?;
    part(source, std::iter::once(skipped.min(size)..size))
}

/// Decompresses a source to a temporary file, and returns the file.
fn decompressed(source: &dyn ReadAt, codec: Codec, options: &OpenOptions) -> Result<std::fs::File> {
    let stored = source.size()?;
    let most = options.get_limits().get_max_merged_size();
    let most = most.unwrap_or_else(|| {
        let expanded = stored.saturating_mul(LARGEST_EXPANSION);
        expanded.max(DEFAULT_LEAST_MAX_MERGED_SIZE)
    });
    let mut reader = codec.reader(PositionReader::new(source))?;
    let mut file = tempfile::tempfile()?;
    let (mut block, mut size) = (vec![0; BLOCK], 0);
    loop {
        options.get_progress().check()?;
        let len = match reader.read(&mut block) {
            Ok(0) => return Ok(file),
            Ok(len) => len,
            Err(error) if is_of_source(&error) => return Err(error.into()),
            Err(error) => {
                let message = format!("it can't be decompressed with {}: {error}", codec.name());
                return Err(Error::new(ErrorKind::InvalidMessage, message));
            }
        };
        size += len as u64;
        if size > most {
            let message = format!(
                "it would be decompressed to more than the {most} bytes that `max-merged-size` allows, from {stored} stored bytes"
            );
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        file.write_all(&block[..len])?;
    }
}

/// Returns true if a decoder passed an error on from its source.
fn is_of_source(error: &std::io::Error) -> bool {
    let is_known = error
        .get_ref()
        .is_some_and(|inner| inner.is::<Error>() || inner.is::<record_file::Error>());
    is_known || error.raw_os_error().is_some()
}
