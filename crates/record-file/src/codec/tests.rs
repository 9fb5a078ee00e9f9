use super::*;
use crate::block_pool::{BlockPool, LARGEST, Piece, PieceQueue, SMALLEST};
use crate::compression::{Compression, CompressionKind};
use crate::error::ErrorKind;
use crate::varint;

fn samples() -> Vec<Vec<u8>> {
    let mut noise = Vec::new();
    let mut state = 1u32;
    for _ in 0..300_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise.push(state.to_be_bytes()[0]);
    }
    vec![vec![], b"x".to_vec(), vec![7; 1_000_000], noise]
}

fn compressions() -> Vec<Compression> {
    vec![
        Compression::None,
        Compression::ZSTD,
        Compression::zstd(-5),
        Compression::brotli(1),
        Compression::Brotli {
            level: 2,
            window_log: Some(26),
        },
        Compression::SNAPPY,
    ]
}

fn stream(compression: &Compression, parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    Encoders::default()
        .compress(compression, parts, &mut out)
        .unwrap();
    let mut rest = &out[..];
    if *compression != Compression::None {
        let size: usize = parts.iter().map(|part| part.len()).sum();
        assert_eq!(varint::take(&mut rest), Some(size as u64));
    }
    rest.to_vec()
}

/// Returns the stored form of a sample that is compressed and freed in pieces of `most` bytes, with
/// reused memory.
fn stream_of_pieces(compression: &Compression, sample: &[u8], most: usize) -> Vec<u8> {
    let mut blocks = BlockPool::default();
    for size in [SMALLEST, LARGEST] {
        blocks.give(vec![0xaa; size]);
    }
    let size = sample.len() as u64;
    let mut out = PieceQueue::default();
    let mut encoders = Encoders::default();
    let mut pieces = encoders
        .compress_pieces(compression, size, &mut out, &mut blocks)
        .unwrap();
    for piece in sample.chunks(most) {
        let block = [b"not this", piece].concat();
        pieces.add(Piece::from(block, 8)).unwrap();
    }
    pieces.finish().unwrap();
    out.slices().flatten().copied().collect()
}

#[test]
fn round_trips_piece_by_piece() {
    for compression in compressions() {
        for sample in samples() {
            let size = sample.len() as u64;
            let mut whole = Vec::new();
            Encoders::default()
                .compress(&compression, &[&sample], &mut whole)
                .unwrap();
            for most in [100, 4096, 65_536, 1 << 20] {
                let stored = stream_of_pieces(&compression, &sample, most);
                let kind = compression.kind();
                // The streams of other codecs may differ: zstd chooses its own block boundaries,
                // and brotli's lookahead varies.
                if matches!(kind, CompressionKind::None | CompressionKind::Snappy) {
                    assert!(stored == whole, "{compression}, pieces of {most}");
                }
                let mut stream = &stored[..];
                if kind != CompressionKind::None {
                    assert_eq!(varint::take(&mut stream), Some(size));
                }
                let out = Decoders::default().decompress(kind, stream, size).unwrap();
                assert!(out == sample, "{compression}, pieces of {most}");
            }
        }
    }
}

#[test]
fn round_trips_whole_and_in_parts() {
    for compression in compressions() {
        let kind = compression.kind();
        for sample in samples() {
            let whole = stream(&compression, &[&sample]);
            let (front, back) = sample.split_at(sample.len() / 3);
            let parts = stream(&compression, &[front, &[], back]);
            for stream in [&whole, &parts] {
                let mut decoders = Decoders::default();
                let out = decoders
                    .decompress(kind, stream, sample.len() as u64)
                    .unwrap();
                assert!(out == sample);
                let mut out = vec![1; sample.len()];
                decoders.decompress_into(kind, stream, &mut out).unwrap();
                assert!(out == sample);
            }
        }
    }
}

#[test]
fn streams_in_small_steps() {
    for compression in [
        Compression::ZSTD,
        Compression::brotli(1),
        Compression::SNAPPY,
    ] {
        for sample in samples() {
            let stored = stream(&compression, &sample.chunks(70_001).collect::<Vec<_>>());
            let mut decoder = StreamDecoder::new(compression.kind(), 27).unwrap();
            let mut out = Vec::<u8>::new();
            let mut piece = [0; 997];
            let mut rest = &stored[..];
            while out.len() < sample.len() {
                let upto = rest.len().min(1000);
                let progress = decoder.run(&rest[..upto], &mut piece).unwrap();
                assert!(progress.read + progress.written > 0);
                rest = &rest[progress.read..];
                out.extend(&piece[..progress.written]);
            }
            assert!(out == sample);
            decoder.expect_end(rest, sample.len() as u64).unwrap();
        }
    }
}

#[test]
fn wrong_sizes_and_tails_are_refused() {
    for compression in compressions() {
        let kind = compression.kind();
        for sample in samples().into_iter().filter(|sample| !sample.is_empty()) {
            let stored = stream(&compression, &[&sample]);
            let mut decoders = Decoders::default();
            for size in [0, sample.len() - 1, sample.len() + 1] {
                let error = decoders.decompress(kind, &stored, size as u64).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{kind} {size}");
                let error = decoders
                    .decompress_into(kind, &stored, &mut vec![0; size])
                    .unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{kind} {size}");
            }
            let mut longer = stored.clone();
            longer.push(0);
            let twice = [&stored[..], &stored[..]].concat();
            for bad in [&stored[..stored.len() - 1], &longer, &twice, &[]] {
                let size = sample.len() as u64;
                assert!(decoders.decompress(kind, bad, size).is_err(), "{kind}");
                assert!(
                    decoders
                        .decompress_into(kind, bad, &mut vec![0; sample.len()])
                        .is_err()
                );
            }
        }
    }
}

/// A size that a machine could address, but hardly allocate.
const HUGE: u64 = if usize::BITS == 32 { 1 << 30 } else { 1 << 42 };

#[test]
fn a_claimed_size_alone_allocates_nothing_of_that_size() {
    for kind in [
        CompressionKind::Zstd,
        CompressionKind::Brotli,
        CompressionKind::Snappy,
    ] {
        let error = Decoders::default()
            .decompress(kind, b"\xff\xff\xff\xff\x7f\0", HUGE)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn the_blocks_of_a_frame_say_how_much_it_can_hold_at_most() {
    for level in [-5, 1, 3, 19] {
        for sample in samples() {
            for parts in [vec![&sample[..]], sample.chunks(100_000).collect()] {
                let frame = stream(&Compression::zstd(level), &parts);
                let size = sample.len() as u64;
                let most = zstd::most_content(&frame).unwrap();
                assert!(most >= size && most <= size + (128 << 10), "{most} {size}");
                // A stream that can't hold its claimed size is rejected before memory is allocated
                // for that size.
                let error = Decoders::default()
                    .decompress(CompressionKind::Zstd, &frame, HUGE)
                    .unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                for cut in 0..frame.len().min(100) {
                    assert_eq!(zstd::most_content(&frame[..cut]), None);
                }
            }
        }
    }
}

#[test]
fn windows_are_limited_where_one_is_needed() {
    let sample = vec![5; 3 << 20];
    let zstd = stream(
        &Compression::Zstd {
            level: 1,
            window_log: Some(20),
        },
        &[&sample],
    );
    let mut out = vec![0; sample.len()];
    Decoders::default()
        .decompress_into(CompressionKind::Zstd, &zstd, &mut out)
        .unwrap();
    let mut decoder = StreamDecoder::new(CompressionKind::Zstd, 19).unwrap();
    let error = decoder.run(&zstd, &mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("max_window_log"));
    let mut encoder = brotlic::BrotliEncoderOptions::new()
        .quality(brotlic::Quality::new(5).unwrap())
        .large_window_size(brotlic::LargeWindowSize::new(28).unwrap())
        .build()
        .unwrap();
    let mut brotli = vec![0; 1 << 20];
    let result = encoder
        .compress(
            &sample,
            &mut brotli,
            brotlic::encode::BrotliOperation::Finish,
        )
        .unwrap();
    brotli.truncate(result.bytes_written);
    // The binding announces a large window of the default size, so the test patches in another
    // size.
    assert_eq!(brotli[0], 0x11);
    brotli[1] = brotli[1] & 0xc0 | 28;
    let kind = CompressionKind::Brotli;
    let mut decoder = StreamDecoder::new(kind, 27).unwrap();
    let error = decoder.run(&brotli, &mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    Decoders::default()
        .decompress_into(kind, &brotli, &mut out)
        .unwrap();
    assert!(out == sample);
}

#[test]
fn snappy_streams_refer_to_the_last_64_kib() {
    // The stream is a literal of 600,000 bytes, followed by a copy of 4 bytes from the literal's
    // beginning.
    let size = 600_004_u32;
    let literal: Vec<u8> = (0..600_000_u32).map(|at| (at % 251) as u8).collect();
    let mut stored = Vec::new();
    varint::push(&mut stored, u64::from(size));
    stored.extend([62 << 2, 0xbf, 0x27, 0x09]);
    stored.extend(&literal);
    stored.extend([3 << 2 | 3]);
    stored.extend(600_000_u32.to_le_bytes());
    let mut out = Vec::new();
    let mut decoder = StreamDecoder::new(CompressionKind::Snappy, 27).unwrap();
    let error = decoder.run_to(&stored, &mut out, u64::from(size));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::LimitExceeded);
    // Decoding the stream as a whole still works.
    let mut out = vec![0; size as usize];
    Decoders::default()
        .decompress_into(CompressionKind::Snappy, &stored, &mut out)
        .unwrap();
    assert_eq!(out[600_000..], literal[..4]);

    for (rest, what) in [
        (
            &[4, 0, b'a', 3 << 2 | 2, 2, 0][..],
            "from before the beginning",
        ),
        (&[4, 0, b'a', 3 << 2 | 2, 0, 0], "from before the beginning"),
        (
            &[2, 0, b'a', 3 << 2 | 2, 1, 0],
            "doesn't decode to the 2 bytes",
        ),
        (&[0x80; 11], "has no size"),
    ] {
        let mut decoder = StreamDecoder::new(CompressionKind::Snappy, 27).unwrap();
        let error = decoder.run_to(rest, &mut Vec::new(), 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}");
        assert!(error.to_string().contains(what), "{error}");
    }
}
