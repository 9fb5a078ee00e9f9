//! The library's operations, which return their reports as Python dictionaries. The keys are those
//! of the command's `--json`.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::slice::from_ref;

use proto_splitter::SaveOptions;
use proto_splitter::container::MerkleRoot;
use proto_splitter::externalize::ExternalizeOptions;
use proto_splitter::ops::{
    self, AppendOptions, ConversionOptions, DiffOptions, ExternalizeTo, Info, Outcome, TreeReport,
    VerifyOptions, VerifyReport,
};
use proto_splitter::progress::Progress;
use proto_splitter::record_file::PositionReader;
use proto_splitter::tensor::DType;
use protosplit_cli::{
    Failed, NameOptions, NamedTreeOptions, convert_named, failed, open_named, tree_text,
    verify_named,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::error::{of_failed, of_output, raise};
use crate::functions::SplitArguments;
use crate::input::Input;
use crate::work::{detached_with, threads};

/// Converts a report to a Python dictionary.
pub(crate) fn dictionary<'py>(
    py: Python<'py>,
    report: &impl Serialize,
) -> PyResult<Bound<'py, PyDict>> {
    Ok(pythonize::pythonize(py, report)?.cast_into::<PyDict>()?)
}

/// Runs a job without the GIL, and converts its error to an exception. `outputs` are the files or
/// folders that the job writes. An exception about an output contains the output's name.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    outputs: &[PathBuf],
    job: impl FnOnce(Progress) -> Result<T, Failed> + Send,
) -> PyResult<T> {
    detached_with(py, progress, job, |failed| {
        of_output(py, of_failed(py, &failed), outputs)
    })
}

/// Returns information about an input: the chunks of a chunked file, or the properties of an input
/// in another format.
#[pyfunction]
pub(crate) fn info<'py>(
    py: Python<'py>,
    name: PathBuf,
    message: Option<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let report = run(py, None, &[], |progress| {
        let options = NameOptions::new().message(message).progress(progress);
        let input = open_named(&name, &options.allow_missing_files(true))?;
        let mut report = ops::info(&input).map_err(|error| failed(input.path(), &error))?;
        if let Info::Format(found) = &mut report {
            found.file = input.path().to_owned();
        }
        Ok(report)
    })?;
    dictionary(py, &report)
}

/// The options of [`verify`], passed from Python as a dictionary.
#[derive(FromPyObject)]
pub(crate) struct VerifyArguments {
    #[pyo3(item)]
    deep: bool,
    #[pyo3(item)]
    root: Option<String>,
}

/// Verifies a chunked file. If `against` is given, also compares the file with the message at that
/// path.
#[pyfunction]
pub(crate) fn verify<'py>(
    py: Python<'py>,
    name: PathBuf,
    message: Option<String>,
    against: Option<PathBuf>,
    arguments: VerifyArguments,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let root = arguments.root.map(|root| root.parse::<MerkleRoot>());
    let root = root.transpose().map_err(|error| raise(py, &error, None))?;
    let report: VerifyReport = run(py, progress.as_ref(), &[], |progress| {
        let options = NameOptions::new().message(message).progress(progress);
        let asked = VerifyOptions::new().deep(arguments.deep).root(root);
        verify_named(&name, &options, against.as_deref(), asked)
    })?;
    dictionary(py, &report)
}

/// Compares two messages. The report has the keys of the command's report, and additionally
/// `equal`, which is true if the messages are equal.
#[pyfunction]
pub(crate) fn diff<'py>(
    py: Python<'py>,
    first: PathBuf,
    second: PathBuf,
    message: Option<String>,
    limit: usize,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let report = run(py, progress.as_ref(), &[], |progress| {
        let names = NameOptions::new().message(message);
        let open = |name: &Path| open_named(name, &names.clone().progress(progress.clone()));
        let [first, second] = [open(&first)?, open(&second)?];
        let options = DiffOptions::new().limit(limit).progress(progress);
        let report = ops::diff(&first, &second, &options);
        report.map_err(|error| failed(error.file().unwrap_or(first.path()), &error))
    })?;
    let is_equal = matches!(report.result(), Outcome::Identical | Outcome::Equal);
    let report = dictionary(py, &report)?;
    report.set_item("equal", is_equal)?;
    Ok(report)
}

/// Computes a SavedModel's fingerprint, and compares it with the stored one.
#[pyfunction]
pub(crate) fn fingerprint<'py>(
    py: Python<'py>,
    folder: PathBuf,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let report = run(py, progress.as_ref(), &[], |progress| {
        ops::fingerprint(&folder, &progress).map_err(|error| failed(&folder, &error))
    })?;
    dictionary(py, &report)
}

/// The sizes of the parts of a message, as a tree of field paths.
#[pyclass(frozen, module = "proto_splitter._core")]
pub(crate) struct Tree {
    name: PathBuf,
    message: Option<String>,
    options: NamedTreeOptions,
    report: TreeReport,
}

#[pymethods]
impl Tree {
    #[new]
    fn new(
        py: Python<'_>,
        name: PathBuf,
        message: Option<String>,
        depth: Option<usize>,
        top: Option<usize>,
        min_size: Option<u64>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Tree> {
        let options = NamedTreeOptions::new()
            .depth(depth)
            .top(top)
            .min_size(min_size);
        let report = run(py, progress.as_ref(), &[], |progress| {
            open_named(&name, &names(&message, progress))?.tree(&options)
        })?;
        Ok(Tree {
            name,
            message,
            options,
            report,
        })
    }

    /// Returns the tree as a dictionary.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dictionary(py, &self.report)
    }

    /// Returns the tree as text, in the form of the command's output.
    fn text(&self) -> String {
        tree_text(&self.report)
    }

    /// Measures the message again, in more detail, and returns an HTML page that shows the
    /// message's parts.
    fn page(&self, py: Python<'_>) -> PyResult<String> {
        run(py, None, &[], |progress| {
            open_named(&self.name, &names(&self.message, progress))?.tree_page(&self.options)
        })
    }
}

/// Returns the options for opening a message to inspect it. The options allow missing external
/// files.
fn names(message: &Option<String>, progress: Progress) -> NameOptions {
    NameOptions::new()
        .message(message.clone())
        .allow_missing_files(true)
        .progress(progress)
}

/// The options of [`externalize`], passed from Python as a dictionary.
#[derive(FromPyObject)]
pub(crate) struct ExternalizeArguments {
    #[pyo3(item)]
    min_size: u64,
    #[pyo3(item)]
    mmap: bool,
    #[pyo3(item)]
    force: bool,
    #[pyo3(item)]
    threads: Option<usize>,
}

/// Moves the large constants of a SavedModel to a checkpoint, from which the model reads them.
#[pyfunction]
pub(crate) fn externalize<'py>(
    py: Python<'py>,
    folder: PathBuf,
    output: PathBuf,
    arguments: ExternalizeArguments,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = ExternalizeOptions::new()
        .min_size(arguments.min_size)
        .mapped(arguments.mmap)
        .force(arguments.force)
        .threads(threads(arguments.threads)?);
    let report = run(py, progress.as_ref(), from_ref(&output), |progress| {
        let to = ExternalizeTo::Folder(&output);
        let report = ops::externalize(&folder, to, &options.progress(progress));
        report.map_err(|error| failed(&folder, &error))
    })?;
    dictionary(py, &report)
}

/// Restores the original model from an externalized SavedModel, and writes it to a new folder.
#[pyfunction]
pub(crate) fn internalize<'py>(
    py: Python<'py>,
    folder: PathBuf,
    output: PathBuf,
    force: bool,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = ExternalizeOptions::new().force(force);
    let report = run(py, progress.as_ref(), from_ref(&output), |progress| {
        let report = ops::internalize(&folder, &output, &options.progress(progress));
        report.map_err(|error| failed(&folder, &error))
    })?;
    dictionary(py, &report)
}

/// The options of [`convert`], passed from Python as a dictionary.
#[derive(FromPyObject)]
pub(crate) struct ConvertArguments {
    #[pyo3(item)]
    to: String,
    #[pyo3(item)]
    settings: Vec<(String, String)>,
    #[pyo3(item)]
    max_file_size: Option<u64>,
    #[pyo3(item)]
    keep_fingerprint: bool,
}

/// Converts a model to another form. `splitting` has the options for a chunked output.
#[pyfunction]
pub(crate) fn convert<'py>(
    py: Python<'py>,
    name: PathBuf,
    output: PathBuf,
    arguments: ConvertArguments,
    splitting: SplitArguments,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let split = splitting.options(py)?;
    let saving = SaveOptions::new().keep_fingerprint(arguments.keep_fingerprint);
    let mut options = ConversionOptions::new()
        .to(arguments.to)
        .max_file_size(arguments.max_file_size);
    for (name, value) in arguments.settings {
        options = options.setting(name, value);
    }
    let report = run(py, progress.as_ref(), from_ref(&output), |progress| {
        let saving = saving.progress(progress.clone());
        let options = options.split(split.progress(progress));
        convert_named(&name, &output, &options, &saving)
    })?;
    dictionary(py, &report)
}

/// The options of [`append`], passed from Python as a dictionary.
#[derive(FromPyObject)]
pub(crate) struct AppendArguments {
    #[pyo3(item)]
    dtype: Option<String>,
    #[pyo3(item)]
    shape: Option<Vec<u64>>,
    #[pyo3(item)]
    lod: Vec<Vec<u64>>,
    #[pyo3(item)]
    program: Option<PathBuf>,
}

/// Appends a tensor to a file of Paddle parameters, in place. `tensor` is a NumPy file or, with a
/// shape in the arguments, the elements alone.
#[pyfunction]
pub(crate) fn append<'py>(
    py: Python<'py>,
    file: PathBuf,
    tensor: &Bound<'py, PyAny>,
    arguments: AppendArguments,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let input = Input::of(tensor)?;
    let dtype = arguments.dtype.map(|name| {
        let unknown = || PyValueError::new_err(format!("dtype: there is no type {name:?}"));
        DType::named(&name).ok_or_else(unknown)
    });
    let options = AppendOptions::new()
        .dtype(dtype.transpose()?)
        .shape(arguments.shape)
        .lod(arguments.lod)
        .program(arguments.program);
    let report = run(py, progress.as_ref(), from_ref(&file), |progress| {
        let (name, mut data): (_, Box<dyn Read>) = match input {
            Input::Path(path) => {
                let data = File::open(&path).map_err(|error| failed(&path, &error.into()))?;
                (path, Box::new(BufReader::new(data)))
            }
            Input::Reader(reader) => {
                let data = BufReader::new(PositionReader::new(reader));
                ("the tensor".into(), Box::new(data))
            }
        };
        let report = ops::append(&file, &name, &mut data, &options.progress(progress));
        report.map_err(|error| failed(error.file().unwrap_or(&file), &error))
    })?;
    dictionary(py, &report)
}
