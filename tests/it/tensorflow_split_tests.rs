//! Ports of TensorFlow's own tests for its splitters.

use proto_splitter::container::{ChunkKind, ChunkedFile};
use proto_splitter::merge::Merger;
use proto_splitter::path::Select;
use proto_splitter::split::{
    ComposableSplitter, Source, Split, SplitContext, SplitExt, SplitOptions,
};
use proto_splitter::{GRAPH_DEF, GraphDefSplitter, Result, SAVED_MODEL, SavedModelSplitter};
use proto_splitter_testkit::models::Parts;

use crate::fixtures::descriptor;

/// Returns a node of about `size` bytes. In a large node, most of these bytes are in a tensor.
fn node(index: usize, size: usize) -> Parts {
    let content = "c".repeat(size.saturating_sub(30));
    let tensor = Parts::new().varint(1, 1).text(4, &content);
    let value = Parts::new().message(8, tensor);
    let attr = Parts::new().text(1, "value").message(2, value);
    Parts::new()
        .text(1, &format!("n{index:03}"))
        .text(2, "Const")
        .message(5, attr)
}

fn nodes(field: u32, sizes: &[usize], mut message: Parts) -> Parts {
    for (index, &size) in sizes.iter().enumerate() {
        message = message.message(field, node(index, size));
    }
    message
}

fn graph(sizes: &[usize], functions: &[&[usize]]) -> Vec<u8> {
    let mut library = Parts::new();
    for function in functions {
        library = library.message(1, nodes(3, function, Parts::new()));
    }
    written(&nodes(1, sizes, Parts::new()).message(2, library))
}

fn written(parts: &Parts) -> Vec<u8> {
    let mut bytes = Vec::new();
    parts.write_to(&mut bytes).unwrap();
    bytes
}

fn split(splitter: &impl ComposableSplitter, bytes: &[u8], message: &str, max: u64) -> Split {
    let source = Source::from_bytes(bytes.to_vec(), descriptor(message));
    let options = SplitOptions::new().max_chunk_size(max);
    let split = splitter.split_with(source, &options).unwrap();
    for chunk in &split.chunks {
        let size = chunk.bytes.len() as u64;
        assert!(
            chunk.kind == ChunkKind::Bytes || size <= max,
            "{size} of {max}"
        );
    }
    let merged = Merger::new()
        .merge(&split.bytes(), &split.metadata)
        .unwrap();
    assert!(merged == bytes);
    split
}

#[test]
fn graphs_are_in_no_more_chunks_than_tensorflow_makes_of_them() {
    type Case = (&'static [usize], &'static [&'static [usize]], u64, usize);
    let cases: [Case; 8] = [
        // Small nodes, which fit in one chunk together.
        (&[50; 5], &[], 700, 1),
        // Large constants.
        (&[50, 50, 1000, 50, 1000], &[], 500, 3),
        // Many nodes.
        (&[95; 15], &[], 500, 5),
        // Large nodes.
        (&[50, 95, 95, 95, 50, 95], &[], 200, 5),
        // Functions with many nodes, or with large nodes.
        (&[], &[&[50; 5]], 200, 4),
        (&[], &[&[500, 500, 50, 500]], 200, 5),
        // A graph with functions, and an empty graph.
        (&[50; 6], &[&[50; 3], &[50], &[50]], 200, 7),
        (&[], &[], 10, 1),
    ];
    for (sizes, functions, max, most) in cases {
        let bytes = graph(sizes, functions);
        let split = split(&GraphDefSplitter, &bytes, GRAPH_DEF, max);
        assert!(
            split.chunks.len() <= most,
            "{sizes:?} {functions:?}: {}",
            split.chunks.len()
        );
        if (bytes.len() as u64) <= max {
            assert_eq!(split.chunks[0].bytes, bytes);
        }
    }
}

#[test]
fn a_large_constant_is_a_chunk_with_the_path_of_its_content() {
    let bytes = graph(&[50, 50, 1000, 50, 1000], &[]);
    let split = split(&GraphDefSplitter, &bytes, GRAPH_DEF, 500);
    let paths: Vec<String> = split.chunks[1..]
        .iter()
        .map(|chunk| chunk.path.display(Some(&descriptor(GRAPH_DEF))))
        .collect();
    let content = |index| format!("node[{index}].attr[\"value\"].tensor.tensor_content");
    assert_eq!(paths, [content(2), content(4)]);
    assert!(
        split.chunks[1..]
            .iter()
            .all(|chunk| chunk.bytes.len() == 970)
    );
}

#[test]
fn a_saved_model_of_all_sizes_of_nodes_is_within_the_maximum() {
    let functions: [&[usize]; 4] = [&[100; 3], &[1000], &[100, 500], &[50; 6]];
    let graph = graph(&[100, 100, 1000, 100, 1000, 500, 100, 100, 100], &functions);
    let meta_graph = [&b"\x12"[..], &length(&graph), &graph].concat();
    let model = [&b"\x08\x01\x12"[..], &length(&meta_graph), &meta_graph].concat();
    assert!(
        split(&SavedModelSplitter, &model, SAVED_MODEL, 500)
            .chunks
            .len()
            > 8
    );
    let whole = split(&SavedModelSplitter, &model, SAVED_MODEL, 80_000);
    assert_eq!(whole.chunks.len(), 1);
}

fn length(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    proto_splitter::wire::put_varint(&mut out, bytes.len() as u64);
    out
}

/// A splitter that lets a child splitter cut the attributes of every node.
struct Nodes;

impl ComposableSplitter for Nodes {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        for node in cx.message().repeated("node")? {
            cx.compose(&Attributes, &node?.view())?;
        }
        Ok(())
    }

    fn version(&self) -> i32 {
        7
    }
}

struct Attributes;

impl ComposableSplitter for Attributes {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        for entry in cx.message().map("attr")? {
            cx.cut(&entry?.1)?;
        }
        Ok(())
    }
}

#[test]
fn what_children_cut_is_added_to_their_parent_s_chunks() {
    for count in 0..5 {
        let bytes = graph(&vec![50; count], &[]);
        let split = split(&Nodes, &bytes, GRAPH_DEF, 1 << 20);
        assert_eq!(split.chunks.len(), 1 + count);
        assert_eq!(split.metadata.version.as_ref().unwrap().splitter_version, 7);
        for chunk in &split.chunks[1..] {
            let last = chunk.path.steps().last().unwrap();
            assert!(matches!(&last.select, Select::Key(key) if key.to_string() == "\"value\""));
        }
    }
}

#[test]
fn a_file_has_a_record_for_every_chunk_and_the_trailer_last() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("graph");
    let bytes = graph(&[50, 60, 70], &[]);
    let source = Source::from_bytes(bytes.clone(), descriptor(GRAPH_DEF));
    let written = Nodes.write(&source, &prefix).unwrap();
    assert_eq!(written.path, prefix.with_extension("cpb"));
    let file = ChunkedFile::open(&written.path).unwrap();
    let infos = &file.trailer().metadata().chunks;
    assert_eq!(infos.len(), 4);
    for (info, chunk) in infos.iter().zip(&written.chunks) {
        assert_eq!(
            (info.size, info.offset),
            (chunk.size, chunk.position.numeric())
        );
    }
    assert!(infos.windows(2).all(|pair| pair[0].offset < pair[1].offset));

    // A splitter that cuts nothing, so that its output is the message itself.
    struct Nothing;
    impl ComposableSplitter for Nothing {
        fn build_chunks(&self, _: &mut SplitContext<'_>) -> Result<()> {
            Ok(())
        }
    }
    let plain = folder.path().join("plain");
    let written = Nothing.write(&source, &plain).unwrap();
    assert_eq!(written.path, plain.with_extension("pb"));
    assert!(std::fs::read(written.path).unwrap() == bytes);
}
