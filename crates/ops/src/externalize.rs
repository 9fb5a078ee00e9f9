//! Moving large constants out of a SavedModel into a checkpoint, and back.

use std::path::{Path, PathBuf};

use proto_splitter_core::Result;
use proto_splitter_externalize::{
    ConstantInfo, ExternalizeOptions, ExternalizePlan, Externalized, Reason, finish_in_place,
};
use proto_splitter_saved_model::ModelForm;
use proto_splitter_tensor_bundle::dtype_name;

use crate::error_place::at_path;

/// The destination of an externalized model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExternalizeTo<'a> {
    /// A new folder.
    Folder(&'a Path),
    /// The input folder itself.
    InPlace,
    /// No output, only a report of the constants that would move.
    Nowhere,
}

/// The result of [`externalize`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ExternalizeReport {
    /// Path of the externalized model's folder; `None` if nothing was written.
    #[cfg_attr(
        feature = "serde",
        serde(serialize_with = "crate::as_text::optional_path")
    )]
    pub output: Option<PathBuf>,
    /// Size of the original model as one serialized message, in bytes.
    pub message_bytes: u64,
    /// Size of the new `saved_model.pb`, in bytes; `None` if nothing was written.
    pub model_bytes: Option<u64>,
    /// Total size of the moved constants, in bytes. Several equal constants count as one.
    pub stored_bytes: u64,
    /// Large constants that were moved or, if nothing was written, would be moved.
    pub moved: Vec<Constant>,
    /// Large constants that can't be moved, each with the reason.
    pub left_in: Vec<LeftIn>,
    /// Files in the output folder that the new model doesn't use. They are left over from a model
    /// that was externalized to that folder earlier.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::paths"))]
    pub stale: Vec<PathBuf>,
    /// True if the model maps the constants into memory, from files at absolute paths.
    pub mapped: bool,
    /// True if an earlier run had already externalized the model in place. If that run was
    /// interrupted, this run has completed it.
    pub already: bool,
}

/// A constant in a SavedModel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Constant {
    /// Index of the meta graph that contains the constant.
    pub meta_graph: usize,
    /// Name of the function whose body contains the constant; `None` for the main graph.
    pub function: Option<String>,
    /// Name of the node that holds the constant.
    pub node: String,
    /// Name of the elements' type, such as `float32`.
    pub dtype: String,
    /// Sizes of the constant's dimensions.
    pub shape: Vec<u64>,
    /// Size of the constant, in bytes.
    pub bytes: u64,
}

/// A large constant that can't be moved out of the model, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LeftIn {
    /// The constant that stays in the model.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub constant: Constant,
    /// Reason why the constant can't be moved.
    pub why: String,
}

impl From<ConstantInfo> for Constant {
    fn from(of: ConstantInfo) -> Self {
        Constant {
            meta_graph: of.meta_graph,
            function: of.function,
            node: of.node,
            dtype: dtype_name(of.dtype),
            shape: of.shape,
            bytes: of.size,
        }
    }
}

impl From<(ConstantInfo, Reason)> for LeftIn {
    fn from((constant, reason): (ConstantInfo, Reason)) -> Self {
        LeftIn {
            constant: constant.into(),
            why: reason.to_string(),
        }
    }
}

/// Moves the large constants of a SavedModel folder into a checkpoint that the model reads by
/// itself when it is loaded.
///
/// Running this function in place a second time completes an interrupted run. If the model is
/// already externalized completely, nothing changes.
///
/// # Errors
///
/// The errors of [`ExternalizePlan::new`] and [`ExternalizePlan::write`].
pub fn externalize(
    folder: impl AsRef<Path>,
    to: ExternalizeTo<'_>,
    options: &ExternalizeOptions,
) -> Result<ExternalizeReport> {
    let folder = folder.as_ref();
    let failed = |error| at_path(folder, error);
    let mapped = options.get_mapped();
    if to == ExternalizeTo::InPlace
        && let Some(done) = finish_in_place(folder, options).map_err(failed)?
    {
        return Ok(ExternalizeReport::already(done, mapped));
    }
    let plan = ExternalizePlan::new(folder, options).map_err(failed)?;
    let written = match to {
        ExternalizeTo::Folder(output) => Some(plan.write(output)),
        ExternalizeTo::InPlace => Some(plan.write_in_place()),
        ExternalizeTo::Nowhere => None,
    };
    let written = written.transpose().map_err(failed)?;
    let model_bytes = written.as_ref().map(|written| written.model_size);
    let stale = written.as_ref().map(|written| written.stale.clone());
    Ok(ExternalizeReport {
        output: written.map(|written| written.path),
        message_bytes: plan.message_size(),
        model_bytes,
        stored_bytes: plan.stored(),
        moved: plan.constants().map(Constant::from).collect(),
        left_in: plan.left().map(LeftIn::from).collect(),
        stale: stale.unwrap_or_default(),
        mapped,
        already: false,
    })
}

impl ExternalizeReport {
    /// Returns the report for a model that an earlier run had externalized.
    fn already(done: Externalized, mapped: bool) -> ExternalizeReport {
        ExternalizeReport {
            output: Some(done.path),
            message_bytes: done.message_size,
            model_bytes: Some(done.model_size),
            stored_bytes: done.stored,
            mapped,
            already: true,
            ..ExternalizeReport::default()
        }
    }
}

/// The result of [`internalize`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct InternalizeReport {
    /// Path of the restored model's folder.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub output: PathBuf,
    /// True if the model is in chunks.
    pub split: bool,
    /// Size of the restored model as one serialized message, in bytes.
    pub message_bytes: u64,
}

/// Restores the original model from an externalized SavedModel, and writes it to a new folder.
///
/// # Errors
///
/// The errors of [`proto_splitter_externalize::internalize`].
pub fn internalize(
    folder: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &ExternalizeOptions,
) -> Result<InternalizeReport> {
    let folder = folder.as_ref();
    let made = proto_splitter_externalize::internalize(folder, output, options);
    let made = made.map_err(|error| at_path(folder, error))?;
    Ok(InternalizeReport {
        output: made.path,
        split: made.form == ModelForm::Chunked,
        message_bytes: made.message_size,
    })
}
