//! Creation of a draft from an existing model.

use std::collections::HashMap;

use super::{Content, Draft, DraftFile, DraftTag, FileIndex, Item};
use crate::layout::{self, Role};
use crate::model::{ArrayFile, Arrays};
use crate::zip::EntryIndex;
use crate::{Model, Result};

impl Draft {
    /// Creates a draft of an existing model. Reads the model's lists of tags and arrays, but no
    /// graphs or arrays.
    ///
    /// # Errors
    ///
    /// Any error in the model's lists.
    pub fn open(model: &Model) -> Result<Draft> {
        let mut draft = Draft::new();
        let mut files: HashMap<EntryIndex, FileIndex> = HashMap::new();
        for (tag, role, id, index) in model.array_files() {
            let content = Content::Entry(model.archive().clone(), index);
            let file = draft.push(DraftFile {
                home: Some((tag as u64, id.to_owned())),
                ..DraftFile::new(role, content)
            });
            files.insert(index, file);
        }
        let content = |index| Content::Entry(model.archive().clone(), index);
        for tag in model.tags() {
            let parameters = items(&tag.parameters()?, &files);
            let states = match tag.find(layout::UPDATER) {
                Some(_) => Some(items(&tag.updater_states()?, &files)),
                None => None,
            };
            draft.tags.push(DraftTag {
                tag: tag.name().clone(),
                identity: tag.index() as u64,
                graph: content(tag.require(layout::GRAPH)?),
                limits: *model.limits(),
                training_config: tag.find(layout::TRAINING_CONFIG).map(content),
                parameters,
                states,
                unreferenced: Vec::new(),
                others: Vec::new(),
            });
        }
        draft.keep_unreferenced();
        for (index, record) in model.archive().directory().files() {
            match model.place(&record.name) {
                Some((tag, path)) if !layout::is_known(path) => {
                    draft.tags[tag]
                        .others
                        .push((path.to_owned(), content(index)));
                }
                None if *record.name != *layout::TAGS => {
                    draft.others.push((record.name.to_string(), content(index)));
                }
                _ => {}
            }
        }
        Ok(draft)
    }

    /// Adds each file that isn't in any list to the tag whose folder contains the file.
    fn keep_unreferenced(&mut self) {
        let mut referenced = vec![false; self.files.len()];
        for tag in &self.tags {
            for role in Role::ALL {
                for item in tag.items(role) {
                    item.files.iter().for_each(|file| referenced[file.0] = true);
                }
            }
        }
        for (index, file) in self.files.iter().enumerate() {
            let home = file.home.as_ref().filter(|_| !referenced[index]);
            // The identities of the tags are still their indices.
            let tag = home.and_then(|(identity, _)| usize::try_from(*identity).ok());
            if let Some(tag) = tag.and_then(|tag| self.tags.get_mut(tag)) {
                tag.unreferenced.push(FileIndex(index));
            }
        }
    }
}

fn items(arrays: &Arrays<'_>, files: &HashMap<EntryIndex, FileIndex>) -> Vec<Item> {
    let find = |file: &ArrayFile| files.get(&file.index()).copied();
    let items = arrays.iter().map(|(name, own)| Item {
        name: name.to_owned(),
        // Every array's file was added to `files`, so no array is skipped.
        files: own.iter().filter_map(find).collect(),
    });
    items.collect()
}
