//! The command line of `protosplit split`.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::ValueParser;
use proto_splitter::record_file::WriterOptions;
use proto_splitter::split::{ChunkCompression, Profile};

use super::depth::DepthArgs;
use super::in_parts::InPartsArgs;
use super::running::ThreadsArgs;
use super::schema::SchemaArgs;
use super::values::{
    ValueSize, chunk_size, compression, file_size, largest_value, profile, records, slice_size,
    value_size,
};

pub(super) const HELP: &str = "\
INPUT is a .pb file, and OUTPUT a prefix: OUTPUT.cpb is written, or OUTPUT.pb if
the message is within the maximum chunk size, so that nothing has to be cut.
An OUTPUT that ends with .cpb is written in any case; then the message's own
repeated fields are put into slices, if they are longer than one.
Or INPUT is the folder of a SavedModel, and OUTPUT a new folder: everything is
copied there, with saved_model.cpb in place of saved_model.pb, and fingerprint.pb
is what TensorFlow would write for it.

Where OUTPUT is -, that file goes to standard output: the message itself, if nothing
has to be cut. What is compressed ahead of its turn goes to temporary files, if it is
much: up to 512 MiB, or the largest chunk.

The input is never changed or removed. Files appear complete or not at all.
A chunk of bytes or of a string can be larger than the maximum; TensorFlow reads it.
In the profile `extended` it is cut too, and so is what else TensorFlow has no way to
put together; TensorFlow refuses such a file, and only this program reads it.
A merge is byte for byte what was split. There is one exception: where lengths take more
bytes than they need, or elements of one field stand in many places, the file lists where
every byte went. In the profile `tensorflow` that list must be within the maximum chunk
size; beyond that a merge is equal as a message, and --require-byte-exact refuses it. In
`extended` every merge is byte-exact: a message whose fields take turns more than a million
times is cut where it stands.

A SIZE is a number of bytes, or one with a binary unit: 64MiB, 10KiB, 1GiB.

Examples:
  protosplit split model/ -o small/
      A SavedModel's folder. Chunks have at most 1 GiB.
  protosplit split graph.pb --message tensorflow.GraphDef
      A single file, to graph.cpb beside it. Any type that a SavedModel reaches
      will do, tensorflow.MetaGraphDef or tensorflow.TensorProto too.
  protosplit split saved_model.pb -o chunked --max-chunk-size 64MiB --compression zstd:9
      The type of a saved_model.pb is known.
  protosplit split graph.pb --message tensorflow.GraphDef --records 'transpose,brotli:5'
      Smaller: messages are stored field by field. TensorFlow reads that, too.
  protosplit split trace.pb --message perf.Trace --proto perf/trace.proto -I protos
      A type that isn't built in: its schema is compiled on the way.
  protosplit split trace.pb --message perf.Trace --descriptor-set perf.binpb
      Or compiled before, as by `protoc --include_imports --descriptor_set_out=perf.binpb`.
  protosplit split trace.pb -o trace.cpb --message perf.Trace --proto perf/trace.proto --embed-schema
      After that, get, cat and info know the type by themselves.
  protosplit split trace.pb --message perf.Trace --proto perf/trace.proto --profile extended --max-file-size 4GiB
      To trace.cpb and, if that is not enough, trace.00001-89abcdef.cpb and so on, which
      belong together: all of them at most 4 GiB.
  protosplit split saved_model.pb -o - --max-chunk-size 64MiB | ssh host 'cat > model.cpb'
      To a pipe. If that broke, whoever reads the chunks is told so.
  protosplit split saved_model.pb --max-chunk-size 100MiB --dry-run
      What would be cut. Nothing is written.
  protosplit split model.pb -o out/model --profile extended --plan-only out/plan --parts 100
  protosplit split --plan out/plan --part 17
  protosplit split --plan out/plan --commit
      By several hosts: one plans, each does parts, in any order and any number of
      times, and one puts them together. merge and verify do the same.";

#[derive(Args, Debug)]
pub(crate) struct SplitArgs {
    /// A .pb file, or the folder of a SavedModel; - for standard input
    #[arg(required_unless_present = "plan", conflicts_with = "plan")]
    pub(crate) input: Option<PathBuf>,
    /// A prefix, by default INPUT without extension; for a folder, a new one; - for standard output
    #[arg(short, long, conflicts_with = "plan")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) schema: SchemaArgs,
    /// Largest size of a chunk that is a message
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = ValueParser::new(chunk_size))]
    pub(crate) max_chunk_size: u64,
    /// Size of the slices of a repeated field: what is read for one element
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = ValueParser::new(slice_size))]
    pub(crate) max_slice_size: u64,
    /// Bytes and strings this large are cut out if anything is, or `none`
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = ValueParser::new(value_size))]
    pub(crate) value_chunk_size: ValueSize,
    /// tensorflow: TensorFlow reads the file; extended: every value can be cut, and there can be
    /// several files
    #[arg(long, value_name = "NAME", default_value = "tensorflow", value_parser = profile())]
    pub(crate) profile: Profile,
    /// Largest size of a chunk that is a bytes or string value [default: any size; extended:
    /// --max-chunk-size]
    #[arg(long, value_name = "SIZE", value_parser = ValueParser::new(largest_value))]
    pub(crate) max_value_size: Option<u64>,
    /// Largest size of a file; only for the profile extended [default: any size]
    #[arg(long, value_name = "SIZE", value_parser = ValueParser::new(file_size))]
    pub(crate) max_file_size: Option<u64>,
    #[command(flatten)]
    pub(crate) depth: DepthArgs,
    /// auto[:LEVEL] (zstd where it pays), none, zstd[:LEVEL], brotli[:LEVEL] or snappy
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = ValueParser::new(compression))]
    pub(crate) compression: ChunkCompression,
    /// How records are written, in Riegeli's words: zstd:5, uncompressed, `transpose,brotli:5`
    /// (smaller; in memory)
    #[arg(long, value_name = "OPTIONS", conflicts_with_all = ["compression", "plan", "plan_only"], value_parser = ValueParser::new(records))]
    pub(crate) records: Option<WriterOptions>,
    /// Bring the schema along, so that no command that reads the file needs --proto
    #[arg(long)]
    pub(crate) embed_schema: bool,
    /// Fail if a merge would be equal as a message, but not byte for byte
    #[arg(long)]
    pub(crate) require_byte_exact: bool,
    /// Leave a SavedModel's fingerprint.pb as it is
    #[arg(long)]
    pub(crate) keep_fingerprint: bool,
    /// Show what would be cut, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,
    /// Print one JSON object; not with -o -
    #[arg(long)]
    pub(crate) json: bool,
    /// Replace what is in the way
    #[arg(long, conflicts_with = "plan")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) in_parts: InPartsArgs,
}

impl SplitArgs {
    /// What is split; nothing if the work is in a plan.
    pub(crate) fn input(&self) -> &Path {
        self.input.as_deref().unwrap_or(Path::new(""))
    }
}
