use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::{Limits, ReadOptions};
use proto_splitter::path::FieldPath;
use proto_splitter::record_file::ReadAt;
use proto_splitter::size_tree::{ChunkSet, SizeTree, TreeNode, TreeOptions, measure};
use proto_splitter::split::{Source, SplitExt, SplitOptions};
use proto_splitter::view::MessageView;
use proto_splitter::{ChunkIndex, GRAPH_DEF, SAVED_MODEL, SavedModelSplitter, member_names};
use proto_splitter_testkit::generate::Random;
use proto_splitter_testkit::models::{ModelSize, saved_model};
use proto_splitter_testkit::sources::{Sparse, Watched};

use crate::fixtures::{MODELS, data, descriptor};

fn indices(chunks: &ChunkSet) -> Vec<u64> {
    chunks.indices().map(ChunkIndex::get).collect()
}

fn options() -> TreeOptions {
    TreeOptions::new().names(&member_names())
}

fn typed(message: &str) -> ReadOptions {
    ReadOptions::new().descriptor(descriptor(message))
}

fn check_sums(node: &TreeNode) {
    let below: u64 = node.children.iter().map(|child| child.size).sum();
    assert_eq!(node.size, node.own + below, "{}", node.name);
    node.children.iter().for_each(check_sums);
}

/// Returns the sizes, counts, paths and names in a tree, as lines of text. Omits the chunks.
fn flat(tree: &SizeTree) -> Vec<String> {
    fn add(node: &TreeNode, out: &mut Vec<String>) {
        let TreeNode {
            name, count, size, ..
        } = node;
        out.push(format!("{name} {count} {size}"));
        for member in &node.members {
            out.push(format!("{} {} {:?}", member.text, member.size, member.name));
        }
        node.children.iter().for_each(|child| add(child, out));
    }
    let mut out = Vec::new();
    add(&tree.root, &mut out);
    out
}

#[test]
fn a_model_in_chunks_has_the_tree_of_the_model_and_says_where_its_parts_are() {
    let folder = tempfile::tempdir().unwrap();
    for (file, message) in MODELS {
        let bytes = std::fs::read(data("tensorflow").join(file)).unwrap();
        let view = MessageView::of_plain(&bytes, typed(message)).unwrap();
        let whole = measure(&view, &FieldPath::root(), &options()).unwrap();
        assert_eq!(whole.root.size, bytes.len() as u64);
        check_sums(&whole.root);
        assert!(whole.root.chunks.is_empty());

        let prefix = folder.path().join(message).join(file.replace('/', "_"));
        std::fs::create_dir_all(prefix.parent().unwrap()).unwrap();
        let split = SplitOptions::new().max_chunk_size(4 << 10);
        let source = Source::from_bytes(bytes, descriptor(message));
        let written = match message {
            SAVED_MODEL => SavedModelSplitter.write_with(source, &prefix, &split),
            _ => proto_splitter::GraphDefSplitter.write_with(source, &prefix, &split),
        };
        let chunked = ChunkedFile::open(written.unwrap().path).unwrap();
        let view = chunked.view(typed(message));
        let in_chunks = measure(&view, &FieldPath::root(), &options()).unwrap();
        assert_eq!(flat(&whole), flat(&in_chunks), "{file}");
        assert!(!in_chunks.root.chunks.is_empty(), "{file}");
    }
}

#[test]
fn a_large_constant_is_in_the_chunk_that_it_was_cut_to() {
    let bytes = std::fs::read(data("tensorflow/graphdef_frozen_cnn/graph.pb")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let split = SplitOptions::new()
        .max_chunk_size(100 << 10)
        .value_chunk_size(Some(500 << 10));
    let source = Source::from_bytes(bytes, descriptor(GRAPH_DEF));
    let written = proto_splitter::GraphDefSplitter
        .write_with(source, folder.path().join("graph"), &split)
        .unwrap();
    let chunked = ChunkedFile::open(written.path).unwrap();
    let tree = chunked.view(typed(GRAPH_DEF));
    let tree = measure(&tree, &FieldPath::root(), &options()).unwrap();
    let node = tree.root.child("node").unwrap();
    let largest = &node.members[0];
    assert_eq!(
        largest.name.detail.as_deref(),
        Some("Const float[6272, 40]")
    );
    assert_eq!(indices(&largest.chunks), [0, 1]);
    let content = node.child("attr").unwrap().child("tensor").unwrap();
    let content = content.child("tensor_content").unwrap();
    assert_eq!(indices(&content.chunks), [0, 1]);
    assert_eq!(indices(&node.child("name").unwrap().chunks), [0]);
}

/// Size of a model with twelve constants of 256 MiB, half of them in functions, and many small
/// nodes.
const LARGE: ModelSize = ModelSize {
    constants: 6,
    functions: 6,
    constant_bytes: 256 << 20,
    small_nodes: 2000,
};

#[test]
fn large_constants_are_hopped_over() {
    let (source, reads) = Watched::new(Sparse::from(saved_model(&LARGE)));
    let view = MessageView::of_plain(&source, typed(SAVED_MODEL)).unwrap();
    let size = view.size(&FieldPath::root()).unwrap().unwrap();
    assert!(size > 3 << 30);
    let kept = options().min_member_size(size / 1000);
    let tree = measure(&view, &FieldPath::root(), &kept).unwrap();
    let read = reads.bytes();
    assert!(read < 1 << 20, "{read} bytes were read");
    assert_eq!(tree.root.size, size);
    let graph = &tree.root.child("meta_graphs").unwrap().children[0];
    let members = &graph.child("node").unwrap().members;
    assert_eq!(members.len(), 6);
    assert_eq!(members[0].name.name.as_deref(), Some("weights_0"));
    assert_eq!(
        members[0].name.detail.as_deref(),
        Some("Const float[67108864]")
    );
    let functions = graph.child("library").unwrap().child("function").unwrap();
    let called = functions.members[0].name.name.as_deref();
    assert_eq!(called, Some("__inference_layer_0"));
}

#[test]
fn without_a_type_large_constants_are_hopped_over_too() {
    let (source, reads) = Watched::new(Sparse::from(saved_model(&LARGE)));
    let view = MessageView::of_plain(&source, ReadOptions::new()).unwrap();
    let tree = measure(&view, &FieldPath::root(), &TreeOptions::new().top(3));
    let read = reads.bytes();
    assert!(read < 4 << 20, "{read}");
    assert_eq!(tree.unwrap().root.child("2").unwrap().count, 1);
}

#[test]
fn chunks_of_large_constants_are_not_read() {
    let size = ModelSize {
        constant_bytes: 4 << 20,
        ..LARGE
    };
    let mut bytes = Vec::new();
    saved_model(&size).write_to(&mut bytes).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let split = SplitOptions::new().max_chunk_size(1 << 20);
    let source = Source::from_bytes(bytes, descriptor(SAVED_MODEL));
    let written = SavedModelSplitter
        .write_with(source, folder.path().join("model"), &split)
        .unwrap();
    let stored = Counting::new(std::fs::read(written.path).unwrap());
    let chunked = ChunkedFile::from_source(&stored, &Limits::default()).unwrap();
    let tree = chunked.view(typed(SAVED_MODEL));
    let tree = measure(&tree, &FieldPath::root(), &options()).unwrap();
    assert!(tree.root.size > 48 << 20);
    assert!(stored.read() < 1 << 20, "{} bytes were read", stored.read());
}

/// A source in memory that counts the bytes that are read.
struct Counting(Vec<u8>, std::sync::atomic::AtomicU64);

impl Counting {
    fn new(bytes: Vec<u8>) -> Self {
        Counting(bytes, std::sync::atomic::AtomicU64::new(0))
    }

    fn read(&self) -> u64 {
        self.1.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl ReadAt for Counting {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0[..].read_at(offset, buf)?;
        let counted = std::sync::atomic::Ordering::Relaxed;
        self.1.fetch_add(read as u64, counted);
        Ok(read)
    }

    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

/// A source whose bytes can't be borrowed, so that they are read in windows.
struct Windows<'a>(&'a [u8]);

impl ReadAt for Windows<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_at(offset, buf)
    }

    fn size(&self) -> std::io::Result<u64> {
        ReadAt::size(self.0)
    }
}

#[test]
fn damaged_messages_have_a_tree_or_an_error_however_they_are_read() {
    let mut random = Random::new(7);
    let (mut trees, mut errors) = (0, 0);
    for (file, message) in &MODELS[2..5] {
        let whole = std::fs::read(data("tensorflow").join(file)).unwrap();
        for round in 0..150 {
            let mut bytes = whole.clone();
            let mut at = |len: usize| usize::try_from(random.number() % len as u64).unwrap();
            for _ in 0..=round % 4 {
                let place = at(bytes.len());
                bytes[place] = u8::try_from(at(256)).unwrap();
            }
            if round % 5 == 0 {
                bytes.truncate(at(whole.len()));
            }
            for merging in [typed(message), ReadOptions::new()] {
                let tree = |source: &dyn ReadAt| {
                    let view = MessageView::of_plain(&source, merging.clone())?;
                    measure(&view, &FieldPath::root(), &options())
                };
                match (tree(&bytes), tree(&Windows(&bytes))) {
                    (Ok(at_once), Ok(in_windows)) => {
                        trees += 1;
                        assert_eq!(at_once.root.size, bytes.len() as u64);
                        check_sums(&at_once.root);
                        if merging.get_descriptor().is_some() {
                            assert_eq!(flat(&at_once), flat(&in_windows));
                        }
                    }
                    (Err(one), Err(other)) => {
                        errors += 1;
                        assert_eq!((one.kind(), one.offset()), (other.kind(), other.offset()));
                    }
                    (one, other) => panic!("{file}: {:?} {:?}", one.err(), other.err()),
                }
            }
        }
    }
    assert!(
        trees > 100 && errors > 100,
        "{trees} trees, {errors} errors"
    );
}
