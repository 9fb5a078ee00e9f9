//! Rewriting what only the extended profile has, and what another writer's trailer says.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prost::Message;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use proto_splitter::ErrorKind;
use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::{ChunkStore, MergeOptions};
use proto_splitter::path::FieldPath;
use proto_splitter::progress::{CancelToken, Progress};
use proto_splitter::proto::proto_splitter::ChunkMetadata;
use proto_splitter::record_file::{ReaderOptions, RecordFile, RecordWriter, WriterOptions};
use proto_splitter::rewrite::{RewriteOptions, recompress, replace};
use proto_splitter::split::{
    ComposableSplitter, LEAST_MAX_FILE_SIZE, Profile, SizeSplitter, SplitOptions,
};

/// So many messages with names of 300 bytes in one.
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

fn reading() -> MergeOptions {
    MergeOptions::for_message::<FileDescriptorProto>()
}

fn split(model: &FileDescriptorProto, folder: &Path, options: &SplitOptions) -> ChunkedFile {
    let prefix = folder.join("out");
    let written = SizeSplitter.write_with(model, &prefix, options).unwrap();
    ChunkedFile::open(written.path).unwrap()
}

fn small_chunks() -> SplitOptions {
    SplitOptions::new().max_chunk_size(1000).unwrap()
}

fn open(file: &File) -> ChunkedFile<&File> {
    ChunkedFile::from_source(file, &MergeOptions::new().limits).unwrap()
}

fn merged(file: &File) -> Vec<u8> {
    let file = open(file);
    let checked = file.verify(&MergeOptions::new());
    assert!(checked.problems().is_empty(), "{checked:?}");
    file.merge_to_bytes(&MergeOptions::new()).unwrap().into()
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
    let options = small_chunks().profile(Profile::Extended);
    let options = options.max_file_size(Some(LEAST_MAX_FILE_SIZE)).unwrap();
    let file = split(&model, folder.path(), &options);
    assert!(file.trailer().metadata().files.len() > 2);

    let target = tempfile::tempfile().unwrap();
    let options = RewriteOptions::new();
    let rewritten = recompress(&file, &target, &options).unwrap();
    assert_eq!(rewritten.chunks, file.len());
    assert!(merged(&target) == model.encode_to_vec());
    assert!(open(&target).trailer().metadata().files.is_empty());

    for place in [0, 7, 39].map(|at| format!("message_type[{at}]")) {
        let path = FieldPath::parse(&place, reading().descriptor.as_ref().unwrap()).unwrap();
        let target = tempfile::tempfile().unwrap();
        let rewritten = replace(&file, &path, b"", &target, &reading(), &options).unwrap();
        assert!(rewritten.copied > 0);
        let written = open(&target);
        assert_eq!(written.view(reading()).get(&path).unwrap(), "", "{place}");
        assert!(merged(&target).len() < model.encoded_len());
    }
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
    // The same chunks, and a trailer that says more: field 500 of it, and field 501 of every chunk.
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

    let path = FieldPath::parse("message_type[3]", reading().descriptor.as_ref().unwrap()).unwrap();
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
