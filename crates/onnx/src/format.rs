//! The ONNX format, for the format registry.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost_reflect::DescriptorPool;
use proto_splitter_core::atomic::{MadeFrom, folder};
use proto_splitter_core::formats::{
    Candidate, CandidateKind, Confidence, ConvertOptions, ConvertSetting, ConvertTarget, Converted,
    Format, OpenOptions, Opened,
};
use proto_splitter_core::merge::{MergeOptions, ReadOptions};
use proto_splitter_core::split::ComposableSplitter;
use proto_splitter_core::tensor::{Location, PlacedTensor, TensorRule};
use proto_splitter_core::view::size_tree::NameRule;
use proto_splitter_core::wire::{WireType, decode_varint};
use proto_splitter_core::{Error, ErrorKind, MessageReader, Result};
use record_file::ReadAt;

use crate::archive::{ModelArchive, UniqueNames, info};
use crate::embedded::begins_as_embedded;
use crate::external::{
    DataFormat, EmbeddedPlan, ExternalOptions, ExternalPlan, MAX_MODEL_SIZE, WrittenOnnx,
    check_exists, replace_by, write_one_piece,
};
use crate::info::properties_of_message;
use crate::options::OnnxOptions;
use crate::proto::descriptor_pool;
use crate::source::OnnxSource;
use crate::tensor_rule::TENSOR;
use crate::tensors::{ModelTensors, TensorPaths};
use crate::{MODEL_PROTO, NAMES, OnnxSplitter, model_descriptor};

/// The format of ONNX models. A model is an `.onnx` file (with its external data files, if any),
/// the folder of this file, or a safetensors file with the model in its header.
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
/// // A folder is opened as the only model in it.
/// assert_eq!(OnnxFormat.file_in(folder.path()), Some(path));
/// assert!(FORMATS.open(folder.path(), &OpenOptions::new()).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OnnxFormat;

/// Highest ONNX IR version at which a file without a name extension is recognized as a model. The
/// limit leaves room for future versions.
const NEWEST_IR: u64 = 32;

/// Returns the size of the graph, in bytes, if `head` begins with the fields of a model: the
/// version, the producer and the graph.
fn begins_as_model(head: &[u8]) -> Option<u64> {
    let (mut rest, mut last) = (head, 0);
    loop {
        let (tag, len) = decode_varint(rest)?;
        rest = rest.get(len..)?;
        let (value, len) = decode_varint(rest)?;
        rest = rest.get(len..)?;
        let field = tag >> 3;
        match (field, WireType::from_bits(tag & 7)?) {
            (1, WireType::Varint) if last == 0 && (1..=NEWEST_IR).contains(&value) => {}
            (5, WireType::Varint) if last > 0 => {}
            (2..=4 | 6, WireType::Len) if last > 0 => {
                rest = rest.get(usize::try_from(value).ok()?..)?;
            }
            (7, WireType::Len) if last > 0 => return Some(value),
            _ => return None,
        }
        last = field;
    }
}

/// Returns the models in a folder, sorted by name; `None` if the path isn't a folder, or the folder
/// has no models.
fn models_in(folder: &Path) -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).ok()?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut models: Vec<_> = paths
        .filter(|path| is_named_as_model(path) && path.is_file())
        .collect();
    models.sort();
    (!models.is_empty()).then_some(models)
}

/// Maximum number of models that an error about a folder lists.
const MAX_LISTED: usize = 10;

/// Returns the error for a folder with several models.
#[cold]
fn several(folder: &Path, models: &[PathBuf]) -> Error {
    let listed: Vec<_> = models
        .iter()
        .take(MAX_LISTED)
        .filter_map(|model| Some(model.file_name()?.to_string_lossy()))
        .collect();
    let more = match models.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "several ONNX models are in this folder; name one of them: {}{more}",
        listed.join(", ")
    );
    Error::new(ErrorKind::InvalidConfig, message).in_file(folder)
}

fn is_named_as_model(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"))
}

/// The conversion to a model with its tensors in files next to it.
const PAIR: ConvertTarget = ConvertTarget {
    name: "external",
    title: "ONNX model with its tensors beside it",
};

/// The conversion to one safetensors file with the model in its header.
const EMBEDDED: ConvertTarget = ConvertTarget {
    name: "onnx-safetensors",
    title: "safetensors file with the ONNX model in its header",
};

/// The conversions of models, one for each form in which a model can be written.
const TARGETS: &[ConvertTarget] = &[
    ConvertTarget {
        name: "auto",
        title: "ONNX model in one file, or with its tensors beside it if it is over 2 GiB",
    },
    ConvertTarget {
        name: "onnx",
        title: "ONNX model in one file of any size",
    },
    PAIR,
    ConvertTarget {
        name: "safetensors",
        title: "ONNX model with its tensors in safetensors files beside it",
    },
    EMBEDDED,
];

/// Names of the conversions that may store tensors in files next to the model.
const WITH_DATA: &[&str] = &["auto", "external", "safetensors"];

/// The settings that conversions accept.
const SETTINGS: &[ConvertSetting] = &[
    ConvertSetting {
        name: "alignment",
        title: "alignment of tensors over 1 MiB in their file, 64KiB unless set",
        is_size: true,
        forms: &["auto", "external"],
    },
    ConvertSetting {
        name: "everywhere",
        title: "true to also move out tensors that onnx.load doesn't load back",
        is_size: false,
        forms: WITH_DATA,
    },
    ConvertSetting {
        name: "max-file-size",
        title: "largest data file, any size unless set",
        is_size: true,
        forms: WITH_DATA,
    },
    ConvertSetting {
        name: "min-size",
        title: "smallest tensor to move out of the model, 1KiB unless set",
        is_size: true,
        forms: WITH_DATA,
    },
    ConvertSetting {
        name: "shards",
        title: "total size of the tensors in one data file; a larger tensor gets its own file",
        is_size: true,
        forms: WITH_DATA,
    },
];

/// Name of the setting for the folder of external files.
const EXTERNAL_FOLDER: &str = "external-folder";

/// Name of the setting that keeps references to external files. Its values are `true` and `false`.
const KEEP_EXTERNAL: &str = "keep-external";

impl Format for OnnxFormat {
    fn name(&self) -> &'static str {
        "onnx"
    }

    fn title(&self) -> &'static str {
        "ONNX model"
    }

    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
        match candidate.kind() {
            CandidateKind::File if is_named_as_model(candidate.path()) => Some(Confidence::Likely),
            CandidateKind::File if begins_as_embedded(candidate.head()) => {
                Some(Confidence::Certain)
            }
            // Input from a pipe has no file name.
            CandidateKind::File if candidate.extension().is_none() => {
                let graph = begins_as_model(candidate.head())?;
                (graph < candidate.size()).then_some(Confidence::Possible)
            }
            CandidateKind::File => None,
            CandidateKind::Folder => match models_in(candidate.path())?.len() {
                1 => Some(Confidence::Likely),
                // If there are several models, opening the folder fails, and the error lists them.
                _ => Some(Confidence::Possible),
            },
            CandidateKind::Prefix => None,
        }
    }

    fn file_in(&self, folder: &Path) -> Option<PathBuf> {
        let [model] = <[PathBuf; 1]>::try_from(models_in(folder)?).ok()?;
        Some(model)
    }

    fn open(&self, input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
        if input.kind() == CandidateKind::Folder {
            let models = models_in(input.path()).unwrap_or_default();
            return match &models[..] {
                [model] => self.open(&Candidate::new(model)?, options),
                models => Err(several(input.path(), models)),
            };
        }
        if is_embedded(input) {
            let model = OnnxSource::of_embedded(input, &open_options(options)?)?;
            let reader = Arc::clone(model.reader());
            let opened = Opened::of_reader(reader, model_descriptor(), options)?;
            let opened = opened.reading([input.path()]);
            return Ok(opened.with_archive(ModelArchive::new(model)));
        }
        let model = OnnxSource::of_input(input, &open_options(options)?)?;
        let opened = if !model.is_put_together() {
            // The message is exactly the file's content.
            Opened::of_input(input, model_descriptor(), options)?
        } else {
            let reader = Arc::clone(model.reader());
            let files: Vec<_> = model.files().map(Path::to_owned).collect();
            Opened::of_reader(reader, model_descriptor(), options)?.reading(files)
        };
        let outside: Vec<_> = model.outside_files().map(Path::to_owned).collect();
        let opened = opened.referring_to(outside);
        Ok(opened.with_archive(ModelArchive::new(model)))
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

    fn tensors_in_message(&self, message: Arc<dyn ReadAt>) -> Result<Option<Vec<PlacedTensor>>> {
        let size = message.size()?;
        let all = ModelTensors::read(message, size, &OnnxOptions::new())?;
        let model = model_descriptor();
        let names = UniqueNames::of(&all);
        let mut paths = TensorPaths::new(&model);
        let mut tensors = Vec::with_capacity(all.len());
        for (at, tensor) in all.iter().enumerate() {
            let name = names.get(at, tensor);
            let text = tensor.path();
            let path = paths.path(tensor, &text)?;
            let info = info(tensor, &name)?.located(Location::Message { path, text });
            let is_whole = |raw: &Range<u64>| tensor.raw_len() == Some(raw.end - raw.start);
            let elements = tensor.raw_data().filter(is_whole);
            let placed = PlacedTensor::new(info, vec![tensor.range()]);
            tensors.push(placed.elements(elements));
        }
        Ok(Some(tensors))
    }

    fn properties(&self, opened: &Opened) -> Result<Vec<(String, String)>> {
        if let Some(archive) = opened.archive() {
            return archive.properties();
        }
        if !opened.has_message() {
            return Ok(Vec::new());
        }
        let model = opened.reader()?;
        let size = model.total_size();
        let tensors = ModelTensors::read(model.clone().into(), size, &OnnxOptions::new())?;
        properties_of_message(&model, size, &tensors)
    }

    fn targets(&self) -> &'static [ConvertTarget] {
        TARGETS
    }

    fn convert_settings(&self) -> &'static [ConvertSetting] {
        SETTINGS
    }

    fn form_of(&self, opened: &Opened) -> Option<&'static ConvertTarget> {
        let is_made = opened.plain().is_some() && opened.message_file().is_none();
        let is_embedded = ModelArchive::is_embedded(opened.archive()?);
        let form = if is_embedded { &EMBEDDED } else { &PAIR };
        is_made.then_some(form)
    }

    fn convert(
        &self,
        opened: &Opened,
        target: &ConvertTarget,
        output: &Path,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        let external = external_options(options)?;
        // The new model needs the files to which it still refers as much as those that it is read
        // from, so they must be neither replaced nor removed with an old model.
        let made_from = MadeFrom::files(opened.files().iter().chain(opened.outside_files()));
        check_references(opened, output)?;
        let model = opened.reader()?;
        let size = model.total_size();
        let is_pair = match target.name {
            "auto" => size > MAX_MODEL_SIZE,
            "onnx" => false,
            "external" | "safetensors" => true,
            "onnx-safetensors" => return embedded(opened, model, output, &external, &made_from),
            other => {
                let message = format!("there is no form {other:?} for an ONNX model");
                return Err(Error::new(ErrorKind::InvalidConfig, message));
            }
        };
        if !is_pair {
            let converted = one_piece(opened, &model, output, options, &external, &made_from)?;
            return Ok(if size > MAX_MODEL_SIZE {
                converted.note("no protobuf reader accepts a file over 2 GiB")
            } else {
                converted
            });
        }
        let external = match target.name {
            "safetensors" => external.data_format(DataFormat::Safetensors),
            _ => external,
        };
        let plan = ExternalPlan::new(model, output, &external)?;
        Ok(converted(plan.write(&made_from)?))
    }
}

/// Returns true for a safetensors file with a model in its header.
fn is_embedded(input: &Candidate<'_>) -> bool {
    let is_file = input.kind() == CandidateKind::File && !is_named_as_model(input.path());
    is_file && begins_as_embedded(input.head())
}

/// Writes the model to one safetensors file.
fn embedded(
    opened: &Opened,
    model: MessageReader,
    output: &Path,
    external: &ExternalOptions,
    made_from: &MadeFrom,
) -> Result<Converted> {
    if let Some(outside) = opened.outside_files().first() {
        let message = format!(
            "the model refers to {}, but one file must contain all data: convert without keep-external",
            outside.display()
        );
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    let plan = EmbeddedPlan::new(model, output, external)?;
    let unknown = plan.unknown_bytes();
    let written = converted(plan.write(made_from)?);
    Ok(match unknown {
        0 => written,
        bytes => written.note(format!(
            "{bytes} bytes of fields that are not in ONNX's schema are left out"
        )),
    })
}

/// Writes the model to one `.onnx` file. A model in a chunked file is merged, with all the checks
/// of a merge.
fn one_piece(
    opened: &Opened,
    model: &MessageReader,
    output: &Path,
    options: &ConvertOptions,
    external: &ExternalOptions,
    made_from: &MadeFrom,
) -> Result<Converted> {
    if model.chunked_file().is_none() {
        return write_one_piece(model, output, made_from, external).map(converted);
    }
    let reading = ReadOptions::new()
        .descriptor(opened.descriptor().cloned())
        .threads(options.get_threads())
        .progress(options.get_progress().clone());
    let merging = MergeOptions::from(reading).force(options.get_force());
    let merge = || opened.merge_to_file(output, &merging);
    let (merged, removed) = replace_by(output, made_from, options.get_progress(), merge)?;
    let converted = Converted::new(vec![output.to_owned()], merged.size);
    Ok(noting(converted, removed))
}

fn converted(written: WrittenOnnx) -> Converted {
    let bytes = written.model_size.saturating_add(written.data_size);
    let mut files = vec![written.path];
    files.extend(written.data_files);
    noting(Converted::new(files, bytes), written.removed_files)
}

/// Adds a note for each data file of the old model that was removed.
fn noting(converted: Converted, removed: Vec<PathBuf>) -> Converted {
    removed.into_iter().fold(converted, |converted, file| {
        converted.note(format!("removed {}: data of the old model", file.display()))
    })
}

/// Fails if the model keeps references to external files that can't be found from the folder of
/// `output`.
fn check_references(opened: &Opened, output: &Path) -> Result<()> {
    let files = opened.outside_files();
    let (Some(model), false) = (opened.files().first(), files.is_empty()) else {
        return Ok(());
    };
    files.iter().try_for_each(|file| check_exists(file))?;
    let folder_of = |file: &Path| fs::canonicalize(folder(file)).ok();
    let from = folder_of(model).filter(|from| folder_of(output).as_ref() == Some(from));
    let is_found = |file: &&PathBuf| {
        let places = from.as_ref().zip(folder_of(file));
        places.is_some_and(|(from, data)| data.starts_with(from))
    };
    let Some(outside) = files.iter().find(|file| !is_found(file)) else {
        return Ok(());
    };
    let message = format!(
        "{}: the model refers to {}, which is not found from there: write the model next to the data, or \
         without keep-external",
        output.display(),
        outside.display()
    );
    Err(Error::new(ErrorKind::InvalidConfig, message))
}

/// Returns the options for opening an ONNX model, from the settings in `options`.
fn open_options(options: &OpenOptions) -> Result<OnnxOptions> {
    let mut own = OnnxOptions::new().allow_missing_files(options.get_allow_missing_files());
    if let Some(folder) = options.get_settings().get(EXTERNAL_FOLDER) {
        own = own.external_folder(folder);
    }
    if let Some(keep) = options.get_settings().get(KEEP_EXTERNAL) {
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

/// Parses the settings for writing external data: `alignment`, `everywhere`, `max-file-size`,
/// `min-size`, `shards`.
fn external_options(options: &ConvertOptions) -> Result<ExternalOptions> {
    let mut external = ExternalOptions::new()
        .force(options.get_force())
        .threads(options.get_threads())
        .progress(options.get_progress().clone());
    for (name, value) in options.get_settings() {
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
            "shards" => external.shard_size(Some(number()?)),
            "everywhere" => external.everywhere(is_true(name, value)?),
            other => {
                let message = format!(
                    "there is no setting {other:?} for an ONNX model; there are alignment, \
                     everywhere, max-file-size, min-size and shards"
                );
                return Err(Error::new(ErrorKind::InvalidConfig, message));
            }
        };
    }
    Ok(external)
}
