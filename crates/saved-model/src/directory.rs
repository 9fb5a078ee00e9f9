//! SavedModels on disk: folders that contain a model file and its accompanying files.

mod copy;
mod in_place;
mod meta_graph;
mod model;
mod options;
mod outcome;
mod rebuild;
mod save;
mod swap;
mod variables;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::Result;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::split::Source;
use record_file::ReadAt;

pub use in_place::{FolderLock, check_forms, remove_model};
pub use meta_graph::{Asset, Lazy, MetaGraph, ModelVariable};
use model::Model;
pub use model::ModelForm;
pub use options::{MAX_PLAIN_SIZE, SaveOptions, TargetForm};
pub use outcome::FingerprintOutcome;
pub use rebuild::{Rebuilt, rebuild, rebuild_except};
pub use save::Saved;
pub use variables::variables;

use crate::fingerprint::{self, FingerprintError};
use crate::proto::FingerprintDef;

/// Name of the model file in a SavedModel's folder, without the extension.
pub const MODEL_STEM: &str = "saved_model";

/// The folder of a SavedModel. It contains a model file (`saved_model.cpb`, `saved_model.pb` or
/// `saved_model.pbtxt`), and may contain `variables/`, `assets/`, `fingerprint.pb` and other files.
///
/// If there are several model files, the first one in the order above is used, as in TensorFlow's
/// Merger. A `.cpb` or `.pb` is read on demand; a `.pbtxt` is parsed as a whole.
#[derive(Debug)]
pub struct SavedModelDir {
    path: PathBuf,
    model: Model,
}

impl SavedModelDir {
    /// Opens a SavedModel's folder.
    ///
    /// # Errors
    ///
    /// [`Io`](proto_splitter_core::ErrorKind::Io) if the folder has no model file, or the file
    /// can't be opened. Also returns any error in the content of a `.cpb` or `.pbtxt`.
    pub fn open(path: impl AsRef<Path>) -> Result<SavedModelDir> {
        let path = path.as_ref().to_owned();
        let model = Model::open(&path)?;
        Ok(SavedModelDir { path, model })
    }

    /// Returns the path of the SavedModel's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the form of the model file.
    pub fn form(&self) -> ModelForm {
        self.model.form()
    }

    /// Returns the path of the model file.
    pub fn model_path(&self) -> PathBuf {
        model_path(&self.path, self.form())
    }

    /// Returns the size of the model as a serialized message, in bytes, which is the size of a
    /// `saved_model.pb`. A chunked model isn't merged to compute the size.
    pub fn message_size(&self) -> u64 {
        self.model.size()
    }

    /// Returns the model's meta graphs.
    ///
    /// # Errors
    ///
    /// Fails if reading fails, or the model is malformed.
    pub fn meta_graphs(&self) -> Result<Vec<MetaGraph>> {
        meta_graph::meta_graphs(&self.model.data(), self.message_size(), &self.path)
    }

    /// Returns the meta graph with exactly these tags, in any order; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The errors of [`meta_graphs`](Self::meta_graphs).
    pub fn meta_graph<T: AsRef<str>>(&self, tags: &[T]) -> Result<Option<MetaGraph>> {
        let mut meta_graphs = self.meta_graphs()?.into_iter();
        Ok(meta_graphs.find(|meta_graph| meta_graph.has_tags(tags)))
    }

    /// Returns a reader for the model as a serialized message of
    /// [`message_size`](Self::message_size) bytes. Whatever the form of the model file, the reader
    /// returns the bytes of a `saved_model.pb`.
    pub fn reader(&self) -> Arc<dyn ReadAt> {
        self.model.data()
    }

    /// Returns the model as a source for splitting.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn source(&self) -> Result<Source> {
        self.model.source(&self.model_path())
    }

    /// Returns the content of `fingerprint.pb` in the folder; `None` if the file doesn't exist.
    ///
    /// # Errors
    ///
    /// The errors of [`fingerprint::read`].
    pub fn stored_fingerprint(&self) -> Result<Option<FingerprintDef>> {
        fingerprint::read(&self.path)
    }

    /// Computes the fingerprint that TensorFlow would write. Keeps the uuid of the stored
    /// fingerprint, if there is one.
    ///
    /// The model is read once, and isn't held in memory.
    ///
    /// # Errors
    ///
    /// [`FingerprintError::Refused`] if TensorFlow's own code would fail on this model;
    /// [`FingerprintError::Unreadable`] if the model can't be read.
    pub fn fingerprint(&self) -> Result<FingerprintDef, FingerprintError> {
        self.fingerprint_with(&Progress::default())
    }

    /// Computes the fingerprint like [`fingerprint`](Self::fingerprint), and reports to a progress
    /// listener, which can cancel the computation.
    ///
    /// # Errors
    ///
    /// The errors of [`fingerprint`](Self::fingerprint), and [`FingerprintError::Unreadable`] if
    /// the computation was cancelled.
    pub fn fingerprint_with(
        &self,
        progress: &Progress,
    ) -> Result<FingerprintDef, FingerprintError> {
        let mut computed = self.model.hashes(progress)?.in_folder(&self.path);
        if let Ok(Some(stored)) = self.stored_fingerprint() {
            computed.uuid = stored.uuid;
        }
        Ok(computed)
    }
}

/// Returns the path of a folder's model file in this form.
fn model_path(folder: &Path, form: ModelForm) -> PathBuf {
    folder.join(format!("{MODEL_STEM}.{}", form.extension()))
}
