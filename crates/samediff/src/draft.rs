//! Drafts: models to be written, made of tags from existing models and of new tags.

mod contents;
mod dedup;
mod edit;
mod open;
mod plan;
mod rename;
mod write;

use std::fmt;
use std::sync::OnceLock;

pub use contents::TagContent;
pub use write::{SameDiffWriteOptions, WrittenSameDiff};

use crate::layout::Role;
use crate::limits::SameDiffLimits;
use crate::zip::{Archive, EntryIndex};
use crate::{Array, Tag};

/// A model to be written.
///
/// Each tag lists the names of its arrays, and the file that contains each array. Unchanged content
/// isn't decoded. The folder of each file is only chosen when the model is written. The file then
/// goes into the folder of the oldest tag that uses it. Thus, if a dropped tag shared a file with
/// another tag, the file is kept automatically. Every file is written once.
///
/// ```
/// use proto_splitter_samediff::{Array, ArrayInfo, Nd4jType, Draft, Graph, Model, TagContent, VarType, SameDiffVariable, SameDiffWriteOptions};
///
/// let mut graph = Graph::default();
/// graph.variables.push(SameDiffVariable::new("w", VarType::Variable, Nd4jType::UInt8, [3]));
/// let array = Array::from_bytes(ArrayInfo::new(Nd4jType::UInt8, [3])?, vec![1, 2, 3])?;
/// let content = TagContent::new(graph).parameter("w", array);
///
/// // The second checkpoint is like the first, so it refers to its file.
/// let mut draft = Draft::new();
/// draft.add_tag("first".parse()?, content.clone())?;
/// draft.add_tag("second".parse()?, content)?;
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("both.zip");
/// let written = draft.write(&path, &SameDiffWriteOptions::new())?;
/// assert_eq!((written.arrays, written.shared), (1, 1));
///
/// // Without the first, the second owns it.
/// let mut draft = Draft::open(&Model::open(&path)?)?;
/// draft.drop_tag("first")?;
/// let path = folder.path().join("second.zip");
/// draft.write(&path, &SameDiffWriteOptions::new())?;
/// let values = Model::open(&path)?.default_tag().parameter("w")?.values()?;
/// assert_eq!(values.read_to_vec(16)?, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Tags, oldest first.
    tags: Vec<DraftTag>,
    files: Vec<DraftFile>,
    /// Entries outside of all tags' folders, by name.
    others: Vec<(String, Content)>,
}

/// The index of an array's file in [`Draft::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct FileIndex(usize);

#[derive(Clone, Debug)]
struct DraftTag {
    tag: Tag,
    /// Number that identifies the tag, even after it was renamed.
    identity: u64,
    graph: Content,
    /// Limits for reading the graph.
    limits: SameDiffLimits,
    training_config: Option<Content>,
    parameters: Vec<Item>,
    /// States of the updater; `None` if the tag has no `updater.txt`.
    states: Option<Vec<Item>>,
    /// Array files in the tag's folder to which no list of arrays refers.
    unreferenced: Vec<FileIndex>,
    /// Entries in the tag's folder that the format doesn't define, by their paths relative to the
    /// folder.
    others: Vec<(String, Content)>,
}

impl DraftTag {
    fn items(&self, role: Role) -> &[Item] {
        match role {
            Role::Parameter => &self.parameters,
            Role::UpdaterState => self.states.as_deref().unwrap_or_default(),
        }
    }

    fn items_mut(&mut self, role: Role) -> &mut [Item] {
        match role {
            Role::Parameter => &mut self.parameters,
            Role::UpdaterState => self.states.as_deref_mut().unwrap_or_default(),
        }
    }
}

/// The name of a variable, and the files that contain its arrays.
#[derive(Clone, Debug)]
struct Item {
    name: String,
    files: Vec<FileIndex>,
}

#[derive(Clone, Debug)]
struct DraftFile {
    role: Role,
    content: Content,
    /// Identity of the tag from whose folder the file was read, and the file's name there; `None`
    /// for a new file.
    home: Option<(u64, String)>,
    /// Older files whose content may turn out to equal this file's.
    candidates: Vec<FileIndex>,
    /// The file's array, if it was already opened.
    opened: OnceLock<Array>,
}

impl DraftFile {
    fn new(role: Role, content: Content) -> DraftFile {
        DraftFile {
            role,
            content,
            home: None,
            candidates: Vec::new(),
            opened: OnceLock::new(),
        }
    }

    /// Returns the file's array, which is opened on the first call only.
    fn array(&self) -> crate::Result<&Array> {
        if let Some(array) = self.opened.get() {
            return Ok(array);
        }
        let array = self.content.array()?;
        Ok(self.opened.get_or_init(|| array))
    }
}

/// The content of an entry to be written.
#[derive(Clone)]
enum Content {
    /// An entry in an existing archive.
    Entry(Archive, EntryIndex),
    Bytes(Vec<u8>),
    Array(Array),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::Entry(archive, index) => f
                .debug_tuple("Entry")
                .field(&archive.record(*index).name)
                .finish(),
            Content::Bytes(bytes) => f.debug_tuple("Bytes").field(&bytes.len()).finish(),
            Content::Array(array) => f.debug_tuple("Array").field(array.info()).finish(),
        }
    }
}

impl Content {
    /// Returns the array that the content represents. Fails for plain bytes.
    fn array(&self) -> crate::Result<Array> {
        match self {
            Content::Entry(archive, index) => Array::open(archive, *index),
            Content::Array(array) => Ok(array.clone()),
            Content::Bytes(_) => {
                let message = "there is no array in these bytes";
                Err(crate::Error::new(crate::ErrorKind::InvalidArray, message))
            }
        }
    }
}

impl Draft {
    /// Creates a draft without tags. Writing it requires at least one tag.
    #[must_use]
    pub fn new() -> Draft {
        Draft::default()
    }

    /// Returns the names of the tags, oldest first.
    pub fn tags(&self) -> impl ExactSizeIterator<Item = &Tag> {
        self.tags.iter().map(|tag| &tag.tag)
    }

    fn file(&self, index: FileIndex) -> &DraftFile {
        &self.files[index.0]
    }

    fn push(&mut self, file: DraftFile) -> FileIndex {
        self.files.push(file);
        FileIndex(self.files.len() - 1)
    }
}
