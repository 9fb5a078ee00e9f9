//! Editing a draft: adding, dropping and merging tags.

use std::collections::{HashMap, HashSet};

use super::{Content, Draft, DraftFile, DraftTag, FileIndex, Item, TagContent};
use crate::layout::Role;
use crate::limits::SameDiffLimits;
use crate::model::check_fits;
use crate::tag::fold;
use crate::text::check_name;
use crate::{Array, ArrayInfo, Error, ErrorKind, Graph, Result, Tag, VarType, graph};

impl Draft {
    /// Adds a tag with new content. It becomes the newest tag.
    ///
    /// An array isn't written again if it equals the array with the same name in the previous tag.
    /// The arrays are only compared when the model is written. New arrays are compared with an
    /// older array while the older array is written, so the older array is read only once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DuplicateTag`] if the tag already exists; [`ErrorKind::MissingParameter`] if a
    /// variable or constant has no values; [`ErrorKind::UnexpectedParameter`] if a variable of
    /// another kind has values; [`ErrorKind::NameNotRepresentable`] if the name of a variable with
    /// values contains whitespace; [`ErrorKind::ArrayMismatch`] if the type or shape of an array
    /// differs from that in the graph; [`ErrorKind::ArrayTooLarge`] if an array is too large for a
    /// file; any error in the graph.
    pub fn add_tag(&mut self, tag: Tag, content: TagContent) -> Result<()> {
        self.check_new(&tag)?;
        let TagContent {
            graph,
            parameters,
            states,
            training_config,
            files: _,
        } = content;
        graph::check(&graph)?;
        let parameters: Vec<(String, Vec<Array>)> = parameters
            .into_iter()
            .map(|(name, array)| (name, vec![array]))
            .collect();
        let parameters = in_order(&graph, parameters)?;
        check_arrays(&graph, &parameters, states.as_deref().unwrap_or_default())?;
        let bytes = graph::to_bytes(&graph)?;
        let parameters = self.add_arrays(Role::Parameter, parameters)?;
        let states = match states {
            Some(states) => Some(self.add_arrays(Role::UpdaterState, states)?),
            None => None,
        };
        self.tags.push(DraftTag {
            tag,
            identity: self.next_identity(),
            graph: Content::Bytes(bytes),
            limits: SameDiffLimits::new(),
            training_config: training_config.map(Content::Bytes),
            parameters,
            states,
            unreferenced: Vec::new(),
            others: Vec::new(),
        });
        Ok(())
    }

    /// Adds a copy of the tag `base` in which the given parameters have new values. The copy
    /// becomes the newest tag. The copy has the same graph as `base`, and shares all other arrays
    /// with `base`.
    ///
    /// # Errors
    ///
    /// The errors of [`add_tag`](Self::add_tag); [`ErrorKind::UnknownTag`] if `base` doesn't exist;
    /// [`ErrorKind::MissingParameter`] if `base` doesn't have all the given parameters;
    /// [`ErrorKind::ArrayMismatch`] if the type or shape of a parameter differs from that in
    /// `base`.
    pub fn add_tag_like(
        &mut self,
        tag: Tag,
        base: &str,
        parameters: impl IntoIterator<Item = (String, Array)>,
    ) -> Result<()> {
        self.check_new(&tag)?;
        let mut new = self.tags[self.position(base)?].clone();
        let places = new.parameters.iter().map(|item| item.name.clone()).zip(0..);
        let places: HashMap<String, usize> = places.collect();
        for (name, array) in parameters {
            let Some(&place) = places.get(&name) else {
                let message = format!("the tag {base:?} has no parameter {name:?}");
                return Err(Error::new(ErrorKind::MissingParameter, message));
            };
            let item = &mut new.parameters[place];
            let (info, older) = (array.written_info(), item.files[0]);
            let known = self.file(older).array()?.written_info();
            if known.dtype() != info.dtype() || known.shape() != info.shape() {
                let message = format!(
                    "{name:?} is of type {} and shape {:?}, but was of type {} and shape {:?}",
                    info.dtype(),
                    info.shape(),
                    known.dtype(),
                    known.shape()
                );
                return Err(Error::new(ErrorKind::ArrayMismatch, message));
            }
            let candidates = self.candidates(older, &info)?;
            let file = self.push(DraftFile {
                candidates,
                ..DraftFile::new(Role::Parameter, Content::Array(array))
            });
            new.parameters[place].files = vec![file];
        }
        new.tag = tag;
        new.identity = self.next_identity();
        new.unreferenced.clear();
        new.others.clear();
        self.tags.push(new);
        Ok(())
    }

    fn next_identity(&self) -> u64 {
        let tags = self.tags.iter().map(|tag| tag.identity);
        let homes = self
            .files
            .iter()
            .filter_map(|file| Some(file.home.as_ref()?.0));
        tags.chain(homes).max().map_or(0, |identity| identity + 1)
    }

    pub(super) fn check_new(&self, tag: &Tag) -> Result<()> {
        check_free(
            tag,
            self.tags.iter().any(|other| other.tag == *tag),
            self.strange_folders().any(|folder| folder == tag.folded()),
        )
    }

    /// Returns the names of the folders that belong to no tag, in lower case.
    fn strange_folders(&self) -> impl Iterator<Item = String> {
        let names = self
            .others
            .iter()
            .filter_map(|(name, _)| name.split_once('/'));
        names.map(|(folder, _)| fold(folder))
    }

    pub(super) fn position(&self, name: &str) -> Result<usize> {
        let found = self.tags.iter().position(|tag| tag.tag.is(name));
        found.ok_or_else(|| {
            let message = format!("there is no tag {name:?}");
            Error::new(ErrorKind::UnknownTag, message)
        })
    }

    /// Adds a file for each array. If the newest tag has an array with the same name, that array's
    /// file becomes a candidate for comparison.
    fn add_arrays(&mut self, role: Role, arrays: Vec<(String, Vec<Array>)>) -> Result<Vec<Item>> {
        let mut before: HashMap<String, Vec<FileIndex>> = HashMap::new();
        if let Some(tag) = self.tags.last() {
            for item in tag.items(role) {
                before.insert(item.name.clone(), item.files.clone());
            }
        }
        let mut items: Vec<Item> = Vec::new();
        let mut seen = HashSet::new();
        for (name, arrays) in arrays {
            check_name(&name)?;
            if !seen.insert(name.clone()) {
                let message = format!("{name:?} occurs twice");
                return Err(Error::new(ErrorKind::DuplicateLine, message));
            }
            if arrays.is_empty() {
                let message = format!("{name:?} has no states");
                return Err(Error::new(ErrorKind::InvalidConfig, message));
            }
            let older = before.get(&name).map_or(&[][..], |files| files);
            let mut files = Vec::new();
            for (index, array) in arrays.into_iter().enumerate() {
                let info = array.written_info();
                // Fails early if the array is too large for a file.
                crate::array::header(&info, array.data_len())
                    .map_err(|error| error.about("array", &name))?;
                let candidates = match older.get(index) {
                    Some(&older) => self.candidates(older, &info)?,
                    None => Vec::new(),
                };
                files.push(self.push(DraftFile {
                    candidates,
                    ..DraftFile::new(role, Content::Array(array))
                }));
            }
            items.push(Item { name, files });
        }
        Ok(items)
    }

    /// Returns the files that may turn out to equal a new array: an older file and its own
    /// candidates. If the older file's array has a different type or shape, returns no files.
    fn candidates(&self, older: FileIndex, info: &ArrayInfo) -> Result<Vec<FileIndex>> {
        let file = self.file(older);
        if file.array()?.written_info() != *info {
            return Ok(Vec::new());
        }
        let mut candidates = file.candidates.clone();
        candidates.push(older);
        Ok(candidates)
    }

    /// Drops all tags except this one. Files that the remaining tag shares with dropped tags are
    /// kept.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnknownTag`] if the tag doesn't exist.
    pub fn extract_tag(&mut self, name: &str) -> Result<()> {
        let at = self.position(name)?;
        self.tags.swap(0, at);
        self.tags.truncate(1);
        Ok(())
    }

    /// Drops a tag. Files that it shares with other tags are kept.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnknownTag`] if the tag doesn't exist; [`ErrorKind::InvalidConfig`] if it is
    /// the draft's only tag.
    pub fn drop_tag(&mut self, name: &str) -> Result<()> {
        let at = self.position(name)?;
        if self.tags.len() == 1 {
            let message = format!("{name:?} is the only tag, and a model needs one");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        self.tags.remove(at);
        Ok(())
    }

    /// Adds all tags of another draft. They become the newest tags.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DuplicateTag`] if both drafts have a tag with the same name (rename one of them
    /// first); [`ErrorKind::DuplicateEntry`] if both have an entry with the same name that doesn't
    /// belong to a tag. On error, the draft is unchanged.
    pub fn merge(&mut self, mut other: Draft) -> Result<()> {
        let known: HashSet<&str> = self.tags().map(Tag::folded).collect();
        let strange: HashSet<String> = self.strange_folders().collect();
        for tag in other.tags() {
            let name = tag.folded();
            check_free(tag, known.contains(name), strange.contains(name))?;
        }
        let strange: HashSet<String> = other.strange_folders().collect();
        for tag in self.tags() {
            check_free(tag, false, strange.contains(tag.folded()))?;
        }
        let known: HashSet<&str> = self.others.iter().map(|(name, _)| &**name).collect();
        for (name, _) in &other.others {
            if known.contains(&**name) {
                let message = "both models have this entry, which belongs to no tag";
                return Err(Error::new(ErrorKind::DuplicateEntry, message).in_entry(name));
            }
        }
        let (identities, files) = (self.next_identity(), self.files.len());
        let moved = |file: &mut FileIndex| file.0 += files;
        for file in &mut other.files {
            file.candidates.iter_mut().for_each(moved);
            if let Some((identity, _)) = &mut file.home {
                *identity += identities;
            }
        }
        for tag in &mut other.tags {
            tag.identity += identities;
            tag.unreferenced.iter_mut().for_each(moved);
            for role in Role::ALL {
                for item in tag.items_mut(role) {
                    item.files.iter_mut().for_each(moved);
                }
            }
        }
        self.files.append(&mut other.files);
        self.tags.append(&mut other.tags);
        self.others.append(&mut other.others);
        Ok(())
    }

    /// Removes array files that no tag uses.
    pub fn collect_garbage(&mut self) {
        for tag in &mut self.tags {
            tag.unreferenced.clear();
        }
    }
}

/// Fails if a draft has another tag with this name, or a folder with this name that belongs to no
/// tag. Readers reject an archive in which a tag has two folders.
fn check_free(tag: &Tag, is_tag: bool, is_folder: bool) -> Result<()> {
    let name = tag.as_str();
    let message = match (is_tag, is_folder) {
        (true, _) => format!("the tag {name:?} is there already"),
        (false, true) => {
            format!("there already is a folder {name:?}, which belongs to no tag in tags.txt")
        }
        (false, false) => return Ok(()),
    };
    Err(Error::new(ErrorKind::DuplicateTag, message))
}

/// Fails unless each array has the type and shape of its variable in the graph. Also fails if a
/// variable that isn't trained has states.
fn check_arrays(
    graph: &Graph,
    parameters: &[(String, Vec<Array>)],
    states: &[(String, Vec<Array>)],
) -> Result<()> {
    let by_name = graph.by_name();
    let variable = |name: &str| by_name.get(name).map(|&place| &graph.variables[place]);
    for (name, arrays) in parameters {
        if let Some(variable) = variable(name) {
            arrays
                .iter()
                .try_for_each(|array| check_fits(variable, array.info()))?;
        }
    }
    for (name, _) in states {
        if let Some(variable) = variable(name).filter(|one| one.kind != VarType::Variable) {
            let message = format!(
                "{name:?} is of the kind {}, which is not trained and has no states",
                variable.kind
            );
            return Err(Error::new(ErrorKind::UnexpectedParameter, message));
        }
    }
    Ok(())
}

/// Sorts arrays in the order of the graph's variables. Fails if a variable of the kind
/// [`VarType::Variable`] or [`VarType::Constant`] has no arrays, or if a variable of any other kind
/// has arrays.
fn in_order(graph: &Graph, arrays: Vec<(String, Vec<Array>)>) -> Result<Vec<(String, Vec<Array>)>> {
    let by_name = graph.by_name();
    let mut places = Vec::with_capacity(arrays.len());
    for (name, arrays) in arrays {
        let place = by_name.get(&*name).copied();
        let place = place.filter(|&place| graph.variables[place].kind.has_values());
        let Some(place) = place else {
            let message = format!("{name:?} is not a variable or constant of the graph");
            return Err(Error::new(ErrorKind::UnexpectedParameter, message));
        };
        places.push((place, name, arrays));
    }
    places.sort_by_key(|(place, ..)| *place);
    let twice = places.windows(2).find(|pair| pair[0].0 == pair[1].0);
    if let Some((_, name, _)) = twice.and_then(|pair| pair.first()) {
        let message = format!("{name:?} occurs twice");
        return Err(Error::new(ErrorKind::DuplicateLine, message));
    }
    let mut given = places.iter().map(|(place, ..)| *place).peekable();
    for (place, variable) in graph.variables.iter().enumerate() {
        if variable.kind.has_values() && given.next_if(|&next| next == place).is_none() {
            let message = format!("{:?} has no values", variable.name);
            return Err(Error::new(ErrorKind::MissingParameter, message));
        }
    }
    Ok(places
        .into_iter()
        .map(|(_, name, arrays)| (name, arrays))
        .collect())
}
