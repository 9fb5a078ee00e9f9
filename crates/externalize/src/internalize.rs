//! Restoring the original of an externalized model.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::spans::{Spans, copy_range};
use proto_splitter_core::split::{Source, SplitExt, SplitOptions};
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_saved_model::directory::{MAX_PLAIN_SIZE, MODEL_STEM, rebuild_except};
use proto_splitter_saved_model::{
    ModelForm, SAVED_MODEL, SaveOptions, SavedModelDir, SavedModelSplitter, TargetForm,
};

use crate::again;
use crate::options::ExternalizeOptions;
use crate::record::{RECORD_FILE, Record};
use crate::scan::scan;

/// A report on an internalized model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Internalized {
    /// Folder to which the model was written.
    pub path: PathBuf,
    /// Form of the model's file: `saved_model.pb`, or `saved_model.cpb` if the model is too large
    /// for a `saved_model.pb`.
    pub form: ModelForm,
    /// Size of the model as one serialized message, in bytes.
    pub message_size: u64,
}

/// Returns the original of an externalized model, byte for byte, as spans that are read on demand.
/// Nothing is written.
///
/// Returns `None` if the SavedModel in the folder `path` isn't externalized.
///
/// # Errors
///
/// [`ErrorKind::ChecksumMismatch`] if the model was changed after it was externalized, or the
/// stored data of the original is damaged; [`ErrorKind::InvalidMessage`] if this data doesn't match
/// the bundle; [`ErrorKind::Io`]. If the bytes of a constant don't match the constant's checksum,
/// reading the whole constant fails with [`ErrorKind::ChecksumMismatch`].
pub fn original(path: impl AsRef<Path>) -> Result<Option<Spans>> {
    let path = path.as_ref();
    match Record::read(path)? {
        Some(record) => Ok(Some(record.original(path)?)),
        None => Ok(None),
    }
}

/// Fails if the SavedModel in the folder `path` is externalized, and either its `saved_model.pb` or
/// the stored data of its original is damaged. This is useful for callers that read the
/// `saved_model.pb` without [`original`].
///
/// # Errors
///
/// [`ErrorKind::ChecksumMismatch`] if a file is damaged; [`ErrorKind::Io`].
pub fn check_model(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    match Record::load(path)? {
        Some(record) => record.check_undamaged(path),
        None => Ok(()),
    }
}

/// Writes the original of the externalized SavedModel in the folder `from` to the folder `to`,
/// atomically.
///
/// If TensorFlow has loaded an externalized model and saved it again, the saved model has its
/// constants in the graph, and is copied.
///
/// The checksums of the original's data are verified while the data is read. Older versions of this
/// crate externalized models without these checksums. Such models are also accepted, but only the
/// checksums of constants in the bundle are verified.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if the model isn't externalized, and wasn't externalized before
/// TensorFlow saved it; the errors of [`original`] and
/// [`SavedModelDir::save_as`](proto_splitter_saved_model::SavedModelDir::save_as).
pub fn internalize(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: &ExternalizeOptions,
) -> Result<Internalized> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let Some(record) = Record::read(from)? else {
        return saved_again(from, to, options);
    };
    let spans = Arc::new(record.original(from)?);
    let message_size = spans.total_size();
    let save = SaveOptions::new().force(options.force);
    let (kept, sources) = (record.files(from), record.sources(from));
    let rebuilt = rebuild_except(from, to, &kept, &save, |prefix| {
        let folder = prefix.parent().unwrap_or(Path::new("."));
        if message_size > MAX_PLAIN_SIZE {
            return split(&spans, &folder.join(MODEL_STEM), &sources, options);
        }
        let made_from = MadeFrom::files(&sources);
        copy(&spans, &folder.join("saved_model.pb"), &made_from, options)?;
        Ok(ModelForm::Plain)
    })?;
    Ok(Internalized {
        path: to.to_owned(),
        form: rebuilt.filled,
        message_size,
    })
}

/// Copies a model that was externalized, and then loaded and saved again by TensorFlow. The
/// constants of such a model are in the graph again.
fn saved_again(from: &Path, to: &Path, options: &ExternalizeOptions) -> Result<Internalized> {
    let dir = SavedModelDir::open(from)?;
    let size = dir.message_size();
    let found = scan(&dir.reader(), size, options.min_size, &BTreeSet::new())
        .map_err(|error| error.in_file(from))?;
    if !again::has_unread_bundle(&found.rest) {
        return Err(no_record(from));
    }
    let save = SaveOptions::new().force(options.force);
    let saved = dir.save_as(to, TargetForm::Auto, &save)?;
    Ok(Internalized {
        path: to.to_owned(),
        form: saved.form,
        message_size: saved.message_size,
    })
}

/// Returns the error for a model without a record of its original.
pub(crate) fn no_record(path: &Path) -> Error {
    let path = path.display();
    let message = format!("{path}: {RECORD_FILE} is missing, so the original is unknown");
    Error::new(ErrorKind::InvalidConfig, message)
}

/// Writes an original, which is read from the files `sources`, in chunks.
fn split(
    spans: &Arc<Spans>,
    prefix: &Path,
    sources: &[PathBuf],
    options: &ExternalizeOptions,
) -> Result<ModelForm> {
    let pool = proto_splitter_saved_model::proto::descriptor_pool();
    let Some(descriptor) = pool.get_message_by_name(SAVED_MODEL) else {
        let message = format!("no type is called {SAVED_MODEL}");
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    };
    let source = Source::from_spans(Arc::clone(spans), descriptor).read_from(sources);
    let split = SplitOptions::new().progress(options.progress.clone());
    let written = SavedModelSplitter.write_with(source, prefix, &split)?;
    Ok(if written.is_split {
        ModelForm::Chunked
    } else {
        ModelForm::Plain
    })
}

fn copy(
    spans: &Spans,
    to: &Path,
    made_from: &MadeFrom,
    options: &ExternalizeOptions,
) -> Result<()> {
    let size = spans.total_size();
    let meter = options.progress.meter(size);
    let file = AtomicFile::create(to, made_from, false)?;
    file.check_space(size)?;
    file.write(|sink| copy_range(spans, 0..size, &mut meter.written_to(sink)))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::ExternalizePlan;

    #[test]
    fn an_original_in_chunks_is_as_private_as_the_files_that_it_is_read_from() {
        let model = "../../tests/data/tensorflow/functions_consts";
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join(model);
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let options = ExternalizeOptions::new().min_size(1 << 10);
        let plan = ExternalizePlan::new(model, &options).unwrap();
        plan.write(&out).unwrap();
        let record = Record::read(&out).unwrap().unwrap();
        let (sources, spans) = (record.sources(&out), record.original(&out).unwrap());
        let spans = Arc::new(spans);
        assert_eq!(sources.len(), 3);
        for (at, source) in sources.iter().enumerate() {
            let mode = |mode| fs::set_permissions(source, fs::Permissions::from_mode(mode));
            mode(0o600).unwrap();
            let prefix = folder.path().join(at.to_string());
            let form = split(&spans, &prefix, &sources, &options).unwrap();
            let written = fs::metadata(prefix.with_extension(form.extension())).unwrap();
            assert_eq!(written.permissions().mode() & 0o777, 0o600, "{source:?}");
            mode(0o644).unwrap();
        }
    }
}
