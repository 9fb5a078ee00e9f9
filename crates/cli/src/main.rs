//! The `protosplit` binary, a wrapper around this package's library.
#![forbid(unsafe_code)]

mod signals;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use proto_splitter_startup::stdout_was_closed;
use protosplit_cli::{Exit, Interrupt};

fn main() -> ExitCode {
    let interrupt = Interrupt::new();
    let signals = signals::watch(&interrupt);
    let (mut closed, mut open) = (Closed, BufWriter::new(io::stdout().lock()));
    let stdout: &mut dyn Write = if stdout_was_closed() {
        &mut closed
    } else {
        &mut open
    };
    let exit = protosplit_cli::run_on(
        std::env::args_os(),
        stdout,
        &mut io::stderr(),
        protosplit_cli::Terminal::detect(),
        &interrupt,
    );
    if exit == Exit::Interrupted {
        signals.end();
    }
    exit.into()
}

/// A writer that always fails, for a standard output that was closed when the process started.
/// Rust's runtime replaces a closed standard output with `/dev/null`, so that results would be lost
/// without an error.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("it is closed"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
