//! Models that were opened for reading.

mod arrays;
mod check;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use record_file::ReadAt;

pub use arrays::{ArrayFile, Arrays};
pub(crate) use check::check_fits;
pub use check::{CheckOptions, Report};

use crate::fb::Unknown;
use crate::layout::{self, Role};
use crate::limits::SameDiffLimits;
use crate::tag::fold;
use crate::zip::{Archive, EntryIndex};
use crate::{Array, Error, ErrorKind, Graph, Result, Tag, graph, text};

/// Options for opening a model.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelOptions {
    pub(crate) limits: SameDiffLimits,
}

impl ModelOptions {
    /// Returns the defaults; each setter documents its default.
    #[must_use]
    pub const fn new() -> Self {
        ModelOptions {
            limits: SameDiffLimits::new(),
        }
    }

    /// Sets the limits on memory and disk space. Default: [`SameDiffLimits::new`].
    #[must_use]
    pub const fn limits(mut self, limits: SameDiffLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the limits on memory and disk space.
    pub const fn get_limits(&self) -> &SameDiffLimits {
        &self.limits
    }
}

/// A model, which consists of tags. Each tag has a graph, its parameters and its updater states.
///
/// Opening a model reads the archive's directory and `tags.txt`. All other entries are read on
/// demand.
///
/// ```
/// use proto_splitter_samediff::{Array, ArrayInfo, Nd4jType, Draft, Graph, Model, TagContent, VarType, SameDiffVariable, SameDiffWriteOptions};
///
/// let mut graph = Graph::default();
/// graph.variables.push(SameDiffVariable::new("w", VarType::Variable, Nd4jType::UInt8, [3]));
/// let array = Array::from_bytes(ArrayInfo::new(Nd4jType::UInt8, [3])?, vec![1, 2, 3])?;
/// let mut draft = Draft::new();
/// draft.add_tag("first".parse()?, TagContent::new(graph).parameter("w", array))?;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("model.zip");
/// draft.write(&path, &SameDiffWriteOptions::new())?;
///
/// let model = Model::open(&path)?;
/// let tag = model.default_tag();
/// assert_eq!(tag.name().as_str(), "first");
/// assert_eq!(tag.parameter("w")?.values()?.read_to_vec(16)?, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    archive: Archive,
    pub(crate) limits: SameDiffLimits,
    path: Option<PathBuf>,
    /// Tags, oldest first. A model has at least one tag.
    tags: Vec<Folder>,
    /// Map from a tag's name in lower case to the tag's index in `tags`.
    by_fold: HashMap<String, usize>,
    by_folder: HashMap<Box<str>, usize>,
}

/// A tag, and the name of its folder, which may differ in case from the tag's name.
#[derive(Clone, Debug)]
struct Folder {
    tag: Tag,
    name: Box<str>,
}

impl Model {
    /// Opens the model in a file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be read; [`ErrorKind::NotAnArchive`], or any other error
    /// in the archive; [`ErrorKind::MissingEntry`] if the archive has no `tags.txt`, or a tag has
    /// no folder; any error in `tags.txt`.
    pub fn open(path: impl AsRef<Path>) -> Result<Model> {
        Model::open_with(path, &ModelOptions::new())
    }

    /// Opens the model in a file, with options.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &ModelOptions) -> Result<Model> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| Error::from(error).in_file(path.display()))?;
        Model::of_file(Arc::new(file), path, options)
    }

    /// Opens the model in an open file. `path` is the file's path.
    pub(crate) fn of_file(
        file: Arc<dyn ReadAt>,
        path: &Path,
        options: &ModelOptions,
    ) -> Result<Model> {
        let model = Model::from_source(file, options);
        let mut model = model.map_err(|error| error.in_file(path.display()))?;
        model.archive.name_file(path.display().to_string());
        model.path = Some(path.to_owned());
        Ok(model)
    }

    /// Opens a model from any source, such as memory.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn from_source(source: Arc<dyn ReadAt>, options: &ModelOptions) -> Result<Model> {
        let limits = options.limits;
        let archive = Archive::open(source, &limits)?;
        let Some(index) = archive.directory().find(layout::TAGS) else {
            let message = "there is no tags.txt, so this is not a SameDiff model";
            return Err(Error::new(ErrorKind::MissingEntry, message).in_entry(layout::TAGS));
        };
        let bytes = archive.read(index, limits.get_max_text_size())?;
        let tags =
            text::parse_tags(&bytes, &limits).map_err(|error| error.in_entry(layout::TAGS))?;
        let tags = find_folders(&archive, tags)?;
        let folds = tags.iter().map(|folder| folder.tag.folded().to_owned());
        let folders = tags.iter().map(|folder| folder.name.clone());
        let model = Model {
            by_fold: folds.zip(0..).collect(),
            by_folder: folders.zip(0..).collect(),
            archive,
            limits,
            path: None,
            tags,
        };
        model.check_strange_names()?;
        Ok(model)
    }

    /// Fails if an entry that the format doesn't define has different names in its local header and
    /// in the directory. No checksum covers the names in the directory. Without this check, an
    /// array with a damaged name could be mistaken for an unknown entry.
    fn check_strange_names(&self) -> Result<()> {
        let files = self.archive.directory().files();
        let strange = files.filter(|(_, record)| !self.knows(&record.name));
        for (index, _) in strange {
            self.archive.check_name(index)?;
        }
        Ok(())
    }

    /// Returns true if the format defines the entry with this name.
    pub(crate) fn knows(&self, entry: &str) -> bool {
        let known = |(_, path)| layout::is_known(path);
        entry == layout::TAGS || self.place(entry).is_some_and(known)
    }

    /// Returns the path of the file from which the model was opened, if any.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns views of all tags, oldest first.
    pub fn tags(&self) -> impl DoubleEndedIterator<Item = TagView<'_>> + ExactSizeIterator {
        (0..self.tags.len()).map(|index| TagView { model: self, index })
    }

    /// Returns a view of the newest tag, which is the default tag.
    #[must_use]
    pub fn default_tag(&self) -> TagView<'_> {
        TagView {
            model: self,
            index: self.tags.len() - 1,
        }
    }

    /// Returns a view of the tag with this name, ignoring case.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnknownTag`] if no tag has this name.
    pub fn tag(&self, name: &str) -> Result<TagView<'_>> {
        match self.tag_index(name) {
            Some(index) => Ok(TagView { model: self, index }),
            None => {
                let names: Vec<&str> = self.tags.iter().map(|folder| folder.tag.as_str()).collect();
                let message = format!("no tag is named {name:?}; there are {}", names.join(", "));
                Err(self.named(Error::new(ErrorKind::UnknownTag, message)))
            }
        }
    }

    fn tag_index(&self, name: &str) -> Option<usize> {
        self.by_fold.get(&fold(name)).copied()
    }

    /// Adds the path of the model's file to an error.
    fn named(&self, error: Error) -> Error {
        match &self.path {
            Some(path) => error.in_file(path.display()),
            None => error,
        }
    }

    pub(crate) fn limits(&self) -> &SameDiffLimits {
        &self.limits
    }

    pub(crate) fn archive(&self) -> &Archive {
        &self.archive
    }

    /// Returns the index of the tag whose folder contains this entry, and the entry's path relative
    /// to that folder; `None` if the entry isn't in a tag's folder.
    pub(crate) fn place<'e>(&self, entry: &'e str) -> Option<(usize, &'e str)> {
        let (folder, path) = entry.split_once('/')?;
        Some((*self.by_folder.get(folder)?, path))
    }

    /// Returns every file in the folders `params/` and `updater/` of all tags, including files that
    /// the tag's text files don't list. Each item consists of the tag's index, the array's role,
    /// the file's id and the entry's index.
    pub(crate) fn array_files(&self) -> impl Iterator<Item = (usize, Role, &str, EntryIndex)> {
        self.archive
            .directory()
            .files()
            .filter_map(|(index, record)| {
                let (tag, path) = self.place(&record.name)?;
                let (role, id) = layout::array_id(path)?;
                Some((tag, role, id, index))
            })
    }
}

/// Finds each tag's folder, with the spelling of the folder's name in the archive.
fn find_folders(archive: &Archive, tags: Vec<Tag>) -> Result<Vec<Folder>> {
    let mut by_fold: HashMap<String, usize> = HashMap::new();
    for (index, tag) in tags.iter().enumerate() {
        by_fold.insert(tag.folded().to_owned(), index);
    }
    let mut found: Vec<Option<Box<str>>> = vec![None; tags.len()];
    let mut last = "";
    for (_, record) in archive.directory().files() {
        let Some((folder, _)) = record.name.split_once('/') else {
            continue;
        };
        // Skips the search if the entry is in the same folder as the previous one, as is usual.
        if folder == last {
            continue;
        }
        last = folder;
        let Some(&index) = by_fold.get(&fold(folder)) else {
            continue;
        };
        match &found[index] {
            None => found[index] = Some(folder.into()),
            Some(other) if **other == *folder => {}
            Some(other) => {
                let message = format!("the folders {other:?} and {folder:?} belong to one tag");
                return Err(Error::new(ErrorKind::DuplicateTag, message).in_entry(folder));
            }
        }
    }
    let folders = tags.into_iter().zip(found).zip(1..);
    let folders = folders.map(|((tag, name), line)| match name {
        Some(name) => Ok(Folder { tag, name }),
        None => {
            let message = format!("tag {:?} has no folder", tag.as_str());
            let error = Error::new(ErrorKind::MissingEntry, message);
            Err(error.in_entry(layout::TAGS).on_line(line))
        }
    });
    folders.collect()
}

/// A view of a tag of a model.
#[derive(Clone, Copy, Debug)]
pub struct TagView<'m> {
    model: &'m Model,
    index: usize,
}

impl<'m> TagView<'m> {
    /// Returns the tag's name, as spelled in `tags.txt`.
    #[must_use]
    pub fn name(&self) -> &'m Tag {
        &self.model.tags[self.index].tag
    }

    /// Returns the index of the tag in the order of age, starting with 0 for the oldest.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns the full name of the entry with this path in the tag's folder.
    pub(crate) fn entry_name(&self, path: &str) -> String {
        format!("{}/{path}", self.model.tags[self.index].name)
    }

    pub(crate) fn find(&self, path: &str) -> Option<EntryIndex> {
        self.model.archive.directory().find(&self.entry_name(path))
    }

    pub(crate) fn require(&self, path: &str) -> Result<EntryIndex> {
        self.find(path).ok_or_else(|| {
            let message = format!("tag {:?} has no {path}", self.name().as_str());
            self.in_entry(Error::new(ErrorKind::MissingEntry, message), path)
        })
    }

    /// Adds the name of the entry with this path in the tag's folder, and the path of the model's
    /// file, to an error.
    pub(crate) fn in_entry(&self, error: Error, path: &str) -> Error {
        self.model.named(error.in_entry(self.entry_name(path)))
    }

    /// Reads the tag's graph, ignoring unknown fields.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::MissingEntry`] if the tag has no graph; [`ErrorKind::InvalidGraph`], or any
    /// other error in the graph.
    pub fn graph(&self) -> Result<Graph> {
        self.read_graph(Unknown::PassedOver)
    }

    /// Reads the tag's graph. `unknown` specifies the treatment of unknown fields.
    pub(crate) fn read_graph(&self, unknown: Unknown) -> Result<Graph> {
        let index = self.require(layout::GRAPH)?;
        let limits = &self.model.limits;
        let read = || {
            let bytes = self
                .model
                .archive
                .read(index, limits.get_max_graph_size())?;
            let graph = graph::from_bytes(&bytes, limits, unknown)?;
            graph::check(&graph)?;
            Ok(graph)
        };
        read().map_err(|error: Error| self.in_entry(error, layout::GRAPH))
    }

    /// Reads `params.txt`, which lists the files with the values of the tag's variables and
    /// constants.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::MissingEntry`] if there is no `params.txt`; any error in one of its lines.
    pub fn parameters(&self) -> Result<Arrays<'m>> {
        let index = self.require(layout::PARAMS)?;
        Arrays::read(self.model, self.index, Role::Parameter, Some(index))
    }

    /// Reads `updater.txt`, which lists the files with the states of the tag's updater. If the tag
    /// has no such file, for example because the model was never trained, the list is empty.
    ///
    /// # Errors
    ///
    /// Any error in a line of `updater.txt`.
    pub fn updater_states(&self) -> Result<Arrays<'m>> {
        let index = self.find(layout::UPDATER);
        Arrays::read(self.model, self.index, Role::UpdaterState, index)
    }

    /// Opens the values of one variable or constant. To open several, call
    /// [`parameters`](Self::parameters) instead, which reads the list of files only once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::MissingParameter`] if no parameter has this name; otherwise the errors of
    /// [`parameters`](Self::parameters) and [`Arrays::open`].
    pub fn parameter(&self, name: &str) -> Result<Array> {
        let parameters = self.parameters()?;
        match parameters.get(name) {
            Some([file, ..]) => parameters.open(file),
            _ => {
                let message = format!("there is no parameter {name:?}");
                let error = Error::new(ErrorKind::MissingParameter, message);
                Err(self.in_entry(error, layout::PARAMS))
            }
        }
    }

    /// Returns the bytes of the tag's `trainingConfig.fb`, or `None` if there is no such file.
    /// SameDiff's format doesn't specify a schema for this file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if the configuration exceeds the limit for graphs; any error in
    /// the archive.
    pub fn training_config(&self) -> Result<Option<Vec<u8>>> {
        let index = self.find(layout::TRAINING_CONFIG);
        let limit = self.model.limits.get_max_graph_size();
        let read = index.map(|index| self.model.archive.read(index, limit));
        read.transpose().map_err(|error| self.model.named(error))
    }
}
