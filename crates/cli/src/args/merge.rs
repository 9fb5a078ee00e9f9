//! The command line of `protosplit merge`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::in_parts::InPartsArgs;
use super::reading::ReadingArgs;
use super::running::ThreadsArgs;

pub(super) const HELP: &str = "\
INPUT is a .cpb file, or the prefix of one, and OUTPUT a file. Or INPUT is the
folder of a SavedModel, and OUTPUT a new folder: everything is copied there, with
saved_model.pb in place of saved_model.cpb, and with the fingerprint.pb that goes with
it. If OUTPUT ends in .pb, only the message is written.

With --skip-damaged a damaged file gives what can be had of it: the values of chunks that
are damaged, or in a file that is missing, are empty in OUTPUT, and listed. Exit status 1 if
any are.

Every checksum is verified on the way. Files that protosplit wrote need no type.
Others may: it is asked for where the merge depends on it.

Examples:
  protosplit merge graph.cpb -o graph.pb
  protosplit merge small/ -o whole/
  protosplit merge small/ -o whole.pb
  protosplit merge graph.cpb -o - | sha256sum
  protosplit merge damaged.cpb -o rest.pb --skip-damaged
  protosplit merge theirs.cpb -o theirs.pb --message tensorflow.GraphDef
      A file that TensorFlow wrote, under a name that doesn't tell its type.
  protosplit merge theirs.cpb -o theirs.pb --assume-plain
      One whose type nobody knows: bytes are taken as bytes, messages as no
      groups, integer keys as plain varints, and slices are appended.
  protosplit merge module.riegeli -o module.pb --canonical
      As C++ serializes it deterministically: equal messages are equal files.
  protosplit merge model.cpb -o model.pb --plan-only plan --parts 100
  protosplit merge --plan plan --part 17
  protosplit merge --plan plan --commit
      By several hosts, which write into one hidden file beside the result.";

#[derive(Args, Debug)]
pub(crate) struct MergeArgs {
    /// A .cpb file, its prefix, or the folder of a SavedModel; - for standard input
    #[arg(required_unless_present = "plan", conflicts_with = "plan")]
    pub(crate) input: Option<PathBuf>,
    /// The file to write; for a folder, a new one, or a name ending in .pb; - for standard output
    #[arg(short, long, required_unless_present = "plan", conflicts_with = "plan")]
    pub(crate) output: Option<PathBuf>,
    /// Write the message in canonical form: fields by number, map entries by key. Needs the type
    #[arg(long, conflicts_with_all = ["skip_damaged", "plan", "plan_only"])]
    pub(crate) canonical: bool,
    /// Leave out what is damaged, and list the paths that are lost
    #[arg(long, conflicts_with_all = ["plan", "plan_only"])]
    pub(crate) skip_damaged: bool,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Leave a SavedModel's fingerprint.pb as it is
    #[arg(long)]
    pub(crate) keep_fingerprint: bool,
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

impl MergeArgs {
    /// What is merged; nothing if the work is in a plan.
    pub(crate) fn input(&self) -> &Path {
        self.input.as_deref().unwrap_or(Path::new(""))
    }

    /// What is written; nothing if the work is in a plan.
    pub(crate) fn output(&self) -> &Path {
        self.output.as_deref().unwrap_or(Path::new(""))
    }
}
