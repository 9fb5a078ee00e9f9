//! The `protosplit fingerprint` command.

use proto_splitter::directory::FingerprintOutcome;
use proto_splitter::ops::{FingerprintReport, fingerprint};

use crate::Exit;
use crate::args::FingerprintArgs;
use crate::display_name::shown;
use crate::failure::Failure;
use crate::output::Output;
use crate::sanitize::one_line;
use crate::table::facts;

pub(crate) fn run(args: &FingerprintArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let report = fingerprint(&args.folder, &output.reading("hashing"))
        .map_err(|error| Failure::of(&args.folder, &error))?;
    output.report(args.json, &report, |report, _| text(report))?;
    if let Some(why) = &report.refused {
        let file = shown(&report.file);
        output.note(format_args!(
            "{file}: TensorFlow can't compute its fingerprint: {why}"
        ));
    } else if report.agrees == Some(false) {
        let fields = report.differs_in.join(", ");
        output.note(format_args!(
            "{}: fingerprint.pb differs in {fields}",
            shown(&report.file)
        ));
    }
    Ok(Exit::of(report.is_good()))
}

fn text(report: &FingerprintReport) -> String {
    let mut lines = vec![("file", one_line(&shown(&report.file)))];
    if let Some(values) = report.computed.as_ref().or(report.stored.as_ref()) {
        lines.extend([
            ("saved_model_checksum", values.saved_model_checksum.clone()),
            (
                "graph_def_program_hash",
                values.graph_def_program_hash.clone(),
            ),
            ("signature_def_hash", values.signature_def_hash.clone()),
            (
                "saved_object_graph_hash",
                values.saved_object_graph_hash.clone(),
            ),
            ("checkpoint_hash", values.checkpoint_hash.clone()),
            ("producer", values.producer.to_string()),
        ]);
        if !values.uuid.is_empty() {
            lines.push(("uuid", one_line(&values.uuid)));
        }
    }
    let stored = match (report.agrees, &report.stored) {
        (Some(true), _) => "agrees".to_owned(),
        (Some(false), _) => format!("differs in {}", report.differs_in.join(", ")),
        (None, None) => "there is none".to_owned(),
        (None, Some(_)) => "is shown above; there is nothing to compare it with".to_owned(),
    };
    lines.push(("fingerprint.pb", stored));
    facts(&lines)
}

/// Prints a note if the stored fingerprint couldn't be updated.
pub(crate) fn note_refusal(outcome: &FingerprintOutcome, output: &mut Output<'_>) {
    if let FingerprintOutcome::Refused(why) = outcome {
        output.note(format_args!(
            "warning: fingerprint.pb was left unchanged: TensorFlow can't compute one for this model: {why}"
        ));
    }
}
