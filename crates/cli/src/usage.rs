//! Printing clap's errors and help in the form of this command's messages.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::Exit;
use crate::args::Cli;
use crate::output::Output;

/// Prints a message from clap. Help and version are printed as results. An error is printed on one
/// line. If the command has no arguments, prints its help.
pub(crate) fn report(error: &clap::Error, args: &[OsString], output: &mut Output<'_>) -> Exit {
    if args.len() < 2 {
        let help = Cli::command().render_help().to_string();
        return match output.print(&help).and_then(|()| output.flush()) {
            Ok(()) => Exit::Usage,
            Err(failure) => failure.exit(),
        };
    }
    let text = error.render().to_string();
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return match output.print(&text).and_then(|()| output.flush()) {
            Ok(()) => Exit::Done,
            Err(failure) => {
                output.error(failure.message());
                failure.exit()
            }
        };
    }
    output.error(format_args!(
        "{}; see `{} --help`",
        first_paragraph(&text),
        asked(args)
    ));
    Exit::Usage
}

/// Returns an error message from clap on one line, with clap's suggestion. Any arguments that clap
/// lists below the first line are appended to this line.
fn first_paragraph(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let mut lines = text.lines().map(str::trim);
    let mut said = lines.next().unwrap_or_default().to_owned();
    let listed: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    if !listed.is_empty() {
        said.push(' ');
        said.push_str(&listed.join(", "));
    }
    if let Some(tip) = lines.find_map(|line| line.strip_prefix("tip: ")) {
        said.push_str("; ");
        said.push_str(tip);
    }
    said
}

/// Returns the command whose help an error recommends, such as `protosplit split`.
fn asked(args: &[OsString]) -> String {
    let command = Cli::command();
    let named = args.get(1).and_then(|arg| arg.to_str());
    match named.and_then(|name| command.find_subcommand(name)) {
        Some(subcommand) => format!("{} {}", command.get_name(), subcommand.get_name()),
        None => command.get_name().to_owned(),
    }
}
