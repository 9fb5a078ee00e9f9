//! The effect that writing a model has on the model's `fingerprint.pb`.

use std::path::Path;

use proto_splitter_core::Result;

use super::model::Model;
use super::options::SaveOptions;
use super::{ModelForm, model_path};
use crate::fingerprint::{self, FingerprintError};
use crate::proto::FingerprintDef;

/// The effect that writing a model has on the model's `fingerprint.pb`.
#[derive(Clone, Debug, PartialEq)]
pub enum FingerprintOutcome {
    /// The fingerprint was computed again. This is the result, which is stored in `fingerprint.pb`.
    Written(FingerprintDef),
    /// The fingerprint is unchanged, as the options requested.
    Kept,
    /// The folder had no `fingerprint.pb`, and still has none.
    Absent,
    /// The fingerprint is unchanged, since TensorFlow's code can't compute one for the new form of
    /// the model. The string is the reason.
    Refused(String),
}

/// Updates a folder's `fingerprint.pb` after its model was written in this form.
pub(super) fn update_fingerprint(
    folder: &Path,
    form: ModelForm,
    options: &SaveOptions,
) -> Result<FingerprintOutcome> {
    if options.keep_fingerprint {
        return Ok(FingerprintOutcome::Kept);
    }
    let Some(stored) = fingerprint::read(folder)? else {
        return Ok(FingerprintOutcome::Absent);
    };
    let model = Model::open_file(&model_path(folder, form), form)?;
    let mut computed = match model.hashes(options.get_progress()) {
        Ok(hashes) => hashes.in_folder(folder),
        Err(FingerprintError::Refused(why)) => return Ok(FingerprintOutcome::Refused(why)),
        Err(FingerprintError::Unreadable(error)) => return Err(error),
    };
    computed.uuid.clone_from(&stored.uuid);
    if computed != stored {
        fingerprint::write(folder, &computed)?;
    }
    Ok(FingerprintOutcome::Written(computed))
}
