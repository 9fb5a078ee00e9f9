//! Tests of the number of bytes that a plan, a read of a value, a split and a merge read from their
//! source.

use std::fs;
use std::ops::Range;
use std::sync::Arc;

use prost_reflect::MessageDescriptor;
use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::{ChunkStore, Limits, ReadOptions};
use proto_splitter::path::FieldPath;
use proto_splitter::record_file::Compression;
use proto_splitter::split::{ChunkCompression, Source, SplitExt, SplitOptions};
use proto_splitter::view::MessageView;
use proto_splitter::{SAVED_MODEL, SavedModelSplitter};
use proto_splitter_testkit::models::{ModelSize, saved_model};
use proto_splitter_testkit::sources::{Reads, Sparse, Watched};

fn descriptor() -> MessageDescriptor {
    proto_splitter::proto::saved_model::descriptor_pool()
        .get_message_by_name(SAVED_MODEL)
        .unwrap()
}

fn bytes_read(reads: &[Range<u64>]) -> u64 {
    reads.iter().map(|read| read.end - read.start).sum()
}

/// Returns the number of bytes in the range `of` that weren't read.
fn unread(reads: &[Range<u64>], of: Range<u64>) -> u64 {
    let mut reads = reads.to_vec();
    reads.sort_by_key(|read| read.start);
    let (mut missing, mut at) = (0, of.start);
    for read in reads.into_iter().chain(std::iter::once(of.end..of.end)) {
        let start = read.start.min(of.end);
        missing += start.saturating_sub(at);
        at = at.max(read.end);
    }
    missing
}

/// Returns a `Const` node whose `tensor_content` consists of `len` zeros.
fn constant(name: &str, len: u64) -> Sparse {
    let tensor = Sparse::default()
        .bytes([8, 1])
        .and(Sparse::default().zeros(len).field(4));
    let value = Sparse::default()
        .and(Sparse::default().bytes("value").field(1))
        .and(tensor.field(8).field(2));
    Sparse::default()
        .and(Sparse::default().bytes(name).field(1))
        .and(Sparse::default().bytes("Const").field(2))
        .and(value.field(5))
        .field(1)
}

/// Returns a SavedModel of 3 GiB: twelve constants of 256 MiB, which consist of zeros.
fn three_gib() -> Sparse {
    let mut graph = Sparse::default();
    for index in 0..12 {
        graph = graph.and(constant(&format!("weights_{index}"), 256 << 20));
    }
    let model = Sparse::default().bytes([8, 1]).and(graph.field(2).field(2));
    assert!(model.len() > 3 << 30);
    model
}

#[test]
fn three_gib_of_constants_are_planned_by_reading_less_than_a_mib() {
    let model = three_gib();
    let size = model.len();
    let (watched, reads) = Watched::new(model);
    let source = Source::from_reader(Arc::new(watched), size, descriptor());
    let options = SplitOptions::new().max_chunk_size(64 << 20);
    let plan = SavedModelSplitter.plan(source, &options).unwrap();
    assert_eq!(plan.chunks().len(), 13);
    let reads = reads.take();
    assert!(bytes_read(&reads) < 1 << 20, "{reads:?}");
}

#[test]
fn small_nodes_are_planned_by_reading_each_once() {
    let mut bytes = Vec::new();
    let size = ModelSize {
        constants: 0,
        functions: 0,
        constant_bytes: 0,
        small_nodes: 100_000,
    };
    saved_model(&size).write_to(&mut bytes).unwrap();
    let size = bytes.len() as u64;
    let (watched, reads) = Watched::new(bytes);
    let source = Source::from_reader(Arc::new(watched), size, descriptor());
    let options = SplitOptions::new().max_chunk_size(1 << 20);
    let plan = SavedModelSplitter.plan(source, &options).unwrap();
    assert!(plan.chunks().len() > 8);
    let reads = reads.take();
    // Each node is read once. Nodes at the ends of slices may be read again.
    assert!(bytes_read(&reads) < size * 5 / 4, "{}", bytes_read(&reads));
    assert!(reads.len() < 500, "{}", reads.len());
}

const CONSTANTS: u64 = 4;
const CONSTANT: u64 = 4 << 20;

/// Size of the header at the start of each block of 64 KiB in a record file, in bytes.
const BLOCK_HEADER: u64 = 24;

/// Returns a serialized SavedModel with four constants of 4 MiB.
fn with_constants() -> Vec<u8> {
    let mut bytes = Vec::new();
    let size = ModelSize {
        constants: CONSTANTS,
        functions: 0,
        constant_bytes: CONSTANT,
        small_nodes: 100,
    };
    saved_model(&size).write_to(&mut bytes).unwrap();
    bytes
}

/// Returns a chunked file with the model from [`with_constants`], a list of the reads from the
/// file, and the file's size in bytes.
fn chunked() -> (ChunkedFile<Watched<Vec<u8>>>, Reads, u64) {
    let folder = tempfile::tempdir().unwrap();
    let options = SplitOptions::new()
        .max_chunk_size(1 << 20)
        .compression(Compression::None);
    let source = Source::from_bytes(with_constants(), descriptor());
    let written = SavedModelSplitter
        .write_with(source, folder.path().join("model"), &options)
        .unwrap();
    let (watched, reads) = Watched::new(fs::read(written.path).unwrap());
    let file = ChunkedFile::from_source(watched, &Limits::default()).unwrap();
    (file, reads, written.output_size)
}

#[test]
fn a_scalar_is_read_without_any_constant() {
    let (file, reads, _) = chunked();
    let opened = bytes_read(&reads.take());
    let path: FieldPath = "2[0].2.1[3].1".parse().unwrap();
    assert_eq!(&file.get(&path).unwrap()[..], b"layer_3/add_3");
    let read = bytes_read(&reads.take());
    assert!(opened + read < 400 << 10, "{opened} to open and {read}");
}

#[test]
fn a_scalar_of_three_gib_is_read_by_reading_less_than_two_mib() {
    let name: FieldPath = "2[0].2.1[11].1".parse().unwrap();
    let is_name = |value: &[u8]| assert_eq!(value, b"weights_11");
    let model = three_gib();
    let size = model.len();
    let (plain, reads) = Watched::new(model.clone());
    let view = MessageView::of_plain(&plain, ReadOptions::new()).unwrap();
    is_name(&view.get(&name).unwrap());
    assert!(bytes_read(&reads.take()) < 2 << 20);

    // The constants are equal, so they are stored once. The reader doesn't make use of this.
    let folder = tempfile::tempdir().unwrap();
    let options = SplitOptions::new()
        .max_chunk_size(64 << 20)
        .compression(Compression::None);
    let source = Source::from_reader(Arc::new(model), size, descriptor());
    let written = SavedModelSplitter
        .write_with(source, folder.path().join("model"), &options)
        .unwrap();
    assert_eq!(written.chunks.len(), 13);
    let (watched, reads) = Watched::new(fs::File::open(written.path).unwrap());
    let file = ChunkedFile::from_source(watched, &Limits::default()).unwrap();
    is_name(&file.get(&name).unwrap());
    let reads = reads.take();
    assert!(bytes_read(&reads) < 2 << 20, "{reads:?}");
}

#[test]
fn a_constant_is_read_once_and_no_other_is() {
    let (file, reads, _) = chunked();
    reads.take();
    let path: FieldPath = "2[0].2.1[101].5[\"value\"].8.4".parse().unwrap();
    let value = file.get(&path).unwrap();
    assert_eq!(value.len() as u64, CONSTANT);
    let taken = reads.take();
    let extra = 400 << 10;
    assert!(
        bytes_read(&taken) < CONSTANT + extra,
        "{}",
        bytes_read(&taken)
    );
    let trailer = file.trailer();
    let large = (0..trailer.metadata().chunks.len()).filter(|&chunk| file.size(chunk) == CONSTANT);
    let touched = large
        .filter(|&chunk| {
            let begin = file.position(chunk).unwrap().chunk_begin().0;
            let inside = begin + 1000..begin + CONSTANT;
            taken
                .iter()
                // Ignores reads of a block header, which may be inside a chunk but contains none of
                // the chunk's data.
                .filter(|read| read.end - read.start > BLOCK_HEADER)
                .any(|read| read.start < inside.end && inside.start < read.end)
        })
        .count();
    assert_eq!(touched, 1, "{taken:?}");
}

#[test]
fn a_merge_reads_every_byte_of_the_file_about_once() {
    let (file, reads, size) = chunked();
    reads.take();
    let mut out = vec![0; usize::try_from(CONSTANTS * CONSTANT).unwrap() + (1 << 20)];
    let merged = file.merge_into(&mut out, &ReadOptions::new()).unwrap();
    assert!(merged.size > CONSTANTS * CONSTANT);
    let taken = reads.take();
    assert!(
        bytes_read(&taken) < size + (400 << 10),
        "{}",
        bytes_read(&taken)
    );
    // The merge reads everything except both ends of the file, which were read when it was opened.
    assert!(
        unread(&taken, 0..size) <= (64 + 256) << 10,
        "all of the file"
    );
}

#[test]
fn a_split_reads_every_byte_of_the_source_about_once() {
    let bytes = with_constants();
    let size = bytes.len() as u64;
    for compression in ["none", "zstd:1", "auto"] {
        let folder = tempfile::tempdir().unwrap();
        let options = SplitOptions::new()
            .max_chunk_size(1 << 20)
            .compression(compression.parse::<ChunkCompression>().unwrap());
        let (watched, reads) = Watched::new(bytes.clone());
        let source = Source::from_reader(Arc::new(watched), size, descriptor());
        SavedModelSplitter
            .write_with(source, folder.path().join("model"), &options)
            .unwrap();
        let taken = reads.take();
        assert_eq!(unread(&taken, 0..size), 0, "{compression}");
        // `auto` also reads a part of every chunk to try compressing it.
        let extra = (400 << 10) + CONSTANTS * (256 << 10);
        let read = bytes_read(&taken);
        assert!(read < size + extra, "{compression}: {read} of {size}");
    }
}

#[test]
fn a_view_is_had_of_a_prefix_in_either_form() {
    let folder = tempfile::tempdir().unwrap();
    let path: FieldPath = "2[0].2.1[3].1".parse().unwrap();
    for (name, max, is_split) in [("chunks", 1 << 20, true), ("whole", 1 << 30, false)] {
        let prefix = folder.path().join(name);
        let source = Source::from_bytes(with_constants(), descriptor());
        let options = SplitOptions::new().max_chunk_size(max);
        let written = SavedModelSplitter
            .write_with(source, &prefix, &options)
            .unwrap();
        assert_eq!(written.is_split, is_split);
        let opened = proto_splitter::open(&prefix).unwrap();
        let view = opened.view().unwrap();
        assert_eq!(&view.get(&path).unwrap()[..], b"layer_3/add_3", "{name}");
    }
}
