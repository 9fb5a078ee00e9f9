//! The command line of `protosplit export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::reading::ReadingArgs;

pub(super) const HELP: &str = "\
Writes all tensors of a file to one file for other programs. They are streamed, never held
in memory as a whole.

Tensors whose type the format lacks, such as strings, are left out and listed.

Examples:
  protosplit export model/ -o model.safetensors
  protosplit export graph.cpb -o weights.npz
      For numpy.load.
  protosplit export checkpoint/model.ckpt -o weights --format npz";

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// A file or folder with tensors, or the common prefix of several files; - for standard input
    pub(crate) file: PathBuf,
    /// The file to write
    #[arg(short, long)]
    pub(crate) output: PathBuf,
    /// Format to write [default: by the extension of OUTPUT]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) format: Option<ExportFormat>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Overwrite existing output
    #[arg(long)]
    pub(crate) force: bool,
}

/// A file format for tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// A safetensors file
    Safetensors,
    /// An uncompressed NumPy archive
    Npz,
}
