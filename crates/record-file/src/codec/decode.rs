//! Decompression of streams whose decompressed sizes are claimed by the file. Decoding stops at the
//! claimed size, and a stream that decodes to less is an error.
use super::step::{bad_stream, no_memory, size_differs};
use super::stream::{Codec, GROWTH, StreamDecoder};
use super::{Memory, TRUSTED_SIZE, snappy, zstd};
use crate::compression::CompressionKind;
use crate::error::{Error, Result};
use crate::options::ReaderOptions;
use crate::varint;

/// Maximum size, in bytes and including the window, of a decoder that is kept for the next stream.
const KEPT_CONTEXT: usize = 8 << 20;
/// Base-2 logarithm of the largest window, in bytes, that a brotli stream may announce if the whole
/// output is held. The decoder's window grows with the output, so the limit needn't be smaller.
const ANY_WINDOW: u32 = 30;

/// Decompressors that are reused from one stream to the next.
#[derive(Default)]
pub(crate) struct Decoders {
    zstd: Option<zstd::Decoder>,
    pub(crate) memory: Memory,
    /// Buffer for the sizes of a chunk's records, after the sizes are decompressed.
    pub(crate) sizes: Vec<u8>,
}

impl std::fmt::Debug for Decoders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoders")
    }
}

impl Decoders {
    /// Decompresses all of `stream`, which has no size prefix, into `out`. Fails if the output
    /// doesn't fill `out` exactly.
    pub(crate) fn decompress_into(
        &mut self,
        kind: CompressionKind,
        stream: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        match kind {
            CompressionKind::None => {
                if stream.len() != out.len() {
                    return Err(size_differs(out.len() as u64));
                }
                out.copy_from_slice(stream);
                Ok(())
            }
            CompressionKind::Zstd => {
                zstd::check_single(stream)?;
                let size = out.len() as u64;
                let written = self.zstd()?.decompress(stream, out, size)?;
                if written as u64 == size {
                    Ok(())
                } else {
                    Err(size_differs(size))
                }
            }
            CompressionKind::Snappy => {
                let size = out.len() as u64;
                if snappy_size(stream)? != size {
                    return Err(size_differs(size));
                }
                snappy::decompress(stream, out)
            }
            CompressionKind::Brotli => {
                let mut decoder = StreamDecoder::new(kind, ANY_WINDOW)?;
                let progress = decoder.run(stream, out)?;
                if progress.written < out.len() {
                    return Err(size_differs(out.len() as u64));
                }
                decoder.expect_end(&stream[progress.read..], out.len() as u64)
            }
        }
    }

    /// Decompresses all of `stream`, which has no size prefix, to exactly `size` bytes.
    ///
    /// The caller has checked `size` against its limits; still, no more memory is allocated than
    /// the stream can fill. The output itself serves as the window, so the stream may announce a
    /// window of any size.
    pub(crate) fn decompress(
        &mut self,
        kind: CompressionKind,
        stream: &[u8],
        size: u64,
    ) -> Result<Vec<u8>> {
        self.decompress_to(Vec::new(), kind, stream, size)
    }

    /// Decompresses like [`decompress`](Self::decompress), reusing the memory of `out`, whose
    /// content is ignored.
    pub(crate) fn decompress_to(
        &mut self,
        mut out: Vec<u8>,
        kind: CompressionKind,
        stream: &[u8],
        size: u64,
    ) -> Result<Vec<u8>> {
        let len = usize::try_from(size).map_err(|_| Error::no_room_for(size))?;
        let trusted = size <= TRUSTED_SIZE.max((stream.len() as u64).saturating_mul(64));
        match kind {
            CompressionKind::Zstd => {
                zstd::check_single(stream)?;
                if !trusted && zstd::most_content(stream).is_none_or(|most| most < size) {
                    return Err(size_differs(size));
                }
                out.clear();
                reserve(&mut out, len)?;
                // A Vec is filled up to its capacity, which may exceed the requested capacity.
                self.zstd()?.decompress(stream, &mut out, size)?;
                if out.len() == len {
                    Ok(out)
                } else {
                    Err(size_differs(size))
                }
            }
            CompressionKind::Snappy if snappy_size(stream)? != size => Err(size_differs(size)),
            // Snappy expands at most about 64-fold, so valid streams are always `trusted`.
            CompressionKind::Snappy if !trusted => Err(bad_stream("snappy stream ends early")),
            CompressionKind::None | CompressionKind::Snappy => {
                resize(&mut out, size)?;
                self.decompress_into(kind, stream, &mut out)?;
                Ok(out)
            }
            CompressionKind::Brotli => {
                let mut decoder = StreamDecoder::new(kind, ANY_WINDOW)?;
                let mut filled = 0;
                let mut rest = stream;
                while filled < len {
                    let grown = len.min((2 * filled).max(if trusted { len } else { GROWTH }));
                    resize(&mut out, grown as u64)?;
                    let progress = decoder.run(rest, &mut out[filled..])?;
                    rest = &rest[progress.read..];
                    filled += progress.written;
                    if filled < grown {
                        return Err(size_differs(size));
                    }
                }
                decoder.expect_end(rest, size)?;
                out.truncate(len);
                Ok(out)
            }
        }
    }

    /// Returns a decoder for a stream that begins with `start`; `None` if the stream's window is
    /// too large, or as large as the content. The caller should then decode the stream as a whole.
    pub(crate) fn stream(
        &mut self,
        kind: CompressionKind,
        start: &[u8],
        options: &ReaderOptions,
    ) -> Result<Option<StreamDecoder>> {
        match kind {
            CompressionKind::Zstd => {
                let largest = 1 << options.max_window_log.min(63);
                if zstd::window(start).is_none_or(|window| window > largest) {
                    return Ok(None);
                }
                let decoder = self.zstd.take();
                StreamDecoder::with_zstd(decoder, options.max_window_log).map(Some)
            }
            _ => StreamDecoder::new(kind, ANY_WINDOW).map(Some),
        }
    }

    /// Returns a decoder for a stream, like [`StreamDecoder::new`], but reuses the zstd decoder of
    /// an earlier stream if there is one.
    pub(crate) fn open_stream(
        &mut self,
        kind: CompressionKind,
        max_window_log: u32,
    ) -> Result<StreamDecoder> {
        match kind {
            CompressionKind::Zstd => StreamDecoder::with_zstd(self.zstd.take(), max_window_log),
            _ => StreamDecoder::new(kind, max_window_log),
        }
    }

    /// Keeps a stream's decoder for the next stream, if it is a zstd decoder of at most
    /// [`KEPT_CONTEXT`] bytes.
    pub(crate) fn give_back(&mut self, stream: StreamDecoder) {
        if let Codec::Zstd(decoder) = stream.codec
            && decoder.memory() <= KEPT_CONTEXT
        {
            self.zstd = Some(decoder);
        }
    }

    fn zstd(&mut self) -> Result<&mut zstd::Decoder> {
        if self.zstd.is_none() {
            self.zstd = Some(zstd::Decoder::new()?);
        }
        self.zstd.as_mut().ok_or_else(no_memory)
    }
}

/// Sets the length of `out` to `size`. The content is unspecified: the caller overwrites it.
pub(crate) fn resize(out: &mut Vec<u8>, size: u64) -> Result<()> {
    let len = usize::try_from(size).map_err(|_| Error::no_room_for(size))?;
    reserve(out, len)?;
    out.resize(len, 0);
    Ok(())
}

/// Reserves memory so that `out` can hold `len` items.
pub(crate) fn reserve<T>(out: &mut Vec<T>, len: usize) -> Result<()> {
    let size = (len as u64).saturating_mul(size_of::<T>() as u64);
    out.try_reserve_exact(len.saturating_sub(out.len()))
        .map_err(|_| Error::no_room_for(size))
}

fn snappy_size(stream: &[u8]) -> Result<u64> {
    varint::take(&mut &stream[..]).ok_or_else(|| bad_stream("snappy stream has no size"))
}
