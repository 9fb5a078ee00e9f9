//! The command line of `protosplit convert`.

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Args, ValueEnum};
use proto_splitter::split::ChunkCompression;

use super::running::ThreadsArgs;
use super::values::{ValueSize, chunk_size, compression, value_size};

pub(super) const HELP: &str = "\
Writes a SavedModel with its model in another form: saved_model.pb, or saved_model.cpb
in chunks. Everything else is copied, and fingerprint.pb made to agree.

In place, the new model appears beside the old one first, complete and checked, then
fingerprint.pb is replaced, and the old model goes last. Interrupted at any moment,
the folder has a model that can be read; run again, the conversion goes on.

Examples:
  protosplit convert model/ small/ --to cpb
  protosplit convert model/ --in-place --to cpb --max-chunk-size 512MiB
  protosplit convert small/ whole/
      A .pb if the model is under 2 GiB, which is the most that protobuf reads.
  protosplit convert small/ whole/ --to pb
      A .pb, or an error that says by how much it would be too large.";

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// The folder of a SavedModel
    pub(crate) input: PathBuf,
    /// The folder to write
    #[arg(required_unless_present = "in_place", conflicts_with = "in_place")]
    pub(crate) output: Option<PathBuf>,
    /// The form of the model; auto: pb if it is under 2 GiB, else cpb
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) to: To,
    /// Convert the folder itself
    #[arg(long)]
    pub(crate) in_place: bool,
    /// For a .cpb, the most that the chunk of a message may have
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = ValueParser::new(chunk_size))]
    pub(crate) max_chunk_size: u64,
    /// Bytes and strings this large are cut out if anything is, or `none`
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = ValueParser::new(value_size))]
    pub(crate) value_chunk_size: ValueSize,
    /// auto[:LEVEL] (zstd where it pays), none, zstd[:LEVEL], brotli[:LEVEL] or snappy
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = ValueParser::new(compression))]
    pub(crate) compression: ChunkCompression,
    /// Leave fingerprint.pb as it is
    #[arg(long)]
    pub(crate) keep_fingerprint: bool,
    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Replace a SavedModel that is in the way
    #[arg(long, conflicts_with = "in_place")]
    pub(crate) force: bool,
}

/// The form of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum To {
    Auto,
    Pb,
    Cpb,
}
