//! The `protosplit split` command.

mod report;

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter::atomic::same_file;
use proto_splitter::container::is_named_chunked;
use proto_splitter::directory::MODEL_STEM;
use proto_splitter::externalize::check_model;
use proto_splitter::formats::ALL;
use proto_splitter::merge::Limits;
use proto_splitter::parts::PartsPlan;
use proto_splitter::split::{ComposableSplitter, Profile, Source, SplitExt, SplitOptions};

use crate::Exit;
use crate::args::{SchemaArgs, SplitArgs};
use crate::display_name::shown;
use crate::failure::{Failure, is_records};
use crate::input::Input;
use crate::opening::Opening;
use crate::output::Output;
use crate::parts;
use crate::place::{self, CHUNKED, PLAIN, STANDARD, check_file, prefix_of, with_extension};
use crate::remote;
use crate::saving::Saving;
use crate::types::Types;

pub(crate) use report::note_removed;
use report::{Report, within};

pub(crate) fn run(args: &SplitArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let (parts, threads) = (&args.parts, &args.threads);
    if let Some(ended) = parts::run(parts, "split", threads, Limits::new(), args.json, output) {
        return ended;
    }
    let streams = streams(args);
    if streams {
        check_streams(args)?;
    }
    let job = if place::is_stream(args.input()) {
        Job::of_stream(args, output)?
    } else if remote::is_url(args.input()) {
        Job::of_file(args, output)?
    } else {
        let metadata =
            fs::metadata(args.input()).map_err(|error| Failure::io(args.input(), &error))?;
        if metadata.is_dir() {
            Job::of_folder(args, output)?
        } else {
            check_file(args.input(), &metadata)?;
            Job::of_file(args, output)?
        }
    };
    if let Some(path) = &parts.plan_only {
        return parts::write_plan(|| job.plan(args), path, args.json, output);
    }
    let report = if args.dry_run {
        job.dry_run(args)?
    } else if streams {
        return job.stream(args, output);
    } else if let Some(prefix) = job.prefix.as_deref()
        && remote::is_url(prefix)
    {
        job.to_store(args, prefix)?
    } else {
        job.write(args, output)?
    };
    if args.merkle_root && !args.dry_run && !report.split {
        output.note(format_args!(
            "{}: no Merkle root: the message was not split; with an OUTPUT that ends in .{CHUNKED}, it always is",
            report.output.as_deref().unwrap_or_default()
        ));
    }
    if let Some(removed) = &report.removed {
        output.note(format_args!("removed the existing {removed}"));
    }
    note_removed(&report.removed_files, output);
    let text = |report: &Report, _| report.text(args);
    if args.dry_run {
        output.report(args.json, &report, text)
    } else {
        output.done(args.json, &report, text)
    }
}

/// Opens a message to split. Fails if it is already in chunks.
pub(crate) fn open_unsplit(opening: Opening<'_>, named: &Path) -> Result<Input, Failure> {
    let input = match opening.open(named) {
        Err(failure) if failure.exit() == Exit::Bad && is_records(named) => {
            return Err(split_already(named));
        }
        opened => opened?,
    };
    check_unsplit(&input, named)?;
    Ok(input)
}

/// Fails if the message of `named` is in chunks.
fn check_unsplit(input: &Input, named: &Path) -> Result<(), Failure> {
    match input.chunked() {
        Some(_) => Err(split_already(named)),
        None => Ok(()),
    }
}

/// Returns the prefix of the output for an input that is a file. Fails if the output is a folder.
pub(crate) fn prefix_for_file(input: &Path, output: &Path) -> Result<PathBuf, Failure> {
    if !output.is_dir() {
        return Ok(prefix_of(output));
    }
    let hint = "a folder, but for a file the output is a prefix, as in";
    let prefix = output.join(input.file_stem().unwrap_or_default());
    let (output, prefix) = (output.display(), prefix.display());
    Err(Failure::usage(format!("{output}: {hint} {prefix}")))
}

fn split_already(input: &Path) -> Failure {
    let name = input.display();
    Failure::usage(format!(
        "{name}: split already; `protosplit merge` makes a .{PLAIN} of it"
    ))
}

/// Returns true if the arguments send the output to standard output.
fn streams(args: &SplitArgs) -> bool {
    args.output.as_deref() == Some(Path::new(STANDARD))
}

/// Fails if another argument can't be combined with output to standard output.
fn check_streams(args: &SplitArgs) -> Result<(), Failure> {
    let refuse = |why| Err(Failure::usage(why));
    if args.max_file_size.is_some() {
        return refuse("--max-file-size: standard output is one file");
    }
    if args.json && !args.dry_run {
        return refuse("--json: the file is written to standard output");
    }
    Ok(())
}

/// A message to split, with its splitter, options and output.
struct Job {
    input: Input,
    source: Source,
    splitter: &'static (dyn ComposableSplitter + Sync),
    options: SplitOptions,
    /// Prefix of the output file; `None` for standard output, or for a dry run without an output.
    prefix: Option<PathBuf>,
    is_folder: bool,
}

impl Job {
    fn of_file(args: &SplitArgs, output: &Output<'_>) -> Result<Job, Failure> {
        let input = open_unsplit(opening(args, output), args.input())?;
        let prefix = match &args.output {
            Some(_) if streams(args) => None,
            Some(output) => Some(prefix_for_file(args.input(), output)?),
            None => Some(args.input().with_extension("")),
        };
        Job::new(args, input, prefix, false, output)
    }

    fn of_stream(args: &SplitArgs, output: &Output<'_>) -> Result<Job, Failure> {
        let name = if place::is_standard(args.input()) {
            "standard input".to_owned()
        } else {
            args.input().display().to_string()
        };
        let refuse = |why| Err(Failure::usage(format!("{name}: {why}")));
        let Some(prefix) = &args.output else {
            return refuse("name the output with -o OUTPUT");
        };
        let input = open(args, args.input(), output)?;
        check_unsplit(&input, Path::new(&name))?;
        let prefix = (!streams(args)).then(|| prefix_of(prefix));
        Job::new(args, input, prefix, false, output)
    }

    fn of_folder(args: &SplitArgs, output: &Output<'_>) -> Result<Job, Failure> {
        let name = args.input().display();
        let prefix = args.input().join(MODEL_STEM);
        let [chunked, plain] = [CHUNKED, PLAIN].map(|extension| with_extension(&prefix, extension));
        let refuse = |why: String| Err(Failure::usage(format!("{name}: {why}")));
        match (chunked.is_file(), plain.is_file()) {
            (false, true) => {}
            (false, false) => {
                // Instead of a SavedModel, the input may be a folder in another known format.
                if let Ok(place) = place::locate(args.input(), &args.schema.companion) {
                    return Job::of_model(args, opening(args, output).open_at(place)?, output);
                }
                return refuse(format!("no SavedModel: {MODEL_STEM}.{PLAIN} is missing"));
            }
            (true, false) => {
                return refuse(format!("split already: it has a {MODEL_STEM}.{CHUNKED}"));
            }
            (true, true) => {
                return refuse(format!(
                    "both {MODEL_STEM}.{PLAIN} and {MODEL_STEM}.{CHUNKED} are in it"
                ));
            }
        }
        if streams(args) || (args.output.is_none() && !args.dry_run) {
            return refuse("a folder: name the folder to write with -o OUTPUT".into());
        }
        let prefix = args.output.as_ref().map(|output| output.join(MODEL_STEM));
        check_model(args.input()).map_err(|error| Failure::of(args.input(), &error))?;
        let input = open(args, &plain, output)?;
        check_unsplit(&input, &plain)?;
        Job::new(args, input, prefix, true, output)
    }

    /// Creates a job for a message that is assembled from several files of a folder in a known
    /// format.
    fn of_model(args: &SplitArgs, input: Input, output: &Output<'_>) -> Result<Job, Failure> {
        let prefix = match &args.output {
            None if !args.dry_run => {
                let name = args.input().display();
                let message = format!("{name}: a folder: name a prefix with -o OUTPUT");
                return Err(Failure::usage(message));
            }
            Some(output) if !streams(args) => Some(prefix_of(output)),
            _ => None,
        };
        Job::new(args, input, prefix, false, output)
    }

    fn new(
        args: &SplitArgs,
        input: Input,
        prefix: Option<PathBuf>,
        is_folder: bool,
        output: &Output<'_>,
    ) -> Result<Job, Failure> {
        let extended = args.profile == Profile::Extended;
        if args.max_file_size.is_some() && !extended {
            let message =
                "--max-file-size: needs --profile extended, since TensorFlow reads a single file";
            return Err(Failure::usage(message));
        }
        if is_folder && extended {
            let message = "a SavedModel's folder can't use --profile extended, which TensorFlow can't read: name the .pb file instead";
            return Err(Failure::usage(format!(
                "{}: {message}",
                args.input().display()
            )));
        }
        let options = SplitOptions::new()
            // If the name of the output ends in `.cpb`, even a small message is written in chunks.
            .always_chunked(!is_folder && args.output.as_deref().is_some_and(is_named_chunked))
            .max_chunk_size(args.max_chunk_size)
            .max_slice_size(args.max_slice_size)
            .max_value_size(args.max_value_size)
            .max_file_size(args.max_file_size)
            .profile(args.profile)
            .value_chunk_size(args.value_chunk_size.0)
            .depth_limit(args.depth.max_depth)
            .compression(args.compression)
            .force(args.force)
            .embed_schema(args.embed_schema)
            .merkle_root(args.merkle_root)
            .require_byte_exact(args.require_byte_exact)
            .threads(args.threads.threads)
            .progress(if streams(args) {
                output.reading("splitting")
            } else {
                output.writing("splitting")
            });
        let options = match &args.records {
            Some(records) => options.records(records.clone()),
            None => options,
        };
        let source = source(&args.schema, &input)?;
        let splitter = ALL.splitter(source.descriptor().full_name());
        Ok(Job {
            input,
            source,
            splitter,
            options,
            prefix,
            is_folder,
        })
    }

    /// Plans a split in parts, which several hosts can run.
    fn plan(&self, args: &SplitArgs) -> Result<PartsPlan, Failure> {
        let prefix = self.prefix.as_deref().filter(|_| !self.is_folder);
        let Some(prefix) = prefix else {
            let message = "--plan-only: needs a .pb file as input, and a prefix given with -o";
            return Err(Failure::usage(message));
        };
        let message = (&self.input, &self.source);
        parts::plan_split(message, prefix, &self.options, args.parts.parts)
    }

    fn dry_run(&self, args: &SplitArgs) -> Result<Report, Failure> {
        let plan = self.splitter.plan(&self.source, &self.options);
        let plan = plan.map_err(|error| Failure::of(self.input.file(), &error))?;
        let extension = if plan.is_split() { CHUNKED } else { PLAIN };
        let output = self
            .prefix
            .as_deref()
            .map(|prefix| with_extension(prefix, extension));
        let written = output
            .as_deref()
            .is_some_and(|output| !same_file(output, args.input()));
        Ok(Report::of_plan(&plan, &self.source, output, written))
    }

    /// Writes the output file to an object in a store.
    fn to_store(&self, args: &SplitArgs, prefix: &Path) -> Result<Report, Failure> {
        let failed = |error| Failure::of(self.input.file(), &error);
        let plan = self.splitter.plan(&self.source, &self.options);
        let extension = if plan.map_err(failed)?.is_split() {
            CHUNKED
        } else {
            PLAIN
        };
        let path = with_extension(prefix, extension);
        if extension == PLAIN {
            remote::check_not_hidden(&with_extension(prefix, CHUNKED))?;
        }
        let size = self.source.size();
        let written = remote::write_object(&path, args.force, size, |mut target| {
            let splitter = &self.splitter;
            let written = splitter.write_to_with(&self.source, &mut target, &self.options);
            written.map_err(failed)
        })?;
        Ok(Report::of_object(&written, &self.source, &path))
    }

    /// Writes the output file to standard output. Notes are printed to standard error.
    fn stream(&self, args: &SplitArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
        let written = self
            .splitter
            .write_to_with(&self.source, output, &self.options)
            .map_err(|error| Failure::of(self.input.file(), &error))?;
        if let Some(root) = written.merkle_root {
            output.note(format_args!("{}: Merkle root {root}", shown(args.input())));
        }
        if !written.is_split {
            output.note(format_args!(
                "{}: {}: written unchanged, a .{PLAIN}",
                shown(args.input()),
                within(written.source_size, args)
            ));
        }
        Ok(Exit::Done)
    }

    fn write(&self, args: &SplitArgs, output: &mut Output<'_>) -> Result<Report, Failure> {
        let write = |prefix: &Path| {
            let written = self
                .splitter
                .write_with(&self.source, prefix, &self.options);
            written.map_err(|error| Failure::of(self.input.file(), &error))
        };
        let written = match (&args.output, &self.prefix) {
            (Some(folder), _) if self.is_folder => {
                let saving = Saving {
                    target: folder,
                    force: args.force,
                    keep_fingerprint: args.keep_fingerprint,
                };
                let mut written = saving.rebuild(args.input(), write, output)?;
                if let Some(name) = written.path.file_name() {
                    written.path = folder.join(name);
                }
                written
            }
            (_, Some(prefix)) => write(prefix)?,
            (_, None) => return Err(Failure::usage("no output")),
        };
        if written.source_stays {
            let (plain, chunked) = (self.input.file().display(), written.path.display());
            output.note(format_args!(
                "{plain} stays beside {chunked}: readers of the prefix prefer the .{CHUNKED}"
            ));
        }
        let changed = !same_file(&written.path, self.input.file());
        Ok(Report::of_written(&written, &self.source, changed))
    }
}

/// Returns the options for opening the message to split.
fn opening<'a>(args: &'a SplitArgs, output: &Output<'_>) -> Opening<'a> {
    let limits = Limits::new().max_message_depth(args.depth.max_depth as usize);
    Opening::new(&args.schema, limits, output.objects())
}

fn open(args: &SplitArgs, named: &Path, output: &Output<'_>) -> Result<Input, Failure> {
    opening(args, output).open(named)
}

/// Returns the message to split, which is either the input file's content or assembled from several
/// files by the input's format. Fails if the message's type is unknown.
pub(crate) fn source(schema: &SchemaArgs, input: &Input) -> Result<Source, Failure> {
    if input.descriptor().is_none() && !input.is_archive() {
        let (file, example) = (shown(input.file()), Types::load(schema)?.example());
        let hint = "the name doesn't tell the message's type: give it, as in --message";
        return Err(Failure::usage(format!("{file}: {hint} {example}")));
    }
    let source = input.source();
    source.map_err(|error| Failure::of(input.file(), &error))
}
