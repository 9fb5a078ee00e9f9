//! The Paddle format as an implementation of the trait [`Format`].

mod rules;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost_reflect::DescriptorPool;
use proto_splitter_core::atomic::MadeFrom;
use proto_splitter_core::formats::{
    Archive, Candidate, CandidateKind, Checks, Confidence, ConvertOptions, ConvertTarget,
    Converted, Entry, Format, OpenOptions, Opened, Verified,
};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::split::ComposableSplitter;
use proto_splitter_core::tensor::{DType, Location, LodRule, TensorInfo, TensorReader, TensorRule};
use proto_splitter_core::view::size_tree::NameRule;
use proto_splitter_core::wire::{SourceInput, WireCursor};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::model::{
    MODEL, OLD_PARAMETERS, OLD_PROGRAM, PaddleModel, ProgramKind, has_parameters, is_of_model,
};
use crate::output::{Arrangement, PaddleWriteOptions, write_message};
use crate::parameters::{Parameter, ParameterFile};
use crate::program::{looks_like_json, looks_like_pickle, parameters};
use crate::proto::descriptor_pool;
use crate::splitter::{ModelSplitter, PROGRAM_DESC, ProgramDescSplitter};
use crate::stream::{Layout, StreamKind, len};
use crate::{NAMES, PaddleVariable, variables};

use rules::dtype;
pub use rules::{LOD, TENSOR, type_of};

/// The format of Paddle models. A model consists of a program (`.pdmodel`, `__model__`, or the
/// `.json` that Paddle 3.x writes) and its parameters (`.pdiparams`, `__params__`, or one file per
/// parameter).
///
/// A model can be opened by its folder, or by the name of any of its files. It is both a message of
/// type [`MODEL`] and an archive of its parameters. A program is opened as just a `ProgramDesc` if
/// all its parameters are missing, or if the caller asks for that type.
///
/// ```
/// use proto_splitter_core::formats::{Format, OpenOptions, Registry};
/// use proto_splitter_paddle::PaddleFormat;
/// use proto_splitter_paddle::proto::framework::var_type::Type;
/// use proto_splitter_paddle::stream::{Layout, TensorSpec};
/// use proto_splitter_paddle::ParameterWriter;
///
/// static FORMATS: Registry = Registry::new(&[&PaddleFormat]);
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("model.pdiparams");
/// let mut writer = ParameterWriter::create(&path, Layout::Paddle, false)?;
/// writer.write(&TensorSpec::dense(Type::Uint8, [2]), &mut &[7, 8][..])?;
/// writer.finish()?;
///
/// let opened = FORMATS.open(&path, &OpenOptions::new())?;
/// assert_eq!(opened.format().map(|format| format.name()), Some("paddle"));
/// assert_eq!(opened.tensors()?[0].to_string(), "0 uint8[2]");
/// assert_eq!(opened.tensor("0")?.to_vec()?, [7, 8]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PaddleFormat;

const TARGETS: [ConvertTarget; 5] = [
    ConvertTarget {
        name: "files",
        title: "the model's original files",
    },
    ConvertTarget {
        name: "combined",
        title: "program and one file of all parameters",
    },
    ConvertTarget {
        name: "separate",
        title: "program and a file for each parameter",
    },
    ConvertTarget {
        name: "sized",
        title: "program and one file of all parameters with their sizes, which Paddle doesn't read",
    },
    ConvertTarget {
        name: "model-format",
        title: "program and one file of all parameters as in the model format's document, which Paddle doesn't read",
    },
];

impl Format for PaddleFormat {
    fn name(&self) -> &'static str {
        "paddle"
    }

    fn title(&self) -> &'static str {
        "Paddle model"
    }

    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
        match candidate.kind() {
            CandidateKind::File => recognize_file(candidate),
            CandidateKind::Folder => {
                let old = candidate.has(OLD_PROGRAM);
                (old || has_program(candidate.path())).then_some(Confidence::Likely)
            }
            CandidateKind::Prefix => {
                let parameters = candidate.continued(".pdiparams").is_some();
                let program = candidate.continued(".pdmodel").is_some();
                (parameters || program).then_some(Confidence::Likely)
            }
        }
    }

    fn open(&self, input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
        let path = input.local_path()?;
        let wanted = options.get_descriptor().map(|wanted| wanted.full_name());
        if wanted == Some(PROGRAM_DESC) {
            return open_program(input, options);
        }
        let model = match options.get_companion() {
            Some(program) => open_with_program(path, program),
            None => PaddleModel::open(path),
        };
        let model = match model {
            Ok(model) => model,
            // A program without any parameters next to it is opened alone, as its parameters may be
            // anywhere.
            Err(error) if error.kind() == ErrorKind::Io && is_program_alone(path) => {
                return open_program(input, options);
            }
            // The file is a message of type `MODEL` that was merged from chunks, rather than a part
            // of a model.
            Err(_) if wanted == Some(MODEL) && is_message(path) => {
                return Opened::of_input(input, options.get_descriptor().cloned(), options);
            }
            Err(error) => return Err(error),
        };
        let descriptor = descriptor_pool().get_message_by_name(MODEL);
        let spans = model.spans()?;
        let files: Vec<PathBuf> = spans.files().map(Path::to_owned).collect();
        let opened = Opened::of_reader(Arc::new(spans), descriptor, options)?;
        Ok(opened.with_archive(Parameters::new(model)).reading(files))
    }

    fn descriptor_pool(&self) -> Option<&'static DescriptorPool> {
        Some(descriptor_pool())
    }

    fn message_types(&self) -> &'static [&'static str] {
        &[MODEL, PROGRAM_DESC]
    }

    fn message_type(&self, path: &Path) -> Option<&'static str> {
        let is_incomplete = || PaddleModel::open(path).is_err();
        if is_program_alone(path) && is_incomplete() {
            Some(PROGRAM_DESC)
        } else {
            Some(MODEL)
        }
    }

    fn companion(&self) -> Option<&'static str> {
        Some("program")
    }

    fn is_made_of_files(&self, message_type: &str) -> bool {
        message_type == MODEL
    }

    fn splitter(&self, message_type: &str) -> Option<&'static (dyn ComposableSplitter + Sync)> {
        match message_type {
            MODEL => Some(&ModelSplitter),
            PROGRAM_DESC => Some(&ProgramDescSplitter),
            _ => None,
        }
    }

    fn member_names(&self) -> &'static [NameRule] {
        &NAMES
    }

    fn tensor_rules(&self) -> &'static [TensorRule] {
        &[TENSOR]
    }

    fn lod_rule(&self) -> Option<&'static LodRule> {
        Some(&LOD)
    }

    fn targets(&self) -> &'static [ConvertTarget] {
        &TARGETS
    }

    fn convert(
        &self,
        opened: &Opened,
        target: &ConvertTarget,
        output: &Path,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        options.check_settings(&[])?;
        let arrangement = match target.name {
            "files" => Arrangement::Original,
            "combined" => Arrangement::Combined(Layout::Paddle),
            "separate" => Arrangement::Separate(Layout::Paddle),
            "sized" => Arrangement::Combined(Layout::Sized),
            "model-format" => Arrangement::Combined(Layout::ModelFormat),
            other => {
                let message = format!("there is no form {other:?} of a Paddle model");
                return Err(Error::new(ErrorKind::InvalidConfig, message));
            }
        };
        let found = opened.descriptor().map(|descriptor| descriptor.full_name());
        if found != Some(MODEL) {
            let message = "the program's parameters are missing: there are none next to it";
            let error = Error::new(ErrorKind::InvalidConfig, message);
            return Err(about(opened.input(), error));
        }
        let writing = PaddleWriteOptions::new()
            .arrangement(arrangement)
            .force(options.get_force())
            .threads(options.get_threads())
            .progress(options.get_progress().clone());
        let made_from = MadeFrom::files(opened.files());
        let written = write_message(&opened.reader()?, made_from, output, &writing);
        let written = written.map_err(|error| about(opened.input(), error))?;
        let mut bytes = 0;
        for file in &written.files {
            bytes += std::fs::metadata(file)?.len();
        }
        let mut converted = Converted::new(written.files, bytes);
        for name in written.left_out {
            converted = converted.note(format!(
                "{name} is left out: it belongs to a file of all parameters"
            ));
        }
        Ok(match arrangement {
            Arrangement::Combined(layout) if !layout.is_read_by_paddle() => {
                converted.note(format!("Paddle itself doesn't read the layout {layout}"))
            }
            _ => converted,
        })
    }
}

/// Adds the model's path to an error about options that the model doesn't support
/// ([`ErrorKind::InvalidConfig`]). Callers add the path to all other errors.
fn about(model: &Path, error: Error) -> Error {
    let name = model.display().to_string();
    let is_named = name.is_empty() || error.file().is_some() || error.to_string().contains(&name);
    if error.kind() == ErrorKind::InvalidConfig && !is_named {
        error.in_file(model)
    } else {
        error
    }
}

fn recognize_file(candidate: &Candidate<'_>) -> Option<Confidence> {
    let name = candidate.file_name();
    let is_json = looks_like_json(candidate.head());
    let by_name = match candidate.extension().as_deref() {
        Some("pdmodel" | "pdiparams") => Some(Confidence::Likely),
        // Files with these extensions are pickles. Opening a pickle fails with an error that
        // suggests what to do instead.
        Some("pdparams" | "pdopt") => Some(Confidence::Likely),
        Some("info") if name.ends_with(".pdiparams.info") => Some(Confidence::Likely),
        Some("json") if is_json => {
            let head = String::from_utf8_lossy(candidate.head());
            let front: String = head
                .chars()
                .filter(|c| !c.is_whitespace())
                .take(200)
                .collect();
            front
                .contains("\"magic\":\"pir\"")
                .then_some(Confidence::Certain)
        }
        _ => None,
    };
    by_name.or_else(|| {
        let old = matches!(name, OLD_PROGRAM | OLD_PARAMETERS);
        let beside = candidate.path().parent().is_some_and(|folder| {
            // A file with a single parameter is in the same folder as the program.
            folder.join(OLD_PROGRAM).is_file() && !looks_like_pickle(candidate.head())
        });
        (old || beside).then_some(Confidence::Possible)
    })
}

fn has_program(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let path = entry.path();
        match path.extension().and_then(|end| end.to_str()) {
            Some("pdmodel") => true,
            Some("json") => path.with_extension("pdiparams").is_file(),
            _ => false,
        }
    })
}

/// Opens a file of parameters, or a folder with one file per parameter, together with a program at
/// another path.
fn open_with_program(path: &Path, program: &Path) -> Result<PaddleModel> {
    let named = crate::PaddleOpenOptions::new().program(program);
    if path.is_dir() {
        return PaddleModel::open_with(path, &named);
    }
    if !path.is_file() {
        let message = "a program can only be named for a parameters file or a folder of parameters";
        return Err(Error::new(ErrorKind::InvalidConfig, message).in_file(path));
    }
    PaddleModel::open_with(path, &named.parameters(path))
}

/// Returns the variables of the `ProgramDesc` in a file; empty if the file isn't a `ProgramDesc`.
fn variables_in(path: &Path) -> Vec<PaddleVariable> {
    let read = || -> Result<_> { variables(&std::fs::File::open(path)?) };
    let found = path.is_file().then(read);
    found.and_then(Result::ok).unwrap_or_default()
}

/// Returns true if a file is a `ProgramDesc` with variables, and none of its parameters are in a
/// file next to it.
fn is_program_alone(path: &Path) -> bool {
    let found = variables_in(path);
    let specs = parameters(&found).unwrap_or_default();
    !found.is_empty() && !has_parameters(path, &specs)
}

/// Returns true if all fields in a file are fields of a message of type [`MODEL`]. Returns
/// false for a program, although some of its fields have the same numbers.
fn is_message(path: &Path) -> bool {
    let has_fields = || -> Result<bool> {
        let file = std::fs::File::open(path)?;
        let size = file.metadata()?.len();
        let mut cursor = WireCursor::new(SourceInput::new(&file, size));
        let mut any = false;
        while let Some(field) = cursor.next()? {
            if !is_of_model(field.number.0) {
                return Ok(false);
            }
            any = true;
        }
        Ok(any)
    };
    path.is_file() && variables_in(path).is_empty() && has_fields().unwrap_or(false)
}

fn open_program(input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
    let descriptor = descriptor_pool().get_message_by_name(PROGRAM_DESC);
    Opened::of_input(input, descriptor, options)
}

/// The parameters of a model as an archive. They are found by name or by index.
#[derive(Debug)]
struct Parameters {
    model: PaddleModel,
    /// True if any parameter has LoD. Otherwise, looking for a parameter's LoD is unnecessary.
    has_lod: bool,
}

/// Returns the name of the parameter with this index. If the parameter has no name, its index serves
/// as its name.
fn name(counter: usize, parameter: &Parameter) -> String {
    let name = parameter.name();
    name.map_or_else(|| counter.to_string(), str::to_owned)
}

/// Returns the description of the parameter with this index.
fn counted(counter: usize, file: &ParameterFile, parameter: &Parameter) -> TensorInfo {
    named(name(counter, parameter), file, parameter)
}

fn named(name: String, file: &ParameterFile, parameter: &Parameter) -> TensorInfo {
    let stream = parameter.stream();
    let (dtype, shape) = match stream.dtype() {
        Some(of) => (dtype(of), stream.dims().to_vec()),
        None => (DType::Other("vocabulary"), Vec::new()),
    };
    TensorInfo::new(name, dtype, shape)
        .sized(len(&stream.data()))
        .located(Location::file(file.path(), stream.data().start))
}

impl Parameters {
    fn new(model: PaddleModel) -> Parameters {
        let mut all = model.parameters();
        let has_lod = all.any(|(_, parameter)| parameter.stream().lod_levels() > 0);
        drop(all);
        Parameters { model, has_lod }
    }

    /// Returns the parameter with the name in `info`, and its file. If no parameter has this name,
    /// parses the name as an index.
    fn parameter(&self, info: &TensorInfo) -> Result<(&ParameterFile, &Parameter)> {
        let by_name = self.model.parameter(&info.name);
        let by_counter = || self.model.parameter_at(info.name.parse().ok()?);
        by_name.or_else(by_counter).ok_or_else(|| {
            let message = format!("there is no parameter {:?}", info.name);
            Error::new(ErrorKind::InvalidPath, message)
        })
    }
}

impl Archive for Parameters {
    fn tensors(&self) -> Result<Vec<TensorInfo>> {
        let parameters = self.model.parameters().enumerate();
        Ok(parameters
            .map(|(counter, (file, parameter))| counted(counter, file, parameter))
            .collect())
    }

    /// Returns the parameter with this name. If there is none, parses the name as the parameter's
    /// index, counted across all files in their order.
    fn find(&self, name: &str) -> Result<Option<TensorInfo>> {
        if let Some((file, parameter)) = self.model.parameter(name) {
            return Ok(Some(named(name.to_owned(), file, parameter)));
        }
        let counter = name.parse().ok();
        Ok(counter.and_then(|counter| {
            let (file, parameter) = self.model.parameter_at(counter)?;
            Some(counted(counter, file, parameter))
        }))
    }

    fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        let (file, parameter) = self.parameter(info)?;
        let source = Arc::new(file.part().clone());
        Ok(TensorReader::of_range(
            info.clone(),
            source,
            parameter.stream().data(),
        ))
    }

    fn lod(&self, info: &TensorInfo) -> Result<Vec<Vec<u64>>> {
        if !self.has_lod {
            return Ok(Vec::new());
        }
        let (file, parameter) = self.parameter(info)?;
        let lod = parameter.stream().lod(file.bytes());
        lod.map_err(|error| {
            error
                .context(format!("tensor {:?}", info.name))
                .in_file(file.path())
        })
    }

    fn entries(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        if let (Some(path), Some(bytes)) = (self.model.program_path(), self.model.program_bytes()) {
            let entry = Entry::new("program", bytes.size()?, Location::file(path, 0));
            entries.push(entry.detail(match self.model.program_kind() {
                Some(ProgramKind::Pir) => "JSON",
                _ => "ProgramDesc",
            }));
        }
        entries.extend(self.tensors()?.iter().map(Entry::of_tensor));
        Ok(entries)
    }

    fn properties(&self) -> Result<Vec<(String, String)>> {
        let mut properties = Vec::new();
        let mut put = |name: &str, value: String| properties.push((name.to_owned(), value));
        match self.model.program_kind() {
            Some(ProgramKind::Desc) => {
                put("program", "ProgramDesc".into());
                put("variables", self.model.variables().len().to_string());
            }
            Some(ProgramKind::Pir) => put(
                "program",
                "JSON of Paddle 3.x, without a ProgramDesc".into(),
            ),
            None => put("program", "none: parameters have no names".into()),
        }
        put("parameter files", self.model.files().len().to_string());
        let layouts = self
            .model
            .files()
            .iter()
            .map(|file| file.layout().to_string());
        let layouts: BTreeSet<String> = layouts.collect();
        put("layout", layouts.into_iter().collect::<Vec<_>>().join(", "));
        for (counter, (_, parameter)) in self.model.parameters().enumerate() {
            let kind = parameter.stream().kind();
            if kind != StreamKind::Dense {
                put(&name(counter, parameter), kind.to_string());
            }
        }
        Ok(properties)
    }

    fn verify(&self, progress: &Progress) -> Result<Verified> {
        self.model.verify()?;
        let tensors = self.tensors()?;
        let total = tensors.iter().map(|tensor| tensor.bytes).sum();
        let meter = progress.meter(total);
        for tensor in &tensors {
            self.read(tensor)?.write_to(&mut std::io::sink())?;
            meter.advance(tensor.bytes)?;
        }
        Ok(Verified::new(
            tensors.len() as u64,
            total,
            Checks::Structure,
        ))
    }
}
