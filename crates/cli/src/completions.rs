//! The commands `protosplit completions` and `protosplit man`.

use std::fs;

use clap::CommandFactory;

use crate::Exit;
use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn completions(
    args: &CompletionsArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "protosplit", &mut script);
    output.print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

pub(crate) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| Failure::io(&args.folder, &error);
    if args.folder.is_file() {
        let name = args.folder.display();
        return Err(Failure::usage(format!("{name}: a file, not a folder")));
    }
    fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.folder).map_err(failed)?;
    Ok(Exit::Done)
}
