//! Tests with messages that aren't related to TensorFlow, and schemas that are given on the command line.

use std::fs;
use std::path::{Path, PathBuf};

use prost_reflect::{DescriptorPool, DynamicMessage};
use proto_splitter_testkit::models::Parts;
use protosplit_cli::Exit;

use crate::support::{Dir, run};

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// Splits a file with its schema into chunks of several sizes. After each split, verifies and merges the chunks, and compares the result
/// with the file.
#[track_caller]
fn goes_through(dir: &Dir, file: &Path, message: &str, schema: [&dyn AsRef<Path>; 4]) {
    let [a, b, c, d] = schema;
    let bytes = fs::read(file).unwrap();
    for part in [40, 10, 2] {
        let max = (bytes.len() / part).to_string();
        let (prefix, back) = (dir.path(&max), dir.path("back.pb"));
        let report = run([
            &"split",
            &file,
            &"-o",
            &prefix,
            &"--max-chunk-size",
            &max,
            &"--value-chunk-size",
            &"4KiB",
            &"--message",
            &message,
            &"--force",
            &"--json",
            a,
            b,
            c,
            d,
        ])
        .json();
        assert_eq!(
            (&report["split"], &report["byte_exact"]),
            (&true.into(), &true.into())
        );
        assert!(
            report["chunks"].as_array().unwrap().len() > part / 2,
            "{report}"
        );
        // Verifying and merging need no schema, since the chunked file records the position of every chunk.
        let verified = run([&"verify", &prefix, &"--against", &file, &"--json"]).json();
        assert_eq!(verified["against"]["result"], "byte-exact");
        run([&"merge", &prefix, &"-o", &back, &"--force"]).ok();
        assert!(fs::read(&back).unwrap() == bytes, "{message} at {max}");
        // With the schema, `--deep` parses the whole message.
        let deep = run([&"verify", &prefix, &"--deep", &"--json", a, b, c, d]).json();
        assert_eq!(deep["ok"], true, "{message}");
    }
}

/// Compiles files and their imports with protobuf's own compiler. The descriptor set includes comments and source positions.
fn descriptor_set(files: &[&str]) -> Vec<u8> {
    let mut compiler = protox::Compiler::new([root("proto")]).unwrap();
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(files).unwrap();
    compiler.encode_file_descriptor_set()
}

#[test]
fn the_official_descriptor_proto_splits_by_its_own_schema() {
    let dir = Dir::new();
    let name = "google/protobuf/descriptor.proto";
    let file = dir.file("descriptor.pb", descriptor_set(&[name]));
    let set = dir.file("descriptor.binpb", descriptor_set(&[name]));
    let message = "google.protobuf.FileDescriptorSet";
    // The compiler has `descriptor.proto` built in. The descriptor set is a message of a type in that file.
    goes_through(&dir, &file, message, [&"--proto", &name, &"--proto", &name]);
    goes_through(
        &dir,
        &file,
        message,
        [&"--descriptor-set", &set, &"--descriptor-set", &set],
    );
}

#[test]
fn where_only_the_schema_is_missing_that_is_asked_for() {
    let dir = Dir::new();
    // The schema's types are renamed, since Perfetto's own types are built in.
    let proto = std::fs::read_to_string(root("tests/data/schemas/perfetto_like.proto")).unwrap();
    let proto = proto.replace("package perfetto.protos;", "package other.protos;");
    let proto = dir.file(
        "other.proto",
        proto.replace("perfetto.protos.", "other.protos."),
    );
    let message = "other.protos.Trace";
    let file = dir.file("trace.bin", perfetto());
    let prefix = dir.path("chunked");
    let by: [&dyn AsRef<Path>; 2] = [&"--proto", &proto];
    let max = [&"--max-chunk-size", &"1KiB"];
    let named: [&dyn AsRef<Path>; 2] = [&"--message", &message];
    run([
        &"split", &file, &"-o", &prefix, by[0], by[1], max[0], max[1], named[0], named[1],
    ])
    .ok();
    for (ran, exit) in [
        (run([&"schema", &prefix]), Exit::Usage),
        (run([&"verify", &prefix, &"--deep"]), Exit::Usage),
        (run([&"cat", &prefix, &"packet[0].timestamp"]), Exit::Usage),
        (run([&"tree", &prefix, &"packet"]), Exit::Usage),
    ] {
        let line = ran.failed(exit);
        let asked = format!("{message}: give its schema with --proto or --descriptor-set");
        assert!(line.contains(&asked), "{line}");
    }
}

#[test]
fn our_own_schemas_split_as_a_message() {
    let dir = Dir::new();
    let files = [
        "tensorflow/core/protobuf/saved_model.proto",
        "tensorflow/proto_splitter/chunk.proto",
    ];
    let file = dir.file("schemas.pb", descriptor_set(&files));
    let name = "google/protobuf/descriptor.proto";
    goes_through(
        &dir,
        &file,
        "google.protobuf.FileDescriptorSet",
        [&"--proto", &name, &"--proto", &name],
    );
}

fn written(parts: &Parts) -> Vec<u8> {
    let mut bytes = Vec::new();
    parts.write_to(&mut bytes).unwrap();
    bytes
}

/// Parses a message with a schema, and checks that no fields are unknown.
fn parsed(bytes: &[u8], schema: &str, message: &str) {
    let folder = root("tests/data/schemas");
    let set = protox::compile([schema], [folder]).unwrap();
    let pool = DescriptorPool::from_file_descriptor_set(set).unwrap();
    let descriptor = pool.get_message_by_name(message).unwrap();
    let decoded = DynamicMessage::decode(descriptor, bytes).unwrap();
    assert_eq!(decoded.unknown_fields().count(), 0);
}

/// Returns an encoded tensor of floats with a shape, a name, and contents of `len` bytes.
fn tensor(name: &str, seed: u64, len: u64) -> Parts {
    Parts::new()
        .varint(1, len / 4)
        .varint(2, 1)
        .text(8, name)
        .floats(9, seed, len)
}

/// Returns an ONNX model with weights of various sizes, a graph inside a node, and a table of strings.
fn onnx() -> Vec<u8> {
    let node = |index: u64| {
        Parts::new()
            .text(1, &format!("activation {index}"))
            .text(1, &format!("weight {}", index % 40))
            .text(2, &format!("activation {}", index + 1))
            .text(3, &format!("node {index}"))
            .text(4, "MatMul")
            .message(
                5,
                Parts::new().text(1, "alpha").varint(3, index).varint(20, 2),
            )
    };
    let constant = Parts::new()
        .text(1, "value")
        .message(5, tensor("constant", 99, 9000));
    let mut branch = Parts::new().text(2, "then");
    let mut table = Parts::new().varint(2, 8);
    let mut graph = Parts::new();
    for index in 0..300 {
        graph = graph.message(1, node(index));
        table = table.text(6, &format!("entry {index} of a vocabulary"));
    }
    for index in 0..50 {
        branch = branch.message(1, node(index));
    }
    graph = graph
        .message(1, Parts::new().text(4, "Constant").message(5, constant))
        .message(
            1,
            Parts::new()
                .text(4, "If")
                .message(5, Parts::new().text(1, "then_branch").message(6, branch)),
        )
        .text(2, "main graph");
    for index in 0..40 {
        graph = graph.message(
            5,
            tensor(&format!("weight {index}"), index, 400 * (index + 1)),
        );
    }
    let graph = graph.message(5, table.text(8, "vocabulary"));
    let opset = Parts::new().text(1, "").varint(2, 17);
    written(
        &Parts::new()
            .varint(1, 8)
            .text(2, "a test")
            .message(7, graph)
            .message(8, opset),
    )
}

#[test]
fn a_message_like_onnx_has_splits() {
    let dir = Dir::new();
    let model = onnx();
    parsed(&model, "onnx_like.proto", "onnx.ModelProto");
    let file = dir.file("model.onnx", model);
    let folder = root("tests/data/schemas");
    goes_through(
        &dir,
        &file,
        "onnx.ModelProto",
        [&"--proto", &"onnx_like.proto", &"-I", &folder],
    );
}

#[test]
fn a_file_by_any_name_is_the_message_itself_or_in_chunks_by_what_it_begins_with() {
    let dir = Dir::new();
    let plain = dir.file("model.onnx", onnx());
    let folder = root("tests/data/schemas");
    let [a, b, c, d]: [&dyn AsRef<Path>; 4] = [&"--proto", &"onnx_like.proto", &"-I", &folder];
    let [e, f]: [&dyn AsRef<Path>; 2] = [&"--message", &"onnx.ModelProto"];
    let prefix = dir.path("chunked");
    let max = "--max-chunk-size=9KiB";
    run([&"split", &plain, a, b, c, d, e, f, &max, &"-o", &prefix]).ok();
    let chunked = dir.path("chunked.model");
    fs::rename(dir.path("chunked.cpb"), &chunked).unwrap();
    for file in [&plain, &chunked] {
        let name = "graph.initializer[7].name";
        let got = run([&"get", file, &name, a, b, c, d, e, f]).ok();
        assert!(got.contains("weight 7"), "{got}");
        let tree = run([&"tree", file, &"--json", a, b, c, d, e, f]).json();
        assert_eq!(tree["tree"]["size"], fs::metadata(&plain).unwrap().len());
        let merged = dir.path("merged");
        run([&"merge", file, &"-o", &merged, &"--force"]).ok();
        assert!(fs::read(&merged).unwrap() == fs::read(&plain).unwrap());
    }
    run([&"diff", &plain, &chunked]).ok();
    let info = run([&"info", &plain, &"--json"]).json();
    assert_eq!(info["format"], "onnx", "{info}");
}

/// Returns a packed run of varints below 128, in the form of a string field's contents.
fn packed(count: u32, step: u32) -> String {
    (0..count)
        .map(|n| char::from_u32(n * step % 128).unwrap())
        .collect()
}

/// Returns a trace with packets of a few fields, bundles of events, packed runs, and screenshots in an extension.
fn perfetto() -> Vec<u8> {
    let event = |at: u64| {
        let switch = Parts::new()
            .text(1, "swapper/0")
            .varint(2, at % 7)
            .text(5, "surfaceflinger")
            .varint(6, 612);
        Parts::new()
            .varint(1, 1_000_000 + at)
            .varint(2, at % 7)
            .message(4, switch)
    };
    let mut trace = Parts::new();
    for at in 0..2000u64 {
        let track_event = Parts::new()
            .varint(9, at % 3)
            .text(23, "Choreographer#doFrame")
            .varint(11, 5);
        let packet = Parts::new()
            .varint(8, 7_000_000 + at)
            .varint(10, 3)
            .message(11, track_event);
        trace = trace.message(1, packet);
        if at % 100 == 0 {
            let mut bundle = Parts::new().varint(1, at % 8);
            for offset in 0..80 {
                bundle = bundle.message(2, event(at * 100 + offset));
            }
            let sched = Parts::new()
                .text(1, &packed(3000, 3))
                .text(3, &packed(3000, 5))
                .text(5, "kworker/u16:1")
                .text(6, &packed(3000, 1));
            trace = trace.message(1, Parts::new().message(1, bundle.message(4, sched)));
        }
        if at % 500 == 0 {
            let frame = Parts::new().floats(1, at, 6000);
            let track_event = Parts::new().text(22, "screenshots").message(1000, frame);
            trace = trace.message(1, Parts::new().varint(8, at).message(11, track_event));
        }
    }
    written(&trace)
}

#[test]
fn a_message_like_perfetto_has_splits() {
    let dir = Dir::new();
    let trace = perfetto();
    parsed(&trace, "perfetto_like.proto", "perfetto.protos.Trace");
    let file = dir.file("trace.pftrace", trace);
    let proto = root("tests/data/schemas/perfetto_like.proto");
    goes_through(
        &dir,
        &file,
        "perfetto.protos.Trace",
        [&"--proto", &proto, &"--proto", &proto],
    );
}

#[test]
fn messages_of_editions_split_and_show_their_values() {
    let dir = Dir::new();
    for (edition, package) in [("2023", "edition"), ("2024", "edition2024")] {
        let data =
            |extension: &str| root(&format!("tests/data/schemas/edition_{edition}.{extension}"));
        let (file, prefix, back) = (data("pb"), dir.path(edition), dir.path("back.pb"));
        let (set, message) = (data("binpb"), format!("{package}.Root"));
        let report = |how: &str, schema: &Path| {
            run([
                &"split",
                &file,
                &"-o",
                &prefix,
                &"--force",
                &"--max-chunk-size",
                &"100",
                &"--value-chunk-size",
                &"none",
                &"--message",
                &message,
                &how,
                &schema,
                &"--json",
            ])
            .json()
        };
        let by_source = report("--proto", &data("proto"));
        let by_set = report("--descriptor-set", &set);
        assert_eq!(by_source["chunks"], by_set["chunks"]);
        assert!(by_set["chunks"].as_array().unwrap().len() > 20, "{by_set}");
        run([&"merge", &prefix, &"-o", &back, &"--force"]).ok();
        assert!(fs::read(&back).unwrap() == fs::read(&file).unwrap());
        let deep = run([
            &"verify",
            &prefix,
            &"--deep",
            &"--json",
            &"--descriptor-set",
            &set,
        ])
        .json();
        assert_eq!(deep["ok"], true);
        let path = "by_name[\"x\"].kids[3].name";
        let name = run([
            &"get",
            &prefix,
            &path,
            &"--format",
            &"text",
            &"--descriptor-set",
            &set,
        ])
        .ok();
        assert_eq!(name, "kid 3\n");
        // The names are those that protoc prints. A delimited field has its own name, unlike a proto2 group.
        let with: [&dyn AsRef<Path>; 6] = [
            &"cat",
            &file,
            &"--message",
            &message,
            &"--descriptor-set",
            &set,
        ];
        let text = run(with).ok();
        assert!(
            text.contains("\ndelimited {\n") && text.contains("\n  kids {\n"),
            "{text}"
        );
        assert!(!text.contains("Inner {"), "{text}");
    }
}
