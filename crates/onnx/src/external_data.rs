//! Moving the external data of a model into its message.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::spans::{SourceId, SpansBuilder};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::change::Change;
use crate::checksum;
use crate::context::{Context, Part};
use crate::folder::Folder;
use crate::options::OnnxOptions;
use crate::proto::tensor_proto::DataType;
use crate::reference::ExternalReference;
use crate::rewrite::Decide;
use crate::tensor::Tensor;
use crate::walk::{Cursor, Place};

/// Maximum number of warnings to keep.
const MAX_WARNINGS: usize = 100;

/// The external files that stay outside of the message, and the numbers of tensors and of compiled
/// nodes with data in these files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outside {
    /// Folder of the external files; `None` if the model wasn't opened from a path, or is in the
    /// header of a safetensors file.
    pub(crate) folder: Option<Arc<Folder>>,
    pub(crate) files: BTreeSet<PathBuf>,
    pub(crate) tensors: usize,
    pub(crate) contexts: usize,
}

/// The external data found so far while a model is opened.
pub(crate) struct ExternalData<'a> {
    folder: Arc<Folder>,
    options: &'a OnnxOptions,
    files: HashMap<PathBuf, SourceId>,
    pub(crate) tensors: usize,
    pub(crate) contexts: usize,
    pub(crate) outside: Outside,
    pub(crate) warnings: Vec<String>,
    /// SHA-1 checksums that the tensors declare, by file. Each checksum maps to the name of a
    /// tensor that declares it.
    pub(crate) checksums: BTreeMap<SourceId, BTreeMap<String, String>>,
}

impl<'a> ExternalData<'a> {
    pub(crate) fn new(folder: Folder, options: &'a OnnxOptions) -> Self {
        let folder = Arc::new(folder);
        ExternalData {
            options,
            files: HashMap::new(),
            tensors: 0,
            contexts: 0,
            outside: Outside {
                folder: Some(Arc::clone(&folder)),
                ..Outside::default()
            },
            warnings: Vec::new(),
            checksums: BTreeMap::new(),
            folder,
        }
    }

    /// Returns the change that moves the data of an external tensor into the message. Returns
    /// [`Change::None`] if the options keep references to external files, or if the file is missing
    /// and the options allow this.
    fn inside(&mut self, tensor: &Tensor, builder: &mut SpansBuilder) -> Result<Change> {
        let named = |error: Error| in_tensor(error, tensor);
        let reference = ExternalReference::of(&tensor.entries);
        if self.options.get_keep_external() {
            // Invalid references are kept, too.
            self.outside.tensors += 1;
            if let Ok(reference) = reference {
                self.stays_outside(&reference.location).map_err(named)?;
            }
            return Ok(Change::None);
        }
        if tensor.data_type() == Some(DataType::String) {
            return Err(tensor.invalid("strings can't be external data"));
        }
        let reference = reference.map_err(named)?;
        let Some(file) = self.file(&reference.location, builder).map_err(named)? else {
            self.outside.tensors += 1;
            return Ok(Change::None);
        };
        let range = reference
            .range(tensor.raw_len(), builder.file_size(file)?)
            .map_err(named)?;
        self.tensors += 1;
        for key in &reference.unknown_keys {
            self.warn(
                tensor,
                &format!("external_data has the unknown key \"{key}\""),
            );
        }
        if tensor.raw.is_some() || tensor.has_typed {
            self.warn(tensor, "it also has data in the model, which is ignored");
        }
        if let Some(sha1) = reference.checksum {
            let of_file = self.checksums.entry(file).or_default();
            of_file.entry(sha1).or_insert_with(|| tensor.name.clone());
        }
        Ok(Change::raw_data(file, range))
    }

    /// Returns the change to the attribute `part` when the content of a compiled node is moved into
    /// the message. Returns [`Change::None`] if the options keep references to external files, or
    /// if the file is missing and the options allow this.
    fn content_inside(
        &mut self,
        context: &Context,
        part: Part,
        cursor: &mut Cursor<'_>,
        builder: &mut SpansBuilder,
    ) -> Result<Change> {
        // Two attributes of a node may describe its content, but the node is counted only once.
        let one = usize::from(part == Part::Content);
        let location = context.location(cursor);
        if self.options.get_keep_external() {
            self.outside.contexts += one;
            if let Ok(location) = location {
                self.stays_outside(&location)?;
            }
            return Ok(Change::None);
        }
        let file = self.file(&location?, builder);
        let Some(file) = file.map_err(|error| context.named(error))? else {
            self.outside.contexts += one;
            return Ok(Change::None);
        };
        self.contexts += one;
        Ok(context.inside(part, file, builder.file_size(file)?))
    }

    /// Returns the external file at `location`; `None` if it is missing and the options allow this.
    fn file(&mut self, location: &Path, builder: &mut SpansBuilder) -> Result<Option<SourceId>> {
        if let Some(&file) = self.files.get(location) {
            return Ok(Some(file));
        }
        if self.outside.files.contains(&self.folder.shown(location)) {
            return Ok(None);
        }
        self.check_count()?;
        let (folder, relative) = (Arc::clone(&self.folder), location.to_owned());
        let shown = folder.shown(location);
        let file = match builder.open_with(shown, move || folder.open(&relative)) {
            Ok(file) => file,
            Err(error) if self.options.get_allow_missing_files() && is_missing(&error) => {
                self.stays_outside(location)?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        self.files.insert(location.to_owned(), file);
        Ok(Some(file))
    }

    fn stays_outside(&mut self, location: &Path) -> Result<()> {
        let file = self.folder.shown(location);
        if !self.outside.files.contains(&file) {
            self.check_count()?;
            self.outside.files.insert(file);
        }
        Ok(())
    }

    fn check_count(&self) -> Result<()> {
        let most = self.options.get_max_files();
        if self.files.len() + self.outside.files.len() < most {
            return Ok(());
        }
        let message = format!("more than {most} external files");
        Err(Error::new(ErrorKind::LimitExceeded, message))
    }

    /// Registers the files' checksums with `builder`. The checksum of a file is verified once all
    /// of the file's data has been read.
    pub(crate) fn check_when_read(&mut self, builder: &mut SpansBuilder) {
        for (file, expected) in std::mem::take(&mut self.checksums) {
            let name = builder.file_name(file).to_owned();
            builder.check_when_read(file, move |reader, progress| {
                checksum::compare(reader, &name, &expected, progress)
            });
        }
    }

    pub(crate) fn warn_of_missing(&mut self) {
        let files = &self.outside.files;
        let Some(first) = files.first().filter(|_| !self.options.get_keep_external()) else {
            return;
        };
        let others = match files.len() {
            1 => String::new(),
            count => format!(", nor {} others", count - 1),
        };
        let counts = [
            (self.outside.tensors, "tensor"),
            (self.outside.contexts, "compiled node"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts = counts.map(|(count, what)| {
            let plural = if count == 1 { "" } else { "s" };
            format!("{count} {what}{plural}")
        });
        let (first, counts) = (first.display(), counts.collect::<Vec<_>>().join(" and "));
        let missing = format!("{first}: no such file{others}: the data of {counts} is missing");
        tracing::warn!("{missing}");
        self.warnings.push(missing);
    }

    fn warn(&mut self, tensor: &Tensor, what: &str) {
        tracing::warn!(tensor = tensor.name, "{what}");
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings
                .push(format!("tensor \"{}\": {what}", tensor.name));
        }
    }
}

impl Decide for ExternalData<'_> {
    fn tensor(
        &mut self,
        tensor: &Tensor,
        place: &Place<'_>,
        builder: &mut SpansBuilder,
    ) -> Result<Change> {
        if !tensor.is_external {
            return Ok(Change::None);
        }
        self.inside(tensor, builder)
            .map_err(|error| error.at_path(place.path()))
    }

    fn context(
        &mut self,
        context: &Context,
        part: Part,
        cursor: &mut Cursor<'_>,
        builder: &mut SpansBuilder,
    ) -> Result<Change> {
        if context.is_embedded {
            return Ok(Change::None);
        }
        self.content_inside(context, part, cursor, builder)
    }
}

/// Returns true if a file couldn't be opened because it doesn't exist.
fn is_missing(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Adds the tensor's name to an error.
fn in_tensor(error: Error, tensor: &Tensor) -> Error {
    error.context(format!("tensor \"{}\"", tensor.name))
}
