//! The statement in a signature.

use proto_splitter_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const TYPE: &str = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE: &str = "https://model_signing/signature/v1.0";
const SHA256: &str = "sha256";

/// An in-toto statement about the files of a model.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: Predicate,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    name: String,
    digest: SubjectDigest,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectDigest {
    sha256: String,
}

/// The statement's predicate. Unknown fields are ignored, since version 1.0 of the format requires
/// this for the sake of later versions.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Predicate {
    serialization: Serialization,
    resources: Vec<Resource>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Serialization {
    method: String,
    hash_type: String,
    #[serde(default)]
    allow_symlinks: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ignore_paths: Vec<String>,
}

/// A file of a model, and its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resource {
    /// Path of the file within the model, with slashes; `.` if the model is this file.
    pub(crate) name: String,
    algorithm: String,
    /// SHA-256 of the file, in lower-case hexadecimal digits.
    pub(crate) digest: String,
}

impl Resource {
    pub(crate) fn new(name: String, digest: String) -> Self {
        Resource {
            name,
            algorithm: SHA256.to_owned(),
            digest,
        }
    }
}

impl Statement {
    /// Creates the statement about the model `name` that consists of the files `resources`, in this
    /// order.
    pub(crate) fn of(name: &str, resources: Vec<Resource>, ignored: &[String]) -> Self {
        Statement {
            kind: TYPE.to_owned(),
            subject: vec![Subject {
                name: name.to_owned(),
                digest: SubjectDigest {
                    sha256: digest_of_digests(&resources).unwrap_or_default(),
                },
            }],
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate: Predicate {
                serialization: Serialization {
                    method: "files".to_owned(),
                    hash_type: SHA256.to_owned(),
                    allow_symlinks: false,
                    ignore_paths: ignored.to_vec(),
                },
                resources,
            },
        }
    }

    /// Parses a statement from JSON. Fails if this crate can't check a model against the statement.
    pub(crate) fn parse(json: &[u8]) -> Result<Self> {
        let statement: Statement = serde_json::from_slice(json).map_err(|error| {
            Error::invalid(format!(
                "the signed statement doesn't describe a model: {error}"
            ))
        })?;
        let expected = [
            ("type", &statement.kind, TYPE),
            ("predicate type", &statement.predicate_type, PREDICATE_TYPE),
        ];
        for (what, found, expected) in expected {
            if found != expected {
                return Err(Error::invalid(format!(
                    "the statement has {what} {found:?}, expected {expected:?}"
                )));
            }
        }
        let how = &statement.predicate.serialization;
        if how.method != "files" || how.hash_type != SHA256 {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!(
                    "files are signed by {:?} with {:?}, but only \"files\" with \"sha256\" is supported",
                    how.method, how.hash_type
                ),
            ));
        }
        if let Some(other) = statement
            .predicate
            .resources
            .iter()
            .find(|one| one.algorithm != SHA256)
        {
            return Err(Error::invalid(format!(
                "{} has a hash of type {:?}, expected \"sha256\"",
                other.name, other.algorithm
            )));
        }
        let [subject] = &*statement.subject else {
            return Err(Error::invalid(format!(
                "{} subjects, expected 1",
                statement.subject.len()
            )));
        };
        let digest = digest_of_digests(&statement.predicate.resources)
            .ok_or_else(|| Error::invalid("the hash of a file is not 64 hexadecimal digits"))?;
        if digest != subject.digest.sha256 {
            return Err(Error::invalid(
                "the hash of all files doesn't match the hashes of the files",
            ));
        }
        Ok(statement)
    }

    pub(crate) fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| Error::invalid(error.to_string()))
    }

    pub(crate) fn model_name(&self) -> &str {
        self.subject.first().map_or("", |subject| &subject.name)
    }

    pub(crate) fn resources(&self) -> &[Resource] {
        &self.predicate.resources
    }

    /// Returns the paths within the model that aren't signed, because they were ignored.
    pub(crate) fn ignored(&self) -> &[String] {
        &self.predicate.serialization.ignore_paths
    }
}

/// Returns the SHA-256 of the concatenated hashes of all files, or `None` if one of the hashes is
/// malformed.
fn digest_of_digests(resources: &[Resource]) -> Option<String> {
    let mut hasher = Sha256::new();
    for resource in resources {
        hasher.update(from_hex(&resource.digest)?);
    }
    Some(to_hex(&hasher.finalize()))
}

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        // Accepts only lower case, so that each hash has only one representation.
        let [high, low] = [digits[0], digits[1]].map(|digit| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        });
        *byte = high? << 4 | low?;
    }
    Some(bytes)
}
