//! Small files that claim much, and files that change between being opened and being read.

use std::fs;
use std::path::{Path, PathBuf};

use crate::merge_support::file::cpb;
use crate::merge_support::schema::descriptor;
use crate::merge_support::{Chunked, cat, int, len};
use proto_splitter_core::merge::{DEFAULT_MAX_FILES, Limits, ReadOptions};
use proto_splitter_core::proto::ChunkedField;
use proto_splitter_core::split::{
    ChunkCompression, LEAST_MAX_FILE_SIZE, Profile, SizeSplitter, Source, SplitExt, SplitOptions,
};
use proto_splitter_core::{ChunkedFile, ErrorKind, Result};
use record_file::Compression;

/// A value of one place, and 64 KiB that are said to belong at another this many times.
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
    // By default, and by a limit that was asked for.
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
    // It is the limit alone.
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
    // More files than readers take.
    let element = |at: u32| len(37, [&at.to_le_bytes()[..], &[7; 3000]].concat());
    let many: Vec<u8> = (0..4200).flat_map(element).collect();
    let options = SplitOptions::new()
        .max_chunk_size(3100)
        .profile(Profile::Extended)
        .max_file_size(Some(LEAST_MAX_FILE_SIZE))
        .compression(ChunkCompression::Fixed(Compression::None));
    let error = split(many, &folder.path().join("m"), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    let most = format!("readers open {DEFAULT_MAX_FILES}");
    assert!(error.to_string().contains(&most), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
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
    // As the system counts them, where it does; other tests have some open, too.
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        assert!(open.count() < 200);
    }
}

/// A message in several files, and the paths of those.
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
        // By another name, what was opened is still there.
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

        // Written over in place, it is seen.
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
    // A trailer whose chunks are one record a thousand times, which is to be a trailer of 1 GiB.
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
