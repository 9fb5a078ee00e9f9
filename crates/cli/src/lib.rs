//! The `protosplit` command: split, merge, verify, describe and fingerprint protobuf messages of
//! any size.
//!
//! [`run`] runs the whole command with the given arguments and writers. The binary is a wrapper
//! around this function.
//!
//! ```
//! let (mut out, mut err) = (Vec::new(), Vec::new());
//! let exit = protosplit_cli::run(["protosplit", "split", "no such file.pb"], &mut out, &mut err);
//! assert_eq!(exit, protosplit_cli::Exit::Usage);
//! assert!(err.starts_with(b"protosplit: no such file.pb: "));
//! ```
//!
//! The module of a subcommand first creates a report. The report is then printed as text or as
//! JSON, so both have the same contents.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod apart;
mod append;
mod args;
mod cat;
#[cfg(feature = "columns")]
mod columns;
mod completions;
mod convert;
mod diff;
mod display_name;
mod edit;
mod export;
mod externalize;
mod failure;
mod fingerprint;
mod get;
mod info;
mod input;
mod interrupt;
mod layout;
mod ls;
mod merge;
mod named_input;
mod named_parts;
mod new_value;
#[cfg(feature = "remote")]
mod open_objects;
#[cfg(not(feature = "remote"))]
#[path = "open_objects/absent.rs"]
mod open_objects;
mod opening;
mod output;
mod output_file;
mod parts;
mod pieces;
mod place;
mod print_schema;
mod progress;
#[cfg(feature = "remote")]
mod remote;
#[cfg(not(feature = "remote"))]
#[path = "remote/absent.rs"]
mod remote;
mod rewrite;
mod samediff;
mod sanitize;
mod saving;
mod schema;
mod sign;
mod size;
mod split;
mod suggest;
mod table;
mod tally;
mod target_form;
mod tensors;
mod terminal;
mod text;
mod tree;
mod types;
mod usage;
mod verbose;
mod verify;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::Failure;
use output::Output;

pub use failure::{Cause, Failed};
pub use interrupt::Interrupt;
pub use named_input::{
    ConvertedNamed, NameOptions, NamedInput, NamedTreeOptions, convert_named, failed, open_named,
    tree_text, verify_named,
};
pub use named_parts::{
    hide_secrets, object_stores, plan_merge_named, plan_split_named, plan_verify_named,
};
pub use terminal::Terminal;

/// The outcome of a command, which determines its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded; status 0.
    Done,
    /// The data is invalid, can't be split, or differs from other data; status 1.
    Bad,
    /// The command line is invalid, or something can't be read or written; status 2.
    Usage,
    /// The command was [interrupted](Interrupt); status 130, as for a process ended by SIGINT. The
    /// binary doesn't return this status, but ends itself with the signal that it received.
    Interrupted,
}

impl Exit {
    /// Returns the status of a check.
    fn of(is_good: bool) -> Exit {
        if is_good { Exit::Done } else { Exit::Bad }
    }

    /// Returns the exit status for the outcome.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Bad => 1,
            Exit::Usage => 2,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Runs the command. The first argument is the command's own name, as in `std::env::args_os`.
///
/// Results are written to `stdout`. Errors, warnings and notes are written to `stderr`, one per
/// line, each starting with `protosplit: `. If `stdout` is a pipe that its reader closes, that
/// isn't an error.
pub fn run<I, T>(args: I, stdout: &mut dyn Write, stderr: &mut dyn Write) -> Exit
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    run_on(args, stdout, stderr, Terminal::none(), &Interrupt::new())
}

/// Runs the command like [`run`], but fits tables to the width of `terminal`, and can be
/// interrupted while it writes files.
pub fn run_on<I, T>(
    args: I,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
    terminal: Terminal,
    interrupt: &Interrupt,
) -> Exit
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let mut output = Output::new(stdout, stderr).on(terminal).until(interrupt);
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    match ended(&args, &mut output) {
        Ok(exit) => exit,
        Err(failure) => output.fail(&failure),
    }
}

fn ended(args: &[OsString], output: &mut Output<'_>) -> Result<Exit, Failure> {
    remote::hide_secrets(args);
    let ended = match Cli::try_parse_from(args) {
        Ok(mut cli) => execute(&mut cli, output),
        Err(error) => return Ok(usage::report(&error, args, output)),
    };
    let ended = ended.and_then(|exit| output.flush().map(|()| exit));
    ended.or_else(|failure| {
        if output.is_abandoned() {
            Ok(Exit::Done)
        } else {
            Err(output.failure().unwrap_or(failure))
        }
    })
}

fn execute(cli: &mut Cli, output: &mut Output<'_>) -> Result<Exit, Failure> {
    verbose::show(cli.verbose);
    output.be_as(cli);
    let staged = remote::stage(&mut cli.command, output)?;
    remote::inputs(&mut cli.command)
        .into_iter()
        .for_each(place::name_file);
    let exit = output_file::run(&cli.command, output, |output| {
        execute_one(&cli.command, output)
    })?;
    staged.finish(output)?;
    Ok(exit)
}

fn execute_one(command: &Command, output: &mut Output<'_>) -> Result<Exit, Failure> {
    match command {
        Command::Split(args) => split::run(args, output),
        Command::Merge(args) => merge::run(args, output),
        Command::Verify(args) => verify::run(args, output),
        Command::Tree(args) => tree::run(args, output),
        Command::Info(args) => info::run(args, output),
        Command::Ls(args) => ls::run(args, output),
        Command::Layout(args) => layout::run(args, output),
        Command::Cat(args) => cat::run(args, output),
        Command::Schema(args) => print_schema::run(args, output),
        Command::Get(args) => get::run(args, output),
        Command::Tensors(args) => tensors::run(args, output),
        Command::Export(args) => export::run(args, output),
        Command::Pieces(args) => pieces::run(args, output),
        Command::Convert(args) => convert::run(args, output),
        Command::Externalize(args) => externalize::run_externalize(args, output),
        Command::Internalize(args) => externalize::run_internalize(args, output),
        Command::Fingerprint(args) => fingerprint::run(args, output),
        Command::Sign(args) => sign::run(args, output),
        Command::Diff(args) => diff::run(args, output),
        Command::Recompress(args) => rewrite::run_recompress(args, output),
        Command::Replace(args) => rewrite::run_replace(args, output),
        Command::Remove(args) => edit::run_remove(args, output),
        Command::Insert(args) => edit::run_insert(args, output),
        Command::Strip(args) => edit::run_strip(args, output),
        Command::Edit(args) => edit::run_edit(args, output),
        Command::Append(args) => append::run(args, output),
        Command::SameDiff(args) => samediff::run(args, output),
        Command::Completions(args) => completions::completions(args, output),
        Command::Man(args) => completions::man(args),
    }
}
