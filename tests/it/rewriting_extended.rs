//! Tests of rewriting files that use features of the extended profile, or have trailers from other
//! writers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prost::Message;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use proto_splitter::ErrorKind;
use proto_splitter::container::ChunkedFile;
use proto_splitter::edit::{
    RewriteOptions, recompress, recompress_to_file, replace, replace_to_file,
};
use proto_splitter::merge::{ChunkStore, Limits, ReadOptions};
use proto_splitter::path::FieldPath;
use proto_splitter::progress::{CancelToken, Progress};
use proto_splitter::proto::proto_splitter::ChunkMetadata;
use proto_splitter::record_file::{
    Compression, ReaderOptions, RecordFile, RecordWriter, WriterOptions,
};
use proto_splitter::split::{LEAST_MAX_FILE_SIZE, Profile, SizeSplitter, SplitExt, SplitOptions};

/// Returns a `FileDescriptorProto` with `messages` message types, whose names have 300 bytes each.
fn model(messages: usize) -> FileDescriptorProto {
    let named = |number: usize| DescriptorProto {
        name: Some(format!("{number:0300}")),
        ..DescriptorProto::default()
    };
    FileDescriptorProto {
        message_type: (0..messages).map(named).collect(),
        ..FileDescriptorProto::default()
    }
}

fn reading() -> ReadOptions {
    ReadOptions::for_message::<FileDescriptorProto>()
}

fn split(model: &FileDescriptorProto, folder: &Path, options: &SplitOptions) -> ChunkedFile {
    let prefix = folder.join("out");
    let written = SizeSplitter.write_with(model, &prefix, options).unwrap();
    ChunkedFile::open(written.path).unwrap()
}

fn small_chunks() -> SplitOptions {
    SplitOptions::new().max_chunk_size(1000)
}

fn extended() -> SplitOptions {
    small_chunks()
        .profile(Profile::Extended)
        .compression(Compression::None)
}

/// Returns options for rewriting to files of at most `max` bytes, with this compression.
fn several(max: u64, compression: Compression) -> RewriteOptions {
    let options = RewriteOptions::new().compression(compression);
    options.max_file_size(Some(max))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Verifies the chunks of an open file, and merges them.
fn made(file: &ChunkedFile) -> Vec<u8> {
    let checked = file.verify(&ReadOptions::new());
    assert!(checked.problems().is_empty(), "{checked:?}");
    file.merge_to_bytes(&ReadOptions::new()).unwrap().into()
}

fn open(file: &File) -> ChunkedFile<&File> {
    ChunkedFile::from_source(file, &Limits::new()).unwrap()
}

fn merged(file: &File) -> Vec<u8> {
    let file = open(file);
    let checked = file.verify(&ReadOptions::new());
    assert!(checked.problems().is_empty(), "{checked:?}");
    file.merge_to_bytes(&ReadOptions::new()).unwrap().into()
}

fn records(file: &File) -> usize {
    let file = RecordFile::open(file, ReaderOptions::new()).unwrap();
    let counts = file.chunks().map(|chunk| chunk.unwrap().header.num_records);
    usize::try_from(counts.sum::<u64>()).unwrap()
}

#[test]
fn chunks_in_several_files_come_to_one() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(40);
    let options = extended().max_file_size(Some(LEAST_MAX_FILE_SIZE));
    let file = split(&model, folder.path(), &options);
    assert!(file.trailer().metadata().files.len() > 2);

    let target = tempfile::tempfile().unwrap();
    let options = RewriteOptions::new();
    let rewritten = recompress(&file, &target, &options).unwrap();
    assert_eq!(rewritten.chunks, file.len());
    assert!(merged(&target) == model.encode_to_vec());
    assert!(open(&target).trailer().metadata().files.is_empty());

    for place in [0, 7, 39].map(|at| format!("message_type[{at}]")) {
        let path = FieldPath::parse(&place, reading().get_descriptor().unwrap()).unwrap();
        let target = tempfile::tempfile().unwrap();
        let rewritten = replace(&file, &path, b"", &target, &reading(), &options).unwrap();
        assert!(rewritten.copied > 0);
        let written = open(&target);
        assert_eq!(written.view(reading()).get(&path).unwrap(), "", "{place}");
        assert!(merged(&target).len() < model.encoded_len());
    }
}

#[test]
fn chunks_go_to_several_files_of_at_most_what_was_asked_for() {
    let model = model(40);
    // The source is one file, or several files with another maximum size than the target.
    for from in [None, Some(LEAST_MAX_FILE_SIZE)] {
        let folder = tempfile::tempdir().unwrap();
        let options = extended().max_file_size(from);
        let file = split(&model, folder.path(), &options);
        let others = folder.path().join("others");
        fs::create_dir(&others).unwrap();
        for (at, compression) in [Compression::None, Compression::ZSTD]
            .into_iter()
            .enumerate()
        {
            for max in [LEAST_MAX_FILE_SIZE, 3 * LEAST_MAX_FILE_SIZE / 2] {
                let target = others.join(format!("{at}-{max}.cpb"));
                let options = several(max, compression);
                let rewritten = recompress_to_file(&file, &target, &options).unwrap();
                let least = if compression == Compression::None {
                    2
                } else {
                    1
                };
                assert!(rewritten.files.len() >= least, "{rewritten:?}");
                let paths = rewritten.files.iter().map(|file| file.path.clone());
                let sizes = paths.chain([target.clone()]);
                let sizes: Vec<u64> = sizes
                    .map(|path| fs::metadata(path).unwrap().len())
                    .collect();
                assert!(sizes.iter().all(|size| *size <= max), "{sizes:?}");
                assert_eq!(rewritten.size, sizes.iter().sum::<u64>());
                let chunks: usize = rewritten.files.iter().map(|file| file.chunks).sum();
                assert_eq!((chunks, rewritten.chunks), (file.len(), file.len()));
                assert!(made(&ChunkedFile::open(&target).unwrap()) == model.encode_to_vec());
            }
        }
    }
}

#[test]
fn a_value_is_replaced_in_several_files_with_the_others_copied() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(40);
    let options = extended().max_file_size(Some(LEAST_MAX_FILE_SIZE));
    let file = split(&model, folder.path(), &options);
    let path = FieldPath::parse("message_type[7]", reading().get_descriptor().unwrap()).unwrap();
    let target = folder.path().join("new.cpb");
    let options = several(LEAST_MAX_FILE_SIZE, Compression::None);
    let rewritten = replace_to_file(&file, &path, b"", &target, &reading(), &options).unwrap();
    assert!(rewritten.files.len() > 1, "{rewritten:?}");
    assert!(
        rewritten
            .files
            .iter()
            .all(|file| file.size <= LEAST_MAX_FILE_SIZE)
    );
    assert!(rewritten.copied > 0);
    let written = ChunkedFile::open(&target).unwrap();
    assert_eq!(written.view(reading()).get(&path).unwrap(), "");
    let mut changed = model;
    changed.message_type[7] = DescriptorProto::default();
    assert!(made(&written) == changed.encode_to_vec());
}

#[test]
fn what_fits_in_one_file_is_rewritten_to_one() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(40);
    let options = extended().max_file_size(Some(LEAST_MAX_FILE_SIZE));
    let file = split(&model, folder.path(), &options);
    let others = folder.path().join("others");
    fs::create_dir(&others).unwrap();
    let options = several(1 << 20, Compression::None);
    let rewritten = recompress_to_file(&file, others.join("one.cpb"), &options).unwrap();
    assert!(rewritten.files.is_empty());
    assert_eq!(names(&others), ["one.cpb"]);
    assert!(made(&ChunkedFile::open(others.join("one.cpb")).unwrap()) == model.encode_to_vec());
}

#[test]
fn what_cannot_be_in_several_files_says_why_and_leaves_none() {
    let folder = tempfile::tempdir().unwrap();
    let [theirs, ours] = ["theirs", "ours"].map(|name| folder.path().join(name));
    fs::create_dir(&theirs).unwrap();
    fs::create_dir(&ours).unwrap();
    let model = model(40);
    let for_tensorflow = split(&model, &theirs, &small_chunks());
    let larger_chunks = SplitOptions::new().max_chunk_size(6000);
    let file = split(&model, &ours, &larger_chunks.profile(Profile::Extended));
    let target = folder.path().join("target.cpb");
    let options = several(LEAST_MAX_FILE_SIZE, Compression::None);
    let too_small = several(LEAST_MAX_FILE_SIZE - 1, Compression::None);
    for (error, kind, message) in [
        (
            recompress_to_file(&for_tensorflow, &target, &options),
            ErrorKind::InvalidConfig,
            "since TensorFlow reads a single file only",
        ),
        (
            recompress_to_file(&file, &target, &too_small),
            ErrorKind::InvalidConfig,
            "but must be at least 4096",
        ),
        (
            recompress(&file, &tempfile::tempfile().unwrap(), &options),
            ErrorKind::InvalidConfig,
            "needs a named output file",
        ),
        (
            recompress_to_file(&file, &target, &options),
            ErrorKind::LimitExceeded,
            "a chunk doesn't fit",
        ),
    ] {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    assert_eq!(names(folder.path()), ["ours", "theirs"]);
}

#[test]
fn files_that_are_read_stay_and_those_of_an_earlier_split_go_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(40);
    let in_files = extended().max_file_size(Some(LEAST_MAX_FILE_SIZE));
    let file = split(&model, folder.path(), &in_files);
    let options = several(LEAST_MAX_FILE_SIZE, Compression::ZSTD).force(true);
    let before = names(folder.path());
    let (main, metadata) = (folder.path().join("out.cpb"), file.trailer().metadata());
    let by_metadata = ChunkedFile::open_with_metadata(main, metadata.clone(), &Limits::new());
    for file in [&file, &by_metadata.unwrap()] {
        for name in ["out.cpb", before.first().unwrap()] {
            let error = recompress_to_file(file, folder.path().join(name), &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
            assert!(
                error
                    .to_string()
                    .contains("refusing to overwrite the input"),
                "{error}"
            );
        }
    }
    assert_eq!(names(folder.path()), before);

    // The target's folder already has files from another split.
    let others = folder.path().join("others");
    fs::create_dir(&others).unwrap();
    let earlier = SizeSplitter
        .write_with(&self::model(30), others.join("m"), &in_files)
        .unwrap();
    fs::remove_file(&earlier.path).unwrap();
    let error = recompress_to_file(&file, &earlier.path, &options.clone().force(false));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let rewritten = recompress_to_file(&file, &earlier.path, &options).unwrap();
    assert!(!rewritten.removed_files.is_empty());
    assert_eq!(names(&others).len(), rewritten.files.len() + 1);
}

#[test]
fn chunks_that_share_a_record_need_room_once() {
    // All elements are equal, so their chunks share a record.
    let mut model = model(40);
    let first = model.message_type[0].clone();
    model.message_type.fill(first);
    let folder = tempfile::tempdir().unwrap();
    let file = split(&model, folder.path(), &extended());
    assert!(model.encoded_len() as u64 > 2 * LEAST_MAX_FILE_SIZE);
    let stored = fs::metadata(folder.path().join("out.cpb")).unwrap().len();
    assert!(stored < LEAST_MAX_FILE_SIZE, "{stored}");

    let options = several(2 * LEAST_MAX_FILE_SIZE, Compression::None);
    let target = folder.path().join("again.cpb");
    let rewritten = recompress_to_file(&file, &target, &options).unwrap();
    assert_eq!(rewritten.files.len(), 0);
    assert!(made(&ChunkedFile::open(&target).unwrap()) == model.encode_to_vec());

    let path = FieldPath::parse("message_type[7]", reading().get_descriptor().unwrap()).unwrap();
    let target = folder.path().join("new.cpb");
    let rewritten = replace_to_file(&file, &path, b"", &target, &reading(), &options).unwrap();
    assert_eq!(rewritten.files.len(), 0);
    assert!(rewritten.copied > 0);

    let options = extended().max_file_size(Some(2 * LEAST_MAX_FILE_SIZE));
    let in_one = split(&model, folder.path(), &options.force(true));
    assert!(in_one.trailer().metadata().files.is_empty());
}

#[cfg(unix)]
#[test]
fn several_files_are_beside_what_a_symbolic_link_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(40);
    let file = split(&model, folder.path(), &extended());
    let [links, real] = ["links", "real"].map(|name| folder.path().join(name));
    fs::create_dir(&links).unwrap();
    fs::create_dir(&real).unwrap();
    let link = links.join("link.cpb");
    std::os::unix::fs::symlink("../real/m.cpb", &link).unwrap();
    let options = several(LEAST_MAX_FILE_SIZE, Compression::None).force(true);
    // At first, the link is broken. The second time, it leads to the previous output.
    for _ in 0..2 {
        let rewritten = recompress_to_file(&file, &link, &options).unwrap();
        assert_eq!(names(&links), ["link.cpb"]);
        assert_eq!(names(&real).len(), rewritten.files.len() + 1);
        assert!(names(&real).iter().all(|name| name.starts_with("m.")));
        for path in [&link, &real.join("m.cpb")] {
            assert!(made(&ChunkedFile::open(path).unwrap()) == model.encode_to_vec());
        }
    }
}

#[cfg(unix)]
#[test]
fn all_of_several_files_have_the_mode_of_what_they_replace() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let model = model(40);
    let file = split(&model, folder.path(), &extended());
    let others = folder.path().join("others");
    fs::create_dir(&others).unwrap();
    let private = || {
        fs::write(others.join("out.cpb"), b"old").unwrap();
        fs::set_permissions(others.join("out.cpb"), fs::Permissions::from_mode(0o600)).unwrap();
    };
    let check = || {
        assert!(names(&others).len() > 2);
        for name in names(&others) {
            let mode = fs::metadata(others.join(&name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
            fs::remove_file(others.join(name)).unwrap();
        }
    };
    private();
    let options = several(LEAST_MAX_FILE_SIZE, Compression::None).force(true);
    recompress_to_file(&file, others.join("out.cpb"), &options).unwrap();
    check();
    private();
    let options = extended().max_file_size(Some(LEAST_MAX_FILE_SIZE));
    split(&model, &others, &options.force(true));
    check();
}

#[test]
fn only_a_file_called_cpb_has_others_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(40);
    let in_files = extended().max_file_size(Some(LEAST_MAX_FILE_SIZE));
    let file = split(&model, folder.path(), &in_files);
    let others = folder.path().join("others");
    fs::create_dir(&others).unwrap();
    let earlier = split(&model, &others, &in_files);
    let before = names(&others);
    assert!(before.len() > 2, "{before:?}");

    // The existing files belong to `out.cpb`, which is a different file from `out`.
    let options = several(LEAST_MAX_FILE_SIZE, Compression::ZSTD);
    let error = recompress_to_file(&file, others.join("out"), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    assert!(error.to_string().contains("must be called .cpb"), "{error}");
    assert_eq!(names(&others), before);
    let options = RewriteOptions::new();
    for options in [options.clone(), options.force(true)] {
        let rewritten = recompress_to_file(&file, others.join("out"), &options).unwrap();
        assert_eq!(rewritten.removed_files, Vec::<PathBuf>::new());
        assert_eq!(names(&others).len(), before.len() + 1);
        fs::remove_file(others.join("out")).unwrap();
    }
    assert!(made(&earlier) == model.encode_to_vec());
}

#[test]
fn a_trailer_in_chunks_comes_back_in_one_piece_and_leaves_nothing_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(400);
    let file = split(
        &model,
        folder.path(),
        &small_chunks().profile(Profile::Extended),
    );
    let stored = File::open(folder.path().join("out.cpb")).unwrap();
    assert!(
        records(&stored) > file.len() + 2,
        "the trailer is in chunks"
    );

    let target = tempfile::tempfile().unwrap();
    recompress(&file, &target, &RewriteOptions::new()).unwrap();
    assert!(merged(&target) == model.encode_to_vec());
    assert_eq!(records(&target), file.len() + 1);
}

#[test]
fn what_a_trailer_says_that_is_not_known_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(40);
    let file = split(&model, folder.path(), &small_chunks());
    // `other` has the same chunks, but its trailer has additional fields: field 500, and field 501
    // of every chunk.
    let other = folder.path().join("other.cpb");
    let mut writer =
        RecordWriter::new(File::create(&other).unwrap(), WriterOptions::new()).unwrap();
    let mut metadata = file.trailer().metadata().clone();
    for (chunk, info) in metadata.chunks.iter_mut().enumerate() {
        let mut stream = file.stream(chunk).unwrap();
        let written = writer.write_record_from(&mut stream, info.size, "none".parse().unwrap());
        info.offset = written.unwrap().numeric();
    }
    let mut trailer = Vec::new();
    for info in std::mem::take(&mut metadata.chunks) {
        let mut info = info.encode_to_vec();
        info.extend(b"\xaa\x1f\x05chunk");
        trailer.push(0x12);
        prost::encode_length_delimiter(info.len(), &mut trailer).unwrap();
        trailer.extend(info);
    }
    trailer.extend(metadata.encode_to_vec());
    trailer.extend(b"\xa2\x1f\x05whole");
    writer
        .write_record_alone(&trailer, "none".parse().unwrap())
        .unwrap();
    writer.finish().unwrap();

    let count =
        |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).filter(|w| *w == text).count();
    let check = |written: &File| {
        let file = RecordFile::open(written, ReaderOptions::new()).unwrap();
        let last = file.last_record().unwrap().unwrap();
        let trailer = file.read_record(last).unwrap();
        let chunks = ChunkMetadata::decode(trailer.clone()).unwrap().chunks.len();
        assert_eq!(count(&trailer, b"\xaa\x1f\x05chunk"), chunks);
        assert_eq!(count(&trailer, b"\xa2\x1f\x05whole"), 1);
        merged(written)
    };
    let file = ChunkedFile::open(&other).unwrap();
    let target = tempfile::tempfile().unwrap();
    recompress(&file, &target, &RewriteOptions::new()).unwrap();
    assert!(check(&target) == model.encode_to_vec());

    let path = FieldPath::parse("message_type[3]", reading().get_descriptor().unwrap()).unwrap();
    let target = tempfile::tempfile().unwrap();
    let options = RewriteOptions::new();
    replace(&file, &path, b"", &target, &reading(), &options).unwrap();
    assert!(check(&target).len() < model.encoded_len());
}

#[test]
fn a_rewriting_says_how_far_it_is_and_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let file = split(&model(40), folder.path(), &small_chunks());
    let seen = Arc::new(AtomicU64::new(0));
    let progress = Progress::new({
        let seen = Arc::clone(&seen);
        move |done, of| seen.store(100 * done / of, Ordering::Relaxed)
    });
    let target = tempfile::tempfile().unwrap();
    let options = RewriteOptions::new().progress(progress.clone());
    recompress(&file, &target, &options).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 100);

    let token = CancelToken::new();
    token.cancel();
    let options = RewriteOptions::new().progress(progress.cancelled_by(&token));
    let target = tempfile::tempfile().unwrap();
    let error = recompress(&file, &target, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}
