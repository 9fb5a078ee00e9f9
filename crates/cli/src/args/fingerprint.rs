//! The command line of `protosplit fingerprint`.

use std::path::PathBuf;

use clap::Args;

use super::output_file::OutputFileArgs;

pub(super) const HELP: &str = "\
Computes the fingerprint of a SavedModel as TensorFlow 2.21 does, and compares it with
fingerprint.pb. The model is streamed, so it may have any size.

Exit status 1 if fingerprint.pb differs, or if TensorFlow's own code can't compute
the fingerprint of this model.

Examples:
  protosplit fingerprint model/
  protosplit fingerprint model/ --json | jq -r .singleprint";

#[derive(Args, Debug)]
pub(crate) struct FingerprintArgs {
    /// The folder of a SavedModel
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) output_file: OutputFileArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
