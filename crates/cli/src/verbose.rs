//! What the libraries have to tell about their work, on standard error: warnings, and with `-v` what
//! is done.

use std::fmt;

use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{FmtSpan, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Shows what is done, with how long it took; at verbosity 0 warnings alone. Once per process: the
/// first call counts.
pub(crate) fn show(verbosity: u8) {
    let level = match verbosity {
        0 => {
            let warnings = tracing_subscriber::fmt()
                .with_writer(std::io::stderr)
                .with_max_level(LevelFilter::WARN)
                .event_format(Warning)
                .finish();
            let _ = tracing::subscriber::set_global_default(warnings);
            return;
        }
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

/// One line, as errors are.
struct Warning;

impl<S, N> FormatEvent<S, N> for Warning
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str("protosplit: warning: ")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
