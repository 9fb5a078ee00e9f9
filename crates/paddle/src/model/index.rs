//! An index of the parameters in several parameter files.

use std::collections::HashMap;

use crate::parameters::ParameterFile;

/// An index of a model's parameters, by name and by counter.
#[derive(Debug)]
pub(super) struct Index {
    /// Map from a parameter's name to the index of the file that contains the parameter, among the
    /// model's parameter files. Empty if there is a single file, since the index is always 0 then.
    by_name: HashMap<String, usize>,
    /// For each file, the number of parameters in this file and all earlier ones.
    ends: Vec<usize>,
}

impl Index {
    pub(super) fn of(files: &[ParameterFile]) -> Index {
        let mut index = Index {
            by_name: HashMap::new(),
            ends: Vec::with_capacity(files.len()),
        };
        let mut end = 0;
        for (at, file) in files.iter().enumerate() {
            end += file.parameters().len();
            index.ends.push(end);
            if files.len() == 1 {
                continue;
            }
            for name in file.parameters().iter().filter_map(|one| one.name()) {
                index.by_name.entry(name.to_owned()).or_insert(at);
            }
        }
        index
    }

    /// Returns the index of the file in which to look up the parameter with this name; `None` if no
    /// file has it.
    pub(super) fn file_of(&self, name: &str) -> Option<usize> {
        match self.ends.len() {
            1 => Some(0),
            _ => self.by_name.get(name).copied(),
        }
    }

    /// Returns the index of the file that has the parameter with this counter, and the parameter's
    /// index in that file. `None` if there are fewer parameters.
    pub(super) fn place(&self, counter: usize) -> Option<(usize, usize)> {
        let file = self.ends.partition_point(|end| *end <= counter);
        let before = file.checked_sub(1).and_then(|last| self.ends.get(last));
        let within = counter - before.copied().unwrap_or(0);
        (file < self.ends.len()).then_some((file, within))
    }
}
