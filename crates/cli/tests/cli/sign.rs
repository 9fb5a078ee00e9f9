//! Tests for `protosplit sign` and `protosplit verify --signature`.

use std::fs;
use std::path::{Path, PathBuf};

use protosplit_cli::Exit;

use crate::support::{Dir, run, run_all};

fn data(name: &str) -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/sign"
    ))
    .join(name)
}

/// Creates a folder with a model called `model`.
fn prepared() -> Dir {
    let dir = Dir::new();
    fs::create_dir_all(dir.path("model/variables")).unwrap();
    for name in ["saved_model.pb", "variables/variables.index"] {
        fs::write(dir.path("model").join(name), name).unwrap();
    }
    dir
}

#[test]
fn a_signed_model_is_ok_until_a_file_changes() {
    let dir = prepared();
    let (model, signature) = (dir.path("model"), dir.path("model.sig"));
    let (private, public) = (data("p256.pem"), data("p256.pub"));
    let said = run([&"sign", &model, &"--key", &private]).ok();
    assert!(
        said.starts_with("signed: ") && said.contains("model.sig"),
        "{said}"
    );
    let check = |more: &[&dyn AsRef<Path>]| {
        let verify: [&dyn AsRef<Path>; 6] = [
            &"verify",
            &model,
            &"--signature",
            &signature,
            &"--key",
            &public,
        ];
        run_all(verify.into_iter().chain(more.iter().copied()))
    };
    assert!(check(&[]).ok().contains("2 files"));
    assert_eq!(check(&[&"--quiet"]).ok(), "");
    // A report in the folder would be an unsigned file.
    let inside = check(&[&"-o", &model.join("report.txt")]).failed(Exit::Usage);
    assert!(inside.contains("report.txt: is in the input "), "{inside}");
    let beside = dir.path("report.txt");
    check(&[&"-o", &beside]).ok();
    assert!(fs::read_to_string(&beside).unwrap().contains("2 files"));

    fs::write(model.join("saved_model.pb"), "another").unwrap();
    fs::write(model.join("new"), "more").unwrap();
    let ran = check(&[&"--quiet"]);
    assert_eq!(ran.exit, Exit::Bad);
    for line in [
        "changed",
        "saved_model.pb",
        "not signed",
        "new",
        "differs from the signed file",
    ] {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
    let ran = check(&[&"--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(report["changed"], serde_json::json!(["saved_model.pb"]));
    assert_eq!(report["unsigned"], serde_json::json!(["new"]));
}

#[test]
fn the_signature_of_a_folder_given_by_dots_is_beside_the_folder() {
    let dir = prepared();
    let model = dir.path("model/variables/..");
    run([&"sign", &model, &"--key", &data("p256.pem")]).ok();
    assert!(dir.path("model.sig").is_file());
    assert_eq!(
        dir.files(),
        [
            "model.sig",
            "model/saved_model.pb",
            "model/variables/variables.index"
        ]
    );
}

#[test]
fn a_signature_is_not_overwritten_without_force() {
    let dir = prepared();
    let (model, signature) = (dir.path("model"), dir.file("model.sig", "kept"));
    let key = data("p384.pem");
    let error = run([&"sign", &model, &"--key", &key]).failed(Exit::Usage);
    assert!(error.contains("model.sig"), "{error}");
    assert_eq!(fs::read(&signature).unwrap(), b"kept");
    run([&"sign", &model, &"--key", &key, &"--force"]).ok();
    let public = data("p384.pub");
    run([
        &"verify",
        &model,
        &"--signature",
        &signature,
        &"--key",
        &public,
    ])
    .ok();
}

#[test]
fn another_key_and_a_file_that_is_not_a_signature_are_refused() {
    let dir = prepared();
    let (model, signature) = (dir.path("model"), dir.path("s"));
    run([
        &"sign",
        &model,
        &"--key",
        &data("p256.pem"),
        &"-o",
        &signature,
    ])
    .ok();
    let check = |signature: &PathBuf, key: &PathBuf| {
        run([&"verify", &model, &"--signature", signature, &"--key", key])
    };
    let error = check(&signature, &data("p384.pub")).failed(Exit::Bad);
    assert!(error.ends_with("it was signed with another key"), "{error}");
    let error = check(&model.join("saved_model.pb"), &data("p256.pub")).failed(Exit::Bad);
    assert!(
        error.contains("saved_model.pb: not a Sigstore bundle signed with a key"),
        "{error}"
    );
    let error = check(&signature, &data("p256.pem")).failed(Exit::Usage);
    assert!(
        error.contains("not a public key of P-256 or P-384 in PEM"),
        "{error}"
    );
}

#[test]
fn records_that_are_no_chunks_are_signed_and_a_file_that_should_be_chunks_is_not() {
    let dir = Dir::new();
    let records = data("../riegeli/cpp_small_zstd3.riegeli");
    let key = data("p256.pem");
    for (name, exit) in [("log.riegeli", Exit::Done), ("log.cpb", Exit::Bad)] {
        let log = dir.copy(&records, name);
        let ran = run([&"sign", &log, &"--key", &key]);
        assert_eq!(ran.exit, exit, "{ran:?}");
    }
    assert_eq!(dir.files(), ["log.cpb", "log.riegeli", "log.riegeli.sig"]);
}
