//! Reads arbitrary bytes as a signature file, as a key, or as a statement, which is then signed. Checks that a key accepts only what was
//! signed with it, and only for the signed files.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::fuzz_target;
use p256::ecdsa::DerSignature;
use p256::ecdsa::signature::Signer;
use p256::pkcs8::DecodePrivateKey;
use proto_splitter_sign::{
    SignOptions, Signature, SignatureReport, SigningKey, VerifyOptions, VerifyingKey, sign, verify,
};

/// The private keys whose signatures are valid: a signature made with one of them isn't a forgery.
const KEYS: [&str; 2] = [
    include_str!("../../tests/data/sign/p256.pem"),
    include_str!("../../tests/data/sign/p384.pem"),
];

/// Signatures of another model, made with the keys in [`KEYS`].
const OTHERS: [&[u8]; 2] = [
    include_bytes!("../../tests/data/sign/model-p256.sig"),
    include_bytes!("../../tests/data/sign/model-p384.sig"),
];

/// Names of the files in the model.
const FILES: [&str; 2] = ["a.cpb", "b/c"];

/// A model, and all that was signed with each key.
struct Known {
    _folder: tempfile::TempDir,
    model: PathBuf,
    signers: Vec<KeyHolder>,
}

struct KeyHolder {
    key: VerifyingKey,
    signature: Signature,
    /// The statements that were signed with this key, in base64, each with the report that it must produce.
    accepted: Vec<(String, SignatureReport)>,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model");
    std::fs::create_dir_all(model.join("b")).expect("a folder");
    for name in FILES {
        std::fs::write(model.join(name), name).expect("a file");
    }
    let signers = KEYS.iter().zip(OTHERS).map(|(pem, other)| {
        let private = SigningKey::from_pem(pem).expect("a key");
        let key = private.verifying_key();
        let signature = sign(&model, &private, &SignOptions::new()).expect("a signature");
        let other = Signature::from_json(other).expect("a signature");
        let accepted = [&signature, &other].map(|signature| {
            let report = checked(&model, signature, &key).expect("its key has signed it");
            (payload(signature), report)
        });
        assert!(accepted[0].1.is_good() && !accepted[1].1.is_good());
        KeyHolder {
            key,
            signature,
            accepted: accepted.into(),
        }
    });
    Known {
        signers: signers.collect(),
        model,
        _folder: folder,
    }
});

/// Returns the report on a model; `None` if its signature isn't accepted.
fn checked(model: &Path, signature: &Signature, key: &VerifyingKey) -> Option<SignatureReport> {
    let options = VerifyOptions::new().threads(std::num::NonZeroUsize::MIN);
    verify(model, signature, key, &options).ok()
}

/// Returns the statement in a signature, in base64.
fn payload(signature: &Signature) -> String {
    let json = json_of(signature);
    let (_, behind) = json.split_once(r#""payload":""#).expect("it has a payload");
    behind.split('"').next().unwrap_or_default().to_owned()
}

fn json_of(signature: &Signature) -> String {
    let json = signature.to_json().expect("it has strings alone");
    String::from_utf8(json).expect("it is JSON")
}

/// Adds signatures, keys and statements to the corpus, each preceded by a byte that determines how it is read.
fn plant() {
    let Some(corpus) = proto_splitter_fuzz::corpus("signature") else {
        return;
    };
    let plant = |name: &str, how: u8, bytes: &[u8]| {
        std::fs::write(corpus.join(name), [&[how], bytes].concat()).expect("a seed");
    };
    let public = [
        include_str!("../../tests/data/sign/p256.pub"),
        include_str!("../../tests/data/sign/p384.pub"),
    ];
    for (at, signer) in KNOWN.signers.iter().enumerate() {
        let json = json_of(&signer.signature);
        plant(&format!("signature-{at}"), 0, json.as_bytes());
        plant(&format!("other-{at}"), 0, OTHERS[at]);
        plant(&format!("private-{at}"), 1, KEYS[at].as_bytes());
        plant(&format!("public-{at}"), 1, public[at].as_bytes());
        let statement = STANDARD.decode(&signer.accepted[at].0);
        plant(
            &format!("statement-{at}"),
            2,
            &statement.expect("it is base64"),
        );
    }
    let encrypted = include_bytes!("../../tests/data/sign/encrypted.pem");
    plant("encrypted", 1, encrypted);
}

/// Reads the bytes as a signature file, and checks that each key accepts only statements that were signed with it.
fn as_file(bytes: &[u8]) {
    let Ok(signature) = Signature::from_json(bytes) else {
        return;
    };
    let again = Signature::from_json(json_of(&signature).as_bytes());
    assert_eq!(again.expect("what was written is read"), signature);
    for signer in &KNOWN.signers {
        if let Some(report) = checked(&KNOWN.model, &signature, &signer.key) {
            let accepted = (payload(&signature), report);
            assert!(signer.accepted.contains(&accepted), "{accepted:?}");
        }
    }
}

/// Reads the text as a key. Checks that a public key accepts no signature made with another key, and that a signature made with a private
/// key is accepted only with its public key.
fn as_key(text: &str) {
    let refuses = |key: &VerifyingKey, signature: &Signature| {
        assert_eq!(checked(&KNOWN.model, signature, key), None, "{key:?}");
    };
    if let Ok(key) = VerifyingKey::from_pem(text) {
        for signer in KNOWN.signers.iter().filter(|signer| signer.key != key) {
            refuses(&key, &signer.signature);
        }
    }
    let Ok(private) = SigningKey::from_pem(text) else {
        return;
    };
    let key = private.verifying_key();
    let signature = sign(&KNOWN.model, &private, &SignOptions::new()).expect("a signature");
    let report = checked(&KNOWN.model, &signature, &key);
    assert!(report.expect("its key has signed it").is_good());
    for signer in KNOWN.signers.iter().filter(|signer| signer.key != key) {
        refuses(&signer.key, &signature);
    }
}

/// Signs a statement with the first key. Checks that each file counts at most once as equal, changed or unsigned, and that the signature is
/// rejected if a bit of the statement is changed.
fn as_statement(statement: &[u8]) {
    static KEY: LazyLock<p256::ecdsa::SigningKey> = LazyLock::new(|| {
        p256::ecdsa::SigningKey::from_pkcs8_pem(KEYS[0]).expect("the form of the first key")
    });
    const TYPE: &str = "application/vnd.in-toto+json";
    let mut signed = format!("DSSEv1 {} {TYPE} {} ", TYPE.len(), statement.len()).into_bytes();
    signed.extend_from_slice(statement);
    let made: DerSignature = KEY.sign(&signed);
    let signer = &KNOWN.signers[0];
    let template = json_of(&signer.signature);
    let (front, behind) = template
        .split_once(r#""sig":""#)
        .expect("it has a signature");
    let (_, end) = behind.split_once('"').expect("it has an end");
    let template = format!(
        r#"{front}"sig":"{}"{end}"#,
        STANDARD.encode(made.as_bytes())
    );
    let about = |statement: &[u8]| {
        let json = template.replace(&signer.accepted[0].0, &STANDARD.encode(statement));
        Signature::from_json(json.as_bytes()).expect("the form of a signature")
    };
    if let Some(report) = checked(&KNOWN.model, &about(statement), &signer.key) {
        let seen = report.equal + report.changed.len() + report.unsigned.len();
        assert!(seen <= FILES.len(), "{report:?}");
        // Unless the statement ignores files, the report covers every file. Without escapes, JSON has only one spelling of `ignore_paths`.
        let text = String::from_utf8_lossy(statement);
        if !text.contains("ignore_paths") && !text.contains('\\') {
            assert_eq!(seen, FILES.len(), "{report:?}");
        }
    }
    let mut forged = statement.to_vec();
    let bit = crc32c::crc32c(statement) as usize % (forged.len() * 8).max(1);
    if let Some(byte) = forged.get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
        assert_eq!(checked(&KNOWN.model, &about(&forged), &signer.key), None);
    }
}

fuzz_target!(init: plant(), |data: &[u8]| {
    match data.split_first() {
        Some((0, bytes)) => as_file(bytes),
        Some((1, bytes)) => as_key(&String::from_utf8_lossy(bytes)),
        Some((_, bytes)) => as_statement(bytes),
        None => {}
    }
});
