//! The command lines of `protosplit recompress` and `protosplit replace`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueParser;
use proto_splitter::split::ChunkCompression;

use super::reading::{ReadingArgs, ShardArgs};
use super::rewrite::{FormArgs, NewValueArgs, RewriteArgs};
use super::values::compression;

pub(super) const RECOMPRESS: &str = "\
Writes a .cpb file with the same chunks in another compression. Nothing is merged; the
checksums of both files are verified. OUTPUT is one file with all chunks, even if FILE has
them in several, unless it would exceed --max-file-size: then the chunks of OUTPUT.cpb are in
OUTPUT.00001-89abcdef.cpb and so on beside it. Each chunk must fit in a file, as chunks
aren't divided here; to divide them, merge and split again.

FILE can be the folder of a SavedModel: then OUTPUT is a new folder.

Examples:
  protosplit recompress graph.cpb -o small.cpb --compression zstd:19
  protosplit recompress small/ -o fast/ --compression none
  protosplit recompress trace.cpb -o small.cpb --compression zstd:19 --max-file-size 4GiB
      Into several files, if trace.cpb was split with --profile extended.";

pub(super) const REPLACE: &str = "\
Writes a file with one value replaced. In a .cpb file only the value's chunk is rewritten, or
the chunk of the enclosing message; all others are copied as stored, and nothing is merged.
Afterwards every checksum of the new file is verified. OUTPUT is one file with all chunks,
even if FILE has them in several, unless it would exceed --max-file-size: then the chunks of
OUTPUT.cpb are in OUTPUT.00001-89abcdef.cpb and so on beside it.

--value is a number, text or enum value, or a message as JSON or in protobuf's text format.
--with names a file that contains the value, as `get` writes it: the bytes of a message,
string or bytes value. PATH must have a value already. FILE can also be a message in one
piece, or the folder of a SavedModel. For a folder, OUTPUT is a new folder with an updated
fingerprint.pb. An ONNX model with external data keeps it external: --to onnx moves the tensors
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
    /// The file to write; for a folder, a new folder
    #[arg(short, long)]
    pub(crate) output: PathBuf,
    /// auto[:LEVEL] (zstd where it pays), none, zstd[:LEVEL], brotli[:LEVEL] or snappy
    #[arg(long, value_name = "HOW", value_parser = ValueParser::new(compression))]
    pub(crate) compression: ChunkCompression,
    #[command(flatten)]
    pub(crate) shards: ShardArgs,
    #[command(flatten)]
    pub(crate) out: RewriteArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ReplaceArgs {
    /// File or folder of any supported format, or the prefix of a .cpb file; - for standard input
    pub(crate) file: PathBuf,
    /// Path in the message, as `tree --full-paths` shows it
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) value: NewValueArgs,
    /// The file to write; for a folder, a new folder
    #[arg(short, long)]
    pub(crate) output: PathBuf,
    /// Compression of the changed chunk: auto[:LEVEL], none, zstd[:LEVEL], brotli[:LEVEL] or snappy
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = ValueParser::new(compression))]
    pub(crate) compression: ChunkCompression,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) out: RewriteArgs,
}
