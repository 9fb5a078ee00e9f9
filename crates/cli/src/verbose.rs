//! `-v`: what the libraries have to tell about their work, on standard error.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Shows what is done, with how long it took; nothing at verbosity 0. Once per process: the first
/// call counts.
pub(crate) fn show(verbosity: u8) {
    let level = match verbosity {
        0 => return,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_max_level(level)
        .with_span_events(FmtSpan::CLOSE)
        .finish();
    // Another program that runs the command may have a subscriber of its own.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
