//! The command lines of `protosplit externalize` and `protosplit internalize`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueParser;

use super::running::ThreadsArgs;
use crate::size;

pub(super) const EXTERNALIZE: &str = "\
Moves the large constants of a SavedModel out of its graph, into a checkpoint under
assets/, which the model itself reads when it is loaded. The result runs in unmodified
TensorFlow, whatever its size was: tf.saved_model.load, sessions of TensorFlow 1, the
C++ loader. It computes the same, bit by bit, and takes a sixth of the memory to load.

The input may be in any form: saved_model.pb of any size, .cpb, .pbtxt. What the original
was is kept in assets.extra/, for `protosplit internalize`.

Constants in functions that XLA compiles become arguments of these. Some can't move:
strings, and what `left in` lists with the reason.

An interrupted --in-place is finished by the same command; on a model that is
externalized already it changes nothing.

Examples:
  protosplit externalize model/ -o runs/
  protosplit externalize model/ --dry-run
  protosplit externalize model/ --in-place
  protosplit externalize model/ -o here/ --mmap
      Constants are mapped from files at absolute paths: loading takes no memory for
      them, but the folder can't be moved.";

pub(super) const INTERNALIZE: &str = "\
Writes the original of a SavedModel that was externalized, byte for byte as its
saved_model.pb was; as a .cpb if that would be over 2 GiB.

A model that TensorFlow saved again, or that was changed, has no original any more.

The original is compared with its checksums while it is written. Folders of versions
that kept none are taken too; of those only the constants in assets/ are compared.

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
    /// Say what would move, and write nothing
    #[arg(long, conflicts_with = "in_place")]
    pub(crate) dry_run: bool,
    /// Constants of at least this many bytes move
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = ValueParser::new(size::parse))]
    pub(crate) min_size: u64,
    /// Map constants from files at absolute paths, which must stay where they are
    #[arg(long)]
    pub(crate) mmap: bool,
    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Replace a SavedModel that is in the way
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
    /// Replace a SavedModel that is in the way
    #[arg(long)]
    pub(crate) force: bool,
}
