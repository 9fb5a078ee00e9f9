//! `protosplit info`.

use crate::support::{Dir, fixture, foreign, run};
use protosplit_cli::Exit;

#[test]
fn a_file_by_another_writer_shows_which_chunks_share_a_record_chunk() {
    let dir = Dir::new();
    let file = foreign("functions_consts.nested.none.cpb");
    let report = run([&"info", &file, &"--json"]).json();
    assert_eq!(report["message"], serde_json::Value::Null);
    for chunk in report["chunks"].as_array().unwrap() {
        assert_eq!(
            chunk["stored_size"].is_null(),
            chunk.get("shared_with").is_some(),
            "{chunk}"
        );
    }
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
