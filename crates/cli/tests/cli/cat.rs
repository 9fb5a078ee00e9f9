//! `protosplit cat` and `protosplit schema`.

use std::fs;
use std::process::Command;

use protosplit_cli::Exit;

use crate::support::{Dir, files, fixture, messages, run};

#[test]
fn a_message_reads_the_same_in_one_piece_and_in_chunks_and_every_time() {
    for (file, kind) in messages() {
        let dir = Dir::new();
        let small = dir.split(
            &file,
            "small",
            &["--max-chunk-size", "5KiB", "--message", kind],
        );
        for format in ["text", "json", "binary"] {
            let cat = |file: &std::path::Path| {
                let ran = Command::new(env!("CARGO_BIN_EXE_protosplit"))
                    .arg("cat")
                    .arg(file)
                    .args(["--format", format, "--message", kind])
                    .output()
                    .unwrap();
                assert!(ran.status.success(), "{ran:?}");
                ran.stdout
            };
            let [plain, chunked] = [cat(&file), cat(&small)];
            assert!(plain == chunked, "{file:?} as {format}");
            assert!(plain == cat(&file), "{file:?} as {format}, again");
            if format == "binary" {
                assert!(plain == fs::read(&file).unwrap());
            }
        }
    }
}

#[test]
fn a_mistyped_path_is_answered_with_what_was_meant() {
    let model = fixture("keras_mlp");
    for command in ["cat", "get"] {
        let line = run([&command, &model, &"graph_def.nod[0]"]).failed(Exit::Usage);
        assert!(
            line.ends_with("did you mean `meta_graphs[0].graph_def.node[0]`?"),
            "{line}"
        );
    }
}

#[test]
fn a_schema_is_a_folder_of_files_at_their_import_paths() {
    let dir = Dir::new();
    let graph = fixture("graphdef_dtypes/graph.pb");
    let out = dir.path("protos");
    let schema: [&dyn AsRef<std::path::Path>; 6] = [
        &"schema",
        &graph,
        &"--message",
        &"tensorflow.GraphDef",
        &"-o",
        &out,
    ];
    run(schema).ok();
    let written = files(&out);
    assert!(
        written.contains(&"tensorflow/core/framework/graph.proto".to_owned()),
        "{written:?}"
    );
    let json = run([
        &"schema",
        &graph,
        &"--message",
        &"tensorflow.GraphDef",
        &"--json",
    ])
    .json();
    for file in json["files"].as_array().unwrap() {
        let text = fs::read_to_string(out.join(file["name"].as_str().unwrap())).unwrap();
        assert_eq!(text, file["text"].as_str().unwrap());
    }
    let again = run(schema).failed(Exit::Usage);
    assert!(again.ends_with("is there already"), "{again}");
    let nameless = run([&"schema", &graph]).failed(Exit::Usage);
    assert!(nameless.contains("--message"), "{nameless}");
}
