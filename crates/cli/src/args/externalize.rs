//! The command lines of `protosplit externalize` and `protosplit internalize`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueParser;

use super::threads::ThreadsArgs;
use crate::size;

pub(super) const EXTERNALIZE: &str = "\
Moves the large constants of a SavedModel from its graph into a checkpoint under assets/,
which the model itself reads when it is loaded. A model of any size then loads in unmodified
TensorFlow: tf.saved_model.load, sessions of TensorFlow 1, the C++ loader. It computes the
same results, except that the last bit can differ where TensorFlow would have combined two
constants, and takes a sixth of the memory to load.

The input may be in any form: saved_model.pb of any size, .cpb, .pbtxt. assets.extra/ records
the original for `protosplit internalize`.

Constants in functions compiled by XLA become arguments of the functions. Some constants
can't be moved, such as strings: the output lists each of them as `left in`, with the reason.

The same command finishes an interrupted --in-place; it leaves an externalized model
unchanged.

Examples:
  protosplit externalize model/ -o runs/
  protosplit externalize model/ --dry-run
  protosplit externalize model/ --in-place
  protosplit externalize model/ -o here/ --mmap
      Maps the constants from files at absolute paths: loading them takes no memory,
      but the folder can't be moved.";

pub(super) const INTERNALIZE: &str = "\
Writes the original of an externalized SavedModel, byte for byte as its saved_model.pb was,
or as a .cpb if it is over 2 GiB.

A model that TensorFlow saved again, or that was changed, no longer has an original.

The original's checksums are verified while it is written. Folders written by older versions
may lack them; then only the constants in assets/ are verified.

Examples:
  protosplit internalize runs/ -o model/";

#[derive(Args, Debug)]
pub(crate) struct ExternalizeArgs {
    /// The folder of a SavedModel
    pub(crate) input: PathBuf,
    /// The folder to write
    #[arg(short, long, value_name = "FOLDER", required_unless_present_any = ["in_place", "dry_run"], conflicts_with = "in_place")]
    pub(crate) output: Option<PathBuf>,
    /// Externalize the folder itself
    #[arg(long)]
    pub(crate) in_place: bool,
    /// List the constants that would move, and write nothing
    #[arg(long, conflicts_with = "in_place")]
    pub(crate) dry_run: bool,
    /// Smallest constant to move, at least 256 bytes
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = ValueParser::new(size::parse))]
    pub(crate) min_size: u64,
    /// Map constants from files at absolute paths, which must not be moved
    #[arg(long)]
    pub(crate) mmap: bool,
    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Overwrite an existing SavedModel
    #[arg(long, conflicts_with = "in_place")]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct InternalizeArgs {
    /// The folder of an externalized SavedModel
    pub(crate) input: PathBuf,
    /// The folder to write
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Overwrite an existing SavedModel
    #[arg(long)]
    pub(crate) force: bool,
}
