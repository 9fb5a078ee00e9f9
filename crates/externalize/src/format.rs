//! The format of externalized models, for the format registry.

use std::path::Path;
use std::sync::Arc;

use proto_splitter_core::formats::{
    Archive, Candidate, CandidateKind, Checks, Confidence, Format, OpenOptions, Opened, Verified,
};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::spans::{Spans, read_pieces};
use proto_splitter_core::split::ComposableSplitter;
use proto_splitter_core::tensor::{TensorInfo, TensorReader};
use proto_splitter_core::view::size_tree::NameRule;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_saved_model::proto::descriptor_pool;
use proto_splitter_saved_model::{NAMES, SAVED_MODEL, SavedModelFormat, SavedModelSplitter};
use proto_splitter_tensor_bundle::Bundle;
use record_file::ReadAt;

use crate::record::{RECORD_FILE, Record, bundle_prefix};

/// The format of externalized SavedModels, which are folders. Such a folder is read as the original
/// model, with the constants from the folder's checkpoint, so it compares equal to the original.
///
/// A model that TensorFlow has saved again is an ordinary SavedModel, and isn't recognized by this
/// format. An externalized model is recognized even if its files are damaged; opening it then
/// reports the damage. In a list of formats, this format must be before the SavedModel format.
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
        if candidate.kind() != CandidateKind::Folder {
            return None;
        }
        let folder = candidate.path();
        let is_ours = match Record::load(folder) {
            Ok(Some(record)) => {
                record.is_of(folder).unwrap_or(false) || record.check_undamaged(folder).is_err()
            }
            Ok(None) => false,
            Err(_) => folder.join("saved_model.pb").is_file(),
        };
        is_ours.then_some(Confidence::Certain)
    }

    fn open(&self, input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
        let path = input.local_path()?;
        let Some(record) = Record::read(path)? else {
            return Err(crate::internalize::no_record(path));
        };
        let spans = Arc::new(record.original(path)?);
        let descriptor = descriptor_pool().get_message_by_name(SAVED_MODEL);
        let files = [path.join("saved_model.pb")].into_iter();
        let files = files.chain(record.sources(path));
        let source = Arc::clone(&spans) as Arc<dyn ReadAt>;
        let opened = Opened::of_reader(source, descriptor, options)?.reading(files);
        let bundle = if record.mapped {
            None
        } else {
            Some(Bundle::open(bundle_prefix(path))?)
        };
        Ok(opened.checked_by(Kept {
            spans,
            bundle,
            contents: record.contents().len() as u64,
            has_checksums: record.has_checksums(),
        }))
    }

    fn variables(&self, folder: &Path) -> Result<Option<Box<dyn Archive>>> {
        SavedModelFormat.variables(folder)
    }

    /// Returns the message type of the SavedModel format, since an externalized model is read as
    /// the original SavedModel.
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

/// The stored data of an externalized model's original, for verification.
#[derive(Debug)]
struct Kept {
    spans: Arc<Spans>,
    /// Bundle with the constants; `None` if the constants are mapped from separate files.
    bundle: Option<Bundle>,
    /// Number of different constants.
    contents: u64,
    /// True if the record of the original has checksums.
    has_checksums: bool,
}

impl Kept {
    /// Reads the whole original, and thus verifies the checksums of its parts. Returns the size of
    /// the original, in bytes.
    fn read(&self, progress: &Progress) -> Result<u64> {
        let size = self.spans.total_size();
        let meter = progress.meter(size);
        read_pieces(&*self.spans, 0..size, &mut Vec::new(), |_, bytes| {
            meter.advance(bytes.len() as u64)
        })?;
        Ok(size)
    }
}

impl Archive for Kept {
    fn tensors(&self) -> Result<Vec<TensorInfo>> {
        self.bundle
            .as_ref()
            .map_or(Ok(Vec::new()), Archive::tensors)
    }

    fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        match &self.bundle {
            Some(bundle) => Archive::read(bundle, info),
            None => {
                let message = format!("there is no tensor {:?}", info.name);
                Err(Error::new(ErrorKind::InvalidPath, message))
            }
        }
    }

    fn verify(&self, progress: &Progress) -> Result<Verified> {
        let found = match &self.bundle {
            Some(bundle) => Archive::verify(bundle, progress)?,
            None => {
                let checks = if self.has_checksums {
                    Checks::Checksums
                } else {
                    Checks::Structure
                };
                Verified::new(self.contents, Kept::read(self, progress)?, checks)
            }
        };
        if self.has_checksums {
            return Ok(found);
        }
        let warning = format!(
            "{RECORD_FILE} is from a version without checksums, so it wasn't verified: externalizing the model again adds them"
        );
        Ok(found.warnings(vec![warning]))
    }
}
