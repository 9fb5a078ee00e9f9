//! Tests with files in the extended profile: several files for one message, and trailers that are
//! themselves in chunks.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use prost_reflect::prost::Message;
use prost_reflect::prost_types::FileDescriptorProto;
use proto_splitter_core::ErrorKind;
use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::merge::{Limits, MergeCheck, Merger, ReadOptions, SourceCheck};
use proto_splitter_core::proto::ChunkMetadata;
use proto_splitter_core::split::{
    ChunkCompression, LEAST_MAX_FILE_SIZE, Profile, SizeSplitter, Source, SplitExt, SplitOptions,
    Written, WrittenChunk,
};
use record_file::{Compression, ReaderOptions, RecordFile, RecordWriter, WriterOptions};

/// Returns a file descriptor with `count` distinct dependencies of `size` bytes each.
fn message(count: usize, size: usize) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some("name".into()),
        dependency: (0..count)
            .map(|n| format!("{n:0>width$}", width = size))
            .collect(),
        ..Default::default()
    }
}

/// Returns options for uncompressed chunks of at most `max` bytes and files of at most `max_file`
/// bytes.
fn options(max: u64, max_file: Option<u64>) -> SplitOptions {
    SplitOptions::new()
        .max_chunk_size(max)
        .value_chunk_size(None)
        .profile(Profile::Extended)
        .max_file_size(max_file)
        .compression(ChunkCompression::Fixed(Compression::None))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Writes a message in several files of at most 4 KiB.
fn split_in_files(prefix: &Path) -> (Vec<u8>, Written) {
    let message = message(40, 300);
    let options = options(700, Some(LEAST_MAX_FILE_SIZE));
    let written = SizeSplitter.write_with(&message, prefix, &options).unwrap();
    (message.encode_to_vec(), written)
}

/// Returns the trailer of a `.cpb` file.
fn trailer(path: &Path) -> ChunkMetadata {
    let file = RecordFile::open(fs::File::open(path).unwrap(), ReaderOptions::new()).unwrap();
    let last = file.last_record().unwrap().unwrap();
    ChunkMetadata::decode(file.read_record(last).unwrap()).unwrap()
}

/// Rewrites a file so that its only record is a changed trailer.
fn with_trailer(path: &Path, change: impl FnOnce(&mut ChunkMetadata)) {
    let mut metadata = trailer(path);
    change(&mut metadata);
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    writer
        .write_record_alone(&metadata.encode_to_vec(), Compression::None)
        .unwrap();
    fs::write(path, writer.finish().unwrap()).unwrap();
}

#[test]
fn several_files_hold_at_most_what_was_asked_for_and_make_the_message() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("m");
    let (bytes, written) = split_in_files(&prefix);
    assert!(written.files.len() >= 3, "{written:?}");
    let mut expected: Vec<PathBuf> = written.files.iter().map(|file| file.path.clone()).collect();
    expected.push(written.path.clone());
    let mut total = 0;
    for path in &expected {
        let size = fs::metadata(path).unwrap().len();
        assert!(size <= LEAST_MAX_FILE_SIZE, "{}: {size}", path.display());
        total += size;
        // Each of the files is a complete record file.
        let file = RecordFile::open(fs::File::open(path).unwrap(), ReaderOptions::new()).unwrap();
        for chunk in file.chunks() {
            file.read_chunk(chunk.unwrap().begin())
                .unwrap_or_else(|e| panic!("{e}"));
        }
    }
    assert_eq!(total, written.output_size);
    assert_eq!(names(folder.path()).len(), expected.len());
    assert_eq!(Merger::new().merge_to_bytes(&prefix).unwrap(), bytes);

    let file = ChunkedFile::open(&written.path).unwrap();
    let verification = file.verify(&ReadOptions::new());
    assert!(verification.problems().is_empty(), "{verification:?}");
    let same = matches!(
        verification.merge(),
        MergeCheck::Merged {
            source: Some(SourceCheck::Same),
            ..
        }
    );
    assert!(same, "{verification:?}");
    let records = written.chunks.len() + written.files.len() + 1;
    assert_eq!(verification.records(), records as u64);
    for (summary, chunk) in file.summaries().unwrap().iter().zip(&written.chunks) {
        assert_eq!(
            (summary.file, summary.position),
            (chunk.file, chunk.position)
        );
    }
    let twenty = file.get(&"3[20]".parse().unwrap()).unwrap();
    assert_eq!(twenty, format!("{:0>300}", 20).into_bytes());
}

#[test]
fn what_fits_in_one_file_is_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let written = SizeSplitter
        .write_with(
            &message(40, 300),
            folder.path().join("m"),
            &options(700, Some(1 << 20)),
        )
        .unwrap();
    assert!(written.files.is_empty());
    assert_eq!(names(folder.path()), ["m.cpb"]);
}

#[test]
fn splitting_again_gives_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    fs::create_dir(&a).unwrap();
    fs::create_dir(&b).unwrap();
    split_in_files(&a.join("m"));
    split_in_files(&b.join("m"));
    assert_eq!(names(&a), names(&b));
    for name in names(&a) {
        assert_eq!(
            fs::read(a.join(&name)).unwrap(),
            fs::read(b.join(&name)).unwrap()
        );
    }
}

#[test]
fn files_of_an_earlier_split_are_in_the_way_until_they_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("m");
    let (_, earlier) = split_in_files(&prefix);
    fs::remove_file(&earlier.path).unwrap();
    let before = names(folder.path());
    let other = message(3, 300);
    let one = options(700, None);
    let error = SizeSplitter.write_with(&other, &prefix, &one).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("m.00001-"), "{error}");
    assert_eq!(names(folder.path()), before);

    let written = SizeSplitter
        .write_with(&other, &prefix, &one.clone().force(true))
        .unwrap();
    let gone: Vec<_> = earlier.files.iter().map(|file| file.path.clone()).collect();
    assert_eq!(written.removed_files, gone);
    assert_eq!(names(folder.path()), ["m.cpb"]);

    // Repeating the split keeps the files that are still needed.
    split_in_files(&folder.path().join("n"));
    let again = options(700, Some(LEAST_MAX_FILE_SIZE)).force(true);
    let written = SizeSplitter
        .write_with(&message(40, 300), folder.path().join("n"), &again)
        .unwrap();
    assert!(written.removed_files.is_empty());
    assert!(
        Merger::new()
            .merge_to_bytes(folder.path().join("n"))
            .is_ok()
    );
}

#[test]
fn when_a_file_cannot_take_its_place_none_appears() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("m");
    let (_, written) = split_in_files(&prefix);
    // A folder exists with the name of the last file.
    for file in &written.files {
        fs::remove_file(&file.path).unwrap();
    }
    fs::remove_file(&written.path).unwrap();
    let blocked = &written.files.last().unwrap().path;
    fs::create_dir(blocked).unwrap();
    let options = options(700, Some(LEAST_MAX_FILE_SIZE)).force(true);
    let error = SizeSplitter
        .write_with(&message(40, 300), &prefix, &options)
        .unwrap_err();
    assert_eq!(names(folder.path()).len(), 1, "{error}");
    assert!(blocked.is_dir());
}

#[test]
fn a_file_that_is_not_the_one_meant_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (_, written) = split_in_files(&folder.path().join("m"));
    let [first, second] = [0, 1].map(|at| written.files[at].path.clone());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let original = fs::read(&first).unwrap();
    let fails = |kind: ErrorKind, expected: &str| {
        let error = Merger::new()
            .merge_to_bytes(folder.path().join("m"))
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().contains(&name(&first)), "{error}");
    };
    fs::remove_file(&first).unwrap();
    fails(
        ErrorKind::Io,
        "the file holds chunks of the message, and isn't there",
    );

    fs::create_dir(&first).unwrap();
    fails(ErrorKind::Io, "it is not a regular file");
    fs::remove_dir(&first).unwrap();

    fs::write(&first, &original[..original.len() - 1]).unwrap();
    fails(ErrorKind::ChecksumMismatch, "bytes, where the trailer says");

    let mut padded = fs::read(&second).unwrap();
    padded.resize(original.len(), 0);
    fs::write(&first, &padded).unwrap();
    let error = Merger::new()
        .merge_to_bytes(folder.path().join("m"))
        .unwrap_err();
    assert!(error.to_string().contains(&name(&first)), "{error}");

    // The file has the same size, but other content.
    fs::write(&first, &original).unwrap();
    with_other_checksum(&first);
    assert_eq!(fs::metadata(&first).unwrap().len(), original.len() as u64);
    fails(ErrorKind::ChecksumMismatch, "crc32c of its last record is");

    fs::write(&first, original).unwrap();
    assert!(
        Merger::new()
            .merge_to_bytes(folder.path().join("m"))
            .is_ok()
    );
    let error = ChunkedFile::open(&first).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotChunked);
    assert!(error.to_string().contains("open that file"), "{error}");
}

/// Rewrites the file with a wrong checksum for the first chunk in the last record.
fn with_other_checksum(path: &Path) {
    let mut metadata = trailer(path);
    let file = RecordFile::open(fs::read(path).unwrap(), ReaderOptions::new()).unwrap();
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    for chunk in &metadata.chunks {
        let record = file.read_record(file.locate(chunk.offset).unwrap());
        writer
            .write_record_alone(&record.unwrap(), Compression::None)
            .unwrap();
    }
    metadata.chunks[0].crc32c = Some(1);
    writer
        .write_record_alone(&metadata.encode_to_vec(), Compression::None)
        .unwrap();
    fs::write(path, writer.finish().unwrap()).unwrap();
}

#[test]
fn no_file_outside_of_the_folder_is_read_unless_that_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let (bytes, written) = split_in_files(&inner.join("m"));
    let main = written.path;
    let first = &written.files[0].path;
    let outside = folder.path().join("outside.cpb");
    fs::rename(first, &outside).unwrap();
    let absolute = fs::canonicalize(&outside).unwrap();
    let allowed = Limits::new().allow_outside(true);
    for path in [
        "../outside.cpb",
        absolute.to_str().unwrap(),
        "../inner/../outside.cpb",
    ] {
        with_trailer(&main, |metadata| metadata.files[0].path = path.into());
        let error = ChunkedFile::open(&main).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("the path leads to a file outside"),
            "{error}"
        );
        let file = ChunkedFile::open_with(&main, &allowed).unwrap();
        assert_eq!(file.merge_to_bytes(&ReadOptions::new()).unwrap(), bytes);
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&absolute, inner.join("link.cpb")).unwrap();
        with_trailer(&main, |metadata| metadata.files[0].path = "link.cpb".into());
        let error = ChunkedFile::open(&main).unwrap_err();
        assert!(
            error.to_string().contains("a symbolic link leads to"),
            "{error}"
        );
        assert!(ChunkedFile::open_with(&main, &allowed).is_ok());
        // The main file may be a link, in which case the other files are next to the link's target.
        fs::rename(&outside, inner.join("back.cpb")).unwrap();
        with_trailer(&main, |metadata| metadata.files[0].path = "back.cpb".into());
        std::os::unix::fs::symlink(&main, folder.path().join("m.cpb")).unwrap();
        assert_eq!(
            Merger::new()
                .merge_to_bytes(folder.path().join("m"))
                .unwrap(),
            bytes
        );
    }
}

#[test]
fn what_a_trailer_says_of_other_files_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let (_, written) = split_in_files(&folder.path().join("m"));
    let main = written.path;
    let original = fs::read(&main).unwrap();
    type Change = fn(&mut ChunkMetadata);
    let cases: [(Change, &str); 9] = [
        (
            |m| m.files[0].path = String::new(),
            "not a path of folders and a file",
        ),
        (
            |m| m.files[0].path = "a//b".into(),
            "not a path of folders and a file",
        ),
        (
            |m| m.files[0].path = "./m".into(),
            "not a path of folders and a file",
        ),
        (
            |m| m.files[0].path = "a\0b".into(),
            "not a path of folders and a file",
        ),
        (
            |m| m.files.truncate(1),
            "file 2 is out of range: there are 1 other files",
        ),
        (
            |m| m.chunks[3].file = 0,
            "chunk 3: no record begins at its offset",
        ),
        (
            |m| m.version.as_mut().unwrap().join_version = 0,
            "not allowed in join version 0",
        ),
        (
            |m| m.trailer_level = 1,
            "the chunks of the trailer are in other files",
        ),
        (
            |m| m.files = vec![m.files[0].clone(); 5000],
            "the chunks are in 5000 other files; at most 4096 are allowed",
        ),
    ];
    for (change, expected) in cases {
        fs::write(&main, &original).unwrap();
        with_trailer(&main, change);
        let error = ChunkedFile::open(&main).unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
    fs::write(&main, &original).unwrap();
    let error = ChunkedFile::from_source(original, &Limits::default()).unwrap_err();
    assert!(
        error.to_string().contains("can only be found by a path"),
        "{error}"
    );
}

#[test]
fn several_files_are_for_the_extended_profile_only() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(700, Some(1 << 20)).profile(Profile::TensorFlow);
    let error = SizeSplitter
        .write_with(&message(40, 300), folder.path().join("m"), &options)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_file_that_its_trailer_is_too_large_for_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(700, Some(LEAST_MAX_FILE_SIZE));
    let error = SizeSplitter
        .write_with(&message(400, 300), folder.path().join("m"), &options)
        .unwrap_err();
    let text = error.to_string();
    let numbers = text.split(|c: char| !c.is_ascii_digit());
    let numbers = numbers.filter_map(|number| number.parse::<u64>().ok());
    let [whole, trailer, most] = numbers.collect::<Vec<_>>()[..] else {
        panic!("{text}");
    };
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(text.starts_with("the trailer doesn't fit"), "{text}");
    assert!(
        trailer < whole && whole > most && most == LEAST_MAX_FILE_SIZE,
        "{text}"
    );
    assert!(names(folder.path()).is_empty());
}

/// Splits a message into so many small chunks that its trailer is cut, and the trailer of the
/// result is cut again.
fn split_with_large_trailer(folder: &Path) -> (Vec<u8>, PathBuf) {
    let message = message(4000, 60);
    let written = SizeSplitter
        .write_with(&message, folder.join("m"), &options(70, None))
        .unwrap();
    assert!(written.chunks.len() > 1000);
    (message.encode_to_vec(), written.path)
}

#[test]
fn a_trailer_over_the_maximum_is_in_chunks_and_they_in_chunks_again() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, path) = split_with_large_trailer(folder.path());
    let last = trailer(&path);
    assert_eq!(last.trailer_level, 2);
    assert!(last.encoded_len() <= 1024);
    assert!(last.chunks.iter().all(|chunk| chunk.size <= 1024));
    let file = ChunkedFile::open(&path).unwrap();
    assert_eq!(file.trailer().metadata().trailer_level, 0);
    assert_eq!(file.merge_to_bytes(&ReadOptions::new()).unwrap(), bytes);
    assert!(file.verify(&ReadOptions::new()).problems().is_empty());
    let value = file.get(&"3[1234]".parse().unwrap()).unwrap();
    assert_eq!(value, format!("{:0>60}", 1234).into_bytes());
}

#[test]
fn a_trailer_in_chunks_is_read_within_limits() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = split_with_large_trailer(folder.path());
    let limits = Limits::new();
    for (limits, expected) in [
        (
            limits.clone().max_trailer_levels(1),
            "the trailer is split 2 times; at most 1 are allowed",
        ),
        (
            limits.clone().max_trailer_size(20_000),
            "the trailer: a message of",
        ),
        (
            limits.clone().max_trailer_memory(100_000),
            "the trailer: a trailer that takes more than 100000 bytes of memory",
        ),
    ] {
        let error = ChunkedFile::open_with(&path, &limits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    assert!(ChunkedFile::open_with(&path, &limits).is_ok());
}

#[test]
fn a_trailer_in_chunks_that_lies_about_itself_is_refused() {
    // The only chunk of the file claims to be the trailer.
    let folded = |inner: &ChunkMetadata, change: fn(&mut ChunkMetadata)| {
        let chunk = inner.encode_to_vec();
        let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
        let position = writer
            .write_record_alone(&chunk, Compression::None)
            .unwrap();
        let split = SizeSplitter
            .split_with(&message(1, 1), &options(70, None))
            .unwrap();
        let mut outer = split.metadata;
        outer.source_size = None;
        outer.source_crc32c = None;
        outer.byte_exact = false;
        outer.trailer_level = 1;
        outer.chunks[0].size = chunk.len() as u64;
        outer.chunks[0].crc32c = None;
        outer.chunks[0].offset = position.numeric();
        change(&mut outer);
        writer
            .write_record_alone(&outer.encode_to_vec(), Compression::None)
            .unwrap();
        ChunkedFile::from_source(writer.finish().unwrap(), &Limits::default())
    };
    let mut inner = SizeSplitter
        .split_with(&message(1, 1), &options(70, None))
        .unwrap()
        .metadata;
    inner.chunks[0].size = 0;
    inner.chunks[0].offset = 64;
    // The inner trailer also claims to be chunked, which could cause endless recursion.
    let mut endless = inner.clone();
    endless.trailer_level = 1;
    let mut part = inner.clone();
    part.is_part = true;
    type Case<'a> = (&'a ChunkMetadata, fn(&mut ChunkMetadata), &'a str);
    let cases: [Case<'_>; 6] = [
        (
            &endless,
            |_| (),
            "the trailer was split 1 times, but the trailer merged from its chunks says 1",
        ),
        (
            &inner,
            |m| m.trailer_level = 2,
            "the trailer was split 2 times, but the trailer merged from its chunks says 0",
        ),
        (
            &inner,
            |m| m.trailer_level = u32::MAX,
            "the trailer is split 4294967295 times; at most 8 are allowed",
        ),
        (
            &inner,
            |m| m.splice_marker = false,
            "the trailer is in chunks, but has no placeholders",
        ),
        (
            &inner,
            |m| m.version.as_mut().unwrap().join_version = 0,
            "a trailer in chunks, not allowed in join version 0",
        ),
        (
            &part,
            |_| (),
            "the trailer: the file only has chunks of a message",
        ),
    ];
    for (inner, change, expected) in cases {
        let error = folded(inner, change).unwrap_err();
        assert!(
            error.to_string().starts_with(expected),
            "{expected}: {error}"
        );
    }
}

#[test]
fn the_stored_size_and_compression_of_each_chunk_are_those_in_its_file() {
    let message = message(40, 300);
    for compression in [
        ChunkCompression::Fixed(Compression::None),
        ChunkCompression::Fixed(Compression::ZSTD),
        ChunkCompression::default(),
    ] {
        for max_file in [None, Some(LEAST_MAX_FILE_SIZE)] {
            for threads in [1, 3] {
                let folder = tempfile::tempdir().unwrap();
                let options = options(700, max_file)
                    .compression(compression)
                    .threads(NonZeroUsize::new(threads));
                let prefix = folder.path().join("m");
                let written = SizeSplitter
                    .write_with(&message, &prefix, &options)
                    .unwrap();
                let paths = written.files.iter().map(|file| &file.path);
                let paths: Vec<_> = std::iter::once(&written.path).chain(paths).collect();
                for chunk in &written.chunks {
                    let file = fs::File::open(paths[chunk.file]).unwrap();
                    let file = RecordFile::open(file, ReaderOptions::new()).unwrap();
                    let stored = file.stored(chunk.position).unwrap();
                    assert_eq!(
                        (chunk.stored_size, chunk.compression),
                        (stored.chunk.header.data_size, stored.compression),
                        "{chunk:?}"
                    );
                }
                if max_file.is_none() {
                    let mut pipe = Vec::new();
                    let streamed = SizeSplitter.write_to_with(&message, &mut pipe, &options);
                    let streamed = streamed.unwrap().chunks;
                    let said = |chunks: &[WrittenChunk]| format!("{chunks:?}");
                    assert_eq!(said(&streamed), said(&written.chunks));
                    assert_eq!(pipe, fs::read(&written.path).unwrap());
                }
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn a_message_in_several_files_stays_whole_if_only_a_link_to_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let [real, links] = ["real", "links"].map(|name| folder.path().join(name));
    fs::create_dir(&real).unwrap();
    fs::create_dir(&links).unwrap();
    let (bytes, written) = split_in_files(&real.join("m"));
    let before = names(&real);
    let (link, plain) = (links.join("m.cpb"), links.join("m.pb"));
    let replace = || {
        std::os::unix::fs::symlink(&written.path, &link).unwrap();
        let options = SplitOptions::new().force(true);
        match Source::open_as::<FileDescriptorProto>(&plain) {
            // The second time, the source is the file that would be written.
            Ok(source) => SizeSplitter.write_with(source, links.join("m"), &options),
            Err(_) => SizeSplitter.write_with(&message(1, 1), links.join("m"), &options),
        }
    };
    for _ in 0..2 {
        let small = replace().unwrap();
        assert!(!small.is_split && small.removed_files.is_empty());
        assert_eq!(small.removed.as_deref(), Some(&*link));
        assert_eq!(names(&links), ["m.pb"]);
        assert_eq!(names(&real), before);
        let merged = Merger::new().merge_to_bytes(&written.path).unwrap();
        assert_eq!(merged, bytes);
    }
}
