//! Splits, merges and verifications in parts, for many machines.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use proto_splitter::parts::{PartOptions, PartsPlan, PlanFile, PlanReport};
use proto_splitter::progress::Progress;
use protosplit_cli::{
    Failed, NameOptions, hide_secrets, object_stores, plan_merge_named, plan_split_named,
    plan_verify_named,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;

use crate::functions::SplitArguments;
use crate::reports::{dictionary, run};
use crate::work::threads as number_of_threads;

/// The full name of a message type, and a serialized `FileDescriptorSet` that contains the type.
/// Either is `None` if it isn't needed.
type MessageType = (Option<String>, Option<PyBackedBytes>);

fn names((message, schema): MessageType) -> NameOptions {
    let schema = schema.map(|schema| schema.to_vec());
    NameOptions::new().message(message).descriptor_set(schema)
}

/// Creates a plan, writes it to the file or object `place`, and returns its report.
fn planned(
    py: Python<'_>,
    place: &Path,
    plan: impl FnOnce(Progress) -> Result<PartsPlan, Failed> + Send,
) -> PyResult<PlanReport> {
    run(py, None, &[], |progress| {
        hide_secrets([place]);
        let options = PartOptions::new().objects(object_stores());
        PlanFile::check_place(place, &options)?;
        Ok(PlanFile::write(place, plan(progress)?, &options)?.report())
    })
}

/// Plans a split of a file, to be run in parts, and writes the plan.
#[pyfunction]
pub(crate) fn plan_split<'py>(
    py: Python<'py>,
    source: PathBuf,
    prefix: PathBuf,
    plan: PathBuf,
    r#type: MessageType,
    arguments: SplitArguments,
    parts: Option<NonZeroUsize>,
) -> PyResult<Bound<'py, PyDict>> {
    let (names, options) = (names(r#type), arguments.options(py)?);
    let report = planned(py, &plan, |progress| {
        let names = names.progress(progress.clone());
        let options = options.progress(progress);
        plan_split_named(&source, &prefix, &names, &options, parts)
    })?;
    dictionary(py, &report)
}

/// Plans a merge of a chunked file, to be run in parts, and writes the plan.
#[pyfunction]
pub(crate) fn plan_merge<'py>(
    py: Python<'py>,
    source: PathBuf,
    target: PathBuf,
    plan: PathBuf,
    r#type: MessageType,
    force: bool,
    parts: Option<NonZeroUsize>,
) -> PyResult<Bound<'py, PyDict>> {
    let names = names(r#type);
    let report = planned(py, &plan, |progress| {
        plan_merge_named(&source, &target, &names.progress(progress), force, parts)
    })?;
    dictionary(py, &report)
}

/// Plans a verification of a chunked file, to be run in parts, and writes the plan.
#[pyfunction]
pub(crate) fn plan_verify<'py>(
    py: Python<'py>,
    source: PathBuf,
    plan: PathBuf,
    r#type: MessageType,
    parts: Option<NonZeroUsize>,
) -> PyResult<Bound<'py, PyDict>> {
    let names = names(r#type);
    let report = planned(py, &plan, |progress| {
        plan_verify_named(&source, &names.progress(progress), parts)
    })?;
    dictionary(py, &report)
}

/// Reads a plan. Fails unless the plan is for the operation `verb`.
fn read(plan: &Path, verb: &str, options: &PartOptions) -> Result<PlanFile, Failed> {
    let file = PlanFile::read(plan, options)?;
    file.check_verb(verb)?;
    Ok(file)
}

/// Runs one part of a plan, and writes the part's report.
#[pyfunction]
pub(crate) fn run_part<'py>(
    py: Python<'py>,
    plan: (PathBuf, String),
    part: usize,
    report: Option<PathBuf>,
    threads: Option<usize>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (plan, verb) = plan;
    let options = PartOptions::new()
        .threads(number_of_threads(threads)?)
        .objects(object_stores());
    let done = run(py, progress.as_ref(), &[], |progress| {
        hide_secrets([&*plan].into_iter().chain(report.as_deref()));
        let options = options.progress(progress);
        let file = read(&plan, &verb, &options)?;
        Ok(file.run(part, report.as_deref(), &options)?)
    })?;
    dictionary(py, &done)
}

/// Completes a plan after all of its parts have run, and gives the result its final name. `reports`
/// are the paths of all parts' reports. If `reports` is empty, the reports are expected next to the
/// plan.
#[pyfunction]
pub(crate) fn commit<'py>(
    py: Python<'py>,
    plan: (PathBuf, String),
    reports: Vec<PathBuf>,
    reread: bool,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (plan, verb) = plan;
    let options = PartOptions::new().reread(reread).objects(object_stores());
    let done = run(py, progress.as_ref(), &[], |progress| {
        hide_secrets([&plan].into_iter().chain(&reports).map(|name| &**name));
        let options = options.progress(progress);
        Ok(read(&plan, &verb, &options)?.commit(&reports, &options)?)
    })?;
    dictionary(py, &done)
}
