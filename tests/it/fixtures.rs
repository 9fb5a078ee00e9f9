use std::path::{Path, PathBuf};

use prost_reflect::MessageDescriptor;
use proto_splitter::container::ChunkKind;
use proto_splitter::merge::Merger;
use proto_splitter::split::{Source, SplitExt, SplitOptions};
use proto_splitter::{ErrorKind, GraphDefSplitter, SAVED_MODEL, SavedModelSplitter};
pub(crate) use proto_splitter_testkit::fixtures::MESSAGES as MODELS;
use proto_splitter_testkit::splits::{self, Outcome};

/// Returns the path of a file in `tests/data`.
pub(crate) fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(path)
}

pub(crate) fn descriptor(name: &str) -> MessageDescriptor {
    let pool = proto_splitter::proto::saved_model::descriptor_pool();
    pool.get_message_by_name(name).unwrap()
}

fn check(message: &str, source: &Source, bytes: &[u8], options: &SplitOptions) -> Outcome {
    match message {
        SAVED_MODEL => splits::check(&SavedModelSplitter, source, bytes, options),
        _ => splits::check(&GraphDefSplitter, source, bytes, options),
    }
}

#[test]
fn every_model_goes_through_split_and_merge_byte_for_byte() {
    for (file, message) in MODELS {
        let bytes = std::fs::read(data("tensorflow").join(file)).unwrap();
        let source = Source::from_bytes(bytes.clone(), descriptor(message));
        for max in [1 << 10, 10 << 10, 100 << 10, 1 << 30] {
            for value in [None, Some(64), Some(1 << 20)] {
                let options = SplitOptions::new()
                    .max_chunk_size(max)
                    .value_chunk_size(value);
                let Outcome::Split(split) = check(message, &source, &bytes, &options) else {
                    panic!("{file} at {max} can be cut");
                };
                assert!(split.byte_exact(), "{file} at {max}");
                let merged = Merger::new().merge(&split.bytes(), &split.metadata);
                assert!(merged.unwrap() == bytes, "{file} at {max}");
            }
        }
    }
}

#[test]
fn what_can_not_be_cut_is_named_with_its_path_and_size() {
    let bytes = std::fs::read(data("tensorflow/keras_mlp/saved_model.pb")).unwrap();
    let source = Source::from_bytes(bytes, descriptor(SAVED_MODEL));
    let options = SplitOptions::new().max_chunk_size(1000);
    let error = SavedModelSplitter.plan(source, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncuttable);
    assert_eq!(
        error.to_string(),
        "meta_graphs[0].graph_def.node[41].attr[\"value\"].tensor.string_val[0]: 1002 bytes that can't be cut, over the maximum \
         chunk size of 1000 bytes; the profile `extended` may cut it"
    );
}

#[test]
fn no_chunk_is_put_at_a_meta_graph() {
    for (file, message) in MODELS.iter().filter(|(_, message)| *message == SAVED_MODEL) {
        let source = Source::open(data("tensorflow").join(file), descriptor(message)).unwrap();
        let options = SplitOptions::new().max_chunk_size(1 << 10);
        let plan = SavedModelSplitter.plan(source, &options).unwrap();
        for chunk in plan.chunks() {
            let steps = chunk.path().steps().len();
            assert_ne!(
                steps,
                1,
                "{file}: TensorFlow can't fingerprint a chunk at {}",
                chunk.path()
            );
            assert!(chunk.kind() == ChunkKind::Bytes || chunk.size() <= 1 << 10);
        }
    }
}

#[test]
fn the_sources_of_a_file_and_of_memory_are_split_alike() {
    for (file, message) in MODELS {
        let path = data("tensorflow").join(file);
        let options = SplitOptions::new()
            .max_chunk_size(10 << 10)
            .value_chunk_size(Some(100));
        let plan = |source: Source| match message {
            SAVED_MODEL => SavedModelSplitter.plan(source, &options).unwrap(),
            _ => GraphDefSplitter.plan(source, &options).unwrap(),
        };
        let from_file = plan(Source::open(&path, descriptor(message)).unwrap());
        let from_memory = plan(Source::from_bytes(
            std::fs::read(&path).unwrap(),
            descriptor(message),
        ));
        assert_eq!(from_file.to_string(), from_memory.to_string());
        assert_eq!(
            format!("{:?}", from_file.chunks()),
            format!("{:?}", from_memory.chunks())
        );
    }
}
