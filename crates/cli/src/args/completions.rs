//! The command lines of `protosplit completions` and `protosplit man`, both generated from the
//! definitions of the other commands.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

pub(super) const COMPLETIONS: &str = "\
Examples:
  protosplit completions bash > ~/.local/share/bash-completion/completions/protosplit
  protosplit completions zsh > ~/.zfunc/_protosplit
  protosplit completions fish > ~/.config/fish/completions/protosplit.fish";

pub(super) const MAN: &str = "\
Examples:
  protosplit man ~/.local/share/man/man1
      Then `man protosplit`, and `man protosplit-split` for a command.";

#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete for
    pub(crate) shell: Shell,
}

#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The folder to write the pages to; existing pages are overwritten
    pub(crate) folder: PathBuf,
}
