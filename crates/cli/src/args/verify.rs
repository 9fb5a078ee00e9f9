//! The command line of `protosplit verify`.

use std::path::{Path, PathBuf};

use clap::Args;
use proto_splitter::container::MerkleRoot;

use super::output_file::OutputFileArgs;
use super::parts::PartsArgs;
use super::reading::ReadingArgs;
use super::threads::ThreadsArgs;

pub(super) const HELP: &str = "\
Checks a .cpb file: every hash, size, position and path, and the size and checksum of the
merged message.

FILE can be a .cpb file, the prefix of one, or the folder of a SavedModel. A .pb file has no
checksums: the command only checks that it is a sequence of fields.

Examples:
  protosplit verify graph.cpb
  protosplit verify small/ --deep
      Also parses all chunks: nesting, wire types, strings in UTF-8.
  protosplit verify graph.cpb --against graph.pb
      Reports whether a merge is byte-exact, equal as a message, or different, and
      the first difference. Exit status 1 if it is different.
  protosplit verify model/ --signature model.sig --key key.pub
      Finds forgeries, too: every file is as it was signed. Exit status 1 if not.
  protosplit verify model.cpb --root 9f86d081884c7d65...
      Finds forgeries, too: compares everything in the file with this Merkle root, which
      `split --merkle-root` and `info` print. The root has to come from somebody you trust.
  protosplit verify model.cpb --plan-only plan --parts 100
  protosplit verify --plan plan --part 17
  protosplit verify --plan plan --commit
      On several hosts. Exit status 1 if a part finds damage.";

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// File or folder of any supported format, or the prefix of a .cpb file; - for standard input
    #[arg(required_unless_present = "plan", conflicts_with = "plan")]
    pub(crate) file: Option<PathBuf>,
    /// Compare the merged message with this one
    #[arg(long, value_name = "ORIGINAL.pb")]
    pub(crate) against: Option<PathBuf>,
    /// Check the files against this signature, made by `protosplit sign` or model-signing, and nothing else
    #[arg(long, value_name = "MODEL.sig", requires = "key", conflicts_with_all = ["against", "deep", "plan", "plan_only"])]
    pub(crate) signature: Option<PathBuf>,
    /// The signer's public key, in PEM
    #[arg(long, value_name = "KEY.pub", requires = "signature")]
    pub(crate) key: Option<PathBuf>,
    /// Also compare everything with this Merkle root, which `split --merkle-root` printed
    #[arg(long, value_name = "HEX", conflicts_with_all = ["signature", "plan", "plan_only"])]
    pub(crate) root: Option<MerkleRoot>,
    /// Also parse the contents of chunks
    #[arg(long)]
    pub(crate) deep: bool,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,
    #[command(flatten)]
    pub(crate) output_file: OutputFileArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) parts: PartsArgs,
}

impl VerifyArgs {
    /// Returns the file to check, or an empty path if a plan names it.
    pub(crate) fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new(""))
    }
}
