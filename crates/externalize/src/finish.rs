//! Finishing an in-place externalization that was interrupted.

use std::path::Path;

use proto_splitter_core::{Error, Result};
use proto_splitter_saved_model::directory::FolderLock;
use proto_splitter_saved_model::{ModelForm, SaveOptions, SavedModelDir, TargetForm};
use proto_splitter_tensor_bundle::{Bundle, Tensor};

use crate::options::ExternalizeOptions;
use crate::plan::Externalized;
use crate::record::{Record, bundle_prefix};

/// Finishes an interrupted [`write_in_place`](crate::ExternalizePlan::write_in_place) in the folder
/// `path`. To repeat an in-place externalization that may have been interrupted at any step, call
/// this function first, and externalize the model only if `None` is returned. Returns `None`, and
/// changes nothing, if the model isn't externalized yet, or if the model and the options differ in
/// whether constants are [mapped](ExternalizeOptions::mapped) from files.
///
/// Once the new `saved_model.pb` exists, two steps remain: removing the old chunked model, and
/// writing `fingerprint.pb`. If both are already done, nothing changes.
///
/// # Errors
///
/// The errors of [`SavedModelDir::convert_in_place`]; any error in the record of the original.
pub fn finish_in_place(
    path: impl AsRef<Path>,
    options: &ExternalizeOptions,
) -> Result<Option<Externalized>> {
    let path = path.as_ref();
    let dir = SavedModelDir::open(path)?;
    if dir.form() != ModelForm::Plain {
        return Ok(None);
    }
    let Some(record) = Record::load(path)? else {
        return Ok(None);
    };
    if record.mapped != options.mapped || !record.is_of(path)? {
        return Ok(None);
    }
    SavedModelDir::convert_in_place(path, TargetForm::Plain, &SaveOptions::new())?;
    let lock = FolderLock::take(path)?;
    dir.rewrite_fingerprint()?;
    drop(lock);
    Ok(Some(Externalized {
        path: path.to_owned(),
        message_size: record.size,
        model_size: dir.message_size(),
        stored: stored(&record, path)?,
        stale: Vec::new(),
    }))
}

/// Returns the total size of the constants stored for a model, in bytes.
fn stored(record: &Record, folder: &Path) -> Result<u64> {
    if !record.mapped {
        let bundle = Bundle::open(bundle_prefix(folder))?;
        let sizes = bundle.tensors().iter().map(Tensor::size);
        return Ok(sizes.fold(0, u64::saturating_add));
    }
    let files = record.mapped_files(folder).into_iter();
    let sizes = files.map(|file| {
        let metadata = std::fs::metadata(&file);
        metadata
            .map(|metadata| metadata.len())
            .map_err(|error| Error::from(error).in_file(&file))
    });
    sizes.sum()
}
