//! The names of the entries in a model's archive.
//!
//! ```text
//! tags.txt                  one tag per line, oldest first
//! TAG/graph.fb              the graph
//! TAG/params.txt            variable or constant -> file
//! TAG/params/ID.fb          one array
//! TAG/trainingConfig.fb     the training configuration (optional)
//! TAG/updater.txt           variable -> files of its updater's states (optional)
//! TAG/updater/ID.fb         one array
//! ```

/// Name of the list of tags, which this crate writes as the archive's first entry.
pub(crate) const TAGS: &str = "tags.txt";
pub(crate) const GRAPH: &str = "graph.fb";
pub(crate) const PARAMS: &str = "params.txt";
pub(crate) const UPDATER: &str = "updater.txt";
pub(crate) const TRAINING_CONFIG: &str = "trainingConfig.fb";
/// Paths of all entries in a tag's folder except the array files, relative to that folder.
pub(crate) const LISTS: [&str; 4] = [GRAPH, PARAMS, UPDATER, TRAINING_CONFIG];
/// Suffix of the names of array files.
pub(crate) const ARRAY_SUFFIX: &str = ".fb";

/// The role of an array in its tag. The role determines the folder that contains the array's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// `params/`: the values of a variable or constant.
    Parameter,
    /// `updater/`: a state of the updater, such as one of Adam's moments.
    UpdaterState,
}

impl Role {
    /// All roles.
    pub(crate) const ALL: [Role; 2] = [Role::Parameter, Role::UpdaterState];

    /// Returns the name of the subfolder, in a tag's folder, that contains the arrays with this
    /// role.
    #[must_use]
    pub const fn folder(self) -> &'static str {
        match self {
            Role::Parameter => "params",
            Role::UpdaterState => "updater",
        }
    }

    /// Returns the name of the text file in a tag's folder that lists the arrays with this role.
    #[must_use]
    pub const fn list(self) -> &'static str {
        match self {
            Role::Parameter => PARAMS,
            Role::UpdaterState => UPDATER,
        }
    }
}

/// Returns true if the format defines an entry with this path, relative to a tag's folder.
pub(crate) fn is_known(path: &str) -> bool {
    LISTS.contains(&path) || array_id(path).is_some()
}

/// Returns the path of an array's file, relative to the tag's folder.
pub(crate) fn array_path(role: Role, id: &str) -> String {
    format!("{}/{id}{ARRAY_SUFFIX}", role.folder())
}

/// Returns the role and the id of the array file with this path, relative to a tag's folder; `None`
/// if it isn't the path of an array file.
pub(crate) fn array_id(path: &str) -> Option<(Role, &str)> {
    let (folder, file) = path.split_once('/')?;
    let role = Role::ALL.into_iter().find(|role| role.folder() == folder)?;
    let id = file.strip_suffix(ARRAY_SUFFIX)?;
    (!id.is_empty() && !id.contains('/')).then_some((role, id))
}

/// Returns true if an entry with this name may be part of a model, in any folder.
pub(crate) fn is_of_model(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or_default();
    let names = [TAGS, GRAPH, PARAMS];
    names.iter().any(|own| own.eq_ignore_ascii_case(name))
}
