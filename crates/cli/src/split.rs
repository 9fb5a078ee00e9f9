//! `protosplit split`.

use std::fs;
use std::path::{Path, PathBuf};

use prost_reflect::MessageDescriptor;
use proto_splitter::SaveOptions;
use proto_splitter::directory::rebuild;
use proto_splitter::path::FieldPath;
use proto_splitter::split::{
    ComposableSplitter, Profile, Source, SplitOptions, SplitPlan, Written, WrittenFile,
};
use serde::Serialize;

use crate::Exit;
use crate::args::SplitArgs;
use crate::failure::Failure;
use crate::fingerprint::note_refusal;
use crate::input::{
    self, CHUNKED, Form, Input, PLAIN, STANDARD, check_file, prefix_of, with_extension,
};
use crate::output::Output;
use crate::size;
use crate::table::{Align, Table};
use crate::types::{SAVED_MODEL_STEM, Splitter, Types};

/// What was split, or would be.
#[derive(Debug, Serialize)]
struct Report {
    /// The file; none if that is left open.
    output: Option<String>,
    split: bool,
    byte_exact: bool,
    message: String,
    source_bytes: u64,
    output_bytes: Option<u64>,
    chunks: Vec<Chunk>,
    dry_run: bool,
    /// Whether the file was written: not if it is the input itself.
    written: bool,
    /// A file in the way that was removed.
    removed: Option<String>,
    /// Files of an earlier split in several that were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed_files: Vec<String>,
    /// The other files that chunks are in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<OtherFile>,
}

/// A file beside the main one.
#[derive(Debug, Serialize)]
pub(crate) struct OtherFile {
    file: String,
    bytes: u64,
    chunks: usize,
}

impl From<&WrittenFile> for OtherFile {
    fn from(file: &WrittenFile) -> Self {
        OtherFile {
            file: shown_file(&file.path),
            bytes: file.size,
            chunks: file.chunks,
        }
    }
}

#[derive(Debug, Serialize)]
struct Chunk {
    index: u64,
    kind: String,
    path: String,
    size: u64,
    stored_size: Option<u64>,
    compression: Option<String>,
    /// Which of `files` it is in, counted from 1; none: the file itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<usize>,
    position: Option<u64>,
}

pub(crate) fn run(args: &SplitArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    if let Some(prefix) = &args.output {
        input::check_named(prefix)?;
    }
    let job = if args.input == Path::new(STANDARD) {
        Job::of_standard_input(args, output)?
    } else {
        let metadata =
            fs::metadata(&args.input).map_err(|error| Failure::io(&args.input, &error))?;
        if metadata.is_dir() {
            Job::of_folder(args, output)?
        } else {
            check_file(&args.input, &metadata)?;
            Job::of_file(args, output)?
        }
    };
    let report = if args.dry_run {
        job.dry_run(args)?
    } else {
        job.write(args, output)?
    };
    if let Some(removed) = &report.removed {
        output.note(format_args!("removed {removed}, which was in the way"));
    }
    note_removed(&report.removed_files, output);
    output.report(args.json, &report, |report, _| report.text(args))?;
    Ok(Exit::Done)
}

/// A message to be split, and where to.
struct Job {
    file: PathBuf,
    source: Source,
    splitter: Splitter,
    options: SplitOptions,
    /// None if nothing is to be written and the place was left open.
    prefix: Option<PathBuf>,
    is_folder: bool,
    /// What came in on standard input, as long as its file is named.
    _kept: Option<Input>,
}

impl Job {
    fn of_file(args: &SplitArgs, output: &Output<'_>) -> Result<Job, Failure> {
        let name = args.input.display();
        if input::form_of(&args.input)? == Form::Chunked {
            return Err(Failure::usage(format!(
                "{name}: split already; `protosplit merge` makes a .{PLAIN} of it"
            )));
        }
        let prefix = match &args.output {
            Some(output) if output.is_dir() => {
                let hint = "a folder, but for a file the output is a prefix, as in";
                let stem = args.input.file_stem().unwrap_or_default();
                let prefix = output.join(stem);
                return Err(Failure::usage(format!(
                    "{}: {hint} {}",
                    output.display(),
                    prefix.display()
                )));
            }
            Some(output) => prefix_of(output),
            None => args.input.with_extension(""),
        };
        Job::new(args, args.input.clone(), Some(prefix), false, output)
    }

    fn of_standard_input(args: &SplitArgs, output: &Output<'_>) -> Result<Job, Failure> {
        let refuse = |why| Err(Failure::usage(format!("standard input: {why}")));
        let Some(prefix) = &args.output else {
            return refuse("it has no name to call the output by: -o OUTPUT");
        };
        let input = input::find(&args.input)?;
        if input.form == Form::Chunked {
            return refuse("split already");
        }
        let prefix = Some(prefix_of(prefix));
        let job = Job::new(args, input.file.clone(), prefix, false, output)?;
        Ok(Job {
            _kept: Some(input),
            ..job
        })
    }

    fn of_folder(args: &SplitArgs, output: &Output<'_>) -> Result<Job, Failure> {
        let name = args.input.display();
        let prefix = args.input.join(SAVED_MODEL_STEM);
        let [chunked, plain] = [CHUNKED, PLAIN].map(|extension| with_extension(&prefix, extension));
        let refuse = |why: String| Err(Failure::usage(format!("{name}: {why}")));
        match (chunked.is_file(), plain.is_file()) {
            (false, true) if input::form_of(&plain)? == Form::Chunked => {
                return refuse(format!(
                    "split already: its {SAVED_MODEL_STEM}.{PLAIN} is in chunks"
                ));
            }
            (false, true) => {}
            (false, false) => {
                return refuse(format!(
                    "no SavedModel: {SAVED_MODEL_STEM}.{PLAIN} isn't in it"
                ));
            }
            (true, false) => {
                return refuse(format!(
                    "split already: it has a {SAVED_MODEL_STEM}.{CHUNKED}"
                ));
            }
            (true, true) => {
                return refuse(format!(
                    "both {SAVED_MODEL_STEM}.{PLAIN} and {SAVED_MODEL_STEM}.{CHUNKED} are in it"
                ));
            }
        }
        if args.output.is_none() && !args.dry_run {
            return refuse("a folder, and needs a new one to be split to: -o OUTPUT".into());
        }
        let prefix = args
            .output
            .as_ref()
            .map(|output| output.join(SAVED_MODEL_STEM));
        Job::new(args, plain, prefix, true, output)
    }

    fn new(
        args: &SplitArgs,
        file: PathBuf,
        prefix: Option<PathBuf>,
        is_folder: bool,
        output: &Output<'_>,
    ) -> Result<Job, Failure> {
        let descriptor = descriptor(args, &file)?;
        let extended = args.profile == Profile::Extended;
        if args.max_file_size.is_some() && !extended {
            let message =
                "--max-file-size: TensorFlow reads a single file: only with --profile extended";
            return Err(Failure::usage(message));
        }
        if is_folder && extended {
            let message = "the folder of a SavedModel is for TensorFlow, which reads no --profile extended: give its file";
            return Err(Failure::usage(format!(
                "{}: {message}",
                args.input.display()
            )));
        }
        let options = SplitOptions::new()
            .max_chunk_size(args.max_chunk_size)
            .max_value_size(args.max_value_size)
            .max_file_size(args.max_file_size)
            .profile(args.profile)
            .value_chunk_size(args.value_chunk_size.0)
            .depth_limit(args.depth.max_depth)
            .compression(args.compression)
            .force(args.force)
            .embed_schema(args.embed_schema)
            .threads(args.threads.threads)
            .progress(output.writing("splitting"));
        let splitter = Splitter::of(&descriptor);
        let source = Source::open(&file, descriptor).map_err(|error| Failure::of(&file, &error))?;
        Ok(Job {
            file,
            source,
            splitter,
            options,
            prefix,
            is_folder,
            _kept: None,
        })
    }

    fn dry_run(&self, args: &SplitArgs) -> Result<Report, Failure> {
        let plan = self.splitter.plan(&self.source, &self.options);
        let plan = plan.map_err(|error| Failure::of(&self.file, &error))?;
        let extension = if plan.is_split() { CHUNKED } else { PLAIN };
        let output = self
            .prefix
            .as_deref()
            .map(|prefix| with_extension(prefix, extension));
        let written = output
            .as_deref()
            .is_some_and(|output| !same_file(output, &args.input));
        Ok(self.report_plan(&plan, output, written))
    }

    fn report_plan(&self, plan: &SplitPlan, output: Option<PathBuf>, written: bool) -> Report {
        let chunks = plan.chunks().iter().zip(0..).map(|(chunk, index)| Chunk {
            index,
            kind: chunk.kind().to_string(),
            path: self.path(chunk.path()),
            size: chunk.size(),
            stored_size: None,
            compression: None,
            file: None,
            position: None,
        });
        Report {
            output: output.as_deref().map(shown_file),
            split: plan.is_split(),
            byte_exact: plan.byte_exact(),
            message: self.source.descriptor().full_name().to_owned(),
            source_bytes: plan.source_size(),
            output_bytes: None,
            chunks: if plan.is_split() {
                chunks.collect()
            } else {
                Vec::new()
            },
            dry_run: true,
            written,
            removed: None,
            removed_files: Vec::new(),
            files: Vec::new(),
        }
    }

    fn write(&self, args: &SplitArgs, output: &mut Output<'_>) -> Result<Report, Failure> {
        let write = |prefix: &Path| {
            let written = self
                .splitter
                .write_with(&self.source, prefix, &self.options);
            written.map_err(|error| Failure::of(&self.file, &error))
        };
        let written = match (&args.output, &self.prefix) {
            (Some(folder), _) if self.is_folder => {
                let saving = SaveOptions::new()
                    .force(args.force)
                    .keep_fingerprint(args.keep_fingerprint)
                    .progress(output.line().copies())
                    .cancelled_by(output.interrupt().heed());
                let rebuilt = rebuild(&args.input, folder, &saving, write)?;
                note_refusal(&rebuilt.fingerprint, output);
                let mut written = rebuilt.filled;
                if let Some(name) = written.path.file_name() {
                    written.path = folder.join(name);
                }
                written
            }
            (_, Some(prefix)) => write(prefix)?,
            (_, None) => return Err(Failure::usage("no output")),
        };
        if written.source_stays {
            let (plain, chunked) = (self.file.display(), written.path.display());
            output.note(format_args!(
                "{plain} stays beside {chunked}: readers of the prefix prefer the .{CHUNKED}"
            ));
        }
        Ok(self.report_written(&written))
    }

    fn report_written(&self, written: &Written) -> Report {
        let chunks = written.chunks.iter().map(|chunk| Chunk {
            index: chunk.index,
            kind: chunk.kind.to_string(),
            path: self.path(&chunk.path),
            size: chunk.size,
            stored_size: Some(chunk.stored_size),
            compression: Some(chunk.compression.to_string()),
            file: Some(chunk.file).filter(|&file| file > 0),
            position: Some(chunk.position),
        });
        Report {
            output: Some(shown_file(&written.path)),
            split: written.is_split,
            byte_exact: written.byte_exact,
            message: self.source.descriptor().full_name().to_owned(),
            source_bytes: written.source_size,
            output_bytes: Some(written.output_size),
            chunks: chunks.collect(),
            dry_run: false,
            written: written.is_split || !same_file(&written.path, &self.file),
            removed: written.removed.as_deref().map(shown_file),
            removed_files: written
                .removed_files
                .iter()
                .map(|file| shown_file(file))
                .collect(),
            files: written.files.iter().map(OtherFile::from).collect(),
        }
    }

    fn path(&self, path: &FieldPath) -> String {
        path.display(Some(self.source.descriptor()))
    }
}

fn descriptor(args: &SplitArgs, file: &Path) -> Result<MessageDescriptor, Failure> {
    let types = Types::load(&args.schema)?;
    types.asked_or_of_file(file).ok_or_else(|| {
        let hint = "the name doesn't tell the message's type: give it, as in --message";
        Failure::usage(format!("{}: {hint} {}", shown_file(file), types.example()))
    })
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

impl Report {
    fn text(&self, args: &SplitArgs) -> String {
        let name = self
            .output
            .clone()
            .unwrap_or_else(|| shown_file(&args.input));
        let source = size::show(self.source_bytes);
        if !self.split {
            let within = format!(
                "{source}, within the maximum chunk size of {}",
                size::show(args.max_chunk_size)
            );
            let what = match (self.dry_run, self.written) {
                (_, false) => "nothing to do",
                (true, true) => "would be copied",
                (false, true) => "copied",
            };
            return format!("{name}: {within}: {what}\n");
        }
        let exact = if self.byte_exact {
            "byte-exact"
        } else {
            "equal as a message, not byte-exact"
        };
        let chunks = size::count(self.chunks.len(), "chunk");
        match self.output_bytes {
            Some(bytes) => {
                let files = match self.files.len() {
                    0 => "a file of".to_owned(),
                    others => format!("{} files, together", others + 1),
                };
                format!(
                    "{name}: {source} in {chunks}, {files} {}; a merge is {exact}\n",
                    size::show(bytes)
                )
            }
            None => format!(
                "{}\n{name}: {source} in {chunks}; a merge would be {exact}\n",
                self.table()
            ),
        }
    }

    fn table(&self) -> String {
        let mut table = Table::new([
            ("index", Align::Right),
            ("kind", Align::Left),
            ("size", Align::Right),
            ("path", Align::Left),
        ]);
        for chunk in &self.chunks {
            let Chunk {
                index,
                kind,
                path,
                size,
                ..
            } = chunk;
            table.row([
                index.to_string(),
                kind.clone(),
                size::show(*size),
                shown_path(path),
            ]);
        }
        table.render()
    }
}

/// Says which files of an earlier split in several were removed.
pub(crate) fn note_removed(files: &[String], output: &mut Output<'_>) {
    for removed in files {
        output.note(format_args!(
            "removed {removed}, which was of an earlier split"
        ));
    }
}

/// A file's name for a report. JSON has no place for what isn't Unicode.
pub(crate) fn shown_file(path: &Path) -> String {
    input::shown(path)
}

/// A path for a column, where the root must not be nothing.
pub(crate) fn shown_path(path: &str) -> String {
    if path.is_empty() {
        ".".to_owned()
    } else {
        crate::output::one_line(path)
    }
}
