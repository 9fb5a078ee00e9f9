//! The SavedModel format, for the registry of file formats.

use std::path::{Path, PathBuf};

use prost_reflect::DescriptorPool;
use proto_splitter_core::container::{CHUNKED_EXTENSION, PLAIN_EXTENSION};
use proto_splitter_core::formats::{
    Archive, Candidate, CandidateKind, Confidence, Format, OpenOptions, Opened,
};
use proto_splitter_core::split::ComposableSplitter;
use proto_splitter_core::view::size_tree::NameRule;
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::directory::{MODEL_STEM, variables};
use crate::properties::properties;
use crate::proto::descriptor_pool;
use crate::{NAMES, SAVED_MODEL, SavedModelSplitter};

/// The format of a TensorFlow SavedModel: a folder that contains `saved_model.cpb` or
/// `saved_model.pb`, or one of these files itself.
///
/// ```
/// use proto_splitter_core::formats::{Format, OpenOptions, Registry};
/// use proto_splitter_saved_model::SavedModelFormat;
///
/// static FORMATS: Registry = Registry::new(&[&SavedModelFormat]);
///
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("saved_model.pb"), b"\x08\x01")?;
///
/// let opened = FORMATS.open(folder.path(), &OpenOptions::new())?;
/// assert_eq!(opened.format().map(|format| format.name()), Some("savedmodel"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SavedModelFormat;

impl Format for SavedModelFormat {
    fn name(&self) -> &'static str {
        "savedmodel"
    }

    fn title(&self) -> &'static str {
        "SavedModel"
    }

    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
        let (is_model, sure) = match candidate.kind() {
            CandidateKind::Folder => {
                let has_model = files().iter().any(|file| candidate.has(file));
                (has_model, Confidence::Certain)
            }
            CandidateKind::File => {
                let is_named = candidate.path().file_stem()? == MODEL_STEM;
                (is_named, Confidence::Likely)
            }
            CandidateKind::Prefix => return None,
        };
        is_model.then_some(sure)
    }

    fn open(&self, input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
        let descriptor = descriptor_pool().get_message_by_name(SAVED_MODEL);
        if input.kind() != CandidateKind::Folder {
            return Opened::of_input(input, descriptor, options);
        }
        let path = input.path();
        match self.main_file(path) {
            Some(file) => Opened::of_file(file, descriptor, options),
            None => {
                let [chunked, plain] = files();
                let message = format!("no SavedModel: neither {chunked} nor {plain} is in it");
                Err(Error::new(ErrorKind::InvalidConfig, message).in_file(path))
            }
        }
    }

    fn main_file(&self, folder: &Path) -> Option<PathBuf> {
        let files = files().map(|file| folder.join(file));
        files.into_iter().find(|file| file.is_file())
    }

    fn variables(&self, folder: &Path) -> Result<Option<Box<dyn Archive>>> {
        Ok(variables(folder)?.map(|variables| Box::new(variables) as Box<dyn Archive>))
    }

    fn descriptor_pool(&self) -> Option<&'static DescriptorPool> {
        Some(descriptor_pool())
    }

    fn message_types(&self) -> &'static [&'static str] {
        &[SAVED_MODEL]
    }

    fn splitter(&self, message_type: &str) -> Option<&'static (dyn ComposableSplitter + Sync)> {
        (message_type == SAVED_MODEL).then_some(&SavedModelSplitter as _)
    }

    fn properties(&self, opened: &Opened) -> Result<Vec<(String, String)>> {
        let descriptor = opened.descriptor();
        if descriptor.is_none_or(|message| message.full_name() != SAVED_MODEL) {
            return Ok(Vec::new());
        }
        properties(&opened.view()?)
    }

    fn member_names(&self) -> &'static [NameRule] {
        &NAMES
    }
}

/// Returns the possible names of the model file. If both files exist, the first one is used.
fn files() -> [String; 2] {
    [CHUNKED_EXTENSION, PLAIN_EXTENSION].map(|extension| format!("{MODEL_STEM}.{extension}"))
}
