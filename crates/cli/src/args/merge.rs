//! The command line of `protosplit merge`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::parts::PartsArgs;
use super::reading::ReadingArgs;
use super::threads::ThreadsArgs;

pub(super) const HELP: &str = "\
INPUT is a .cpb file, or the prefix of one, and OUTPUT a file. Or INPUT is the
folder of a SavedModel, and OUTPUT a new folder: everything is copied there, with
saved_model.pb in place of saved_model.cpb and an updated fingerprint.pb. If OUTPUT ends in
.pb, only the message is written.

--skip-damaged recovers the readable part of a damaged file: values of chunks that are
damaged, or in a missing file, are empty in OUTPUT, and listed. Exit status 1 if there are
any.

Every checksum is verified. Files written by protosplit need no type. Other files may need
one: an error asks for it if the merge depends on it.

Examples:
  protosplit merge graph.cpb -o graph.pb
  protosplit merge small/ -o whole/
  protosplit merge small/ -o whole.pb
  protosplit merge graph.cpb -o - | sha256sum
  protosplit merge damaged.cpb -o rest.pb --skip-damaged
  protosplit merge theirs.cpb -o theirs.pb --message tensorflow.GraphDef
      A file written by TensorFlow, under a name that doesn't reveal its type.
  protosplit merge theirs.cpb -o theirs.pb --assume-plain
      For an unknown type: bytes stay bytes, messages aren't groups, integer
      keys are plain varints, and slices are appended.
  protosplit merge module.riegeli -o module.pb --canonical
      As C++ serializes deterministically: equal messages become equal files.
  protosplit merge model.cpb -o model.pb --plan-only plan --parts 100
  protosplit merge --plan plan --part 17
  protosplit merge --plan plan --commit
      On several hosts, which write to one hidden file beside the result.";

#[derive(Args, Debug)]
pub(crate) struct MergeArgs {
    /// A .cpb file, its prefix, or the folder of a SavedModel; - for standard input
    #[arg(required_unless_present = "plan", conflicts_with = "plan")]
    pub(crate) input: Option<PathBuf>,
    /// The file to write; for a folder, a new folder, or a name ending in .pb; - for standard output
    #[arg(short, long, required_unless_present = "plan", conflicts_with = "plan")]
    pub(crate) output: Option<PathBuf>,
    /// Write the message in canonical form: fields by number, map entries by key. Needs the type
    #[arg(long, conflicts_with_all = ["skip_damaged", "plan", "plan_only"])]
    pub(crate) canonical: bool,
    /// Leave out damaged chunks, and list the paths lost
    #[arg(long, conflicts_with_all = ["plan", "plan_only"])]
    pub(crate) skip_damaged: bool,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Leave a SavedModel's fingerprint.pb unchanged
    #[arg(long)]
    pub(crate) keep_fingerprint: bool,
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

impl MergeArgs {
    /// Returns the input, or an empty path with `--plan`, since the plan names the input.
    pub(crate) fn input(&self) -> &Path {
        self.input.as_deref().unwrap_or(Path::new(""))
    }

    /// Returns the output, or an empty path with `--plan`, since the plan names the output.
    pub(crate) fn output(&self) -> &Path {
        self.output.as_deref().unwrap_or(Path::new(""))
    }
}
