//! Externalized models as one of the formats.

use std::path::Path;
use std::sync::Arc;

use proto_splitter_core::Result;
use proto_splitter_core::formats::{
    Candidate, CandidateKind, Confidence, Format, OpenOptions, Opened,
};
use proto_splitter_core::size_tree::NameRule;
use proto_splitter_core::split::ComposableSplitter;
use proto_splitter_saved_model::proto::descriptor_pool;
use proto_splitter_saved_model::{NAMES, SAVED_MODEL, SavedModelSplitter};
use proto_splitter_tensor_bundle::Bundle;

use crate::record::{Record, bundle_prefix};

/// The folder of a SavedModel that was externalized: it is read as the model that it was, over the
/// checkpoint that has the constants. So it is equal to its original.
///
/// A model that was changed since isn't recognised: it is a SavedModel like any other then. In a
/// list this comes before the format of those.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Registry};
/// use proto_splitter_externalize::ExternalizedFormat;
///
/// static FORMATS: Registry = Registry::new(&[&ExternalizedFormat]);
///
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("saved_model.pb"), b"\x08\x01")?;
/// let opened = FORMATS.open(folder.path(), &OpenOptions::new());
/// assert!(opened.is_err() || opened?.format().is_none(), "nothing was externalized");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ExternalizedFormat;

impl Format for ExternalizedFormat {
    fn name(&self) -> &'static str {
        "externalized"
    }

    fn title(&self) -> &'static str {
        "externalized SavedModel"
    }

    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
        let is_folder = candidate.kind() == CandidateKind::Folder;
        let record = is_folder.then(|| Record::read(candidate.path()))?;
        matches!(record, Ok(Some(_))).then_some(Confidence::Certain)
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Opened> {
        let Some(rope) = crate::original(path)? else {
            return Err(crate::internalize::no_record(path));
        };
        let descriptor = descriptor_pool().get_message_by_name(SAVED_MODEL);
        let prefix = bundle_prefix(path);
        let files = [
            path.join("saved_model.pb"),
            proto_splitter_tensor_bundle::index_path(&prefix),
            proto_splitter_tensor_bundle::data_path(&prefix, 0, 1),
        ];
        let is_mapped = !files[1].is_file();
        let files = files.into_iter().filter(|file| file.is_file());
        let opened = Opened::of_reader(Arc::new(rope), descriptor, options)?.reading(files);
        // Files that are mapped have no checksums.
        if is_mapped {
            Ok(opened)
        } else {
            Ok(opened.checked_by(Bundle::open(prefix)?))
        }
    }

    /// Those of a SavedModel, which are that format's own.
    fn message_types(&self) -> &'static [&'static str] {
        &[SAVED_MODEL]
    }

    fn splitter(&self, message_type: &str) -> Option<&'static (dyn ComposableSplitter + Sync)> {
        (message_type == SAVED_MODEL).then_some(&SavedModelSplitter as _)
    }

    fn member_names(&self) -> &'static [NameRule] {
        &NAMES
    }
}
