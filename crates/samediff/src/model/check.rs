//! Checking a model for consistency.

use std::collections::{HashMap, HashSet};

use proto_splitter_core::progress::{Meter, Progress};

use super::{ArrayFile, Arrays, Model, TagView};
use crate::layout;
use crate::tag::fold;
use crate::{ArrayInfo, Error, ErrorKind, Graph, Result, SameDiffVariable, VarType};

/// Options for [`Model::check`].
#[derive(Clone, Debug)]
pub struct CheckOptions {
    contents: bool,
    progress: Progress,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions::new()
    }
}

impl CheckOptions {
    /// Returns the defaults; each setter documents its default.
    #[must_use]
    pub const fn new() -> Self {
        CheckOptions {
            contents: true,
            progress: Progress::none(),
        }
    }

    proto_splitter_core::options! {
        /// Sets whether to read every entry to its end, which verifies its checksum. Default: true.
        const contents, get_contents: bool;

        /// Sets the progress listener, which can also cancel the check. Default: none.
        ref progress, get_progress: Progress;
    }
}

/// The result of [`Model::check`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Errors that make the model wholly or partly unusable.
    pub errors: Vec<Error>,
    /// Descriptions of harmless irregularities.
    pub warnings: Vec<String>,
    /// Number of tags checked.
    pub tags: u64,
    /// Number of arrays checked. If several tags share an array, it counts once.
    pub arrays: u64,
    /// Number of bytes read in order to verify checksums.
    pub bytes: u64,
}

impl Report {
    /// Returns the first error, if the check found any, and otherwise the report.
    ///
    /// # Errors
    ///
    /// The first error in [`errors`](Self::errors).
    pub fn into_result(mut self) -> Result<Report> {
        if self.errors.is_empty() {
            Ok(self)
        } else {
            Err(self.errors.swap_remove(0))
        }
    }
}

impl Model {
    /// Checks the whole model: its lists, its graphs, its arrays, and the checksums of all entries.
    /// Continues after most errors, in order to report further errors, too.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be read; [`ErrorKind::Cancelled`] if the check was
    /// cancelled.
    pub fn check(&self, options: &CheckOptions) -> Result<Report> {
        let mut checker = Checker {
            model: self,
            report: Report::default(),
            infos: HashMap::new(),
            referenced: HashSet::new(),
            has_unread: false,
        };
        checker.check_names();
        for tag in self.tags() {
            options.progress.check()?;
            checker.check_tag(tag)?;
        }
        checker.check_unreferenced();
        if options.contents {
            checker.check_contents(&options.progress)?;
        }
        let Checker {
            mut report, infos, ..
        } = checker;
        report.tags = self.tags.len() as u64;
        report.arrays = infos.len() as u64;
        Ok(report)
    }
}

struct Checker<'m> {
    model: &'m Model,
    report: Report,
    /// Description of each array opened so far; `None` if the array can't be opened.
    infos: HashMap<ArrayFile, Option<ArrayInfo>>,
    /// Files to which the lists read so far refer.
    referenced: HashSet<ArrayFile>,
    /// True if a list couldn't be read, so that it is unknown to which files it refers.
    has_unread: bool,
}

impl<'m> Checker<'m> {
    /// Adds an error in the model to the report. Fails with the given error if it is an I/O error
    /// or a cancellation, which ends the check.
    fn note(&mut self, error: Error) -> Result<()> {
        match error.kind() {
            ErrorKind::Io | ErrorKind::Cancelled => Err(error),
            _ => {
                self.report.errors.push(error);
                Ok(())
            }
        }
    }

    fn take<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.note(error).map(|()| None),
        }
    }

    fn warn(&mut self, warning: String) {
        self.report.warnings.push(warning);
    }

    /// Warns about entries that the format doesn't define.
    fn check_names(&mut self) {
        let directory = self.model.archive.directory();
        if directory
            .first()
            .is_some_and(|record| *record.name != *layout::TAGS)
        {
            self.warn("tags.txt is not the first entry".to_owned());
        }
        let mut strange = HashSet::new();
        for (_, record) in directory.files() {
            let name = &*record.name;
            if self.model.knows(name) {
                continue;
            }
            let folder = name.split_once('/');
            let folder = folder.filter(|(_, path)| layout::is_known(path));
            match folder {
                Some((folder, _)) if self.model.tag_index(folder).is_none() => {
                    if strange.insert(fold(folder)) {
                        self.warn(format!(
                            "{folder}: looks like a tag, but tags.txt has no such tag"
                        ));
                    }
                }
                _ => self.warn(format!("{name}: the format does not know this entry")),
            }
        }
    }

    fn check_tag(&mut self, tag: TagView<'m>) -> Result<()> {
        let graph = self.take(tag.graph())?;
        if let Some(parameters) = self.list(tag.parameters())? {
            self.check_parameters(tag, graph.as_ref(), &parameters)?;
        }
        if let Some(states) = self.list(tag.updater_states())? {
            self.check_states(graph.as_ref(), &states)?;
        }
        Ok(())
    }

    /// Does the same as [`take`](Self::take), and remembers to which files the list refers.
    fn list(&mut self, list: Result<Arrays<'m>>) -> Result<Option<Arrays<'m>>> {
        let list = self.take(list)?;
        match &list {
            Some(list) => self
                .referenced
                .extend(list.iter().flat_map(|(_, files)| files)),
            None => self.has_unread = true,
        }
        Ok(list)
    }

    fn check_parameters(
        &mut self,
        tag: TagView<'m>,
        graph: Option<&Graph>,
        parameters: &Arrays<'m>,
    ) -> Result<()> {
        let by_name = graph.map(|graph| (graph, graph.by_name()));
        for (name, files) in parameters.iter() {
            let at = |error: Error| {
                let line = parameters.line(name).unwrap_or(0);
                error.in_entry(parameters.list_name()).on_line(line)
            };
            let variable = match &by_name {
                None => None,
                Some((graph, by_name)) => match by_name.get(name) {
                    Some(&index) => Some(&graph.variables[index]),
                    None => {
                        let message = format!("{name:?} is not a variable of the graph");
                        self.note(at(Error::new(ErrorKind::UnexpectedParameter, message)))?;
                        None
                    }
                },
            };
            if let Some(variable) = variable.filter(|variable| !variable.kind.has_values()) {
                let message = format!(
                    "{name:?} is of the kind {}, which has no values",
                    variable.kind
                );
                self.note(at(Error::new(ErrorKind::UnexpectedParameter, message)))?;
                continue;
            }
            for file in files {
                let info = self.info(parameters, *file)?;
                if let (Some(variable), Some(info)) = (variable, info) {
                    if info.element_count() == 0
                        && variable.dtype.is_some_and(|dtype| dtype != info.dtype())
                    {
                        // This is only a warning: DL4J has written empty arrays of another type,
                        // and they can't be misread.
                        let entry = parameters.entry_name(file);
                        self.warn(format!(
                            "{entry}: the empty array is of type {}, but {name:?} is of another",
                            info.dtype()
                        ));
                    }
                    let fits = check_fits(variable, &info);
                    let fits = fits.map_err(|error| error.in_entry(parameters.entry_name(file)));
                    self.take(fits)?;
                }
            }
        }
        let Some((graph, _)) = by_name else {
            return Ok(());
        };
        for variable in graph
            .variables
            .iter()
            .filter(|variable| variable.kind.has_values())
        {
            if parameters.get(&variable.name).is_none() {
                let message = format!(
                    "the {} {:?} of the graph has no line",
                    variable.kind.to_string().to_lowercase(),
                    variable.name
                );
                let error = Error::new(ErrorKind::MissingParameter, message);
                self.note(error.in_entry(tag.entry_name(layout::PARAMS)))?;
            }
        }
        Ok(())
    }

    fn check_states(&mut self, graph: Option<&Graph>, states: &Arrays<'m>) -> Result<()> {
        let by_name = graph.map(|graph| (graph, graph.by_name()));
        for (name, files) in states.iter() {
            let line = states.line(name).unwrap_or(0);
            let place = format!("{}: line {line}", states.list_name());
            let variable = by_name.as_ref().and_then(|(graph, by_name)| {
                let index = by_name.get(name)?;
                Some(&graph.variables[*index])
            });
            match variable {
                None if graph.is_some() => {
                    self.warn(format!("{place}: {name:?} is not a variable of the graph"));
                }
                Some(variable) if variable.kind != VarType::Variable => {
                    let message = format!(
                        "{name:?} is of the kind {}, which is not trained",
                        variable.kind
                    );
                    let error = Error::new(ErrorKind::UnexpectedParameter, message);
                    self.note(error.in_entry(states.list_name()).on_line(line))?;
                }
                _ => {}
            }
            for file in files {
                let info = self.info(states, *file)?;
                if let (Some(variable), Some(info)) = (variable, info)
                    && check_shape(variable, &info).is_err()
                {
                    let entry = states.entry_name(file);
                    self.warn(format!(
                        "{entry}: a state of {name:?} has the shape {:?}, but the variable has another",
                        info.shape()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the description of an array; `None` if it can't be opened. Opens each array only
    /// once.
    fn info(&mut self, arrays: &Arrays<'m>, file: ArrayFile) -> Result<Option<ArrayInfo>> {
        if let Some(known) = self.infos.get(&file) {
            return Ok(known.clone());
        }
        let array = self.take(arrays.open(&file))?;
        let info = array.map(|array| array.info().clone());
        self.infos.insert(file, info.clone());
        Ok(info)
    }

    fn check_unreferenced(&mut self) {
        if self.has_unread {
            return;
        }
        let model = self.model;
        for (_, _, _, index) in model.array_files() {
            if !self.referenced.contains(&ArrayFile(index)) {
                let name = &model.archive.record(index).name;
                self.warn(format!("{name}: nothing refers to this file"));
            }
        }
    }

    fn check_contents(&mut self, progress: &Progress) -> Result<()> {
        let archive = &self.model.archive;
        let total = archive
            .directory()
            .files()
            .map(|(_, record)| record.len)
            .sum();
        let meter: Meter = progress.meter(total);
        // Skips entries whose damage was already reported.
        let damaged = self.report.errors.iter().filter(|error| {
            let kind = error.kind();
            matches!(
                kind,
                ErrorKind::ChecksumMismatch | ErrorKind::DamagedArchive
            )
        });
        let damaged = damaged.filter_map(|error| error.entry().map(str::to_owned));
        let damaged: HashSet<String> = damaged.collect();
        for (index, record) in archive.directory().files() {
            if damaged.contains(&*record.name) {
                meter.advance(record.len)?;
                continue;
            }
            let mut bytes = 0;
            let checked = archive.check(index, |read| {
                bytes += read;
                Ok(meter.advance(read)?)
            });
            self.report.bytes += bytes;
            let checked = checked.map_err(|error| self.model.named(error.in_entry(&record.name)));
            self.take(checked)?;
        }
        Ok(())
    }
}

/// Fails unless an array with this description can be the value of a variable.
pub(crate) fn check_fits(variable: &SameDiffVariable, info: &ArrayInfo) -> Result<()> {
    let wanted = variable.dtype.filter(|_| info.element_count() > 0);
    if let Some(dtype) = wanted.filter(|&dtype| dtype != info.dtype()) {
        let message = format!(
            "the array is of type {}, but {:?} is of type {dtype} in the graph",
            info.dtype(),
            variable.name
        );
        return Err(Error::new(ErrorKind::ArrayMismatch, message));
    }
    check_shape(variable, info)
}

/// Fails unless the shape of a variable in the graph permits an array's shape. In the graph, -1
/// means that a dimension can have any length.
fn check_shape(variable: &SameDiffVariable, info: &ArrayInfo) -> Result<()> {
    let Some(shape) = &variable.shape else {
        return Ok(());
    };
    let same = shape.len() == info.shape().len()
        && shape
            .iter()
            .zip(info.shape())
            .all(|(&wanted, &dim)| wanted < 0 || u64::try_from(wanted) == Ok(dim));
    if same {
        return Ok(());
    }
    let message = format!(
        "the array has the shape {:?}, but {:?} has the shape {shape:?} in the graph",
        info.shape(),
        variable.name
    );
    Err(Error::new(ErrorKind::ArrayMismatch, message))
}
