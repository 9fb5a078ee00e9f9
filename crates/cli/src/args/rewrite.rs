//! Options for commands that write a changed copy of a file.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueParser;

use super::values::file_size;

/// Options for writing a changed copy of a file.
#[derive(Args, Debug)]
pub(crate) struct RewriteArgs {
    /// Maximum size of each file; only if FILE has the extended profile [default: any size]
    #[arg(long, value_name = "SIZE", value_parser = ValueParser::new(file_size))]
    pub(crate) max_file_size: Option<u64>,
    /// Leave a SavedModel's fingerprint.pb unchanged
    #[arg(long)]
    pub(crate) keep_fingerprint: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Overwrite existing output
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

/// A new value, on the command line or in a file.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct NewValueArgs {
    /// The new value: a number or text, or a message as JSON or in text format
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) value: Option<String>,
    /// The file with the new value, or - for standard input
    #[arg(long, value_name = "VALUE_FILE")]
    pub(crate) with: Option<PathBuf>,
}
