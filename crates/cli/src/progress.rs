//! A line on the terminal that says how far long work is.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proto_splitter::progress::Progress;

use crate::args::Shown;
use crate::size;

/// How long work may take before anything is shown, unless it is to be shown always.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often the line changes at the most.
const PACE: Duration = Duration::from_millis(100);

/// The line, which several kinds of work write to in turn.
#[derive(Clone, Default)]
pub(crate) struct Line(Option<Arc<Shared>>);

struct Shared {
    start: Instant,
    patience: Duration,
    state: Mutex<State>,
}

struct State {
    /// When the line changed last.
    last: Instant,
    /// Whether something stands on it.
    shown: bool,
    /// Whether nothing is to be shown any more.
    over: bool,
}

impl Line {
    /// The line on the terminal behind standard error, if it is wanted.
    pub(crate) fn new(shown: Shown) -> Line {
        let (shown, patience) = match shown {
            Shown::Auto => (std::io::stderr().is_terminal(), PATIENCE),
            Shown::Always => (true, Duration::ZERO),
            Shown::Never => (false, PATIENCE),
        };
        let start = Instant::now();
        let shared = || Shared {
            start,
            patience,
            state: Mutex::new(State {
                last: start,
                shown: false,
                over: false,
            }),
        };
        Line(shown.then(|| Arc::new(shared())))
    }

    /// Shows how far this work is.
    pub(crate) fn bytes(&self, doing: &'static str) -> Progress {
        match &self.0 {
            None => Progress::default(),
            Some(shared) => {
                let shared = Arc::clone(shared);
                Progress::new(move |done, of| shared.show(done, of, || doing.to_owned()))
            }
        }
    }

    /// Makes room for something else on the terminal.
    pub(crate) fn clear(&self) {
        if let Some(mut state) = self.0.as_ref().and_then(|shared| shared.state.lock().ok()) {
            state.clear();
        }
    }

    /// Makes room, and shows nothing from now on.
    pub(crate) fn end(&self) {
        if let Some(mut state) = self.0.as_ref().and_then(|shared| shared.state.lock().ok()) {
            state.clear();
            state.over = true;
        }
    }

    /// Shows how far the copy of a file is.
    pub(crate) fn copies(&self) -> impl Fn(&Path, u64, u64) + Send + Sync + 'static {
        let line = self.clone();
        move |file, copied, of| {
            if let Some(shared) = &line.0 {
                shared.show(copied, of, || {
                    let name = file.file_name().unwrap_or_default().to_string_lossy();
                    format!("copying {name}")
                });
            }
        }
    }
}

impl Shared {
    fn show(&self, done: u64, of: u64, doing: impl FnOnce() -> String) {
        if self.start.elapsed() < self.patience {
            return;
        }
        let Ok(mut state) = self.state.lock() else {
            return;
        };
        if done >= of {
            state.clear();
        } else if !state.over && (!state.shown || state.last.elapsed() >= PACE) {
            (state.last, state.shown) = (Instant::now(), true);
            write(&text(&doing(), done, of));
        }
    }
}

impl State {
    fn clear(&mut self) {
        if self.shown {
            self.shown = false;
            write("");
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // What comes next begins on an empty line, whether or not the work came to its end.
        if let Ok(state) = self.state.get_mut() {
            state.clear();
        }
    }
}

/// Puts a text in place of the line.
fn write(text: &str) {
    // The terminal being gone is no reason to stop.
    let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
}

fn text(doing: &str, done: u64, of: u64) -> String {
    let percent = u128::from(done) * 100 / u128::from(of.max(1));
    format!("{doing}: {percent}% of {}", size::show(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_done_and_how_far() {
        assert_eq!(
            text("splitting", 3 << 29, 3 << 30),
            "splitting: 50% of 3.0 GiB"
        );
        assert_eq!(text("merging", 0, 0), "merging: 0% of 0 B");
    }
}
