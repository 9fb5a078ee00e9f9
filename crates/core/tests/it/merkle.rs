//! Tests with files that have Merkle roots: the content that a root covers, and the roots of
//! rewritten files.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use prost_reflect::prost::Message;
use prost_reflect::prost_types::FileDescriptorProto;
use proto_splitter_core::ErrorKind;
use proto_splitter_core::MergedMessage;
use proto_splitter_core::container::{ChunkedFile, MerkleRoot};
use proto_splitter_core::edit::{RewriteOptions, recompress_to_file, replace_to_file, salvage};
use proto_splitter_core::merge::{ChunkStore, Limits, Merger, ReadOptions};
use proto_splitter_core::proto::ChunkMetadata;
use proto_splitter_core::split::{
    ChunkCompression, LEAST_MAX_FILE_SIZE, Profile, SizeSplitter, Source, SplitExt, SplitOptions,
};
use record_file::{
    Compression, ReadAt, ReaderOptions, RecordFile, RecordWriter, RecordsMetadata, WriterOptions,
};
use sha2::{Digest, Sha256};

/// Returns a file descriptor with `count` distinct dependencies. If it is split with [`options`],
/// each dependency is a chunk.
pub fn message(count: usize) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some("name".into()),
        dependency: (0..count).map(|n| format!("{n:0>700}")).collect(),
        ..Default::default()
    }
}

pub fn options(profile: Profile) -> SplitOptions {
    SplitOptions::new()
        .max_chunk_size(800)
        .value_chunk_size(None)
        .profile(profile)
        .merkle_root(true)
}

/// Writes a message to a file, and returns the file's Merkle root.
pub fn write(message: &FileDescriptorProto, path: &Path, options: &SplitOptions) -> MerkleRoot {
    let written = SizeSplitter
        .write_with(message, path.with_extension(""), options)
        .unwrap();
    assert_eq!(written.path, path);
    written.merkle_root.unwrap()
}

/// Merges a file, checking all chunks against a root, and returns the message.
fn merged(path: &Path, root: &MerkleRoot) -> proto_splitter_core::Result<FileDescriptorProto> {
    let file = ChunkedFile::open(path)?;
    file.require_root(root)?;
    let bytes = file.merge_to_bytes(&ReadOptions::new())?;
    Ok(FileDescriptorProto::decode(bytes).unwrap())
}

fn leaf(bytes: &[u8]) -> Vec<u8> {
    Sha256::new()
        .chain_update([0])
        .chain_update(bytes)
        .finalize()
        .to_vec()
}

fn node(left: &[u8], right: &[u8]) -> Vec<u8> {
    Sha256::new()
        .chain_update([1])
        .chain_update(left)
        .chain_update(right)
        .finalize()
        .to_vec()
}

fn tree(leaves: &[Vec<u8>]) -> Vec<u8> {
    match leaves {
        [leaf] => leaf.clone(),
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            node(&tree(left), &tree(right))
        }
    }
}

/// Computes a file's root from the definition of roots, without this library's code for them.
fn by_definition(path: &Path) -> String {
    let file = ChunkedFile::open(path).unwrap();
    let mut trailer = file.trailer().metadata().clone();
    trailer.merkle_tree = None;
    trailer.files.clear();
    for chunk in &mut trailer.chunks {
        (chunk.offset, chunk.file) = (0, 0);
    }
    let leaves: Vec<Vec<u8>> = (0..file.len())
        .map(|chunk| {
            let mut bytes = Vec::new();
            io::copy(&mut file.stream(chunk).unwrap(), &mut bytes).unwrap();
            leaf(&bytes)
        })
        .collect();
    let metadata = file.record_file().metadata().unwrap().unwrap();
    let front = node(&leaf(&trailer.encode_to_vec()), &leaf(&metadata));
    let root = node(&front, &tree(&leaves));
    root.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_root_is_what_its_definition_says_in_every_kind_of_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.cpb");
    for profile in [Profile::TensorFlow, Profile::Extended] {
        for count in [0, 1, 2, 3, 7, 8, 40] {
            let message = message(count);
            for options in [
                options(profile),
                options(profile)
                    .embed_schema(true)
                    .compression(Compression::None),
                options(profile).records("transpose,zstd".parse().unwrap()),
            ] {
                let options = options.always_chunked(true).force(true);
                let root = write(&message, &path, &options);
                assert_eq!(root.to_string(), by_definition(&path), "{profile} {count}");
                assert_eq!(merged(&path, &root).unwrap(), message);
                let file = ChunkedFile::open(&path).unwrap();
                assert_eq!(file.trailer().merkle_root().unwrap(), Some(root));
                let problems = file.verify_against(&root, &ReadOptions::new()).unwrap();
                assert!(problems.is_empty(), "{problems:?}");
                assert!(file.verify(&ReadOptions::new()).problems().is_empty());
                let mut stream = Vec::new();
                let written = SizeSplitter
                    .write_to_with(&message, &mut stream, &options)
                    .unwrap();
                assert_eq!(written.merkle_root, Some(root), "{profile} {count}");
                let file = ChunkedFile::from_source(stream, &Limits::new()).unwrap();
                assert!(
                    file.verify_against(&root, &ReadOptions::new())
                        .unwrap()
                        .is_empty()
                );
            }
        }
    }
}

#[test]
fn a_file_without_a_root_has_none_that_it_could_be_checked_against() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.cpb");
    let without = options(Profile::TensorFlow).merkle_root(false);
    let written = SizeSplitter
        .write_with(&message(3), path.with_extension(""), &without)
        .unwrap();
    assert_eq!(written.merkle_root, None);
    let file = ChunkedFile::open(&path).unwrap();
    assert_eq!(file.trailer().merkle_root().unwrap(), None);
    let root = MerkleRoot::from_bytes([7; 32]);
    let error = file.require_root(&root).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    let expected = format!("it has no Merkle root, where {root} is expected");
    assert_eq!(error.to_string(), expected);
    assert!(!file.requires_root());
    assert_eq!(
        file.verify_against(&root, &ReadOptions::new())
            .unwrap()
            .len(),
        1
    );
    assert!(file.verify_chunk_against(&root, 0).is_err());
}

#[test]
fn several_files_and_other_compressions_have_the_same_root() {
    let folder = tempfile::tempdir().unwrap();
    let (one, several) = (
        folder.path().join("one.cpb"),
        folder.path().join("several.cpb"),
    );
    let message = message(40);
    let root = write(&message, &one, &options(Profile::Extended));
    let small = options(Profile::Extended)
        .compression(ChunkCompression::Fixed(Compression::None))
        .max_file_size(Some(LEAST_MAX_FILE_SIZE));
    let error = SizeSplitter
        .write_with(&message, several.with_extension(""), &small)
        .unwrap_err();
    // The main file would exceed the limit, since it has the trailer and the nodes.
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let small = small.max_file_size(Some(2 * LEAST_MAX_FILE_SIZE));
    let written = SizeSplitter
        .write_with(&message, several.with_extension(""), &small)
        .unwrap();
    assert!(written.files.len() > 2);
    assert_eq!(written.merkle_root, Some(root));
    assert_eq!(merged(&several, &root).unwrap(), message);

    // The message is rewritten to one file, and to several files again.
    for (compression, max) in [
        (Compression::None, None),
        (Compression::ZSTD, None),
        (Compression::None, Some(2 * LEAST_MAX_FILE_SIZE)),
    ] {
        for from in [&one, &several] {
            let target = folder.path().join("again.cpb");
            let rewriting = RewriteOptions::new()
                .compression(compression)
                .max_file_size(max)
                .force(true);
            let file = ChunkedFile::open(from).unwrap();
            file.require_root(&root).unwrap();
            let written = recompress_to_file(&file, &target, &rewriting).unwrap();
            assert_eq!(written.files.is_empty(), max.is_none());
            assert_eq!(merged(&target, &root).unwrap(), message);
            let again = ChunkedFile::open(&target).unwrap();
            assert!(
                again
                    .verify_against(&root, &ReadOptions::new())
                    .unwrap()
                    .is_empty()
            );
            // The old nodes are gone: apart from the trailer, only one record belongs to no chunk.
            let records = |file: &ChunkedFile| {
                let chunks = file.record_file().chunks();
                chunks
                    .map(|chunk| chunk.unwrap().header.num_records)
                    .sum::<u64>()
            };
            if max.is_none() {
                assert_eq!(records(&again), again.len() as u64 + 2);
            }
        }
    }
}

#[test]
fn a_trailer_in_chunks_leads_to_the_same_root() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.cpb");
    // The trailer exceeds the maximum chunk size, and is itself split.
    let root = write(&message(200), &path, &options(Profile::Extended));
    let file = RecordFile::open(File::open(&path).unwrap(), ReaderOptions::new()).unwrap();
    let last = file
        .read_record(file.last_record().unwrap().unwrap())
        .unwrap();
    assert!(ChunkMetadata::decode(last).unwrap().trailer_level > 0);
    assert_eq!(root.to_string(), by_definition(&path));
    assert_eq!(merged(&path, &root).unwrap(), message(200));
}

#[test]
fn a_changed_message_has_a_root_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("m.cpb"), folder.path().join("new.cpb"));
    for profile in [Profile::TensorFlow, Profile::Extended] {
        let root = write(&message(9), &path, &options(profile).force(true));
        let file = ChunkedFile::open(&path).unwrap();
        let rewriting = RewriteOptions::new().force(true);
        for (at, value) in [("3[4]", "new"), ("1", "other"), ("3[8]", "")] {
            let at = at.parse().unwrap();
            let value = value.as_bytes();
            replace_to_file(&file, &at, value, &target, &ReadOptions::new(), &rewriting).unwrap();
            let changed = ChunkedFile::open(&target).unwrap();
            let new = changed.trailer().merkle_root().unwrap().unwrap();
            assert_ne!(new, root);
            assert_eq!(new.to_string(), by_definition(&target));
            assert!(
                changed
                    .verify_against(&new, &ReadOptions::new())
                    .unwrap()
                    .is_empty()
            );
            assert!(changed.require_root(&root).is_err());
        }
    }
}

#[test]
fn what_is_salvaged_has_no_root() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.cpb");
    let uncompressed = options(Profile::TensorFlow).compression(Compression::None);
    let root = write(&message(9), &path, &uncompressed);
    let mut bytes = fs::read(&path).unwrap();
    let wanted = format!("{:0>700}", 5);
    let at = bytes
        .windows(700)
        .position(|window| window == wanted.as_bytes())
        .unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let salvaged = salvage(&path, &ReadOptions::new()).unwrap();
    assert_eq!(salvaged.lost.len(), 1);
    assert_eq!(salvaged.file.trailer().merkle_root().unwrap(), None);
    assert!(salvaged.file.require_root(&root).is_err());
}

#[test]
fn another_schema_is_not_used_with_a_root() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.cpb");
    let root = write(
        &message(5),
        &path,
        &options(Profile::TensorFlow).embed_schema(true),
    );
    let records = RecordFile::open(File::open(&path).unwrap(), ReaderOptions::new()).unwrap();
    let mut about = RecordsMetadata::parse(&records.metadata().unwrap().unwrap()).unwrap();
    about.file_comment = Some("other".into());
    // The records are the same, but come after different metadata.
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new().metadata(&about)).unwrap();
    let mut moved = Vec::new();
    for chunk in records.chunks().skip(2) {
        let chunk = chunk.unwrap();
        let new = writer.copy_chunk(&records, &chunk).unwrap().0;
        moved.push((chunk.begin().0, new));
    }
    let (old_end, _) = moved.pop().unwrap();
    let bytes = writer.finish().unwrap();
    let old = ChunkedFile::open(&path).unwrap();
    let mut trailer = old.trailer().metadata().clone();
    let place = |old: u64| moved.iter().find(|(from, _)| *from == old).unwrap().1;
    for chunk in &mut trailer.chunks {
        chunk.offset = place(chunk.offset);
    }
    let tree = trailer.merkle_tree.as_mut().unwrap();
    tree.nodes_offset = place(tree.nodes_offset);
    assert!(old_end > tree.nodes_offset);
    let mut writer = RecordWriter::append(io::Cursor::new(bytes), WriterOptions::new()).unwrap();
    writer
        .write_record_alone(&trailer.encode_to_vec(), Compression::None)
        .unwrap();
    let forged = writer.finish().unwrap().into_inner();

    let file = ChunkedFile::from_source(forged, &Limits::new()).unwrap();
    assert!(file.schema().unwrap().is_some());
    // Apart from the schema, the file passes all checks.
    file.require_root(&root).unwrap();
    assert!(file.merge_to_bytes(&ReadOptions::new()).is_ok());
    let error = file.schema().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    assert!(
        error
            .to_string()
            .starts_with("the hash of the file's metadata is "),
        "{error}"
    );
    let problems = file.verify_against(&root, &ReadOptions::new()).unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
}

/// A source in memory that counts the bytes read.
#[derive(Debug)]
struct Counted(Vec<u8>, AtomicU64);

impl ReadAt for Counted {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(offset, buffer)?;
        self.1.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

#[test]
fn a_check_of_one_chunk_reads_a_hash_for_each_level_and_nothing_else() {
    // There are so many chunks that reading the end of the file doesn't include the nodes.
    let message: Vec<u8> = (0..20_000u32)
        .flat_map(|n| {
            FileDescriptorProto {
                dependency: vec![format!("{n:0>150}")],
                ..Default::default()
            }
            .encode_to_vec()
        })
        .collect();
    let source = Source::from_bytes(
        message,
        prost_reflect::ReflectMessage::descriptor(&FileDescriptorProto::default()),
    );
    let options = options(Profile::TensorFlow)
        .max_chunk_size(200)
        .compression(Compression::None);
    let mut bytes = Vec::new();
    let written = SizeSplitter
        .write_to_with(&source, &mut bytes, &options)
        .unwrap();
    let root = written.merkle_root.unwrap();
    let chunks = written.chunks.len();
    assert!(chunks > 10_000);
    let most = u64::from((chunks - 1).ilog2() + 1);
    let opened = || {
        ChunkedFile::from_source(Counted(bytes.clone(), AtomicU64::new(0)), &Limits::new()).unwrap()
    };
    let count = |file: &ChunkedFile<Counted>, chunk: usize| {
        let source = file.record_file().get_ref().get_ref().unwrap();
        let before = source.1.load(Ordering::Relaxed);
        io::copy(&mut file.stream(chunk).unwrap(), &mut io::sink()).unwrap();
        source.1.load(Ordering::Relaxed) - before
    };
    for chunk in [0, 1, chunks / 2, chunks / 3, 2 * chunks / 3] {
        let (plain, checked) = (opened(), opened());
        checked.require_root(&root).unwrap();
        let more = count(&checked, chunk) - count(&plain, chunk);
        assert!(
            more <= 32 * most,
            "chunk {chunk}: {more} bytes, {most} levels"
        );
        // Checking the neighbor reads no more hashes, since the hashes it needs are already known.
        let neighbor = chunk ^ 1;
        // Neighbors may be read ahead, either by the plain reader or by both.
        let (checked, plain) = (count(&checked, neighbor), count(&plain, neighbor));
        assert!(
            checked <= plain,
            "chunk {neighbor}: {checked} bytes, not {plain}"
        );
    }
}

#[test]
fn all_ways_to_read_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.cpb");
    let message = message(9);
    let root = write(
        &message,
        &path,
        &options(Profile::TensorFlow).compression(Compression::None),
    );
    let file = ChunkedFile::open(&path).unwrap();
    file.require_root(&root).unwrap();
    file.require_root(&root).unwrap();
    assert_eq!(
        file.get(&"3[4]".parse().unwrap()).unwrap(),
        message.dependency[4].as_bytes()
    );
    let mut buffer = vec![0; message.encoded_len()];
    file.merge_into(&mut buffer, &ReadOptions::new()).unwrap();
    assert_eq!(buffer, message.encode_to_vec());
    let merged = MergedMessage::new(file, None).unwrap();
    let mut buffer = vec![0; message.encoded_len()];
    merged.read_exact_at(0, &mut buffer).unwrap();
    assert_eq!(buffer, message.encode_to_vec());
    // A reader that doesn't require a Merkle root also reads the file.
    let read: FileDescriptorProto = Merger::new().read(&path).unwrap();
    assert_eq!(read, message);
}
