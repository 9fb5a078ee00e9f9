//! Logging to standard error: warnings of the libraries and, with `-v`, the stages of their work.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::display_name::by_given_names;
use crate::remote::redacted;
use crate::sanitize::one_line;
use crate::size;

/// Starts logging. If `verbosity` is 0, only warnings are logged, and otherwise also stages and
/// their durations. Only the first call in a process has an effect.
pub(crate) fn show(verbosity: u8) {
    let level = match verbosity {
        0 => LevelFilter::WARN,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let subscriber = Registry::default().with(StageLogger::default().with_filter(level));
    // This fails if the program that runs the command has its own subscriber, which is then kept.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// A logger that prints each stage as a sentence.
#[derive(Default)]
struct StageLogger {
    /// Text of the last warning. A warning with the same text isn't printed again, since a command
    /// may open an input twice.
    warned: Mutex<String>,
}

/// A stage, such as planning or writing, and its measurements.
#[derive(Debug, Default)]
struct Step {
    chunk: Option<u64>,
    chunks: Option<u64>,
    bytes: Option<u64>,
    /// Inputs and parameters of the stage, as text.
    words: Vec<String>,
    begun: Option<Instant>,
    worked: Duration,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for StageLogger {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut step = Step::default();
        attributes.record(&mut step);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(step);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(step) = span.extensions_mut().get_mut::<Step>()
        {
            step.begun = Some(Instant::now());
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(step) = span.extensions_mut().get_mut::<Step>()
            && let Some(begun) = step.begun.take()
        {
            step.worked += begun.elapsed();
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(span) = context.span(&id)
            && let Some(step) = span.extensions().get::<Step>()
        {
            let indent = match *span.metadata().level() {
                Level::TRACE => "  ",
                _ => "",
            };
            tell(&format!("{indent}{}", step.said(span.name())));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = EventText(String::new());
        event.record(&mut said);
        let is_warning = matches!(*event.metadata().level(), Level::ERROR | Level::WARN);
        if !is_warning {
            return tell(&said.0);
        }
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if *warned != said.0 {
            tell(&format!("warning: {}", said.0));
            *warned = said.0;
        }
    }
}

/// Prints one line to standard error, in the same form as errors.
fn tell(line: &str) {
    // If standard error fails, the failure can't be reported.
    let _ = writeln!(
        io::stderr().lock(),
        "protosplit: {}",
        redacted(&by_given_names(line))
    );
}

impl Step {
    /// Describes a stage, for example as `wrote 3 chunks, 146.7 KiB (150241 bytes), in 21.1 ms`.
    fn said(&self, name: &str) -> String {
        let mut said = vec![verb(name).to_owned()];
        if let Some(chunk) = self.chunk {
            said.push(format!(" chunk {chunk},"));
        }
        if let Some(chunks) = self.chunks {
            let chunks = usize::try_from(chunks).unwrap_or(usize::MAX);
            said.push(format!(" {},", size::count(chunks, "chunk")));
        }
        for word in &self.words {
            said.push(format!(" {word},"));
        }
        if let Some(bytes) = self.bytes {
            said.push(format!(" {} ({bytes} bytes),", size::show(bytes)));
        }
        said.push(format!(" in {:.1?}", self.worked));
        one_line(&said.concat())
    }
}

/// Returns the past tense of the verb that describes a stage.
fn verb(name: &str) -> &str {
    match name {
        "plan" => "planned",
        "write" => "wrote",
        "open" => "opened",
        "read" => "read",
        "find" => "found",
        "copy" => "copied",
        "check" => "checked",
        "compress" => "compressed",
        "unpack" => "unpacked",
        "tree" => "measured",
        "hash" => "hashed",
        "fill" => "put in memory",
        "compare bytes" => "compared the bytes of",
        "compare fields" => "compared the fields of",
        other => other,
    }
}

impl Visit for Step {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "chunk" => self.chunk = Some(value),
            "chunks" => self.chunks = Some(value),
            "bytes" => self.bytes = Some(value),
            name => self.words.push(format!("{name} {value}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}");
        match field.name() {
            // The whole message has an empty path.
            "path" if value.is_empty() => self.words.push("the message".into()),
            "path" => self.words.push(value),
            name => self.words.push(format!("{name} {value}")),
        }
    }
}

/// The text of a logged event.
struct EventText(String);

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        match field.name() {
            "message" => self.0.push_str(&one_line(&format!("{value:?}"))),
            name => self.0.push_str(&one_line(&format!("{name}={value:?}"))),
        }
    }
}
