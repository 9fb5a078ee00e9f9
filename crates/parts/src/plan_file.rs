//! A plan in a file or an object, together with the reports of its parts.

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::commit_report::CommitReport;
use super::finished_part::FinishedPart;
use super::format::{DEFAULT_MAX_PLAN_SIZE, read_file, write_file};
use super::objects::{Objects, found};
use super::options::PartOptions;
use super::plan::PartsPlan;
use super::plan_report::PlanReport;
use super::report::PartReport;
use proto_splitter_core::threads;
use proto_splitter_core::{Error, ErrorKind, Result};

/// Number of reports to read at once. Reading several is faster, since each object needs a round
/// trip.
const READ_AT_ONCE: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// A plan in a file that all hosts see, together with the reports of its parts, which are also
/// files.
///
/// With [access to stores](PartOptions::objects), a URL names an object instead of a file.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use proto_splitter_core::merge::ReadOptions;
/// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
/// use proto_splitter_parts::{PartOptions, PartsPlan, PlanFile};
/// # let folder = tempfile::tempdir()?;
/// # let (prefix, path) = (folder.path().join("m"), folder.path().join("plan"));
/// # let message = proto_splitter_core::prost_reflect::prost_types::FileDescriptorProto {
/// #     name: Some("n".repeat(5000)), ..Default::default() };
/// # let splitting = SplitOptions::new().max_chunk_size(1000);
/// # let written = SizeSplitter.write_with(&message, &prefix, &splitting)?;
///
/// let options = PartOptions::new();
/// let two = NonZeroUsize::new(2).unwrap();
/// let plan = PartsPlan::verify(&written.path, &ReadOptions::new(), two)?;
/// let file = PlanFile::write(&path, plan, &options)?;
/// for part in 0..file.plan().parts() {
///     // Each part may run on another host.
///     PlanFile::read(&path, &options)?.run(part, None, &options)?;
/// }
/// let report = file.commit(&[], &options)?;
/// assert!(report.problems.is_empty());
/// assert_eq!(report.byte_exact, Some(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PlanFile {
    path: PathBuf,
    plan: PartsPlan,
}

impl PlanFile {
    /// Fails if a plan can't be written to `path`, since this would replace something else. Planning
    /// a merge creates a file of the size of the message, so this is best called before.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if the file or object exists and isn't a plan; any error from
    /// reading it.
    pub fn check_place(path: impl AsRef<Path>, options: &PartOptions) -> Result<()> {
        let parse = |bytes: Vec<u8>| PartsPlan::from_bytes(bytes).map(drop);
        check_replaces(path.as_ref(), ("a plan", parse), options)
    }

    /// Writes a plan to a file or object, and replaces an existing plan. The new plan rejects the
    /// reports of the old plan, which have a different id.
    ///
    /// # Errors
    ///
    /// The errors of [`PartsPlan::write`] and [`check_place`](Self::check_place), and any error from
    /// the store.
    pub fn write(
        path: impl Into<PathBuf>,
        plan: PartsPlan,
        options: &PartOptions,
    ) -> Result<PlanFile> {
        let path = path.into();
        PlanFile::check_place(&path, options)?;
        match found(&path, options.objects.as_ref())? {
            Some((name, objects)) => put(name, &**objects, &plan.to_bytes())?,
            None => {
                let written = plan.write(&path, true);
                written.map_err(|error| error.in_file_unless_named(&path))?;
            }
        }
        Ok(PlanFile { path, plan })
    }

    /// Reads a plan from a file or object.
    ///
    /// # Errors
    ///
    /// The errors of [`PartsPlan::read`], and any error from the store;
    /// [`ErrorKind::InvalidConfig`] if the object doesn't exist.
    pub fn read(path: impl Into<PathBuf>, options: &PartOptions) -> Result<PlanFile> {
        let path = path.into();
        let plan = match found(&path, options.objects.as_ref())? {
            Some((name, objects)) => {
                PartsPlan::from_bytes(get(name, &**objects)?.ok_or_else(|| no_object(name))?)
            }
            None => PartsPlan::read(&path),
        };
        let plan = plan.map_err(|error| error.in_file_unless_named(&path))?;
        Ok(PlanFile { path, plan })
    }

    /// Returns the path or the URL of the plan.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the plan.
    pub fn plan(&self) -> &PartsPlan {
        &self.plan
    }

    /// Returns a report on the plan, to be shown to the user.
    pub fn report(&self) -> PlanReport {
        PlanReport::new(&self.path, &self.plan)
    }

    /// Fails unless `verb` is the operation of the plan: `split`, `merge` or `verify`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the plan has another operation.
    pub fn check_verb(&self, verb: &str) -> Result<()> {
        let planned = self.plan.verb();
        if planned == verb {
            return Ok(());
        }
        let path = self.path.display();
        let message = format!("{path}: the plan of a {planned}, not of a {verb}");
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }

    /// Returns the default path or URL of a part's report: the plan's path or URL with an ending
    /// such as `.00017.report`.
    pub fn report_path(&self, part: usize) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{part:05}.report"));
        name.into()
    }

    /// Runs the part with index `part`, counted from 0. Writes its report to `report` or, by
    /// default, to [`report_path`](Self::report_path). Replaces an existing report, which is from
    /// an earlier run. A new file gets no permissions that the input lacks.
    ///
    /// # Errors
    ///
    /// The errors of [`PartsPlan::run`] and [`PartReport::write`], and any error from the store;
    /// [`ErrorKind::AlreadyExists`] if `report` exists and isn't the report of a part.
    pub fn run(
        &self,
        part: usize,
        report: Option<&Path>,
        options: &PartOptions,
    ) -> Result<FinishedPart> {
        if let Some(path) = report {
            let parse = |bytes: Vec<u8>| PartReport::from_bytes(&bytes).map(drop);
            check_replaces(path, ("the report of a part", parse), options)?;
        }
        let path = report.map_or_else(|| self.report_path(part), Path::to_owned);
        let place = found(&path, options.objects.as_ref())?;
        let input = self.plan.files().0;
        let done = self.plan.run(part, options);
        let done = done.map_err(|error| error.in_file_unless_named(input))?;
        match place {
            Some((name, objects)) => put(name, &**objects, &done.to_bytes())?,
            None => {
                let written = write_file(&path, &done.to_bytes(), &self.plan.made_from(), true);
                written.map_err(|error| error.in_file_unless_named(&path))?;
            }
        }
        Ok(FinishedPart::new(&self.plan, &done, path))
    }

    /// Commits the plan, like [`PartsPlan::commit`], with the reports at these paths or URLs. If
    /// `reports` is empty, uses the reports at their [default paths](Self::report_path).
    ///
    /// # Errors
    ///
    /// The errors of [`PartReport::read`] and [`PartsPlan::commit`], and any error from the store.
    pub fn commit(&self, reports: &[PathBuf], options: &PartOptions) -> Result<CommitReport> {
        let reports = if reports.is_empty() {
            let all = (0..self.plan.parts()).map(|part| self.report_path(part));
            // If reports are missing, the error of the commit names their parts.
            read_reports(&all.collect::<Vec<_>>(), false, options)?
        } else {
            read_reports(reports, true, options)?
        };
        let committed = self.plan.commit(&reports, options);
        let committed = committed.map_err(|error| error.in_file_unless_named(&self.path))?;
        Ok(CommitReport::new(&self.plan, &committed))
    }
}

/// Reads the reports at these paths or URLs. A missing report is an error if `all` is true, and
/// skipped otherwise.
fn read_reports(paths: &[PathBuf], all: bool, options: &PartOptions) -> Result<Vec<PartReport>> {
    let read = |path: &PathBuf| -> Result<Option<PartReport>> {
        let report = match found(path, options.objects.as_ref())? {
            Some((name, objects)) => match get(name, &**objects)? {
                Some(bytes) => PartReport::from_bytes(&bytes),
                None if all => return Err(no_object(name)),
                None => return Ok(None),
            },
            None if !all && !path.is_file() => return Ok(None),
            None => PartReport::read(path),
        };
        let report = report.map_err(|error| error.in_file_unless_named(path))?;
        Ok(Some(report))
    };
    let found = threads::map(READ_AT_ONCE, paths.len(), |at| {
        options.progress.check()?;
        paths.get(at).map_or(Ok(None), read)
    })?;
    Ok(found.into_iter().flatten().collect())
}

/// Fails if `path` names an existing file or object that isn't `expected`, such as "a plan".
/// `parse` fails for any other content.
fn check_replaces(
    path: &Path,
    (expected, parse): (&str, impl FnOnce(Vec<u8>) -> Result<()>),
    options: &PartOptions,
) -> Result<()> {
    let there = match found(path, options.objects.as_ref())? {
        Some((name, objects)) => get(name, &**objects),
        // Writing refuses to replace anything but a regular file.
        None if !path.is_file() => Ok(None),
        None => read_file(path).map(Some),
    };
    let is_other = match there {
        Ok(there) => there.is_some_and(|bytes| parse(bytes).is_err()),
        Err(error) if error.kind() == ErrorKind::LimitExceeded => true,
        Err(error) => return Err(error),
    };
    if !is_other {
        return Ok(());
    }
    let path = path.display();
    let message = format!("{path} is there already, and is not {expected}");
    Err(Error::new(ErrorKind::AlreadyExists, message))
}

/// Reads an object. Fails if it is larger than a plan or a report may be. Returns `None` if the
/// object doesn't exist.
fn get(name: &str, objects: &dyn Objects) -> Result<Option<Vec<u8>>> {
    let object = match objects.open(name) {
        Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => return Ok(None),
        opened => opened?,
    };
    let size = object.source.size()?;
    let len = usize::try_from(size).ok();
    let Some(len) = len.filter(|_| size <= DEFAULT_MAX_PLAN_SIZE) else {
        let message = format!("{name}: the object has more than {DEFAULT_MAX_PLAN_SIZE} bytes");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    };
    let mut bytes = vec![0; len];
    object.source.read_exact_at(0, &mut bytes)?;
    Ok(Some(bytes))
}

/// Writes a small object, and replaces an existing one.
fn put(name: &str, objects: &dyn Objects, bytes: &[u8]) -> Result<()> {
    objects.put(name, &mut &bytes[..], bytes.len() as u64, true)
}

fn no_object(name: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, format!("{name}: no such object"))
}
