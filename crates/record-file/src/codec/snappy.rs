//! Snappy, which has no streaming mode. A compressed stream consists of the uncompressed size,
//! followed by independently compressed fragments.
mod decoder;

pub(crate) use decoder::Decoder;

use super::step::{SNAPPY_FRAGMENT, bad_stream};
use crate::error::{Error, ErrorKind, Result};
use crate::varint;

/// The compressor, and memory for a compressed fragment.
pub(super) struct Encoder {
    encoder: snap::raw::Encoder,
    compressed: Vec<u8>,
}

impl Encoder {
    pub(super) fn new() -> Result<Encoder> {
        Ok(Encoder {
            encoder: snap::raw::Encoder::new(),
            compressed: Vec::new(),
        })
    }

    /// Compresses a fragment of at most [`SNAPPY_FRAGMENT`] bytes, and returns its compressed form
    /// without a size.
    pub(super) fn compress(&mut self, fragment: &[u8]) -> Result<&[u8]> {
        self.compressed
            .resize(snap::raw::max_compress_len(SNAPPY_FRAGMENT), 0);
        let written = self
            .encoder
            .compress(fragment, &mut self.compressed)
            .map_err(|error| Error::plain(ErrorKind::LimitExceeded, error.to_string()))?;
        // The compressed fragment is a complete stream, so skip its size.
        let mut rest = &self.compressed[..written];
        varint::take(&mut rest);
        Ok(rest)
    }
}

/// Decompresses all of `stream` into `out`, whose length is the decompressed size.
pub(super) fn decompress(stream: &[u8], out: &mut [u8]) -> Result<()> {
    snap::raw::Decoder::new()
        .decompress(stream, out)
        .map(|_| ())
        .map_err(|error| bad_stream(error.to_string()))
}
