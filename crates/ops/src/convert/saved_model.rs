//! Converting a SavedModel folder.

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter_core::{Error, Result};
use proto_splitter_saved_model::directory::{FingerprintOutcome, Saved};
use proto_splitter_saved_model::{ModelForm, SaveOptions, SavedModelDir, TargetForm};

use super::options::{ConversionOptions, USUAL};
use super::{CHUNKS, invalid};
use crate::error_place::at_path;

/// The result of [`convert_saved_model`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ConvertSavedModelReport {
    /// Path of the written `saved_model.pb` or `saved_model.cpb`.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub output: PathBuf,
    /// True if the model is in chunks.
    pub split: bool,
    /// Size of the model in the form of a single `saved_model.pb`, in bytes.
    pub message_bytes: u64,
    /// Size of the written file, in bytes.
    pub output_bytes: u64,
    /// False if the model already had the requested form, which is only possible for a conversion
    /// in place.
    pub changed: bool,
    /// Effect on `fingerprint.pb`; serialized as `written`, `kept`, `absent` or `refused`.
    #[cfg_attr(feature = "serde", serde(serialize_with = "outcome"))]
    pub fingerprint: FingerprintOutcome,
}

/// Converts a SavedModel to another form, in the folder `output`, or in place if `output` is
/// `None`.
///
/// The forms are `auto`, `pb` and `cpb`, none of which has settings. `options` determines how
/// chunks are written and whether existing files are overwritten, and takes precedence over
/// `saving`.
///
/// # Errors
///
/// - [`InvalidConfig`](proto_splitter_core::ErrorKind::InvalidConfig) if `options` names another
///   form, or contains settings or a maximum size of files.
/// - The errors of [`SavedModelDir::save_as`] and [`SavedModelDir::convert_in_place`].
pub fn convert_saved_model(
    folder: impl AsRef<Path>,
    output: Option<&Path>,
    options: &ConversionOptions,
    saving: &SaveOptions,
) -> Result<ConvertSavedModelReport> {
    let folder = folder.as_ref();
    if let Some((name, _)) = options.get_settings().first() {
        return Err(invalid(format!("{name}: a SavedModel has no settings")));
    }
    if options.get_max_file_size().is_some() {
        return Err(invalid(
            "max-file-size: a SavedModel is converted to one file",
        ));
    }
    let form = match options.get_to() {
        USUAL => TargetForm::Auto,
        "pb" => TargetForm::Plain,
        CHUNKS => TargetForm::Chunked,
        other => {
            let message = format!("{other}: a SavedModel's forms are auto, pb and cpb");
            return Err(invalid(message));
        }
    };
    let split = options.get_split().clone();
    let saving = saving.clone().force(split.get_force()).split(split);
    let failed = |error| at_path(folder, error);
    let saved = match output {
        Some(output) => {
            let model = SavedModelDir::open(folder).map_err(failed)?;
            model.save_as(output, form, &saving)
        }
        None => SavedModelDir::convert_in_place(folder, form, &saving),
    };
    ConvertSavedModelReport::of(saved.map_err(failed)?)
}

impl ConvertSavedModelReport {
    fn of(saved: Saved) -> Result<Self> {
        let file = fs::metadata(&saved.model_path);
        let file = file.map_err(|error| Error::from(error).in_file(&saved.model_path))?;
        Ok(ConvertSavedModelReport {
            output: saved.model_path,
            split: saved.form == ModelForm::Chunked,
            message_bytes: saved.message_size,
            output_bytes: file.len(),
            changed: saved.changed,
            fingerprint: saved.fingerprint,
        })
    }
}

/// Serializes the effect on `fingerprint.pb` as one word.
#[cfg(feature = "serde")]
fn outcome<S: serde::Serializer>(
    outcome: &FingerprintOutcome,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(match outcome {
        FingerprintOutcome::Written(_) => "written",
        FingerprintOutcome::Kept => "kept",
        FingerprintOutcome::Absent => "absent",
        FingerprintOutcome::Refused(_) => "refused",
    })
}
