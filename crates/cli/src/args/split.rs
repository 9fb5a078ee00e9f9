//! The command line of `protosplit split`.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::ValueParser;
use proto_splitter::record_file::WriterOptions;
use proto_splitter::split::{ChunkCompression, Profile};

use super::depth::DepthArgs;
use super::parts::PartsArgs;
use super::schema::SchemaArgs;
use super::threads::ThreadsArgs;
use super::values::{
    ValueSize, chunk_size, compression, file_size, largest_value, profile, records, slice_size,
    value_size,
};

pub(super) const HELP: &str = "\
INPUT is a .pb file, and OUTPUT a prefix: the command writes OUTPUT.cpb, or OUTPUT.pb if the
message is within the maximum chunk size and needs no splitting. An OUTPUT that ends in .cpb
is always written as named; then repeated fields of the message that exceed one slice are
divided into slices. Or INPUT is the folder of a SavedModel, and OUTPUT a new folder:
everything is copied there, with saved_model.cpb in place of saved_model.pb and the
fingerprint.pb that TensorFlow would write.

If OUTPUT is -, the file goes to standard output: the message itself if it needs no
splitting. Large chunks compressed ahead of their turn are kept in temporary files, of up to
512 MiB or the largest chunk's size.

The input is never changed or removed. Files appear complete or not at all.

A chunk that is a bytes or string value can exceed the maximum; TensorFlow reads it. The
profile `extended` divides it too, as well as other values that TensorFlow can't assemble;
TensorFlow rejects such a file, and only this program reads it.

A merge restores the message byte for byte. If lengths take more bytes than they need, or the
elements of one field are scattered, the file also lists the position of every byte. In the
profile `tensorflow` a merge isn't byte-exact if this list would exceed the maximum chunk size:
it yields an equal message with other bytes, and --require-byte-exact refuses the split. In
`extended` every merge is byte-exact: a message whose fields alternate more than a million
times is divided by position.

A SIZE is a number of bytes, or a number with a unit: 64MiB, 10K and 1.5GiB are binary,
1GB is decimal.

Examples:
  protosplit split model/ -o small/
      A SavedModel's folder. Chunks have at most 1 GiB.
  protosplit split graph.pb --message tensorflow.GraphDef
      A single file, to graph.cpb beside it. All types of a SavedModel are built in,
      such as tensorflow.MetaGraphDef and tensorflow.TensorProto.
  protosplit split saved_model.pb -o chunked --max-chunk-size 64MiB --compression zstd:9
      The type of a saved_model.pb is known.
  protosplit split graph.pb --message tensorflow.GraphDef --records 'transpose,brotli:5'
      Smaller: messages are stored field by field. TensorFlow reads such files, too.
  protosplit split trace.pb --message perf.Trace --proto perf/trace.proto -I protos
      A type that isn't built in: its schema is compiled first.
  protosplit split trace.pb --message perf.Trace --descriptor-set perf.binpb
      With a compiled schema, from `protoc --include_imports --descriptor_set_out=perf.binpb`.
  protosplit split trace.pb -o trace.cpb --message perf.Trace --proto perf/trace.proto --embed-schema
      Afterwards get, cat and info know the type.
  protosplit split trace.pb --message perf.Trace --proto perf/trace.proto --profile extended --max-file-size 4GiB
      To trace.cpb and, if needed, trace.00001-89abcdef.cpb and so on, each of at most
      4 GiB. They belong together.
  protosplit split saved_model.pb -o model.cpb --merkle-root
      Prints a root: a hash by which anybody can check all of the file, or any part of it.
  protosplit split saved_model.pb -o - --max-chunk-size 64MiB | ssh host 'cat > model.cpb'
      To a pipe. If the connection breaks, readers report the file as truncated.
  protosplit split saved_model.pb --max-chunk-size 100MiB --dry-run
      Lists the chunks without writing anything.
  protosplit split saved_model.pb -o out/model --profile extended --plan-only out/plan --parts 100
  protosplit split --plan out/plan --part 17
  protosplit split --plan out/plan --commit
      On several hosts: one plans, each executes parts, in any order and any number of
      times, and one combines them. merge and verify work likewise.";

#[derive(Args, Debug)]
pub(crate) struct SplitArgs {
    /// File or folder of any supported format; - for standard input
    #[arg(required_unless_present = "plan", conflicts_with = "plan")]
    pub(crate) input: Option<PathBuf>,
    /// Prefix of the output [default: INPUT without extension]; a new folder if INPUT is a folder; - for standard output
    #[arg(short, long, conflicts_with = "plan")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) schema: SchemaArgs,
    /// Largest chunk of a message
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = ValueParser::new(chunk_size))]
    pub(crate) max_chunk_size: u64,
    /// Largest slice of a repeated field; reading one element reads its slice
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = ValueParser::new(slice_size))]
    pub(crate) max_slice_size: u64,
    /// If a message must be split, bytes and strings of at least this size become chunks; with `none`, only if unavoidable
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = ValueParser::new(value_size))]
    pub(crate) value_chunk_size: ValueSize,
    /// tensorflow: TensorFlow reads the file; extended: every value can be divided, and chunks can be
    /// in several files
    #[arg(long, value_name = "NAME", default_value = "tensorflow", value_parser = profile())]
    pub(crate) profile: Profile,
    /// Largest chunk of a bytes or string value [default: any size; extended: --max-chunk-size]
    #[arg(long, value_name = "SIZE", value_parser = ValueParser::new(largest_value))]
    pub(crate) max_value_size: Option<u64>,
    /// Maximum size of each file; only for the extended profile [default: any size]
    #[arg(long, value_name = "SIZE", value_parser = ValueParser::new(file_size))]
    pub(crate) max_file_size: Option<u64>,
    #[command(flatten)]
    pub(crate) depth: DepthArgs,
    /// auto[:LEVEL] (zstd where it pays), none, zstd[:LEVEL], brotli[:LEVEL] or snappy
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = ValueParser::new(compression))]
    pub(crate) compression: ChunkCompression,
    /// Riegeli's record options: zstd:5, uncompressed, `transpose,brotli:5` (smaller, but uses memory)
    #[arg(long, value_name = "OPTIONS", conflicts_with_all = ["compression", "plan", "plan_only"], value_parser = ValueParser::new(records))]
    pub(crate) records: Option<WriterOptions>,
    /// Embed the schema, so that commands that read the file don't need --proto
    #[arg(long)]
    pub(crate) embed_schema: bool,
    /// Store the hashes of a Merkle root, and print it: verify and get take it as --root
    #[arg(long)]
    pub(crate) merkle_root: bool,
    /// Fail unless a merge would restore the exact bytes
    #[arg(long)]
    pub(crate) require_byte_exact: bool,
    /// Leave a SavedModel's fingerprint.pb unchanged
    #[arg(long)]
    pub(crate) keep_fingerprint: bool,
    /// List the chunks, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,
    /// Print one JSON object; not with -o -
    #[arg(long)]
    pub(crate) json: bool,
    /// Overwrite existing output
    #[arg(long, conflicts_with = "plan")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) parts: PartsArgs,
}

impl SplitArgs {
    /// Returns the input, or an empty path if a plan names it.
    pub(crate) fn input(&self) -> &Path {
        self.input.as_deref().unwrap_or(Path::new(""))
    }
}
