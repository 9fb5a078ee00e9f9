//! Merging the several files of a message into one file.

use std::path::Path;

use proto_splitter::Error;
use serde::Serialize;

use super::warn;
use crate::Exit;
use crate::args::MergeArgs;
use crate::display_name::shown;
use crate::failure::Failure;
use crate::input::Input;
use crate::output::Output;
use crate::place::STANDARD;
use crate::remote;
use crate::sanitize::one_line;
use crate::size;

#[derive(Debug, Serialize)]
struct Report {
    output: String,
    input: String,
    /// Full name of the message's type; `None` if unknown.
    message: Option<String>,
    output_bytes: u64,
    /// Files from which the message is assembled.
    files: Vec<String>,
    split: bool,
}

pub(super) fn run(
    input: &Input,
    args: &MergeArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let failed = |error: Error| Failure::of(input.path(), &error);
    if input.is_archive() {
        let (name, title) = (shown(input.path()), input.title());
        return Err(Failure::usage(format!(
            "{name}: {title}: has tensors but no message: use `protosplit export` to write them to one file"
        )));
    }
    if args.output() == Path::new(STANDARD) {
        input.write_to(output).map_err(failed)?;
        return Ok(Exit::Done);
    }
    input.check_apart(args.output())?;
    let output_bytes = if remote::is_url(args.output()) {
        let size = input.known_size().unwrap_or(0);
        remote::write_object(args.output(), args.force, size, |mut target| {
            input.write_to(&mut target).map_err(failed)
        })?
    } else {
        let written = input.write_file_with(args.output(), args.force);
        written.map_err(failed)?
    };
    warn(args.output(), output_bytes, input, output);
    let message = input.descriptor();
    let report = Report {
        output: shown(args.output()),
        input: shown(input.path()),
        message: message.map(|message| message.full_name().to_owned()),
        output_bytes,
        files: input.files().iter().map(|file| shown(file)).collect(),
        split: false,
    };
    output.done(args.json, &report, |report, _| report.text())
}

impl Report {
    fn text(&self) -> String {
        let (output, bytes) = (one_line(&self.output), size::show(self.output_bytes));
        let files = size::count(self.files.len(), "file");
        format!("{output}: {bytes}: put together from {files}\n")
    }
}
