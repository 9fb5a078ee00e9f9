//! Checking a model against its signature.

use std::collections::HashMap;
use std::path::Path;

use proto_splitter_core::Result;

use crate::files::ModelFiles;
use crate::key::VerifyingKey;
use crate::options::VerifyOptions;
use crate::signature::Signature;

/// The result of [`verify`] for a valid signature.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct SignatureReport {
    /// Name of the model when it was signed. The model may have been renamed since.
    pub model: String,
    /// Number of signed files that are unchanged.
    pub equal: usize,
    /// Paths of the signed files whose bytes have changed.
    pub changed: Vec<String>,
    /// Paths of the signed files that are missing.
    pub missing: Vec<String>,
    /// Paths of the files in the model that aren't signed.
    pub unsigned: Vec<String>,
}

impl SignatureReport {
    /// Returns true if the model consists of exactly the signed files, all unchanged.
    pub fn is_good(&self) -> bool {
        self.changed.is_empty() && self.missing.is_empty() && self.unsigned.is_empty()
    }
}

/// Checks that the signature was made with `key`, and compares the files of the model at `path`
/// with the signed hashes.
///
/// # Errors
///
/// [`ErrorKind::ChecksumMismatch`](proto_splitter_core::ErrorKind::ChecksumMismatch) if the
/// signature isn't valid or was made with another key. Also fails if the signed statement can't be
/// interpreted, a file can't be read, or the work was cancelled. A file that differs from the
/// signed one isn't an error: see [`SignatureReport::is_good`].
pub fn verify(
    path: impl AsRef<Path>,
    signature: &Signature,
    key: &VerifyingKey,
    options: &VerifyOptions,
) -> Result<SignatureReport> {
    let statement = signature.statement(key)?;
    let root = path.as_ref();
    let files = ModelFiles::find(root, statement.ignored(), &options.ignored)?;
    let mut hashes: HashMap<String, String> = files
        .hash(&options.progress, options.threads)?
        .into_iter()
        .map(|resource| (resource.name, resource.digest))
        .collect();
    let mut report = SignatureReport {
        model: statement.model_name().to_owned(),
        equal: 0,
        changed: Vec::new(),
        missing: Vec::new(),
        unsigned: Vec::new(),
    };
    for resource in statement.resources() {
        match hashes.remove(&resource.name) {
            Some(digest) if digest == resource.digest => report.equal += 1,
            Some(_) => report.changed.push(resource.name.clone()),
            None => report.missing.push(resource.name.clone()),
        }
    }
    let unsigned = files.names().filter(|name| hashes.contains_key(*name));
    report.unsigned = unsigned.map(str::to_owned).collect();
    Ok(report)
}
