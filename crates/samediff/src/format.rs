//! The format in the room that all formats share.

use std::collections::HashMap;
use std::path::Path;

use proto_splitter_core::formats::{
    Archive, Candidate, CandidateKind, Checks, Confidence, ConvertOptions, Converted, Entry,
    Format, OpenOptions, Opened, Target, Verified,
};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::tensor::{self, Location, TensorInfo, TensorReader};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::{
    Array, ArrayFile, ArrayInfo, CheckOptions, DType, Draft, Model, Role, TagContent, TagView,
    WriteOptions, import, layout, write_classic, write_safetensors,
};

/// What the tag of an import is called if nothing else is said.
pub const IMPORTED_TAG: &str = "model";

/// The setting of a conversion that names a tag.
const TAG: &str = "tag";

const SAMEDIFF: Target = Target {
    name: "samediff",
    title: "SameDiff zip model",
};
const CLASSIC: Target = Target {
    name: "fb",
    title: "classic SameDiff file",
};
const SAFETENSORS: Target = Target {
    name: "safetensors",
    title: "safetensors file of a tag's parameters",
};

/// SameDiff models: the zip format, and the classic, SDNB and SDZ files that exist today.
///
/// Tensors are called `TAG/NAME`, and the states of updaters `TAG/updater/NAME#0`, `#1` and so on; a
/// name without a tag is of the newest. An input of another form than the zip format has one tag,
/// [`IMPORTED_TAG`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SameDiffFormat;

impl Format for SameDiffFormat {
    fn name(&self) -> &'static str {
        "samediff"
    }

    fn title(&self) -> &'static str {
        "SameDiff model"
    }

    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
        if candidate.kind() != CandidateKind::File {
            return None;
        }
        let head = candidate.head();
        let is_zip = head.starts_with(b"PK\x03\x04");
        // The name of an archive's first entry stands behind 30 bytes.
        let first = head.get(30..).unwrap_or_default();
        let extension = candidate.extension();
        match extension.as_deref() {
            _ if is_zip && first.starts_with(layout::TAGS.as_bytes()) => Some(Confidence::Certain),
            _ if head.starts_with(b"SDNB") => Some(Confidence::Certain),
            Some("sdz") if is_zip => Some(Confidence::Likely),
            // Nothing tells a FlatBuffer from anything else, and others have this name, too.
            Some("fb" | "sd") if !is_zip => Some(Confidence::Possible),
            _ => None,
        }
    }

    fn open(&self, path: &Path, _options: &OpenOptions) -> Result<Opened> {
        let archive = match Any::open(path)? {
            Any::Model(model) => Opened::of_archive(Tensors::of_model(model)?),
            Any::Imported(content) => Opened::of_archive(Tensors::of_import(&content)),
        };
        Ok(archive.reading([path]))
    }

    fn targets(&self) -> &'static [Target] {
        &[SAMEDIFF, CLASSIC, SAFETENSORS]
    }

    fn convert(
        &self,
        opened: &Opened,
        target: &Target,
        output: &Path,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        let [path, ..] = opened.files() else {
            let message = "the model is in no file";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        };
        if let Some(setting) = options.settings.keys().find(|name| *name != TAG) {
            let message = format!("a conversion of a SameDiff model has no setting {setting:?}");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let tag = options.settings.get(TAG).map(String::as_str);
        let writing = WriteOptions::new()
            .force(options.force)
            .progress(options.progress.clone());
        let bytes = convert(path, target, tag, output, &writing)?;
        Ok(Converted::new(vec![output.to_owned()], bytes))
    }
}

/// Converts a file, and says how many bytes were written.
fn convert(
    path: &Path,
    target: &Target,
    tag: Option<&str>,
    output: &Path,
    options: &WriteOptions,
) -> Result<u64> {
    let any = Any::open(path)?;
    if *target == SAMEDIFF {
        let draft = match (any, tag) {
            (Any::Model(model), None) => Draft::open(&model)?,
            (Any::Model(model), Some(tag)) => {
                let mut draft = Draft::open(&model)?;
                draft.extract_tag(tag)?;
                draft
            }
            (Any::Imported(content), tag) => imported(*content, tag)?,
        };
        return Ok(draft.write(output, options)?.size);
    }
    // The others are written from a model, and so an import becomes one first.
    let folder = tempfile::tempdir()?;
    let model = match any {
        Any::Model(model) => model,
        Any::Imported(content) => {
            let between = folder.path().join("model.zip");
            imported(*content, tag)?.write(&between, &WriteOptions::new())?;
            Model::open(&between)?
        }
    };
    let tag: TagView<'_> = match tag {
        Some(tag) => model.tag(tag)?,
        None => model.default_tag(),
    };
    Ok(match target.name {
        "fb" => write_classic(&tag, output, options)?,
        "safetensors" => write_safetensors(&tag, output, options)?,
        other => {
            let message = format!("there is no form {other:?} for a SameDiff model");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
    })
}

fn imported(content: TagContent, tag: Option<&str>) -> Result<Draft> {
    let mut draft = Draft::new();
    draft.add_tag(tag.unwrap_or(IMPORTED_TAG).parse()?, content)?;
    Ok(draft)
}

/// A model, or one of another format.
enum Any {
    Model(Model),
    Imported(Box<TagContent>),
}

impl Any {
    fn open(path: &Path) -> Result<Any> {
        let content = match import(path) {
            Ok(content) => content,
            // It has tags already.
            Err(error) if error.kind() == crate::ErrorKind::NotConvertible => {
                return Ok(Any::Model(Model::open(path)?));
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Any::Imported(Box::new(content)))
    }
}

/// The arrays of a model by name.
#[derive(Debug)]
struct Tensors {
    /// Nothing of an import.
    model: Option<Model>,
    arrays: Vec<(TensorInfo, Array)>,
    /// Places in `arrays`.
    by_name: HashMap<String, usize>,
    entries: Vec<Entry>,
}

impl Tensors {
    fn of_model(model: Model) -> Result<Tensors> {
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
        Ok(Tensors::new(Some(model), arrays, owners.entries()))
    }

    fn of_import(content: &TagContent) -> Tensors {
        let named = content.parameters();
        let arrays = named.map(|(name, array)| {
            let name = tensor_name(IMPORTED_TAG, Role::Parameter, name, 0);
            (tensor_info(name, array), array.clone())
        });
        let arrays: Vec<_> = arrays.collect();
        let entries = arrays
            .iter()
            .map(|(info, _)| Entry::of_tensor(info))
            .collect();
        Tensors::new(None, arrays, entries)
    }

    fn new(model: Option<Model>, arrays: Vec<(TensorInfo, Array)>, entries: Vec<Entry>) -> Tensors {
        let names = arrays.iter().map(|(info, _)| info.name.clone());
        Tensors {
            by_name: names.zip(0..).collect(),
            model,
            arrays,
            entries,
        }
    }

    fn place(&self, name: &str) -> Option<usize> {
        let default = match &self.model {
            Some(model) => model.default_tag().name().as_str(),
            None => IMPORTED_TAG,
        };
        let known = self.by_name.get(name).copied();
        known.or_else(|| {
            let folded = self.model.as_ref().and_then(|model| {
                // A tag may be spelled in any case.
                let (tag, rest) = name.split_once('/')?;
                let tag = model.tag(tag).ok()?;
                self.by_name.get(&format!("{}/{rest}", tag.name()))
            });
            let folded = folded.or_else(|| self.by_name.get(&format!("{default}/{name}")));
            folded.copied()
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
