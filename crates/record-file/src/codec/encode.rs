//! Compression of whole buffers and of streams.
use super::compressor::Compressor;
use super::step::{Each, SNAPPY_FRAGMENT};
use super::{brotli, snappy, zstd};
use crate::compression::Compression;
use crate::error::{Error, ErrorKind, Result};
use crate::varint;

/// Number of bytes compressed at once: few enough that the compressed bytes are still in the core's
/// cache when the caller uses them.
const TURN: usize = 128 << 10;
/// Number of bytes passed in one call to brotli's lowest levels, which look only at the bytes
/// passed in one call. Half this number would make the output for text 1 % larger, and have no
/// other effect.
const BROTLI_FRAGMENT: usize = 1 << 20;
/// Snappy's own limit on the size of a stream, in bytes.
const MAX_SNAPPY: u64 = u32::MAX as u64;

/// Compressors that are reused from one chunk to the next.
#[derive(Default)]
pub(crate) struct Encoders {
    zstd: Option<zstd::Encoder>,
    snappy: Option<Box<snappy::Encoder>>,
    fragment: Vec<u8>,
}

impl Encoders {
    /// Appends the stored form of the concatenation of `parts`: its uncompressed size as a varint
    /// and the compressed stream, or only its bytes if there is no compression.
    pub(crate) fn compress(
        &mut self,
        compression: &Compression,
        parts: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.compress_along(compression, parts, out, |_| {})
    }

    /// Compresses like [`compress`](Self::compress), and passes `out` to the callback whenever
    /// `out` grows.
    pub(crate) fn compress_along(
        &mut self,
        compression: &Compression,
        parts: &[&[u8]],
        out: &mut Vec<u8>,
        mut see: impl FnMut(&[u8]),
    ) -> Result<()> {
        if *compression == Compression::None {
            parts.iter().for_each(|part| out.extend_from_slice(part));
            see(out);
            return Ok(());
        }
        let size = parts.iter().map(|part| part.len() as u64).sum();
        if let (Compression::Zstd { .. }, Ok(size)) = (compression, usize::try_from(size)) {
            let most = zstd::most_compressed(size);
            if out.capacity() - out.len() < most {
                // The capacity isn't doubled, since the buffer will hardly grow again. The extra
                // room is for the next chunk, which may be slightly larger.
                out.reserve_exact(most.saturating_add(most / 64));
            }
        }
        let mut stream = self.start(compression, size, out)?;
        let mut each = |out: &mut Vec<u8>| {
            see(out);
            Ok(())
        };
        for part in parts {
            stream.run(part, out, &mut each)?;
        }
        self.finish(stream, out, &mut each)
    }

    /// Appends the size prefix for a stream of `size` uncompressed bytes, and returns an encoder
    /// for the stream.
    pub(crate) fn start(
        &mut self,
        compression: &Compression,
        size: u64,
        out: &mut Vec<u8>,
    ) -> Result<StreamEncoder> {
        let compressor = self.compressor(compression, size)?;
        push_sizes(compression, size, out);
        let fragment = match compression {
            Compression::Brotli { level: 0 | 1, .. } => Some(BROTLI_FRAGMENT),
            Compression::Snappy { .. } => Some(SNAPPY_FRAGMENT),
            _ => None,
        };
        let fragment_size = fragment.unwrap_or(0);
        Ok(StreamEncoder {
            compressor,
            fragment,
            held: self.take_fragment(),
            most_held: usize::try_from(size).map_or(fragment_size, |size| size.min(fragment_size)),
        })
    }

    /// Ends a stream after all of its input was compressed.
    pub(crate) fn finish(
        &mut self,
        mut stream: StreamEncoder,
        out: &mut Vec<u8>,
        each: &mut Each<'_>,
    ) -> Result<()> {
        stream.compressor.run(&stream.held, out, true, each)?;
        self.keep_fragment(stream.held);
        self.keep(stream.compressor);
        Ok(())
    }

    /// Returns a compressor for a stream of `size` bytes, reusing one that was
    /// [kept](Self::keep). `compression` must not be `None`.
    pub(super) fn compressor(
        &mut self,
        compression: &Compression,
        size: u64,
    ) -> Result<Compressor> {
        match *compression {
            Compression::Zstd { level, window_log } => {
                zstd::Encoder::new(level, window_log, size, self.zstd.take()).map(Compressor::Zstd)
            }
            Compression::Brotli { level, window_log } => {
                brotli::Encoder::new(level, window_log, size).map(Compressor::Brotli)
            }
            Compression::Snappy { .. } if size > MAX_SNAPPY => Err(Error::plain(
                ErrorKind::LimitExceeded,
                format!("snappy compresses at most {MAX_SNAPPY} bytes at once, not {size}"),
            )),
            Compression::Snappy { .. } => Ok(Compressor::Snappy(match self.snappy.take() {
                Some(encoder) => encoder,
                None => Box::new(snappy::Encoder::new()?),
            })),
            Compression::None => Err(Error::config(format!(
                "{} can't compress a stream",
                compression.kind()
            ))),
        }
    }

    /// Keeps a compressor for the next stream, except brotli's, which can't be reused.
    pub(super) fn keep(&mut self, compressor: Compressor) {
        match compressor {
            Compressor::Zstd(encoder) => self.zstd = Some(encoder),
            Compressor::Brotli(_) => {}
            Compressor::Snappy(encoder) => self.snappy = Some(encoder),
        }
    }

    /// Returns an empty buffer, in which the bytes for one call of a compressor are collected.
    pub(super) fn take_fragment(&mut self) -> Vec<u8> {
        let mut fragment = std::mem::take(&mut self.fragment);
        fragment.clear();
        fragment
    }

    pub(super) fn keep_fragment(&mut self, fragment: Vec<u8>) {
        self.fragment = fragment;
    }
}

impl std::fmt::Debug for Encoders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoders")
    }
}

/// An encoder for one compressed stream, which accepts input piece by piece. The output doesn't
/// depend on how the input is divided.
pub(crate) struct StreamEncoder {
    compressor: Compressor,
    /// Number of bytes to compress at once, for compressors whose output depends on this number;
    /// otherwise `None`. Input is held until this number of bytes has arrived.
    fragment: Option<usize>,
    held: Vec<u8>,
    /// Maximum length of `held`, if the stream has the announced size.
    most_held: usize,
}

impl StreamEncoder {
    /// Compresses `input`, appending to `out`.
    pub(crate) fn run(
        &mut self,
        mut input: &[u8],
        out: &mut Vec<u8>,
        each: &mut Each<'_>,
    ) -> Result<()> {
        while !input.is_empty() {
            let size = self.fragment.unwrap_or(TURN);
            let (now, later) = input.split_at(input.len().min(size - self.held.len()));
            input = later;
            if self.fragment.is_none() || now.len() == size {
                self.compressor.run(now, out, false, each)?;
            } else {
                // All memory is allocated at once, since doubling could allocate up to twice as
                // much.
                self.held
                    .reserve_exact(self.most_held.saturating_sub(self.held.len()));
                self.held.extend_from_slice(now);
                if self.held.len() < size {
                    return Ok(());
                }
                self.compressor.run(&self.held, out, false, each)?;
                self.held.clear();
            }
        }
        Ok(())
    }
}

/// Appends the size of the uncompressed data, which precedes each stream.
pub(super) fn push_sizes(compression: &Compression, size: u64, out: &mut Vec<u8>) {
    varint::push(out, size);
    if matches!(compression, Compression::Snappy { .. }) {
        // A snappy stream itself also begins with the size.
        varint::push(out, size);
    }
}
