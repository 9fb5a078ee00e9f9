//! Lower bounds for the time to write or read a record file: copying, hashing, and the codecs
//! alone.
use std::io::Write;

use highway::{HighwayHash, HighwayHasher, Key};
use record_file_peers::Outcome;

/// Copies all records, one after another.
pub(crate) fn copy(records: &[Vec<u8>], out: &mut [u8]) -> u64 {
    let mut at = 0;
    for record in records {
        out[at..at + record.len()].copy_from_slice(record);
        at += record.len();
    }
    at as u64
}

/// Hashes each record.
pub(crate) fn hash(records: &[Vec<u8>]) -> u64 {
    records
        .iter()
        .map(|record| hasher().hash64(record))
        .fold(0, u64::wrapping_add)
}

/// Hashes and copies each record, 64 KiB at a time, so that the bytes are in the cache when they
/// are copied.
pub(crate) fn hash_and_copy(records: &[Vec<u8>], out: &mut [u8]) -> u64 {
    let mut at = 0;
    let mut sum = 0u64;
    for record in records {
        let mut hasher = hasher();
        for part in record.chunks(64 << 10) {
            hasher.append(part);
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        sum = sum.wrapping_add(hasher.finalize64());
    }
    sum
}

fn hasher() -> HighwayHasher {
    HighwayHasher::new(Key([1, 2, 3, 4]))
}

/// Compresses each piece with zstd, and returns the compressed size.
pub(crate) fn zstd_compress(pieces: &[Vec<u8>], level: i32, out: &mut Vec<u8>) -> Outcome<u64> {
    let mut compressor = zstd::bulk::Compressor::new(level)?;
    let mut total = 0;
    for piece in pieces {
        out.clear();
        total += compressor.compress_to_buffer(piece, out)? as u64;
    }
    Ok(total)
}

/// Compresses each piece as a stream. For a stream, zstd divides the data into different blocks
/// than for [`zstd_compress`].
pub(crate) fn zstd_compress_streamed(pieces: &[Vec<u8>], level: i32) -> Outcome<u64> {
    /// A sink that counts bytes and drops them.
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut total = 0;
    for piece in pieces {
        let mut encoder = zstd::stream::write::Encoder::new(Count(0), level)?;
        encoder.set_pledged_src_size(Some(piece.len() as u64))?;
        encoder.write_all(piece)?;
        total += encoder.finish()?.0;
    }
    Ok(total)
}

/// Compresses the pieces like [`zstd_compress`], on one thread for each of `outs`.
pub(crate) fn zstd_compress_on_threads(
    pieces: &[Vec<u8>],
    level: i32,
    outs: &mut [Vec<u8>],
) -> Outcome<u64> {
    on_threads(pieces, outs, |pieces, out| {
        zstd_compress(pieces, level, out)
    })
}

/// Decompresses the pieces like [`zstd_decompress`], on one thread for each of `outs`.
pub(crate) fn zstd_decompress_on_threads(pieces: &[Vec<u8>], outs: &mut [Vec<u8>]) -> Outcome<u64> {
    on_threads(pieces, outs, zstd_decompress)
}

/// Divides the pieces among threads, one for each of `outs`, and returns the sum of the threads'
/// results.
fn on_threads(
    pieces: &[Vec<u8>],
    outs: &mut [Vec<u8>],
    work: impl Fn(&[Vec<u8>], &mut Vec<u8>) -> Outcome<u64> + Sync,
) -> Outcome<u64> {
    let share = pieces.len().div_ceil(outs.len());
    std::thread::scope(|scope| {
        let work = &work;
        let begin = |(pieces, out)| {
            scope.spawn(move || work(pieces, out).map_err(|error| error.to_string()))
        };
        let threads: Vec<_> = pieces.chunks(share).zip(outs).map(begin).collect();
        let mut total = 0;
        for thread in threads {
            total += thread.join().map_err(|_| "a thread has panicked")??;
        }
        Ok(total)
    })
}

/// Returns the pieces, each compressed with zstd.
pub(crate) fn zstd_pieces(pieces: &[Vec<u8>], level: i32) -> Outcome<Vec<Vec<u8>>> {
    let compress = |piece: &Vec<u8>| Ok(zstd::bulk::compress(piece, level)?);
    pieces.iter().map(compress).collect()
}

/// Decompresses each piece with zstd, and returns the decompressed size.
pub(crate) fn zstd_decompress(pieces: &[Vec<u8>], out: &mut Vec<u8>) -> Outcome<u64> {
    let mut decompressor = zstd::bulk::Decompressor::new()?;
    let mut total = 0;
    for piece in pieces {
        out.clear();
        total += decompressor.decompress_to_buffer(piece, out)? as u64;
    }
    Ok(total)
}

/// Compresses each piece like [`zstd_compress`], and hashes the output, as the file format
/// requires.
pub(crate) fn zstd_compress_and_hash(
    pieces: &[Vec<u8>],
    level: i32,
    out: &mut Vec<u8>,
) -> Outcome<u64> {
    let mut compressor = zstd::bulk::Compressor::new(level)?;
    let mut sum = 0u64;
    for piece in pieces {
        out.clear();
        compressor.compress_to_buffer(piece, out)?;
        sum = sum.wrapping_add(hasher().hash64(out));
    }
    Ok(sum)
}

/// Decompresses each piece like [`zstd_decompress`], and hashes the input.
pub(crate) fn hash_and_zstd_decompress(pieces: &[Vec<u8>], out: &mut Vec<u8>) -> Outcome<u64> {
    let mut decompressor = zstd::bulk::Decompressor::new()?;
    let mut total = 0;
    for piece in pieces {
        std::hint::black_box(hasher().hash64(piece));
        out.clear();
        total += decompressor.decompress_to_buffer(piece, out)? as u64;
    }
    Ok(total)
}

/// Returns the pieces, each compressed with brotli's C library.
pub(crate) fn brotli_pieces(pieces: &[Vec<u8>], level: u8) -> Outcome<Vec<Vec<u8>>> {
    let mut out = Vec::new();
    for piece in pieces {
        let encoder = brotlic::BrotliEncoderOptions::new()
            .quality(brotlic::Quality::new(level)?)
            .size_hint(u32::try_from(piece.len())?)
            .build()?;
        let mut writer = brotlic::CompressorWriter::with_encoder(encoder, Vec::new());
        writer.write_all(piece)?;
        out.push(writer.into_inner().map_err(|error| error.into_error())?);
    }
    Ok(out)
}

/// Decompresses each piece with brotli's C library.
pub(crate) fn brotli_decompress(pieces: &[Vec<u8>], out: &mut [u8]) -> Outcome<u64> {
    let mut total = 0;
    for piece in pieces {
        let mut decoder = brotlic::BrotliDecoder::new();
        let (mut input, mut at) = (&piece[..], 0);
        loop {
            let step = decoder.decompress(input, &mut out[at..])?;
            input = &input[step.bytes_read..];
            at += step.bytes_written;
            match step.info {
                brotlic::decode::DecoderInfo::Finished => break,
                brotlic::decode::DecoderInfo::NeedsMoreOutput => {}
                brotlic::decode::DecoderInfo::NeedsMoreInput => return Err("cut short".into()),
            }
        }
        total += at as u64;
    }
    Ok(total)
}

/// Decompresses each piece with the brotli crate, which is written in Rust.
pub(crate) fn brotli_crate_decompress(pieces: &[Vec<u8>], out: &mut [u8]) -> Outcome<u64> {
    let mut total = 0;
    for piece in pieces {
        let mut left = &mut out[..];
        let before = left.len();
        brotli::BrotliDecompress(&mut &piece[..], &mut left)?;
        total += (before - left.len()) as u64;
    }
    Ok(total)
}

/// Compresses each piece with the brotli crate, which is written in Rust.
pub(crate) fn brotli_crate_compress(pieces: &[Vec<u8>], level: i32) -> Outcome<u64> {
    let params = brotli::enc::BrotliEncoderParams {
        quality: level,
        ..Default::default()
    };
    let mut total = 0;
    for piece in pieces {
        let mut out = Vec::new();
        total += brotli::BrotliCompress(&mut &piece[..], &mut out, &params)? as u64;
    }
    Ok(total)
}
