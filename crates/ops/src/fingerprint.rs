//! Computing a SavedModel's fingerprint and comparing it with the stored one.

use std::path::{Path, PathBuf};

use proto_splitter_core::Result;
use proto_splitter_core::progress::Progress;
use proto_splitter_saved_model::SavedModelDir;
use proto_splitter_saved_model::fingerprint::{FingerprintError, differences, singleprint};
use proto_splitter_saved_model::proto::FingerprintDef;

use crate::error_place::at_path;

/// The result of [`fingerprint`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FingerprintReport {
    /// Path of the model's file, such as `saved_model.pb`.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// Fingerprint that TensorFlow would compute; `None` if TensorFlow can't compute any.
    pub computed: Option<Fingerprint>,
    /// Fingerprint stored in the model's folder; `None` if there is none.
    pub stored: Option<Fingerprint>,
    /// True if the computed and the stored fingerprint have equal fields, except for the uuid;
    /// `None` if one of the fingerprints is missing.
    pub agrees: Option<bool>,
    /// Names of the fields in which the stored fingerprint differs from the computed one.
    pub differs_in: Vec<&'static str>,
    /// Reason why TensorFlow can't compute a fingerprint; `None` if it can.
    pub refused: Option<String>,
    /// The hashes of the computed fingerprint except for `saved_model_checksum`, as decimal numbers
    /// joined by slashes; `None` if there is no computed fingerprint.
    pub singleprint: Option<String>,
}

impl FingerprintReport {
    /// Returns true if the fingerprint can be computed, and no stored fingerprint differs from it.
    pub fn is_good(&self) -> bool {
        self.refused.is_none() && self.agrees != Some(false)
    }
}

/// The fingerprint of a SavedModel. Hashes are strings, since most JSON readers round integers over
/// 2^53.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[allow(missing_docs, reason = "the fields of tensorflow.FingerprintDef")]
#[non_exhaustive]
pub struct Fingerprint {
    pub saved_model_checksum: String,
    pub graph_def_program_hash: String,
    pub signature_def_hash: String,
    pub saved_object_graph_hash: String,
    pub checkpoint_hash: String,
    pub uuid: String,
    pub producer: i32,
}

impl From<&FingerprintDef> for Fingerprint {
    fn from(of: &FingerprintDef) -> Self {
        Fingerprint {
            saved_model_checksum: of.saved_model_checksum.to_string(),
            graph_def_program_hash: of.graph_def_program_hash.to_string(),
            signature_def_hash: of.signature_def_hash.to_string(),
            saved_object_graph_hash: of.saved_object_graph_hash.to_string(),
            checkpoint_hash: of.checkpoint_hash.to_string(),
            uuid: of.uuid.clone(),
            producer: of.version.as_ref().map_or(0, |version| version.producer),
        }
    }
}

/// Computes the fingerprint of a SavedModel folder, and compares it with the stored fingerprint.
///
/// # Errors
///
/// Fails if there is no SavedModel, it can't be read or is damaged, or the work was cancelled.
pub fn fingerprint(folder: impl AsRef<Path>, progress: &Progress) -> Result<FingerprintReport> {
    let folder = folder.as_ref();
    let failed = |error| at_path(folder, error);
    let model = SavedModelDir::open(folder).map_err(failed)?;
    let stored = model.stored_fingerprint().map_err(failed)?;
    let (computed, refused) = match model.fingerprint_with(progress) {
        Ok(computed) => (Some(computed), None),
        Err(FingerprintError::Refused(why)) => (None, Some(why)),
        Err(FingerprintError::Unreadable(error)) => return Err(failed(error)),
    };
    let differs_in = match (&computed, &stored) {
        (Some(computed), Some(stored)) => Some(differences(computed, stored)),
        _ => None,
    };
    Ok(FingerprintReport {
        file: model.model_path(),
        computed: computed.as_ref().map(Fingerprint::from),
        stored: stored.as_ref().map(Fingerprint::from),
        agrees: differs_in.as_ref().map(Vec::is_empty),
        differs_in: differs_in.unwrap_or_default(),
        refused,
        singleprint: computed.as_ref().map(singleprint),
    })
}
