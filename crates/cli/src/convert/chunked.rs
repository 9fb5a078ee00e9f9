//! An input of any format whose inputs are messages, as a file in chunks.

use std::path::Path;

use proto_splitter::Opened;
use proto_splitter::formats::ALL;
use proto_splitter::split::{Source, SplitExt, SplitOptions};

use super::folders::MadeFolders;
use super::format::{Report, is_read};
use crate::Exit;
use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::input::{CHUNKED, check_apart, prefix_of, shown};
use crate::output::Output;
use crate::split::note_removed;

/// Name of the form.
pub(super) const FORM: &str = "cpb";

/// Returns true if a chunked file is requested, by the form or else by the name of the output.
pub(super) fn is_asked(args: &ConvertArgs, target: &Path) -> Result<bool, Failure> {
    let named = target
        .extension()
        .is_some_and(|extension| extension == CHUNKED);
    match args.to.as_str() {
        FORM => Ok(true),
        "auto" => Ok(named),
        other if named => Err(Failure::usage(format!(
            "{}: a .cpb is a file in chunks, and --to {other} writes none",
            target.display()
        ))),
        _ => Ok(false),
    }
}

pub(super) fn run(
    opened: &Opened,
    args: &ConvertArgs,
    target: &Path,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    if args.max_file_size.is_some() {
        let message = "--max-file-size: protosplit split writes a file in chunks in several files";
        return Err(Failure::usage(message));
    }
    let is_written = |(name, _): &&(String, String)| !is_read(opened, name);
    if let Some((name, _)) = args.set.iter().find(is_written) {
        let message = format!("--set {name}: a chunked file has no settings");
        return Err(Failure::usage(message));
    }
    let (Some((bytes, size)), Some(descriptor)) = (opened.plain(), opened.descriptor()) else {
        let name = args.input.display();
        return Err(Failure::usage(if opened.chunked().is_some() {
            format!("{name}: it is in chunks; protosplit recompress stores them in another way")
        } else {
            format!("{name}: it has tensors and isn't a message, so it can't be cut into chunks")
        }));
    };
    opened
        .check_complete()
        .map_err(|error| Failure::of(&args.input, &error))?;
    check_apart(opened.files(), target)?;
    let message =
        Source::from_reader(bytes.clone(), size, descriptor.clone()).read_from(opened.files());
    let options = SplitOptions::new()
        .max_chunk_size(args.max_chunk_size)
        .value_chunk_size(args.value_chunk_size.0)
        .compression(args.compression)
        .always_chunked(true)
        .force(args.force)
        .threads(args.threads.threads)
        .progress(output.writing("converting"));
    let splitter = ALL.splitter(descriptor.full_name());
    let folders = MadeFolders::around(target)?;
    let written = splitter
        .write_with(message, prefix_of(target), &options)
        .map_err(|error| Failure::of(&args.input, &error))?;
    folders.keep();
    let removed: Vec<String> = written
        .removed_files
        .iter()
        .map(|file| shown(file))
        .collect();
    note_removed(&removed, output);
    let report = Report {
        format: opened.format().map_or("message", |format| format.name()),
        to: FORM,
        files: vec![shown(&written.path)],
        output_bytes: written.output_size,
        notes: Vec::new(),
    };
    output.done(args.json, &report, |report, _| report.text())?;
    Ok(Exit::Done)
}
