//! SavedModels whose constants move out, and back.

use std::fs;

use protosplit_cli::Exit;

use crate::support::{Dir, fixture, run};

#[test]
fn what_would_move_is_said_and_nothing_is_written() {
    let dir = Dir::new();
    let model = fixture("functions_consts");
    let report = run([
        &"externalize",
        &model,
        &"--dry-run",
        &"--min-size",
        &"64KiB",
        &"--json",
    ])
    .json();
    assert_eq!(report["moved"].as_array().unwrap().len(), 1);
    assert_eq!(report["moved"][0]["node"], "Const_1");
    assert_eq!(report["moved"][0]["function"], "__inference_f_325");
    assert_eq!(report["moved"][0]["shape"].to_string(), "[64,300]");
    assert_eq!(report["stored_bytes"], 76_800);
    assert!(report["output"].is_null());
    assert_eq!(fs::read_dir(dir.path("")).unwrap().count(), 0);
}

#[test]
fn a_model_goes_out_and_comes_back_byte_for_byte() {
    let dir = Dir::new();
    let (runs, again) = (dir.path("runs"), dir.path("again"));
    let model = fixture("functions_consts");
    let ran = run([&"externalize", &model, &"-o", &runs, &"--min-size", &"1KiB"]);
    ran.ok();
    run([&"internalize", &runs, &"-o", &again]).ok();
    let bytes = |folder: &std::path::Path| fs::read(folder.join("saved_model.pb")).unwrap();
    assert!(bytes(&again) == bytes(&model));
    assert!(bytes(&runs).len() < bytes(&model).len());
    // Once is enough, and a model that wasn't externalized has no original.
    let twice = dir.path("twice");
    run([&"externalize", &runs, &"-o", &twice]).failed(Exit::Usage);
    run([&"internalize", &model, &"-o", &twice]).failed(Exit::Usage);
    assert!(!twice.exists());
}
