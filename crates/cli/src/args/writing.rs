//! Options of all commands that write a file which is made from another.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueParser;

use super::values::file_size;

/// What holds for any file that is made from another.
#[derive(Args, Debug)]
pub(crate) struct RewriteArgs {
    /// Largest size of a file; only if FILE has the profile extended [default: any size]
    #[arg(long, value_name = "SIZE", value_parser = ValueParser::new(file_size))]
    pub(crate) max_file_size: Option<u64>,
    /// Leave a SavedModel's fingerprint.pb as it is
    #[arg(long)]
    pub(crate) keep_fingerprint: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Replace what is in the way
    #[arg(long)]
    pub(crate) force: bool,
}

/// The form of a changed model.
#[derive(Args, Debug)]
pub(crate) struct FormArgs {
    /// Write the model in this form, as `convert --to` does [default: the form of FILE]
    #[arg(long, value_name = "FORM")]
    pub(crate) to: Option<String>,
}

/// A new value, one way or the other.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct NewValueArgs {
    /// The new value: a number or text as it is, a message as JSON or in text format
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) value: Option<String>,
    /// The file with the new value, or - for standard input
    #[arg(long, value_name = "VALUE_FILE")]
    pub(crate) with: Option<PathBuf>,
}
