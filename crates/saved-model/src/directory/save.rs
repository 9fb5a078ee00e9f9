//! Writing a whole SavedModel to a folder.

use std::path::{Path, PathBuf};

use proto_splitter_core::atomic::{AtomicFile, MadeFrom, at_target, folder};
use proto_splitter_core::merge::{Merger, ReadOptions};
use proto_splitter_core::path::FieldPath;
use proto_splitter_core::split::SplitExt;
use proto_splitter_core::view::MessageView;
use proto_splitter_core::view::size_tree::with_largest;
use proto_splitter_core::{Error, ErrorKind, Result};

use super::copy::copy_file;
use super::options::{MAX_PLAIN_SIZE, SaveOptions, TargetForm};
use super::outcome::{FingerprintOutcome, update_fingerprint};
use super::rebuild::rebuild_except;
use super::{MODEL_STEM, ModelForm, SavedModelDir, model_path};
use crate::fingerprint::descriptor;
use crate::{SAVED_MODEL, SavedModelSplitter};

/// The result of writing a SavedModel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// Path of the model file.
    pub model_path: PathBuf,
    /// Form of the model file.
    pub form: ModelForm,
    /// Size of the model as one serialized message (a `saved_model.pb`), in bytes.
    pub message_size: u64,
    /// Effect on `fingerprint.pb`.
    pub fingerprint: FingerprintOutcome,
    /// True if anything changed. Only a conversion in place can leave everything unchanged.
    pub changed: bool,
}

impl SavedModelDir {
    /// Writes the SavedModel to the folder `to`, with its model as `saved_model.pb`.
    ///
    /// # Errors
    ///
    /// The errors of [`save_as`](Self::save_as).
    pub fn save(&self, to: impl AsRef<Path>, options: &SaveOptions) -> Result<Saved> {
        self.save_as(to, TargetForm::Plain, options)
    }

    /// Writes the SavedModel to the folder `to`, with its model as `saved_model.cpb`.
    ///
    /// # Errors
    ///
    /// The errors of [`save_as`](Self::save_as).
    pub fn save_as_chunked(&self, to: impl AsRef<Path>, options: &SaveOptions) -> Result<Saved> {
        self.save_as(to, TargetForm::Chunked, options)
    }

    /// Writes the SavedModel to the folder `to`, with its model file in the form `form`.
    ///
    /// All other files of the SavedModel are copied. The new folder is written atomically.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if `to` isn't empty, unless it is a SavedModel and `force` is
    /// set; [`ErrorKind::LimitExceeded`] if the model is too large for a `saved_model.pb`;
    /// [`ErrorKind::InvalidConfig`] if `to` is inside the model's folder or contains it; and the
    /// errors of splitting and merging.
    pub fn save_as(
        &self,
        to: impl AsRef<Path>,
        form: TargetForm,
        options: &SaveOptions,
    ) -> Result<Saved> {
        self.save_except(to, form, &[], options)
    }

    /// Writes the SavedModel like [`save_as`](Self::save_as), but omits the files in `except`.
    ///
    /// # Errors
    ///
    /// The errors of [`save_as`](Self::save_as).
    pub fn save_except(
        &self,
        to: impl AsRef<Path>,
        form: TargetForm,
        except: &[PathBuf],
        options: &SaveOptions,
    ) -> Result<Saved> {
        let form = self.resolve(form)?;
        let fill = |prefix: &Path| {
            let written = self.write_model(folder(prefix), form, options);
            written.map(|()| form)
        };
        let rebuilt = rebuild_except(self.path(), to.as_ref(), except, options, fill)?;
        Ok(Saved {
            model_path: model_path(to.as_ref(), rebuilt.filled),
            form: rebuilt.filled,
            message_size: self.message_size(),
            fingerprint: rebuilt.fingerprint,
            changed: true,
        })
    }

    /// Computes the model's fingerprint, and updates `fingerprint.pb` if the file exists. Keeps the
    /// stored uuid.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be written; any error in the model or in the stored
    /// fingerprint.
    pub fn rewrite_fingerprint(&self) -> Result<FingerprintOutcome> {
        update_fingerprint(self.path(), self.form(), &SaveOptions::new())
    }

    /// Returns the form of model file that `form` selects for this model. Fails if the model is too
    /// large for that form.
    pub(super) fn resolve(&self, form: TargetForm) -> Result<ModelForm> {
        let size = self.message_size();
        match form {
            TargetForm::Chunked => Ok(ModelForm::Chunked),
            TargetForm::Auto if size > MAX_PLAIN_SIZE => Ok(ModelForm::Chunked),
            TargetForm::Plain if size > MAX_PLAIN_SIZE => {
                let message = format!(
                    "saved_model.pb would have {size} bytes: {} more than the {MAX_PLAIN_SIZE} that TensorFlow reads",
                    size - MAX_PLAIN_SIZE
                );
                let error = Error::new(ErrorKind::LimitExceeded, message).refusing_size();
                Err(self.with_largest(error))
            }
            TargetForm::Auto | TargetForm::Plain => Ok(ModelForm::Plain),
        }
    }

    /// Adds the names and sizes of the model's largest parts to an error about the model's size.
    fn with_largest(&self, error: Error) -> Error {
        let options = ReadOptions::new().descriptor(descriptor(SAVED_MODEL).ok());
        let data = self.model.data();
        match MessageView::of_reader(&*data, options) {
            Ok(view) => with_largest(error, &view, &FieldPath::root()),
            Err(_) => error,
        }
    }

    /// Writes the model to a file in the form `form` in `folder`, atomically.
    pub(super) fn write_model(
        &self,
        folder: &Path,
        form: ModelForm,
        options: &SaveOptions,
    ) -> Result<()> {
        let target = model_path(folder, form);
        match (self.form(), form) {
            (ModelForm::Plain, ModelForm::Plain) => {
                copy_file(&self.model_path(), &target, &options.copying)?;
            }
            // A model in chunks is split again, which verifies the checksums of its chunks.
            (_, ModelForm::Chunked) => {
                let prefix = folder.join(MODEL_STEM);
                let split = options.split.clone().force(false).always_chunked(true);
                SavedModelSplitter.write_with(self.source()?, prefix, &split)?;
            }
            (ModelForm::Chunked, _) => {
                let prefix = self.path().join(MODEL_STEM);
                let merging = ReadOptions::new()
                    .descriptor(descriptor(SAVED_MODEL)?)
                    .progress(options.split.get_progress().clone());
                Merger::new()
                    .options(&merging)
                    .merge_to_file(prefix, &target)?;
            }
            _ => {
                let made_from = MadeFrom::files([self.model_path()]);
                let mut file = AtomicFile::create(&target, &made_from, false)?;
                let copied = self.model.copy_to(file.as_file_mut());
                copied.map_err(|error| at_target(error, &target))?;
                file.commit()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proto_splitter_core::split::SplitOptions;

    use super::*;

    #[test]
    fn a_model_in_chunks_is_split_again_as_the_options_say_and_checked() {
        let model = "../../tests/data/tensorflow/keras_mlp";
        let dir = SavedModelDir::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(model)).unwrap();
        let temp = tempfile::tempdir().unwrap();
        let chunks = |folder: &Path| fs::read(model_path(folder, ModelForm::Chunked)).unwrap();
        let split = |dir: &SavedModelDir, name: &str, size: u64| -> Result<PathBuf> {
            let options = SaveOptions::new().split(SplitOptions::new().max_chunk_size(size));
            let to = temp.path().join(name);
            dir.save_as_chunked(&to, &options).map(|_| to)
        };
        let [one, other] = [5000, 2000].map(|size| split(&dir, &size.to_string(), size).unwrap());
        let chunked = SavedModelDir::open(&one).unwrap();
        for (name, size, same) in [("same", 5000, &one), ("smaller", 2000, &other)] {
            let again = split(&chunked, name, size).unwrap();
            assert!(chunks(&again) == chunks(same), "{name}");
        }
        // Without a fingerprint, nothing else reads the chunks.
        fs::remove_file(one.join("fingerprint.pb")).unwrap();
        let mut damaged = chunks(&one);
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        fs::write(model_path(&one, ModelForm::Chunked), damaged).unwrap();
        let chunked = SavedModelDir::open(&one).unwrap();
        split(&chunked, "damaged", 5000).unwrap_err();
        assert!(!temp.path().join("damaged").exists());
    }
}
