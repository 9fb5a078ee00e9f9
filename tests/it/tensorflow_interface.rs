//! Tests of the behavior that TensorFlow's RFC describes for splitters and `Merger`, and that
//! TensorFlow's own tests don't cover.

use bytes::Bytes;
use proto_splitter::merge::{Merger, ReadOptions};
use proto_splitter::path::FieldPath;
use proto_splitter::prost::Message;
use proto_splitter::proto::graph_def::{GraphDef, NodeDef};
use proto_splitter::record_file::CompressionKind;
use proto_splitter::split::{
    AddedChunk, ComposableSplitter, Profile, SizeSplitter, Source, SplitContext, SplitExt,
    SplitOptions,
};
use proto_splitter::{ChunkedFile, ErrorKind, GRAPH_DEF, Result, VersionDef};

use crate::fixtures::descriptor;

fn node(name: &str) -> NodeDef {
    NodeDef {
        name: name.to_owned(),
        op: "o".repeat(200),
        ..NodeDef::default()
    }
}

fn graph(nodes: usize) -> GraphDef {
    GraphDef {
        node: (0..nodes).map(|at| node(&format!("node {at}"))).collect(),
        ..GraphDef::default()
    }
}

/// A splitter that adds two nodes as chunks, and writes the given versions.
struct Adding {
    has_message: bool,
    version: VersionDef,
}

impl ComposableSplitter for Adding {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        if !self.has_message {
            cx.leave_out_message()?;
        }
        for at in 0..2 {
            let chunk = AddedChunk::Message(node(&format!("added {at}")).encode_to_vec().into());
            let path = FieldPath::parse(&format!("node[{at}]"), &descriptor(GRAPH_DEF))?;
            cx.add_chunk(chunk, &path, None)?;
        }
        Ok(())
    }

    fn version_def(&self) -> VersionDef {
        self.version.clone()
    }
}

fn adding(version: VersionDef) -> Adding {
    Adding {
        has_message: false,
        version,
    }
}

fn source(bytes: impl Into<Bytes>) -> Source {
    Source::from_bytes(bytes.into(), descriptor(GRAPH_DEF))
}

#[test]
fn chunks_are_merged_by_their_chunked_message_alone() {
    let graph = graph(20);
    let options = SplitOptions::new().max_chunk_size(700);
    let split = SizeSplitter
        .split_with(source(graph.encode_to_vec()), &options)
        .unwrap();
    assert!(split.chunks.len() > 3);
    let (chunks, message) = (split.bytes(), split.message());
    let error = Merger::new().merge(&chunks, &message).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaNeeded);
    let merger = Merger::new().options(ReadOptions::new().descriptor(descriptor(GRAPH_DEF)));
    let merged = merger.merge(&chunks, &message).unwrap();
    assert_eq!(GraphDef::decode(merged).unwrap(), graph);
    let error = merger.merge(&chunks[1..], &message).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidTrailer);
}

#[test]
fn values_among_the_chunks_are_known_by_their_places() {
    let mut graph = graph(2);
    graph.node[1].op = "o".repeat(5000);
    let options = SplitOptions::new().max_chunk_size(1000);
    let split = SizeSplitter
        .split_with(source(graph.encode_to_vec()), &options)
        .unwrap();
    let merger = Merger::new().options(ReadOptions::new().descriptor(descriptor(GRAPH_DEF)));
    let merged = merger.merge(&split.bytes(), &split.message()).unwrap();
    assert_eq!(GraphDef::decode(merged).unwrap(), graph);
}

#[test]
fn a_message_may_be_left_out_of_the_chunks() {
    let split = adding(VersionDef::default())
        .split_with(source(Bytes::new()), &SplitOptions::new())
        .unwrap();
    assert_eq!((split.chunks.len(), split.message().chunk_index), (2, None));
    let merger = Merger::new().options(ReadOptions::new().descriptor(descriptor(GRAPH_DEF)));
    let merged = merger.merge(&split.bytes(), &split.metadata).unwrap();
    let merged = GraphDef::decode(merged).unwrap();
    assert_eq!(merged.node, [node("added 0"), node("added 1")]);

    let error = adding(VersionDef::default())
        .split_with(source(graph(1).encode_to_vec()), &SplitOptions::new())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("in no chunk"), "{error}");
}

#[test]
fn a_splitter_gives_all_versions_of_its_files() {
    let version = VersionDef {
        splitter_version: 7,
        join_version: 0,
        bad_consumers: vec![9, -1],
    };
    for (profile, join_version) in [(Profile::TensorFlow, 0), (Profile::Extended, 1)] {
        let options = SplitOptions::new().profile(profile);
        let split = adding(version.clone())
            .split_with(source(Bytes::new()), &options)
            .unwrap();
        let expected = VersionDef {
            join_version,
            ..version.clone()
        };
        assert_eq!(split.metadata.version, Some(expected));
    }
    for (join_version, bad) in [(1, 9), (-1, 9), (0, 0), (0, 1)] {
        let refused = VersionDef {
            join_version,
            bad_consumers: vec![bad],
            ..version.clone()
        };
        let error = adding(refused)
            .split_with(source(Bytes::new()), &SplitOptions::new())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    }
}

#[test]
fn records_are_written_as_an_option_string_says() {
    let graph = graph(400).encode_to_vec();
    let folder = tempfile::tempdir().unwrap();
    let options = SplitOptions::new().max_chunk_size(20_000).force(true);
    let mut sizes = Vec::new();
    for (text, kind) in [
        ("zstd:3", CompressionKind::Zstd),
        ("transpose,zstd:3", CompressionKind::Zstd),
        ("transpose,uncompressed", CompressionKind::None),
        ("brotli:5,chunk_size:1K,transpose", CompressionKind::Brotli),
    ] {
        let options = options.clone().records(text.parse().unwrap());
        let prefix = folder.path().join("graph");
        let written = SizeSplitter
            .write_with(source(graph.clone()), &prefix, &options)
            .unwrap();
        assert!(written.chunks.iter().all(|chunk| chunk.compression == kind));
        let merged = Merger::new().merge_to_bytes(&prefix).unwrap();
        assert!(merged == graph, "{text}");
        let file = ChunkedFile::open(&written.path).unwrap();
        let stored: Vec<_> = written
            .chunks
            .iter()
            .map(|chunk| Some(chunk.stored_size))
            .collect();
        let found = file.summaries().unwrap();
        assert!(
            found.iter().map(|chunk| chunk.stored_size).eq(stored),
            "{text}"
        );
        let mut stream = Vec::new();
        let options = options.threads(std::num::NonZeroUsize::MIN);
        SizeSplitter
            .write_to_with(source(graph.clone()), &mut stream, &options)
            .unwrap();
        assert_eq!(stream.len() as u64, written.output_size, "{text}");
        sizes.push(written.output_size);
    }
    assert!(sizes[1] < sizes[0], "{sizes:?}");
    let several = options
        .profile(Profile::Extended)
        .max_file_size(Some(1 << 20))
        .records("transpose".parse().unwrap());
    let error = SizeSplitter.plan(source(graph), &several).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}
