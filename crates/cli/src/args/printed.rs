//! Where what is printed goes.

use std::path::PathBuf;

use clap::Args;

/// Of commands that print.
#[derive(Args, Debug)]
pub(crate) struct PrintedArgs {
    /// The file to write, by default standard output
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
    /// Replace what is in the way
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}
