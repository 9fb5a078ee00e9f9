//! The arrays of a model as tensors with names.

use std::collections::HashMap;

use proto_splitter_core::formats::{Archive, Checks, Entry, Verified};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::tensor::{self, Location, TensorInfo, TensorReader};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::{
    Array, ArrayFile, ArrayInfo, CheckOptions, DType, Model, Role, TagContent, TagView, layout,
};

/// The arrays of a model by name.
#[derive(Debug)]
pub(super) struct Tensors {
    /// Nothing of an import.
    model: Option<Model>,
    /// The tag that a name without one is of.
    default: Option<String>,
    arrays: Vec<(TensorInfo, Array)>,
    /// Places in `arrays`.
    by_name: HashMap<String, usize>,
    entries: Vec<Entry>,
}

impl Tensors {
    pub(super) fn of_model(model: Model) -> Result<Tensors> {
        let mut arrays = Vec::new();
        let mut known: HashMap<ArrayFile, Array> = HashMap::new();
        let mut owners = Owners::default();
        for tag in model.tags() {
            owners.add_others(&model, tag);
            for role in [Role::Parameter, Role::UpdaterState] {
                let list = match role {
                    Role::Parameter => tag.parameters()?,
                    Role::UpdaterState => tag.updater_states()?,
                };
                for (name, files) in list.iter() {
                    for (index, file) in files.iter().enumerate() {
                        let array = match known.get(file) {
                            Some(array) => array.clone(),
                            None => list.open(file)?,
                        };
                        known.insert(*file, array.clone());
                        let name = tensor_name(tag.name().as_str(), role, name, index);
                        let entry = list.entry_name(file);
                        owners.add(*file, &name, entry, &array);
                        let location = Location::entry(entry, array.offset_in_entry());
                        let info = tensor_info(name, &array).located(location);
                        arrays.push((info, array));
                    }
                }
            }
        }
        let default = model.default_tag().name().to_string();
        let entries = owners.entries();
        Ok(Tensors::new(Some(model), Some(default), arrays, entries))
    }

    /// The arrays of an import; without a tag, they are called by their names alone.
    pub(super) fn of_import(content: &TagContent, tag: Option<&str>) -> Tensors {
        let named = content.parameters();
        let arrays = named.map(|(name, array)| {
            let name = match tag {
                Some(tag) => tensor_name(tag, Role::Parameter, name, 0),
                None => name.to_owned(),
            };
            (tensor_info(name, array), array.clone())
        });
        let arrays: Vec<_> = arrays.collect();
        let entries = arrays
            .iter()
            .map(|(info, _)| Entry::of_tensor(info))
            .collect();
        Tensors::new(None, tag.map(str::to_owned), arrays, entries)
    }

    fn new(
        model: Option<Model>,
        default: Option<String>,
        arrays: Vec<(TensorInfo, Array)>,
        entries: Vec<Entry>,
    ) -> Tensors {
        let names = arrays.iter().map(|(info, _)| info.name.clone());
        Tensors {
            by_name: names.zip(0..).collect(),
            model,
            default,
            arrays,
            entries,
        }
    }

    fn place(&self, name: &str) -> Option<usize> {
        let known = self.by_name.get(name).copied();
        known.or_else(|| {
            let folded = self.model.as_ref().and_then(|model| {
                // A tag may be spelled in any case.
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
        Ok(self.arrays.iter().map(|(info, _)| info.clone()).collect())
    }

    fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        let Some(place) = self.place(&info.name) else {
            let message = format!("there is no tensor {:?}", info.name);
            return Err(Error::new(ErrorKind::InvalidPath, message));
        };
        let (info, array) = &self.arrays[place];
        Ok(TensorReader::new(info.clone(), move |sink| {
            let mut values = array.values()?;
            std::io::copy(&mut values, sink).map_err(crate::Error::from)?;
            Ok(())
        }))
    }

    fn find(&self, name: &str) -> Result<Option<TensorInfo>> {
        let place = self.place(name);
        Ok(place.map(|place| self.arrays[place].0.clone()))
    }

    fn entries(&self) -> Result<Vec<Entry>> {
        Ok(self.entries.clone())
    }

    fn properties(&self) -> Result<Vec<(String, String)>> {
        let Some(model) = &self.model else {
            return Ok(Vec::new());
        };
        let tags: Vec<&str> = model.tags().map(|tag| tag.name().as_str()).collect();
        let default = model.default_tag().name().to_string();
        Ok(vec![
            ("tags".to_owned(), tags.join(", ")),
            ("default tag".to_owned(), default),
        ])
    }

    fn verify(&self, progress: &Progress) -> Result<Verified> {
        let tensors = self.arrays.len() as u64;
        let Some(model) = &self.model else {
            let mut bytes = 0;
            for (_, array) in &self.arrays {
                progress.check()?;
                let mut values = array.bytes()?;
                let read = std::io::copy(&mut values, &mut std::io::sink());
                bytes += read.map_err(crate::Error::from)?;
            }
            return Ok(Verified::new(tensors, bytes, Checks::Structure));
        };
        let options = CheckOptions::new().progress(progress.clone());
        let report = model.check(&options)?.into_result()?;
        Ok(Verified::new(tensors, report.bytes, Checks::Checksums))
    }
}

/// The files of a model, and who uses them.
#[derive(Default)]
struct Owners {
    entries: Vec<Entry>,
    /// Places in `entries`, and by what other names each file is known.
    known: HashMap<ArrayFile, (usize, Vec<String>)>,
}

impl Owners {
    fn add(&mut self, file: ArrayFile, name: &str, entry: &str, array: &Array) {
        if let Some((_, others)) = self.known.get_mut(&file) {
            others.push(name.to_owned());
            return;
        }
        self.known.insert(file, (self.entries.len(), Vec::new()));
        let location = Location::entry(entry, array.offset_in_entry());
        let info = tensor_info(name.to_owned(), array).located(location);
        self.entries.push(Entry::of_tensor(&info));
    }

    /// Adds what a tag has besides arrays.
    fn add_others(&mut self, model: &Model, tag: TagView<'_>) {
        for path in [
            layout::GRAPH,
            layout::PARAMS,
            layout::UPDATER,
            layout::TRAINING_CONFIG,
        ] {
            if let Some(index) = tag.find(path) {
                let record = model.archive().record(index);
                let name = format!("{}/{path}", tag.name());
                let location = Location::entry(&*record.name, 0);
                self.entries.push(Entry::new(name, record.len, location));
            }
        }
    }

    /// All of them; those that are shared say with whom.
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

/// What is said of an array, whose values are read in C's order with the lowest bytes first.
fn tensor_info(name: String, array: &Array) -> TensorInfo {
    let info: &ArrayInfo = array.info();
    let shape = match info.is_empty_scalar() {
        true => vec![0],
        false => info.shape().to_vec(),
    };
    TensorInfo::new(name, dtype(info.dtype()), shape).sized(array.data_len())
}

fn dtype(dtype: DType) -> tensor::DType {
    match dtype {
        DType::Bool => tensor::DType::Bool,
        DType::Half => tensor::DType::F16,
        DType::BFloat16 => tensor::DType::BF16,
        DType::Float => tensor::DType::F32,
        DType::Double => tensor::DType::F64,
        DType::Int8 => tensor::DType::I8,
        DType::Int16 => tensor::DType::I16,
        DType::Int32 => tensor::DType::I32,
        DType::Int64 => tensor::DType::I64,
        DType::UInt8 => tensor::DType::U8,
        DType::UInt16 => tensor::DType::U16,
        DType::UInt32 => tensor::DType::U32,
        DType::UInt64 => tensor::DType::U64,
        DType::Utf8 => tensor::DType::String,
    }
}
