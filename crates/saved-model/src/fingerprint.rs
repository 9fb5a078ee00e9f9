//! The file `fingerprint.pb`, by which TensorFlow identifies a SavedModel.
//!
//! Each field is computed exactly as in TensorFlow 2.21's `CreateFingerprintDef`, including its
//! peculiarities. For a `.pb`, the fields are hashes of the following data:
//!
//! | field | hashed data |
//! | --- | --- |
//! | `saved_model_checksum` | the message in C++'s deterministic serialization |
//! | `graph_def_program_hash` | the first meta graph's nodes, without the parts that differ between saves; no functions |
//! | `signature_def_hash` | the first meta graph's signatures, sorted by name |
//! | `saved_object_graph_hash` | the first meta graph's concrete functions, sorted by the number at the end of their names |
//! | `checkpoint_hash` | the bytes of `variables/variables.index`; the field is 0 if the file can't be read |
//!
//! For a `.cpb`, the hashes also depend on how the model was split. They differ from the hashes of
//! the same model as a `.pb`, and from those of the same model split differently; see `chunked.rs`.
//! TensorFlow can't compute a fingerprint for some models that it can read; see
//! [`FingerprintError::Refused`].

mod chunked;
mod plain;
mod regular;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use prost::Message;
use prost_reflect::MessageDescriptor;
use proto_splitter_core::atomic::{AtomicFile, MadeFrom, open_regular};
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::VersionDef;

pub use crate::farmhash::{Farmhash, fingerprint_cat64, fingerprint64};

pub(crate) use chunked::hashes as chunked_hashes;
pub(crate) use plain::hashes as plain_hashes;

use crate::proto::{FingerprintDef, descriptor_pool};

/// Name of the fingerprint file in a SavedModel's folder.
pub const FINGERPRINT_FILE: &str = "fingerprint.pb";

/// Maximum size of a fingerprint file, in bytes: 64 KiB. TensorFlow's have about 100 bytes.
const MAX_FINGERPRINT: u64 = 64 << 10;

/// Value of `version.producer` in the fingerprint that TensorFlow 2.21 writes for a `.pb`.
const PLAIN_PRODUCER: i32 = 4;

/// Value of `version.producer` in the fingerprint that TensorFlow 2.21 writes for a `.cpb`.
const CHUNKED_PRODUCER: i32 = 2;

/// An error from computing a fingerprint.
#[derive(Debug)]
pub enum FingerprintError {
    /// TensorFlow's own code fails on this model, so there is no correct fingerprint. The string is
    /// the reason.
    Refused(String),
    /// The model can't be read.
    Unreadable(Error),
}

impl FingerprintError {
    pub(crate) fn refused(why: impl Into<String>) -> Self {
        FingerprintError::Refused(why.into())
    }
}

impl fmt::Display for FingerprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FingerprintError::Refused(why) => {
                write!(
                    f,
                    "TensorFlow can't compute a fingerprint of this model: {why}"
                )
            }
            FingerprintError::Unreadable(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FingerprintError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FingerprintError::Refused(_) => None,
            FingerprintError::Unreadable(error) => Some(error),
        }
    }
}

impl From<Error> for FingerprintError {
    fn from(error: Error) -> Self {
        FingerprintError::Unreadable(error)
    }
}

/// The four hashes of a model, and the producer number for its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hashes {
    pub(crate) saved_model_checksum: u64,
    pub(crate) graph_def_program_hash: u64,
    pub(crate) signature_def_hash: u64,
    pub(crate) saved_object_graph_hash: u64,
    pub(crate) producer: i32,
}

impl Hashes {
    /// Returns the fingerprint with these hashes and the checkpoint hash of `folder`, without a
    /// uuid.
    pub(crate) fn in_folder(self, folder: &Path) -> FingerprintDef {
        FingerprintDef {
            saved_model_checksum: self.saved_model_checksum,
            graph_def_program_hash: self.graph_def_program_hash,
            signature_def_hash: self.signature_def_hash,
            saved_object_graph_hash: self.saved_object_graph_hash,
            checkpoint_hash: checkpoint_hash(folder),
            uuid: String::new(),
            version: Some(VersionDef {
                producer: self.producer,
                ..VersionDef::default()
            }),
        }
    }
}

/// Returns the hash of `variables.index`. Like TensorFlow, returns 0 if the file can't be read.
fn checkpoint_hash(folder: &Path) -> u64 {
    open_regular(&folder.join("variables").join("variables.index"))
        .and_then(|mut file| crate::farmhash::fingerprint_stream(&mut file))
        .unwrap_or(0)
}

/// Reads `fingerprint.pb` in a SavedModel's folder; returns `None` if the file doesn't exist.
///
/// # Errors
///
/// [`ErrorKind::Io`] if the file can't be read; [`ErrorKind::InvalidMessage`] if it isn't a
/// fingerprint; [`ErrorKind::LimitExceeded`] if it is far larger than any fingerprint.
pub fn read(folder: impl AsRef<Path>) -> Result<Option<FingerprintDef>> {
    let path = folder.as_ref().join(FINGERPRINT_FILE);
    let mut bytes = Vec::new();
    let read = |file: File| file.take(MAX_FINGERPRINT + 1).read_to_end(&mut bytes);
    match open_regular(&path).and_then(read) {
        Ok(len) if len as u64 > MAX_FINGERPRINT => {
            let message = format!("not a fingerprint: it has more than {MAX_FINGERPRINT} bytes");
            return Err(Error::new(ErrorKind::LimitExceeded, message).in_file(&path));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::from(error).in_file(&path)),
    }
    let decoded = FingerprintDef::decode(bytes.as_slice());
    decoded.map(Some).map_err(|error| {
        let message = format!("{}: not a fingerprint: {error}", path.display());
        Error::new(ErrorKind::InvalidMessage, message)
    })
}

/// Writes `fingerprint.pb` to a SavedModel's folder, replacing an existing one.
///
/// # Errors
///
/// [`ErrorKind::Io`] if the file can't be written.
pub fn write(folder: impl AsRef<Path>, fingerprint: &FingerprintDef) -> Result<()> {
    let path = folder.as_ref().join(FINGERPRINT_FILE);
    let models = ["saved_model.pb", "saved_model.cpb"].map(|name| folder.as_ref().join(name));
    let file = AtomicFile::create(path, &MadeFrom::files(models), true)?;
    file.write(|sink| Ok(sink.write_all(&fingerprint.encode_to_vec())?))
}

/// Returns a new uuid in TensorFlow's form: 128 random bits as a decimal number.
///
/// # Errors
///
/// [`ErrorKind::Io`] if the operating system provides no random numbers.
pub fn new_uuid() -> Result<String> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| {
        let message = format!("no random numbers for a uuid: {error}");
        Error::new(ErrorKind::Io, message)
    })?;
    Ok(format!("{:020}", u128::from_le_bytes(bits)))
}

/// Returns the names of the fields in which two fingerprints differ. Ignores the uuid, which
/// identifies the act of saving rather than the content.
#[must_use]
pub fn differences(a: &FingerprintDef, b: &FingerprintDef) -> Vec<&'static str> {
    let producer = |of: &FingerprintDef| of.version.as_ref().map_or(0, |version| version.producer);
    let fields = [
        (
            "saved_model_checksum",
            a.saved_model_checksum == b.saved_model_checksum,
        ),
        (
            "graph_def_program_hash",
            a.graph_def_program_hash == b.graph_def_program_hash,
        ),
        (
            "signature_def_hash",
            a.signature_def_hash == b.signature_def_hash,
        ),
        (
            "saved_object_graph_hash",
            a.saved_object_graph_hash == b.saved_object_graph_hash,
        ),
        ("checkpoint_hash", a.checkpoint_hash == b.checkpoint_hash),
        ("version.producer", producer(a) == producer(b)),
    ];
    let differ = fields.iter().filter(|(_, equal)| !equal);
    differ.map(|(name, _)| *name).collect()
}

/// Formats the fingerprint as one line, like TensorFlow's `singleprint`.
#[must_use]
pub fn singleprint(fingerprint: &FingerprintDef) -> String {
    format!(
        "{}/{}/{}/{}",
        fingerprint.graph_def_program_hash,
        fingerprint.signature_def_hash,
        fingerprint.saved_object_graph_hash,
        fingerprint.checkpoint_hash
    )
}

/// Returns the descriptor of the type with this full name, such as `tensorflow.GraphDef`.
pub(crate) fn descriptor(full_name: &str) -> Result<MessageDescriptor> {
    descriptor_pool()
        .get_message_by_name(full_name)
        .ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidConfig,
                format!("no type is called {full_name}"),
            )
        })
}
