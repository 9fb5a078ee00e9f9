//! The entries of the archive to which a draft is written.

use std::collections::{HashMap, HashSet};

use super::{Content, Draft, FileIndex};
use crate::layout::{self, Role};
use crate::text::{FileRef, Line};
use crate::{Error, ErrorKind, Result};

/// An entry to be written.
pub(super) enum Entry<'d> {
    Content(String, &'d Content),
    /// An array: the name of the entry, and the array's file. The entry isn't written if the file
    /// turns out to equal an older file.
    Array(String, FileIndex),
    /// A tag's list of arrays: the name of the entry, the index of the tag, and the role of the
    /// arrays. The list's text depends on which files turn out to be equal.
    List(String, usize, Role),
}

/// The entries of a model, in the order of writing, and the locations of its array files.
pub(super) struct Plan<'d> {
    draft: &'d Draft,
    pub(super) entries: Vec<Entry<'d>>,
    /// For each file, the index of the tag whose folder will contain the file, and the file's name
    /// in that folder.
    places: HashMap<FileIndex, (usize, String)>,
}

impl<'d> Plan<'d> {
    /// Plans the entries of a draft. The tags are ordered from the oldest to the newest, and each
    /// has its graph first, followed by its arrays and lists. `tags.txt`, which precedes all
    /// entries, isn't part of the plan.
    pub(super) fn of(draft: &'d Draft) -> Result<Plan<'d>> {
        if draft.tags.is_empty() {
            let message = "a model without tags can't be written";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let mut plan = Plan {
            draft,
            entries: Vec::new(),
            places: HashMap::new(),
        };
        for tag in 0..draft.tags.len() {
            plan.add_tag(tag);
        }
        for (name, content) in &draft.others {
            plan.entries.push(Entry::Content(name.clone(), content));
        }
        Ok(plan)
    }

    fn add_tag(&mut self, index: usize) {
        let tag = &self.draft.tags[index];
        let name = |path: &str| format!("{}/{path}", tag.tag);
        self.entries
            .push(Entry::Content(name(layout::GRAPH), &tag.graph));
        for role in Role::ALL {
            for file in self.place_files(index, role) {
                let (_, id) = &self.places[&file];
                let path = layout::array_path(role, id);
                self.entries.push(Entry::Array(name(&path), file));
            }
            if role == Role::Parameter || tag.states.is_some() {
                self.entries
                    .push(Entry::List(name(role.list()), index, role));
            }
        }
        if let Some(content) = &tag.training_config {
            self.entries
                .push(Entry::Content(name(layout::TRAINING_CONFIG), content));
        }
        for (path, content) in &tag.others {
            self.entries.push(Entry::Content(name(path), content));
        }
    }

    /// Chooses names for the files that this tag uses and no older tag uses, and returns these
    /// files. A file that is already in the tag's folder keeps its name; any other file gets the
    /// next free number.
    fn place_files(&mut self, index: usize, role: Role) -> Vec<FileIndex> {
        let tag = &self.draft.tags[index];
        let mut own = Vec::new();
        let mut seen = HashSet::new();
        let referenced = tag.items(role).iter().flat_map(|item| &item.files);
        let unreferenced = tag.unreferenced.iter();
        let unreferenced = unreferenced.filter(|&&file| self.draft.file(file).role == role);
        for &file in referenced.chain(unreferenced) {
            if !self.places.contains_key(&file) && seen.insert(file) {
                own.push(file);
            }
        }
        let kept = |file: FileIndex| {
            let (identity, id) = self.draft.file(file).home.as_ref()?;
            (*identity == tag.identity && is_canonical(id)).then(|| id.clone())
        };
        let mut ids: Vec<Option<String>> = own.iter().map(|&file| kept(file)).collect();
        let taken: HashSet<String> = ids.iter().flatten().cloned().collect();
        let mut next = (0_u64..)
            .map(|id| id.to_string())
            .filter(|id| !taken.contains(id));
        for (file, id) in own.iter().zip(&mut ids) {
            let id = id.take().or_else(|| next.next()).unwrap_or_default();
            self.places.insert(*file, (index, id));
        }
        own
    }

    /// Returns the lines of a tag's list of arrays. `instead` must already contain all files to
    /// replace with equal older files.
    pub(super) fn lines(
        &self,
        tag: usize,
        role: Role,
        instead: &HashMap<FileIndex, FileIndex>,
    ) -> Vec<Line> {
        let reference = |file: &FileIndex| {
            let file = instead.get(file).unwrap_or(file);
            let (owner, id) = &self.places[file];
            let other = (*owner != tag).then(|| self.draft.tags[*owner].tag.as_str());
            FileRef::new(other, id)
        };
        let items = self.draft.tags[tag].items(role).iter();
        let lines = items.map(|item| Line {
            name: item.name.clone(),
            refs: item.files.iter().map(reference).collect(),
        });
        lines.collect()
    }
}

/// Returns true if the id of a file is a decimal number without leading zeros.
fn is_canonical(id: &str) -> bool {
    id.bytes().all(|byte| byte.is_ascii_digit()) && (id == "0" || !id.starts_with('0'))
}
