//! The fate of a model's `fingerprint.pb`.

use std::path::Path;

use proto_splitter_core::Result;

use super::model::Model;
use super::options::SaveOptions;
use super::{ModelForm, model_path};
use crate::fingerprint::{self, FingerprintError};
use crate::proto::FingerprintDef;

/// The outcome for a model's `fingerprint.pb`.
#[derive(Clone, Debug, PartialEq)]
pub enum FingerprintOutcome {
    /// It was computed again, and is this now.
    Written(FingerprintDef),
    /// It was left as it is, as was asked for.
    Kept,
    /// The model has none, and still has none.
    Absent,
    /// It was left as it is: TensorFlow's own code can't compute one for the model in its new form,
    /// for this reason.
    Refused(String),
}

/// Has a folder's `fingerprint.pb` agree with the model of this form that is in it now.
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
    let mut computed = match model.hashes(&options.split.progress) {
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
