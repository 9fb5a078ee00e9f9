//! The command line of `protosplit convert`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueParser;
use proto_splitter::split::ChunkCompression;

use super::schema::SchemaArgs;
use super::threads::ThreadsArgs;
use super::values::{ValueSize, chunk_size, compression, file_size, value_size};

pub(super) const HELP: &str = "\
Writes a model in another form: a SavedModel as saved_model.pb, or saved_model.cpb in
chunks; all its other files are copied, and fingerprint.pb is updated. ONNX, PaddlePaddle,
SameDiff, XLA and other models have the forms that `--to help` lists.

In place, the new model is written beside the old one and checked, then fingerprint.pb is
replaced, and the old model is removed last. If interrupted at any moment, the folder has a
model that can be read, and the same command continues the conversion.

Examples:
  protosplit convert model/ small/ --to cpb
  protosplit convert model/ --in-place --to cpb --max-chunk-size 512MiB
  protosplit convert small/ whole/
      A .pb if the model is under 2 GiB, the most that protobuf reads.
  protosplit convert model.onnx -o pair/model.onnx --to external
      With the tensors in a file beside it, for onnxruntime.
  protosplit convert model.onnx --to help
      The forms that the input can be written in, and their settings.
  protosplit convert model.onnx -o model.safetensors --to onnx-safetensors
      The whole model in one file that model hubs can display.
  protosplit convert model.onnx -o pair/model.onnx --to external --max-file-size 5GiB --set min-size=4096
      In files of at most 5 GiB; tensors under 4096 bytes stay inside.
  protosplit convert edited.pb paddle/ --message proto_splitter.paddle.Model
      A model of several files that was merged into one message; a .cpb names its type.
  protosplit convert small/ whole/ --to pb
      A .pb, or an error that says how far it exceeds the limit.";

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// The folder of a SavedModel, or a file or folder of another format
    pub(crate) input: PathBuf,
    /// The folder or file to write; missing parent folders of a file are created
    #[arg(conflicts_with = "in_place")]
    pub(crate) output: Option<PathBuf>,
    /// The same as OUTPUT, as an option
    #[arg(short = 'o', long = "output", value_name = "OUTPUT", conflicts_with_all = ["output", "in_place"])]
    pub(crate) named: Option<PathBuf>,
    /// Form to write; `--to help` lists the input's forms. For a SavedModel pb, cpb, or auto: pb if
    /// under 2 GiB, else cpb. For other formats auto is the usual form
    #[arg(long, value_name = "FORM", default_value = "auto")]
    pub(crate) to: String,
    /// Format-specific setting, e.g. shards=5GiB; may be repeated. `--to help` lists them
    #[arg(long, value_name = "NAME=VALUE", value_parser = ValueParser::new(setting))]
    pub(crate) set: Vec<(String, String)>,
    /// Largest file of external data, for formats with such files [default: any size]
    #[arg(long, value_name = "SIZE", value_parser = ValueParser::new(file_size))]
    pub(crate) max_file_size: Option<u64>,
    /// Convert the folder itself
    #[arg(long)]
    pub(crate) in_place: bool,
    /// For a .cpb: largest chunk of a message
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = ValueParser::new(chunk_size))]
    pub(crate) max_chunk_size: u64,
    /// If a message must be split, bytes and strings of at least this size become chunks; with `none`, only if unavoidable
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = ValueParser::new(value_size))]
    pub(crate) value_chunk_size: ValueSize,
    /// auto[:LEVEL] (zstd where it pays), none, zstd[:LEVEL], brotli[:LEVEL] or snappy
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = ValueParser::new(compression))]
    pub(crate) compression: ChunkCompression,
    /// Leave fingerprint.pb unchanged
    #[arg(long)]
    pub(crate) keep_fingerprint: bool,
    #[command(flatten)]
    pub(crate) schema: SchemaArgs,
    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Overwrite existing output; also allow external ONNX tensors of fewer than 64 bytes
    #[arg(long, conflicts_with = "in_place")]
    pub(crate) force: bool,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
