//! Tests with small files that claim large sizes, and files that change between opening and
//! reading.

use std::fs;
use std::path::{Path, PathBuf};

use crate::merge_support::file::cpb;
use crate::merge_support::schema::descriptor;
use crate::merge_support::{Chunked, cat, int, len};
use proto_splitter_core::edit::{RewriteOptions, recompress_to_file, salvage};
use proto_splitter_core::merge::{DEFAULT_MAX_FILES, Limits, Merger, ReadOptions};
use proto_splitter_core::path::FieldPath;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::proto::ChunkedField;
use proto_splitter_core::split::{
    AddedChunk, ChunkCompression, ComposableSplitter, LEAST_MAX_FILE_SIZE, Profile, SizeSplitter,
    Source, SplitContext, SplitExt, SplitOptions,
};
use proto_splitter_core::{ChunkedFile, ErrorKind, Result};
use record_file::Compression;

/// Returns a file with a string in the base chunk, and a chunk of 64 KiB that is used `times` times
/// at one path.
fn amplified(times: usize) -> ChunkedFile<Vec<u8>> {
    let large = len(8, vec![0; 64 << 10]);
    let mut chunked = Chunked::unmarked()
        .base(cat([int(1, 7), len(7, "text"), len(9, [])]))
        .message("9", large);
    let again: ChunkedField = chunked.message_mut().chunked_fields[0].clone();
    chunked.message_mut().chunked_fields = vec![again; times];
    ChunkedFile::from_source(cpb(&chunked), &Limits::new()).unwrap()
}

#[test]
fn a_file_that_comes_to_far_more_than_is_stored_is_refused_when_it_is_planned() {
    let options = ReadOptions::new().descriptor(descriptor());
    // The default limit and a lower limit both reject the file.
    let low = options
        .clone()
        .limits(Limits::new().max_merged_size(1 << 20));
    for (times, options) in [(150_000, &options), (20, &low)] {
        let file = amplified(times);
        let mut sink = Vec::new();
        let refused: [Result<()>; 3] = [
            file.plan(options).map(drop),
            file.merge_to_bytes(options).map(drop),
            file.merge_to(&mut sink, options).map(drop),
        ];
        for refused in refused {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LimitExceeded);
            assert!(error.to_string().contains("max-merged-size"), "{error}");
        }
        assert!(sink.is_empty());
    }
    assert!(!amplified(150_000).verify(&options).problems().is_empty());
    // A plan for a file within the limit succeeds.
    let plan = amplified(20).plan(&options).unwrap();
    assert!(plan.total_len() > 20 << 16);
}

#[test]
fn a_value_elsewhere_in_such_a_file_is_answered() {
    let file = amplified(150_000);
    let view = file.view(ReadOptions::new().descriptor(descriptor()));
    assert_eq!(view.get(&"7".parse().unwrap()).unwrap(), "text");
    let refused = view.get(&"9".parse().unwrap()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitExceeded);
}

fn split(source: Vec<u8>, prefix: &Path, options: &SplitOptions) -> Result<PathBuf> {
    let source = Source::from_bytes(source, descriptor());
    let written = SizeSplitter.write_with(source, prefix, options)?;
    Ok(written.path)
}

#[test]
fn nothing_is_written_that_readers_would_refuse() {
    let folder = tempfile::tempdir().unwrap();
    // The message would be in more files than readers accept.
    let element = |at: u32| len(37, [&at.to_le_bytes()[..], &[7; 3000]].concat());
    let many: Vec<u8> = (0..4200).flat_map(element).collect();
    let options = SplitOptions::new()
        .max_chunk_size(3100)
        .profile(Profile::Extended)
        .max_file_size(Some(LEAST_MAX_FILE_SIZE))
        .compression(ChunkCompression::Fixed(Compression::None));
    let error = split(many, &folder.path().join("m"), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    let most = format!("readers open at most {DEFAULT_MAX_FILES}");
    assert!(error.to_string().contains(&most), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_message_that_compression_brings_into_few_files_is_split() {
    let folder = tempfile::tempdir().unwrap();
    // Without compression, each chunk would need a file of its own.
    let element = |at: u32| len(37, [&at.to_le_bytes()[..], &[7; 60_000]].concat());
    let message = (0..4200).map(element).collect::<Vec<_>>().concat();
    let options = SplitOptions::new()
        .max_chunk_size(60_100)
        .profile(Profile::Extended)
        .max_file_size(Some(100 << 10))
        .compression(ChunkCompression::Fixed(Compression::zstd(1)));
    let main = split(message, &folder.path().join("m"), &options).unwrap();
    let file = ChunkedFile::open(&main).unwrap();
    assert!(file.record_files().count() < 100);
}

#[test]
fn a_part_whose_chunks_cannot_be_summarized_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (_, main, parts) = in_files(folder.path(), 1);
    let file = ChunkedFile::open(&main).unwrap();
    let chunk = &file.summaries().unwrap()[1];
    assert_eq!(chunk.file, 1);
    // The first byte of a record chunk's data is the kind of its compression.
    let at = usize::try_from(chunk.position.chunk_begin().0).unwrap() + 40;
    let mut bytes = fs::read(&parts[0]).unwrap();
    bytes[at] = 0xff;
    fs::write(&parts[0], bytes).unwrap();
    let error = ChunkedFile::open(&main).unwrap().summaries().unwrap_err();
    let name = parts[0].file_name().unwrap().to_string_lossy();
    assert!(error.to_string().contains(&*name), "{error}");
}

#[test]
fn the_pieces_of_a_submessage_are_limited_in_different_fields_together() {
    let piece = |from: u32| -> Vec<u8> {
        let fields = (from..from + 40_000).map(|number| int(number, 1));
        len(9, fields.collect::<Vec<_>>().concat())
    };
    let folder = tempfile::tempdir().unwrap();
    let options = SplitOptions::new().max_chunk_size(100 << 10);
    // The fields of the second piece are those of the first piece, or others.
    for (from, is_refused) in [(1000, false), (50_000, true)] {
        let message = [piece(1000), piece(from)].concat();
        let refused = split(message, &folder.path().join("m"), &options).map(drop);
        let is_limit = refused.is_err_and(|error| error.kind() == ErrorKind::LimitExceeded);
        assert_eq!(is_limit, is_refused);
    }
}

#[test]
fn a_window_that_readers_would_refuse_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let message = len(8, vec![7; 5000]);
    let with = |records: &str| {
        let options = SplitOptions::new().max_chunk_size(1000);
        options.records(records.parse().unwrap())
    };
    for kind in ["zstd", "brotli"] {
        let most = with(&format!("{kind},window_log:27"));
        let written = split(message.clone(), &folder.path().join(kind), &most).unwrap();
        let refused = with(&format!("{kind},window_log:28"));
        let target = folder.path().join("refused");
        let splitting = split(message.clone(), &target, &refused).map(drop);
        let rewriting = RewriteOptions::new().compression(refused.get_compression());
        let file = ChunkedFile::open(&written).unwrap();
        let rewriting = recompress_to_file(&file, &target, &rewriting).map(drop);
        for error in [splitting.unwrap_err(), rewriting.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            let expected = "window_log 28 is larger than readers accept: at most 27";
            assert_eq!(error.to_string(), expected);
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_message_in_hundreds_of_files_is_read_with_few_of_them_open() {
    let folder = tempfile::tempdir().unwrap();
    let element = |at: u32| len(37, [&at.to_le_bytes()[..], &[7; 40_000]].concat());
    let message: Vec<u8> = (0..400).flat_map(element).collect();
    let options = SplitOptions::new()
        .max_chunk_size(40_100)
        .profile(Profile::Extended)
        .max_file_size(Some(48 << 10))
        .compression(ChunkCompression::Fixed(Compression::None));
    let main = split(message.clone(), &folder.path().join("m"), &options).unwrap();
    let file = ChunkedFile::open(&main).unwrap();
    assert!(file.record_files().count() > 300);
    let options = ReadOptions::new();
    assert!(file.merge_to_bytes(&options).unwrap() == message);
    assert!(file.verify(&options).problems().is_empty());
    // Counts the open files if the system reports them. Other tests also have files open.
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        assert!(open.count() < 200);
    }
}

/// Writes a message to several files. Returns the message's bytes, the path of the main file, and
/// the paths of the other files.
fn in_files(folder: &Path, byte: u8) -> (Vec<u8>, PathBuf, Vec<PathBuf>) {
    let element = |at: u8| len(37, [&[at][..], &[byte; 2000]].concat());
    let message: Vec<u8> = (0..12).flat_map(element).collect();
    let options = SplitOptions::new()
        .max_chunk_size(2500)
        .profile(Profile::Extended)
        .max_file_size(Some(LEAST_MAX_FILE_SIZE))
        .compression(ChunkCompression::Fixed(Compression::None));
    let main = split(message.clone(), &folder.join("m"), &options).unwrap();
    let mut parts: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| *path != main)
        .collect();
    parts.sort();
    assert!(parts.len() > 3);
    (message, main, parts)
}

#[test]
fn files_that_are_swapped_after_they_were_opened_never_give_other_bytes() {
    let [a, b] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (message, main, parts) = in_files(a.path(), 1);
    let (_, _, others) = in_files(b.path(), 2);
    let options = ReadOptions::new();
    for (part, other) in parts.iter().zip(&others) {
        // If the file at the path was replaced by renaming another file, the opened file is still
        // read.
        let kept = fs::read(part).unwrap();
        if fs::read(other).unwrap() == kept {
            continue;
        }
        let opened = ChunkedFile::open(&main).unwrap();
        fs::copy(other, part.with_extension("new")).unwrap();
        fs::rename(part.with_extension("new"), part).unwrap();
        assert!(opened.merge_to_bytes(&options).unwrap() == message);
        assert!(opened.verify(&options).problems().is_empty());
        let error = ChunkedFile::open(&main).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch, "{error}");
        fs::write(part, &kept).unwrap();

        // Overwriting the file in place is detected.
        for content in [
            fs::read(other).unwrap(),
            kept[..kept.len() / 2].to_vec(),
            vec![],
        ] {
            let opened = ChunkedFile::open(&main).unwrap();
            fs::write(part, content).unwrap();
            assert!(opened.merge_to_bytes(&options).is_err());
            assert!(!opened.verify(&options).problems().is_empty());
            fs::write(part, &kept).unwrap();
        }
    }
    assert!(
        ChunkedFile::open(&main)
            .unwrap()
            .merge_to_bytes(&options)
            .unwrap()
            == message
    );
}

#[test]
fn a_trailer_in_chunks_cannot_make_much_of_little() {
    // The trailer's chunks are the same record a thousand times, so they claim a trailer of 1 GiB.
    let mut inner = Chunked::marked().base(len(8, [])).metadata;
    inner.message_type = "a".repeat(1 << 20);
    let chunk = prost_reflect::prost::Message::encode_to_vec(&inner);
    let mut outer = Chunked::unmarked().base(chunk);
    let version = outer.metadata.version.as_mut().unwrap();
    version.join_version = 1;
    let again = ChunkedField {
        message: Some(proto_splitter_core::proto::ChunkedMessage {
            chunk_index: Some(0),
            ..Default::default()
        }),
        ..Default::default()
    };
    outer.message_mut().chunked_fields = vec![again; 1000];
    outer.metadata.extended_message = outer.metadata.message.take();
    for marked in [false, true] {
        for level in [1, 8] {
            outer.metadata.splice_marker = marked;
            outer.metadata.trailer_level = level;
            let error = ChunkedFile::from_source(cpb(&outer), &Limits::new()).unwrap_err();
            assert!(
                matches!(
                    error.kind(),
                    ErrorKind::InvalidTrailer | ErrorKind::LimitExceeded
                ),
                "{error}"
            );
        }
    }
}

#[test]
fn what_a_damaged_file_would_come_to_is_checked_before_any_of_it_is_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let zeros = len(8, vec![0; 4 << 20]);
    let options = SplitOptions::new().max_chunk_size(1 << 20);
    let one = split(zeros, &folder.path().join("one"), &options).unwrap();
    assert!(fs::metadata(&one).unwrap().len() < 64 << 10);
    let noise = |at: u32| len(37, at.wrapping_mul(0x9e37_79b9).to_le_bytes().repeat(800));
    let several = options
        .max_chunk_size(3300)
        .profile(Profile::Extended)
        .max_file_size(Some(64 << 10))
        .compression(ChunkCompression::Fixed(Compression::None));
    let noise: Vec<u8> = (0..50).flat_map(noise).collect();
    let several = split(noise, &folder.path().join("several"), &several).unwrap();
    // If one of its files is missing, the message can't be opened as a whole.
    let others = fs::read_dir(folder.path()).unwrap();
    let mut others = others.map(|entry| entry.unwrap().path());
    let other = others.find(|path| path.to_string_lossy().contains("several.00002"));
    fs::remove_file(other.unwrap()).unwrap();
    for (file, most) in [(one, 1 << 20), (several, 100 << 10)] {
        let decoded = Progress::new(|done, _| panic!("{done} bytes were decoded"));
        let limits = Limits::new().max_merged_size(most);
        let options = ReadOptions::new().descriptor(descriptor());
        let low = options.clone().limits(limits).progress(decoded);
        let error = salvage(&file, &low).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert!(error.to_string().contains("max-merged-size"), "{error}");
        salvage(&file, &options).unwrap();
    }
}

/// A splitter that adds chunks at paths.
struct Adding<'a>(&'a [(&'a str, AddedChunk)]);

impl ComposableSplitter for Adding<'_> {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        let add = |(path, chunk): &(&str, AddedChunk)| {
            let path = FieldPath::parse(path, &descriptor())?;
            cx.add_chunk(chunk.clone(), &path, None)
        };
        self.0.iter().try_for_each(add)
    }
}

fn bytes() -> AddedChunk {
    AddedChunk::Bytes("text".into())
}

fn message() -> AddedChunk {
    AddedChunk::Message(int(1, 5).into())
}

/// Returns two elements of `r`, the second of which contains an element, and a map entry whose
/// value contains an element.
fn elements() -> Vec<u8> {
    let entry = cat([len(1, "k"), len(2, len(10, []))]);
    cat([len(10, int(1, 7)), len(10, len(10, [])), len(13, entry)])
}

/// Splits the message from [`elements`] with these chunks added. If the split succeeds, merging its
/// result must succeed, too.
fn added(chunks: &[(&str, AddedChunk)], profile: Profile) -> Result<()> {
    let source = Source::from_bytes(elements(), descriptor());
    let options = SplitOptions::new().profile(profile);
    let split = Adding(chunks).split_with(source, &options)?;
    let merger = Merger::new().options(ReadOptions::new().descriptor(descriptor()));
    let merged = merger.merge(&split.bytes(), &split.metadata);
    let paths: Vec<_> = chunks.iter().map(|(path, _)| path).collect();
    assert!(
        merged.is_ok(),
        "{paths:?} {profile:?}: {}",
        merged.unwrap_err()
    );
    Ok(())
}

#[test]
fn a_chunk_that_no_merge_could_place_is_not_added() {
    let both = [Profile::TensorFlow, Profile::Extended];
    let number = "the value is neither a message, bytes nor a string";
    let element = "a string or bytes value that is an element or in a map can only be cut in the profile `extended`";
    for (path, chunk, profiles, said) in [
        ("ri[1]", bytes(), &both[..], number),
        ("i32", bytes(), &both, number),
        ("msi[\"k\"]", bytes(), &both, number),
        ("s", message(), &both, "a MESSAGE chunk doesn't fit here"),
        ("m", bytes(), &both, "a BYTES chunk doesn't fit here"),
        ("r", message(), &both, "a MESSAGE chunk doesn't fit here"),
        (
            "r[5]",
            message(),
            &both,
            "the index leaves a gap: there are 2 elements",
        ),
        (
            "r[3]",
            message(),
            &both,
            "the index leaves a gap: there are 2 elements",
        ),
        (
            "m.r[1]",
            message(),
            &both,
            "the index leaves a gap: there are 0 elements",
        ),
        (
            "r[1].r[2]",
            message(),
            &both,
            "the index leaves a gap: there are 1 elements",
        ),
        (
            "ms[\"k\"].r[2]",
            message(),
            &both,
            "the index leaves a gap: there are 1 elements",
        ),
        (
            "ms[\"n\"].r[1]",
            message(),
            &both,
            "the index leaves a gap: there are 0 elements",
        ),
        ("rs[0]", bytes(), &both[..1], element),
        ("r[1].ry[0]", bytes(), &both[..1], element),
        ("mss[\"k\"]", bytes(), &both[..1], element),
        (
            "rs[1]",
            bytes(),
            &both[1..],
            "the index leaves a gap: there are 0 elements",
        ),
    ] {
        for &profile in profiles {
            let error = added(&[(path, chunk.clone())], profile).unwrap_err();
            assert_eq!(error.to_string(), format!("{path}: {said}"));
            let is_element = said == element;
            assert_eq!(error.kind() == ErrorKind::Uncuttable, is_element, "{path}");
        }
    }
    // The chunks are the next elements, in any order, or elements in other added chunks.
    let two = AddedChunk::Message(cat([len(10, []), len(10, [])]).into());
    for chunks in [
        &[("r[2]", message())][..],
        &[("r[3]", message()), ("r[2]", message())],
        &[("r[4].s", bytes()), ("", two.clone())],
        &[("r[1].r[1]", message()), ("r[0].r[0]", message())],
        &[("ms[\"k\"].r[1]", message()), ("ms[\"n\"].r[0]", message())],
        &[("m.r[2]", message()), ("m", two)],
    ] {
        both.iter()
            .for_each(|&profile| added(chunks, profile).unwrap());
    }
    let texts = [
        ("rs[0]", bytes()),
        ("rs[1]", bytes()),
        ("mss[\"k\"]", bytes()),
    ];
    added(&texts, Profile::Extended).unwrap();
}
