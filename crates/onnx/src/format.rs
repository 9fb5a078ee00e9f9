//! ONNX as one of the formats.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use prost_reflect::DescriptorPool;
use proto_splitter_core::formats::{
    Archive, Candidate, CandidateKind, Checks, Confidence, ConvertOptions, ConvertTarget,
    Converted, Format, OpenOptions, Opened, Verified,
};
use proto_splitter_core::merge::{MergeOptions, Merger, ReadOptions};
use proto_splitter_core::path::FieldPath;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::size_tree::NameRule;
use proto_splitter_core::split::ComposableSplitter;
use proto_splitter_core::tensor::{
    DType, ElementRule, Location, ShapeRule, TensorInfo, TensorReader, TensorRule,
};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::external::{
    ExternalOptions, ExternalPlan, MAX_MODEL_SIZE, WrittenOnnx, write_one_piece,
};
use crate::proto::descriptor_pool;
use crate::proto::tensor_proto::DataType;
use crate::source::{OnnxOptions, OnnxSource};
use crate::tensors::{ModelTensor, ModelTensors};
use crate::{MODEL_PROTO, NAMES, OnnxSplitter, model_descriptor};

/// An ONNX model: an `.onnx` file, with the files of external data beside it, if there are any, or
/// the folder of one.
///
/// ```
/// use proto_splitter_core::formats::{Format, OpenOptions, Registry};
/// use proto_splitter_onnx::OnnxFormat;
///
/// static FORMATS: Registry = Registry::new(&[&OnnxFormat]);
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("model.onnx");
/// std::fs::write(&path, [0x08, 0x0e])?;
/// let opened = FORMATS.open(&path, &OpenOptions::new())?;
/// assert_eq!(opened.format().map(|format| format.title()), Some("ONNX model"));
///
/// // A folder stands for the only model in it.
/// assert_eq!(OnnxFormat.file_in(folder.path()), Some(path));
/// assert!(FORMATS.open(folder.path(), &OpenOptions::new()).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OnnxFormat;

/// The model of a folder: the only file in it that is called `.onnx`; none if there are several.
fn model_in(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut models = paths.filter(|path| is_named_as_model(path) && path.is_file());
    models.next().filter(|_| models.next().is_none())
}

fn is_named_as_model(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"))
}

/// The forms that a model can be written in.
const TARGETS: &[ConvertTarget] = &[
    ConvertTarget {
        name: "auto",
        title: "ONNX model in one file, or with its tensors beside it if it is over 2 GiB",
    },
    ConvertTarget {
        name: "onnx",
        title: "ONNX model in one file of any size",
    },
    ConvertTarget {
        name: "external",
        title: "ONNX model with its tensors beside it",
    },
];

/// The setting that says where external files are: a folder.
const EXTERNAL_FOLDER: &str = "external-folder";

/// The setting that leaves references to external files as they are: `true` or `false`.
const KEEP_EXTERNAL: &str = "keep-external";

impl Format for OnnxFormat {
    fn name(&self) -> &'static str {
        "onnx"
    }

    fn title(&self) -> &'static str {
        "ONNX model"
    }

    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
        let is_model = match candidate.kind() {
            CandidateKind::File => is_named_as_model(candidate.path()),
            CandidateKind::Folder => model_in(candidate.path()).is_some(),
            CandidateKind::Prefix => false,
        };
        is_model.then_some(Confidence::Likely)
    }

    fn file_in(&self, folder: &Path) -> Option<PathBuf> {
        model_in(folder)
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Opened> {
        let in_folder = model_in(path);
        let path = in_folder.as_deref().unwrap_or(path);
        let model = OnnxSource::open(path, &open_options(options)?)?;
        if model.external_tensors() == 0 {
            // The file is the message, byte for byte.
            let opened = Opened::of_file(path, model_descriptor(), options)?;
            return Ok(opened.with_archive(ModelArchive::new(model)));
        }
        let reader = Arc::clone(model.reader());
        let files: Vec<_> = model.files().map(Path::to_owned).collect();
        let opened = Opened::of_reader(reader, model_descriptor(), options)?;
        Ok(opened.reading(files).with_archive(ModelArchive::new(model)))
    }

    fn open_source(
        &self,
        source: Arc<dyn ReadAt>,
        called: &Path,
        options: &OpenOptions,
    ) -> Result<Option<Opened>> {
        let model = OnnxSource::of_reader(Arc::clone(&source), called, &open_options(options)?)?;
        let Some(model) = model else {
            return Ok(None);
        };
        let opened = Opened::of_reader(source, model_descriptor(), options)?;
        Ok(Some(opened.with_archive(ModelArchive::new(model))))
    }

    fn open_settings(&self) -> &'static [&'static str] {
        &[EXTERNAL_FOLDER, KEEP_EXTERNAL]
    }

    fn descriptor_pool(&self) -> Option<&'static DescriptorPool> {
        Some(descriptor_pool())
    }

    fn message_types(&self) -> &'static [&'static str] {
        &[MODEL_PROTO]
    }

    fn splitter(&self, message_type: &str) -> Option<&'static (dyn ComposableSplitter + Sync)> {
        (message_type == MODEL_PROTO).then_some(&OnnxSplitter as _)
    }

    fn member_names(&self) -> &'static [NameRule] {
        &NAMES
    }

    fn tensor_rules(&self) -> &'static [TensorRule] {
        &[TENSOR]
    }

    fn tensors_in_message(&self, message: Arc<dyn ReadAt>) -> Result<Option<Vec<TensorInfo>>> {
        let size = message.size()?;
        let all = ModelTensors::read(message, size, &OnnxOptions::new())?;
        let model = model_descriptor();
        let named = all.iter().zip(unique_names(&all));
        let tensors = named.map(|(tensor, name)| {
            let text = tensor.path();
            let path = FieldPath::parse(&text, &model)?;
            Ok(info(tensor, &name)?.located(Location::Message { path, text }))
        });
        tensors.collect::<Result<_>>().map(Some)
    }

    fn targets(&self) -> &'static [ConvertTarget] {
        TARGETS
    }

    fn convert(
        &self,
        opened: &Opened,
        target: &ConvertTarget,
        output: &Path,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        let external = external_options(options)?;
        refuse_sources(opened, output)?;
        let merged = opened.merged()?;
        let size = match (&merged, opened.plain()) {
            (Some(merged), _) => merged.total_size(),
            (None, Some((_, size))) => size,
            (None, None) => 0,
        };
        let is_pair = match target.name {
            "auto" => size > MAX_MODEL_SIZE,
            "onnx" => false,
            "external" => true,
            other => {
                let message = format!("there is no form {other:?} for an ONNX model");
                return Err(Error::new(ErrorKind::InvalidConfig, message));
            }
        };
        if !is_pair {
            let converted = one_piece(opened, size, output, options, &external)?;
            return Ok(if size > MAX_MODEL_SIZE {
                converted.note("no reader of protobuf takes a file over 2 GiB")
            } else {
                converted
            });
        }
        let plan = match (merged, opened.plain()) {
            (Some(merged), _) => ExternalPlan::of_chunks(merged, output, &external)?,
            (None, Some((reader, _))) => {
                ExternalPlan::new(Arc::clone(reader), size, output, &external)?
            }
            (None, None) => return Err(no_message()),
        };
        for file in plan.data_files() {
            refuse_sources(opened, &file)?;
        }
        Ok(converted(plan.write()?))
    }
}

/// The model in one file. One in chunks is merged, with all its checks.
fn one_piece(
    opened: &Opened,
    size: u64,
    output: &Path,
    options: &ConvertOptions,
    external: &ExternalOptions,
) -> Result<Converted> {
    if let Some((reader, _)) = opened.plain() {
        return write_one_piece(&**reader, size, output, external).map(converted);
    }
    let input = opened.files().first().ok_or_else(no_message)?;
    let reading = ReadOptions::new()
        .descriptor(opened.descriptor().cloned())
        .threads(options.threads)
        .progress(options.progress.clone());
    let options = MergeOptions::from(reading).force(options.force);
    let merged = Merger::new()
        .options(&options)
        .merge_file_to_file(input, output)?;
    Ok(Converted::new(vec![output.to_owned()], merged.size))
}

#[cold]
fn no_message() -> Error {
    Error::new(ErrorKind::InvalidConfig, "there is no model in it")
}

fn converted(written: WrittenOnnx) -> Converted {
    let bytes = written.model_size.saturating_add(written.data_size);
    let mut files = vec![written.path];
    files.extend(written.data_files);
    Converted::new(files, bytes)
}

/// Fails if a file that the model is read from would be replaced.
fn refuse_sources(opened: &Opened, output: &Path) -> Result<()> {
    let Ok(real) = std::fs::canonicalize(output) else {
        return Ok(());
    };
    let is_source =
        |file: &std::path::PathBuf| std::fs::canonicalize(file).is_ok_and(|file| file == real);
    if opened.files().iter().any(is_source) {
        let message = format!("{}: the model is read from this file", output.display());
        Err(Error::new(ErrorKind::InvalidConfig, message))
    } else {
        Ok(())
    }
}

/// How a model is opened by these settings.
fn open_options(options: &OpenOptions) -> Result<OnnxOptions> {
    let mut own = OnnxOptions::new();
    if let Some(folder) = options.settings.get(EXTERNAL_FOLDER) {
        own = own.external_folder(folder);
    }
    if let Some(keep) = options.settings.get(KEEP_EXTERNAL) {
        own = own.keep_external(is_true(KEEP_EXTERNAL, keep)?);
    }
    Ok(own)
}

fn is_true(name: &str, value: &str) -> Result<bool> {
    value.parse().map_err(|_| {
        let message = format!("{name} must be true or false, not {value:?}");
        Error::new(ErrorKind::InvalidConfig, message)
    })
}

/// The settings that writing external data knows: `alignment`, `everywhere`, `max-file-size`,
/// `min-size`.
fn external_options(options: &ConvertOptions) -> Result<ExternalOptions> {
    let mut external = ExternalOptions::new()
        .force(options.force)
        .threads(options.threads)
        .progress(options.progress.clone());
    for (name, value) in &options.settings {
        let number = || -> Result<u64> {
            value.parse().map_err(|_| {
                let message = format!("{name} must be a number of bytes, not {value:?}");
                Error::new(ErrorKind::InvalidConfig, message)
            })
        };
        external = match name.as_str() {
            "alignment" => external.alignment(number()?),
            "max-file-size" => external.max_file_size(Some(number()?)),
            "min-size" => external.min_size(number()?),
            "everywhere" => external.everywhere(is_true(name, value)?),
            other => {
                let message = format!(
                    "there is no setting {other:?} for an ONNX model; there are alignment, \
                     everywhere, max-file-size and min-size"
                );
                return Err(Error::new(ErrorKind::InvalidConfig, message));
            }
        };
    }
    Ok(external)
}

/// The tensors of a model that is open. They are looked for when they are first asked for.
#[derive(Debug)]
struct ModelArchive {
    model: OnnxSource,
    tensors: OnceLock<Tensors>,
}

#[derive(Debug)]
struct Tensors {
    all: ModelTensors,
    /// Where each stands in the list, by the name that it has as a member.
    by_name: BTreeMap<String, usize>,
    names: Vec<String>,
}

impl ModelArchive {
    fn new(model: OnnxSource) -> ModelArchive {
        ModelArchive {
            model,
            tensors: OnceLock::new(),
        }
    }

    fn get(&self) -> Result<&Tensors> {
        if let Some(tensors) = self.tensors.get() {
            return Ok(tensors);
        }
        let all = self.model.tensors()?;
        let names = unique_names(&all);
        let by_name = names.iter().cloned().zip(0..).collect();
        let tensors = Tensors {
            all,
            by_name,
            names,
        };
        Ok(self.tensors.get_or_init(|| tensors))
    }

    fn info(&self, tensor: ModelTensor<'_>, name: &str) -> Result<TensorInfo> {
        let location = match tensor.raw_data() {
            Some(range) => self.located(range.start),
            None => None,
        };
        let location = location.unwrap_or_else(|| Location::entry(tensor.path(), 0));
        Ok(info(tensor, name)?.located(location))
    }

    /// The file that a byte of the message is in.
    fn located(&self, offset: u64) -> Option<Location> {
        use proto_splitter_core::rope::RopeSpan;
        match self.model.rope().locate(offset)? {
            (RopeSpan::File(file, at), _) => Some(Location::file(self.model.rope().file(file), at)),
            _ => None,
        }
    }
}

impl Archive for ModelArchive {
    fn tensors(&self) -> Result<Vec<TensorInfo>> {
        let tensors = self.get()?;
        let named = tensors.all.iter().zip(&tensors.names);
        named
            .map(|(tensor, name)| self.info(tensor, name))
            .collect()
    }

    fn find(&self, name: &str) -> Result<Option<TensorInfo>> {
        let tensors = self.get()?;
        let by_path = || tensors.all.iter().position(|tensor| tensor.path() == name);
        let Some(at) = tensors.by_name.get(name).copied().or_else(by_path) else {
            return Ok(None);
        };
        let (tensor, name) = (tensors.all.get(at), tensors.names.get(at));
        match (tensor, name) {
            (Some(tensor), Some(name)) => self.info(tensor, name).map(Some),
            _ => Ok(None),
        }
    }

    fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        let tensors = self.get()?;
        let at = tensors.by_name.get(&info.name);
        let Some(tensor) = at.and_then(|&at| tensors.all.get(at)) else {
            let message = format!("there is no tensor {:?}", info.name);
            return Err(Error::new(ErrorKind::InvalidPath, message));
        };
        Ok(TensorReader::new(info.clone(), move |sink| {
            tensors.all.write_raw(tensor, sink).map(drop)
        }))
    }

    fn properties(&self) -> Result<Vec<(String, String)>> {
        crate::info::properties(&self.model, &self.get()?.all)
    }

    fn verify(&self, progress: &Progress) -> Result<Verified> {
        let tensors = self.get()?;
        if let Some(problem) = tensors.all.problems()?.into_iter().next() {
            return Err(Error::new(ErrorKind::InvalidMessage, problem));
        }
        let has_checksums = self.model.verify_checksums(progress)?;
        // All data is read, so that what can't be read is found.
        let total = tensors.all.iter().filter_map(|one| one.raw_len()).sum();
        let meter = progress.meter(total);
        for tensor in tensors.all.iter().filter(|one| one.raw_len().is_some()) {
            let bytes = tensors.all.write_raw(tensor, &mut std::io::sink())?;
            meter.advance(bytes)?;
        }
        let checks = if has_checksums {
            Checks::Checksums
        } else {
            Checks::Structure
        };
        Ok(Verified::new(tensors.all.len() as u64, total, checks))
    }
}

/// What each tensor is called where names have to differ: by its name, or else its path.
fn unique_names(all: &ModelTensors) -> Vec<String> {
    let mut taken = HashSet::with_capacity(all.len());
    let name = |tensor: ModelTensor<'_>| match tensor.name() {
        name if name.is_empty() || !taken.insert(name.to_owned()) => tensor.path(),
        name => name.to_owned(),
    };
    all.iter().map(name).collect()
}

/// What a tensor is, but for where.
fn info(tensor: ModelTensor<'_>, name: &str) -> Result<TensorInfo> {
    let dims = tensor.dims().iter().map(|&dim| {
        u64::try_from(dim).map_err(|_| {
            let message = format!("tensor \"{name}\": its shape is {:?}", tensor.dims());
            Error::new(ErrorKind::InvalidMessage, message).at_path(tensor.path())
        })
    });
    let shape = dims.collect::<Result<Vec<u64>>>()?;
    let number = i64::from(tensor.type_number());
    let dtype = tensor.data_type().map_or(DType::Unknown(number), dtype);
    let bytes = tensor.raw_len().unwrap_or_else(|| tensor.stored_len());
    Ok(TensorInfo::new(name, dtype, shape).sized(bytes))
}

fn dtype(data_type: DataType) -> DType {
    let element = TENSOR.element(u64::from(i32::from(data_type).unsigned_abs()));
    element.map_or(DType::Other("undefined"), |element| element.dtype)
}

const FLOAT_DATA: u32 = 4;
const INT32_DATA: u32 = 5;
const STRING_DATA: u32 = 6;
const INT64_DATA: u32 = 7;
const DOUBLE_DATA: u32 = 10;
const UINT64_DATA: u32 = 11;

/// How an `onnx.TensorProto` stores its tensor.
pub const TENSOR: TensorRule = TensorRule {
    names: &[("onnx.TensorProto", &[8])],
    shape: ShapeRule::Sizes(1),
    content: 9,
    elements: &[
        ElementRule::new(1, DType::F32, FLOAT_DATA),
        ElementRule::new(2, DType::U8, INT32_DATA),
        ElementRule::new(3, DType::I8, INT32_DATA),
        ElementRule::new(4, DType::U16, INT32_DATA),
        ElementRule::new(5, DType::I16, INT32_DATA),
        ElementRule::new(6, DType::I32, INT32_DATA),
        ElementRule::new(7, DType::I64, INT64_DATA),
        ElementRule::new(8, DType::String, STRING_DATA),
        ElementRule::new(9, DType::Bool, INT32_DATA),
        ElementRule::new(10, DType::F16, INT32_DATA),
        ElementRule::new(11, DType::F64, DOUBLE_DATA),
        ElementRule::new(12, DType::U32, UINT64_DATA),
        ElementRule::new(13, DType::U64, UINT64_DATA),
        ElementRule::new(14, DType::C64, FLOAT_DATA),
        ElementRule::new(15, DType::C128, DOUBLE_DATA),
        ElementRule::new(16, DType::BF16, INT32_DATA),
        ElementRule::new(17, DType::F8E4M3, INT32_DATA),
        ElementRule::new(18, DType::F8E4M3Fnuz, INT32_DATA),
        ElementRule::new(19, DType::F8E5M2, INT32_DATA),
        ElementRule::new(20, DType::F8E5M2Fnuz, INT32_DATA),
        ElementRule::new(21, DType::U4, INT32_DATA),
        ElementRule::new(22, DType::I4, INT32_DATA),
        ElementRule::new(23, DType::F4E2M1, INT32_DATA),
        ElementRule::new(24, DType::F8E8M0, INT32_DATA),
        ElementRule::new(25, DType::U2, INT32_DATA),
        ElementRule::new(26, DType::I2, INT32_DATA),
        ElementRule::new(27, DType::F6E2M3, INT32_DATA),
        ElementRule::new(28, DType::F6E3M2, INT32_DATA),
    ],
    is_packed: true,
    elsewhere: Some(14),
    ..TensorRule::new("onnx.TensorProto", 2)
};
