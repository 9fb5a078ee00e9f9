//! `protosplit`: see the library of this package.
#![forbid(unsafe_code)]

use std::io::{self, BufWriter};
use std::process::ExitCode;

use protosplit_cli::{Exit, Interrupt};

fn main() -> ExitCode {
    let interrupt = Interrupt::new();
    let raised = interrupt.clone();
    // Without a handler Ctrl-C ends the process, and that is all.
    let _ = ctrlc::set_handler(move || {
        if !raised.raise() {
            std::process::exit(Exit::Interrupted.code().into());
        }
    });
    protosplit_cli::run_on(
        std::env::args_os(),
        &mut BufWriter::new(io::stdout().lock()),
        &mut io::stderr(),
        protosplit_cli::Terminal::detect(),
        &interrupt,
    )
    .into()
}
