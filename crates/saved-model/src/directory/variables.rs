//! The variables of a SavedModel.

use std::path::Path;

use proto_splitter_core::progress::Progress;
use proto_splitter_core::{ErrorKind, Result};
use proto_splitter_tensor_bundle::{Bundle, BundleOptions, index_path};

/// Opens the checkpoint that contains a SavedModel's variables: `variables/variables` in the
/// model's folder. Returns `None` if it doesn't exist.
///
/// # Errors
///
/// The errors of [`Bundle::open`].
pub fn variables(folder: &Path) -> Result<Option<Bundle>> {
    let prefix = folder.join("variables").join("variables");
    if !index_path(&prefix).is_file() {
        return Ok(None);
    }
    Bundle::open(prefix).map(Some)
}

/// Verifies the checksums of the variables in a SavedModel's folder, before the folder is copied.
///
/// Missing files, and checkpoints of a newer version, aren't errors, since a folder with these can
/// be copied, too.
pub(super) fn check_variables(folder: &Path, progress: &Progress) -> Result<()> {
    let options = BundleOptions::new().progress(progress.clone());
    let checked = variables(folder).and_then(|bundle| match bundle {
        Some(bundle) => bundle.verify(&options).map(|_| ()),
        None => Ok(()),
    });
    checked.or_else(|error| {
        let is_missing = error.io_kind() == Some(std::io::ErrorKind::NotFound);
        if is_missing || error.kind() == ErrorKind::UnsupportedVersion {
            return Ok(());
        }
        Err(error)
    })
}
