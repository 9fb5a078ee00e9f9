//! `protosplit fingerprint`.

use proto_splitter::SavedModelDir;
use proto_splitter::directory::FingerprintOutcome;
use proto_splitter::fingerprint::{FingerprintError, differences, singleprint};
use proto_splitter::proto::saved_model::FingerprintDef;
use serde::Serialize;

use crate::Exit;
use crate::args::FingerprintArgs;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::input::shown;
use crate::output::Output;
use crate::table::facts;

/// What a SavedModel's fingerprint is, and what is stored.
#[derive(Debug, Serialize)]
struct Report {
    /// The model's file.
    file: String,
    computed: Option<Values>,
    stored: Option<Values>,
    /// Whether the two are the same but for the uuid; none if one is missing.
    agrees: Option<bool>,
    differs_in: Vec<&'static str>,
    /// Why TensorFlow can't compute it.
    refused: Option<String>,
    /// Of the computed one.
    singleprint: Option<String>,
}

/// A fingerprint. Its hashes are strings: most readers of JSON know no integers over 2^53.
#[derive(Debug, Serialize)]
struct Values {
    saved_model_checksum: String,
    graph_def_program_hash: String,
    signature_def_hash: String,
    saved_object_graph_hash: String,
    checkpoint_hash: String,
    uuid: String,
    producer: i32,
}

impl From<&FingerprintDef> for Values {
    fn from(of: &FingerprintDef) -> Self {
        Values {
            saved_model_checksum: of.saved_model_checksum.to_string(),
            graph_def_program_hash: of.graph_def_program_hash.to_string(),
            signature_def_hash: of.signature_def_hash.to_string(),
            saved_object_graph_hash: of.saved_object_graph_hash.to_string(),
            checkpoint_hash: of.checkpoint_hash.to_string(),
            uuid: of.uuid.clone(),
            producer: of.version.as_ref().map_or(0, |version| version.producer),
        }
    }
}

pub(crate) fn run(args: &FingerprintArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let failed = |error| Failure::of(&args.folder, &error);
    let dir = SavedModelDir::open(&args.folder).map_err(failed)?;
    let stored = dir.stored_fingerprint().map_err(failed)?;
    let (computed, refused) = match dir.fingerprint_with(&output.reading("hashing")) {
        Ok(computed) => (Some(computed), None),
        Err(FingerprintError::Refused(why)) => (None, Some(why)),
        Err(FingerprintError::Unreadable(error)) => return Err(failed(error)),
    };
    let differs_in = match (&computed, &stored) {
        (Some(computed), Some(stored)) => Some(differences(computed, stored)),
        _ => None,
    };
    let report = Report {
        file: shown(&dir.model_path()),
        computed: computed.as_ref().map(Values::from),
        stored: stored.as_ref().map(Values::from),
        agrees: differs_in.as_ref().map(Vec::is_empty),
        differs_in: differs_in.unwrap_or_default(),
        refused,
        singleprint: computed.as_ref().map(singleprint),
    };
    output.report(args.json, &report, |report, _| report.text())?;
    if let Some(why) = &report.refused {
        let file = &report.file;
        output.note(format_args!(
            "{file}: TensorFlow can't compute a fingerprint of it: {why}"
        ));
    } else if report.agrees == Some(false) {
        let fields = report.differs_in.join(", ");
        output.note(format_args!(
            "{}: fingerprint.pb differs in {fields}",
            report.file
        ));
    }
    let is_good = report.refused.is_none() && report.agrees != Some(false);
    Ok(if is_good { Exit::Done } else { Exit::Bad })
}

impl Report {
    fn text(&self) -> String {
        let mut lines = vec![("file", one_line(&self.file))];
        if let Some(values) = self.computed.as_ref().or(self.stored.as_ref()) {
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
        let stored = match (self.agrees, &self.stored) {
            (Some(true), _) => "agrees".to_owned(),
            (Some(false), _) => format!("differs in {}", self.differs_in.join(", ")),
            (None, None) => "there is none".to_owned(),
            (None, Some(_)) => "is what is shown; there is nothing to compare it with".to_owned(),
        };
        lines.push(("fingerprint.pb", stored));
        facts(&lines)
    }
}

/// Says so if a fingerprint could not be made to agree.
pub(crate) fn note_refusal(outcome: &FingerprintOutcome, output: &mut Output<'_>) {
    if let FingerprintOutcome::Refused(why) = outcome {
        output.note(format_args!(
            "warning: fingerprint.pb stays as it was: TensorFlow can't compute one of this model: {why}"
        ));
    }
}
