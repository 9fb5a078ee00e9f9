//! `protosplit convert`.

mod chunked;
mod format;
mod forms;

pub(crate) use format::form;

use proto_splitter::directory::{FingerprintOutcome, Saved};
use proto_splitter::split::SplitOptions;
use proto_splitter::{SaveOptions, SavedModelDir, TargetForm};
use serde::Serialize;

use crate::Exit;
use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::fingerprint::note_refusal;
use crate::input::{check_named, shown};
use crate::output::Output;
use crate::size;

/// The report of a conversion.
#[derive(Debug, Serialize)]
struct Report {
    /// The model's file.
    output: String,
    split: bool,
    /// Size of the model as a .pb.
    message_bytes: u64,
    output_bytes: u64,
    /// False if the model already had this form, which can only happen in place.
    changed: bool,
    /// State of fingerprint.pb: `written`, `kept`, `absent` or `refused`.
    fingerprint: &'static str,
}

pub(crate) fn run(args: &ConvertArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let target = args.output.as_ref().or(args.named.as_ref());
    if args.to == format::HELP {
        return forms::run(args, output);
    }
    if target.is_none() && !args.in_place {
        let message = "name the folder or file to write with -o, or convert a folder --in-place";
        return Err(Failure::usage(message));
    }
    if let Some(target) = target {
        check_named(target)?;
        if let Some(opened) = format::open(args, output)? {
            if chunked::is_asked(args, target)? {
                return chunked::run(&opened, args, target, output);
            }
            return format::run(&opened, args, target, output);
        }
    }
    check_folder(args)?;
    if let Some((name, _)) = args.set.first() {
        return Err(Failure::usage(format!(
            "--set {name}: a SavedModel has no settings"
        )));
    }
    if args.max_file_size.is_some() {
        let message = "--max-file-size: a SavedModel is converted to one file";
        return Err(Failure::usage(message));
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
        .on_copy(output.line().copies())
        .progress(output.interruptible());
    let form = match args.to.as_str() {
        "auto" => TargetForm::Auto,
        "pb" => TargetForm::Plain,
        "cpb" => TargetForm::Chunked,
        other => {
            let message = format!("--to {other}: a SavedModel's forms are auto, pb and cpb");
            return Err(Failure::usage(message));
        }
    };
    let saved = match target {
        Some(to) => SavedModelDir::open(&args.input)
            .and_then(|dir| dir.save_as(to, form, &options))
            .map_err(failed)?,
        None => SavedModelDir::convert_in_place(&args.input, form, &options).map_err(failed)?,
    };
    note_refusal(&saved.fingerprint, output);
    let report = Report::new(&saved)?;
    output.done(args.json, &report, |report, _| report.text())?;
    Ok(Exit::Done)
}

/// Fails unless the input is a folder. Call it before reporting any error about the options of
/// SavedModels.
fn check_folder(args: &ConvertArgs) -> Result<(), Failure> {
    let name = shown(&args.input);
    let why = match std::fs::metadata(&args.input) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "no such file or folder",
        Ok(found) if found.is_file() => {
            "a file, and not the folder of a SavedModel; of a message in a file `protosplit split` \
             makes a .cpb, and `protosplit merge` a .pb"
        }
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("{name}: {why}")))
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
