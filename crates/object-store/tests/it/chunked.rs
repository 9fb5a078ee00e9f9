//! Tests with chunked messages in stores, and with the requests that are needed to read them.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use prost_reflect::ReflectMessage;
use prost_reflect::prost::Message;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::{OpenOptions, Registry};
use proto_splitter_core::merge::{Limits, ReadOptions};
use proto_splitter_core::split::{Profile, SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter_core::view::size_tree::{TreeOptions, measure};
use proto_splitter_graph_def::proto::tensor_shape_proto::Dim;
use proto_splitter_graph_def::proto::{
    AttrValue, DataType, GraphDef, NodeDef, TensorProto, TensorShapeProto, attr_value,
};
use proto_splitter_graph_def::{GraphDefFormat, GraphDefSplitter};
use proto_splitter_object_store::object_store::memory::InMemory;
use proto_splitter_object_store::object_store::path::Path;
use proto_splitter_object_store::object_store::{ObjectStore, ObjectStoreExt};
use proto_splitter_object_store::{
    ObjectLocation, ObjectReadOptions, ObjectReader, ObjectWriteOptions, ObjectWriter, open_chunked,
};

use crate::server::{Fault, Server, rounds};

const MEMBERS: usize = 60;
const MEMBER: usize = 200_000;
const LATENCY: Duration = Duration::from_millis(30);

fn message() -> FileDescriptorProto {
    let text = |at: usize| -> String {
        let digits = (0..MEMBER).map(|i| (i * 31 + (at + 3) * i / 97) % 10);
        digits
            .map(|digit| char::from_digit(u32::try_from(digit).unwrap(), 10).unwrap())
            .collect()
    };
    let member = |at| DescriptorProto {
        name: Some(text(at)),
        ..Default::default()
    };
    FileDescriptorProto {
        name: Some("members".into()),
        message_type: (0..MEMBERS).map(member).collect(),
        ..Default::default()
    }
}

fn options() -> SplitOptions {
    SplitOptions::new()
        .max_chunk_size(1 << 20)
        .value_chunk_size(Some(100_000))
        .compression(record_file::Compression::None)
}

fn chunked() -> Vec<u8> {
    let mut bytes = Vec::new();
    SizeSplitter
        .write_to_with(Source::from(&message()), &mut bytes, &options())
        .unwrap();
    bytes
}

fn reader(server: &Server, name: &str) -> ObjectReader {
    let location = ObjectLocation::parse(&server.url(name)).unwrap();
    ObjectReader::open(&location, &ObjectReadOptions::new()).unwrap()
}

#[test]
fn opening_takes_one_round_and_a_value_one_more() {
    let server = Server::start();
    server.put("m.cpb", chunked());
    server.set_latency(LATENCY);
    let file = open_chunked(
        reader(&server, "m.cpb"),
        &Limits::new(),
        &ObjectReadOptions::new(),
    )
    .unwrap();
    let log = server.take_log();
    assert_eq!((log.len(), rounds(&log)), (2, 1), "{log:?}");
    let at = "4[20].1".parse().unwrap();
    let wanted = message().message_type[20].name.clone().unwrap();
    assert_eq!(file.get(&at).unwrap(), wanted);
    let log = server.take_log();
    assert_eq!(rounds(&log), 1, "{log:?}");
    // The requests fetch the chunk, and at most the bytes that precede it in its block.
    let bytes: u64 = log.iter().map(|served| served.bytes).sum();
    assert!(bytes <= MEMBER as u64 + (66 << 10), "{bytes}");
    assert_eq!(file.get(&at).unwrap(), wanted);
    assert!(server.take_log().is_empty());
}

/// Returns a chunked graph with constants of 4 MiB each, and the bytes of each constant's elements.
fn constants() -> (Vec<u8>, Vec<Vec<u8>>) {
    let node = |at: u8| {
        let content: Vec<u8> = (0..4u32 << 20)
            .map(|i| (i * 7).to_le_bytes()[0] ^ at)
            .collect();
        let tensor = TensorProto {
            dtype: DataType::DtUint8.into(),
            tensor_shape: Some(TensorShapeProto {
                dim: vec![Dim {
                    size: 4 << 20,
                    ..Default::default()
                }],
                ..Default::default()
            }),
            tensor_content: content.into(),
            ..Default::default()
        };
        let value = AttrValue {
            value: Some(attr_value::Value::Tensor(Box::new(tensor))),
        };
        NodeDef {
            name: format!("constant{at}"),
            op: "Const".into(),
            attr: [("value".to_owned(), Box::new(value))].into(),
            ..Default::default()
        }
    };
    let graph = GraphDef {
        node: (0..8).map(node).collect(),
        ..Default::default()
    };
    let mut bytes = Vec::new();
    let options = SplitOptions::new()
        .max_chunk_size(8 << 20)
        .compression(record_file::Compression::None);
    GraphDefSplitter
        .write_to_with(Source::from(&graph), &mut bytes, &options)
        .unwrap();
    let content = |node: &NodeDef| match node.attr["value"].value.as_ref() {
        Some(attr_value::Value::Tensor(tensor)) => tensor.tensor_content.to_vec(),
        _ => Vec::new(),
    };
    (bytes, graph.node.iter().map(content).collect())
}

#[test]
fn a_tensor_of_a_file_just_opened_takes_four_rounds_and_little_more_than_its_bytes() {
    static FORMATS: Registry = Registry::new(&[&GraphDefFormat]);
    let (bytes, contents) = constants();
    let server = Server::start();
    server.put("m.cpb", bytes);
    server.set_latency(LATENCY);
    let file = open_chunked(
        reader(&server, "m.cpb"),
        &Limits::new(),
        &ObjectReadOptions::new(),
    );
    let opened = FORMATS.open_chunks(file.unwrap(), &OpenOptions::new());
    let tensor = opened.unwrap().tensor("constant5").unwrap().to_vec();
    assert!(tensor.unwrap() == contents[5]);
    let log = server.take_log();
    let bytes: u64 = log.iter().map(|served| served.bytes).sum();
    let most = contents[5].len() as u64 * 11 / 10;
    assert!(rounds(&log) <= 4 && bytes <= most, "{bytes} bytes: {log:?}");
}

#[test]
fn every_verb_gives_what_it_gives_of_a_file_and_reads_no_byte_twice() {
    let server = Server::start();
    let bytes = chunked();
    let size = bytes.len() as u64;
    server.put("m.cpb", bytes);
    let whole = message().encode_to_vec();
    let check = |what: &str, most: f64, verb: &dyn Fn(&dyn Fn() -> ObjectReader)| {
        server.take_log();
        verb(&|| reader(&server, "m.cpb"));
        let log = server.take_log();
        let fetched: u64 = log.iter().map(|served| served.bytes).sum();
        let times = fetched as f64 / size as f64;
        assert!(times <= most, "{what}: {fetched} of {size} bytes");
    };
    let open = |reader| open_chunked(reader, &Limits::new(), &ObjectReadOptions::new()).unwrap();
    check("merge", 1.05, &|reader| {
        let mut merged = Vec::new();
        open(reader())
            .merge_to(&mut merged, &ReadOptions::new())
            .unwrap();
        assert!(merged == whole);
    });
    check("merge to memory", 1.05, &|reader| {
        assert!(open(reader()).merge_to_bytes(&ReadOptions::new()).unwrap() == whole);
    });
    check("verify", 1.05, &|reader| {
        let found = open(reader()).verify(&ReadOptions::new());
        assert!(found.problems().is_empty(), "{:?}", found.problems());
    });
    check("list", 0.5, &|reader| {
        assert!(open(reader()).summaries().unwrap().len() > MEMBERS);
    });
}

#[test]
fn chunks_are_listed_and_sizes_measured_by_the_two_requests_of_opening() {
    let server = Server::start();
    let (bytes, contents) = constants();
    server.put("m.cpb", bytes);
    let open = || {
        let reader = reader(&server, "m.cpb");
        open_chunked(reader, &Limits::new(), &ObjectReadOptions::new()).unwrap()
    };
    assert_eq!(open().listed().len(), contents.len() + 1);
    let log = server.take_log();
    assert_eq!(log.len(), 2, "{log:?}");
    let file = open();
    let view = file.view(ReadOptions::new().descriptor(GraphDef::default().descriptor()));
    let tree = measure(&view, &"".parse().unwrap(), &TreeOptions::new()).unwrap();
    assert!(tree.root.size > contents.iter().map(|content| content.len() as u64).sum());
    let log = server.take_log();
    assert_eq!(log.len(), 2, "{log:?}");
}

#[test]
fn a_merge_of_a_store_that_fails_now_and_then_is_right() {
    let server = Server::start();
    server.put("m.cpb", chunked());
    let file = open_chunked(
        reader(&server, "m.cpb"),
        &Limits::new(),
        &ObjectReadOptions::new(),
    )
    .unwrap();
    server.fail(&[
        Fault::Cut(1000),
        Fault::Status(500),
        Fault::Slow(Duration::from_millis(300)),
        Fault::Cut(70_000),
    ]);
    let merged = file.merge_to_bytes(&ReadOptions::new()).unwrap();
    assert!(merged == message().encode_to_vec());
}

#[test]
fn a_file_that_is_replaced_during_a_merge_is_an_error() {
    let server = Server::start();
    server.put("m.cpb", chunked());
    let file = open_chunked(
        reader(&server, "m.cpb"),
        &Limits::new(),
        &ObjectReadOptions::new(),
    )
    .unwrap();
    server.put("m.cpb", chunked());
    let error = file
        .merge_to(&mut Vec::new(), &ReadOptions::new())
        .unwrap_err();
    assert!(
        error.to_string().contains("was replaced while it was read"),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn a_message_in_several_objects_is_opened_by_all_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = options()
        .profile(Profile::Extended)
        .max_file_size(Some(2 << 20));
    SizeSplitter
        .write_with(&message(), folder.path().join("m"), &options)
        .unwrap();
    let server = Server::start();
    let mut files = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        server.put(
            path.file_name().unwrap().to_str().unwrap(),
            std::fs::read(&path).unwrap(),
        );
        files += 1;
    }
    assert!(files > 3);
    server.set_latency(LATENCY);
    let file = open_chunked(
        reader(&server, "m.cpb"),
        &Limits::new(),
        &ObjectReadOptions::new(),
    )
    .unwrap();
    let log = server.take_log();
    assert_eq!(rounds(&log), 2, "{log:?}");
    let merged = file.merge_to_bytes(&ReadOptions::new()).unwrap();
    assert!(merged == message().encode_to_vec());
}

#[test]
fn a_split_goes_straight_to_a_store() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let location = ObjectLocation::of_store(Arc::clone(&store), Path::from("m.cpb"));
    let mut writer = ObjectWriter::create(&location, &ObjectWriteOptions::new()).unwrap();
    let source = Source::from(&message());
    SizeSplitter
        .write_to_with(source, &mut writer, &options())
        .unwrap();
    writer.flush().unwrap();
    writer.finish().unwrap();
    let got = block_on(async {
        let got = store.get(&Path::from("m.cpb")).await.unwrap();
        got.bytes().await.unwrap()
    });
    assert!(got == chunked());
}
