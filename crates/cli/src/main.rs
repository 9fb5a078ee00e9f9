//! `protosplit`: see the library of this package.
#![forbid(unsafe_code)]

use std::io::{self, BufWriter};
use std::process::ExitCode;

fn main() -> ExitCode {
    protosplit_cli::run_on(
        std::env::args_os(),
        &mut BufWriter::new(io::stdout().lock()),
        &mut io::stderr(),
        protosplit_cli::Terminal::detect(),
    )
    .into()
}
