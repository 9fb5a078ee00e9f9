//! The commands `protosplit remove`, `insert`, `strip` and `edit`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter::Error;
use proto_splitter::edit::Changes;
use proto_splitter::ops::{EditOptions, EditReport, Strip, edit, is_edited_in_chunks};
use proto_splitter::path::PathQuery;
use proto_splitter::record_file::ReadAt;
use proto_splitter::split::SplitOptions;

use crate::Exit;
use crate::args::{EditArgs, EditingArgs, InsertArgs, RemoveArgs, StripArgs};
use crate::display_name::shown;
use crate::failure::Failure;
use crate::get;
use crate::input::Input;
use crate::new_value;
use crate::opening::Opening;
use crate::output::Output;
use crate::place::{self, CHUNKED, PLAIN};
use crate::rewrite;
use crate::sanitize::one_line;
use crate::size;
use crate::split::note_removed;
use crate::target_form;

pub(crate) fn run_remove(args: &RemoveArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let job = Job::open(&args.file, &args.editing, false, output)?;
    let mut changes = Changes::new();
    for path in &args.paths {
        changes = changes.remove(job.query(path)?);
    }
    job.run(changes, output)
}

pub(crate) fn run_insert(args: &InsertArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let read = args.value.with.as_deref();
    place::check_single_standard(&[&args.file, read.unwrap_or(Path::new(""))])?;
    let mut job = Job::open(&args.file, &args.editing, false, output)?;
    let query = job.query(&args.path)?;
    let value = match (&args.value.value, read) {
        (Some(text), _) => job.encoded(text, &query)?,
        (None, file) => job.read(file.unwrap_or(Path::new("")))?,
    };
    job.run(Changes::new().insert(query, value), output)
}

pub(crate) fn run_strip(args: &StripArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    // Missing external files are allowed, since all of the values that refer to them may be
    // stripped.
    let job = Job::open(&args.file, &args.editing, true, output)?;
    let strip = Strip::new()
        .values_over(args.what.over)
        .tensors(args.what.tensors);
    let changes = strip.added_to(Changes::new(), &job.input);
    job.run(changes, output)
}

pub(crate) fn run_edit(args: &EditArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let values = args.insert_with.iter().chain(&args.replace_with);
    let mut read: Vec<&Path> = values.map(|(_, file)| Path::new(file)).collect();
    read.push(&args.file);
    place::check_single_standard(&read)?;
    let mut job = Job::open(&args.file, &args.editing, false, output)?;
    let mut changes = Changes::new();
    for path in &args.remove {
        changes = changes.remove(job.query(path)?);
    }
    for (path, text) in &args.insert {
        let query = job.query(path)?;
        let value = job.encoded(text, &query)?;
        changes = changes.insert(query, value);
    }
    for (path, file) in &args.insert_with {
        changes = changes.insert(job.query(path)?, job.read(Path::new(file))?);
    }
    for (path, text) in &args.replace {
        let query = job.query(path)?;
        let value = job.encoded(text, &query)?;
        changes = changes.replace(query, value);
    }
    for (path, file) in &args.replace_with {
        changes = changes.replace(job.query(path)?, job.read(Path::new(file))?);
    }
    let strip = Strip::new()
        .values_over(args.strip_over)
        .tensors(args.strip_tensors);
    let changes = strip.added_to(changes, &job.input);
    if changes.is_empty() {
        let message = "no change is requested: use --remove, --insert, --replace or --strip-over";
        return Err(Failure::usage(message));
    }
    job.run(changes, output)
}

/// The message to change, and the arguments for writing the output.
struct Job<'a> {
    input: Input,
    args: &'a EditingArgs,
    /// Files from which new values were read.
    values: Vec<PathBuf>,
}

impl<'a> Job<'a> {
    fn open(
        file: &Path,
        args: &'a EditingArgs,
        is_looked_at: bool,
        output: &Output<'_>,
    ) -> Result<Self, Failure> {
        place::check_named(&args.output)?;
        let input = Opening::of(&args.reading, output.objects())
            .looked_at(is_looked_at)
            .open(file)?;
        Ok(Job {
            input,
            args,
            values: Vec::new(),
        })
    }

    fn failed(&self, path: &str, error: &Error) -> Failure {
        get::failure(&self.input, path, error)
    }

    fn query(&self, path: &str) -> Result<PathQuery, Failure> {
        get::query(&self.input, path)
    }

    /// Encodes a new value, given as text, for the field that the query selects.
    fn encoded(&self, text: &str, query: &PathQuery) -> Result<Arc<dyn ReadAt>, Failure> {
        let bytes = new_value::encode(text, query, self.input.descriptor())
            .map_err(|error| self.failed(query.as_str(), &error).into_usage())?;
        Ok(Arc::new(bytes))
    }

    /// Opens a file that contains a new value.
    fn read(&mut self, file: &Path) -> Result<Arc<dyn ReadAt>, Failure> {
        let value = new_value::read(file)?;
        self.values.extend(new_value::file(file));
        Ok(value.into())
    }

    /// Returns the extension of the output file: `cpb` for a chunked output, otherwise `pb`.
    fn extension(&self) -> &'static str {
        let named = match self.input.folder() {
            Some(_) => Path::new(""),
            None => &self.args.output,
        };
        if is_edited_in_chunks(&self.input, named) {
            CHUNKED
        } else {
            PLAIN
        }
    }

    fn run(self, changes: Changes, output: &mut Output<'_>) -> Result<Exit, Failure> {
        let extension = self.extension();
        let (args, input) = (self.args, &self.input.reading(self.values));
        let asked = target_form::requested(args.form.to.as_deref(), input, &args.output)?;
        rewrite::check_several(&args.out, input, extension, asked)?;
        input.check_apart(&args.output)?;
        let split = SplitOptions::new()
            .max_chunk_size(args.max_chunk_size)
            .value_chunk_size(args.value_chunk_size.0)
            .max_file_size(args.out.max_file_size)
            .compression(args.compression);
        let options = EditOptions::new()
            .split(split)
            .form(asked)
            .threads(args.threads.threads)
            .progress(output.writing("writing"));
        let make = |target: &Path, force: bool| {
            let options = options.clone().force(force);
            edit(input, changes.clone(), target, &options)
                .map_err(|error| get::failure(input, error.path().unwrap_or_default(), &error))
        };
        let saving = rewrite::saving(&args.out, &args.output);
        let (path, mut report) = saving.place(input.folder(), extension, make, output)?;
        if let Some(path) = path {
            report.output = path;
        }
        note_removed(&report.removed_files, output);
        for note in &report.notes {
            output.note(note);
        }
        output.done(args.out.json, &report, |report, _| text(report))
    }
}

fn text(report: &EditReport) -> String {
    let mut done = Vec::new();
    for (count, what) in [
        (report.removed, "removed"),
        (report.inserted, "inserted"),
        (report.replaced, "replaced"),
    ] {
        if count > 0 {
            done.push(format!("{count} {what}"));
        }
    }
    if report.stripped > 0 {
        let bytes = size::show(report.stripped_bytes);
        done.push(format!("{} stripped of {bytes}", report.stripped));
    }
    if done.is_empty() {
        done.push("nothing to change".into());
    }
    let chunks = report.chunk_count.map_or(String::new(), |count| {
        format!(" in {}", size::count(count, "chunk"))
    });
    let output = one_line(&shown(&report.output));
    let bytes = size::show(report.message_bytes);
    format!("{output}: {bytes}{chunks}: {}\n", done.join(", "))
}
