//! Tests for `protosplit info`.

use prost_reflect::prost::Message;
use proto_splitter::proto::proto_splitter::{ChunkInfo, ChunkMetadata, ChunkedMessage};
use proto_splitter::record_file::{RecordWriter, WriterOptions};
use protosplit_cli::Exit;

use crate::support::{Dir, fixture, foreign, run};

#[test]
fn names_in_paths_come_from_the_type_if_it_is_known() {
    let dir = Dir::new();
    let file = foreign("functions_consts.nested.none.cpb");
    let report = run([&"info", &file, &"--json"]).json();
    assert_eq!(report["message"], serde_json::Value::Null);
    assert_eq!(report["chunks"][1]["path"], "2[0].2");
    let named = run([&"info", &file, &"--message", &"tensorflow.SavedModel"]).ok();
    assert!(named.contains("meta_graphs[0].graph_def"), "{named}");
    let copy = dir.copy(&file, "saved_model.cpb");
    assert!(
        run([&"info", &copy])
            .ok()
            .contains("meta_graphs[0].graph_def")
    );
}

#[test]
fn chunks_that_share_a_record_chunk_name_each_other() {
    let dir = Dir::new();
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    for record in [&b"base"[..], b"one", b"two"] {
        writer.write_record(record).unwrap();
    }
    // The first record chunk begins at offset 64, after the signature. The records in it have the
    // offsets 64, 65 and 66.
    let chunks = [(64, 4), (65, 3), (66, 3)].map(|(offset, size)| ChunkInfo {
        r#type: 1,
        size,
        offset,
        crc32c: None,
        file: 0,
    });
    let message = ChunkedMessage {
        chunk_index: Some(0),
        ..ChunkedMessage::default()
    };
    let metadata = ChunkMetadata {
        chunks: chunks.to_vec(),
        message: Some(message),
        ..ChunkMetadata::default()
    };
    writer.write_record(&metadata.encode_to_vec()).unwrap();
    let file = dir.file("shared.cpb", writer.finish().unwrap());
    let report = run([&"info", &file, &"--json"]).json();
    let chunk = &report["chunks"][1];
    assert_eq!(
        (&chunk["stored_size"], &chunk["path"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(chunk["shared_with"], serde_json::json!([0, 2]));
    let text = run([&"info", &file]).ok();
    assert!(text.contains("    1  MESSAGE   3 B  with 0 +1  "), "{text}");
    assert!(text.contains("  nowhere\n"), "{text}");
}

#[test]
fn equal_chunks_are_shown_as_one_record() {
    let dir = Dir::new();
    // The message is a node with an attribute that contains a string.
    let field = |number: u8, content: &[u8]| {
        let mut bytes = vec![number << 3 | 2];
        proto_splitter::wire::put_varint(&mut bytes, content.len() as u64);
        [bytes, content.to_vec()].concat()
    };
    let node = field(
        1,
        &field(
            5,
            &[field(1, b"key"), field(2, &field(2, &[7; 5000]))].concat(),
        ),
    );
    let file = dir.file("graph.pb", node.repeat(2));
    let options = "--message tensorflow.GraphDef --max-chunk-size 1KiB --compression none";
    let options: Vec<_> = options.split(' ').collect();
    let chunked = dir.split(&file, "g", &options);
    let report = run([&"info", &chunked, &"--json"]).json();
    assert_eq!(
        report["chunks"][1]["position"],
        report["chunks"][2]["position"]
    );
    assert_eq!(report["chunks"][2]["shared_with"], serde_json::json!([1]));
    let text = run([&"info", &dir.path("g")]).ok();
    assert!(text.contains("  4.9 KiB     as 1  "), "{text}");
}

#[test]
fn a_message_that_was_not_split_has_no_chunks() {
    let report = run([&"info", &fixture("keras_mlp"), &"--json"]).json();
    assert_eq!(report["split"], false);
    assert_eq!(report["message"], "tensorflow.SavedModel");
    assert_eq!(report["chunks"].as_array().unwrap().len(), 0);
}

#[test]
fn what_is_no_chunked_file_is_bad_data() {
    let dir = Dir::new();
    let error = run([&"info", &dir.file("a.cpb", [b'x'; 100])]).failed(Exit::Bad);
    assert!(
        error.contains("a.cpb: ") && error.contains("signature"),
        "{error}"
    );
}

#[test]
fn a_saved_model_says_its_signatures_in_one_piece_and_in_chunks() {
    let dir = Dir::new();
    let model = fixture("keras_mlp");
    let small = dir.path("small");
    run([&"convert", &model, &small, &"--to", &"cpb"]).ok();
    for path in [&model, &small] {
        let report = run([&"info", path, &"--json"]).json();
        let said = report["properties"].as_array().unwrap();
        let signatures: Vec<&str> = said
            .iter()
            .filter(|said| said[0] == "signature")
            .filter_map(|said| said[1].as_str())
            .collect();
        // The expected signatures were read with protobuf for Python.
        let serve = "tensorflow/serving/predict(keras_tensor float[?, 16]) -> output_0 float[?, 4]";
        assert_eq!(
            signatures,
            [
                "__saved_model_init_op: () -> __saved_model_init_op invalid[...]".to_owned(),
                format!("serve: {serve}"),
                format!("serving_default: {serve}"),
            ]
        );
        let text = run([&"info", path]).ok();
        assert!(text.contains("  __saved_model_init_op: ("), "{text}");
    }
}

#[test]
fn a_samediff_model_says_its_variables_with_the_shapes_of_their_arrays() {
    let dir = Dir::new();
    let samediff = fixture("").join("../samediff");
    let [zip, back] = ["model.zip", "back.fb"].map(|name| dir.path(name));
    for name in ["classic.fb", "model.sdnb"] {
        let file = samediff.join(name);
        run([&"convert", &file, &"-o", &zip, &"--force"]).ok();
        for path in [&file, &zip] {
            let report = run([&"info", path, &"--json"]).json();
            let said = report["properties"].to_string();
            for (name, value) in [
                ("placeholder", "in "),
                ("variable", "w FLOAT[2, 3]"),
                ("constant", "b INT16[3]"),
            ] {
                let both = format!("[\"{name}\",\"{value}");
                assert!(said.contains(&both), "{both}: {said}");
            }
        }
    }
    // A conversion doesn't add fields that the file lacks.
    let classic = samediff.join("classic.fb");
    run([&"convert", &classic, &"-o", &zip, &"--force"]).ok();
    run([&"convert", &zip, &"-o", &back, &"--to", &"fb"]).ok();
    let [before, after] = [&classic, &back].map(|file| std::fs::metadata(file).unwrap().len());
    assert!(after <= before + 256, "{before} {after}");
}

#[test]
fn the_largest_tensors_are_named() {
    let text = run([
        &"info",
        &fixture("").join("../samediff/tensors.safetensors"),
    ])
    .ok();
    assert!(
        text.lines().any(|line| line.starts_with("largest ")),
        "{text}"
    );
}
