//! A reference model in memory, which predicts the effects of edits on a draft.

use std::collections::{BTreeMap, HashMap, HashSet};

use proto_splitter_samediff::{
    Array, ArrayFile, ArrayInfo, Graph, Model, Nd4jType, Operation, Role, SameDiffVariable,
    TagContent, VarType,
};

use crate::support::values;

/// The type and data of a vector.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) dtype: Nd4jType,
    pub(crate) bytes: Vec<u8>,
}

impl Value {
    pub(crate) fn array(&self) -> Array {
        let info = ArrayInfo::new(self.dtype, [self.bytes.len() as u64]).unwrap();
        Array::from_bytes(info, self.bytes.clone()).unwrap()
    }

    fn of(array: &Array) -> Value {
        Value {
            dtype: array.info().dtype(),
            bytes: values(array),
        }
    }
}

/// The content of a tag. Arguments of its only operation are named by their indices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub(crate) parameters: BTreeMap<String, (Value, bool)>,
    pub(crate) states: BTreeMap<String, Vec<Value>>,
    pub(crate) config: Option<Vec<u8>>,
    pub(crate) i_args: Vec<i64>,
    pub(crate) t_args: Vec<f64>,
    pub(crate) b_args: Vec<bool>,
    pub(crate) d_args: Vec<Nd4jType>,
}

fn named<T: Copy>(values: &[T]) -> Vec<(String, T)> {
    let values = values.iter().enumerate();
    values
        .map(|(at, value)| (format!("argument {at}"), *value))
        .collect()
}

impl Given {
    /// Returns a graph with one operation whose inputs are all parameters.
    fn graph(&self) -> Graph {
        let mut graph = Graph::default();
        let new = |name: &str, kind, dtype| SameDiffVariable::new(name, kind, dtype, [-1]);
        let mut op = Operation::new("op", "concat");
        op.inputs.push("in".to_owned());
        graph
            .variables
            .push(new("in", VarType::Placeholder, Nd4jType::Half));
        for (name, (value, constant)) in &self.parameters {
            // A variable with states is trained.
            let kind = if *constant && !self.states.contains_key(name) {
                VarType::Constant
            } else {
                VarType::Variable
            };
            graph.variables.push(new(name, kind, value.dtype));
            op.inputs.push(name.clone());
        }
        graph
            .variables
            .push(new("out", VarType::Array, Nd4jType::UInt8));
        op.outputs.push("out".to_owned());
        op.op_num = i64::MIN + self.i_args.len() as i64;
        op.i_args = named(&self.i_args);
        op.t_args = named(&self.t_args);
        op.b_args = named(&self.b_args);
        op.d_args = named(&self.d_args);
        graph.operations.push(op);
        graph.loss_variables.push("out".to_owned());
        graph
    }

    pub(crate) fn content(&self) -> TagContent {
        let mut content = TagContent::new(self.graph());
        for (name, (value, _)) in &self.parameters {
            content = content.parameter(name, value.array());
        }
        for (name, states) in &self.states {
            let states: Vec<Array> = states.iter().map(Value::array).collect();
            content = content.updater_states(name, states);
        }
        match &self.config {
            Some(config) => content.training_config(config.clone()),
            None => content,
        }
    }
}

#[derive(Clone, Debug)]
struct File {
    role: Role,
    value: Value,
    /// Indices of older files. When this file is written, an equal one of them replaces it.
    older: Vec<usize>,
}

/// A tag. Its files are given as indices in [`Memory::files`].
#[derive(Clone, Debug)]
pub(crate) struct MemoryTag {
    pub(crate) name: String,
    pub(crate) graph: Graph,
    config: Option<Vec<u8>>,
    parameters: Vec<(String, Vec<usize>)>,
    states: Vec<(String, Vec<usize>)>,
    stray: Vec<usize>,
}

impl MemoryTag {
    fn list(&self, role: Role) -> &[(String, Vec<usize>)] {
        match role {
            Role::Parameter => &self.parameters,
            Role::UpdaterState => &self.states,
        }
    }

    fn files_mut(&mut self) -> impl Iterator<Item = &mut usize> {
        let lists = self.parameters.iter_mut().chain(&mut self.states);
        lists.flat_map(|(_, files)| files)
    }
}

const ROLES: [Role; 2] = [Role::Parameter, Role::UpdaterState];

#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) tags: Vec<MemoryTag>,
    files: Vec<File>,
}

/// Everything in a model that is visible to a reader.
#[derive(Debug, PartialEq)]
pub(crate) struct Snapshot {
    tags: Vec<TagSnapshot>,
    /// For each reference to a file, in order, the number of the file. Files are numbered by their
    /// first reference, so equal numbers mean that the same file is shared.
    sharing: Vec<usize>,
    /// Number of array files, including unreferenced ones.
    arrays: usize,
}

#[derive(Debug, PartialEq)]
struct TagSnapshot {
    name: String,
    graph: Graph,
    config: Option<Vec<u8>>,
    parameters: Vec<(String, Vec<Value>)>,
    states: Vec<(String, Vec<Value>)>,
}

/// Replaces each item with a number. Items are numbered by their first occurrence.
fn numbered<T: Eq + std::hash::Hash>(all: impl IntoIterator<Item = T>) -> Vec<usize> {
    let mut known = HashMap::new();
    let numbers = all.into_iter().map(|one| {
        let next = known.len();
        *known.entry(one).or_insert(next)
    });
    numbers.collect()
}

impl Snapshot {
    /// Reads all content of a model. `arrays` is the number of array files in the model's archive.
    pub(crate) fn of(model: &Model, arrays: usize) -> Snapshot {
        let mut files: Vec<ArrayFile> = Vec::new();
        let mut read = |arrays: proto_splitter_samediff::Arrays<'_>| {
            let mut list = Vec::new();
            for (name, own) in arrays.iter() {
                files.extend(own);
                let values = own
                    .iter()
                    .map(|file| Value::of(&arrays.open(file).unwrap()));
                list.push((name.to_owned(), values.collect()));
            }
            list
        };
        let tags = model.tags().map(|tag| TagSnapshot {
            name: tag.name().to_string(),
            graph: tag.graph().unwrap(),
            config: tag.training_config().unwrap(),
            parameters: read(tag.parameters().unwrap()),
            states: read(tag.updater_states().unwrap()),
        });
        Snapshot {
            tags: tags.collect(),
            sharing: numbered(files),
            arrays,
        }
    }
}

impl Memory {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let values = |list: &[(String, Vec<usize>)]| {
            let value = |&file: &usize| self.files[file].value.clone();
            let all = list
                .iter()
                .map(|(name, files)| (name.clone(), files.iter().map(value).collect()));
            all.collect()
        };
        let tags = self.tags.iter().map(|tag| TagSnapshot {
            name: tag.name.clone(),
            graph: tag.graph.clone(),
            config: tag.config.clone(),
            parameters: values(&tag.parameters),
            states: values(&tag.states),
        });
        Snapshot {
            tags: tags.collect(),
            sharing: numbered(self.referenced()),
            arrays: self.written().len(),
        }
    }

    /// Returns the files to which the names in all tags refer, with repetitions.
    fn referenced(&self) -> Vec<usize> {
        let lists = self
            .tags
            .iter()
            .flat_map(|tag| ROLES.map(|role| tag.list(role)));
        lists
            .flatten()
            .flat_map(|(_, files)| files)
            .copied()
            .collect()
    }

    /// Returns the files in the order in which a draft writes them: the files of the oldest tag
    /// come first. In each folder, unreferenced files come after the other files.
    fn written(&self) -> Vec<usize> {
        let mut all = Vec::new();
        for tag in &self.tags {
            for role in ROLES {
                let named = tag.list(role).iter().flat_map(|(_, files)| files);
                let stray = tag.stray.iter();
                all.extend(named.chain(stray.filter(|&&file| self.files[file].role == role)));
            }
        }
        let mut seen = HashSet::new();
        all.retain(|file| seen.insert(*file));
        all
    }

    fn push(&mut self, role: Role, value: Value, before: Option<usize>) -> usize {
        // Only arrays of the same type and shape are compared.
        let alike = before.filter(|&before| {
            let before = &self.files[before].value;
            before.dtype == value.dtype && before.bytes.len() == value.bytes.len()
        });
        let older = alike.map(|before| {
            let mut older = self.files[before].older.clone();
            older.push(before);
            older
        });
        self.files.push(File {
            role,
            value,
            older: older.unwrap_or_default(),
        });
        self.files.len() - 1
    }

    pub(crate) fn add(&mut self, name: &str, given: &Given) {
        let last = self.tags.last().cloned();
        let before = |role, name: &str, index: usize| {
            let list = last.as_ref()?.list(role);
            let (_, files) = list.iter().find(|(known, _)| known == name)?;
            files.get(index).copied()
        };
        let (mut parameters, mut states) = (Vec::new(), Vec::new());
        for (name, (value, _)) in &given.parameters {
            let older = before(Role::Parameter, name, 0);
            let file = self.push(Role::Parameter, value.clone(), older);
            parameters.push((name.clone(), vec![file]));
        }
        for (name, values) in &given.states {
            let mut files = Vec::new();
            for (index, value) in values.iter().enumerate() {
                let older = before(Role::UpdaterState, name, index);
                files.push(self.push(Role::UpdaterState, value.clone(), older));
            }
            states.push((name.clone(), files));
        }
        self.tags.push(MemoryTag {
            name: name.to_owned(),
            graph: given.graph(),
            config: given.config.clone(),
            parameters,
            states,
            stray: Vec::new(),
        });
    }

    /// Adds a copy of a tag in which one parameter is changed, and returns this parameter's name
    /// and value.
    pub(crate) fn add_like(
        &mut self,
        base: usize,
        name: &str,
        which: usize,
        change: u8,
    ) -> Option<(String, Value)> {
        let mut tag = self.tags[base].clone();
        tag.name = name.to_owned();
        tag.stray.clear();
        let count = tag.parameters.len();
        let changed = (count > 0).then(|| {
            let (name, files) = &mut tag.parameters[which % count];
            let mut value = self.files[files[0]].value.clone();
            value.bytes.iter_mut().for_each(|byte| *byte ^= change);
            files[0] = self.push(Role::Parameter, value.clone(), Some(files[0]));
            (name.clone(), value)
        });
        self.tags.push(tag);
        changed
    }

    pub(crate) fn extract(&mut self, tag: usize) {
        self.tags = vec![self.tags.swap_remove(tag)];
    }

    /// Renames a variable of a tag. Returns false if the tag's graph doesn't have the variable.
    pub(crate) fn rename_variable(&mut self, tag: usize, from: &str, to: &str) -> bool {
        let tag = &mut self.tags[tag];
        let known = tag.graph.variable(from).is_some();
        if known {
            let graph = &mut tag.graph;
            let variables = graph.variables.iter_mut().map(|one| &mut one.name);
            let operations = graph.operations.iter_mut();
            let used = operations.flat_map(|op| op.inputs.iter_mut().chain(&mut op.outputs));
            let lists = tag.parameters.iter_mut().chain(&mut tag.states);
            let names = variables
                .chain(used)
                .chain(&mut graph.loss_variables)
                .chain(lists.map(|(name, _)| name));
            for name in names.filter(|name| *name == from) {
                to.clone_into(name);
            }
        }
        known
    }

    /// Adds the tags of another model. Equal files aren't merged.
    pub(crate) fn merge(&mut self, mut other: Memory) {
        let count = self.files.len();
        for file in &mut other.files {
            file.older.iter_mut().for_each(|older| *older += count);
        }
        for tag in &mut other.tags {
            tag.files_mut().for_each(|file| *file += count);
            tag.stray.iter_mut().for_each(|file| *file += count);
        }
        self.files.append(&mut other.files);
        self.tags.append(&mut other.tags);
    }

    pub(crate) fn deduplicate(&mut self) {
        let mut kept: Vec<usize> = Vec::new();
        let mut instead = HashMap::new();
        for file in self.referenced() {
            let own = &self.files[file];
            let same = kept.iter().find(|&&other| {
                let other = &self.files[other];
                other.role == own.role && other.value == own.value
            });
            match same.copied() {
                Some(same) => _ = instead.insert(file, same),
                None => kept.push(file),
            }
        }
        self.replace(&instead);
    }

    fn replace(&mut self, instead: &HashMap<usize, usize>) {
        for file in self.tags.iter_mut().flat_map(MemoryTag::files_mut) {
            *file = instead.get(file).copied().unwrap_or(*file);
        }
    }

    pub(crate) fn collect_garbage(&mut self) {
        self.tags.iter_mut().for_each(|tag| tag.stray.clear());
    }

    /// Adds an unreferenced array file to a tag's folder.
    pub(crate) fn add_stray(&mut self, tag: usize, value: Value) {
        let file = self.push(Role::Parameter, value, None);
        self.tags[tag].stray.push(file);
    }

    /// Deduplicates files like writing a draft does: if a file equals an older file of the same
    /// name, the older file replaces it. Returns the number of replaced files.
    pub(crate) fn settle(&mut self) -> usize {
        let mut instead = HashMap::new();
        let mut written: Vec<usize> = Vec::new();
        for file in self.written() {
            let own = &self.files[file];
            let same = written
                .iter()
                .find(|other| own.older.contains(other) && self.files[**other].value == own.value);
            match same.copied() {
                Some(same) => _ = instead.insert(file, same),
                None => written.push(file),
            }
        }
        self.replace(&instead);
        self.files.iter_mut().for_each(|file| file.older.clear());
        instead.len()
    }
}
