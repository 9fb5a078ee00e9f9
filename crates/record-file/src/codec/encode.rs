//! Compression of whole buffers and of streams.
use super::compressor::Compressor;
use super::step::{Each, SNAPPY_FRAGMENT};
use super::{snappy, zstd};
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
pub(super) const MAX_SNAPPY: u64 = u32::MAX as u64;

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
        varint::push(out, size);
        if !matches!(compression, Compression::Snappy { .. }) {
            let fragment = match compression {
                Compression::Brotli { level: 0 | 1, .. } => Some(BROTLI_FRAGMENT),
                _ => None,
            };
            return Ok(StreamEncoder::new(
                By::Stream(self.compressor(compression, size)?),
                fragment,
                self.take_fragment(),
                size,
            ));
        }
        if size > MAX_SNAPPY {
            return Err(too_large_for_snappy(size));
        }
        // A snappy stream itself also begins with the size.
        varint::push(out, size);
        Ok(StreamEncoder::new(
            By::Snappy(self.take_snappy()?),
            Some(SNAPPY_FRAGMENT),
            self.take_fragment(),
            size,
        ))
    }

    /// Ends a stream after all of its input was compressed.
    pub(crate) fn finish(
        &mut self,
        mut stream: StreamEncoder,
        out: &mut Vec<u8>,
        each: &mut Each<'_>,
    ) -> Result<()> {
        stream.by.run(&stream.held, out, true, each)?;
        self.keep_fragment(stream.held);
        match stream.by {
            By::Stream(compressor) => self.keep(compressor),
            By::Snappy(snappy) => self.keep_snappy(snappy),
        }
        Ok(())
    }

    /// Returns a compressor for a stream of `size` bytes; the kind in `compression` must support
    /// streams.
    pub(super) fn compressor(
        &mut self,
        compression: &Compression,
        size: u64,
    ) -> Result<Compressor> {
        Compressor::new(compression, size, self.zstd.take())
    }

    /// Keeps a zstd compressor for the next stream, and drops a brotli compressor.
    pub(super) fn keep(&mut self, compressor: Compressor) {
        match compressor {
            Compressor::Zstd(encoder) => self.zstd = Some(encoder),
            Compressor::Brotli(_) => {}
        }
    }

    pub(super) fn take_snappy(&mut self) -> Result<Box<snappy::Encoder>> {
        match self.snappy.take() {
            Some(encoder) => Ok(encoder),
            None => snappy::Encoder::new().map(Box::new),
        }
    }

    pub(super) fn keep_snappy(&mut self, snappy: Box<snappy::Encoder>) {
        self.snappy = Some(snappy);
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
    by: By,
    /// Number of bytes to compress at once, for compressors whose output depends on this number;
    /// otherwise `None`. Input is held until this number of bytes has arrived.
    fragment: Option<usize>,
    held: Vec<u8>,
    /// Maximum length of `held`, if the stream has the announced size.
    most_held: usize,
}

enum By {
    Stream(Compressor),
    Snappy(Box<snappy::Encoder>),
}

impl StreamEncoder {
    fn new(by: By, fragment: Option<usize>, held: Vec<u8>, size: u64) -> Self {
        let fragment_size = fragment.unwrap_or(0);
        StreamEncoder {
            by,
            fragment,
            held,
            most_held: usize::try_from(size).map_or(fragment_size, |size| size.min(fragment_size)),
        }
    }

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
                self.by.run(now, out, false, each)?;
            } else {
                // All memory is allocated at once, since doubling could allocate up to twice as
                // much.
                self.held
                    .reserve_exact(self.most_held.saturating_sub(self.held.len()));
                self.held.extend_from_slice(now);
                if self.held.len() < size {
                    return Ok(());
                }
                self.by.run(&self.held, out, false, each)?;
                self.held.clear();
            }
        }
        Ok(())
    }
}

impl By {
    fn run(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        end: bool,
        each: &mut Each<'_>,
    ) -> Result<()> {
        match self {
            By::Stream(compressor) => compressor.run(input, out, end, each),
            By::Snappy(snappy) => {
                out.extend_from_slice(snappy.compress(input)?);
                each(out)
            }
        }
    }
}

pub(super) fn too_large_for_snappy(size: u64) -> Error {
    Error::plain(
        ErrorKind::LimitExceeded,
        format!("snappy compresses at most {MAX_SNAPPY} bytes at once, not {size}"),
    )
}
