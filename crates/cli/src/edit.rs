//! `protosplit remove`, `insert`, `strip` and `edit`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost_reflect::MessageDescriptor;
use proto_splitter::atomic::{AtomicFile, MadeFrom};
use proto_splitter::edit::{Changed, Changes};
use proto_splitter::formats::{ALL, Converted};
use proto_splitter::path::PathQuery;
use proto_splitter::record_file::ReadAt;
use proto_splitter::split::{Profile, Source as Message, SplitExt, SplitOptions};
use proto_splitter::{Error, ErrorKind, member_names};
use serde::Serialize;

use crate::Exit;
use crate::args::{EditArgs, EditingArgs, InsertArgs, RemoveArgs, StripArgs};
use crate::failure::Failure;
use crate::get;
use crate::harmless::one_line;
use crate::in_form::{InForm, Writing};
use crate::input::{self, CHUNKED, Form, Input, Opening, PLAIN, check_apart, prefix_of, shown};
use crate::new_value;
use crate::output::Output;
use crate::rewrite;
use crate::size;
use crate::split::note_removed;

#[derive(Debug, Serialize)]
struct Report {
    output: String,
    input: String,
    message_bytes: u64,
    output_bytes: u64,
    /// `None` if the message isn't in chunks.
    chunk_count: Option<usize>,
    removed: u64,
    inserted: u64,
    replaced: u64,
    stripped: u64,
    /// Size of the stripped values, in bytes.
    stripped_bytes: u64,
}

/// The report of a written file.
struct Made {
    path: PathBuf,
    bytes: u64,
    chunks: Option<usize>,
    /// Files of an earlier split that were removed, as requested.
    removed: Vec<String>,
    notes: Vec<String>,
}

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
    input::check_single_standard([&args.file, read.unwrap_or(Path::new(""))])?;
    let mut job = Job::open(&args.file, &args.editing, false, output)?;
    let query = job.query(&args.path)?;
    let value = match (&args.value.value, read) {
        (Some(text), _) => job.encoded(text, &query)?,
        (None, file) => job.read(file.unwrap_or(Path::new("")))?,
    };
    job.run(Changes::new().insert(query, value), output)
}

pub(crate) fn run_strip(args: &StripArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    // Files that are only needed for stripped values may be missing.
    let job = Job::open(&args.file, &args.editing, true, output)?;
    let changes = stripping(Changes::new(), args.what.over, args.what.tensors);
    job.run(changes, output)
}

pub(crate) fn run_edit(args: &EditArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
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
    let changes = stripping(changes, args.strip_over, args.strip_tensors);
    if changes.is_empty() {
        let message = "no change is asked for: --remove, --insert, --replace or --strip-over";
        return Err(Failure::usage(message));
    }
    job.run(changes, output)
}

fn stripping(changes: Changes, over: Option<u64>, tensors: bool) -> Changes {
    let changes = match over {
        Some(size) => changes.strip_values(size.saturating_add(1)),
        None => changes,
    };
    if tensors {
        changes.strip_tensors(ALL.tensor_rules())
    } else {
        changes
    }
}

/// A message to change, and how to write it.
struct Job<'a> {
    input: Input,
    args: &'a EditingArgs,
    /// The files with new values.
    values: Vec<PathBuf>,
}

/// A message that was read.
struct Read {
    message: Arc<dyn ReadAt>,
    /// Profile of chunked output.
    profile: Profile,
    /// True if the input embeds its schema, so that chunked output does too.
    has_schema: bool,
    files: Vec<PathBuf>,
    /// Form to write unless the output is a single file.
    in_form: Option<InForm>,
}

impl<'a> Job<'a> {
    fn open(
        file: &Path,
        args: &'a EditingArgs,
        is_looked_at: bool,
        output: &Output<'_>,
    ) -> Result<Self, Failure> {
        input::check_named(&args.output)?;
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
        PathQuery::parse(path, self.input.descriptor())
            .map_err(|error| self.failed(path, &error).into_usage())
    }

    /// Encodes a new value given as text.
    fn encoded(&self, text: &str, query: &PathQuery) -> Result<Arc<dyn ReadAt>, Failure> {
        let bytes = new_value::encode(text, query, self.input.descriptor())
            .map_err(|error| self.failed(query.as_str(), &error).into_usage())?;
        Ok(Arc::new(bytes))
    }

    /// Opens a file that contains a new value.
    fn read(&mut self, file: &Path) -> Result<Arc<dyn ReadAt>, Failure> {
        let value = new_value::read(file)?;
        self.values.push(file.to_owned());
        Ok(value.into())
    }

    fn message(&self) -> Result<Read, Failure> {
        let failed = |error: Error| Failure::of(self.input.file(), &error);
        let asked = self.args.form.to.as_deref();
        let read = |message, profile, has_schema| -> Result<Read, Failure> {
            Ok(Read {
                message,
                profile,
                has_schema,
                files: self.input.files().to_vec(),
                in_form: InForm::of(asked, &self.input, &self.args.output)?,
            })
        };
        let merged = self.input.merged().map_err(failed)?;
        match (self.input.chunked(), merged, self.input.plain()) {
            (Some(file), Some(merged), _) => {
                let profile = match file.trailer().metadata().extended_message {
                    Some(_) => Profile::Extended,
                    None => Profile::TensorFlow,
                };
                let has_schema = file.descriptor().map_err(failed)?.is_some();
                read(Arc::new(merged), profile, has_schema)
            }
            (.., Some((bytes, _))) => read(bytes.clone(), Profile::default(), false),
            _ => {
                let message = "tensors, and no message that could be changed";
                Err(failed(Error::new(ErrorKind::InvalidConfig, message)))
            }
        }
    }

    /// Returns whether to write chunks or one message.
    fn form(&self) -> Form {
        let extension = match self.input.folder() {
            Some(_) => None,
            None => self.args.output.extension(),
        };
        match extension.and_then(|extension| extension.to_str()) {
            Some(CHUNKED) => Form::Chunked,
            Some(PLAIN) => Form::Plain,
            _ if self.is_made_of_files() => Form::Chunked,
            _ => self.input.form(),
        }
    }

    /// Returns true if the message is assembled from several files: in one piece its type would be lost.
    fn is_made_of_files(&self) -> bool {
        let descriptor = self.input.descriptor();
        descriptor.is_some_and(|descriptor| {
            let name = descriptor.full_name();
            let format = ALL.of_type(name);
            format.is_some_and(|format| format.is_made_of_files(name))
        })
    }

    fn run(self, changes: Changes, output: &mut Output<'_>) -> Result<Exit, Failure> {
        let changes = changes.names(member_names());
        let form = self.form();
        rewrite::check_several(&self.args.out, &self.input, form)?;
        let Read {
            message,
            profile,
            has_schema,
            files,
            in_form,
        } = self.message()?;
        let read = files.iter().chain(&self.values);
        check_apart(read, &self.args.output)?;
        let changed = changes
            .apply(message, &self.input.reading_options())
            .map_err(|error| self.failed(error.path().unwrap_or_default(), &error))?;
        let progress = output.writing("writing");
        let descriptor = self.input.descriptor();
        let make = |target: &Path, force: bool| {
            let made = match (&in_form, form) {
                (Some(in_form), _) => {
                    let writing = Writing {
                        read: &files,
                        force,
                        threads: self.args.threads.threads,
                        progress: &progress,
                    };
                    in_form
                        .write(&changed, descriptor, target, &writing)
                        .map(|converted| Made::of(target, converted))
                }
                (None, Form::Plain) => plain(&changed, &files, target, force, &progress),
                (None, Form::Chunked) => {
                    let options = SplitOptions::new()
                        .max_chunk_size(self.args.max_chunk_size)
                        .value_chunk_size(self.args.value_chunk_size.0)
                        .max_file_size(self.args.out.max_file_size)
                        .compression(self.args.compression)
                        .profile(profile)
                        .embed_schema(has_schema)
                        .always_chunked(true)
                        .force(force)
                        .threads(self.args.threads.threads)
                        .progress(progress.clone());
                    chunked(&changed, descriptor, target, &options)
                }
            };
            made.map_err(|error| Failure::of(self.input.file(), &error))
        };
        let extension = match form {
            Form::Chunked => CHUNKED,
            Form::Plain => PLAIN,
        };
        let (folder, made) = rewrite::place(
            &self.input,
            &self.args.output,
            &self.args.out,
            extension,
            make,
            output,
        )?;
        note_removed(&made.removed, output);
        for note in &made.notes {
            output.note(note);
        }
        let report = Report {
            output: shown(folder.as_deref().unwrap_or(&made.path)),
            input: shown(self.input.file()),
            message_bytes: changed.message.total_size(),
            output_bytes: made.bytes,
            chunk_count: made.chunks,
            removed: changed.removed,
            inserted: changed.inserted,
            replaced: changed.replaced,
            stripped: changed.stripped,
            stripped_bytes: changed.stripped_bytes,
        };
        output.done(self.args.out.json, &report, |report, _| report.text())?;
        Ok(Exit::Done)
    }
}

impl Made {
    fn of(target: &Path, converted: Converted) -> Made {
        Made {
            path: target.to_owned(),
            bytes: converted.bytes,
            chunks: None,
            removed: Vec::new(),
            notes: converted.notes,
        }
    }
}

/// Writes the message in one piece, with permissions no wider than those of the input.
fn plain(
    changed: &Changed,
    read: &[PathBuf],
    target: &Path,
    force: bool,
    progress: &proto_splitter::progress::Progress,
) -> Result<Made, Error> {
    let out = AtomicFile::create(target, &MadeFrom::files(read), force)?;
    out.check_space(changed.message.total_size())?;
    let bytes = out.write(|mut sink| changed.write_to(&mut sink, progress))?;
    Ok(Made {
        path: target.to_owned(),
        bytes,
        chunks: None,
        removed: Vec::new(),
        notes: Vec::new(),
    })
}

/// Writes the message in chunks, with the splitter of its type.
fn chunked(
    changed: &Changed,
    descriptor: Option<&MessageDescriptor>,
    target: &Path,
    options: &SplitOptions,
) -> Result<Made, Error> {
    let Some(descriptor) = descriptor else {
        let message = "a message is cut into chunks by its type";
        return Err(Error::new(ErrorKind::SchemaNeeded, message));
    };
    let message = Message::from_spans(Arc::clone(&changed.message), descriptor.clone());
    let splitter = ALL.splitter(descriptor.full_name());
    let written = splitter.write_with(message, prefix_of(target), options)?;
    let removed = written.removed_files.iter();
    Ok(Made {
        removed: removed.map(|file| shown(file)).collect(),
        notes: Vec::new(),
        path: written.path,
        bytes: written.output_size,
        chunks: Some(written.chunks.len()),
    })
}

impl Report {
    fn text(&self) -> String {
        let mut done = Vec::new();
        for (count, what) in [
            (self.removed, "removed"),
            (self.inserted, "inserted"),
            (self.replaced, "replaced"),
        ] {
            if count > 0 {
                done.push(format!("{count} {what}"));
            }
        }
        if self.stripped > 0 {
            let bytes = size::show(self.stripped_bytes);
            done.push(format!("{} stripped of {bytes}", self.stripped));
        }
        if done.is_empty() {
            done.push("nothing to change".into());
        }
        let chunks = self.chunk_count.map_or(String::new(), |count| {
            format!(" in {}", size::count(count, "chunk"))
        });
        let (output, bytes) = (one_line(&self.output), size::show(self.message_bytes));
        format!("{output}: {bytes}{chunks}: {}\n", done.join(", "))
    }
}
