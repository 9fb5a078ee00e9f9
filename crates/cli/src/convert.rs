//! `protosplit convert`.

use proto_splitter::directory::{FingerprintOutcome, Saved};
use proto_splitter::split::SplitOptions;
use proto_splitter::{SaveOptions, SavedModelDir, TargetForm};
use serde::Serialize;

use crate::Exit;
use crate::args::{ConvertArgs, To};
use crate::failure::Failure;
use crate::fingerprint::note_refusal;
use crate::input::{check_named, shown};
use crate::output::Output;
use crate::size;

/// What was converted.
#[derive(Debug, Serialize)]
struct Report {
    /// The model's file.
    output: String,
    split: bool,
    /// Of the model as a .pb.
    message_bytes: u64,
    output_bytes: u64,
    /// Whether anything was done: in place there may have been nothing to do.
    changed: bool,
    /// What became of fingerprint.pb: `written`, `kept`, `absent` or `refused`.
    fingerprint: &'static str,
}

pub(crate) fn run(args: &ConvertArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    if let Some(folder) = &args.output {
        check_named(folder)?;
    }
    let failed = |error| Failure::of(&args.input, &error);
    let split = SplitOptions::new()
        .max_chunk_size(args.max_chunk_size)
        .value_chunk_size(args.value_chunk_size.0)
        .compression(args.compression)
        .threads(args.threads.threads)
        .progress(output.writing("converting"));
    let options = SaveOptions::new()
        .split(split)
        .force(args.force)
        .keep_fingerprint(args.keep_fingerprint)
        .progress(output.line().copies())
        .cancelled_by(output.interrupt().heed());
    let form = match args.to {
        To::Auto => TargetForm::Auto,
        To::Pb => TargetForm::Plain,
        To::Cpb => TargetForm::Chunked,
    };
    let saved = match &args.output {
        Some(to) => SavedModelDir::open(&args.input)
            .and_then(|dir| dir.save_as(to, form, &options))
            .map_err(failed)?,
        None => SavedModelDir::convert_in_place(&args.input, form, &options).map_err(failed)?,
    };
    note_refusal(&saved.fingerprint, output);
    let report = Report::new(&saved)?;
    output.report(args.json, &report, |report, _| report.text())?;
    Ok(Exit::Done)
}

impl Report {
    fn new(saved: &Saved) -> Result<Self, Failure> {
        let file = &saved.model_path;
        let metadata = std::fs::metadata(file).map_err(|error| Failure::io(file, &error))?;
        Ok(Report {
            output: shown(file),
            split: saved.form == proto_splitter::ModelForm::Chunked,
            message_bytes: saved.message_size,
            output_bytes: metadata.len(),
            changed: saved.changed,
            fingerprint: match saved.fingerprint {
                FingerprintOutcome::Written(_) => "written",
                FingerprintOutcome::Kept => "kept",
                FingerprintOutcome::Absent => "absent",
                FingerprintOutcome::Refused(_) => "refused",
            },
        })
    }

    fn text(&self) -> String {
        let (output, bytes) = (&self.output, size::show(self.message_bytes));
        match (self.changed, self.split) {
            (false, _) => format!("{output}: {bytes}: nothing to do\n"),
            (true, false) => format!("{output}: {bytes}, in one piece\n"),
            (true, true) => {
                let file = size::show(self.output_bytes);
                format!("{output}: {bytes} in chunks, a file of {file}\n")
            }
        }
    }
}
