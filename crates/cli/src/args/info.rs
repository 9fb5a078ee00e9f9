//! The command line of `protosplit info`.

use std::path::PathBuf;

use clap::Args;

use super::printed::PrintedArgs;
use super::reading::PartsArgs;
use super::schema::SchemaArgs;

pub(super) const HELP: &str = "\
Lists the chunks of a .cpb file: kind, size, size in the file, compression,
position and path. Reads headers only.

FILE can be a .cpb file, the prefix of one, or the folder of a SavedModel.

Examples:
  protosplit info graph.cpb
  protosplit info small/ --json | jq '.chunks | max_by(.size).path'
      The largest chunk's place in the message.";

#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// A .cpb or .pb file, its prefix, or the folder of a SavedModel; - for standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) schema: SchemaArgs,
    #[command(flatten)]
    pub(crate) parts: PartsArgs,
    #[command(flatten)]
    pub(crate) printed: PrintedArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
