//! The command lines of `protosplit recompress` and `protosplit replace`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueParser;
use proto_splitter::split::ChunkCompression;

use super::reading::{PartsArgs, ReadingArgs};
use super::values::compression;
use super::writing::{FormArgs, NewValueArgs, RewriteArgs};

pub(super) const RECOMPRESS: &str = "\
Writes a .cpb file with the same chunks in another compression. Nothing is merged;
every checksum is verified, of what is read and of what was written. OUTPUT is one file
with all chunks, wherever they are in FILE, unless that is over --max-file-size: then the
chunks of OUTPUT.cpb are in OUTPUT.00001-89abcdef.cpb and so on beside it. Each chunk has
to have room in a file, since none is cut; a split of the merge cuts them anew.

FILE can be the folder of a SavedModel: then OUTPUT is a new folder.

Examples:
  protosplit recompress graph.cpb -o small.cpb --compression zstd:19
  protosplit recompress small/ -o fast/ --compression none
  protosplit recompress trace.cpb -o small.cpb --compression zstd:19 --max-file-size 4GiB
      Into several files, if trace.cpb was split with --profile extended.";

pub(super) const REPLACE: &str = "\
Writes a file with another value at one place. Of a .cpb file only the value's chunk is
written anew, or the chunk of the message around it; all others are copied as they
are stored, and nothing is merged. The new file is read once, with all checksums. OUTPUT
is one file with all chunks, wherever they are in FILE, unless that is over
--max-file-size: then the chunks of OUTPUT.cpb are in OUTPUT.00001-89abcdef.cpb and so on
beside it.

Of a number, a text or an enum --value is the value itself, of a message JSON or protobuf's
text format. --with has it in a file, as `get` gives it: of a message its bytes, of a string
or bytes the bytes themselves. There has to be one at PATH already. FILE can be a .pb file,
too, or the folder of a SavedModel: then OUTPUT is a new folder, with the fingerprint.pb
that goes with it. An ONNX model with its tensors beside it stays one: --to onnx puts them
inside.

Examples:
  protosplit replace small/ 'meta_graphs[0].graph_def.versions.producer' --value 5 -o new/
  protosplit get small/ 'meta_graphs[0].meta_info_def' -o info.pb
  protosplit replace small/ 'meta_graphs[0].meta_info_def' --with edited.pb -o new/
  printf relu | protosplit replace graph.pb 'node[7].op' --with - -o new.pb \\
      --message tensorflow.GraphDef";

#[derive(Args, Debug)]
pub(crate) struct RecompressArgs {
    /// A .cpb file, its prefix, or the folder of a SavedModel; - for standard input
    pub(crate) file: PathBuf,
    /// The file to write; for a folder, a new one
    #[arg(short, long)]
    pub(crate) output: PathBuf,
    /// auto[:LEVEL] (zstd where it pays), none, zstd[:LEVEL], brotli[:LEVEL] or snappy
    #[arg(long, value_name = "HOW", value_parser = ValueParser::new(compression))]
    pub(crate) compression: ChunkCompression,
    #[command(flatten)]
    pub(crate) parts: PartsArgs,
    #[command(flatten)]
    pub(crate) out: RewriteArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ReplaceArgs {
    /// A .cpb or .pb file, its prefix, or the folder of a SavedModel; - for standard input
    pub(crate) file: PathBuf,
    /// The place in the message, as `info` shows it
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) value: NewValueArgs,
    /// The file to write; for a folder, a new one
    #[arg(short, long)]
    pub(crate) output: PathBuf,
    /// How the chunk that changes is compressed: auto[:LEVEL], none, zstd[:LEVEL], brotli[:LEVEL]
    /// or snappy
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = ValueParser::new(compression))]
    pub(crate) compression: ChunkCompression,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) out: RewriteArgs,
}
