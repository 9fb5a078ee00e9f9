//! The message of a SavedModel, in either form that its folder can have it in.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use prost_reflect::DynamicMessage;
use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::split::Source;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use super::model_path;
use crate::SAVED_MODEL;
use crate::canonical::{Canonical, Plan};
use crate::fingerprint::{self, FingerprintError, Hashes, descriptor};
use crate::merged::MergedMessage;

/// How a model is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelForm {
    /// `saved_model.cpb`: in chunks.
    Chunked,
    /// `saved_model.pb`: the message itself.
    Plain,
    /// `saved_model.pbtxt`: as text. It is read, never written.
    Text,
}

impl ModelForm {
    /// All forms, the one first that counts where there are several.
    pub(super) const ALL: [ModelForm; 3] = [ModelForm::Chunked, ModelForm::Plain, ModelForm::Text];

    /// The extension of the file's name.
    pub fn extension(self) -> &'static str {
        match self {
            ModelForm::Chunked => "cpb",
            ModelForm::Plain => "pb",
            ModelForm::Text => "pbtxt",
        }
    }
}

/// A model that was opened.
pub(super) enum Model {
    Chunked(Arc<MergedMessage<File>>),
    Plain(Arc<File>, u64),
    Text(Bytes),
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {} bytes", self.form(), self.size())
    }
}

impl Model {
    /// The model of a folder.
    pub(super) fn open(folder: &Path) -> Result<Model> {
        for form in ModelForm::ALL {
            let path = model_path(folder, form);
            if path.is_file() {
                return Model::open_file(&path, form).map_err(|error| match error.kind() {
                    ErrorKind::Io | ErrorKind::NotChunked | ErrorKind::Record => {
                        error.context(path.display())
                    }
                    _ => error,
                });
            }
        }
        let names = ModelForm::ALL.map(|form| format!("saved_model.{}", form.extension()));
        let why = match std::fs::metadata(folder) {
            Ok(metadata) if !metadata.is_dir() => {
                "a file, and not the folder of a SavedModel".to_owned()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => "no such folder".to_owned(),
            _ => format!("there is no {}", names.join(", no ")),
        };
        let message = format!("{}: {why}", folder.display());
        Err(io::Error::new(io::ErrorKind::NotFound, message).into())
    }

    /// The model in a file of this form.
    pub(super) fn open_file(path: &Path, form: ModelForm) -> Result<Model> {
        match form {
            ModelForm::Chunked => {
                let file = ChunkedFile::open(path)?;
                let merged = MergedMessage::new(file, descriptor(SAVED_MODEL)?)?;
                Ok(Model::Chunked(Arc::new(merged)))
            }
            ModelForm::Plain => {
                let file = File::open(path)?;
                let size = file.metadata()?.len();
                Ok(Model::Plain(Arc::new(file), size))
            }
            ModelForm::Text => parse(&std::fs::read_to_string(path)?).map(Model::Text),
        }
    }

    pub(super) fn form(&self) -> ModelForm {
        match self {
            Model::Chunked(_) => ModelForm::Chunked,
            Model::Plain(..) => ModelForm::Plain,
            Model::Text(_) => ModelForm::Text,
        }
    }

    /// Bytes of the message.
    pub(super) fn size(&self) -> u64 {
        match self {
            Model::Chunked(merged) => merged.len(),
            Model::Plain(_, size) => *size,
            Model::Text(bytes) => bytes.len() as u64,
        }
    }

    /// The message's bytes, wherever they are.
    pub(super) fn data(&self) -> Arc<dyn ReadAt> {
        match self {
            Model::Chunked(merged) => merged.clone(),
            Model::Plain(file, _) => file.clone(),
            Model::Text(bytes) => Arc::new(bytes.clone()),
        }
    }

    /// Writes the message's bytes.
    pub(super) fn copy_to(&self, sink: &mut dyn Write) -> Result<()> {
        let data = self.data();
        let reader = Canonical::new(&*data, self.size());
        let mut plan = Plan::default();
        let [whole] = reader.whole();
        plan.put_source(whole);
        reader.write(&plan, sink)
    }

    /// The message to be split; of a `.pb` the file at `path` itself, so that it is noticed when
    /// that changes.
    pub(super) fn source(&self, path: &Path) -> Result<Source> {
        let descriptor = descriptor(SAVED_MODEL)?;
        match self {
            Model::Plain(..) => Source::open(path, descriptor),
            _ => Ok(Source::from_reader(self.data(), self.size(), descriptor)),
        }
    }

    /// The hashes of its fingerprint.
    pub(super) fn hashes(&self, progress: &Progress) -> Result<Hashes, FingerprintError> {
        match self {
            Model::Chunked(merged) => fingerprint::chunked_hashes(merged.file(), progress),
            _ => fingerprint::plain_hashes(&*self.data(), self.size(), progress),
        }
    }
}

fn parse(text: &str) -> Result<Bytes> {
    let parsed = DynamicMessage::parse_text_format(descriptor(SAVED_MODEL)?, text);
    let message = parsed.map_err(|error| {
        let message = format!("no SavedModel as text: {error}");
        Error::new(ErrorKind::InvalidMessage, message)
    })?;
    Ok(message.encode_to_vec().into())
}
