//! The command line of `protosplit sign`.

use std::path::PathBuf;

use clap::Args;

use super::threads::ThreadsArgs;

pub(super) const HELP: &str = "\
Signs a model, a file or a folder of any size, with a private key. The signature
names every file and its SHA-256, in the format of OpenSSF Model Signing: PyPI's
model-signing checks it with the public key, as `protosplit verify` does.

Checksums find accidents, a signature finds forgeries.

Examples:
  openssl ecparam -name prime256v1 -genkey -noout -out key.pem
  openssl ec -in key.pem -pubout -out key.pub
  protosplit sign model/ --key key.pem -o model.sig
  protosplit verify model/ --signature model.sig --key key.pub";

#[derive(Args, Debug)]
pub(crate) struct SignArgs {
    /// The file or folder to sign
    pub(crate) model: PathBuf,
    /// The private key: P-256 or P-384, in PEM
    #[arg(long, value_name = "KEY.pem")]
    pub(crate) key: PathBuf,
    /// The signature to write; by default the model's name with .sig after it
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite an existing signature
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
