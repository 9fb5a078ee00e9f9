//! Tests of the results of `verify`: every problem in a file, and whether the file's chunks form
//! the original message.

use std::num::NonZeroUsize;

use crate::merge_support::file::{ALONE, Counted, Layout, cpb, cpb_with};
use crate::merge_support::{Chunked, cat, int, len, sample};
use proto_splitter_core::Error;
use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::merge::{ChunkStore, Limits, MergeCheck, ReadOptions};
use proto_splitter_core::part_work::{
    no_way_to_others, open_sources, verify_part, verify_parts_together,
};
use proto_splitter_core::proto::chunk_metadata::MerkleTree;
use record_file::{
    Compression, ReaderOptions, RecordFile, RecordWriter, RecordsMetadata, WriterOptions,
};

#[test]
fn verify_finds_a_slice_of_another_field_than_the_trailer_says() {
    let base = cat([int(1, 1), int(2, 2)]);
    // The first slice is read as a whole, and the second as a stream.
    for slice in [int(1, 3), len(1, vec![7; 2 << 20])] {
        verify_finds_what_field_a_slice_is_of(&base, &slice);
    }
}

fn verify_finds_what_field_a_slice_is_of(base: &[u8], slice: &[u8]) {
    let check = |said: u32| {
        let chunked = Chunked::marked()
            .base(base.to_vec())
            .message("", slice.to_vec())
            .slice_of(said);
        let file = ChunkedFile::from_source(cpb(&chunked), &Limits::default()).unwrap();
        let report = file.verify(&ReadOptions::new());
        let problems: Vec<_> = report.problems().iter().map(ToString::to_string).collect();
        problems
    };
    assert_eq!(check(1), [""; 0]);
    assert_eq!(
        check(2),
        ["chunk 1: the trailer says that the slice holds field 2, but it begins with field 1"]
    );
    assert_eq!(
        check(7),
        ["chunk 1: the slice continues field 7, which does not occur in the message"]
    );
}

#[test]
fn verify_finds_a_slice_with_another_number_of_elements_than_the_trailer_says() {
    let slice = cat([len(1, "two"), len(1, "three")]);
    for (said, expected) in [
        (2, None),
        (0, None),
        (
            3,
            Some(
                "chunk 1: the trailer says that the slice has 3 elements of field 1, but it has 2",
            ),
        ),
    ] {
        let chunked = Chunked::marked()
            .base(len(1, "one"))
            .message("", slice.clone())
            .slice_of(1)
            .elements(said);
        let file = ChunkedFile::from_source(cpb(&chunked), &Limits::default()).unwrap();
        let report = file.verify(&ReadOptions::new());
        let problems: Vec<_> = report.problems().iter().map(ToString::to_string).collect();
        assert_eq!(problems, Vec::from_iter(expected), "{said}");
    }
}

#[test]
fn verify_counts_a_long_slice_while_it_reads_it_once() {
    let element = len(1, vec![7; 300]);
    let slice = element.repeat(10_000);
    for (said, problems) in [(10_000, 0), (9_999, 1)] {
        let chunked = Chunked::marked()
            .base(len(1, "one"))
            .message("", slice.clone())
            .slice_of(1)
            .elements(said);
        let bytes = cpb(&chunked);
        let size = bytes.len() as u64;
        let counted = Counted::new(bytes);
        let file = ChunkedFile::from_source(&counted, &Limits::default()).unwrap();
        let report = file.verify(&ReadOptions::new());
        assert_eq!(report.problems().len(), problems, "{:?}", report.problems());
        let read = counted.take(0..size);
        assert!(read < size + size / 10, "{read} of {size} bytes");
    }
}

#[test]
fn verify_reports_each_of_many_damaged_chunks_once() {
    const DAMAGED: usize = 100_000;
    let mut chunked = Chunked::marked().base(len(1, "one"));
    for _ in 0..DAMAGED {
        chunked = chunked.message("", len(1, "two")).slice_of(1);
    }
    let bytes = cpb_with(&chunked, ALONE, |m| {
        for damaged in &mut m.chunks[1..] {
            damaged.crc32c = Some(5);
        }
        m.merkle_tree = Some(MerkleTree {
            chunks: vec![7; 32].into(),
            metadata: vec![7; 32].into(),
            nodes_offset: 0,
        });
    });
    let file = ChunkedFile::from_source(bytes, &Limits::default()).unwrap();
    let report = file.verify(&ReadOptions::new());
    let of_chunks = report.problems().iter().filter_map(Error::chunk);
    assert_eq!(of_chunks.count(), DAMAGED);
    // The metadata and the nodes don't match either.
    assert_eq!(report.problems().len(), DAMAGED + 2);
}

#[test]
fn verify_finds_every_problem() {
    let mut bytes = cpb_with(&sample(), ALONE, |m| {
        m.chunks[2].crc32c = Some(5);
        m.source_size = Some(13);
    });
    let file = ChunkedFile::from_source(bytes.clone(), &Limits::default()).unwrap();
    let report = file.verify(&ReadOptions::new());
    let problems: Vec<_> = report.problems().iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        ["10[0]: chunk 2: crc32c is 8d4ec49d where the trailer says 00000005"]
    );
    assert!(matches!(report.merge(), MergeCheck::Failed));
    assert_eq!(report.records(), 4);

    // A byte of chunk 1, after its header, is changed as well.
    let value = bytes
        .windows(5)
        .position(|window| window == b"value")
        .unwrap();
    bytes[value] ^= 1;
    let file = ChunkedFile::from_source(bytes, &Limits::default()).unwrap();
    let report = file.verify(&ReadOptions::new());
    let problems: Vec<_> = report.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("chunk 1: at 0x71: "), "{problems:?}");

    let file = ChunkedFile::from_source(cpb(&sample()), &Limits::default()).unwrap();
    let report = file.verify(&ReadOptions::new());
    assert!(report.problems().is_empty());
    assert!(matches!(
        report.merge(),
        MergeCheck::Merged {
            size: 13,
            source: None,
            ..
        }
    ));
    assert_eq!(report.bytes(), 6 + 5 + 2);
}

#[test]
fn verify_reports_only_the_damage_of_a_part_of_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.cpb");
    let bytes = cpb_with(&sample(), ALONE, |m| {
        m.byte_exact = true;
        m.source_size = Some(13);
    });
    std::fs::write(&path, &bytes).unwrap();
    let whole = ChunkedFile::from_source(bytes, &Limits::default()).unwrap();
    let mut part = whole.trailer().metadata().clone();
    part.chunks[1].crc32c = Some(5);
    part.message.as_mut().unwrap().chunked_fields.pop();
    let file = ChunkedFile::open_with_metadata(&path, part, &Limits::default()).unwrap();
    let report = file.verify(&ReadOptions::new());
    let problems: Vec<_> = report.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].starts_with("8: chunk 1: crc32c is"),
        "{problems:?}"
    );
}

#[test]
fn verify_finds_damaged_metadata_anywhere_in_a_file() {
    let about = RecordsMetadata {
        file_comment: Some("a comment".into()),
        ..RecordsMetadata::default()
    };
    let writer = RecordWriter::new(Vec::new(), WriterOptions::new().metadata(&about)).unwrap();
    let described = writer.finish().unwrap();
    // The first chunk of a file is its signature.
    let metadata = &described[64..];
    let records = RecordFile::open(cpb(&sample()), ReaderOptions::new()).unwrap();
    let trailer = records.last_record().unwrap().unwrap().chunk_begin().0;
    for at in [64, usize::try_from(trailer).unwrap()] {
        let moved = if at == 64 { metadata.len() as u64 } else { 0 };
        let good = cpb_with(&sample(), ALONE, |m| {
            m.chunks.iter_mut().for_each(|info| info.offset += moved);
        });
        let with = |metadata: &[u8]| [&good[..at], metadata, &good[at..]].concat();
        let problems = |bytes: Vec<u8>| {
            let file = ChunkedFile::from_source(bytes, &Limits::default()).unwrap();
            let report = file.verify(&ReadOptions::new());
            let problems = report.problems().iter();
            problems.map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(problems(with(metadata)), [""; 0]);
        let mut damaged = metadata.to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        let problems = problems(with(&damaged));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("hash"), "{problems:?}");
    }
}

#[test]
fn verify_reads_small_slices_once() {
    let mut chunked = Chunked::marked().base(len(2, "first"));
    for at in 0..50u32 {
        let sums = (0..5000).map(|number| crc32c::crc32c(&(at << 16 | number).to_le_bytes()));
        let value: Vec<u8> = sums.flat_map(u32::to_le_bytes).collect();
        chunked = chunked.message("", len(2, value)).slice_of(2);
    }
    let bytes = cpb(&chunked);
    let source = Counted::new(bytes.clone());
    let file = ChunkedFile::from_source(&source, &Limits::default()).unwrap();
    let size = bytes.len() as u64;
    let before = source.take(0..size);
    let report = file.verify(&ReadOptions::new().threads(NonZeroUsize::new(1)));
    let problems: Vec<_> = report.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems, [""; 0]);
    let read = source.take(0..size) - before;
    assert!(read < size * 21 / 20, "{read} bytes of {size}");
}

#[test]
fn verify_reads_records_that_the_trailer_does_not_name() {
    for compression in [Compression::None, Compression::ZSTD] {
        let mut chunked = sample();
        chunked.add(2, b"left over ".repeat(9));
        let layout = Layout::Alone(compression);
        let good = cpb_with(&chunked, layout, |m| m.chunks.truncate(3));
        let problems = |bytes: Vec<u8>| {
            let file = ChunkedFile::from_source(bytes, &Limits::default()).unwrap();
            let report = file.verify(&ReadOptions::new());
            assert_eq!(report.records(), 5);
            let problems = report.problems().iter();
            problems.map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(problems(good.clone()), [""; 0]);
        let mut bytes = good;
        let at = bytes.windows(4).rposition(|window| window == b"left");
        bytes[at.unwrap() + 2] ^= 1;
        let problems = problems(bytes);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("hash"), "{problems:?}");
    }
}

#[test]
fn record_chunks_of_many_chunks_are_decoded_once_on_any_number_of_threads() {
    let mut chunked = Chunked::marked().base(len(11, []).repeat(3000));
    for at in 0..3000u32 {
        // The value is incompressible.
        let sums = (0..50).map(|number| crc32c::crc32c(&(1000 * at + number).to_le_bytes()));
        let value: Vec<u8> = sums.flat_map(u32::to_le_bytes).collect();
        chunked = chunked.bytes(&format!("11[{at}]"), value);
    }
    let bytes = cpb_with(&chunked, Layout::Together(100_000), |_| {});
    for threads in [1, 2, 9] {
        let source = Counted::new(bytes.clone());
        // The cache has room for only one record chunk.
        let limits = Limits::new().max_cached_size(1);
        let file = ChunkedFile::from_source(&source, &limits).unwrap();
        let options = ReadOptions::new().threads(NonZeroUsize::new(threads));
        let report = file.verify(&options);
        assert!(report.problems().is_empty(), "{:?}", report.problems());
        assert!(matches!(report.merge(), MergeCheck::Merged { .. }));
        let size = bytes.len() as u64;
        let read = source.take(0..size);
        assert!(
            read < 3 * size,
            "{threads} threads read {read} bytes of {size}"
        );
    }
}

#[test]
fn a_wrong_number_of_checksums_of_parts_is_refused() {
    let bytes = cpb(&sample());
    let store = open_sources(bytes, &Limits::new(), |_| no_way_to_others()).unwrap();
    let groups: Vec<Vec<usize>> = (0..store.len()).map(|chunk| vec![chunk]).collect();
    let options = ReadOptions::new();
    let mut crcs = verify_part(&store, &groups, |_| true, &options).crcs;
    assert!(crcs.len() > 1, "{crcs:?}");
    let merge = verify_parts_together(&store, &groups, &crcs, &options).unwrap();
    assert!(matches!(merge, MergeCheck::Merged { .. }), "{merge:?}");
    crcs.push(0);
    for wrong in [&crcs[..], &crcs[..crcs.len() - 2]] {
        let error = verify_parts_together(&store, &groups, wrong, &options).unwrap_err();
        let line = error.to_string();
        assert!(line.contains("checksums for"), "{line}");
    }
}
