//! Converting an input of any format with messages to a file in chunks.

use std::path::Path;

use proto_splitter::Opened;
use proto_splitter::ops::{CHUNKS, convert_to_chunks};
use proto_splitter::split::SplitOptions;

use super::format::{failure, is_read, text};
use crate::Exit;
use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::input::{CHUNKED, check_apart};
use crate::output::Output;
use crate::split::note_removed;

/// Returns true if a chunked file is requested, by the form or else by the name of the output.
pub(super) fn is_asked(args: &ConvertArgs, target: &Path) -> Result<bool, Failure> {
    let named = target
        .extension()
        .is_some_and(|extension| extension == CHUNKED);
    match args.to.as_str() {
        CHUNKS => Ok(true),
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
    if opened.plain().is_none() || opened.descriptor().is_none() {
        let name = args.input.display();
        return Err(Failure::usage(if opened.chunked().is_some() {
            format!("{name}: it is in chunks; protosplit recompress stores them in another way")
        } else {
            format!("{name}: it has tensors and isn't a message, so it can't be cut into chunks")
        }));
    }
    let failed = |error| failure(opened, target, &error);
    opened.check_complete().map_err(failed)?;
    check_apart(opened.files(), target)?;
    let options = SplitOptions::new()
        .max_chunk_size(args.max_chunk_size)
        .value_chunk_size(args.value_chunk_size.0)
        .compression(args.compression)
        .force(args.force)
        .threads(args.threads.threads)
        .progress(output.writing("converting"));
    let report = convert_to_chunks(opened, target, &options).map_err(failed)?;
    note_removed(&report.removed_files, output);
    output.done(args.json, &report, |report, _| text(report))?;
    Ok(Exit::Done)
}
