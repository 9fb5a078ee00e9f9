//! `protosplit`: see the library of this package.
#![forbid(unsafe_code)]

mod signals;

use std::io::{self, BufWriter};
use std::process::ExitCode;

use protosplit_cli::{Exit, Interrupt};

fn main() -> ExitCode {
    let interrupt = Interrupt::new();
    let signals = signals::watch(&interrupt);
    let exit = protosplit_cli::run_on(
        std::env::args_os(),
        &mut BufWriter::new(io::stdout().lock()),
        &mut io::stderr(),
        protosplit_cli::Terminal::detect(),
        &interrupt,
    );
    if exit == Exit::Interrupted {
        signals.end();
    }
    exit.into()
}
