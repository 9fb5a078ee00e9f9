//! A line on the terminal that says how far long work is.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proto_splitter::progress::Progress;

use crate::args::{ProgressArgs, Shown};
use crate::interrupt::Interrupt;
use crate::size;

/// How long work may take before anything is shown, unless it is to be shown always.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often the line changes at the most.
const PACE: Duration = Duration::from_millis(100);

/// The line, which several kinds of work write to in turn.
#[derive(Clone)]
pub(crate) struct Line(Option<Arc<Shared>>);

struct Shared {
    start: Instant,
    patience: Duration,
    last: Mutex<Instant>,
}

impl Line {
    /// The line on the terminal behind standard error, if it is wanted.
    pub(crate) fn new(args: &ProgressArgs) -> Line {
        let (shown, patience) = match args.progress {
            Shown::Auto => (std::io::stderr().is_terminal(), PATIENCE),
            Shown::Always => (true, Duration::ZERO),
            Shown::Never => (false, PATIENCE),
        };
        let start = Instant::now();
        let shared = || Shared {
            start,
            patience,
            last: Mutex::new(start),
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

    /// As [`bytes`](Self::bytes), for work that is stopped by an interrupt.
    pub(crate) fn until(&self, interrupt: &Interrupt, doing: &'static str) -> Progress {
        self.bytes(doing).cancelled_by(interrupt.heed())
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
        let ended = done >= of;
        let Ok(mut last) = self.last.lock() else {
            return;
        };
        if !ended && last.elapsed() < PACE {
            return;
        }
        *last = Instant::now();
        let text = match ended {
            true => String::new(),
            false => text(&doing(), done, of),
        };
        // The terminal being gone is no reason to stop.
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // What comes next begins on an empty line, whether or not the work came to its end.
        if self.last.get_mut().is_ok_and(|last| *last != self.start) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
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
