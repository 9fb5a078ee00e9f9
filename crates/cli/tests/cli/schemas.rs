//! Tests with message types that aren't built in, and schemas that are given on the command line.

use std::fs;
use std::path::Path;
use std::process::Command;

use protosplit_cli::Exit;

use crate::support::{Dir, fixture, run, run_all};

const TRACE: &str = r#"
    syntax = "proto3";
    package perf;
    import "perf/event.proto";
    message Trace { string host = 1; repeated Event events = 2; map<string, bytes> blobs = 3; }
"#;

const EVENT: &str = r#"
    syntax = "proto3";
    package perf;
    message Event { uint64 time = 1; string name = 2; }
"#;

/// Creates two `.proto` files, one of which imports the other, and a message of their type with 64
/// events of about 30 bytes.
fn schema(dir: &Dir) {
    fs::create_dir_all(dir.path("protos/perf")).unwrap();
    dir.file("protos/perf/trace.proto", TRACE);
    dir.file("protos/perf/event.proto", EVENT);
    let event = [&b"\x12\x1e\x08\x2a\x12\x1a"[..], &[b'e'; 26]].concat();
    dir.file(
        "trace.pb",
        [&b"\x0a\x04host"[..], &event.repeat(64)].concat(),
    );
}

fn descriptor_set(dir: &Dir, file: &str) -> Vec<u8> {
    let folder = dir.path("protos");
    let mut compiler = protox::Compiler::new([folder]).unwrap();
    compiler.include_imports(true).open_file(file).unwrap();
    compiler.encode_file_descriptor_set()
}

#[test]
fn imports_are_looked_for_here_as_well_as_beside_the_file() {
    let dir = Dir::new();
    schema(&dir);
    let given = ["--message", "perf.Trace", "--proto", "perf/trace.proto"];
    let ran = Command::new(env!("CARGO_BIN_EXE_protosplit"))
        .args(["verify", "../trace.pb", "--deep"])
        .args(given)
        .current_dir(dir.path("protos"))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn a_message_is_split_by_a_schema_that_is_compiled_on_the_way() {
    let dir = Dir::new();
    schema(&dir);
    let (file, prefix) = (dir.path("trace.pb"), dir.path("m"));
    let proto = dir.path("protos/perf/trace.proto");
    let report = run([
        &"split",
        &file,
        &"-o",
        &prefix,
        &"--max-chunk-size",
        &"500",
        &"--json",
        &"--message",
        &"perf.Trace",
        &"--proto",
        &proto,
        &"-I",
        &dir.path("protos"),
    ])
    .json();
    assert_eq!(report["message"], "perf.Trace");
    assert_eq!(report["byte_exact"], true);
    assert!(report["chunks"].as_array().unwrap().len() > 4);
    let back = dir.path("back.pb");
    run([&"merge", &prefix, &"-o", &back]).ok();
    assert_eq!(fs::read(&back).unwrap(), fs::read(&file).unwrap());
}

#[test]
fn a_descriptor_set_and_source_say_the_same() {
    let dir = Dir::new();
    schema(&dir);
    let set = dir.file("perf.binpb", descriptor_set(&dir, "perf/trace.proto"));
    let (file, folder) = (dir.path("trace.pb"), dir.path("protos"));
    let split = |args: [&dyn AsRef<Path>; 4]| {
        let [a, b, c, d] = args;
        run([
            &"split",
            &file,
            &"--dry-run",
            &"--json",
            &"--max-chunk-size",
            &"500",
            &"--message",
            &"perf.Trace",
            a,
            b,
            c,
            d,
        ])
        .json()
    };
    // The same descriptor set is given twice, or a `.proto` file is found by its import path.
    let by_set = split([&"--descriptor-set", &set, &"--descriptor-set", &set]);
    let by_source = split([&"--proto", &"perf/trace.proto", &"-I", &folder]);
    assert_eq!(by_set, by_source);
}

#[test]
fn the_commands_that_read_take_a_schema_too() {
    let dir = Dir::new();
    schema(&dir);
    let set = dir.file("perf.binpb", descriptor_set(&dir, "perf/trace.proto"));
    let (file, prefix) = (dir.path("trace.pb"), dir.path("m"));
    run([
        &"split",
        &file,
        &"-o",
        &prefix,
        &"--max-chunk-size",
        &"500",
        &"--descriptor-set",
        &set,
        &"--message",
        &"perf.Trace",
    ])
    .ok();
    // The file specifies the name of its type, and the schema defines that type.
    let name = run([
        &"get",
        &prefix,
        &"events[7].name",
        &"--format",
        &"text",
        &"--descriptor-set",
        &set,
    ])
    .ok();
    assert_eq!(name, "e".repeat(26) + "\n");
    let info = run([&"info", &prefix, &"--json", &"--descriptor-set", &set]).json();
    assert_eq!(info["message"], "perf.Trace");
    let deep = run([
        &"verify",
        &prefix,
        &"--deep",
        &"--json",
        &"--descriptor-set",
        &set,
        &"--against",
        &file,
    ])
    .json();
    assert_eq!(deep["deep"]["messages"], 65);
    let wrong = run([
        &"verify",
        &prefix,
        &"--descriptor-set",
        &set,
        &"--message",
        &"perf.Event",
    ]);
    let wrong = wrong.failed(Exit::Usage);
    assert!(
        wrong.ends_with("holds perf.Trace, not perf.Event"),
        "{wrong}"
    );
}

#[test]
fn what_is_wrong_with_a_schema_is_said_in_one_line_with_what_to_do() {
    let dir = Dir::new();
    schema(&dir);
    let file = dir.path("trace.pb");
    let set = dir.file("perf.binpb", descriptor_set(&dir, "perf/trace.proto"));
    let bad = dir.file(
        "bad.proto",
        "syntax = \"proto3\";\nmessage A { string a == 1; }",
    );
    let editions = dir.file(
        "editions.proto",
        "edition = \"2025\";\nmessage A { string a = 1; }",
    );
    let no_set = dir.file("no_set.binpb", "this is not a descriptor set");
    let proto = dir.path("protos/perf/trace.proto");
    let missing = dir.path("missing.binpb");
    type Case<'a> = (&'a str, [&'a dyn AsRef<Path>; 2], &'a str);
    let cases: [Case; 8] = [
        (
            "perf.Trace",
            [&"--proto", &proto],
            "import 'perf/event.proto' not found (use -I DIR",
        ),
        (
            "A",
            [&"--proto", &bad],
            "bad.proto:2:23: expected an integer, but found '='",
        ),
        (
            "A",
            [&"--proto", &editions],
            "editions.proto:1:11: edition \"2025\" is not known: only 2023 and 2024 are",
        ),
        (
            "A",
            [&"--descriptor-set", &no_set],
            "no_set.binpb: no file descriptor set: ",
        ),
        (
            "A",
            [&"--descriptor-set", &missing],
            "missing.binpb: No such file",
        ),
        (
            "perf.Trce",
            [&"--descriptor-set", &set],
            "no message type `perf.Trce`: did you mean `perf.Trace`?",
        ),
        (
            "Event",
            [&"--descriptor-set", &set],
            "no message type `Event`: did you mean `perf.Event`?",
        ),
        (
            "unheard.Of",
            [&"--descriptor-set", &set],
            "`unheard.Of`: the schema has perf.Event, perf.Trace",
        ),
    ];
    for (message, [how, what], expected) in cases {
        let line = run([&"split", &file, &"--message", &message, how, what]).failed(Exit::Usage);
        assert!(line.contains(expected), "{line}");
    }
    // Without `--message`, the type is assumed to be the only one that no other type contains.
    let set_name = set.to_str().unwrap();
    dir.split(&file, "named", &["--descriptor-set", set_name]);
    let line = run([&"split", &file, &"-I", &dir.path("protos")]).failed(Exit::Usage);
    assert!(line.contains("--proto <FILE>"), "{line}");
}

#[test]
fn a_file_that_brings_its_schema_along_is_read_by_names_without_it() {
    let dir = Dir::new();
    schema(&dir);
    let set = dir.file("perf.binpb", descriptor_set(&dir, "perf/trace.proto"));
    let file = dir.path("trace.pb");
    let split = |prefix: &Path, embed: &str| {
        let type_name = "--message=perf.Trace";
        let max = "--max-chunk-size=500";
        let how = "--compression=none";
        run([
            &"split",
            &file,
            &"-o",
            &prefix,
            &max,
            &type_name,
            &"--descriptor-set",
            &set,
            &how,
            &embed,
        ])
        .ok();
    };
    let [with, without] = ["with", "without"].map(|name| dir.path(name));
    split(&with, "--embed-schema");
    split(&without, "--threads=1");
    fs::remove_file(&set).unwrap();
    let get = |prefix: &Path| run([&"get", &prefix, &"events[40].name", &"--format", &"text"]);
    assert_eq!(get(&with).ok().trim().trim_matches('"'), "e".repeat(26));
    get(&without).failed(Exit::Usage);
    let shown = run([&"get", &with, &"events[40]", &"--format", &"json"]).ok();
    assert!(shown.contains("\"time\""), "{shown}");
    let back = dir.path("back.pb");
    run([&"merge", &with, &"-o", &back]).ok();
    assert_eq!(fs::read(&back).unwrap(), fs::read(&file).unwrap());
}

#[test]
fn messages_that_nest_deeper_than_elsewhere_need_to_be_asked_for() {
    let dir = Dir::new();
    let proto = "syntax = \"proto3\"; message Tree { Tree below = 1; bytes leaf = 2; }";
    let proto = dir.file("tree.proto", proto);
    let tree = |leaf: &[u8]| {
        let mut bytes = [&b"\x12\x64"[..], leaf].concat();
        for _ in 0..150 {
            let mut around = vec![0x0a];
            proto_splitter::wire::put_varint(&mut around, bytes.len() as u64);
            bytes = [around, bytes].concat();
        }
        bytes
    };
    let file = dir.file("tree.pb", tree(&[b'a'; 100]));
    let other = dir.file("other.pb", tree(&[b'b'; 100]));
    let (prefix, out) = (dir.path("tree"), dir.path("out"));
    let leaf = ["below"; 150].join(".") + ".leaf";
    let typed: [&dyn AsRef<Path>; 4] = [&"--message", &"Tree", &"--proto", &proto];
    let split: [&dyn AsRef<Path>; 5] = [&"split", &file, &"--max-chunk-size", &"90", &"--force"];
    let said = |args: &[&dyn AsRef<Path>], exit, expected: &str| {
        let shallow = run_all(args.iter().copied());
        let deep: [&dyn AsRef<Path>; 2] = [&"--max-depth", &"151"];
        let deep = run_all(args.iter().copied().chain(deep));
        assert_eq!(deep.exit, exit, "{deep:?}");
        let all = shallow.out + &shallow.err;
        assert!(all.contains(expected), "{expected}: {all}");
        deep
    };
    let done = Exit::Done;
    said(&[&split[..], &typed].concat(), done, "can't be cut");
    let deeper = "deeper than the maximum depth of 100";
    let longer = "longer than the maximum depth of 100 steps";
    said(&[&"merge", &prefix, &"-o", &out, &"--force"], done, longer);
    assert_eq!(fs::read(&out).unwrap(), fs::read(&file).unwrap());
    let get: [&dyn AsRef<Path>; 3] = [&"get", &prefix, &leaf];
    let got = said(&[&get[..], &typed].concat(), done, longer);
    assert_eq!(got.out, "a".repeat(100));
    let files: [&dyn AsRef<Path>; 3] = [&"diff", &file, &other];
    let differs = said(&[&files[..], &typed].concat(), Exit::Bad, deeper);
    assert!(differs.out.contains(&leaf), "{}", differs.out);
    let verify: [&dyn AsRef<Path>; 3] = [&"verify", &file, &"--deep"];
    said(&[&verify[..], &typed].concat(), done, deeper);
    let shown: [&dyn AsRef<Path>; 5] = [&"tree", &file, &"--json", &"--min-size", &"0"];
    let all = said(&[&shown[..], &typed].concat(), done, "below");
    assert!(all.out.contains("leaf"), "{}", all.out);
    let wrong = run([&"merge", &prefix, &"-o", &out, &"--max-depth", &"201"]);
    let wrong = wrong.failed(Exit::Usage);
    assert!(wrong.contains("201 is not in 1..=200"), "{wrong}");
}

#[test]
fn a_message_of_another_type_is_refused_by_every_command_that_takes_one() {
    let dir = Dir::new();
    let file = dir.copy(&fixture("keras_mlp/saved_model.pb"), "graph.pb");
    let value = dir.file("value", "x");
    let out = dir.path("out.pb");
    let of = ["--message", "tensorflow.GraphDef"];
    let commands: [&[&dyn AsRef<std::path::Path>]; 7] = [
        &[&"split", &file],
        &[&"tree", &file],
        &[&"tree", &file, &"--diff", &file],
        &[&"diff", &file, &file],
        &[&"get", &file, &"versions"],
        &[&"cat", &file],
        &[
            &"replace",
            &file,
            &"node[0].name",
            &"--with",
            &value,
            &"-o",
            &out,
        ],
    ];
    for command in commands {
        let ran = run_all(command.iter().copied().chain([&of[0] as _, &of[1] as _]));
        let error = ran.failed(Exit::Bad);
        assert!(
            error.contains("the message may be of another type"),
            "{error}"
        );
        assert!(
            error.contains("has a wire type that tensorflow.GraphDef does not declare"),
            "{error}"
        );
    }
    assert!(!out.exists());
}
