//! Lists of arrays: the names of variables, with the files that contain their arrays.

use std::collections::HashMap;

use super::Model;
use crate::layout::{self, Role};
use crate::text::{FileRef, Line, parse_lines};
use crate::zip::EntryIndex;
use crate::{Array, Error, ErrorKind, Result};

/// A handle to the file of an array, for [`Arrays::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArrayFile(pub(super) EntryIndex);

impl ArrayFile {
    pub(crate) fn index(self) -> EntryIndex {
        self.0
    }
}

/// The content of `params.txt` or `updater.txt`: names of variables with their array files, in the
/// order of the lines.
#[derive(Clone, Debug)]
pub struct Arrays<'m> {
    model: &'m Model,
    entry: String,
    items: Vec<(String, Vec<ArrayFile>)>,
    by_name: HashMap<String, usize>,
}

impl<'m> Arrays<'m> {
    pub(super) fn read(
        model: &'m Model,
        tag: usize,
        role: Role,
        index: Option<EntryIndex>,
    ) -> Result<Arrays<'m>> {
        let entry = format!("{}/{}", model.tags[tag].name, role.list());
        let read = || {
            let lines = match index {
                Some(index) => {
                    let bytes = model
                        .archive
                        .read(index, model.limits.get_max_text_size())?;
                    parse_lines(role, &bytes, &model.limits)?
                }
                None => Vec::new(),
            };
            let mut items = Vec::with_capacity(lines.len());
            // Blank lines are an error, so line numbers are consecutive.
            for (Line { name, refs }, number) in lines.into_iter().zip(1..) {
                let files = refs.iter().map(|file| resolve(model, tag, role, file));
                let files = files.collect::<Result<_>>();
                items.push((name, files.map_err(|error| error.on_line(number))?));
            }
            Ok(items)
        };
        let items = read().map_err(|error: Error| model.named(error.in_entry(&entry)))?;
        let names = items.iter().map(|(name, _)| name.clone());
        let by_name = names.zip(0..).collect();
        Ok(Arrays {
            model,
            entry,
            items,
            by_name,
        })
    }

    /// Returns the number of names in the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns true if the list has no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the names of variables, each with its array files. In `params.txt`, a name has one
    /// file. In `updater.txt`, a name has one file for each of the updater's states.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &[ArrayFile])> {
        self.items.iter().map(|(name, files)| (&**name, &**files))
    }

    /// Returns the files listed for a name; `None` if the name isn't in the list.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[ArrayFile]> {
        let index = *self.by_name.get(name)?;
        Some(&self.items[index].1)
    }

    /// Opens an array. Usually reads only the beginning of the array's file, without the elements.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArray`] or [`ErrorKind::UnsupportedArray`] if the file doesn't contain a
    /// readable array; any error in the archive.
    pub fn open(&self, file: &ArrayFile) -> Result<Array> {
        self.model.open_file(*file)
    }

    /// Returns the name of the archive entry for an array's file.
    #[must_use]
    pub fn entry_name(&self, file: &ArrayFile) -> &'m str {
        &self.model.archive.record(file.0).name
    }

    /// Returns the size that a file takes up in the archive, in bytes.
    #[must_use]
    pub fn stored_len(&self, file: &ArrayFile) -> u64 {
        self.model.archive.record(file.0).stored_len
    }

    /// Returns the name of the archive entry that contains this list.
    pub(crate) fn list_name(&self) -> &str {
        &self.entry
    }

    /// Returns the number of the line that has this name.
    pub(crate) fn line(&self, name: &str) -> Option<u64> {
        self.by_name.get(name).map(|&index| index as u64 + 1)
    }
}

impl Model {
    /// Opens the array in a file, as [`Arrays::open`] does.
    pub(crate) fn open_file(&self, file: ArrayFile) -> Result<Array> {
        Array::open(&self.archive, file.0).map_err(|error| self.named(error))
    }
}

/// Finds the array file to which a reference points. `own` is the index of the tag whose list
/// contains the reference.
fn resolve(model: &Model, own: usize, role: Role, file: &FileRef) -> Result<ArrayFile> {
    let tag = match file.tag() {
        None => own,
        Some(name) => model.tag_index(name).ok_or_else(|| {
            let message = format!(
                "reference {:?} is to a tag that is not in tags.txt",
                file.to_string()
            );
            Error::new(ErrorKind::UnknownTag, message)
        })?,
    };
    let entry = format!(
        "{}/{}",
        model.tags[tag].name,
        layout::array_path(role, file.id())
    );
    match model.archive.directory().find(&entry) {
        Some(index) => Ok(ArrayFile(index)),
        None => {
            let message = format!(
                "reference {:?} is to {entry}, which doesn't exist",
                file.to_string()
            );
            Err(Error::new(ErrorKind::DanglingReference, message))
        }
    }
}
