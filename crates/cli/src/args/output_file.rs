//! The destination of printed output.

use std::path::PathBuf;

use clap::Args;

/// Options for a command that prints a report, or writes it to a file.
#[derive(Args, Debug)]
pub(crate) struct OutputFileArgs {
    /// The file to write [default: standard output]
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite existing output
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}
