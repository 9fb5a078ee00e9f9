//! The arrays of a model, as an archive of named tensors.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use proto_splitter_core::formats::{Archive, Checks, Entry, Verified};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::tensor::{Location, NameBudget, TensorInfo, TensorReader};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use super::properties::properties;
use crate::{Array, ArrayFile, ArrayInfo, CheckOptions, Model, Role, TagContent, TagView, layout};

/// Maximum size of the parts of a tensor's name other than the tag and the variable's name, in
/// bytes: `/updater/`, `#` and an index.
const NAME_PARTS: u64 = 30;

/// The arrays of a model or of imported content, by tensor name. An array of a model is opened on
/// demand.
#[derive(Debug)]
pub(super) struct Tensors {
    /// The model; `None` for imported content.
    model: Option<Model>,
    /// Names and values of the graph's properties, for content imported from another format; empty
    /// for a model.
    graph: Vec<(String, String)>,
    /// Tag to use for a tensor name that doesn't specify a tag; `None` if tensor names have no
    /// tags.
    default: Option<String>,
    arrays: Vec<(String, Held)>,
    /// Number of arrays in each tag of a model; empty for imported content.
    counts: Vec<usize>,
    /// Map from a tensor's name to the index of its array in `arrays`.
    by_name: HashMap<String, usize>,
    /// The open file that contains the arrays.
    file: Option<Arc<dyn ReadAt>>,
}

/// The location of an array's data.
#[derive(Clone, Debug)]
enum Held {
    InModel(ArrayFile),
    Imported(Array),
}

impl Tensors {
    pub(super) fn of_model(model: Model) -> Result<Tensors> {
        let (mut arrays, mut counts) = (Vec::new(), Vec::new());
        let mut budget = NameBudget::default();
        for tag in model.tags() {
            let before = arrays.len();
            for role in Role::ALL {
                let list = match role {
                    Role::Parameter => tag.parameters()?,
                    Role::UpdaterState => tag.updater_states()?,
                };
                for (name, files) in list.iter() {
                    budget.spend(names_len(tag.name().as_str(), name, files.len()))?;
                    for (index, file) in files.iter().enumerate() {
                        let name = tensor_name(tag.name().as_str(), role, name, index);
                        arrays.push((name, Held::InModel(*file)));
                    }
                }
            }
            counts.push(arrays.len() - before);
        }
        let default = model.default_tag().name().to_string();
        Ok(Tensors {
            counts,
            ..Tensors::new(Some(model), Some(default), arrays)
        })
    }

    /// Returns the arrays of imported content. If `tag` is `None`, their tensor names have no
    /// prefix.
    pub(super) fn of_import(content: &TagContent, tag: Option<&str>) -> Result<Tensors> {
        let (mut arrays, mut budget) = (Vec::new(), NameBudget::default());
        for (name, array) in content.parameters() {
            budget.spend(names_len(tag.unwrap_or_default(), name, 1))?;
            let name = match tag {
                Some(tag) => tensor_name(tag, Role::Parameter, name, 0),
                None => name.to_owned(),
            };
            arrays.push((name, Held::Imported(array.clone())));
        }
        // Content without a tag was read from a safetensors file, which has no states.
        for (name, states) in content.states() {
            let tag = tag.unwrap_or_default();
            budget.spend(names_len(tag, name, states.len()))?;
            for (index, array) in states.iter().enumerate() {
                let name = tensor_name(tag, Role::UpdaterState, name, index);
                arrays.push((name, Held::Imported(array.clone())));
            }
        }
        // Content without a tag was read from a safetensors file, which has no graph.
        let graph = tag.map(|_| properties(content.graph(), content.config()));
        Ok(Tensors {
            graph: graph.unwrap_or_default(),
            ..Tensors::new(None, tag.map(str::to_owned), arrays)
        })
    }

    fn new(model: Option<Model>, default: Option<String>, arrays: Vec<(String, Held)>) -> Tensors {
        let names = arrays.iter().map(|(name, _)| name.clone());
        Tensors {
            by_name: names.zip(0..).collect(),
            model,
            graph: Vec::new(),
            default,
            arrays,
            counts: Vec::new(),
            file: None,
        }
    }

    /// Sets the open file that contains the arrays.
    pub(super) fn of_file(mut self, file: Arc<dyn ReadAt>) -> Tensors {
        self.file = Some(file);
        self
    }

    /// Returns the open file that contains the arrays of an archive; `None` if the archive isn't a
    /// [`Tensors`], or its file isn't set.
    pub(super) fn file_of(archive: &dyn Archive) -> Option<Arc<dyn ReadAt>> {
        let archive: &dyn Any = archive;
        let tensors = archive.downcast_ref::<Tensors>()?;
        tensors.file.clone()
    }

    fn array(&self, held: &Held) -> Result<Array> {
        match (held, &self.model) {
            (Held::InModel(file), Some(model)) => Ok(model.open_file(*file)?),
            (Held::Imported(array), _) => Ok(array.clone()),
            (Held::InModel(_), None) => {
                let message = "the array's model isn't open";
                Err(Error::new(ErrorKind::InvalidConfig, message))
            }
        }
    }

    /// Returns the description of an array, under the given tensor name.
    fn info(&self, name: &str, held: &Held, array: &Array) -> TensorInfo {
        let info = tensor_info(name.to_owned(), array);
        match (held, &self.model) {
            (Held::InModel(file), Some(model)) => info.located(Location::entry(
                &*model.archive().record(file.index()).name,
                array.offset_in_entry(),
            )),
            _ => info,
        }
    }

    /// Returns the index of the array that `info` describes.
    fn described(&self, info: &TensorInfo) -> Result<Option<usize>> {
        // The name of a parameter may be that of a state.
        if self.by_name.len() < self.arrays.len() {
            for (at, (name, held)) in self.arrays.iter().enumerate() {
                if *name == info.name && self.info(name, held, &self.array(held)?) == *info {
                    return Ok(Some(at));
                }
            }
        }
        Ok(self.place(&info.name))
    }

    fn place(&self, name: &str) -> Option<usize> {
        let known = self.by_name.get(name).copied();
        known.or_else(|| {
            let folded = self.model.as_ref().and_then(|model| {
                // The tag in the name may differ from the model's in its case.
                let (tag, rest) = name.split_once('/')?;
                let tag = model.tag(tag).ok()?;
                self.by_name.get(&format!("{}/{rest}", tag.name()))
            });
            let of_default = || {
                self.by_name
                    .get(&format!("{}/{name}", self.default.as_ref()?))
            };
            folded.or_else(of_default).copied()
        })
    }
}

impl Archive for Tensors {
    fn tensors(&self) -> Result<Vec<TensorInfo>> {
        // For each file, the index in `all` of the first array in it.
        let mut known: HashMap<ArrayFile, usize> = HashMap::new();
        let mut all: Vec<TensorInfo> = Vec::with_capacity(self.arrays.len());
        for (name, held) in &self.arrays {
            let shared = match held {
                Held::InModel(file) => Some(*known.entry(*file).or_insert(all.len())),
                Held::Imported(_) => None,
            };
            let info = match shared.and_then(|first| all.get(first)) {
                Some(first) => {
                    let mut info = first.clone();
                    info.name.clone_from(name);
                    info
                }
                None => self.info(name, held, &self.array(held)?),
            };
            all.push(info);
        }
        Ok(all)
    }

    fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        let Some(place) = self.described(info)? else {
            let message = format!("there is no tensor {:?}", info.name);
            return Err(Error::new(ErrorKind::InvalidPath, message));
        };
        let (name, held) = &self.arrays[place];
        let array = self.array(held)?;
        let info = self.info(name, held, &array);
        Ok(TensorReader::new(info, move |sink| {
            let mut values = array.values()?;
            std::io::copy(&mut values, sink).map_err(crate::Error::from)?;
            Ok(())
        }))
    }

    fn find(&self, name: &str) -> Result<Option<TensorInfo>> {
        let Some(place) = self.place(name) else {
            return Ok(None);
        };
        let (name, held) = &self.arrays[place];
        let array = self.array(held)?;
        Ok(Some(self.info(name, held, &array)))
    }

    fn entries(&self) -> Result<Vec<Entry>> {
        let Some(model) = &self.model else {
            return Ok(self.tensors()?.iter().map(Entry::of_tensor).collect());
        };
        let mut owners = Owners::default();
        let mut arrays = self.arrays.iter();
        for (tag, &count) in model.tags().zip(&self.counts) {
            owners.add_others(model, tag);
            for (name, held) in arrays.by_ref().take(count) {
                if let Held::InModel(file) = held {
                    owners.add(model, *file, name, || self.array(held));
                }
            }
        }
        Ok(owners.entries())
    }

    fn properties(&self) -> Result<Vec<(String, String)>> {
        let Some(model) = &self.model else {
            return Ok(self.graph.clone());
        };
        let tags: Vec<&str> = model.tags().map(|tag| tag.name().as_str()).collect();
        let default = model.default_tag();
        let mut all = vec![
            ("tags".to_owned(), tags.join(", ")),
            ("default tag".to_owned(), default.name().to_string()),
        ];
        let config = default.training_config()?;
        all.extend(properties(&default.graph()?, config.as_deref()));
        Ok(all)
    }

    fn verify(&self, progress: &Progress) -> Result<Verified> {
        let tensors = self.arrays.len() as u64;
        let Some(model) = &self.model else {
            let mut bytes = 0;
            for (_, held) in &self.arrays {
                progress.check()?;
                let mut values = self.array(held)?.bytes()?;
                let read = std::io::copy(&mut values, &mut std::io::sink());
                bytes += read.map_err(crate::Error::from)?;
            }
            return Ok(Verified::new(tensors, bytes, Checks::Structure));
        };
        let options = CheckOptions::new().progress(progress.clone());
        let report = model.check(&options)?;
        let mut errors = report.errors.into_iter();
        let Some(first) = errors.next() else {
            let verified = Verified::new(tensors, report.bytes, Checks::Checksums);
            return Ok(verified.warnings(report.warnings));
        };
        let first = Error::from(first);
        if errors.len() == 0 {
            return Err(first);
        }
        let all = errors.fold(first.to_string(), |all, error| format!("{all}; {error}"));
        Err(Error::new(first.kind(), all))
    }
}

/// Returns the total size of the names of a variable's arrays in a tag, in bytes, each with the
/// largest size that it may have. The name of a variable is in the names of all its states, and an
/// array may be listed any number of times.
fn names_len(tag: &str, name: &str, arrays: usize) -> u64 {
    let each = (tag.len() as u64 + NAME_PARTS).saturating_add(name.len() as u64);
    each.saturating_mul(arrays as u64)
}

/// Entries to list for a model, and the tensor names of each array file.
#[derive(Default)]
struct Owners {
    entries: Vec<Entry>,
    /// For each file, the index of its entry in `entries`, and all of its tensor names except the
    /// first.
    known: HashMap<ArrayFile, (usize, Vec<String>)>,
}

impl Owners {
    /// Adds an array under a tensor name. An array that can't be opened is listed with the error,
    /// since such an array takes up space, too.
    fn add(
        &mut self,
        model: &Model,
        file: ArrayFile,
        name: &str,
        open: impl FnOnce() -> Result<Array>,
    ) {
        if let Some((_, others)) = self.known.get_mut(&file) {
            others.push(name.to_owned());
            return;
        }
        self.known.insert(file, (self.entries.len(), Vec::new()));
        let record = model.archive().record(file.index());
        self.entries.push(match open() {
            Ok(array) => {
                let location = Location::entry(&*record.name, array.offset_in_entry());
                Entry::of_tensor(&tensor_info(name.to_owned(), &array).located(location))
            }
            Err(error) => {
                let location = Location::entry(&*record.name, 0);
                Entry::new(name, record.len, location).detail(format!("damaged: {error}"))
            }
        });
    }

    /// Adds the entries of a tag that aren't arrays.
    fn add_others(&mut self, model: &Model, tag: TagView<'_>) {
        for path in layout::LISTS {
            if let Some(index) = tag.find(path) {
                let record = model.archive().record(index);
                let name = format!("{}/{path}", tag.name());
                let location = Location::entry(&*record.name, 0);
                self.entries.push(Entry::new(name, record.len, location));
            }
        }
    }

    /// Returns all entries. If several tensor names share an entry, the entry's detail lists all of
    /// these names except the first.
    fn entries(mut self) -> Vec<Entry> {
        for (place, others) in self.known.into_values() {
            let entry = &mut self.entries[place];
            if !others.is_empty() {
                let own = entry.detail.take().unwrap_or_default();
                entry.detail = Some(format!("{own}, shared by {}", others.join(", ")));
            }
        }
        self.entries
    }
}

fn tensor_name(tag: &str, role: Role, name: &str, index: usize) -> String {
    match role {
        Role::Parameter => format!("{tag}/{name}"),
        Role::UpdaterState => format!("{tag}/updater/{name}#{index}"),
    }
}

/// Returns the description of an array as a tensor. The tensor's elements are read in C order, as
/// little-endian values.
fn tensor_info(name: String, array: &Array) -> TensorInfo {
    let info: &ArrayInfo = array.info();
    let shape = if info.is_empty_scalar() {
        vec![0]
    } else {
        info.shape().to_vec()
    };
    TensorInfo::new(name, info.dtype().tensor_type(), shape).sized(array.data_len())
}
