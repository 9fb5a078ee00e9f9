use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::{MergeOptions, Merger, ReadOptions};
use proto_splitter::record_file::Compression;
use proto_splitter::split::{
    ChunkCompression, Profile, SizeSplitter, Source, SplitExt, SplitOptions, Written,
};
use proto_splitter::{ChunkIndex, ErrorKind, Result};
use proto_splitter_testkit::generate::{Habits, Random, kitchen_sink, message};

fn model() -> Vec<u8> {
    let habits = Habits::plain(20_000);
    message(&kitchen_sink(), &mut Random::new(7), &habits)
}

fn options() -> SplitOptions {
    SplitOptions::new().max_chunk_size(3000)
}

fn write(model: &Path, prefix: &Path, options: &SplitOptions) -> Result<Written> {
    SizeSplitter.write_with(Source::open(model, kitchen_sink())?, prefix, options)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_comes_back_whatever_its_compression() {
    for compression in ["none", "zstd", "zstd:19", "brotli:3", "snappy"] {
        let folder = tempfile::tempdir().unwrap();
        let (input, prefix) = (folder.path().join("in.pb"), folder.path().join("out"));
        fs::write(&input, model()).unwrap();
        let options = options().compression(compression.parse::<Compression>().unwrap());
        let written = write(&input, &prefix, &options).unwrap();
        assert!(written.is_split && written.byte_exact);
        assert_eq!(
            written.output_size,
            fs::metadata(&written.path).unwrap().len()
        );
        let merged = folder.path().join("merged.pb");
        Merger::new().merge_to_file(&prefix, &merged).unwrap();
        assert!(fs::read(&merged).unwrap() == model(), "{compression}");
        let mut streamed = Vec::new();
        Merger::new().merge_to(&prefix, &mut streamed).unwrap();
        assert!(streamed == model(), "{compression}");
        assert_eq!(names(folder.path()), ["in.pb", "merged.pb", "out.cpb"]);
    }
}

#[test]
fn what_was_written_is_what_the_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let (input, prefix) = (folder.path().join("in.pb"), folder.path().join("out"));
    fs::write(&input, model()).unwrap();
    let options = options().compression(Compression::None);
    let written = write(&input, &prefix, &options).unwrap();
    let file = ChunkedFile::open(&written.path).unwrap();
    let metadata = file.trailer().metadata();
    assert_eq!(metadata.source_size, Some(model().len() as u64));
    assert_eq!(metadata.source_crc32c, Some(crc32c(&model())));
    assert_eq!(metadata.message_type, "testkit.Sink");
    assert_eq!(metadata.chunks.len(), written.chunks.len());
    for (chunk, info) in written.chunks.iter().zip(&metadata.chunks) {
        assert_eq!(
            (chunk.position.numeric(), chunk.size),
            (info.offset, info.size)
        );
        assert!(
            chunk.stored_size >= chunk.size,
            "not compressed, and a few bytes of sizes"
        );
    }
}

/// Computes a CRC-32C checksum bit by bit, so that the library's own code isn't used to test it.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[test]
fn a_small_message_is_written_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (input, prefix) = (folder.path().join("in.pb"), folder.path().join("out"));
    fs::write(&input, model()).unwrap();
    let written = write(&input, &prefix, &SplitOptions::new()).unwrap();
    assert!(!written.is_split && written.chunks.is_empty());
    assert_eq!(names(folder.path()), ["in.pb", "out.pb"]);
    assert!(fs::read(&written.path).unwrap() == model());
}

#[test]
fn nothing_is_written_where_the_source_is_already_what_would_be() {
    let folder = tempfile::tempdir().unwrap();
    let (input, prefix) = (folder.path().join("in.pb"), folder.path().join("in"));
    fs::write(&input, model()).unwrap();
    let before = fs::metadata(&input).unwrap().modified().unwrap();
    let written = write(&input, &prefix, &SplitOptions::new()).unwrap();
    assert!(!written.is_split);
    assert_eq!(names(folder.path()), ["in.pb"]);
    assert_eq!(fs::metadata(&input).unwrap().modified().unwrap(), before);
}

#[test]
fn an_older_chunked_file_does_not_hide_a_source_that_is_not_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (input, prefix) = (folder.path().join("in.pb"), folder.path().join("in"));
    fs::write(&input, model()).unwrap();
    write(&input, &prefix, &options()).unwrap();
    let newer = message(&kitchen_sink(), &mut Random::new(8), &Habits::plain(200));
    fs::write(&input, &newer).unwrap();
    let error = write(&input, &prefix, &SplitOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(names(folder.path()), ["in.cpb", "in.pb"]);
    let written = write(&input, &prefix, &SplitOptions::new().force(true)).unwrap();
    assert_eq!(written.removed, Some(folder.path().join("in.cpb")));
    assert_eq!(names(folder.path()), ["in.pb"]);
    assert!(Merger::new().merge_to_bytes(&prefix).unwrap() == newer);
}

#[test]
fn the_source_stays_beside_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let (input, prefix) = (folder.path().join("in.pb"), folder.path().join("in"));
    fs::write(&input, model()).unwrap();
    for force in [false, true] {
        let written = write(&input, &prefix, &options().force(force)).unwrap();
        assert!(written.source_stays && written.removed.is_none());
        assert_eq!(names(folder.path()), ["in.cpb", "in.pb"]);
        assert!(fs::read(&input).unwrap() == model());
    }
}

#[test]
fn files_in_the_way_are_replaced_only_by_force() {
    for (in_the_way, options, left) in [
        ("out.cpb", options(), "out.cpb"),
        ("out.pb", options(), "out.cpb"),
        ("out.pb", SplitOptions::new(), "out.pb"),
        ("out.cpb", SplitOptions::new(), "out.pb"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (input, prefix) = (folder.path().join("in.pb"), folder.path().join("out"));
        fs::write(&input, model()).unwrap();
        let old = folder.path().join(in_the_way);
        fs::write(&old, b"old").unwrap();
        let error = write(&input, &prefix, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert_eq!(names(folder.path()), ["in.pb", in_the_way]);
        assert_eq!(fs::read(&old).unwrap(), b"old");
        let written = write(&input, &prefix, &options.force(true)).unwrap();
        assert_eq!(names(folder.path()), ["in.pb", left]);
        assert_eq!(written.removed, (in_the_way != left).then_some(old));
    }
}

#[test]
fn a_folder_that_is_not_there_is_an_error_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pb");
    fs::write(&input, model()).unwrap();
    let error = write(&input, &folder.path().join("none/out"), &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoFolder);
    assert!(error.to_string().contains("none/out.cpb"), "{error}");
    assert_eq!(names(folder.path()), ["in.pb"]);
}

#[test]
fn options_out_of_range_are_refused_where_they_are_used() {
    let source = Source::from_bytes(model(), kitchen_sink());
    let extended = SplitOptions::new().profile(Profile::Extended);
    for options in [
        SplitOptions::new().max_chunk_size(0),
        SplitOptions::new().max_chunk_size(2_147_483_148),
        SplitOptions::new().max_chunk_size(u64::MAX),
        SplitOptions::new().max_value_size(Some(0)),
        SplitOptions::new().max_file_size(Some(1 << 20)),
        extended.clone().max_file_size(Some(4095)),
        SplitOptions::new().compression(Compression::zstd(23)),
        SplitOptions::new().compression(ChunkCompression::Auto { level: 23 }),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let error = SizeSplitter.plan(source.clone(), &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
        let prefix = folder.path().join("out");
        let error = SizeSplitter.write_with(source.clone(), prefix, &options);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidConfig);
        assert!(names(folder.path()).is_empty());
    }
    for options in [
        SplitOptions::new().max_chunk_size(2_147_483_147),
        extended.max_file_size(Some(4096)),
    ] {
        assert!(SizeSplitter.plan(source.clone(), &options).is_ok());
    }
}

/// Returns a message with two incompressible values, each of which occurs several times, and one
/// compressible value.
fn repetitive() -> Vec<u8> {
    let mut random = Random::new(1);
    let mut noise = || -> Vec<u8> {
        (0..60_000)
            .map(|_| random.number().to_le_bytes()[0])
            .collect()
    };
    let (a, b) = (noise(), noise());
    let mut bytes = Vec::new();
    for blob in [&a, &b, &a, &vec![b'x'; 60_000], &b, &a] {
        let mut child = vec![0x12];
        proto_splitter::wire::put_varint(&mut child, blob.len() as u64);
        child.extend_from_slice(blob);
        bytes.push(0x2a);
        proto_splitter::wire::put_varint(&mut bytes, child.len() as u64);
        bytes.extend(child);
    }
    bytes
}

#[test]
fn equal_chunks_are_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("out");
    let source = Source::from_bytes(repetitive(), kitchen_sink());
    let options = options().compression(Compression::None);
    let written = SizeSplitter.write_with(source, &prefix, &options).unwrap();
    let same: Vec<_> = written.chunks.iter().map(|chunk| chunk.same_as).collect();
    assert_eq!(
        same,
        [None, None, None, Some(1), None, Some(2), Some(1)].map(|same| same.map(ChunkIndex::new))
    );
    assert_eq!(written.chunks[3].position, written.chunks[1].position);
    assert!(
        written.output_size < 60_000 * 3 + 2000,
        "{}",
        written.output_size
    );
    assert!(Merger::new().merge_to_bytes(&prefix).unwrap() == repetitive());
}

#[test]
fn chunks_are_compressed_where_it_pays() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("out");
    let source = Source::from_bytes(repetitive(), kitchen_sink());
    let written = SizeSplitter
        .write_with(source, &prefix, &options())
        .unwrap();
    let kinds: Vec<String> = written
        .chunks
        .iter()
        .map(|chunk| chunk.compression.to_string())
        .collect();
    assert_eq!(kinds[1..], ["none", "none", "none", "zstd", "none", "none"]);
    assert!(written.chunks[4].stored_size < 1000);
    assert!(Merger::new().merge_to_bytes(&prefix).unwrap() == repetitive());
}

#[test]
fn merges_are_the_same_whatever_the_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("out");
    let large: Vec<u8> = [(); 12].iter().flat_map(|()| repetitive()).collect();
    for compression in [Compression::None, Compression::ZSTD] {
        let source = Source::from_bytes(large.clone(), kitchen_sink());
        let options = SplitOptions::new().max_chunk_size(1 << 20);
        let options = options
            .compression(compression)
            .value_chunk_size(None)
            .force(true);
        let written = SizeSplitter.write_with(source, &prefix, &options).unwrap();
        assert!(written.chunks.len() > 3);
        for threads in [1, 2, 3, 16] {
            let options = ReadOptions::new().threads(NonZeroUsize::new(threads));
            let merged = folder.path().join("merged.pb");
            let report = Merger::new()
                .options(MergeOptions::from(&options).force(true))
                .merge_to_file(&prefix, &merged)
                .unwrap();
            assert_eq!(report.crc32c, crc32c(&large));
            assert!(fs::read(&merged).unwrap() == large);
            let file = ChunkedFile::open(&written.path).unwrap();
            let mut buffer = vec![0xee; large.len() + 10];
            let report = file.merge_into(&mut buffer, &options).unwrap();
            assert_eq!(report.size, large.len() as u64);
            assert!(buffer[..large.len()] == large && buffer[large.len()..] == [0xee; 10]);
            let error = file
                .merge_into(&mut buffer[..large.len() - 1], &options)
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        }
    }
}

#[test]
fn a_damaged_chunk_is_an_error_on_every_thread_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("out");
    let large: Vec<u8> = [(); 12].iter().flat_map(|()| repetitive()).collect();
    let source = Source::from_bytes(large, kitchen_sink());
    let options = SplitOptions::new().max_chunk_size(1 << 20);
    let options = options
        .compression(Compression::None)
        .value_chunk_size(None);
    let written = SizeSplitter.write_with(source, &prefix, &options).unwrap();
    let mut bytes = fs::read(&written.path).unwrap();
    let last = written.chunks.last().unwrap();
    bytes[usize::try_from(last.position.numeric()).unwrap() + 5000] ^= 4;
    fs::write(&written.path, bytes).unwrap();
    for threads in [1, 2, 16] {
        let options = ReadOptions::new().threads(NonZeroUsize::new(threads));
        let merged = folder.path().join("merged.pb");
        let error = Merger::new()
            .options(&options)
            .merge_to_file(&prefix, &merged)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Record, "{error}");
        assert_eq!(error.chunk(), Some(last.index));
        assert_eq!(names(folder.path()), ["out.cpb"]);
    }
}

#[test]
fn a_folder_in_the_way_is_an_error_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (input, prefix) = (folder.path().join("in.pb"), folder.path().join("out"));
    fs::write(&input, model()).unwrap();
    fs::create_dir(folder.path().join("out.pb")).unwrap();
    let error = write(&input, &prefix, &options().force(true)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().ends_with("out.pb is a folder"), "{error}");
    assert_eq!(names(folder.path()), ["in.pb", "out.pb"]);
}

#[cfg(unix)]
#[test]
fn a_new_file_is_no_more_readable_than_its_source() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (input, prefix) = (folder.path().join("in.pb"), folder.path().join("out"));
    fs::write(&input, model()).unwrap();
    fs::set_permissions(&input, fs::Permissions::from_mode(0o600)).unwrap();
    let written = write(&input, &prefix, &options()).unwrap();
    let mode = fs::metadata(&written.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
