//! Tests that results have the same bytes for any number of threads and any way of splitting and
//! merging.

use std::fs::{self, File};
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use prost_reflect::MessageDescriptor;
use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::{ChunkStore, MergeOptions, MergePlan, Merger, ReadOptions};
use proto_splitter::progress::Progress;
use proto_splitter::record_file::{RecordReader, RecordWriter};
use proto_splitter::split::{
    ChunkCompression, SizeSplitter, Source, SourceView, Split, SplitExt, SplitOptions, SplitPlan,
    Written, WrittenStream,
};
use proto_splitter::view::MessageView;
use proto_splitter::{Error, SAVED_MODEL, SavedModelDir, SavedModelSplitter};
use proto_splitter_testkit::generate::{Habits, Order, Random, kitchen_sink, message};
use proto_splitter_testkit::models::{Parts, constant, small_node};

pub(crate) const THREADS: [usize; 4] = [1, 2, 3, 8];

fn threads(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

pub(crate) fn descriptor() -> MessageDescriptor {
    proto_splitter::proto::saved_model::descriptor_pool()
        .get_message_by_name(SAVED_MODEL)
        .unwrap()
}

/// Returns a model of 14 MB. It has large constants, which wait in a temporary file while others
/// are compressed; two of them are equal. It is also split into many small chunks.
pub(crate) fn model() -> Bytes {
    let mut graph = Parts::new();
    for index in 0..3000 {
        graph = graph.message(1, small_node(index));
    }
    let large = [1, 2, 1, 3];
    for (index, seed) in large.into_iter().enumerate() {
        graph = graph.message(1, constant(&format!("large_{index}"), seed, 3 << 20));
    }
    for seed in 10..50 {
        graph = graph.message(1, constant(&format!("small_{seed}"), seed, 20_000));
    }
    let meta_graph = Parts::new().message(2, graph);
    let mut bytes = Vec::new();
    let model = Parts::new().varint(1, 1).message(2, meta_graph);
    model.write_to(&mut bytes).unwrap();
    bytes.into()
}

pub(crate) fn split_options(how: ChunkCompression, count: usize) -> SplitOptions {
    SplitOptions::new()
        .max_chunk_size(64 << 10)
        .value_chunk_size(Some(10_000))
        .compression(how)
        .threads(threads(count))
        .force(true)
}

fn split(source: &Source, prefix: &Path, how: ChunkCompression, count: usize) -> Vec<u8> {
    let written = SavedModelSplitter
        .write_with(source, prefix, &split_options(how, count))
        .unwrap();
    assert!(written.chunks.iter().any(|chunk| chunk.same_as.is_some()));
    fs::read(written.path).unwrap()
}

/// Checks that plans, files and options can be sent to and shared with other threads, and that
/// readers and writers of records can be sent to them.
#[test]
fn plans_files_and_options_go_from_thread_to_thread() {
    fn check<T: Send + Sync + Clone>() {}
    fn check_uncloned<T: Send + Sync>() {}
    fn check_sent<T: Send>() {}
    check::<Source>();
    check::<SplitOptions>();
    check::<SplitPlan>();
    check::<Split>();
    check::<Written>();
    check::<WrittenStream>();
    check::<SourceView>();
    check::<ReadOptions>();
    check::<MergeOptions>();
    check::<MergePlan>();
    check::<Progress>();
    check_uncloned::<ChunkedFile>();
    check_uncloned::<MessageView<'_>>();
    check_uncloned::<SavedModelDir>();
    check_uncloned::<Error>();
    check_sent::<RecordReader<File>>();
    check_sent::<RecordWriter<File>>();
}

#[test]
fn a_file_is_the_same_on_any_number_of_threads() {
    let source = Source::from_bytes(model(), descriptor());
    for how in ["none", "auto", "zstd:1", "brotli:2", "snappy"] {
        let how: ChunkCompression = how.parse().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("model");
        let one = split(&source, &prefix, how, 1);
        for count in &THREADS[1..] {
            assert!(
                split(&source, &prefix, how, *count) == one,
                "{how} on {count} threads"
            );
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(
            Merger::new().merge_to_bytes(&prefix).unwrap() == model(),
            "{how}"
        );
    }
}

#[test]
fn a_split_is_the_same_from_memory_from_a_file_and_from_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let [prefix, path] = ["model", "source.pb"].map(|name| folder.path().join(name));
    fs::write(&path, model()).unwrap();
    let file = || Arc::new(File::open(&path).unwrap());
    let size = model().len() as u64;
    let sources = [
        Source::from_bytes(model(), descriptor()),
        Source::open(&path, descriptor()).unwrap(),
        Source::from_reader(file(), size, descriptor()),
    ];
    for how in ["none", "zstd:1"] {
        let how: ChunkCompression = how.parse().unwrap();
        let [memory, from_file, reader] = [0, 1, 2].map(|at| split(&sources[at], &prefix, how, 2));
        assert!(memory == from_file && memory == reader, "{how}");
        // Chunks that are returned in memory, without a file, also have the same bytes.
        let chunked = ChunkedFile::open(prefix.with_extension("cpb")).unwrap();
        let in_memory = SavedModelSplitter
            .split_with(&sources[1], &split_options(how, 3))
            .unwrap();
        assert_eq!(in_memory.chunks.len(), chunked.len());
        for (chunk, bytes) in in_memory.bytes().iter().enumerate() {
            let mut stored = Vec::new();
            chunked
                .stream(chunk)
                .unwrap()
                .read_to_end(&mut stored)
                .unwrap();
            assert!(stored == *bytes, "{how}: chunk {chunk}");
        }
    }
}

#[test]
fn a_part_is_the_same_to_memory_into_a_buffer_and_to_a_stream_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("model");
    let source = Source::from_bytes(model(), descriptor());
    let whole = model();
    let plain = MessageView::of_plain(&whole, ReadOptions::new()).unwrap();
    for how in ["none", "zstd:1"] {
        split(&source, &prefix, how.parse().unwrap(), 2);
        let file = ChunkedFile::open(prefix.with_extension("cpb")).unwrap();
        for path in ["", "2[0]", "2[0].2", "2[0].2.1[3001].5[\"value\"].8.4"] {
            let path = path.parse().unwrap();
            let expected = plain.get(&path).unwrap();
            for count in THREADS {
                let view = file.view(ReadOptions::new().threads(threads(count)));
                assert!(view.get(&path).unwrap() == expected, "{path:?} on {count}");
                let mut buffer = vec![1; expected.len()];
                assert_eq!(view.get_into(&path, &mut buffer).unwrap(), expected.len());
                assert!(buffer == expected, "{path:?} into a buffer on {count}");
                let mut streamed = Vec::new();
                view.get_to(&path, &mut streamed).unwrap();
                assert!(streamed == expected, "{path:?} to a stream on {count}");
            }
        }
    }
}

#[test]
fn a_merge_is_the_same_to_memory_to_a_file_and_to_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let [prefix, target] = ["model", "merged.pb"].map(|name| folder.path().join(name));
    let source = Source::from_bytes(model(), descriptor());
    for how in ["none", "zstd:1"] {
        split(&source, &prefix, how.parse().unwrap(), 2);
        for count in THREADS {
            let options = ReadOptions::new().threads(threads(count));
            let to_file = Merger::new()
                .options(MergeOptions::from(&options).force(true))
                .merge_to_file(&prefix, &target)
                .unwrap();
            assert_eq!(to_file.byte_exact, Some(true));
            assert!(fs::read(&target).unwrap() == model(), "{how} to a file");

            let to_memory = Merger::new()
                .options(&options)
                .merge_to_bytes(&prefix)
                .unwrap();
            assert!(to_memory == model(), "{how} to memory");

            let file = ChunkedFile::open(prefix.with_extension("cpb")).unwrap();
            let mut into = vec![1; model().len()];
            assert_eq!(
                file.merge_into(&mut into, &options).unwrap().crc32c,
                to_file.crc32c
            );
            assert!(into == model(), "{how} into a buffer");

            let mut streamed = Vec::new();
            let merged = file.merge_to(&mut streamed, &options).unwrap();
            assert_eq!(merged.crc32c, to_file.crc32c);
            assert!(streamed == model(), "{how} to a stream");
        }
    }
}

#[test]
fn messages_made_at_random_give_the_same_file_and_the_same_merge_on_any_number_of_threads() {
    let descriptor = kitchen_sink();
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("message");
    let mut cut = 0;
    for seed in 0..200 {
        let random = &mut Random::new(seed);
        let habits = Habits {
            order: Order::Shuffled,
            odd_wire: random.one_in(2),
            repeats: random.one_in(2),
            size: 500 + random.below(5000),
        };
        let bytes = message(&descriptor, random, &habits);
        let source = Source::from_bytes(bytes, descriptor.clone());
        let options = SplitOptions::new()
            .max_chunk_size(30 + random.below(2000))
            .value_chunk_size(Some(1 + random.below(400)))
            .force(true);
        let files = THREADS.map(|count| {
            let options = options.clone().threads(threads(count));
            let written = SizeSplitter.write_with(&source, &prefix, &options).ok()?;
            let merge = |count| {
                let options = ReadOptions::new().threads(threads(count));
                Merger::new()
                    .options(&options)
                    .merge_to_bytes(&prefix)
                    .unwrap()
            };
            assert!(merge(1) == merge(3), "seed {seed}");
            cut += u64::from(written.is_split);
            Some(fs::read(written.path).unwrap())
        });
        assert!(files.iter().all(|file| *file == files[0]), "seed {seed}");
    }
    assert!(cut > 400, "{cut}");
}
