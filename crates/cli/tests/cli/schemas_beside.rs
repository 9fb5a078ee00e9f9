//! Tests for compiled schemas in the input's folder, and for Buf's images.

use std::fs;
use std::process::Command;

use prost_reflect::prost::Message;
use prost_reflect::prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::prost_types::FileDescriptorSet;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use protosplit_cli::Exit;

use crate::support::{Dir, fixture, run};

/// Compiles a `.proto` source, and returns a descriptor set with one file.
fn set_of(proto: &str) -> Vec<u8> {
    let dir = Dir::new();
    dir.file("schema.proto", proto);
    let mut compiler = protox::Compiler::new([dir.path("")]).unwrap();
    compiler.open_file("schema.proto").unwrap();
    compiler.encode_file_descriptor_set()
}

fn perf() -> Vec<u8> {
    set_of(
        "syntax = \"proto3\"; package perf;
         message Trace { string host = 1; repeated Event events = 2; }
         message Event { uint64 time = 1; string name = 2; }",
    )
}

fn trace(dir: &Dir) {
    dir.file("trace.pb", b"\x0a\x04host\x12\x07\x08\x2a\x12\x03run");
}

#[test]
fn the_only_schema_beside_an_input_that_fits_is_taken() {
    let dir = Dir::new();
    trace(&dir);
    let get = |path: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
        command.args(["get", "trace.pb", path, "--format", "text", "-v"]);
        let ran = command.args(more).current_dir(dir.path("")).output();
        let ran = ran.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(ran.stdout), text(ran.stderr))
    };
    let (_, err) = get("events[0].name", &[]);
    assert!(!err.contains("schema from"), "{err}");
    // Files that aren't schemas, and schemas of other messages, are ignored.
    dir.file("message.binpb", b"\x0a\x04host");
    dir.file("text.desc", "this is not a descriptor set");
    let other = "syntax = \"proto3\"; message Other { uint64 host = 1; }";
    dir.file("other.desc", set_of(other));
    dir.file("perf.desc", perf());
    let (out, err) = get("events[0].name", &[]);
    assert_eq!(out, "run\n", "{err}");
    assert!(
        err.contains("took the schema from ./perf.desc")
            || err.contains("took the schema from perf.desc"),
        "{err}"
    );
    // With `--message`, any type in the schema can be used.
    let (out, err) = get("name", &["--message", "perf.Event"]);
    assert!(out.is_empty() && !err.contains("no message type"), "{err}");
    // If two schemas fit the input, neither is used.
    dir.file("again.binpb", perf());
    let (out, err) = get("events[0].name", &[]);
    assert!(out.is_empty() && err.contains("both fit"), "{err}");
}

#[test]
fn a_file_in_chunks_that_names_its_type_finds_the_schema_beside_it() {
    let dir = Dir::new();
    trace(&dir);
    dir.file("perf.desc", perf());
    let (file, prefix) = (dir.path("trace.pb"), dir.path("split.cpb"));
    run([&"split", &file, &"-o", &prefix]).ok();
    let get = || run([&"get", &prefix, &"events[0].name", &"--format", &"text"]);
    assert_eq!(get().ok(), "run\n");
    fs::remove_file(dir.path("perf.desc")).unwrap();
    get().failed(Exit::Usage);
}

/// Adds the field that Buf adds to each file of a descriptor set.
fn image(set: &[u8]) -> Vec<u8> {
    let mut image = Vec::new();
    for file in FileDescriptorSet::decode(set).unwrap().file {
        let mut file = file.encode_to_vec();
        encode_key(8042, WireType::LengthDelimited, &mut file);
        file.extend(b"\x02\x08\x00");
        encode_key(1, WireType::LengthDelimited, &mut image);
        encode_varint(file.len() as u64, &mut image);
        image.extend(file);
    }
    image
}

fn json_image(set: &[u8]) -> serde_json::Value {
    let name = "google.protobuf.FileDescriptorSet";
    let descriptor = DescriptorPool::global().get_message_by_name(name).unwrap();
    let set = DynamicMessage::decode(descriptor, set).unwrap();
    let mut json = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut json);
    set.serialize_with_options(&mut serializer, &SerializeOptions::new())
        .unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    for file in json["file"].as_array_mut().unwrap() {
        file["bufExtension"] = serde_json::json!({"isImport": false});
        file["options"]["[acme.custom]"] = serde_json::json!({"level": 1});
    }
    json
}

#[test]
fn images_of_buf_are_schemas_in_binary_and_as_json() {
    let dir = Dir::new();
    trace(&dir);
    let file = dir.path("trace.pb");
    let json = json_image(&perf());
    for (name, image) in [
        ("image.bin", image(&perf())),
        ("image.json", serde_json::to_vec_pretty(&json).unwrap()),
    ] {
        let image = dir.file(name, image);
        let with: [&dyn AsRef<std::path::Path>; 7] = [
            &"get",
            &file,
            &"events[0].name",
            &"--format",
            &"text",
            &"--schema-from",
            &image,
        ];
        assert_eq!(run(with).ok(), "run\n", "{name}");
    }
    let data = |name: &str| fixture("../schemas").join(name);
    let cat = |message: &std::path::Path, kind: &str, set: &std::path::Path| {
        let typed = ["--message", kind];
        let with: [&dyn AsRef<std::path::Path>; 6] = [
            &"cat",
            &message,
            &typed[0],
            &typed[1],
            &"--schema-from",
            &set,
        ];
        run(with).ok()
    };
    for (name, kind) in [
        ("edition_2023", "edition.Root"),
        ("edition_2024", "edition2024.Root"),
    ] {
        let compiled = data(&format!("{name}.binpb"));
        let mut set = json_image(&fs::read(&compiled).unwrap());
        for file in set["file"].as_array_mut().unwrap() {
            // Buf writes editions by name. descriptor.proto, which some files import, also names
            // editions that don't exist yet.
            if file["edition"] == 1001 {
                file["edition"] = "EDITION_2024".into();
            }
            file["messageType"][0]["field"][0]["options"]["featureSupport"] =
                serde_json::json!({"editionIntroduced": "EDITION_2026"});
        }
        let image = dir.file("edition.json", set.to_string());
        let message = data(&format!("{name}.pb"));
        assert_eq!(cat(&message, kind, &image), cat(&message, kind, &compiled));
    }
    let mut edition = json;
    edition["file"][0]["edition"] = "EDITION_2025".into();
    for (text, expected) in [
        (
            edition.to_string(),
            "schema.proto: edition \"EDITION_2025\" is not known: only 2023 and 2024 are",
        ),
        ("{}".to_owned(), "no list of files"),
        ("{".to_owned(), "not a descriptor set as JSON"),
    ] {
        let image = dir.file("bad.json", text);
        let line = run([&"cat", &file, &"--schema-from", &image]).failed(Exit::Usage);
        assert!(
            line.contains(expected) && line.contains("bad.json"),
            "{line}"
        );
    }
}

#[test]
fn compiled_schemas_and_profiles_have_types_that_are_known_by_name() {
    let dir = Dir::new();
    let set = dir.file("perf.desc", perf());
    let profile = dir.file("profile.bin", b"\x0a\x06\x12\x04/gpu");
    for (file, message, path, expected) in [
        (
            &set,
            "google.protobuf.FileDescriptorSet",
            "file[0].message_type[name=\"Event\"].field[1].name",
            "name\n",
        ),
        (
            &profile,
            "tensorflow.profiler.XSpace",
            "planes[0].name",
            "/gpu\n",
        ),
    ] {
        let text = ["--format", "text", "--message"];
        let with: [&dyn AsRef<std::path::Path>; 7] =
            [&"get", file, &path, &text[0], &text[1], &text[2], &message];
        assert_eq!(run(with).ok(), expected);
    }
    let line = run([&"cat", &set, &"--message", &"FileDescriptorSet"]).failed(Exit::Usage);
    assert!(
        line.contains("did you mean `google.protobuf.FileDescriptorSet`?"),
        "{line}"
    );
}
