//! Tests that the error for a damaged chunk reports the damage, even though the merged message is
//! also broken.

use std::num::NonZeroUsize;

use crate::merge_support::file::{Layout, cpb_with};
use crate::merge_support::{Chunked, cat, int, len, path};
use proto_splitter_core::compare::compare;
use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::edit::{RewriteOptions, recompress};
use proto_splitter_core::merge::{Limits, ReadOptions};
use proto_splitter_core::view::size_tree::{TreeOptions, measure};
use proto_splitter_core::{Error, ErrorKind};
use record_file::Compression;

/// Size of the messages in a chunk, in bytes. It is larger than the part of a chunk that is parsed
/// at once.
const LARGE: usize = 1_400_000;

type File = ChunkedFile<Vec<u8>>;

/// Returns many small messages of moderately compressible bytes.
fn elements(number: u32, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(size + 100);
    let mut state = 1u64;
    while out.len() < size {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let inner = cat([
            int(1, state >> 44),
            len(7, "some text"),
            int(1, state >> 60),
        ]);
        out.extend(len(number, inner));
    }
    out
}

/// Returns a file with a base chunk that has a placeholder near its end, the chunk for the
/// placeholder, and a slice without placeholders.
fn file(size: usize, compression: Compression) -> Vec<u8> {
    let chunked = Chunked::marked()
        .base(cat([elements(10, size), len(8, []), len(11, "first")]))
        .bytes("8", "value")
        .message("", elements(11, size));
    cpb_with(&chunked, Layout::Alone(compression), |_| {})
}

/// A way to read a file: its name, a flag that is true if it reads the whole file, and the function
/// that reads the file.
type Way = (&'static str, bool, fn(&File) -> Result<(), Error>);

fn options(threads: usize) -> ReadOptions {
    ReadOptions::new().threads(NonZeroUsize::new(threads).unwrap())
}

const WAYS: [Way; 8] = [
    ("merge on one thread", true, |file| {
        file.merge_to(&mut std::io::sink(), &options(1)).map(drop)
    }),
    ("merge on two threads", true, |file| {
        file.merge_to_bytes(&options(2)).map(drop)
    }),
    ("verify", true, |file| {
        match file.verify(&ReadOptions::new()).problems() {
            [] => Ok(()),
            [only] => Err(Error::new(only.kind(), only.to_string())),
            many => panic!("{many:?}"),
        }
    }),
    ("get", false, |file| file.get(&path("8")).map(drop)),
    ("get of an element far behind", false, |file| {
        file.get(&path("11[30000].7")).map(drop)
    }),
    ("tree", false, |file| {
        let view = file.view(ReadOptions::new());
        measure(&view, &path(""), &TreeOptions::new()).map(drop)
    }),
    ("fields", false, |file| {
        let view = file.view(ReadOptions::new());
        view.fields(&path(""))?
            .try_for_each(|field| field.map(drop))
    }),
    ("compare", true, |file| {
        let (a, b) = (file.view(options(1)), file.view(options(1)));
        compare(&a, &b, 1).map(drop)
    }),
];

#[test]
fn a_flipped_byte_of_a_chunk_is_damage_whatever_it_makes_of_the_message() {
    let cases = [
        (LARGE, Compression::None, 8),
        (LARGE, Compression::zstd(1), 12),
        (LARGE, Compression::brotli(1), 6),
        (LARGE, Compression::SNAPPY, 4),
        // Small chunks are read as a whole, and checked before they are parsed.
        (100_000, Compression::None, 12),
        (100_000, Compression::zstd(1), 12),
    ];
    for (size, compression, flips) in cases {
        let bytes = file(size, compression);
        let whole = ChunkedFile::from_source(bytes.clone(), &Limits::default()).unwrap();
        let chunks = [0, 2].map(|chunk| {
            let begin = whole.position(chunk).unwrap().chunk_begin();
            whole.record_file().chunk_header_at(begin).unwrap()
        });
        let mut led = 0;
        for chunk in chunks {
            let begin = usize::try_from(chunk.begin().0).unwrap() + 40;
            let size = usize::try_from(chunk.header.data_size).unwrap();
            for at in (0..flips).map(|flip| begin + flip * (size - 1) / (flips - 1)) {
                // A block header is checked separately.
                if at % (1 << 16) < 24 {
                    continue;
                }
                let mut bad = bytes.clone();
                bad[at] ^= 0xff;
                let bad = ChunkedFile::from_source(bad, &Limits::default()).unwrap();
                for (way, all, read) in WAYS {
                    let what = format!("{way}, {size} bytes of {compression}, flip at {at}");
                    match read(&bad) {
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Record, "{what}: {error}");
                            let text = error.to_string();
                            assert!(text.contains("chunk data hash mismatch"), "{what}: {text}");
                            led += 1;
                        }
                        Ok(()) => assert!(!all, "{what}"),
                    }
                }
            }
        }
        assert!(led > flips, "{compression}: {led}");
    }
}

#[test]
fn a_chunk_is_not_written_anew_that_is_not_what_the_trailer_sums_up() {
    let chunked = Chunked::marked().base(elements(11, 100_000));
    let sum = crc32c::crc32c(&chunked.chunks[0]);
    for (said, fault) in [(sum, None), (sum ^ 1, Some(ErrorKind::ChecksumMismatch))] {
        let layout = Layout::Alone(Compression::None);
        let bytes = cpb_with(&chunked, layout, |metadata| {
            metadata.chunks[0].crc32c = Some(said);
        });
        let file = ChunkedFile::from_source(bytes, &Limits::default()).unwrap();
        let target = tempfile::tempfile().unwrap();
        let options = RewriteOptions::new().compression(Compression::zstd(1));
        let written = recompress(&file, &target, &options);
        assert_eq!(written.err().map(|error| error.kind()), fault);
    }
}
