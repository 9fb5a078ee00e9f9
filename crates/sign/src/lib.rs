//! Signing of models of any size, in the format of [OpenSSF Model Signing].
//!
//! A [`Signature`] lists every file in a model with its SHA-256 hash, and is signed with a P-256 or
//! P-384 elliptic-curve key. It is stored in a small separate file. PyPI's `model-signing` accepts
//! this file offline, and this crate accepts key-based signatures that `model-signing` writes.
//!
//! The checksums in a `.cpb` detect accidental damage, but an attacker who changes the file can
//! also change its checksums. A signature detects such forgeries, provided that you got the public
//! key from someone you trust.
//!
//! ```
//! use proto_splitter_sign::{SignOptions, SigningKey, VerifyOptions, VerifyingKey, sign, verify};
//!
//! # let folder = tempfile::tempdir()?;
//! # let model = folder.path().join("model.cpb");
//! # std::fs::write(&model, "chunks")?;
//! # let private = p256::SecretKey::from_slice(&[7; 32])?;
//! # let private_pem = private.to_sec1_pem(Default::default())?;
//! # let public_pem = p256::pkcs8::EncodePublicKey::to_public_key_pem(&private.public_key(), Default::default())?;
//! let key = SigningKey::from_pem(&private_pem)?;
//! let signature = sign(&model, &key, &SignOptions::new())?;
//!
//! let key = VerifyingKey::from_pem(&public_pem)?;
//! let report = verify(&model, &signature, &key, &VerifyOptions::new())?;
//! assert!(report.is_good());
//!
//! std::fs::write(&model, "chunkz")?;
//! let report = verify(&model, &signature, &key, &VerifyOptions::new())?;
//! assert_eq!(report.changed, ["."]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The format
//!
//! The file is a Sigstore bundle, version 0.3, in JSON. Its DSSE envelope holds an in-toto statement:
//!
//! | field of the statement | value |
//! | --- | --- |
//! | `_type` | `https://in-toto.io/Statement/v1` |
//! | `subject` | one entry: the model's name, and the SHA-256 of the concatenated hashes of all files |
//! | `predicateType` | `https://model_signing/signature/v1.0` |
//! | `predicate.serialization` | the method (`files`), the hash function, and the ignored paths |
//! | `predicate.resources` | for each file, its path within the model (`.` for a model of one file), and its hash |
//!
//! The signature covers the statement, preceded by a header that DSSE adds.
//!
//! [OpenSSF Model Signing]: https://github.com/sigstore/model-transparency
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod files;
mod key;
mod options;
mod signature;
mod statement;
mod verify;

pub use key::{SigningKey, VerifyingKey};
pub use options::{SignOptions, VerifyOptions};
pub use signature::Signature;
pub use verify::{SignatureReport, verify};

use std::path::Path;

use proto_splitter_core::Result;

use crate::files::ModelFiles;
use crate::statement::Statement;

/// Signs the model at `path`, which is a file or a folder.
///
/// Signs every file in the folder, except for those that the options ignore. Hashes the files on
/// several threads, up to the number in the options. Each file is hashed by one thread.
///
/// # Errors
///
/// Fails if a file can't be read, or is neither a regular file nor a folder; if the folder has a
/// symbolic link, a name that isn't UTF-8, or no files; or if the work was cancelled.
pub fn sign(path: impl AsRef<Path>, key: &SigningKey, options: &SignOptions) -> Result<Signature> {
    let files = ModelFiles::find(path.as_ref(), &[], &options.ignored)?;
    let resources = files.hash(&options.progress, options.threads)?;
    let statement = Statement::of(files.name(), resources, files.ignored());
    Signature::of(&statement, key)
}
