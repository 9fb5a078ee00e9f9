//! Signing models and checking signatures, including those of PyPI's `model-signing`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter_core::ErrorKind;
use proto_splitter_core::progress::{CancelToken, Progress};
use proto_splitter_sign::{
    SignOptions, Signature, SignatureReport, SigningKey, VerifyOptions, VerifyingKey, sign, verify,
};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/sign")
        .join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(data(name)).unwrap()
}

fn keys(curve: &str) -> (SigningKey, VerifyingKey) {
    let private = SigningKey::from_pem(&text(&format!("{curve}.pem"))).unwrap();
    let public = VerifyingKey::from_pem(&text(&format!("{curve}.pub"))).unwrap();
    (private, public)
}

/// Returns a folder with a file, a subfolder, and a file name that sorts differently as a string
/// and as a path.
fn model() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::create_dir(folder.path().join(".git")).unwrap();
    for name in ["saved_model.cpb", "a/b", "a.b", ".git/HEAD"] {
        fs::write(folder.path().join(name), format!("bytes of {name}")).unwrap();
    }
    folder
}

fn check(model: &Path, signature: &Signature, key: &VerifyingKey) -> SignatureReport {
    verify(model, signature, key, &VerifyOptions::new()).unwrap()
}

#[test]
fn what_model_signing_signed_is_accepted_with_its_key_alone() {
    for (curve, other) in [("p256", "p384"), ("p384", "p256")] {
        let signature = fs::read(data(&format!("model-{curve}.sig"))).unwrap();
        let signature = Signature::from_json(&signature).unwrap();
        let report = check(&data("model"), &signature, &keys(curve).1);
        assert!(report.is_good(), "{report:?}");
        assert_eq!((&*report.model, report.equal), ("model", 3));
        let options = VerifyOptions::new();
        let error = verify(data("model"), &signature, &keys(other).1, &options).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the signature is not valid: it was signed with another key"
        );
    }
}

#[test]
fn every_change_of_a_folder_is_found() {
    let (private, public) = keys("p384");
    let model = model();
    let root = model.path();
    let signature = sign(root, &private, &SignOptions::new()).unwrap();
    let json = signature.to_json().unwrap();
    let signature = Signature::from_json(&json).unwrap();
    let good = check(root, &signature, &public);
    assert!(good.is_good(), "{good:?}");
    assert_eq!(good.equal, 3);
    // Git's own files aren't signed.
    fs::write(root.join(".git/HEAD"), "another branch").unwrap();
    assert_eq!(check(root, &signature, &public), good);

    fs::write(root.join("a/b"), "bytes of a/c").unwrap();
    fs::remove_file(root.join("a.b")).unwrap();
    fs::write(root.join("a/new"), "more").unwrap();
    let bad = check(root, &signature, &public);
    assert!(!bad.is_good());
    assert_eq!(bad.changed, ["a/b"]);
    assert_eq!(bad.missing, ["a.b"]);
    assert_eq!(bad.unsigned, ["a/new"]);
    let options = VerifyOptions::new().ignore(root.join("a/new"));
    let bad = verify(root, &signature, &public, &options).unwrap();
    assert!(bad.unsigned.is_empty() && !bad.is_good());
    // A signed file can't be exempted: if it is ignored, it counts as missing.
    let options = VerifyOptions::new().ignore(root.join("saved_model.cpb"));
    let bad = verify(root, &signature, &public, &options).unwrap();
    assert_eq!(bad.missing, ["a.b", "saved_model.cpb"]);
}

#[test]
fn a_signature_inside_the_model_is_left_out_of_it() {
    let (private, public) = keys("p256");
    let model = model();
    let path = model.path().join("model.sig");
    let options = SignOptions::new().ignore(&path);
    let signature = sign(model.path(), &private, &options).unwrap();
    fs::write(&path, signature.to_json().unwrap()).unwrap();
    let report = check(model.path(), &signature, &public);
    assert!(report.is_good(), "{report:?}");
}

#[test]
fn an_ignored_path_may_lead_out_of_the_model_and_into_it() {
    let (private, public) = keys("p256");
    let model = model();
    let part = model.path().join("a");
    let options = SignOptions::new().ignore(part.join("../a.b"));
    let signature = sign(&part, &private, &options).unwrap();
    let report = check(&part, &signature, &public);
    assert!(report.is_good() && report.equal == 1, "{report:?}");

    let path = part.join("../model.sig");
    let options = SignOptions::new().ignore(&path);
    let signature = sign(model.path(), &private, &options).unwrap();
    fs::write(&path, signature.to_json().unwrap()).unwrap();
    let report = check(model.path(), &signature, &public);
    assert!(report.is_good() && report.equal == 3, "{report:?}");
}

#[cfg(unix)]
#[test]
fn a_signature_inside_the_model_is_left_out_if_either_path_has_a_symbolic_link() {
    let (private, public) = keys("p256");
    let (model, folder) = (model(), tempfile::tempdir().unwrap());
    let link = folder.path().join("latest");
    std::os::unix::fs::symlink(model.path(), &link).unwrap();
    for (root, inside) in [(&*link, model.path()), (model.path(), &*link)] {
        let path = inside.join("model.sig");
        let options = SignOptions::new().ignore(&path);
        // The second signature replaces the first.
        let signature = sign(root, &private, &options).unwrap();
        fs::write(&path, signature.to_json().unwrap()).unwrap();
        let report = check(root, &signature, &public);
        assert!(report.is_good() && report.equal == 3, "{report:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_signature_inside_the_model_is_left_out_if_a_link_outside_leads_to_it() {
    let (private, public) = keys("p256");
    let (model, folder) = (model(), tempfile::tempdir().unwrap());
    let link = folder.path().join("current.sig");
    std::os::unix::fs::symlink(model.path().join("model.sig"), &link).unwrap();
    for _ in 0..2 {
        let signature = sign(model.path(), &private, &SignOptions::new().ignore(&link)).unwrap();
        // Writes through the link.
        fs::write(&link, signature.to_json().unwrap()).unwrap();
        let options = VerifyOptions::new().ignore(&link);
        let report = verify(model.path(), &signature, &public, &options).unwrap();
        assert!(report.is_good() && report.equal == 3, "{report:?}");
    }
}

#[test]
fn every_flipped_bit_of_a_signature_and_of_a_file_is_found() {
    let (private, public) = keys("p256");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.cpb");
    let bytes: Vec<u8> = (0..512_u32).map(|i| (i * 7 % 251) as u8).collect();
    fs::write(&path, &bytes).unwrap();
    let signature = sign(&path, &private, &SignOptions::new()).unwrap();
    let json = signature.to_json().unwrap();
    let options = VerifyOptions::new();
    for (at, _) in json.iter().enumerate() {
        // Flips one bit in the byte at this position.
        let mut flipped = json.clone();
        flipped[at] ^= 1 << (at % 8);
        let accepted = Signature::from_json(&flipped)
            .and_then(|signature| verify(&path, &signature, &public, &options));
        assert!(accepted.is_err(), "byte {at} of the signature");
    }
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&path, &flipped).unwrap();
        assert_eq!(
            check(&path, &signature, &public).changed,
            ["."],
            "byte {at} of the file"
        );
    }
}

#[test]
fn a_key_of_another_kind_is_refused() {
    for (name, says) in [
        ("p521.pem", "not a private key of P-256 or P-384 in PEM"),
        ("p256.pub", "not a private key of P-256 or P-384 in PEM"),
        (
            "encrypted.pem",
            "the private key is encrypted: decrypt it with openssl first",
        ),
    ] {
        let error = SigningKey::from_pem(&text(name)).unwrap_err();
        assert_eq!(error.to_string(), says, "{name}");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    }
    let error = VerifyingKey::from_pem(&text("p256.pem")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "not a public key of P-256 or P-384 in PEM"
    );
    assert_eq!(format!("{:?}", keys("p256").0), "SigningKey(P-256)");
}

#[test]
fn a_file_that_is_not_a_signature_is_refused() {
    for json in [
        "",
        "{}",
        "[]",
        "null",
        "{\"mediaType\":\"application/json\"}",
    ] {
        let error = Signature::from_json(json.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{json}");
        assert!(
            error
                .to_string()
                .starts_with("not a Sigstore bundle signed with a key: "),
            "{error}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_in_a_model_is_refused() {
    let model = model();
    std::os::unix::fs::symlink("saved_model.cpb", model.path().join("link")).unwrap();
    let error = sign(model.path(), &keys("p256").0, &SignOptions::new()).unwrap_err();
    assert!(
        error.to_string().contains("link: a symbolic link"),
        "{error}"
    );
}

#[test]
fn an_empty_folder_is_refused_and_a_missing_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let key = keys("p256").0;
    let error = sign(folder.path(), &key, &SignOptions::new()).unwrap_err();
    assert!(
        error.to_string().ends_with("there is no file to sign"),
        "{error}"
    );
    let error = sign(folder.path().join("gone"), &key, &SignOptions::new()).unwrap_err();
    assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotFound));
    assert!(error.to_string().contains("gone"), "{error}");
}

#[test]
fn signing_can_be_cancelled() {
    let token = CancelToken::new();
    token.cancel();
    let options = SignOptions::new().progress(Progress::none().cancelled_by(&token));
    let error = sign(model().path(), &keys("p256").0, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}
