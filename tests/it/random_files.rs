//! Tests of files with random messages of random types, with any profile, cuts, number of files and
//! number of threads.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::Path;

use prost::Message;
use prost_reflect::DynamicMessage;
use proto_splitter::ErrorKind;
use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::{Merger, ReadOptions};
use proto_splitter::proto::proto_splitter::ChunkMetadata;
use proto_splitter::record_file::{ReaderOptions, RecordFile};
use proto_splitter::split::{
    ChunkCompression, LEAST_MAX_FILE_SIZE, Profile, SizeSplitter, Source, SplitExt, SplitOptions,
    Written,
};
use proto_splitter_testkit::generate::{Habits, Order, Random, cases, message};
use proto_splitter_testkit::schemas::{Schema, schema};

/// Default number of random messages.
const CASES: u64 = 400;

/// Number of messages for each random schema, since generating a schema takes as long as generating
/// several messages.
const OF_ONE_SCHEMA: u64 = 5;

/// Number of messages with each outcome.
#[derive(Debug, Default)]
struct Tally {
    split: u64,
    byte_exact: u64,
    several_files: u64,
    chunked_trailers: u64,
    refused: u64,
}

#[test]
fn any_message_comes_back_from_its_files_by_every_way_on_any_number_of_threads() {
    let mut tally = Tally::default();
    for seed in 0..cases(CASES).div_ceil(OF_ONE_SCHEMA) {
        let random = &mut Random::new(seed ^ 11 << 32);
        let schema = schema(random);
        for _ in 0..OF_ONE_SCHEMA {
            round_trip(&schema, random, &mut tally);
        }
    }
    let some = cases(CASES) / 20;
    assert!(tally.split > cases(CASES) / 3, "{tally:?}");
    assert!(tally.byte_exact > tally.split / 2, "{tally:?}");
    assert!(tally.several_files > some, "{tally:?}");
    assert!(tally.chunked_trailers > some, "{tally:?}");
    assert!(tally.refused < cases(CASES) / 2, "{tally:?}");
}

fn threads(random: &mut Random) -> NonZeroUsize {
    NonZeroUsize::new(2 + usize::try_from(random.below(7)).unwrap()).unwrap()
}

fn options(random: &mut Random) -> SplitOptions {
    let profile = *random.choose(&[Profile::TensorFlow, Profile::Extended, Profile::Extended]);
    let compression = *random.choose(&["none", "auto", "zstd:1", "brotli:1", "snappy"]);
    // Allows either a few large chunks, or so many small chunks that the trailer exceeds the
    // maximum chunk size and is chunked, too.
    let files = profile == Profile::Extended && random.one_in(2);
    let max = if profile == Profile::Extended && !files {
        200 + random.below(800)
    } else {
        1000 + random.below(8000)
    };
    SplitOptions::new()
        .profile(profile)
        .max_chunk_size(max)
        .value_chunk_size((!random.one_in(2)).then(|| 1 + random.below(400)))
        .max_file_size(files.then(|| LEAST_MAX_FILE_SIZE + random.below(4000)))
        .compression(compression.parse::<ChunkCompression>().unwrap())
        .threads(threads(random))
}

fn round_trip(schema: &Schema, random: &mut Random, tally: &mut Tally) {
    let plain = random.one_in(2);
    let habits = Habits {
        order: if plain {
            Order::Ascending
        } else {
            *random.choose(&[Order::Ascending, Order::Descending, Order::Shuffled])
        },
        odd_wire: !plain && random.one_in(2),
        repeats: !plain && random.one_in(2),
        size: 4000 + random.below(40_000),
    };
    let bytes = message(&schema.root, random, &habits);
    let options = options(random);
    let about = || format!("{options:?} {habits:?}\n{schema:?}");
    let source = Source::from_bytes(bytes.clone(), schema.root.clone());
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("message");
    let written = match SizeSplitter.write_with(&source, &prefix, &options) {
        Ok(written) => written,
        Err(error) => {
            // The trailer must be in one file. If the maximum file size is small, the trailer may
            // exceed it.
            let limited = options.get_max_file_size().is_some();
            let refused = match error.kind() {
                ErrorKind::Uncuttable => true,
                ErrorKind::LimitExceeded => limited,
                _ => false,
            };
            assert!(refused, "{error}\n{}", about());
            assert!(contents(folder.path()).is_empty(), "{}", about());
            tally.refused += 1;
            return;
        }
    };
    let files = contents(folder.path());
    assert_eq!(files.len(), written.files.len() + 1, "{}", about());
    let one = tempfile::tempdir().unwrap();
    let alone = options.clone().threads(NonZeroUsize::MIN);
    SizeSplitter
        .write_with(&source, one.path().join("message"), &alone)
        .unwrap();
    assert!(contents(one.path()) == files, "{}", about());
    if options.get_max_file_size().is_none() {
        let mut stream = Vec::new();
        let streamed = SizeSplitter.write_to_with(&source, &mut stream, &options);
        assert_eq!(streamed.unwrap().is_split, written.is_split);
        assert!(files.into_values().eq([stream]), "{}", about());
    }
    if !written.is_split {
        assert!(fs::read(&written.path).unwrap() == bytes);
        return;
    }
    let merged = merged_by_every_way(&prefix, random, &about);
    if written.byte_exact {
        assert!(merged == bytes, "{}", about());
    } else {
        let decode = |bytes: &[u8]| DynamicMessage::decode(schema.root.clone(), bytes).unwrap();
        assert!(decode(&merged) == decode(&bytes), "{}", about());
    }
    count(&written, tally);
}

/// Returns the contents of all files in a folder, by file name.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    });
    files.collect()
}

/// Merges to new memory, to a buffer, to a stream and to a file, with one thread and several
/// threads. Checks that the results are equal, and returns the merged message.
fn merged_by_every_way(prefix: &Path, random: &mut Random, about: &dyn Fn() -> String) -> Vec<u8> {
    let path = prefix.with_extension("cpb");
    let fail = |error: proto_splitter::Error| -> ! { panic!("{error}\n{}", about()) };
    let mut first: Option<Vec<u8>> = None;
    for count in [NonZeroUsize::MIN, threads(random)] {
        let options = ReadOptions::new().threads(count);
        let file = ChunkedFile::open(&path).unwrap_or_else(|error| fail(error));
        let to_memory = file
            .merge_to_bytes(&options)
            .unwrap_or_else(|error| fail(error));
        let mut buffer = vec![1; to_memory.len()];
        file.merge_into(&mut buffer, &options)
            .unwrap_or_else(|error| fail(error));
        let mut stream = Vec::new();
        file.merge_to(&mut stream, &options)
            .unwrap_or_else(|error| fail(error));
        let target = prefix.with_extension("merged");
        Merger::new()
            .options(&options)
            .merge_to_file(prefix, &target)
            .unwrap_or_else(|error| fail(error));
        let to_file = fs::read(&target).unwrap();
        fs::remove_file(target).unwrap();
        let first = first.get_or_insert_with(|| to_memory.to_vec());
        for way in [&to_memory[..], &buffer, &stream, &to_file] {
            assert!(way == first.as_slice(), "{}", about());
        }
    }
    first.unwrap_or_default()
}

fn count(written: &Written, tally: &mut Tally) {
    let file = RecordFile::open(File::open(&written.path).unwrap(), ReaderOptions::new()).unwrap();
    let last = file.last_record().unwrap().unwrap();
    let trailer = ChunkMetadata::decode(file.read_record(last).unwrap()).unwrap();
    tally.split += 1;
    tally.byte_exact += u64::from(written.byte_exact);
    tally.several_files += u64::from(!written.files.is_empty());
    tally.chunked_trailers += u64::from(trailer.trailer_level > 0);
}
